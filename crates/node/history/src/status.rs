//! How the history is doing, for health and metrics.

use crate::queue::lock;
use std::fmt;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tieline_journal::{Counters, Seq};

/// How long the store may be behind before that is said.
const BEHIND_MAX: Duration = Duration::from_secs(2);

/// The state in one word, worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HistoryState {
    /// Everything acknowledged is in the store, or will be in a moment.
    #[default]
    Ok,
    /// The store takes what the journal holds, and is behind.
    CatchingUp,
    /// No space is left: nothing is acknowledged; goes on by itself when there is space.
    DiskFull,
    /// The disk or a file failed: nothing is acknowledged; tries again.
    Failed {
        /// In the system's words.
        why: String,
    },
}

impl HistoryState {
    /// The word in health and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::CatchingUp => "catching_up",
            Self::DiskFull => "disk_full",
            Self::Failed { .. } => "failed",
        }
    }
}

impl fmt::Display for HistoryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { why } => write!(f, "failed: {why}"),
            Self::Ok | Self::CatchingUp | Self::DiskFull => f.write_str(self.name()),
        }
    }
}

/// A snapshot. Counts begin with the process.
#[derive(Clone, Debug, Default)]
pub struct HistoryStatus {
    /// In one word.
    pub state: HistoryState,
    /// The last journal record that survives a power cut.
    pub durable: Seq,
    /// The last journal record that is in the store.
    pub stored: Seq,
    /// Updates that wait for the journal.
    pub queued_points: usize,
    /// Updates that the journal made durable.
    pub journaled_points: u64,
    /// Updates that the store took.
    pub stored_points: u64,
    /// Updates without a receipt that were not recorded.
    pub dropped_points: u64,
    /// Updates whose receipt said that they were not recorded.
    pub refused_points: u64,
    /// Journal records that could not be read again: damage, or dropped by the journal's policy.
    pub lost_records: u64,
    /// Journal records whose contents no release at hand can read.
    pub unreadable_records: u64,
    /// Stretches of the journal that held no record when it was opened: torn tails and damage.
    pub damage_found: u64,
    /// Samples that retention removed.
    pub removed_samples: u64,
    /// All journal segments together.
    pub journal_octets: u64,
    /// How many segments there are.
    pub journal_segments: usize,
    /// What the journal did.
    pub journal: Counters,
    /// The store on disk, without its log.
    pub store_octets: u64,
    /// How long the last write and sync of the journal took.
    pub last_sync: Duration,
}

impl HistoryStatus {
    /// Journal records that the store has not taken.
    #[must_use]
    pub const fn backlog_records(&self) -> u64 {
        self.durable.since(self.stored)
    }
}

/// What the threads tell each other and the world.
#[derive(Default)]
pub(crate) struct Board {
    inner: Mutex<Notes>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) status: HistoryStatus,
    pub(crate) journal_trouble: Option<HistoryState>,
    pub(crate) store_trouble: Option<HistoryState>,
    /// The journal thread has ended.
    pub(crate) journal_done: bool,
    /// The store thread has ended.
    pub(crate) store_done: bool,
    /// What was durable at a moment, to see how long the store takes to have it.
    mark: Option<(Instant, Seq)>,
}

impl Board {
    /// Changes the notes and wakes who waits for them.
    pub(crate) fn note<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        let mut notes = lock(&self.inner);
        let done = change(&mut notes);
        let (stored, durable) = (notes.status.stored, notes.status.durable);
        if notes.mark.is_none_or(|(_, mark)| stored >= mark) {
            notes.mark = (stored < durable).then(|| (Instant::now(), durable));
        }
        drop(notes);
        self.changed.notify_all();
        done
    }

    /// Waits until `ready`, or for `patience`; then looks.
    pub(crate) fn wait<T>(
        &self,
        patience: Duration,
        mut ready: impl FnMut(&Notes) -> bool,
        look: impl FnOnce(&Notes) -> T,
    ) -> T {
        let notes = lock(&self.inner);
        let (notes, _) = self
            .changed
            .wait_timeout_while(notes, patience, |notes| !ready(notes))
            .unwrap_or_else(PoisonError::into_inner);
        look(&notes)
    }

    pub(crate) fn status(&self) -> HistoryStatus {
        let notes = lock(&self.inner);
        let mut status = notes.status.clone();
        let behind = notes.mark.is_some_and(|(since, _)| since.elapsed() > BEHIND_MAX);
        status.state = match (&notes.journal_trouble, &notes.store_trouble) {
            (Some(trouble), _) | (None, Some(trouble)) => trouble.clone(),
            (None, None) if behind => HistoryState::CatchingUp,
            (None, None) => HistoryState::Ok,
        };
        status
    }
}
