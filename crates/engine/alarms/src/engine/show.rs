//! What is told of alarms: events, and the alarms as they are.

use super::Alarms;
use crate::alarm::{Alarm, AlarmId, By, Change, Event, Flags, Target};
use crate::record::{Record, Saved};
use crate::rows::{Detail, NONE};
use crate::{Counts, Rules, Settings, Transition};
use alloc::boxed::Box;
use alloc::sync::Arc;
use tieline_core::Now;

impl Alarms {
    /// The alarms that are not normal.
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> {
        self.alarms_from(0).map(|(_, alarm)| alarm)
    }

    /// Those of a row and of the rows behind it, with their rows: for a walk in parts.
    pub fn alarms_from(&self, row: u32) -> impl Iterator<Item = (u32, Alarm)> {
        let rows = row..u32::try_from(self.rows.capacity()).unwrap_or(NONE);
        let shown = rows.filter(|id| self.rows.get(*id as usize).is_some_and(|row| !row.flags.is_normal()));
        shown.map(|id| (id, self.shown(id)))
    }

    /// One alarm, normal or not.
    #[must_use]
    pub fn alarm(&self, target: Target<'_>) -> Option<Alarm> {
        self.find(target).map(|id| self.shown(id))
    }

    /// The rules in use.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What is adjustable.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many there are of each kind of state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, row) in self.rows.iter().filter(|(_, row)| !row.flags.is_normal()) {
            let is_consequence = row.detail.as_ref().is_some_and(|detail| detail.cause != NONE);
            let stands = !is_consequence && !row.flags.is_hidden();
            let (active, unacknowledged) =
                (stands && row.flags.has(Flags::ACTIVE), stands && !row.flags.has(Flags::ACKED));
            if let Some(of) = counts.by_priority.get_mut(self.rules.0[row.rule as usize].priority as usize) {
                of.active += usize::from(active);
                of.unacknowledged += usize::from(unacknowledged);
            }
            counts.active += usize::from(active);
            counts.unacknowledged += usize::from(unacknowledged);
            counts.consequences += usize::from(is_consequence);
            counts.shelved += usize::from(row.flags.has(Flags::SHELVED));
            counts.out_of_service += usize::from(row.flags.has(Flags::OUT_OF_SERVICE));
            counts.suppressed += usize::from(row.flags.has(Flags::SUPPRESSED));
            counts.chattering += usize::from(row.flags.has(Flags::CHATTERING));
            counts.latched += usize::from(row.flags.has(Flags::LATCHED));
        }
        counts
    }

    /// All that outlives a restart. It is what the records of all events, applied one after another, come to.
    #[must_use]
    pub fn saved(&self) -> Saved {
        let mut saved = Saved { seq: self.seq, ..Saved::default() };
        for alarm in self.alarms() {
            saved.apply(alarm.record);
        }
        saved
    }

    pub(super) fn find(&self, target: Target<'_>) -> Option<u32> {
        self.row_of(self.input_of(target.topic)?, target.kind)
    }

    /// Tells that an alarm has changed.
    pub(super) fn emit(&mut self, now: Now, id: u32, transition: Transition, by: Option<By<'_>>) {
        let change = self.change(now, id, transition, by);
        self.events.push_back(Event::Change(Box::new(change)));
    }

    /// Tells that an alarm has changed so that operators are called.
    pub(super) fn annunciate(&mut self, now: Now, id: u32, transition: Transition, by: Option<By<'_>>) {
        let change = Change { is_annunciated: true, ..self.change(now, id, transition, by) };
        self.events.push_back(Event::Change(Box::new(change)));
        self.annunciated = self.annunciated.saturating_add(1);
        if self.flood.add(now.mono, &self.settings) {
            self.events.push_back(Event::Flood(true));
        }
    }

    /// The next cause whose number of consequences has changed.
    pub(super) fn next_counted(&mut self) -> Option<Event> {
        loop {
            let id = self.counted.pop_first()?;
            let Some(row) = self.rows.get(id as usize).filter(|row| !row.flags.is_normal()) else { continue };
            let at = row.detail.as_ref().map_or_else(Default::default, |detail| detail.changed);
            let alarm = self.shown(id);
            let change =
                Change { transition: Transition::Counted, alarm, at, who: None, why: None, is_annunciated: false };
            return Some(Event::Change(Box::new(change)));
        }
    }

    fn change(&self, now: Now, id: u32, transition: Transition, by: Option<By<'_>>) -> Change {
        let text = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Arc::from);
        Change {
            transition,
            alarm: self.shown(id),
            at: now.utc,
            who: by.and_then(|by| text(by.who)),
            why: by.and_then(|by| text(by.why)),
            is_annunciated: false,
        }
    }

    fn shown(&self, id: u32) -> Alarm {
        let row = self.row(id);
        let quiet;
        let detail = match row.detail.as_deref() {
            Some(detail) => detail,
            None => {
                quiet = Detail::new();
                &quiet
            }
        };
        let record = Record {
            id: self.id_of(id),
            seq: detail.seq,
            flags: row.flags.kept(),
            since: detail.since,
            changed: detail.changed,
            time: detail.time,
            value: detail.value.clone(),
            acked_by: detail.acked_by.clone(),
            repeats: detail.repeats,
            shelf: detail.shelf.clone(),
            service: detail.service.clone(),
            cause: Some(detail.cause).filter(|cause| *cause != NONE).map(|cause| self.id_of(cause)),
        };
        Alarm { record, rule: self.rule(id).clone(), count: detail.count }
    }

    pub(super) fn id_of(&self, id: u32) -> AlarmId {
        let row = self.row(id);
        AlarmId { topic: self.inputs[row.input as usize].topic.clone(), kind: row.kind }
    }
}
