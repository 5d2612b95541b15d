//! What is held by topic, within limits: what came first goes first.

use alloc::collections::VecDeque;
use hashbrown::HashMap;
use tieline_core::Topic;

/// Bytes that an entry costs besides its topic and its value.
const OVERHEAD_BYTES: usize = 128;

#[derive(Debug)]
pub(crate) struct Bounded<T> {
    topics_max: usize,
    bytes_max: usize,
    bytes: usize,
    held: HashMap<Topic, Entry<T>>,
    /// Each topic held, once, in the order in which they came.
    order: VecDeque<Topic>,
    forgotten: u64,
}

#[derive(Debug)]
struct Entry<T> {
    bytes: usize,
    held: T,
}

impl<T> Bounded<T> {
    pub(crate) fn new(topics_max: usize, bytes_max: usize) -> Self {
        let (held, order) = Default::default();
        Self { topics_max, bytes_max, bytes: 0, held, order, forgotten: 0 }
    }

    pub(crate) fn get(&self, topic: &Topic) -> Option<&T> {
        self.held.get(topic).map(|entry| &entry.held)
    }

    pub(crate) fn get_mut(&mut self, topic: &Topic) -> Option<&mut T> {
        self.held.get_mut(topic).map(|entry| &mut entry.held)
    }

    /// Bytes of a topic's value as it was put.
    pub(crate) fn bytes_of(&self, topic: &Topic) -> usize {
        self.held.get(topic).map_or(0, |entry| entry.bytes - cost(topic))
    }

    /// Holds this of a topic, whose value has so many bytes; others go for it, and it goes itself where it is too long.
    pub(crate) fn put(&mut self, topic: &Topic, value_bytes: usize, held: T) {
        let bytes = cost(topic) + value_bytes;
        match self.held.insert(topic.clone(), Entry { bytes, held }) {
            Some(before) => self.bytes -= before.bytes,
            None => self.order.push_back(topic.clone()),
        }
        self.bytes += bytes;
        while self.held.len() > self.topics_max || self.bytes > self.bytes_max {
            let Some(gone) = self.order.pop_front().and_then(|first| self.held.remove(&first)) else { return };
            self.bytes -= gone.bytes;
            self.forgotten += 1;
        }
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.held.values_mut().map(|entry| &mut entry.held)
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many went for others.
    pub(crate) const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

fn cost(topic: &Topic) -> usize {
    topic.len() + OVERHEAD_BYTES
}
