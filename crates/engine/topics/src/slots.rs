//! Topics by number and by path.

use crate::Lane;
use crate::list::List;
use core::hash::BuildHasher;
use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;
use tieline_core::{Body, Timestamp, Topic};

/// What a slot costs besides its path and value: the slot, its hash entry and its place in the order.
pub(crate) const SLOT_BYTES: usize = 160;

/// A value and when it came.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) body: Body,
    pub(crate) time: Timestamp,
    /// What the caller keeps with the value.
    pub(crate) mark: u8,
    /// How many values the tree had taken with this one; seven bytes, which fit beside the mark.
    stamp: [u8; 7],
}

impl Held {
    pub(crate) fn new(body: Body, time: Timestamp, stamp: u64) -> Self {
        let [stamp @ .., _] = stamp.to_le_bytes();
        Self { body, time, mark: 0, stamp }
    }

    pub(crate) fn stamp(&self) -> u64 {
        let [a, b, c, d, e, f, g] = self.stamp;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

/// All that is known of one topic.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) topic: Topic,
    pub(crate) held: Option<Held>,
    /// The version of the value: grows with each store and each clear, never falls for one path.
    pub(crate) version: u64,
    pub(crate) exact: List,
    /// The set of wildcard filters that select the topic; true in `epoch` only.
    pub(crate) set: u32,
    pub(crate) epoch: u32,
    /// Whether the slot stands in the queue of idle ones. Only that queue frees slots.
    pub(crate) queued: bool,
    /// How urgent the topic is.
    pub(crate) lane: Lane,
    /// Which of the caller's rules holds for it, from 1; 0 for none.
    pub(crate) rule: u16,
}

impl Slot {
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_none() && self.exact.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        slot_bytes(&self.topic)
    }
}

pub(crate) const fn slot_bytes(path: &str) -> usize {
    SLOT_BYTES + path.len()
}

/// Slots, found by path in one hash look-up.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Slab<Slot>,
    by_path: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn find(&self, path: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(path);
        self.by_path.find(hash, |id| self.slots[*id as usize].topic.as_str() == path).copied()
    }

    /// Adds a topic that is not here.
    pub(crate) fn insert(&mut self, topic: Topic, version: u64, lane: Lane, rule: u16) -> u32 {
        let hash = self.hasher.hash_one(topic.as_str());
        let exact = List::default();
        let slot = Slot { topic, held: None, version, exact, set: 0, epoch: 0, queued: false, lane, rule };
        let id = u32::try_from(self.slots.insert(slot)).expect("limits keep the number of topics below 2^32");
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_path.insert_unique(hash, id, |id| hasher.hash_one(slots[*id as usize].topic.as_str()));
        id
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Slot> {
        let slot = self.slots.try_remove(id as usize)?;
        let hash = self.hasher.hash_one(slot.topic.as_str());
        if let Ok(found) = self.by_path.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        Some(slot)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Slot> {
        self.slots.get(id as usize)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Slot> {
        self.slots.get_mut(id as usize)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().map(|(_, slot)| slot)
    }
}
