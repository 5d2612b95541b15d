//! Requests that change the outstation itself: time, restarts, classes, freezes, octet strings.

use super::application::{Application, Outcome};
use super::controls::OutstationEvent;
use crate::app::{Fragment, Header, Range};
use crate::objects::{Kind, point_group};
use crate::{Classes, EventClass, Flags, GroupVar, Iin, Measured, Measurement, PointType};
use alloc::vec;
use core::ops;
use tieline_core::Now;

/// The index of IIN1.7 in group 80.
const RESTART_BIT: u32 = 7;

impl Application {
    pub(super) fn write(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        let iin = self.for_each_header(fragment, |this, header| match header.object() {
            GroupVar { group: 80, variation: 1 } => this.write_indications(header),
            GroupVar { group: 50, variation: 1 } => this.write_time(now, header),
            GroupVar { group: 50, variation: 3 } => this.write_recorded_time(now, header),
            GroupVar { group: 110, .. } => this.write_octets(now, header),
            _ => Iin::OBJECT_UNKNOWN,
        });
        Outcome::only(iin)
    }

    fn for_each_header(&mut self, fragment: &Fragment<'_>, mut act: impl FnMut(&mut Self, &Header<'_>) -> Iin) -> Iin {
        fragment.headers().fold(Iin::NONE, |iin, header| {
            iin.with(match header {
                Ok(header) => act(self, &header),
                Err(error) => error.iin(),
            })
        })
    }

    /// Only IIN1.7 can be written, and only to 0 (IEEE 1815 4.4.3).
    fn write_indications(&mut self, header: &Header<'_>) -> Iin {
        let mut bits = header.bits();
        if bits.next() != Some((RESTART_BIT, false)) || bits.next().is_some() {
            return Iin::PARAMETER_ERROR;
        }
        if self.indications.contains(Iin::DEVICE_RESTART) {
            self.indications = self.indications.without(Iin::DEVICE_RESTART);
            self.tell(OutstationEvent::RestartCleared);
        }
        Iin::NONE
    }

    fn write_time(&mut self, now: Now, header: &Header<'_>) -> Iin {
        let Some(time) = header.time().filter(|_| header.range() == Range::Count(1)) else {
            return Iin::PARAMETER_ERROR;
        };
        self.clock.set(now, time);
        self.note_time_written(now);
        Iin::NONE
    }

    fn write_recorded_time(&mut self, now: Now, header: &Header<'_>) -> Iin {
        let Some(then) = header.time().filter(|_| header.range() == Range::Count(1)) else {
            return Iin::PARAMETER_ERROR;
        };
        if self.clock.set_recorded(now, then).is_none() {
            return Iin::PARAMETER_ERROR;
        }
        self.note_time_written(now);
        Iin::NONE
    }

    fn note_time_written(&mut self, now: Now) {
        self.indications = self.indications.without(Iin::NEED_TIME);
        self.ask_for_time_later(now);
        self.tell(OutstationEvent::ClockSet { time: self.clock.time(now) });
    }

    fn write_octets(&mut self, now: Now, header: &Header<'_>) -> Iin {
        let mut iin = Iin::NONE;
        for item in header.items() {
            let Ok(index) = u16::try_from(item.index) else { return Iin::PARAMETER_ERROR };
            let written = Measurement {
                point_type: PointType::OctetString,
                index,
                value: Measured::Octets(item.octets.into()),
                flags: Flags::ONLINE,
                stamp: None,
            };
            match self.update(now, written.clone()) {
                Ok(()) if self.outbox.len() < super::application::OUTBOX_MAX => {
                    self.tell(OutstationEvent::Written(written));
                }
                Ok(()) => {}
                Err(_) => iin = Iin::PARAMETER_ERROR,
            }
        }
        iin
    }

    pub(super) fn record_time(&mut self, now: Now) -> Outcome {
        self.clock.record(now);
        Outcome::default()
    }

    /// Group 52 variation 2: requests are answered at once.
    pub(super) fn measure_delay(&self) -> Outcome {
        Outcome { iin: Iin::NONE, objects: vec![52, 2, 7, 1, 0, 0] }
    }

    /// Answers with the time a restart takes: group 52 variation 2 in milliseconds, 1 in seconds where that is longer.
    pub(super) fn request_restart(&mut self, cold: bool) -> Outcome {
        let delay = self.config.restart_delay;
        let (variation, delay) = match u16::try_from(delay.as_millis()) {
            Ok(millis) => (2, millis),
            Err(_) => (1, u16::try_from(delay.as_secs()).unwrap_or(u16::MAX)),
        };
        let [low, high] = delay.to_le_bytes();
        self.tell(OutstationEvent::RestartRequested { cold });
        Outcome { iin: Iin::NONE, objects: vec![52, variation, 7, 1, low, high] }
    }

    pub(super) fn enable_unsolicited(&mut self, fragment: &Fragment<'_>, enable: bool) -> Outcome {
        if self.config.unsolicited.is_none() {
            return Outcome::only(Iin::NO_FUNC_CODE_SUPPORT);
        }
        let before = self.unsolicited.enabled;
        let iin = self.for_each_header(fragment, |this, header| {
            let classes = header.classes();
            if classes.is_empty() {
                return Iin::OBJECT_UNKNOWN;
            }
            if !Classes::EVENTS.contains(classes) || header.range() != Range::All {
                return Iin::PARAMETER_ERROR;
            }
            let enabled = this.unsolicited.enabled;
            this.unsolicited.enabled = if enable { enabled.with(classes) } else { enabled.without(classes) };
            Iin::NONE
        });
        if self.unsolicited.enabled != before {
            self.tell(OutstationEvent::UnsolicitedEnabled(self.unsolicited.enabled));
        }
        self.end_hold();
        Outcome::only(iin)
    }

    /// Class headers, each followed by the points that it is for (IEEE 1815 4.4.8).
    pub(super) fn assign_class(&mut self, fragment: &Fragment<'_>) -> Outcome {
        let mut class: Option<Option<EventClass>> = None;
        let mut assigned = false;
        let iin = self.for_each_header(fragment, |this, header| {
            match header.object() {
                GroupVar { group: 60, variation: 1 } => class = Some(None),
                GroupVar { group: 60, variation: 2 } => class = Some(Some(EventClass::Class1)),
                GroupVar { group: 60, variation: 3 } => class = Some(Some(EventClass::Class2)),
                GroupVar { group: 60, variation: 4 } => class = Some(Some(EventClass::Class3)),
                object => {
                    let Some((point_type, Kind::Static)) = point_group(object.group) else {
                        return Iin::OBJECT_UNKNOWN;
                    };
                    let (Some(class), Some(slots)) = (class, this.slots_of(header, point_type)) else {
                        return Iin::PARAMETER_ERROR;
                    };
                    assigned |= this.database.assign_class(slots, class);
                }
            }
            Iin::NONE
        });
        if assigned {
            self.tell(OutstationEvent::ClassAssigned);
        }
        Outcome::only(iin)
    }

    /// Copies counters to the frozen counters of the same indices; with `clear`, counts from zero afterwards.
    pub(super) fn freeze(&mut self, now: Now, fragment: &Fragment<'_>, clear: bool) -> Outcome {
        let mut frozen = false;
        let iin = self.for_each_header(fragment, |this, header| {
            if header.object().group != PointType::Counter.static_group() {
                return Iin::OBJECT_UNKNOWN;
            }
            let Some(slots) = this.slots_of(header, PointType::Counter) else { return Iin::PARAMETER_ERROR };
            slots.for_each(|slot| this.freeze_counter(now, slot, clear));
            frozen = true;
            Iin::NONE
        });
        if frozen {
            self.tell(OutstationEvent::Frozen { cleared: clear });
        }
        Outcome::only(iin)
    }

    fn freeze_counter(&mut self, now: Now, slot: usize, clear: bool) {
        let Some(point) = self.database.point(slot) else { return };
        let Some(value) = point.value() else { return };
        let (index, flags) = (point.index, point.flags());
        let frozen = Measurement {
            point_type: PointType::FrozenCounter,
            index,
            value,
            flags,
            stamp: Some(self.clock.stamp(now)),
        };
        // A counter without a frozen one has nowhere to be copied to.
        let _ = self.update(now, frozen);
        self.database.set_frozen_at(index, self.clock.time(now));
        if clear {
            let zero =
                Measurement { point_type: PointType::Counter, index, value: Measured::Count(0), flags, stamp: None };
            let cleared = self.update(now, zero);
            debug_assert!(cleared.is_ok(), "the counter was there a moment ago");
        }
    }

    /// The points of a type that a header names by range; None for other qualifiers, and where there are none.
    fn slots_of(&self, header: &Header<'_>, point_type: PointType) -> Option<ops::Range<usize>> {
        match header.range() {
            Range::All => Some(self.database.slots(point_type)),
            Range::Span { start, stop } => {
                let (start, stop) = (u16::try_from(start).ok()?, u16::try_from(stop).ok()?);
                let slots = self.database.slots_between(point_type, start, stop);
                (!slots.is_empty()).then_some(slots)
            }
            Range::Count(_) => None,
        }
    }
}
