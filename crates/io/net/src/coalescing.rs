//! Coalescing of wake-ups (adaptive polling): a busy thread waits a moment before it asks the kernel for more.
//!
//! A thread that takes each message as it comes is woken for each, and wakes its receivers for each. One that is
//! at work most of the time lets a moment pass from one look to the next: what has come meanwhile is done together, and
//! costs less. A thread that is idle half of the time never waits.
//!
//! ```text
//! look to look, at least
//!   GAP_MAX ┤              ╭──────
//!           │           ╭──╯
//!         0 ┼───────────╯
//!           0          1/2   9/10   share of the time at work
//! ```

use std::cell::Cell;
use std::time::Duration;

/// The longest time from one look to the next that a thread waits for by itself.
pub(crate) const GAP_MAX: Duration = Duration::from_micros(300);
/// How busy a thread is is read off over so long.
const STRETCH: Duration = Duration::from_millis(10);

/// Waits that have gathered nothing are not tried again for so long, and each time for twice as long, up to the second value.
const RETRY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

thread_local! {
    /// What has come to this thread since it last rested.
    static ARRIVALS: Cell<u32> = const { Cell::new(0) };
}

/// Something has come to this thread.
pub(crate) fn arrived() {
    ARRIVALS.set(ARRIVALS.get().saturating_add(1));
}

/// How much has come to this thread since this was last asked.
pub(crate) fn take_arrivals() -> u32 {
    ARRIVALS.take()
}

/// How a thread waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The share of the time at work from which on it waits, and from which on for the whole gap.
    busy: [f64; 2],
    /// Work that is to come together in one gap, where that takes longer than [`GAP_MAX`].
    worth: Duration,
    /// The longest gap.
    gap_max: Duration,
    /// What a look after a wait must find on average; where it finds less, as with one message at a time whose sender waits for
    /// the answer, waits cost time and spare nothing.
    arrivals_min: f64,
}

/// A thread that writes to sockets itself.
pub(crate) const WRITER: Pace = Pace { busy: [0.5, 0.9], worth: Duration::ZERO, gap_max: GAP_MAX, arrivals_min: 0.0 };
/// A thread that gives what it has to others, which write: it costs them a wake each time.
pub(crate) const GIVER: Pace = Pace { busy: [0.05, 0.25], worth: Duration::ZERO, gap_max: GAP_MAX, arrivals_min: 0.0 };
/// A thread that does the writes of another, one of several. A look costs it some 10 µs, so a tenth of the work that is worth one;
/// what is urgent ends its wait.
pub(crate) const SERVER: Pace = Pace {
    busy: [0.03, 0.1],
    worth: Duration::from_micros(100),
    gap_max: Duration::from_micros(800),
    arrivals_min: 1.3,
};

/// When one thread looks. Times are those of one clock, whatever its start.
#[derive(Debug)]
pub(crate) struct Coalescing {
    pace: Pace,
    /// When it last had something to do.
    woke: Duration,
    /// When the present stretch began, and the time at work since.
    began: Duration,
    worked: Duration,
    gap: Duration,
    /// Looks after a wait in this stretch that found something, and what they found.
    looks: u32,
    arrivals: u32,
    /// No wait before then, and for how long the next time that waits are in vain.
    retry: Duration,
    backoff: Duration,
}

impl Coalescing {
    /// One of a thread that waits from such a share on.
    pub(crate) const fn new(pace: Pace) -> Self {
        let zero = Duration::ZERO;
        let [backoff, _] = RETRY;
        Self { pace, woke: zero, began: zero, worked: zero, gap: zero, looks: 0, arrivals: 0, retry: zero, backoff }
    }

    /// The thread has something to do.
    pub(crate) const fn wake(&mut self, now: Duration) {
        self.woke = now;
    }

    /// The thread has done all, so many arrivals among it; how long it is to wait before it looks for more.
    pub(crate) fn rest(&mut self, now: Duration, arrivals: u32) -> Duration {
        self.worked += now.saturating_sub(self.woke);
        if arrivals > 0 {
            self.looks += 1;
            self.arrivals += arrivals;
        }
        let stretch = now.saturating_sub(self.began);
        if stretch >= STRETCH {
            self.judge(now);
            let gap = self.pace.gap(self.worked.div_duration_f64(stretch));
            self.gap = if now < self.retry { Duration::ZERO } else { gap };
            (self.began, self.worked) = (now, Duration::ZERO);
            (self.looks, self.arrivals) = (0, 0);
        }
        (self.woke + self.gap).saturating_sub(now)
    }

    /// Whether the waits of the stretch that is over have gathered anything.
    fn judge(&mut self, now: Duration) {
        if self.gap.is_zero() || self.looks == 0 {
            return;
        }
        let [first, last] = RETRY;
        if f64::from(self.arrivals) < self.pace.arrivals_min * f64::from(self.looks) {
            self.retry = now + self.backoff;
            self.backoff = (self.backoff * 2).min(last);
        } else {
            self.backoff = first;
        }
    }
}

impl Pace {
    /// How long it is from one look to the next where the thread is at work for this share of the time.
    fn gap(&self, share: f64) -> Duration {
        let [from, to] = self.busy;
        let part = ((share - from) / (to - from)).clamp(0.0, 1.0);
        if part == 0.0 {
            return Duration::ZERO;
        }
        self.worth.div_f64(share).clamp(GAP_MAX, self.gap_max).mul_f64(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a thread work so many microseconds at a time, each so long after it looked; returns what it waits in the end.
    fn waits(work_us: u64, idle_us: u64) -> Duration {
        let (mut coalescing, mut now) = (Coalescing::new(WRITER), Duration::ZERO);
        let mut rest = Duration::ZERO;
        for _ in 0..1000 {
            coalescing.wake(now);
            now += Duration::from_micros(work_us);
            rest = coalescing.rest(now, 1);
            // Without the wait: how long it is for this share, not what it settles at.
            now += Duration::from_micros(idle_us);
        }
        rest
    }

    #[test]
    fn the_busier_a_thread_is_the_longer_it_waits() {
        for (work_us, idle_us, expect_us) in [
            (0, 1000, 0),
            (10, 90, 0),
            (50, 50, 0),
            (60, 40, 15),
            (70, 30, 80),
            (90, 10, 210),
            (100, 0, 200),
            (299, 1, 1),
        ] {
            let waited = waits(work_us, idle_us).as_secs_f64() * 1e6;
            assert!((waited - f64::from(expect_us)).abs() < 1.0, "{work_us} of {}: {waited}", work_us + idle_us);
        }
    }

    #[test]
    fn a_look_is_worth_its_cost() {
        for (pace, share, expect_us) in [
            (WRITER, 0.5, 0),
            (WRITER, 1.0, 300),
            (GIVER, 0.15, 150),
            (GIVER, 1.0, 300),
            (SERVER, 0.0, 0),
            (SERVER, 0.03, 0),
            (SERVER, 0.065, 400),
            (SERVER, 0.1, 800),
            (SERVER, 0.2, 500),
            (SERVER, 0.5, 300),
            (SERVER, 1.0, 300),
        ] {
            let gap = pace.gap(share).as_secs_f64() * 1e6;
            assert!((gap - f64::from(expect_us)).abs() < 1.0, "{share} of {pace:?}: {gap}");
        }
    }

    /// The share of rests with a wait, of a thread that is a fifth of its time at work and finds so many things at a look.
    fn share_of_waits(arrivals: u32) -> f64 {
        let (mut coalescing, mut now, mut waits) = (Coalescing::new(SERVER), Duration::ZERO, 0);
        for _ in 0..10_000 {
            coalescing.wake(now);
            now += Duration::from_micros(200);
            let wait = coalescing.rest(now, arrivals);
            waits += u32::from(!wait.is_zero());
            now += wait.max(Duration::from_micros(800));
        }
        f64::from(waits) / 1e4
    }

    #[test]
    fn waits_that_gather_nothing_are_given_up() {
        assert!(share_of_waits(1) < 0.03, "{}", share_of_waits(1));
        assert!(share_of_waits(2) > 0.98, "{}", share_of_waits(2));
    }

    #[test]
    fn what_took_longer_than_the_gap_is_followed_by_no_wait() {
        assert_eq!(waits(5000, 0), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_was_idle_does_not_wait() {
        let (mut coalescing, mut now) = (Coalescing::new(WRITER), Duration::ZERO);
        for _ in 0..1000 {
            coalescing.wake(now);
            now += Duration::from_micros(100);
            coalescing.rest(now, 1);
        }
        let step = Duration::from_micros(5);
        coalescing.wake(now);
        assert!(!coalescing.rest(now + step, 1).is_zero(), "it was busy");
        now += Duration::from_secs(1);
        coalescing.wake(now);
        assert_eq!(coalescing.rest(now + step, 1), Duration::ZERO);
    }
}
