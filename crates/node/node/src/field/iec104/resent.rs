//! Events that a station sends a second time, on another connection: those that were not acknowledged on the one before (IEC
//! 60870-5-104 10). An event that has the same point, time, value and quality as one that came before the switch counts once;
//! events without a time cannot be told apart, and count twice.

use std::collections::{HashSet, VecDeque};
use tieline_core::{PointId, Reading, Timestamp};

/// Events that are remembered; the oldest is forgotten first. A station keeps k frames at most.
const EVENTS_MAX: usize = 1024;

/// What makes an event the same as another: its point, time, value, and quality.
type Event = (PointId, Timestamp, Option<u64>, u16);

#[derive(Debug, Default)]
pub(super) struct Resent {
    /// Those of all connections, the oldest first.
    recent: VecDeque<Event>,
    /// Those that came before the connection that is started.
    before: HashSet<Event>,
    count: u64,
}

impl Resent {
    /// Another connection carries the data from here on.
    pub(super) fn switched(&mut self) {
        self.before = self.recent.iter().copied().collect();
    }

    /// The points have other numbers from here on.
    pub(super) fn clear(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// Whether a reading counts: it is none that came before.
    pub(super) fn admits(&mut self, reading: &Reading) -> bool {
        let Some(time) = reading.time.filter(|_| reading.event) else { return true };
        let value = reading.value.as_f64().map(f64::to_bits);
        let event = (reading.point, time, value, reading.quality.bits());
        if self.before.remove(&event) {
            self.count += 1;
            return false;
        }
        if self.recent.len() >= EVENTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(event);
        true
    }

    /// Events that were left out.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::{Quality, Value};

    fn event(point: u32, millis: i64, value: f64) -> Reading {
        let time = Some(Timestamp::from_micros(millis * 1000));
        Reading { point: PointId(point), value: Value::Float(value), quality: Quality::GOOD, time, event: true }
    }

    #[test]
    fn an_event_that_is_sent_again_after_a_switch_counts_once() {
        let mut resent = Resent::default();
        // A station may say the same twice on one connection.
        assert!(
            resent.admits(&event(1, 5, 2.0)) && resent.admits(&event(1, 5, 2.0)) && resent.admits(&event(2, 6, 1.0))
        );
        resent.switched();
        assert!(
            !resent.admits(&event(2, 6, 1.0)) && resent.admits(&event(2, 6, 1.5)) && resent.admits(&event(2, 7, 1.0))
        );
        // Once: what it says twice after the switch is two events.
        assert!(resent.admits(&event(2, 6, 1.0)));
        assert_eq!(resent.count(), 1);
        // One without a time, and one that is no event, are as they are.
        let bare = Reading { time: None, ..event(1, 5, 2.0) };
        let state = Reading { event: false, ..event(1, 5, 2.0) };
        assert!(resent.admits(&bare) && resent.admits(&state));
        // What was not acknowledged over two connections is known too.
        resent.switched();
        assert!(!resent.admits(&event(1, 5, 2.0)));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_is_forgotten() {
        let mut resent = Resent::default();
        let count = i64::try_from(EVENTS_MAX).unwrap();
        assert!((0..=count).all(|at| resent.admits(&event(1, at, 0.0))));
        resent.switched();
        assert!(
            resent.admits(&event(1, 0, 0.0)) && !resent.admits(&event(1, 1, 0.0)) && resent.recent.len() == EVENTS_MAX
        );
    }
}
