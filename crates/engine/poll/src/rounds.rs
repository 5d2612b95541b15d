//! The rounds of one poll class of one device: which of its parts are due, which are asked for, which have ended.

use crate::parts::Parts;
use crate::schedule::Grid;
use crate::{PollClass, PollSpec};
use core::time::Duration;
use tieline_core::Instant;

/// The shortest time between two looks at what is due.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(1);

/// One poll class of one device.
#[derive(Debug)]
pub(crate) struct Poll {
    class: PollClass,
    every: Duration,
    fraction: u32,
    grid: Grid,
    /// The number of the next moment on the grid.
    next: u64,
    /// Parts that are due and not asked for.
    waiting: Parts,
    /// Parts that have not ended in this round.
    left: Parts,
    /// The part after the one that was asked for last.
    cursor: u16,
    /// Since when the first of those that wait does, or when the last was asked for.
    waits_since: Option<Instant>,
    /// Whether this round goes as fast as the limits allow.
    is_fast: bool,
}

impl Poll {
    pub(crate) fn new(now: Instant, spec: PollSpec, fraction: u32) -> Self {
        let grid = Grid::new(spec.every, 1, fraction);
        Self {
            class: spec.class,
            every: spec.every,
            fraction,
            grid,
            next: grid.after(now),
            waiting: Parts::empty(1),
            left: Parts::full(1),
            cursor: 0,
            waits_since: None,
            is_fast: false,
        }
    }

    pub(crate) const fn class(&self) -> PollClass {
        self.class
    }

    pub(crate) const fn every(&self) -> Duration {
        self.every
    }

    pub(crate) const fn is_fast(&self) -> bool {
        self.is_fast
    }

    /// Since when a part waits; none where none does.
    pub(crate) const fn waits_since(&self) -> Option<Instant> {
        self.waits_since
    }

    /// Whether a moment of the grid has passed.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.grid.at(self.next) <= now
    }

    /// When to look for what is due again.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        let due = self.grid.at(self.next);
        if self.grid.spacing() < LOOK_EVERY_MIN { due.max(now + LOOK_EVERY_MIN) } else { due }
    }

    /// Lets moments of the grid that have passed take effect; returns how many parts are not asked for because they wait
    /// or are out. Where `is_owed`, a part that is out is asked for again once it has ended.
    pub(crate) fn pass(&mut self, now: Instant, is_owed: bool, is_out: impl Fn(u16) -> bool) -> u64 {
        let end = self.grid.after(now);
        let passed = end.saturating_sub(self.next);
        self.next = self.next.max(end);
        // A fast round asks for every part anyway.
        if self.is_fast {
            return 0;
        }
        let round = passed.min(u64::from(self.grid.parts()));
        let mut skipped = passed - round;
        for number in end - round..end {
            let part = self.grid.part(number);
            if (is_out(part) && !is_owed) || !self.waiting.insert(part) {
                skipped += 1;
            } else if self.waits_since.is_none() {
                self.waits_since = Some(self.grid.at(number));
            }
        }
        skipped
    }

    /// Whether a moment of the grid lies after `since` and not after `now`.
    pub(crate) fn missed(&self, since: Instant, now: Instant) -> bool {
        self.grid.at(self.grid.after(since)) <= now
    }

    /// Begins a round that goes as fast as the limits allow.
    pub(crate) fn begin_fast(&mut self, now: Instant) {
        self.waiting.fill();
        self.left.fill();
        self.is_fast = true;
        self.waits_since = Some(now);
    }

    /// Lets one part wait, whichever is next.
    pub(crate) fn probe(&mut self, now: Instant) {
        let part = if self.cursor < self.grid.parts() { self.cursor } else { 0 };
        self.waiting.insert(part);
        self.waits_since = Some(now);
    }

    /// The next part that waits and is not out.
    pub(crate) fn take(&mut self, now: Instant, is_out: impl Fn(u16) -> bool) -> Option<u16> {
        let part = self.waiting.next_from(self.cursor, |part| !is_out(part))?;
        self.waiting.remove(part);
        self.cursor = part.saturating_add(1);
        self.waits_since = (!self.waiting.is_empty()).then_some(now);
        Some(part)
    }

    /// Takes the end of a part, and returns whether it ends a round.
    pub(crate) fn end(&mut self, now: Instant, part: u16) -> bool {
        self.left.remove(part) && self.end_round(now)
    }

    /// Forgets what waits; the plan goes on with the next moment of the grid.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.waiting.clear();
        self.left.fill();
        self.waits_since = None;
        self.is_fast = false;
        self.next = self.grid.after(now);
    }

    /// Splits the poll again. Parts beyond those there were wait at once where the round is fast. Where a part waited, one
    /// still does: it may be the attempt at a silent device, which has no other.
    pub(crate) fn set_parts(&mut self, now: Instant, parts: u16) {
        let parts = parts.max(1);
        if parts == self.grid.parts() {
            return;
        }
        let has_waited = !self.waiting.is_empty();
        self.waiting = self.waiting.resized(parts, self.is_fast);
        if has_waited && self.waiting.is_empty() {
            self.waiting.insert(0);
        }
        self.left = self.left.resized(parts, true);
        self.waits_since = (!self.waiting.is_empty()).then_some(self.waits_since.unwrap_or(now));
        self.grid = Grid::new(self.every, parts, self.fraction);
        self.next = self.grid.after(now);
        self.end_round(now);
    }

    /// The same class with another plan: what waits and the parts stay.
    pub(crate) fn set_plan(&mut self, now: Instant, every: Duration, fraction: u32) {
        if (every, fraction) != (self.every, self.fraction) {
            (self.every, self.fraction) = (every, fraction);
            self.grid = Grid::new(every, self.grid.parts(), fraction);
            self.next = self.grid.after(now);
        }
    }

    fn end_round(&mut self, now: Instant) -> bool {
        if !self.left.is_empty() {
            return false;
        }
        self.left.fill();
        if self.is_fast {
            self.is_fast = false;
            self.next = self.next.max(self.grid.after(now));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_at_a_silent_device_is_made_however_its_poll_is_split_meanwhile() {
        let spec = PollSpec { class: PollClass(0), every: Duration::from_secs(1) };
        let mut poll = Poll::new(Instant::ZERO, spec, 0);
        let now = Instant::ZERO + Duration::from_secs(1);
        poll.set_parts(now, 4);
        poll.begin_fast(now);
        let asked = |poll: &mut Poll| poll.take(now, |_| false);
        assert_eq!([asked(&mut poll), asked(&mut poll), asked(&mut poll)], [Some(0), Some(1), Some(2)]);
        poll.restart(now);
        poll.probe(now);
        poll.set_parts(now, 1);
        assert!(poll.waits_since().is_some());
        assert_eq!(asked(&mut poll), Some(0));
        // Where nothing waits, nothing does.
        poll.set_parts(now, 4);
        assert_eq!((poll.waits_since(), asked(&mut poll)), (None, None));
    }
}
