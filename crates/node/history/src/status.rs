//! How the history is doing, for health and metrics.

use crate::forward::{DatabaseStatus, ForwardNotes};
use crate::queue::lock;
use crate::running::RunningInstant;
use crate::store::{ByRules, Deleted, Deletion, Migration, Size};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tieline_core::Histogram;
use tieline_journal::{Counters, Seq};
use tracing::{info, warn};

/// How long the store may be behind before that is said.
const BEHIND_MAX: Duration = Duration::from_secs(2);

/// A disk that has not answered for so long does not work.
pub const HUNG_AFTER: Duration = Duration::from_secs(5);

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
    /// A write has been on its way to the disk for longer than [`HUNG_AFTER`]: nothing is acknowledged until it is back.
    Hung {
        /// For how long.
        age: Duration,
    },
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
            Self::Hung { .. } => "hung",
            Self::Failed { .. } => "failed",
        }
    }
}

impl fmt::Display for HistoryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { why } => write!(f, "failed: {why}"),
            Self::Hung { age } => write!(f, "hung: the disk has not answered for {} s", age.as_secs()),
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
    /// The last journal record whose samples can be read.
    pub stored: Seq,
    /// The last journal record that the store does not need the journal for.
    pub released: Seq,
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
    /// Samples that were deleted because somebody asked for it.
    pub deleted_samples: u64,
    /// All journal segments together.
    pub journal_bytes: u64,
    /// Those of the segments that are kept for databases alone.
    pub journal_kept_bytes: u64,
    /// The first journal record that there is.
    pub journal_first: Seq,
    /// How many segments there are.
    pub journal_segments: usize,
    /// What the journal did.
    pub journal: Counters,
    /// The store on disk, without the log of its index.
    pub store_bytes: u64,
    /// Samples in memory, in bytes.
    pub memory_bytes: u64,
    /// Chunks of samples written.
    pub chunks: u64,
    /// Bytes of chunks and of day files written.
    pub chunk_bytes: u64,
    /// Days that were closed.
    pub closed_days: u64,
    /// What rules of retention did.
    pub rules: ByRules,
    /// How far what an earlier release stored was moved; none where nothing is to be moved.
    pub migration: Option<Migration>,
    /// How long writes and syncs of the journal took.
    pub syncs: Histogram,
    /// How long batches took that the store was given.
    pub store_batches: Histogram,
    /// How long the write has taken so far that is on its way to the journal or the store; none is zero.
    pub under_way: Duration,
    /// Times that a write took longer than [`HUNG_AFTER`].
    pub hung: u64,
    /// Other people's databases.
    pub databases: Vec<DatabaseStatus>,
}

impl HistoryStatus {
    pub(crate) const fn take_size(&mut self, size: Size) {
        self.store_bytes = size.disk_bytes;
        self.memory_bytes = size.memory_bytes;
        self.chunks = size.chunks;
        self.chunk_bytes = size.written_bytes;
        self.closed_days = size.closed_days;
        self.rules = size.rules;
    }

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
    /// The journal record up to which the journal let go of what it had.
    pub(crate) let_go: Seq,
    /// The journal thread has ended.
    pub(crate) journal_done: bool,
    /// The store thread has ended.
    pub(crate) store_done: bool,
    /// What was durable at a moment, to see how long the store takes to have it.
    mark: Option<(RunningInstant, Seq)>,
    /// Since when a write is on its way to the journal, and to the store.
    under_way: [Option<RunningInstant>; 2],
    /// Whether it was said that one of them takes too long.
    hung: bool,
    /// Whether the journal has reached its size.
    pub(crate) journal_full: bool,
    /// The last record that was durable when the journal was opened.
    pub(crate) opened: Seq,
    /// The store has read all of those records.
    pub(crate) caught_up: bool,
    /// What those note that write to databases.
    pub(crate) forwarding: Vec<ForwardNotes>,
    /// The first journal record that each other reader wants, and whether it is never given up.
    pub(crate) feeds: Vec<(Seq, bool)>,
    /// How many of their threads run.
    pub(crate) forwarders: usize,
    /// Deletions that wait for the store.
    pub(crate) deletions: VecDeque<Asked>,
    /// Who waits for days to be closed; they are told how many.
    pub(crate) closings: Vec<SyncSender<Result<u64, String>>>,
}

/// A deletion that was asked for.
pub(crate) struct Asked {
    pub(crate) what: Deletion,
    /// The last record of the segment of the journal that was ended for it; none before it was.
    pub(crate) upto: Option<Seq>,
    pub(crate) answer: SyncSender<Result<Deleted, String>>,
}

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Disk {
    Journal,
    Store,
}

impl Notes {
    /// The first journal record that another reader wants; all where that is not known.
    pub(crate) fn wanted(&self) -> Seq {
        let databases = self.forwarding.iter().map(|notes| notes.wanted);
        databases.chain(self.feeds.iter().map(|(wanted, _)| *wanted)).min().unwrap_or_default()
    }

    /// What the journal may let go of: nothing that a reader wants whose records are never given up.
    pub(crate) fn held_back(&self, released: Seq) -> Seq {
        let held = self.feeds.iter().filter(|(_, is_held)| *is_held).map(|(wanted, _)| wanted.previous());
        held.fold(released, Seq::min)
    }

    /// Whether a deletion can be done once the store has the records before it.
    pub(crate) fn deletes(&self) -> bool {
        self.deletions.front().is_some_and(|asked| asked.upto.is_some())
    }

    /// How long a write has been on its way to the disk. Says so once where that is too long, and when it is over.
    fn look(&mut self, now: RunningInstant) -> [Option<Duration>; 2] {
        let ages = self.under_way.map(|since| Some(now.since(since?)));
        let longest = ages.iter().flatten().max().copied().unwrap_or_default();
        let hung = longest >= HUNG_AFTER;
        if hung != self.hung {
            self.hung = hung;
            self.status.hung += u64::from(hung);
            if hung {
                warn!(seconds = longest.as_secs(), "the disk of the history does not answer");
            } else {
                info!("the disk of the history answers again");
            }
        }
        ages
    }
}

impl Board {
    /// Changes the notes and wakes who waits for them.
    pub(crate) fn note<T>(&self, change: impl FnOnce(&mut Notes) -> T) -> T {
        let mut notes = lock(&self.inner);
        let done = change(&mut notes);
        let (stored, durable) = (notes.status.stored, notes.status.durable);
        if notes.mark.is_none_or(|(_, mark)| stored >= mark) {
            notes.mark = (stored < durable).then(|| (RunningInstant::now(), durable));
        }
        drop(notes);
        self.changed.notify_all();
        done
    }

    /// Waits until both threads have ended (true), or the disk does not answer.
    pub(crate) fn wait_closed(&self, mut ended: impl FnMut() -> bool) -> bool {
        const LOOK_EVERY: Duration = Duration::from_millis(100);
        loop {
            let both = |notes: &Notes| notes.journal_done && notes.store_done;
            if self.wait(LOOK_EVERY, both, both) || ended() {
                return true;
            }
            if self.status().under_way >= HUNG_AFTER {
                return false;
            }
        }
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

    /// A write to the disk begins (true), or has come back.
    pub(crate) fn write(&self, disk: Disk, begins: bool) {
        let mut notes = lock(&self.inner);
        let now = RunningInstant::now();
        notes.look(now);
        let [journal, store] = &mut notes.under_way;
        let since = match disk {
            Disk::Journal => journal,
            Disk::Store => store,
        };
        *since = begins.then_some(now);
        notes.look(now);
    }

    /// Whether the journal takes what is given to it now, as far as is known.
    pub(crate) fn takes(&self) -> bool {
        let mut notes = lock(&self.inner);
        let [journal, _] = notes.look(RunningInstant::now());
        notes.journal_trouble.is_none() && !notes.journal_full && journal.is_none_or(|age| age < HUNG_AFTER)
    }

    pub(crate) fn status(&self) -> HistoryStatus {
        let mut notes = lock(&self.inner);
        let ages = notes.look(RunningInstant::now());
        let under_way = ages.into_iter().flatten().max().unwrap_or_default();
        let mut status = HistoryStatus { under_way, ..notes.status.clone() };
        let (first, durable) = (status.journal_first, status.durable);
        status.databases = notes.forwarding.iter().map(|database| database.look(first, durable)).collect();
        let behind = notes.mark.is_some_and(|(since, _)| since.elapsed() > BEHIND_MAX);
        status.state = match (&notes.journal_trouble, &notes.store_trouble) {
            (Some(trouble), _) => trouble.clone(),
            _ if under_way >= HUNG_AFTER => HistoryState::Hung { age: under_way },
            (None, Some(trouble)) => trouble.clone(),
            (None, None) if behind => HistoryState::CatchingUp,
            (None, None) => HistoryState::Ok,
        };
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_does_not_come_back_is_a_failing_disk() {
        let board = Board::default();
        assert!(board.takes() && board.status().state == HistoryState::Ok);
        board.write(Disk::Journal, true);
        assert!(board.takes() && board.status().state == HistoryState::Ok);
        let long_ago = Some(RunningInstant::now() - HUNG_AFTER);
        lock(&board.inner).under_way = [long_ago, None];
        let status = board.status();
        assert!(matches!(status.state, HistoryState::Hung { age } if age >= HUNG_AFTER), "{status:?}");
        assert!(status.under_way >= HUNG_AFTER && status.hung == 1 && !board.takes());
        // What waits for the store is in the journal: it is acknowledged.
        lock(&board.inner).under_way = [None, long_ago];
        assert!(board.takes() && board.status().state.name() == "hung");
        board.write(Disk::Store, false);
        let status = board.status();
        assert_eq!((status.state, status.under_way, status.hung), (HistoryState::Ok, Duration::ZERO, 1));
    }
}
