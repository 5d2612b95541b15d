//! How an alarm comes, goes, and is heard of.

use super::Alarms;
use crate::alarm::{By, Flags};
use crate::rows::{NEVER, NONE, Timer};
use crate::{Kind, Priority, Transition};
use tieline_core::{Now, Validity};

impl Alarms {
    /// The condition of a row holds, or does not: at once or after a delay it is active, or returns.
    pub(super) fn settle(&mut self, now: Now, id: u32, is_on: bool) {
        self.set_certain(now, id, true);
        self.set_flag(id, Flags::CONDITION, is_on);
        if is_on == self.has(id, Flags::ACTIVE) {
            self.set_timer(id, Timer::Delay, None);
            return;
        }
        let rule = self.rule(id);
        let delay = if is_on { rule.on_delay } else { rule.off_delay };
        if delay.is_zero() {
            self.set_timer(id, Timer::Delay, None);
            self.turn(now, id, is_on);
        } else if self.row(id).delay_at == NEVER {
            self.set_timer(id, Timer::Delay, Some(now.mono + delay));
        }
    }

    /// The input is bad: what runs stops, and what is stays.
    pub(super) fn doubt(&mut self, now: Now, id: u32) {
        if !self.row(id).kind.is_momentary() {
            self.set_timer(id, Timer::Delay, None);
        }
        self.set_certain(now, id, false);
    }

    pub(super) fn set_certain(&mut self, now: Now, id: u32, is_certain: bool) {
        if is_certain != self.has(id, Flags::UNCERTAIN) {
            return;
        }
        self.set_flag(id, Flags::UNCERTAIN, !is_certain);
        if !self.row(id).flags.is_normal() {
            let transition = if is_certain { Transition::Certain } else { Transition::Uncertain };
            self.emit(now, id, transition, None);
        }
    }

    /// What lasts for a moment has happened.
    pub(super) fn fire(&mut self, now: Now, id: u32) {
        self.set_certain(now, id, true);
        self.set_timer(id, Timer::Delay, None);
        if self.has(id, Flags::ACTIVE) {
            let detail = self.detail_mut(id);
            detail.repeats = detail.repeats.saturating_add(1);
            detail.changed = now.utc;
            self.emit(now, id, Transition::Raised, None);
        } else {
            self.raise(now, id);
        }
        let delay = self.rule(id).off_delay;
        if delay.is_zero() {
            self.turn(now, id, false);
        } else {
            self.set_timer(id, Timer::Delay, Some(now.mono + delay));
        }
    }

    pub(super) fn turn(&mut self, now: Now, id: u32, is_on: bool) {
        if is_on { self.raise(now, id) } else { self.come_back(now, id) }
    }

    fn raise(&mut self, now: Now, id: u32) {
        let was_chattering = self.has(id, Flags::CHATTERING);
        let begins_chattering = self.count_activation(now, id) && !was_chattering;
        if was_chattering {
            let detail = self.detail_mut(id);
            detail.repeats = detail.repeats.saturating_add(1);
        } else {
            self.begin_occurrence(now, id);
        }
        let is_latching = self.rule(id).is_latching;
        let flags = self
            .row(id)
            .flags
            .with(Flags::ACTIVE, true)
            .with(Flags::LATCHED, is_latching || self.has(id, Flags::LATCHED));
        self.row_mut(id).flags = flags.with(Flags::CHATTERING, was_chattering || begins_chattering);
        let detail = self.detail_mut(id);
        (detail.changed, detail.raised_at) = (now.utc, now.mono);
        self.set_timer(id, Timer::Release, None);
        self.find_cause(now, id);
        if was_chattering || !self.is_audible(id) {
            self.emit(now, id, Transition::Raised, None);
        } else {
            self.annunciate(now, id, Transition::Raised, None);
        }
        if begins_chattering {
            self.emit(now, id, Transition::Chattering, None);
        }
        self.gather(now, id);
    }

    /// A new occurrence, which nobody has seen.
    fn begin_occurrence(&mut self, now: Now, id: u32) {
        let input = &self.inputs[self.row(id).input as usize];
        let (value, time) = (input.value.clone(), input.time);
        let seq = self.next_seq();
        let needs_none = self.rule(id).priority == Priority::Event;
        self.set_flag(id, Flags::ACKED, needs_none);
        let detail = self.detail_mut(id);
        (detail.seq, detail.since, detail.value, detail.time) = (seq, now.utc, value, time);
        (detail.acked_by, detail.repeats) = (None, 0);
    }

    /// Whether so many activations in so short a time are chattering.
    fn count_activation(&mut self, now: Now, id: u32) -> bool {
        let (count, time) = (usize::from(self.settings.chatter_count.max(1)), self.settings.chatter_time);
        let activations = &mut self.detail_mut(id).activations;
        if activations.len() >= count {
            activations.remove(0);
        }
        activations.push(now.mono);
        let is_many = activations.len() == count && activations.first().is_some_and(|at| now.mono.since(*at) <= time);
        self.set_timer(id, Timer::Chatter, Some(now.mono + time));
        is_many
    }

    fn come_back(&mut self, now: Now, id: u32) {
        self.close(id);
        self.row_mut(id).flags = self.row(id).flags.with(Flags::ACTIVE, false).with(Flags::CONDITION, false);
        self.detail_mut(id).changed = now.utc;
        self.emit(now, id, Transition::Returned, None);
        self.let_go(now, id);
        if self.detail(id).and_then(|detail| detail.shelf.as_ref()).is_some_and(|shelf| shelf.once) {
            self.end_shelf(now, id, None);
        }
        self.finish(now, id);
    }

    /// Shelving ends: what is still active is annunciated again.
    pub(super) fn end_shelf(&mut self, now: Now, id: u32, by: Option<By<'_>>) {
        self.set_timer(id, Timer::Shelf, None);
        self.set_flag(id, Flags::SHELVED, false);
        let detail = self.detail_mut(id);
        (detail.shelf, detail.changed) = (None, now.utc);
        self.reannunciate(now, id, Transition::Unshelved, by);
        self.finish(now, id);
    }

    /// The alarm is in service again.
    pub(super) fn end_service(&mut self, now: Now, id: u32, by: Option<By<'_>>) {
        self.set_timer(id, Timer::Service, None);
        self.set_flag(id, Flags::OUT_OF_SERVICE, false);
        let detail = self.detail_mut(id);
        (detail.service, detail.changed) = (None, now.utc);
        self.reannunciate(now, id, Transition::InService, by);
        self.finish(now, id);
    }

    /// The activations stopped.
    pub(super) fn end_chattering(&mut self, now: Now, id: u32) {
        self.detail_mut(id).activations.clear();
        if self.has(id, Flags::CHATTERING) {
            self.set_flag(id, Flags::CHATTERING, false);
            if !self.row(id).flags.is_normal() {
                self.detail_mut(id).changed = now.utc;
                self.emit(now, id, Transition::Steady, None);
            }
        }
        self.finish(now, id);
    }

    /// Looks at the topic that suppresses a row.
    pub(super) fn suppress(&mut self, now: Now, id: u32) {
        let Some(input) = self.others.get(&id).and_then(|others| self.inputs.get(others.suppressing as usize)) else {
            return;
        };
        let Some(suppression) = &self.rule(id).suppress_when else { return };
        if !input.is_known || input.quality.validity() == Validity::Bad {
            return;
        }
        let is_on = super::evaluate::is_same(&suppression.value, &input.value);
        if is_on == self.has(id, Flags::SUPPRESSED) {
            return;
        }
        self.set_flag(id, Flags::SUPPRESSED, is_on);
        if self.row(id).flags.is_normal() {
            return;
        }
        self.detail_mut(id).changed = now.utc;
        if is_on {
            self.emit(now, id, Transition::Suppressed, None);
        } else {
            self.reannunciate(now, id, Transition::Unsuppressed, None);
        }
    }

    /// What hid an alarm is gone: one that is still active is annunciated, as a new occurrence.
    pub(super) fn reannunciate(&mut self, now: Now, id: u32, transition: Transition, by: Option<By<'_>>) {
        if !self.has(id, Flags::ACTIVE) || !self.is_audible(id) || self.has(id, Flags::CHATTERING) {
            self.emit(now, id, transition, by);
            return;
        }
        let seq = self.next_seq();
        self.set_flag(id, Flags::ACKED, false);
        let detail = self.detail_mut(id);
        (detail.seq, detail.acked_by, detail.changed) = (seq, None, now.utc);
        self.annunciate(now, id, transition, by);
    }

    /// Whether operators are called for it.
    pub(super) fn is_audible(&self, id: u32) -> bool {
        let is_consequence = self.detail(id).is_some_and(|detail| detail.cause != NONE);
        !is_consequence && !self.row(id).flags.is_hidden() && self.rule(id).priority != Priority::Event
    }

    /// Drops what is kept of an alarm that is normal, unless something still needs it.
    pub(super) fn finish(&mut self, now: Now, id: u32) {
        if !self.row(id).flags.is_normal() {
            return;
        }
        self.detach(id);
        let Some(detail) = self.detail(id) else { return };
        let is_releasing = detail.deadlines.get(Timer::Release.place().unwrap_or(0)).is_some_and(|at| *at != NEVER);
        if !is_releasing && !detail.consequences.is_empty() {
            self.release(now, id);
            return;
        }
        let is_calm = detail.activations.is_empty() && !self.has(id, Flags::CHATTERING);
        if detail.consequences.is_empty() && is_calm {
            self.set_timer(id, Timer::Release, None);
            self.row_mut(id).detail = None;
            self.counted.remove(&id);
        }
    }

    /// Whether a row says that a place is not reached.
    pub(super) fn is_presence(&self, id: u32) -> bool {
        let row = self.row(id);
        row.kind == Kind::Away && self.inputs[row.input as usize].is_place
    }
}
