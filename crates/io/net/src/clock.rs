//! The only clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_core::{Instant, Now, Timestamp};

/// Reads both clocks. Copies share the start, so instants of different shards compare.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: tokio::time::Instant,
    /// What the wall clock said at the start, in µs, where the system's is not to be asked.
    wall: Option<&'static AtomicI64>,
}

impl Clock {
    /// A clock whose monotonic side starts here.
    #[must_use]
    pub fn start() -> Self {
        Self { start: tokio::time::Instant::now(), wall: None }
    }

    /// A clock whose wall clock is given, for runs in virtual time: what it said at the start, in µs since 1970. To change the
    /// number is to set the wall clock.
    #[must_use]
    pub fn start_with(wall: &'static AtomicI64) -> Self {
        Self { wall: Some(wall), ..Self::start() }
    }

    /// Both clocks.
    #[must_use]
    pub fn now(self) -> Now {
        let since_start = self.start.elapsed();
        if let Some(wall) = self.wall {
            let passed = i64::try_from(since_start.as_micros()).unwrap_or(i64::MAX);
            let utc = Timestamp::from_micros(wall.load(Ordering::Relaxed).saturating_add(passed));
            return Now { mono: Instant::ZERO + since_start, utc };
        }
        let since_1970 = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        };
        Now { mono: Instant::ZERO + since_start, utc: Timestamp::from_micros(since_1970) }
    }

    /// The runtime's name for `instant`.
    #[must_use]
    pub fn at(self, instant: Instant) -> tokio::time::Instant {
        const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
        self.start + instant.since(Instant::ZERO).min(FAR)
    }
}
