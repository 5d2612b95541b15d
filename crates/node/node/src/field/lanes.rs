//! One device over two connections: which of them is up, and which readings count.
//!
//! Each connection is an association of its own, and the device may report an event on both. The first to bring it wins; the
//! other's copy, which has the same time, is left out. What one connection brings stays in the device's order.
//!
//! A static value that was on its way while an event overtook it on the other connection is older than the event: it is
//! left out as long as it may have been on its way.

use std::time::Duration;
use tieline_core::{Instant, PointId};

/// Which connection of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The one that everything goes over, or all but what is urgent.
    Main,
    /// The one for what is urgent.
    Urgent,
    /// One of those that take the place of the main one, by its number from 1 on.
    Standby(u8),
}

impl Lane {
    /// Its number in traces.
    pub const fn number(self) -> u8 {
        match self {
            Self::Main => 0,
            Self::Urgent => 1,
            Self::Standby(number) => number,
        }
    }

    /// The word in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Urgent => "urgent",
            Self::Standby(_) => "standby",
        }
    }
}

/// What both connections of a device know.
#[derive(Debug)]
pub(super) struct Lanes {
    up: [bool; 2],
    /// By point.
    last: Vec<Option<LastEvent>>,
    /// How long a response may be on its way.
    guard: Duration,
    /// Readings that were left out, since the start.
    duplicates: u64,
}

/// The event of a point that counted last.
#[derive(Clone, Copy, Debug)]
struct LastEvent {
    millis: u64,
    from: Lane,
    at: Instant,
}

impl Lanes {
    pub(super) fn new(points: usize, guard: Duration) -> Self {
        Self { up: [false; 2], last: vec![None; points], guard, duplicates: 0 }
    }

    /// The points have other numbers from here on.
    pub(super) fn set_points(&mut self, points: usize) {
        self.last = vec![None; points];
    }

    /// A connection is up, or not; whether the other one is.
    pub(super) fn set_up(&mut self, lane: Lane, up: bool) -> bool {
        let [main, urgent] = &mut self.up;
        let (own, other) = if lane == Lane::Main { (main, urgent) } else { (urgent, main) };
        *own = up;
        *other
    }

    /// Whether a reading counts. `millis` is the device's time of an event that has one; an event without is never
    /// left out.
    pub(super) fn admits(
        &mut self,
        now: Instant,
        lane: Lane,
        point: PointId,
        event: bool,
        millis: Option<u64>,
    ) -> bool {
        let last = usize::try_from(point.0).ok().and_then(|at| self.last.get_mut(at));
        let Some(last) = last else { return true };
        let is_late = |last: &LastEvent| match millis {
            _ if last.from == lane => false,
            Some(millis) if event => millis <= last.millis,
            Some(_) | None => !event && now < last.at + self.guard,
        };
        if last.as_ref().is_some_and(is_late) {
            self.duplicates += 1;
            return false;
        }
        if let Some(millis) = millis.filter(|_| event) {
            *last = Some(LastEvent { millis, from: lane, at: now });
        }
        true
    }

    /// Whether the urgent connection is up.
    pub(super) const fn is_urgent_up(&self) -> bool {
        let [_, urgent] = self.up;
        urgent
    }

    pub(super) const fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Lane::{Main, Urgent};

    /// Readings of one point, each after a millisecond: lane, time of an event, whether it counts.
    fn check(readings: &[(Lane, Option<u64>, bool)]) {
        let mut lanes = Lanes::new(1, Duration::from_millis(3));
        for ((lane, millis, expect), now) in readings.iter().zip(0_u32..) {
            let now = Instant::ZERO + Duration::from_millis(now.into());
            let admitted = lanes.admits(now, *lane, PointId(0), millis.is_some(), *millis);
            assert_eq!(admitted, *expect, "{lane:?} {millis:?} at {now:?} of {readings:?}");
        }
        let left_out = readings.iter().filter(|(_, _, expect)| !expect).count();
        assert_eq!(lanes.duplicates(), u64::try_from(left_out).unwrap());
    }

    #[test]
    fn the_first_to_bring_an_event_wins() {
        check(&[(Urgent, Some(7), true), (Main, Some(7), false), (Urgent, Some(9), true), (Main, Some(9), false)]);
        check(&[(Main, Some(7), true), (Urgent, Some(7), false), (Urgent, Some(8), true), (Main, Some(8), false)]);
        // Two events of one millisecond on each.
        check(&[(Urgent, Some(7), true), (Main, Some(7), false), (Urgent, Some(7), true), (Main, Some(7), false)]);
        // What only one connection brings.
        check(&[(Main, Some(7), true), (Main, Some(8), true), (Urgent, Some(9), true)]);
    }

    #[test]
    fn a_clock_that_was_set_back_silences_no_connection() {
        check(&[(Main, Some(9), true), (Main, Some(2), true), (Main, Some(3), true), (Urgent, Some(3), false)]);
    }

    #[test]
    fn a_value_that_an_event_overtook_is_left_out() {
        check(&[
            (Main, None, true),
            (Urgent, Some(7), true),
            (Main, None, false),
            (Main, None, false),
            (Main, None, true),
        ]);
        check(&[(Main, Some(7), true), (Main, None, true)]);
    }

    #[test]
    fn a_device_is_away_when_both_connections_are() {
        let mut lanes = Lanes::new(0, Duration::ZERO);
        assert!(!lanes.set_up(Main, true));
        assert!(lanes.set_up(Urgent, true));
        assert!(lanes.set_up(Main, false));
        assert!(!lanes.set_up(Urgent, false));
        assert!(lanes.admits(Instant::ZERO, Main, PointId(u32::MAX), true, Some(1)));
    }
}
