//! Last values: what an update does to its topic.

use crate::adopted::Adopted;
use crate::list::{Entry, SubscriberId};
use crate::order::Order;
use crate::slots::{Held, Slot, Slots, slot_bytes};
use crate::subscribe::Holdings;
use crate::wild::Wild;
use crate::{Lane, Limits, Stats, TreeError};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use hashbrown::HashMap;
use tieline_core::{Body, Filter, Now, PublishedPoint, Timestamp, Topic, Update, Value};

/// A topic of a tree.
///
/// Stays the same while the topic holds a value or has a subscriber of exactly this topic; otherwise it may stand for
/// another topic after the next call that changes the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is the topic's value.
    Stored,
    /// The topic's value is as it was.
    Passed,
    /// It removed the topic's value.
    Cleared,
}

/// An update that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The topic, for [`Tree::matches`].
    pub topic: TopicId,
    /// The version of the topic's value: one more than before for a store or a clear, and as it was for an update
    /// that passed. Never falls for one path, even when the topic was forgotten in between.
    pub version: u64,
    /// What became of the value.
    pub change: Change,
    /// Whether the topic has a value that had none.
    pub is_new: bool,
}

/// A topic's last value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    /// Its number.
    pub id: TopicId,
    /// Its path.
    pub topic: &'a Topic,
    /// The value.
    pub body: &'a Body,
    /// The version of the value, from 1.
    pub version: u64,
    /// When the tree took the value.
    pub time: Timestamp,
    /// What was kept with the value by [`Tree::mark`]; 0 where nothing was.
    pub mark: u8,
    /// How urgent the topic is.
    pub lane: Lane,
    /// What [`Tree::stamp`] was with this value: of two, the one that came later has the higher one.
    pub stamp: u64,
}

/// Topics, their last values, and who wants them.
#[derive(Debug)]
pub struct Tree {
    pub(crate) limits: Limits,
    pub(crate) slots: Slots,
    pub(crate) order: Order,
    pub(crate) wild: Wild,
    pub(crate) subscribers: HashMap<SubscriberId, Holdings>,
    pub(crate) counts: Stats,
    pub(crate) bytes: usize,
    /// The value that the last update took the place of.
    replaced: Option<Body>,
    /// Slots that were idle when they entered, longest first.
    idle: VecDeque<u32>,
    /// The highest version of any topic that was forgotten: where a topic that comes back goes on.
    version_floor: u64,
    pub(crate) merged: Vec<Entry>,
    pub(crate) ids: Vec<u32>,
    /// Which topics are how urgent: the first filter that selects one decides.
    lanes: Vec<(Filter, Lane)>,
    /// Which topics the caller has rules for: the first filter that selects one decides.
    rules: Vec<Filter>,
    /// Filters that got their first subscriber (true) or lost their last, in order, where the caller wants to know.
    pub(crate) told: Option<Vec<(Filter, bool)>>,
    /// By the topic's number, of topics of other nodes.
    pub(crate) adopted: Vec<Adopted>,
}

impl Tree {
    /// An empty tree.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { idle_max: limits.idle_max.max(1), ..limits },
            slots: Slots::default(),
            order: Order::default(),
            wild: Wild::new(),
            subscribers: HashMap::new(),
            counts: Stats::default(),
            bytes: 0,
            replaced: None,
            idle: VecDeque::new(),
            version_floor: 0,
            merged: Vec::new(),
            ids: Vec::new(),
            lanes: Vec::new(),
            rules: Vec::new(),
            told: None,
            adopted: Vec::new(),
        }
    }

    /// Tells from here on which filters have subscribers: [`Tree::take_told`].
    pub fn tell_filters(&mut self) {
        self.told.get_or_insert_default();
    }

    /// The filters that got their first subscriber (true) or lost their last (false) since the last call, in order. A filter
    /// without wildcards may come twice, with a selector and without.
    pub fn take_told(&mut self) -> Vec<(Filter, bool)> {
        self.told.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Says how urgent topics are that come from here on: the first filter that selects one decides, and
    /// [`Lane::Monitoring`] is what the others are.
    pub fn set_lanes(&mut self, lanes: Vec<(Filter, Lane)>) {
        self.lanes = lanes;
    }

    /// Says which topics that come from here on the caller has rules for: the first filter that selects one decides.
    /// At most 65,535 count.
    pub fn set_rules(&mut self, rules: Vec<Filter>) {
        self.rules = rules;
    }

    /// The place of a topic's rule among those of [`Tree::set_rules`]; costs a look-up for topics that are known.
    #[must_use]
    pub fn rule_of(&self, path: &str) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        let known = self.slots.find(path).and_then(|id| self.slots.get(id)).map(|slot| slot.rule);
        usize::from(known.unwrap_or_else(|| self.match_rule(path))).checked_sub(1)
    }

    fn match_rule(&self, path: &str) -> u16 {
        let at = self.rules.iter().position(|filter| filter.matches(path));
        at.and_then(|at| u16::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// Keeps a byte of the caller's with a topic's value, until the value is replaced.
    pub fn mark(&mut self, topic: TopicId, mark: u8) {
        if let Some(held) = self.slots.get_mut(topic.0).and_then(|slot| slot.held.as_mut()) {
            held.mark = mark;
        }
    }

    /// Takes an update: keeps its body as the topic's value where `retain` says so, and otherwise lets it pass.
    /// A retained opaque body without bytes removes the value (MQTT 5.0 section 3.3.1.3).
    ///
    /// # Errors
    /// A limit is reached; the tree is unchanged.
    pub fn apply(&mut self, now: Now, update: Update, retain: bool) -> Result<Applied, TreeError> {
        self.replaced = None;
        let applied = self.try_apply(now, update, retain);
        match &applied {
            Ok(Applied { change: Change::Stored, .. }) => self.counts.stored += 1,
            Ok(Applied { change: Change::Passed, .. }) => self.counts.passed += 1,
            Ok(Applied { change: Change::Cleared, .. }) => self.counts.cleared += 1,
            Err(_) => self.counts.refused += 1,
        }
        applied
    }

    /// The value that the last update took the place of, where it did.
    #[must_use]
    pub const fn replaced(&self) -> Option<&Body> {
        self.replaced.as_ref()
    }

    /// The same, for its room to be used again.
    pub const fn take_replaced(&mut self) -> Option<Body> {
        self.replaced.take()
    }

    /// The last value of a topic.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<View<'_>> {
        self.view(TopicId(self.slots.find(path)?))
    }

    /// The last value of a topic by its number.
    #[must_use]
    pub fn view(&self, topic: TopicId) -> Option<View<'_>> {
        let slot = self.slots.get(topic.0)?;
        let held = slot.held.as_ref()?;
        Some(View {
            id: topic,
            topic: &slot.topic,
            body: &held.body,
            version: slot.version,
            time: held.time,
            mark: held.mark,
            lane: slot.lane,
            stamp: held.stamp(),
        })
    }

    /// How many values the tree has taken, of all topics: those that come later have a higher [`View::stamp`].
    #[must_use]
    pub const fn stamp(&self) -> u64 {
        self.counts.stored
    }

    /// How urgent a topic is, whether or not it has a value.
    #[must_use]
    pub fn lane(&self, topic: TopicId) -> Lane {
        self.slot(topic).map_or_else(Lane::default, |slot| slot.lane)
    }

    /// The number of a topic that the tree remembers, with or without a value.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<TopicId> {
        self.slots.find(path).map(TopicId)
    }

    /// Sizes and counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            topics: self.order.len(),
            bytes: self.bytes,
            subscribers: self.subscribers.len(),
            wildcard_filters: self.wild.filters.len(),
            wildcard_levels: self.wild.level_count(),
            valueless: self.slots.len() - self.order.len(),
            ..self.counts
        }
    }

    fn try_apply(&mut self, now: Now, update: Update, retain: bool) -> Result<Applied, TreeError> {
        let found = update.body.published().map_or_else(|| payload_bytes(&update.body), Bytes::len);
        let max = self.limits.payload_bytes_max;
        if found > max {
            return Err(TreeError::PayloadTooLong { found, max });
        }
        if !retain {
            return self.pass(update.topic);
        }
        match update.body {
            Body::Opaque(bytes) if bytes.is_empty() => self.clear(update.topic),
            body => self.store(now, update.topic, body),
        }
    }

    fn pass(&mut self, topic: Topic) -> Result<Applied, TreeError> {
        let id = self.find_or_insert(topic)?;
        self.rest(id);
        Ok(self.applied(id, Change::Passed))
    }

    fn clear(&mut self, topic: Topic) -> Result<Applied, TreeError> {
        let id = self.find_or_insert(topic)?;
        let Some(slot) = self.slots.get_mut(id) else { return Ok(self.applied(id, Change::Passed)) };
        let Some(held) = slot.held.take() else {
            self.rest(id);
            return Ok(self.applied(id, Change::Passed));
        };
        slot.version += 1;
        self.bytes -= payload_bytes(&held.body) + self.order.remove(&slot.topic);
        self.disown(id);
        self.rest(id);
        Ok(self.applied(id, Change::Cleared))
    }

    fn store(&mut self, now: Now, topic: Topic, body: Body) -> Result<Applied, TreeError> {
        let known = self.slots.find(&topic);
        let old = known.and_then(|id| self.slots.get(id)).and_then(|slot| slot.held.as_ref());
        let is_new = old.is_none();
        let freed = old.map_or(0, |held| payload_bytes(&held.body));
        let max = self.limits.topics_max;
        if is_new && self.order.len() >= max {
            return Err(TreeError::TopicsFull { max });
        }
        let mut needed = payload_bytes(&body);
        if is_new {
            needed += self.order.cost(&topic);
        }
        if known.is_none() {
            needed += slot_bytes(&topic);
        }
        self.make_room(needed.saturating_sub(freed), known)?;
        let id = known.unwrap_or_else(|| self.insert(topic.clone()));
        self.bytes = self.bytes + needed - freed;
        if is_new {
            self.order.insert(topic, id);
        }
        // `apply` counts it.
        let stamp = self.counts.stored + 1;
        if let Some(slot) = self.slots.get_mut(id) {
            let before = slot.held.replace(Held::new(body, now.utc, stamp));
            self.replaced = before.map(|held| held.body);
            slot.version += 1;
        }
        Ok(Applied { is_new, ..self.applied(id, Change::Stored) })
    }

    fn applied(&self, id: u32, change: Change) -> Applied {
        let version = self.slots.get(id).map_or(0, |slot| slot.version);
        Applied { topic: TopicId(id), version, change, is_new: false }
    }

    pub(crate) fn find_or_insert(&mut self, topic: Topic) -> Result<u32, TreeError> {
        if let Some(id) = self.slots.find(&topic) {
            return Ok(id);
        }
        let needed = slot_bytes(&topic);
        self.make_room(needed, None)?;
        self.bytes += needed;
        Ok(self.insert(topic))
    }

    fn insert(&mut self, topic: Topic) -> u32 {
        let lane = self.lanes.iter().find(|(filter, _)| filter.matches(&topic)).map(|(_, lane)| *lane);
        let rule = self.match_rule(&topic);
        self.slots.insert(topic, self.version_floor, lane.unwrap_or_default(), rule)
    }

    /// Forgets idle topics, `keep` not among them, until `needed` bytes more are allowed.
    pub(crate) fn make_room(&mut self, needed: usize, keep: Option<u32>) -> Result<(), TreeError> {
        let max = self.limits.bytes_max;
        let mut left = self.idle.len();
        while self.bytes.saturating_add(needed) > max && left > 0 {
            left -= 1;
            match self.idle.pop_front() {
                Some(id) if Some(id) == keep => self.idle.push_back(id),
                Some(id) => self.forget_if_idle(id),
                None => break,
            }
        }
        if self.bytes.saturating_add(needed) > max { Err(TreeError::BytesFull { max }) } else { Ok(()) }
    }

    /// Queues a slot to be forgotten some time, where it has neither a value nor a subscriber.
    pub(crate) fn rest(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        if slot.queued || !slot.is_idle() {
            return;
        }
        slot.queued = true;
        self.idle.push_back(id);
        while self.idle.len() > self.limits.idle_max {
            let Some(first) = self.idle.pop_front() else { break };
            self.forget_if_idle(first);
        }
    }

    fn forget_if_idle(&mut self, id: u32) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.queued = false;
        if !slot.is_idle() {
            return;
        }
        if let Some(slot) = self.slots.remove(id) {
            self.version_floor = self.version_floor.max(slot.version);
            self.bytes -= slot.bytes();
            self.counts.idle_forgotten += 1;
        }
    }

    pub(crate) fn slot(&self, topic: TopicId) -> Option<&Slot> {
        self.slots.get(topic.0)
    }
}

/// Bytes that a body keeps on the heap.
pub(crate) fn payload_bytes(body: &Body) -> usize {
    match body {
        Body::Opaque(bytes) => bytes.len(),
        Body::Published(point) => PUBLISHED_BYTES + point.payload().len() + value_bytes(point.value()),
        Body::Point(point) => value_bytes(&point.value),
    }
}

/// What a point costs that is kept with its payload: counts of references, and what was read.
const PUBLISHED_BYTES: usize = size_of::<PublishedPoint>() + 2 * size_of::<usize>();

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
    }
}
