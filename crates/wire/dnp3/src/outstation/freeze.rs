//! Freezes of counters and analogs, at once and at a time (IEEE 1815 4.4.7; group 50 variation 2).
//!
//! ```text
//! time   interval
//! 0      0          once, at once
//! 0      n          every n ms, counted from the beginning of the present hour
//! t      0          once at t; at once where t has passed
//! t      n          at t, and every n ms from there
//! ones              no longer
//! ```

use super::application::{Application, Outcome};
use super::controls::OutstationEvent;
use crate::app::{Fragment, Header};
use crate::{DnpTime, GroupVar, Iin, Measured, Measurement, PointType};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use tieline_core::{Cursor, Instant, Now};

/// Freezes at a time that an outstation keeps; one more is refused with IIN2.2.
const PLANS_MAX: usize = 32;
/// The shortest interval, in milliseconds; a shorter one is refused with IIN2.2.
const INTERVAL_MS_MIN: u32 = 100;
const HOUR_MS: u64 = 3_600_000;

/// Freezes that are to come.
#[derive(Debug, Default)]
pub(super) struct Freezes {
    plans: Vec<Plan>,
    /// When the next is due, as the clock stood when this was last looked at.
    deadline: Option<Instant>,
}

/// Points to be frozen at a time.
#[derive(Clone, Copy, Debug)]
struct Plan {
    source: PointType,
    first: u16,
    last: u16,
    due: DnpTime,
    /// Zero for once.
    interval_ms: u32,
}

/// What group 50 variation 2 asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    AtOnce,
    Later { due: DnpTime, interval_ms: u32 },
    NoLonger,
}

impl Application {
    /// Copies counters and analogs to the frozen points of the same indices; with `clear`, sets them to zero afterwards.
    pub(super) fn freeze(&mut self, now: Now, fragment: &Fragment<'_>, clear: bool) -> Outcome {
        let mut frozen = false;
        let iin = self.for_each_header(fragment, |this, header| {
            let Some(source) = this.frozen_of(header) else { return Iin::OBJECT_UNKNOWN };
            let (ranges, refusal) = this.slots_of(header, source);
            frozen |= ranges.iter().any(|slots| !slots.is_empty());
            ranges.into_iter().flatten().for_each(|slot| this.freeze_point(now, slot, clear));
            refusal
        });
        if frozen {
            self.tell(OutstationEvent::Frozen { cleared: clear });
        }
        Outcome::only(iin)
    }

    /// Headers of times, each followed by the points that it is for.
    pub(super) fn freeze_at_time(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        let (mut when, mut frozen) = (None, false);
        let iin = self.for_each_header(fragment, |this, header| {
            if header.object() == GroupVar::new(50, 2) {
                when = this.when(now, header);
                return if when.is_some() { Iin::NONE } else { Iin::PARAMETER_ERROR };
            }
            let Some(source) = this.frozen_of(header) else { return Iin::OBJECT_UNKNOWN };
            let Some(when) = when else { return Iin::PARAMETER_ERROR };
            let (ranges, mut refusal) = this.slots_of(header, source);
            for slots in ranges.into_iter().filter(|slots| !slots.is_empty()) {
                if when == When::AtOnce {
                    frozen = true;
                    slots.for_each(|slot| this.freeze_point(now, slot, false));
                } else {
                    refusal = refusal.with(this.plan_freeze(source, slots, when));
                }
            }
            refusal
        });
        if frozen {
            self.tell(OutstationEvent::Frozen { cleared: false });
        }
        self.time_freezes(now);
        Outcome::only(iin)
    }

    /// The type of points that a header of a freeze names, where they have frozen points.
    fn frozen_of(&self, header: &Header<'_>) -> Option<PointType> {
        match header.object().group {
            20 => Some(PointType::Counter),
            30 => Some(PointType::Analog).filter(|_| self.database.count(PointType::FrozenAnalog) > 0),
            _ => None,
        }
    }

    fn when(&self, now: Now, header: &Header<'_>) -> Option<When> {
        let mut cursor = Cursor::new(header.items().next()?.bytes);
        let (time, interval_ms) = (DnpTime::from_millis(cursor.u48_le().ok()?), cursor.u32_le().ok()?);
        let present = self.clock.time(now);
        if time == DnpTime::MAX {
            return Some(When::NoLonger);
        }
        if interval_ms > 0 && interval_ms < INTERVAL_MS_MIN {
            return None;
        }
        Some(match (time.millis(), interval_ms) {
            (_, 0) if time <= present => When::AtOnce,
            (0, _) => {
                let hour = DnpTime::from_millis(present.millis() - present.millis() % HOUR_MS);
                When::Later { due: next_after(present, hour, interval_ms), interval_ms }
            }
            _ if time > present => When::Later { due: time, interval_ms },
            _ => When::Later { due: next_after(present, time, interval_ms), interval_ms },
        })
    }

    /// Takes the place of what was planned for any of the points; IIN2.2 where there are too many plans.
    fn plan_freeze(&mut self, source: PointType, slots: Range<usize>, when: When) -> Iin {
        let index = |slot: Option<usize>| slot.and_then(|slot| self.database.point(slot)).map(|point| point.index);
        let (Some(first), Some(last)) = (index(slots.clone().next()), index(slots.clone().next_back())) else {
            return Iin::PARAMETER_ERROR;
        };
        let plans = &mut self.extras_mut().freezes.plans;
        plans.retain(|plan| plan.source != source || plan.last < first || last < plan.first);
        match when {
            When::Later { due, interval_ms } if plans.len() < PLANS_MAX => {
                plans.push(Plan { source, first, last, due, interval_ms });
                Iin::NONE
            }
            When::Later { .. } => Iin::PARAMETER_ERROR,
            When::AtOnce | When::NoLonger => Iin::NONE,
        }
    }

    /// Freezes what is due. A time that was slept through is made up for once.
    pub(super) fn run_freezes(&mut self, now: Now) {
        let present = self.clock.time(now);
        let Some(extras) = &mut self.extras else { return };
        let mut due = Vec::new();
        extras.freezes.plans.retain_mut(|plan| {
            if plan.due > present {
                return true;
            }
            due.push(*plan);
            plan.due = next_after(present, plan.due, plan.interval_ms.max(1));
            // At the end of time there is no next.
            plan.interval_ms > 0 && plan.due > present
        });
        for plan in &due {
            let slots = self.database.slots_between(plan.source, plan.first, plan.last);
            slots.for_each(|slot| self.freeze_point(now, slot, false));
        }
        if !due.is_empty() {
            self.tell_if_room(OutstationEvent::Frozen { cleared: false });
        }
        self.time_freezes(now);
    }

    /// Sets the deadline of the next freeze: after plans or the clock have changed.
    pub(super) fn time_freezes(&mut self, now: Now) {
        let present = self.clock.time(now);
        let Some(extras) = &mut self.extras else { return };
        let first = extras.freezes.plans.iter().map(|plan| plan.due).min();
        let wait = |due: DnpTime| Duration::from_millis(due.millis().saturating_sub(present.millis()));
        extras.freezes.deadline = first.map(|due| now.mono + wait(due));
    }

    pub(super) fn freeze_deadline(&self) -> Option<Instant> {
        self.extras.as_ref()?.freezes.deadline
    }

    fn freeze_point(&mut self, now: Now, slot: usize, clear: bool) {
        let Some(point) = self.database.point(slot) else { return };
        let Some(value) = point.value() else { return };
        let (source, index, flags) = (point.point_type, point.index, point.flags());
        let (frozen_type, zero) = match source {
            PointType::Analog => (PointType::FrozenAnalog, Measured::Analog(0.0)),
            _ => (PointType::FrozenCounter, Measured::Count(0)),
        };
        let stamp = Some(self.clock.stamp(now));
        // A point without a frozen one has nowhere to be copied to.
        let _ = self.update(now, Measurement { point_type: frozen_type, index, value, flags, stamp });
        self.database.set_frozen_at(frozen_type, index, self.clock.time(now));
        if clear {
            let zero = Measurement { point_type: source, index, value: zero, flags, stamp: None };
            let cleared = self.update(now, zero);
            debug_assert!(cleared.is_ok(), "the point was there a moment ago");
        }
    }
}

/// The first time after `present` that lies whole intervals from `from`, which is not after `present`.
fn next_after(present: DnpTime, from: DnpTime, interval_ms: u32) -> DnpTime {
    let interval = u64::from(interval_ms.max(1));
    let passed = present.millis().saturating_sub(from.millis()) / interval;
    DnpTime::from_millis(from.millis().saturating_add((passed + 1).saturating_mul(interval)))
}
