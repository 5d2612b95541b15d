//! Who waits to be checked: each network in its turn, so that one that sends many delays itself and no other.

use crate::Network;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// What waits, by network.
#[derive(Debug)]
pub struct Waiting<T> {
    of: BTreeMap<Network, VecDeque<T>>,
    /// Whose turn it is, first to last.
    turns: VecDeque<Network>,
    /// How many each has waiting.
    counts: BTreeSet<(usize, Network)>,
    len: usize,
    max: usize,
}

impl<T> Waiting<T> {
    /// Nobody waits; no more than `max` ever do.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { of: BTreeMap::new(), turns: VecDeque::new(), counts: BTreeSet::new(), len: 0, max }
    }

    /// One more waits. Where there is no room, the last of the network with the most gives its place, and comes back; that is
    /// the new one itself where its own network has the most.
    pub fn push(&mut self, from: Network, item: T) -> Option<T> {
        let mut displaced = None;
        if self.len >= self.max {
            let own = self.of.get(&from).map_or(0, VecDeque::len);
            match self.counts.last().copied() {
                Some((most, busiest)) if most > own + 1 => displaced = self.take_last(busiest),
                Some(_) | None => return Some(item),
            }
        }
        let queue = self.of.entry(from).or_default();
        queue.push_back(item);
        let count = queue.len();
        if count == 1 {
            self.turns.push_back(from);
        } else {
            self.counts.remove(&(count - 1, from));
        }
        self.counts.insert((count, from));
        self.len += 1;
        displaced
    }

    /// The next one, of the network whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let network = self.turns.pop_front()?;
        let item = self.take(network, VecDeque::pop_front);
        if self.of.contains_key(&network) {
            self.turns.push_back(network);
        }
        item
    }

    /// How many wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Of a network with more than one.
    fn take_last(&mut self, network: Network) -> Option<T> {
        self.take(network, VecDeque::pop_back)
    }

    fn take(&mut self, network: Network, which: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        let queue = self.of.get_mut(&network)?;
        self.counts.remove(&(queue.len(), network));
        let item = which(queue);
        match queue.len() {
            0 => drop(self.of.remove(&network)),
            left => drop(self.counts.insert((left, network))),
        }
        self.len -= usize::from(item.is_some());
        item
    }
}
