//! All deadlines of an outstation.

use tieline_core::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A solicited response awaits its confirm.
    SolicitedConfirm,
    /// An unsolicited response awaits its confirm.
    UnsolicitedConfirm,
    /// Events wait for others before they are reported unsolicited.
    UnsolicitedHold,
    /// The clock wants to be set again.
    NeedTime,
}

/// Deadlines by timer; [`NEVER`] where one does not run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers([Instant; 4]);

const NEVER: Instant = Instant(u64::MAX);

impl Timers {
    pub(super) const fn new() -> Self {
        Self([NEVER; 4])
    }

    pub(super) fn start(&mut self, timer: Timer, deadline: Instant) {
        if let Some(slot) = self.0.get_mut(timer as usize) {
            *slot = deadline;
        }
    }

    pub(super) fn stop(&mut self, timer: Timer) {
        self.start(timer, NEVER);
    }

    pub(super) fn is_running(&self, timer: Timer) -> bool {
        self.deadline(timer) != NEVER
    }

    pub(super) fn has_passed(&self, timer: Timer, now: Instant) -> bool {
        self.deadline(timer) <= now
    }

    /// The earliest deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.iter().min().copied().filter(|deadline| *deadline != NEVER)
    }

    fn deadline(&self, timer: Timer) -> Instant {
        self.0.get(timer as usize).copied().unwrap_or(NEVER)
    }
}
