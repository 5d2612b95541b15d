//! What the application sends: answers first, then reports of its own.

use super::application::{Application, Solicited};
use super::config::OutstationConfig;
use super::database::DatabaseError;
use super::events::Mark;
use super::read::{Present, Reading, write_events};
use super::timers::Timer;
use super::unsolicited::Phase;
use crate::app::{AppControl, FragmentWriter, Function};
use crate::link::Broadcast;
use crate::{Classes, EventClass, Iin, Measurement, PointType, Stamp};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::{Instant, Now};

/// The shortest fragment that holds every octet string: its 255 bytes, an object header, the fragment's header.
const FRAGMENT_BYTES_MIN: u16 = 272;
const FRAGMENT_BYTES_MAX: u16 = 2048;

/// What an unsolicited response reports.
#[derive(Clone, Copy)]
enum Report {
    /// Nothing: there is an outstation.
    Null,
    /// Events that wait, of some classes, as many as one response may have.
    New(Classes, u16),
    /// What it reported before: the same bytes, the same events in the same order under the same indications.
    Again,
}

const CLASSES: [EventClass; 3] = [EventClass::Class1, EventClass::Class2, EventClass::Class3];

impl Application {
    /// Gives a point a value, and its event a place.
    pub(super) fn update(&mut self, now: Now, measurement: Measurement) -> Result<(), DatabaseError> {
        self.update_all(now, core::iter::once(measurement))
    }

    /// Gives points values, and their events places, up to the first value that cannot be.
    #[inline]
    pub(super) fn update_all(
        &mut self,
        now: Now,
        measurements: impl IntoIterator<Item = Measurement>,
    ) -> Result<(), DatabaseError> {
        let (own_stamp, mut added, mut result) = (self.clock.stamp(now), [0; 3], Ok(()));
        let mut measurements = measurements.into_iter();
        while let Some(measurement) = measurements.next() {
            let (point_type, index, stamp) = (measurement.point_type, measurement.index, measurement.stamp);
            let change = match self.database.update(measurement) {
                Ok(Some(change)) => change,
                Ok(None) => continue,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let bytes = if point_type == PointType::OctetString { self.database.bytes_of(index) } else { &[] };
            self.events.grow(point_type, measurements.size_hint().0.saturating_add(1));
            let stamp = stamp.unwrap_or(own_stamp);
            let stamp = Stamp { synchronized: stamp.synchronized && own_stamp.synchronized, ..stamp };
            self.events.push(point_type, index, change, bytes, stamp);
            if let Some(count) = added.get_mut(change.class as usize) {
                *count += 1;
            }
        }
        if added != [0; 3] {
            self.note_events(now, added);
        }
        result
    }

    /// There is an event of that class.
    pub(super) fn note_event(&mut self, now: Now, class: EventClass) {
        self.note_events(now, CLASSES.map(|one| u32::from(one == class)));
    }

    /// There are so many more events of each class.
    fn note_events(&mut self, now: Now, added: [u32; 3]) {
        let reported = |class: EventClass| self.unsolicited.enabled.contains(class.into());
        let count = CLASSES.into_iter().zip(added).filter(|(class, _)| reported(*class)).map(|(_, count)| count).sum();
        if count > 0 {
            self.unsolicited.halted = false;
            self.hold_events(now, count);
        }
    }

    /// So many new events wait for others, unless there are enough.
    fn hold_events(&mut self, now: Now, count: u32) {
        let Some(config) = self.config.unsolicited else { return };
        let waiting = self.events.waiting(self.unsolicited.enabled);
        if config.hold_time.is_zero() || waiting >= u32::from(config.events_before_hold_ends) {
            self.end_hold();
        } else if waiting <= count || !(self.unsolicited.is_due || self.timers.is_set(Timer::UnsolicitedHold)) {
            self.unsolicited.is_due = false;
            self.timers.set(Timer::UnsolicitedHold, now.mono + config.hold_time);
        }
    }

    /// Events that wait have waited long enough.
    pub(super) fn end_hold(&mut self) {
        self.timers.clear(Timer::UnsolicitedHold);
        self.unsolicited.is_due = self.events.waiting(self.unsolicited.enabled) > 0;
    }

    /// When `handle_timeout` has something to do at the latest.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let files = self.files.as_ref().and_then(|files| files.timeout());
        [self.timers.timeout(), files, self.freeze_deadline()].into_iter().flatten().min()
    }

    /// Whether an answer is to be sent.
    pub(super) const fn has_reply(&self) -> bool {
        matches!(self.solicited, Solicited::Reply | Solicited::Reading(_))
    }

    /// Appends the next fragment; says whether there was one.
    pub(super) fn write_fragment(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        if !self.is_connected {
            return false;
        }
        if self.is_interrupted() {
            return false;
        }
        if self.protection_is_due() {
            return self.interrupt_reading(now, out);
        }
        match core::mem::replace(&mut self.solicited, Solicited::Idle) {
            // What was read from a file waits for the events.
            Solicited::Reply if self.is_bulk_reply() && self.write_unsolicited(now, out) => {
                self.solicited = Solicited::Reply;
                true
            }
            Solicited::Reply => {
                self.write_reply(now, out);
                true
            }
            Solicited::Reading(reading) => {
                self.write_reading(now, reading, out);
                true
            }
            other @ (Solicited::Idle | Solicited::ReplyAwaits(_) | Solicited::Awaits(..)) => {
                self.solicited = other;
                self.write_unsolicited(now, out)
            }
        }
    }

    fn write_reply(&mut self, now: Now, out: &mut Vec<u8>) {
        let control = AppControl { con: self.must_confirm_broadcast(), ..AppControl::single(self.reply.sequence) };
        let mut writer = FragmentWriter::response(out, self.bytes_max(), control, Function::Response, self.reply.iin);
        let written = writer.raw(&self.reply.objects);
        debug_assert!(written.is_ok(), "the echo of a request that was too long was refused before");
        if control.con {
            self.solicited = Solicited::ReplyAwaits(control.sequence);
            self.timers.set(Timer::SolicitedConfirm, now.mono + self.config.confirm_timeout);
        }
        self.note_response(self.reply.iin);
    }

    fn write_reading(&mut self, now: Now, mut reading: Box<Reading>, out: &mut Vec<u8>) {
        let mut control = AppControl { fir: reading.is_first, ..AppControl::single(reading.sequence) };
        let present = Present {
            database: &self.database,
            config: &self.config,
            attributes: self.extras.as_deref().and_then(|extras| extras.attributes.as_ref()),
            time: self.clock.time(now),
            is_local: self.is_local,
        };
        let waiting = self.events.waiting(Classes::EVENTS);
        let mut writer = FragmentWriter::response(out, self.bytes_max(), control, Function::Response, Iin::NONE)
            .with_index_max(self.database.index_max());
        reading.write(&present, &mut self.events, &mut writer);
        control.fin = reading.is_done();
        let has_events = self.events.waiting(Classes::EVENTS) < waiting;
        control.con = has_events || !control.fin || self.must_confirm_broadcast();
        writer.set_control(control);
        let iin = self.iin().with(reading.iin);
        writer.set_iin(iin);
        self.note_response(iin);
        if !control.con {
            return;
        }
        self.events.tell_overflow();
        self.timers.set(Timer::SolicitedConfirm, now.mono + self.config.confirm_timeout);
        reading.is_first = false;
        reading.sequence = reading.sequence.next();
        self.solicited = Solicited::Awaits(control.sequence, (!control.fin).then_some(reading));
    }

    fn note_response(&mut self, iin: Iin) {
        self.stats.responses += 1;
        self.note_told(iin);
    }

    /// IIN1.0, once told, is over; only FFFE wants that confirmed.
    fn note_told(&mut self, iin: Iin) {
        if iin.contains(Iin::BROADCAST) && !self.must_confirm_broadcast() {
            self.broadcast = None;
        }
    }

    fn must_confirm_broadcast(&self) -> bool {
        self.broadcast == Some(Broadcast::ConfirmAlways)
    }

    fn bytes_max(&self) -> u16 {
        bytes_max(&self.config)
    }

    /// The longest list of objects that a response holds.
    pub(super) fn objects_max(&self) -> usize {
        usize::from(self.bytes_max()) - 4
    }

    fn write_unsolicited(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Some(config) = self.config.unsolicited else { return false };
        if !matches!(self.solicited, Solicited::Idle) {
            return false;
        }
        match self.unsolicited.phase {
            Phase::Null => {
                self.unsolicited.iin = self.iin();
                self.write_report(out, Report::Null);
                self.unsolicited.phase = Phase::AwaitsNull;
                self.stats.unsolicited += 1;
            }
            Phase::Ready if self.is_due() => {
                self.write_report(out, Report::New(self.unsolicited.enabled, config.events_max));
                self.end_hold();
                self.unsolicited.phase = Phase::Awaits;
                self.stats.unsolicited += 1;
            }
            Phase::Repeat => {
                self.write_report(out, Report::Again);
                self.unsolicited.repetitions = self.unsolicited.repetitions.saturating_add(1);
                self.unsolicited.phase = Phase::Awaits;
                self.stats.unsolicited_repeated += 1;
            }
            Phase::Ready | Phase::AwaitsNull | Phase::Awaits => return false,
        }
        self.timers.set(Timer::UnsolicitedConfirm, now.mono + config.confirm_timeout);
        self.note_told(self.unsolicited.iin);
        true
    }

    fn is_due(&self) -> bool {
        let unsolicited = &self.unsolicited;
        unsolicited.is_due && !unsolicited.halted && self.events.waiting(unsolicited.enabled) > 0
    }

    /// Whether the next fragment of a read waits for the confirm of a report that went before it.
    pub(super) fn is_interrupted(&self) -> bool {
        matches!(&self.solicited, Solicited::Reading(reading) if !reading.is_first)
            && self.unsolicited.phase == Phase::Awaits
    }

    /// Whether events that wait go before the next fragment of a read.
    fn protection_is_due(&self) -> bool {
        let Solicited::Reading(reading) = &self.solicited else { return false };
        if reading.is_first || reading.is_uninterrupted || self.unsolicited.phase != Phase::Ready || !self.is_due() {
            return false;
        }
        let classes = self.protection();
        // Events that the read has chosen are older: they keep their place.
        self.events.waiting(classes) > 0 && !self.events.has_selected(classes)
    }

    fn protection(&self) -> Classes {
        let wanted = self.config.unsolicited.map_or(Classes::NONE, |config| config.protection);
        let both =
            |class: &EventClass| wanted.contains((*class).into()) && self.unsolicited.enabled.contains((*class).into());
        CLASSES.into_iter().filter(both).fold(Classes::NONE, |all, class| all.with(class.into()))
    }

    fn interrupt_reading(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Some(config) = self.config.unsolicited else { return false };
        self.write_report(out, Report::New(self.protection(), config.events_max));
        self.end_hold();
        self.unsolicited.phase = Phase::Awaits;
        self.stats.unsolicited += 1;
        self.timers.set(Timer::UnsolicitedConfirm, now.mono + config.confirm_timeout);
        self.note_told(self.unsolicited.iin);
        true
    }

    /// Writes an unsolicited response: class 1 first, each class in the order of its events.
    fn write_report(&mut self, out: &mut Vec<u8>, report: Report) {
        let control = AppControl::unsolicited(self.unsolicited.sequence);
        let bytes_max = self.bytes_max();
        let mut writer =
            FragmentWriter::response(out, bytes_max, control, Function::UnsolicitedResponse, self.unsolicited.iin)
                .with_index_max(self.database.index_max());
        let (mark, classes, mut left) = match report {
            Report::Null => return,
            Report::New(classes, events_max) => (Mark::Idle, classes, usize::from(events_max.max(1))),
            // What was written before no longer waits.
            Report::Again => (Mark::Written, Classes::EVENTS, usize::MAX),
        };
        for class in CLASSES {
            let has_some = mark == Mark::Written || self.events.waiting(class.into()) > 0;
            if classes.contains(class.into()) && has_some {
                write_events(&mut self.events, mark, Some(class), &mut left, 0, &mut writer);
            }
        }
        if mark == Mark::Idle {
            self.unsolicited.iin = self.iin();
            writer.set_iin(self.unsolicited.iin);
            self.events.tell_overflow();
        }
    }
}

/// The longest fragment that is sent.
pub(super) fn bytes_max(config: &OutstationConfig) -> u16 {
    config.fragment_bytes_sent_max.clamp(FRAGMENT_BYTES_MIN, FRAGMENT_BYTES_MAX)
}
