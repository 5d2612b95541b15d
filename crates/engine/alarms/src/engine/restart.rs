//! A node starts again: its alarms are those before.

use super::Alarms;
use crate::alarm::{Event, Flags};
use crate::record::{Record, Saved};
use crate::rows::{NONE, Timer};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Now, Timestamp};

impl Alarms {
    /// Takes in what was saved, before the first value. An alarm that no rule makes any more is removed. Delays that ran begin
    /// again with the first value; the end of a shelving is where it was by the wall clock, and at most `shelve_max` away.
    pub fn restore(&mut self, now: Now, saved: &Saved) {
        self.seq = self.seq.max(saved.seq);
        let mut restored = Vec::new();
        for record in saved.records() {
            match self.row_for(now, record) {
                Some(id) => {
                    self.take_in(now, id, record);
                    restored.push((id, record));
                }
                None => self.events.push_back(Event::Removed(record.id.clone())),
            }
        }
        for (id, record) in &restored {
            self.link_cause(now, *id, record);
        }
        for (id, _) in restored {
            self.reconsider(now, id);
            let cause = self.detail(id).map_or(NONE, |detail| detail.cause);
            if cause != NONE && !self.has(cause, Flags::ACTIVE) && self.is_presence(cause) {
                self.set_timer(cause, Timer::Release, Some(now.mono + self.settings.gather));
            }
        }
        self.counted.clear();
    }

    fn row_for(&mut self, now: Now, record: &Record) -> Option<u32> {
        let known = self.input_of(&record.id.topic);
        let is_place = known.is_some_and(|input| self.inputs[input as usize].is_place);
        if !(is_place && record.id.kind == crate::Kind::Away) {
            self.declare(now, &record.id.topic)?;
        }
        self.row_of(self.input_of(&record.id.topic)?, record.id.kind)
    }

    fn take_in(&mut self, now: Now, id: u32, record: &Record) {
        let is_active = record.flags.has(Flags::ACTIVE);
        self.row_mut(id).flags = record.flags.kept().with(Flags::CONDITION, is_active);
        let detail = self.detail_mut(id);
        detail.seq = record.seq;
        (detail.since, detail.changed, detail.time) = (record.since, record.changed, record.time);
        detail.value = record.value.clone();
        (detail.acked_by, detail.repeats) = (record.acked_by.clone(), record.repeats);
        (detail.shelf, detail.service) = (record.shelf.clone(), record.service.clone());
        if let Some(shelf) = &record.shelf {
            let left = until(now, shelf.until).min(self.settings.shelve_max);
            self.set_timer(id, Timer::Shelf, Some(now.mono + left));
        }
        if let Some(end) = record.service.as_ref().and_then(|service| service.until) {
            self.set_timer(id, Timer::Service, Some(now.mono + until(now, end)));
        }
        if record.flags.has(Flags::CHATTERING) {
            self.set_timer(id, Timer::Chatter, Some(now.mono + self.settings.chatter_time));
        }
        if is_active && record.id.kind.is_momentary() {
            let delay = self.rule(id).off_delay;
            self.set_timer(id, Timer::Delay, Some(now.mono + delay));
        }
    }

    /// Puts a row below its cause, or into the list of its place.
    fn link_cause(&mut self, now: Now, id: u32, record: &Record) {
        let cause = record.cause.as_ref();
        let cause = cause.and_then(|cause| self.row_of(self.input_of(&cause.topic)?, cause.kind));
        match cause.filter(|cause| self.may_be_cause(*cause, id)) {
            Some(cause) => self.attach(now, id, cause),
            None if record.cause.is_some() => self.stand(now, id, false),
            None if record.flags.has(Flags::ACTIVE) => self.open(id),
            None => {}
        }
    }
}

/// How long until a moment of the wall clock.
fn until(now: Now, end: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(end.micros().saturating_sub(now.utc.micros())).unwrap_or(0))
}
