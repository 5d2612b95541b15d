//! The state of the ledger as operators see it.

use super::losses::Lost;
use std::time::Duration;

/// How the ledger does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LedgerState {
    /// There is none.
    #[default]
    Off,
    /// What is acknowledged is on the disk.
    Good,
    /// The disk is full or fails: nothing is acknowledged.
    Failing {
        /// Whether there is no space left.
        full: bool,
        /// In the system's words.
        why: String,
    },
    /// A batch has been on its way to the disk for longer than [`tieline_history::HUNG_AFTER`]: nothing is
    /// acknowledged.
    Hung {
        /// For how long.
        age: Duration,
    },
    /// The disk goes on, and does not hold all yet.
    Mending,
}

impl LedgerState {
    /// A word for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Good => "ok",
            Self::Failing { full: true, .. } => "disk_full",
            Self::Failing { full: false, .. } => "failed",
            Self::Hung { .. } => "hung",
            Self::Mending => "mending",
        }
    }

    /// What is wrong, in words; none where nothing is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Off | Self::Good => None,
            Self::Failing { full: true, .. } => {
                Some("disk_full: no space is left: what has to be kept is refused".to_owned())
            }
            Self::Failing { full: false, why } => Some(format!("failed: {why}: what has to be kept is refused")),
            Self::Hung { age } => {
                Some(format!("hung: the disk has not answered for {} s: what has to be kept is refused", age.as_secs()))
            }
            Self::Mending => Some("mending: the disk does not hold all yet".to_owned()),
        }
    }
}

/// What operators see of the ledger.
#[derive(Clone, Debug, Default)]
pub struct LedgerStatus {
    /// How it does.
    pub state: LedgerState,
    /// Bytes of the journal.
    pub bytes: u64,
    /// Bytes that wait for the disk.
    pub waiting_bytes: usize,
    /// Batches on the disk since the start.
    pub batches: u64,
    /// Changes written since the start.
    pub changes: u64,
    /// Acknowledgements that could not be given: the client that waited was told.
    pub refused: u64,
    /// Compactions that were finished.
    pub compactions: u64,
    /// How long the last batch took.
    pub last: Duration,
    /// How long the batch has taken so far that is on its way; none is zero.
    pub under_way: Duration,
    /// What could not be read at the start.
    pub lost: Option<Lost>,
    /// Times that a batch took longer than [`tieline_history::HUNG_AFTER`].
    pub hung: u64,
}
