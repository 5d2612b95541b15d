//! What the owner of a history decides.

use crate::store::Retention;
use std::time::Duration;
use tieline_journal::Limits;

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
    /// Samples that the store has in memory, in bytes: they become chunks when there are more.
    pub memory_bytes: usize,
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
    /// A record of the journal ends with the update that reaches this, in bytes, roughly.
    pub record_bytes: usize,
}

impl HistoryOptions {
    /// Bytes of the journal beyond which the store is to need less of it, so that it is not full, and soon read at the next start.
    pub(crate) fn journal_kept(&self) -> u64 {
        let Limits { segment_bytes, total_bytes, .. } = self.journal;
        // It lets go of whole segments.
        let segments = 2 * segment_bytes.min(total_bytes / 4);
        (total_bytes / 2).min(4 * self.memory_bytes as u64).max(segments)
    }

    /// A file of chunks ends with the write that reaches this, in bytes. Retention removes whole files.
    pub(crate) fn file_bytes(&self) -> u64 {
        let by_retention = self.retention.bytes.map_or(u64::MAX, |bytes| bytes / 8);
        by_retention.clamp(1 << 20, 64 << 20)
    }
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            journal: Limits::default(),
            retention: Retention::default(),
            memory_bytes: 64 << 20,
            queue_points_max: 200_000,
            queue_bytes_max: 64 << 20,
            retry: Duration::from_secs(1),
            retain_every: Duration::from_secs(10),
            close_patience: Duration::from_secs(2),
            record_bytes: 1 << 20,
        }
    }
}
