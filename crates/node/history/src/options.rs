//! What the owner of a history decides.

use std::time::Duration;
use tieline_journal::Limits;
use tieline_store::Retention;

/// When a batch is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It was written: it survives the end of the process.
    Written,
    /// It was synced: it survives a power cut.
    #[default]
    Synced,
}

/// How history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryOptions {
    /// When a batch is acknowledged.
    pub durability: Durability,
    /// What the journal may take.
    pub journal: Limits,
    /// What the store keeps.
    pub retention: Retention,
    /// Updates that may wait for the journal; beyond it batches are refused, or dropped where nobody waits for them.
    pub queue_points_max: usize,
    /// The same in bytes, roughly.
    pub queue_bytes_max: usize,
    /// How long after a failure it is tried again.
    pub retry: Duration,
    /// How often the store looks for what is too old.
    pub retain_every: Duration,
    /// How long closing goes on moving what the journal holds into the store; the journal keeps the rest.
    pub close_patience: Duration,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            journal: Limits::default(),
            retention: Retention::default(),
            queue_points_max: 200_000,
            queue_bytes_max: 64 << 20,
            retry: Duration::from_secs(1),
            retain_every: Duration::from_secs(10),
            close_patience: Duration::from_secs(2),
        }
    }
}
