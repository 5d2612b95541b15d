//! The only clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_core::{Instant, Now, Timestamp};

/// Reads both clocks. Copies share the start, so instants of different shards compare.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    /// A clock whose monotonic side starts here.
    #[must_use]
    pub fn start() -> Self {
        Self { start: tokio::time::Instant::now() }
    }

    /// Both clocks.
    #[must_use]
    pub fn now(self) -> Now {
        let since_1970 = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        };
        Now { mono: Instant::ZERO + self.start.elapsed(), utc: Timestamp::from_micros(since_1970) }
    }

    /// The runtime's name for `instant`.
    #[must_use]
    pub fn at(self, instant: Instant) -> tokio::time::Instant {
        const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
        self.start + instant.since(Instant::ZERO).min(FAR)
    }
}
