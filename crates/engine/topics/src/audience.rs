//! Who an update goes to.

use crate::list::{Entry, List, SubscriberId};
use crate::wild::WildFilter;
use crate::{DeliveryOptions, Lane, TopicId, Tree};
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
    /// How the topic is to come.
    pub delivery_options: DeliveryOptions,
    /// How urgent the topic is.
    pub lane: Lane,
}

/// The subscribers of one topic.
#[derive(Debug)]
pub struct Audience<'a> {
    exact: Option<&'a List>,
    set: &'a [u32],
    filters: &'a Slab<WildFilter>,
    merged: &'a mut Vec<Entry>,
    ids: &'a mut Vec<u32>,
    lane: Lane,
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
        let exact = slot.map(|slot| &slot.exact).filter(|list| !list.is_empty());
        let lane = slot.map_or_else(Lane::default, |slot| slot.lane);
        Audience { exact, set, filters: &wild.filters, merged, ids, lane }
    }

    /// Calls `each` once with what a subscriber wants of a topic, where it wants it at all.
    pub fn match_of<R>(
        &mut self,
        topic: TopicId,
        subscriber: SubscriberId,
        each: impl FnOnce(Match<'_>) -> R,
    ) -> Option<R> {
        let Audience { exact, set, filters, merged, ids, lane } = self.matches(topic);
        merged.clear();
        let lists = set.iter().map(|filter| &filters[*filter as usize].list);
        merged.extend(exact.into_iter().chain(lists).filter_map(|list| list.get(subscriber)));
        let (mut each, mut result) = (Some(each), None);
        merge(merged, ids, lane, &mut |to| result = each.take().map(|each| each(to)));
        result
    }

    fn select(&mut self, topic: TopicId) {
        if self.wild.set_bytes() >= self.limits.set_bytes_max {
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
        // A filter that is there for those that narrow it may have no subscriber of its own.
        self.exact.is_none() && self.set.iter().all(|filter| self.filters[*filter as usize].list.is_empty())
    }

    /// Calls `each` once for every subscriber, ascending, except where `from` published the update and all of its
    /// subscriptions ask not to be sent its own.
    pub fn for_each(self, from: Option<SubscriberId>, mut each: impl FnMut(Match<'_>)) {
        match (self.exact, self.set) {
            (None, []) => {}
            (Some(exact), []) => walk(exact, from, self.lane, each),
            (None, [filter]) => walk(&self.filters[*filter as usize].list, from, self.lane, each),
            (exact, set) => {
                self.merged.clear();
                let lists = set.iter().map(|filter| &self.filters[*filter as usize].list);
                self.merged
                    .extend(exact.into_iter().chain(lists).flat_map(List::iter).filter(|entry| entry.takes(from)));
                // The lists are sorted runs, which this sort merges in linear time.
                self.merged.sort_by_key(|entry| entry.subscriber);
                for group in self.merged.chunk_by(|a, b| a.subscriber == b.subscriber) {
                    merge(group, self.ids, self.lane, &mut each);
                }
            }
        }
    }
}

fn walk(list: &List, from: Option<SubscriberId>, lane: Lane, mut each: impl FnMut(Match<'_>)) {
    for entry in list.iter().filter(|entry| entry.takes(from)) {
        each(single(&entry, lane));
    }
}

fn merge(group: &[Entry], ids: &mut Vec<u32>, lane: Lane, each: &mut impl FnMut(Match<'_>)) {
    match group {
        [] => {}
        [entry] => each(single(entry, lane)),
        [first, rest @ ..] => {
            ids.clear();
            ids.extend(group.iter().map(|entry| entry.id).filter(|id| *id != 0));
            ids.sort_unstable();
            ids.dedup();
            each(Match {
                subscriber: first.subscriber,
                qos: group.iter().map(|entry| entry.qos()).max().unwrap_or(0),
                retain_as_published: group.iter().any(|entry| entry.retain_as_published()),
                ids,
                delivery_options: rest.iter().fold(first.delivery_options(), |delivery_options, entry| {
                    delivery_options.and(entry.delivery_options())
                }),
                lane,
            });
        }
    }
}

fn single(entry: &Entry, lane: Lane) -> Match<'_> {
    Match {
        subscriber: entry.subscriber,
        qos: entry.qos(),
        retain_as_published: entry.retain_as_published(),
        ids: if entry.id == 0 { &[] } else { slice::from_ref(&entry.id) },
        delivery_options: entry.delivery_options(),
        lane,
    }
}
