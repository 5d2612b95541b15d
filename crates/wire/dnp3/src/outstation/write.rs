//! Requests that change the outstation itself: time, restarts, classes, octet strings.

use super::application::{Application, Outcome};
use super::controls::OutstationEvent;
use super::sharing::Act;
use crate::app::{self, Fragment, Header, Prefix};
use crate::objects::{Kind, point_group};
use crate::{Classes, DnpTime, EventClass, Flags, GroupVar, Iin, Measured, Measurement, PointType};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use tieline_core::Now;

/// The index of IIN1.7 in group 80.
const RESTART_BIT: u32 = 7;

impl Application {
    pub(super) fn write(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        let iin = self.for_each_header(fragment, |this, header| match header.object() {
            GroupVar { group: 80, variation: 1 } => this.write_indications(header),
            GroupVar { group: 50, variation: 1 } => this.write_time(now, header),
            GroupVar { group: 50, variation: 3 } => this.write_recorded_time(now, header),
            GroupVar { group: 110, .. } => this.write_bytes(now, header),
            GroupVar { group: 34, variation: 1..=3 } => this.write_dead_bands(header),
            GroupVar { group: 0, .. } => this.write_attributes(header),
            _ => Iin::OBJECT_UNKNOWN,
        });
        Outcome::only(iin)
    }

    pub(super) fn for_each_header(
        &mut self,
        fragment: &Fragment<'_>,
        mut act: impl FnMut(&mut Self, &Header<'_>) -> Iin,
    ) -> Iin {
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
        let Some(time) = header.time().filter(|_| header.range() == app::Range::Count(1)) else {
            return Iin::PARAMETER_ERROR;
        };
        self.set_clock(now, time);
        self.tell_clock_set(now);
        Iin::NONE
    }

    fn write_recorded_time(&mut self, now: Now, header: &Header<'_>) -> Iin {
        let Some(then) = header.time().filter(|_| header.range() == app::Range::Count(1)) else {
            return Iin::PARAMETER_ERROR;
        };
        let Some(time) = self.clock.set_recorded(now, then) else { return Iin::PARAMETER_ERROR };
        self.set_clock(now, time);
        self.tell_clock_set(now);
        Iin::NONE
    }

    /// The clock of this association and what depends on it.
    pub(super) fn set_clock(&mut self, now: Now, time: DnpTime) {
        self.clock.set(now, time);
        self.indications = self.indications.without(Iin::NEED_TIME);
        self.ask_for_time_later(now);
        self.time_freezes(now);
    }

    fn tell_clock_set(&mut self, now: Now) {
        self.share(Act::Clock(self.clock.time(now)));
        self.tell(OutstationEvent::ClockSet { time: self.clock.time(now) });
    }

    pub(super) fn write_bytes(&mut self, now: Now, header: &Header<'_>) -> Iin {
        let mut iin = Iin::NONE;
        for item in header.items() {
            let Ok(index) = u16::try_from(item.index) else { return Iin::PARAMETER_ERROR };
            let written = Measurement {
                point_type: PointType::OctetString,
                index,
                value: Measured::Bytes(item.bytes.into()),
                flags: Flags::ONLINE,
                stamp: None,
            };
            match self.update(now, written.clone()) {
                Ok(()) => self.tell_if_room(OutstationEvent::Written(written)),
                Err(_) => iin = Iin::PARAMETER_ERROR,
            }
        }
        iin
    }

    /// The points of a type that a header names, in whatever way, as ranges of slots; IIN2.2 where some or all of what
    /// it names is not there.
    pub(super) fn slots_of(&self, header: &Header<'_>, point_type: PointType) -> (Vec<Range<usize>>, Iin) {
        let between = |start: u32, stop: u32| match (u16::try_from(start), u16::try_from(stop)) {
            (Ok(start), Ok(stop)) => self.database.slots_between(point_type, start, stop),
            _ => Range::default(),
        };
        let all = self.database.slots(point_type);
        let indexed = matches!(header.qualifier().parts(), Some((Prefix::Index(_), _)));
        let named: Vec<Range<usize>> = match header.range() {
            app::Range::All => return (vec![all], Iin::NONE),
            app::Range::Span { start, stop } => vec![between(start, stop)],
            app::Range::Count(_) if indexed => header.items().map(|item| between(item.index, item.index)).collect(),
            app::Range::Count(count) => {
                let first = usize::try_from(count).unwrap_or(usize::MAX).min(all.len());
                core::iter::once(all.start..all.start + first).collect()
            }
        };
        let absent = named.is_empty() || named.iter().any(Range::is_empty);
        (named, if absent { Iin::PARAMETER_ERROR } else { Iin::NONE })
    }

    pub(super) fn record_time(&mut self, now: Now) -> Outcome {
        self.clock.record(now);
        Outcome::default()
    }

    /// Group 52 variation 2: requests are answered at once.
    pub(super) fn measure_delay(&self) -> Outcome {
        Outcome { iin: Iin::NONE, objects: vec![52, 2, 7, 1, 0, 0] }
    }

    /// Answers with the time a restart takes.
    pub(super) fn request_restart(&mut self, cold: bool) -> Outcome {
        self.tell(OutstationEvent::RestartRequested { cold });
        Outcome { iin: Iin::NONE, objects: delay_object(self.config.restart_delay) }
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
            if !Classes::EVENTS.contains(classes) || header.range() != app::Range::All {
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
                    let Some(class) = class else { return Iin::PARAMETER_ERROR };
                    let (ranges, refusal) = this.slots_of(header, point_type);
                    for slots in ranges {
                        assigned |= this.database.assign_class(slots, class);
                    }
                    return refusal;
                }
            }
            Iin::NONE
        });
        if assigned {
            self.tell(OutstationEvent::ClassAssigned);
        }
        Outcome::only(iin)
    }
}

/// Group 52: variation 2 in milliseconds, 1 in seconds where that is longer.
pub(super) fn delay_object(delay: Duration) -> Vec<u8> {
    let (variation, delay) = match u16::try_from(delay.as_millis()) {
        Ok(millis) => (2, millis),
        Err(_) => (1, u16::try_from(delay.as_secs()).unwrap_or(u16::MAX)),
    };
    let [low, high] = delay.to_le_bytes();
    vec![52, variation, 7, 1, low, high]
}
