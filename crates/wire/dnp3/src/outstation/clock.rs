//! The clock that a master sets: an offset on the wall clock that the caller passes in.

use crate::{DnpTime, Stamp};
use tieline_core::{Instant, Now};

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// What is added to the wall clock, in milliseconds.
    offset_ms: i64,
    synchronized: bool,
    /// When function 24 asked to note the time (IEEE 1815 10.3.3: LAN procedure).
    recorded: Option<Instant>,
}

impl Clock {
    pub(super) const fn new(synchronized: bool) -> Self {
        Self { offset_ms: 0, synchronized, recorded: None }
    }

    pub(super) fn time(&self, now: Now) -> DnpTime {
        let millis = now.utc.millis().saturating_add(self.offset_ms);
        DnpTime::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    pub(super) fn stamp(&self, now: Now) -> Stamp {
        Stamp { time: self.time(now), synchronized: self.synchronized }
    }

    pub(super) fn set(&mut self, now: Now, time: DnpTime) {
        let millis = i64::try_from(time.millis()).unwrap_or(i64::MAX);
        self.offset_ms = millis.saturating_sub(now.utc.millis());
        self.synchronized = true;
    }

    pub(super) fn record(&mut self, now: Now) {
        self.recorded = Some(now.mono);
    }

    /// Sets the time that it was when [`Clock::record`] was called last, and returns the time that it is. None: it was
    /// not called.
    pub(super) fn set_recorded(&mut self, now: Now, then: DnpTime) -> Option<DnpTime> {
        let passed = now.mono.since(self.recorded.take()?);
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        let time = DnpTime::from_millis(then.millis().saturating_add(passed_ms));
        self.set(now, time);
        Some(time)
    }
}
