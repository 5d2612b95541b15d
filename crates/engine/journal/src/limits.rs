//! What a journal may take, and what happens beyond it.

use crate::segment::RECORD_BYTES_MAX;

/// What a journal may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A segment ends with the write that reaches this, in bytes; at most a quarter of `total_bytes`, and of `kept_bytes` where it is set.
    pub segment_bytes: u64,
    /// All segments together, in bytes.
    pub total_bytes: u64,
    /// What happens to the record that does not fit any more.
    pub when_full: WhenFull,
    /// Bytes in memory that are not durable; beyond it records are refused until a sync.
    pub unsynced_bytes: usize,
    /// Released segments that other readers want ([`Journal::want`](crate::Journal::want)), in bytes beside `total_bytes`; beyond it, and when the storage is
    /// full, the oldest of them are removed.
    pub kept_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            total_bytes: 1 << 30,
            when_full: WhenFull::Refuse,
            unsynced_bytes: 2 * RECORD_BYTES_MAX,
            kept_bytes: 0,
        }
    }
}

impl Limits {
    /// The same with segments of which each limit has several.
    pub(crate) fn of_segments(self) -> Self {
        let least = if self.kept_bytes > 0 { self.total_bytes.min(self.kept_bytes) } else { self.total_bytes };
        Self { segment_bytes: self.segment_bytes.min(least / 4), ..self }
    }
}

/// The policy of a journal that has reached its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// New records are refused and counted: what is held is worth more.
    #[default]
    Refuse,
    /// The oldest segment is removed and its unread records are counted: what is new is worth more.
    DropOldest,
}
