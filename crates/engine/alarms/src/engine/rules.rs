//! Which alarms a topic has: made of the rules, and of other rules later.

use super::Alarms;
use crate::alarm::{Event, Flags};
use crate::matcher::Matcher;
use crate::rows::{NEVER, NONE, Others, Row, Timer};
use crate::{Kind, Rules};
use alloc::vec::Vec;
use tieline_core::{Now, Topic};

impl Alarms {
    /// Takes other rules. Alarms whose topic and kind have a rule as before keep their state.
    pub fn set_rules(&mut self, now: Now, rules: Rules) {
        let old = core::mem::replace(&mut self.rules, rules);
        let count = self.rules.len();
        let shift = u32::try_from(count).unwrap_or(u32::MAX);
        self.matcher = Matcher::new(&self.rules.0);
        // Until each row has its new rule it has its old one, behind the new ones.
        self.rules.0.extend(old.0);
        for (_, row) in &mut self.rows {
            row.rule = row.rule.saturating_add(shift);
        }
        for input in 0..u32::try_from(self.inputs.len()).unwrap_or(u32::MAX) {
            let found = self.matcher.rules_of(&self.rules.0, &self.inputs[input as usize].topic);
            self.instantiate(now, input, &found);
        }
        self.rules.0.truncate(count);
        self.generation = self.generation.wrapping_add(1);
    }

    /// Removes the alarms of a topic that is no more. It may be declared again.
    pub fn remove(&mut self, now: Now, topic: &str) {
        let Some(input) = self.input_of(topic) else { return };
        let known = &mut self.inputs[input as usize];
        (known.is_declared, known.is_known) = (false, false);
        let found = self.matcher.rules_of(&self.rules.0, topic);
        self.instantiate(now, input, &found);
    }

    /// Makes the rows of an input those of the rules that were found for it.
    pub(super) fn instantiate(&mut self, now: Now, input: u32, found: &[(Kind, u32)]) {
        let known = &self.inputs[input as usize];
        let (is_declared, is_place) = (known.is_declared, known.is_place);
        let is_wanted = |kind: Kind| is_declared || is_place && kind == Kind::Away;
        let rule_of = |kind: Kind| found.iter().find(|(of, _)| *of == kind && is_wanted(kind)).map(|(_, rule)| *rule);
        let (mut stay, mut go) = (Vec::new(), Vec::new());
        for id in self.rows_of(input) {
            let kind = self.row(id).kind;
            match rule_of(kind) {
                Some(rule) => {
                    self.row_mut(id).rule = rule;
                    stay.push((kind, id));
                }
                None => go.push(id),
            }
        }
        for id in go {
            self.remove_row(now, id);
        }
        for (kind, rule) in found.iter().filter(|(kind, _)| is_wanted(*kind)) {
            if !stay.iter().any(|(of, _)| of == kind)
                && let Some(id) = self.add_row(input, *kind, *rule)
            {
                stay.push((*kind, id));
            }
        }
        stay.sort_unstable();
        self.link(input, stay.iter().map(|(_, id)| *id));
        for (_, id) in stay {
            self.look_around(now, id);
            self.reconsider(now, id);
        }
    }

    /// Makes the list of an input's rows.
    fn link(&mut self, input: u32, rows: impl DoubleEndedIterator<Item = u32>) {
        let mut next = NONE;
        for id in rows.rev() {
            self.row_mut(id).next = next;
            next = id;
        }
        self.inputs[input as usize].first = next;
    }

    fn add_row(&mut self, input: u32, kind: Kind, rule: u32) -> Option<u32> {
        if self.rows.len() >= self.settings.alarms_max {
            self.refused = self.refused.saturating_add(1);
            return None;
        }
        let row = Row { input, next: NONE, rule, flags: Flags::QUIET, kind, delay_at: NEVER, detail: None };
        u32::try_from(self.rows.insert(row)).ok()
    }

    /// Takes a row away; its consequences stand for themselves.
    fn remove_row(&mut self, now: Now, id: u32) {
        for timer in [Timer::Delay, Timer::Watch, Timer::Shelf, Timer::Service, Timer::Chatter, Timer::Release] {
            self.set_timer(id, timer, None);
        }
        self.close(id);
        self.detach(id);
        let (input, name, was_normal) = (self.row(id).input, self.id_of(id), self.row(id).flags.is_normal());
        let is_limit = !self.is_presence(id);
        self.row_mut(id).flags = Flags::QUIET;
        let others: Vec<u32> = self.rows_of(input).into_iter().filter(|other| *other != id).collect();
        self.link(input, others.into_iter());
        let mut consequences = self.detail(id).map_or_else(Vec::new, |detail| detail.consequences.clone());
        consequences.sort_unstable();
        for row in consequences {
            self.detach(row);
            self.detail_mut(row).changed = now.utc;
            self.stand(now, row, is_limit);
        }
        self.look_away(id);
        self.counted.remove(&id);
        self.rows.remove(id as usize);
        if !was_normal {
            self.events.push_back(Event::Removed(name));
        }
    }

    /// Finds the other topics that a row looks at.
    fn look_around(&mut self, now: Now, id: u32) {
        self.look_away(id);
        let rule = self.rule(id).clone();
        let topic = self.inputs[self.row(id).input as usize].topic.clone();
        match self.watched(id) {
            Some(time) if !self.watches.contains_key(&id) => self.set_timer(id, Timer::Watch, Some(now.mono + time)),
            Some(_) => {}
            None => self.set_timer(id, Timer::Watch, None),
        }
        if rule.reference.is_none() && rule.suppress_when.is_none() {
            return;
        }
        let reference = rule.reference.as_ref().and_then(|pattern| pattern.resolve(&rule.filter, &topic));
        let suppression = rule.suppress_when.as_ref();
        let suppressing = suppression.and_then(|suppression| suppression.topic.resolve(&rule.filter, &topic));
        let others = Others {
            reference: reference.map_or(NONE, |topic| self.looked_at(now, id, &topic)),
            suppressing: suppressing.map_or(NONE, |topic| self.looked_at(now, id, &topic)),
        };
        self.others.insert(id, others);
    }

    /// A topic that a row of another looks at.
    fn looked_at(&mut self, now: Now, id: u32, topic: &Topic) -> u32 {
        let known = self.input_of(topic);
        if known.is_none() {
            self.generation = self.generation.wrapping_add(1);
        }
        let input = known.unwrap_or_else(|| self.add_input(now, topic));
        self.inputs[input as usize].has_dependents = true;
        let rows = self.dependents.entry(input).or_default();
        if !rows.contains(&id) {
            rows.push(id);
        }
        input
    }

    fn look_away(&mut self, id: u32) {
        let Some(others) = self.others.remove(&id) else { return };
        for input in [others.reference, others.suppressing] {
            let Some(rows) = self.dependents.get_mut(&input) else { continue };
            rows.retain(|row| *row != id);
            if rows.is_empty() {
                self.dependents.remove(&input);
                self.inputs[input as usize].has_dependents = false;
            }
        }
    }

    /// Looks at what is known already, by a rule that may be another one.
    pub(super) fn reconsider(&mut self, now: Now, id: u32) {
        if self.others.get(&id).is_none_or(|others| others.suppressing == NONE) && self.has(id, Flags::SUPPRESSED) {
            self.set_flag(id, Flags::SUPPRESSED, false);
            if !self.row(id).flags.is_normal() {
                self.reannunciate(now, id, crate::Transition::Unsuppressed, None);
            }
        }
        self.suppress(now, id);
        if self.is_presence(id) {
            if let Some(is_reached) = self.inputs[self.row(id).input as usize].presence {
                self.settle(now, id, !is_reached);
            }
        } else if self.watched(id).is_none() {
            self.look(now, id, None);
        }
    }
}
