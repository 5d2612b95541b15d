//! What traces count, over all devices.

use std::sync::atomic::{AtomicU64, Ordering};

/// What traces count, over all devices.
#[derive(Debug, Default)]
pub struct TraceCounters {
    /// Bytes of memory that traces hold.
    pub memory_bytes: AtomicU64,
    /// Records that a follower did not take in time.
    pub follower_drops: AtomicU64,
    /// Bytes written to files.
    pub disk_bytes: AtomicU64,
    /// Bytes that the disk did not take in time, or at all.
    pub disk_dropped_bytes: AtomicU64,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Takes from a counter.
pub(super) fn sub(counter: &AtomicU64, count: usize) {
    counter.fetch_sub(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// What a counter says.
#[must_use]
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
