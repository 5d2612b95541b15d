//! How history is doing, for people and for programs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// In one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryState {
    /// All is stored.
    #[default]
    Ok,
    /// The journal takes everything, and the store is behind.
    CatchingUp,
    /// No space is left: nothing is recorded until there is.
    DiskFull,
    /// The disk fails.
    Failed,
}

impl HistoryState {
    /// The word in the API and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::CatchingUp => "catching_up",
            Self::DiskFull => "disk_full",
            Self::Failed => "failed",
        }
    }
}

/// One look at history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryStatus {
    /// In one word.
    pub state: HistoryState,
    /// Why, where it is not well.
    pub detail: String,
    /// Samples in the journal that the store has not taken, of those that came since the start.
    pub backlog: u64,
    /// Samples that the store took since the start.
    pub stored: u64,
    /// Samples that could not be recorded.
    pub lost: u64,
    /// Octets of the journal.
    pub journal_octets: u64,
}

/// Samples behind which the store counts as catching up.
const BEHIND: u64 = 100_000;

/// What the threads tell, and anyone may read.
#[derive(Debug, Default)]
pub struct Board {
    pub journaled: AtomicU64,
    pub stored: AtomicU64,
    pub lost: AtomicU64,
    pub journal_octets: AtomicU64,
    /// The last journal record that the store has.
    pub position: AtomicU64,
    /// What ails the journal, and what ails the store.
    ails: Mutex<[Option<Ailment>; 2]>,
}

/// Whose trouble.
#[derive(Clone, Copy, Debug)]
pub enum Organ {
    Journal,
    Store,
}

/// A trouble that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ailment {
    pub full: bool,
    pub detail: String,
}

impl Board {
    pub fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sets or clears a trouble; logged when it changes.
    pub fn set(&self, organ: Organ, ailment: Option<Ailment>) {
        let mut ails = self.ails.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match organ {
            Organ::Journal => &mut ails[0],
            Organ::Store => &mut ails[1],
        };
        match (&*slot, &ailment) {
            (Some(old), Some(new)) if old == new => return,
            (None, None) => return,
            (_, Some(new)) => tracing::error!(part = ?organ, full = new.full, detail = new.detail, "history is in trouble"),
            (Some(_), None) => tracing::info!(part = ?organ, "history is well again"),
        }
        *slot = ailment;
    }

    /// One look at everything.
    pub fn look(&self) -> HistoryStatus {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (journaled, stored) = (load(&self.journaled), load(&self.stored));
        let backlog = journaled.saturating_sub(stored);
        let ails = self.ails.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (state, detail) = match ails.into_iter().flatten().next() {
            Some(Ailment { full: true, detail }) => (HistoryState::DiskFull, detail),
            Some(Ailment { full: false, detail }) => (HistoryState::Failed, detail),
            None if backlog > BEHIND => (HistoryState::CatchingUp, format!("{backlog} samples wait for the store")),
            None => (HistoryState::Ok, String::new()),
        };
        let (lost, journal_octets) = (load(&self.lost), load(&self.journal_octets));
        HistoryStatus { state, detail, backlog, stored, lost, journal_octets }
    }
}
