//! The deadlines of a master, in one table.

use tieline_core::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next fragment of a response.
    Response,
    /// The link's answer to a request for its status.
    Probe,
    /// The owner's release of a solicited confirm: other requests wait for it.
    Held,
    /// The next try of a duty that failed.
    Retry,
    /// The next integrity poll while IIN2.3 stays up.
    Overflow,
}

impl Timer {
    const ALL: [Self; 5] = [Self::Response, Self::Probe, Self::Held, Self::Retry, Self::Overflow];
}

/// When each deadline is, if it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timers([Option<Instant>; Timer::ALL.len()]);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        *self.slot(timer) = Some(at);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        *self.slot(timer) = None;
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0.get(timer as usize).is_some_and(Option::is_some)
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.into_iter().flatten().min()
    }

    /// Clears a deadline that has passed and says which.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Timer> {
        let timer = Timer::ALL.into_iter().find(|timer| self.slot(*timer).is_some_and(|at| at <= now))?;
        self.clear(timer);
        Some(timer)
    }

    fn slot(&mut self, timer: Timer) -> &mut Option<Instant> {
        let [response, probe, held, retry, overflow] = &mut self.0;
        match timer {
            Timer::Response => response,
            Timer::Probe => probe,
            Timer::Held => held,
            Timer::Retry => retry,
            Timer::Overflow => overflow,
        }
    }
}
