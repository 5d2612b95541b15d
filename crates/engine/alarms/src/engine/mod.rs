//! The engine: what comes in, what it waits for, what goes out.

mod causes;
mod evaluate;
mod life;
mod operator;
mod places;
mod restart;
mod rules;
mod show;
mod timers;

pub use places::PlaceName;

use crate::alarm::{Event, Flags};
use crate::flood::Flood;
use crate::matcher::Matcher;
use crate::rows::{Detail, Input, InputId, NONE, Others, Place, Row, Timer};
use crate::{Kind, Rule, Rules, Settings, Stats};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use evaluate::{Before, Seen, evaluate};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use slab::Slab;
use tieline_core::{Deadlines, Instant, Now, Point, Topic, Validity};

/// All alarms of a node.
///
/// Values, presence, results of commands and requests of persons go in, with the time; events come out. Forgetting to take
/// events loses nothing: each is as large as an alarm, and there are a few for each alarm that a call has changed.
#[derive(Debug)]
pub struct Alarms {
    settings: Settings,
    rules: Rules,
    matcher: Matcher,
    inputs: Vec<Input>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    rows: Slab<Row>,
    /// Of the rows that look at other topics.
    others: HashMap<u32, Others>,
    /// Of topics, the rows of others that look at them.
    dependents: HashMap<u32, Vec<u32>>,
    /// Of rows of `stale`, when to look.
    watches: HashMap<u32, Instant>,
    places: Vec<Place>,
    deadlines: Deadlines<(u32, Timer)>,
    flood: Flood,
    /// The last occurrence.
    seq: u64,
    events: VecDeque<Event>,
    /// Causes whose number of consequences has changed.
    counted: BTreeSet<u32>,
    refused: u64,
    annunciated: u64,
    generation: u64,
}

impl Alarms {
    /// No topics yet. After it: [`Alarms::set_places`], [`Alarms::restore`], [`Alarms::declare`], then values.
    #[must_use]
    pub fn new(settings: Settings, rules: Rules) -> Self {
        let matcher = Matcher::new(&rules.0);
        Self {
            settings,
            rules,
            matcher,
            inputs: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            rows: Slab::new(),
            others: HashMap::new(),
            dependents: HashMap::new(),
            watches: HashMap::new(),
            places: Vec::new(),
            deadlines: Deadlines::default(),
            flood: Flood::new(),
            seq: 0,
            events: VecDeque::new(),
            counted: BTreeSet::new(),
            refused: 0,
            annunciated: 0,
            generation: 0,
        }
    }

    /// Makes the alarms of a topic. None: no rule is for it, and no alarm looks at it. The answer may be another one when
    /// [`Alarms::generation`] has changed.
    pub fn declare(&mut self, now: Now, topic: &Topic) -> Option<InputId> {
        let known = self.input_of(topic);
        if let Some(input) = known.filter(|input| self.inputs[*input as usize].is_declared) {
            return Some(InputId(input));
        }
        let found = self.matcher.rules_of(&self.rules.0, topic);
        if known.is_none() {
            if found.is_empty() {
                return None;
            }
            // A topic without a row would take memory all the same.
            if self.rows.len() >= self.settings.alarms_max {
                self.refused = self.refused.saturating_add(found.len() as u64);
                return None;
            }
        }
        let input = known.unwrap_or_else(|| self.add_input(now, topic));
        self.inputs[input as usize].is_declared = true;
        self.instantiate(now, input, &found);
        Some(InputId(input))
    }

    /// Changes when topics that have no alarms should be declared again: rules have changed, or an alarm looks at a topic that
    /// was not declared before.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes a value of a topic in.
    pub fn handle_point(&mut self, now: Now, id: InputId, point: &Point) {
        let Some(input) = self.inputs.get_mut(id.0 as usize) else { return };
        let before = Before {
            value: core::mem::replace(&mut input.value, point.value.clone()),
            quality: core::mem::replace(&mut input.quality, point.quality),
            time: core::mem::replace(&mut input.time, point.time),
            is_known: core::mem::replace(&mut input.is_known, true),
        };
        if point.quality.validity() != Validity::Bad {
            input.seen = now.mono;
        }
        let has_dependents = input.has_dependents;
        let mut next = input.first;
        while let Some(row) = self.rows.get(next as usize) {
            let id = core::mem::replace(&mut next, row.next);
            self.look(now, id, Some(&before));
        }
        if has_dependents {
            self.look_at_dependents(now, id.0);
        }
    }

    /// Takes in whether a place is reached.
    pub fn handle_presence(&mut self, now: Now, place: &str, is_reached: bool) {
        let Some(input) = self.input_of(place) else { return };
        let known = &mut self.inputs[input as usize];
        if !known.is_place {
            return;
        }
        known.presence = Some(is_reached);
        if let Some(id) = self.row_of(input, Kind::Away) {
            self.settle(now, id, !is_reached);
        }
    }

    /// Takes the result of a command for a topic in.
    pub fn handle_command(&mut self, now: Now, topic: &str, has_succeeded: bool) {
        let row = self.input_of(topic).and_then(|input| self.row_of(input, Kind::CommandFailed));
        let Some(id) = row else { return };
        if !has_succeeded {
            self.fire(now, id);
        } else if self.row(id).flags.has(Flags::ACTIVE) {
            self.set_timer(id, Timer::Delay, None);
            self.turn(now, id, false);
        }
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.next_counted())
    }

    /// Whether [`Alarms::poll_event`] may have something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.counted.is_empty()
    }

    /// Takes other settings. What is under way ends as it began.
    pub const fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The number of the last occurrence.
    #[must_use]
    pub const fn occurrence(&self) -> u64 {
        self.seq
    }

    /// When [`Alarms::handle_timeout`] has something to do.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        match (self.deadlines.timeout(), self.flood.timeout()) {
            (Some(deadline), Some(flood)) => Some(deadline.min(flood)),
            (deadline, flood) => deadline.or(flood),
        }
    }

    /// Sizes and counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            alarms: self.rows.len(),
            topics: self.inputs.len(),
            refused: self.refused,
            annunciated: self.annunciated,
            annunciated_10min: self.flood.total(),
            is_flood: self.flood.is_on(),
        }
    }

    /// Looks at the value of a row's topic. The way of most updates: nothing changes.
    fn look(&mut self, now: Now, id: u32, before: Option<&Before>) {
        let row = self.row(id);
        let (flags, rule) = (row.flags, &self.rules.0[row.rule as usize]);
        let input = &self.inputs[row.input as usize];
        let reference = match row.kind {
            Kind::Deviation => self.others.get(&id).and_then(|others| self.inputs.get(others.reference as usize)),
            _ => None,
        };
        let is_certain = !flags.has(Flags::UNCERTAIN);
        match evaluate(rule, flags.has(Flags::ACTIVE), input, before, reference) {
            Seen::Is(is_on) if is_certain && is_on == flags.has(Flags::CONDITION) => {}
            Seen::Is(is_on) => self.settle(now, id, is_on),
            Seen::Nothing if is_certain => {}
            Seen::Nothing => self.set_certain(now, id, true),
            Seen::Fired => self.fire(now, id),
            Seen::Doubtful if is_certain => self.doubt(now, id),
            Seen::Doubtful | Seen::NotAsked => {}
        }
    }

    /// Looks at the rows of other topics that this one is the reference of, or suppresses.
    fn look_at_dependents(&mut self, now: Now, input: u32) {
        let Some(rows) = self.dependents.get(&input).cloned() else { return };
        for id in rows {
            let Some(others) = self.others.get(&id).copied() else { continue };
            if others.reference == input {
                self.look(now, id, None);
            }
            if others.suppressing == input {
                self.suppress(now, id);
            }
        }
    }

    fn row(&self, id: u32) -> &Row {
        &self.rows[id as usize]
    }

    fn row_mut(&mut self, id: u32) -> &mut Row {
        &mut self.rows[id as usize]
    }

    fn rule(&self, id: u32) -> &Arc<Rule> {
        &self.rules.0[self.row(id).rule as usize]
    }

    fn detail(&self, id: u32) -> Option<&Detail> {
        self.row(id).detail.as_deref()
    }

    /// What is kept of an alarm that is not quiet, made where there is none.
    fn detail_mut(&mut self, id: u32) -> &mut Detail {
        self.row_mut(id).detail.get_or_insert_with(|| alloc::boxed::Box::new(Detail::new()))
    }

    fn set_flag(&mut self, id: u32, flag: Flags, is_set: bool) {
        let row = self.row_mut(id);
        row.flags = row.flags.with(flag, is_set);
    }

    fn has(&self, id: u32, flag: Flags) -> bool {
        self.row(id).flags.has(flag)
    }

    fn hash(&self, topic: &str) -> u64 {
        self.hasher.hash_one(topic)
    }

    fn input_of(&self, topic: &str) -> Option<u32> {
        let hash = self.hash(topic);
        self.index.find(hash, |input| self.inputs[*input as usize].topic.as_str() == topic).copied()
    }

    fn add_input(&mut self, now: Now, topic: &Topic) -> u32 {
        let input = u32::try_from(self.inputs.len()).unwrap_or(NONE);
        self.inputs.push(Input::new(topic.clone(), now.mono));
        let hash = self.hash(topic);
        let (inputs, hasher) = (&self.inputs, &self.hasher);
        self.index.insert_unique(hash, input, |known| hasher.hash_one(inputs[*known as usize].topic.as_str()));
        self.inputs[input as usize].place = self.place_above(topic);
        input
    }

    fn row_of(&self, input: u32, kind: Kind) -> Option<u32> {
        let mut next = self.inputs.get(input as usize)?.first;
        while let Some(row) = self.rows.get(next as usize) {
            if row.kind == kind {
                return Some(next);
            }
            next = row.next;
        }
        None
    }

    /// The rows of an input, in the order of their kinds.
    fn rows_of(&self, input: u32) -> Vec<u32> {
        let mut rows = Vec::new();
        let mut next = self.inputs[input as usize].first;
        while let Some(row) = self.rows.get(next as usize) {
            rows.push(next);
            next = row.next;
        }
        rows
    }

    const fn next_seq(&mut self) -> u64 {
        self.seq = self.seq.saturating_add(1);
        self.seq
    }
}
