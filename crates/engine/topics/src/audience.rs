//! Who an update goes to.

use crate::list::{Entry, SubscriberId};
use crate::wild::WildFilter;
use crate::{TopicId, Tree};
use alloc::vec::Vec;
use core::slice;
use slab::Slab;

/// One delivery: what all subscriptions of one subscriber that select the topic say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'a> {
    /// Who.
    pub subscriber: SubscriberId,
    /// The highest quality of service of them.
    pub qos: u8,
    /// Whether any of them wants the retain flag as published.
    pub retain_as_published: bool,
    /// The subscription identifiers of all of them, ascending.
    pub ids: &'a [u32],
}

/// The subscribers of one topic.
#[derive(Debug)]
pub struct Audience<'a> {
    exact: &'a [Entry],
    set: &'a [u32],
    filters: &'a Slab<WildFilter>,
    merged: &'a mut Vec<Entry>,
    ids: &'a mut Vec<u32>,
}

impl Tree {
    /// The subscribers of a topic. Costs a comparison while the distinct wildcard filters stay the same, and a walk
    /// over the levels of the topic when they changed.
    pub fn matches(&mut self, topic: TopicId) -> Audience<'_> {
        if self.slot(topic).is_some_and(|slot| slot.epoch != self.wild.epoch) {
            self.select(topic);
        }
        let Self { slots, wild, merged, ids, .. } = self;
        let slot = slots.get(topic.0);
        let set = slot.map_or(&[][..], |slot| wild.set(slot.set));
        let exact = slot.map_or(&[][..], |slot| slot.exact.entries());
        Audience { exact, set, filters: &wild.filters, merged, ids }
    }

    fn select(&mut self, topic: TopicId) {
        if self.wild.set_octets() >= self.limits.set_octets_max {
            self.counts.sets_flushed += 1;
            self.void_sets();
        }
        let Some(slot) = self.slots.get_mut(topic.0) else { return };
        slot.set = self.wild.select(&slot.topic);
        slot.epoch = self.wild.epoch;
        self.counts.sets_computed += 1;
    }

    pub(crate) fn void_sets(&mut self) {
        self.wild.void_sets();
        if self.wild.epoch == 0 {
            // The count of epochs ran out: no slot may keep a number that will come again.
            self.slots.iter_mut().for_each(|slot| slot.epoch = 0);
            self.wild.epoch = 1;
        }
    }
}

impl Audience<'_> {
    /// Whether nobody wants the topic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.set.is_empty()
    }

    /// Calls `each` once for every subscriber, ascending, except where `from` published the update and all of its
    /// subscriptions ask not to be sent its own.
    pub fn for_each(self, from: Option<SubscriberId>, mut each: impl FnMut(Match<'_>)) {
        match (self.exact, self.set) {
            (exact, []) => walk(exact, from, each),
            ([], [filter]) => walk(self.filters[*filter as usize].list.entries(), from, each),
            (exact, set) => {
                self.merged.clear();
                self.merged.extend_from_slice(exact);
                for filter in set {
                    self.merged.extend_from_slice(self.filters[*filter as usize].list.entries());
                }
                self.merged.retain(|entry| entry.takes(from));
                // The lists are sorted runs, which this sort merges in linear time.
                self.merged.sort_by_key(|entry| entry.subscriber);
                for group in self.merged.chunk_by(|a, b| a.subscriber == b.subscriber) {
                    merge(group, self.ids, &mut each);
                }
            }
        }
    }
}

fn walk(entries: &[Entry], from: Option<SubscriberId>, mut each: impl FnMut(Match<'_>)) {
    for entry in entries.iter().filter(|entry| entry.takes(from)) {
        each(single(entry));
    }
}

fn merge(group: &[Entry], ids: &mut Vec<u32>, each: &mut impl FnMut(Match<'_>)) {
    match group {
        [] => {}
        [entry] => each(single(entry)),
        [first, ..] => {
            ids.clear();
            ids.extend(group.iter().map(|entry| entry.id).filter(|id| *id != 0));
            ids.sort_unstable();
            ids.dedup();
            each(Match {
                subscriber: first.subscriber,
                qos: group.iter().map(|entry| entry.qos()).max().unwrap_or(0),
                retain_as_published: group.iter().any(|entry| entry.retain_as_published()),
                ids,
            });
        }
    }
}

fn single(entry: &Entry) -> Match<'_> {
    Match {
        subscriber: entry.subscriber,
        qos: entry.qos(),
        retain_as_published: entry.retain_as_published(),
        ids: if entry.id == 0 { &[] } else { slice::from_ref(&entry.id) },
    }
}
