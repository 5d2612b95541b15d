//! When a derived topic changes: later, and not too often.

use alloc::collections::VecDeque;
use core::time::Duration;
use tieline_core::{Body, Instant};

/// The changes of one derived topic that wait.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    waiting: VecDeque<(Instant, Option<Body>)>,
    last: Option<Instant>,
}

impl Pace {
    /// A change; none inside is that the topic goes.
    pub(crate) fn push(&mut self, now: Instant, delay: Duration, change: Option<Body>) {
        self.waiting.push_back((now + delay, change));
    }

    /// When the next change is due.
    pub(crate) fn due(&self, throttle: Duration) -> Option<Instant> {
        let (first, _) = self.waiting.front()?;
        Some(self.last.map_or(*first, |last| (*first).max(last + throttle)))
    }

    /// The newest change that is due: those before it have been overtaken.
    pub(crate) fn take(&mut self, now: Instant, throttle: Duration) -> Option<Option<Body>> {
        if self.due(throttle)? > now {
            return None;
        }
        let mut newest = None;
        while self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            newest = self.waiting.pop_front().map(|(_, change)| change);
        }
        self.last = Some(now);
        newest
    }

    /// Lets the oldest change come at once.
    pub(crate) fn hurry(&mut self, now: Instant) {
        if let Some((due, _)) = self.waiting.front_mut() {
            *due = (*due).min(now);
        }
        self.last = None;
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
