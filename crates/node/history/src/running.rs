//! The time in which this process ran. A process that is stopped (SIGSTOP, a frozen container, a suspended virtual machine) waits
//! for no disk, though its monotonic clock may go on: the time from one beat to the next counts as two seconds at most.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the time is counted.
const BEAT: Duration = Duration::from_secs(1);
/// What counts of the time since the last beat: the rest, nothing ran.
const GAP_MAX: Duration = Duration::from_secs(2);
/// What the time begins with, so that there is a moment before the first.
const START: Duration = Duration::from_secs(60);

/// A moment, in the time in which the process ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningInstant(Duration);

impl RunningInstant {
    /// This moment. The first call starts the thread that counts.
    #[must_use]
    pub fn now() -> Self {
        static CLOCK: LazyLock<Mutex<Clock>> = LazyLock::new(|| {
            // Without a thread, the time counts where somebody looks: a disk is then told slow too late, not too early.
            let _ = std::thread::Builder::new().name("running".to_owned()).spawn(|| {
                loop {
                    std::thread::sleep(BEAT);
                    let _ = RunningInstant::now();
                }
            });
            Mutex::new(Clock { counted: START, last: Instant::now() })
        });
        Self(CLOCK.lock().unwrap_or_else(PoisonError::into_inner).count(Instant::now()))
    }

    /// The time in which the process ran since then.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// The time from another moment to this one; zero where that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

struct Clock {
    counted: Duration,
    last: Instant,
}

impl Clock {
    fn count(&mut self, now: Instant) -> Duration {
        self.counted += now.saturating_duration_since(self.last).min(GAP_MAX);
        self.last = self.last.max(now);
        self.counted
    }
}

#[cfg(test)]
impl std::ops::Sub<Duration> for RunningInstant {
    type Output = Self;
    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_nothing_ran_does_not_count() {
        let began = Instant::now();
        let mut clock = Clock { counted: Duration::ZERO, last: began };
        let mut counted_at = |ms| clock.count(began + Duration::from_millis(ms)).as_millis();
        assert_eq!([300, 1300, 2300].map(&mut counted_at), [300, 1300, 2300]);
        // Stopped for a minute.
        assert_eq!([62_300, 62_400, 63_300].map(&mut counted_at), [4300, 4400, 5300]);
        assert_eq!(counted_at(63_000), 5300, "two threads");
        assert!(RunningInstant::now() <= RunningInstant::now());
        assert!((RunningInstant::now() - BEAT).elapsed() >= BEAT);
    }
}
