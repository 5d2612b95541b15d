//! Numbers of topics that are known: found by the topic that came before, else by name.
//!
//! Samples of many topics come in the same order again and again, and their topics are the same allocations: then a number costs
//! the comparison of two pointers.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use tieline_core::Topic;

/// Topics that are kept; beyond it all are forgotten and looked up again.
const TOPICS_MAX: usize = 1_000_000;
/// No place.
const NOWHERE: u32 = u32::MAX;

/// Each name is here once, and everything else is by its place: a topic costs some 30 bytes besides its name.
#[derive(Debug, Default)]
pub(crate) struct TopicNumbers {
    known: Vec<Known>,
    /// Places in `known`.
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The place of the topic that came last.
    last: usize,
}

#[derive(Debug)]
struct Known {
    topic: Topic,
    number: u32,
    /// The place of the topic that came behind it the last time.
    after: u32,
}

impl TopicNumbers {
    /// The number of a topic that is known.
    pub(crate) fn get(&mut self, topic: &Topic) -> Option<u32> {
        let expected = self.known.get(self.last).map_or(NOWHERE, |last| last.after);
        if let Some(next) = self.known.get(expected as usize).filter(|next| next.topic.is_same_allocation(topic)) {
            self.last = expected as usize;
            return Some(next.number);
        }
        let place = self.place_of(topic)?;
        self.follow(place);
        self.known.get(place as usize).map(|known| known.number)
    }

    /// A topic that is known, by its name.
    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.known.get(self.place_of(name)? as usize).map(|known| &known.topic)
    }

    /// Adds a topic that is not known.
    pub(crate) fn insert(&mut self, topic: &Topic, number: u32) {
        let Ok(place) = u32::try_from(self.known.len()) else { return };
        let Self { known, by_name, hasher, .. } = self;
        known.push(Known { topic: topic.clone(), number, after: NOWHERE });
        let hash_of = |place: &u32| known.get(*place as usize).map_or(0, |known| hasher.hash_one(known.topic.as_str()));
        by_name.insert_unique(hash_of(&place), place, hash_of);
        self.follow(place);
    }

    /// Forgets all where there are too many.
    pub(crate) fn limit(&mut self) {
        if self.known.len() > TOPICS_MAX {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn place_of(&self, name: &str) -> Option<u32> {
        let is_it = |place: &u32| self.known.get(*place as usize).is_some_and(|known| known.topic.as_str() == name);
        self.by_name.find(self.hasher.hash_one(name), is_it).copied()
    }

    fn follow(&mut self, place: u32) {
        if let Some(last) = self.known.get_mut(self.last) {
            last.after = place;
        }
        self.last = place as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In whatever order topics come, and whichever allocations they are, each has its own number.
        #[test]
        fn each_topic_has_its_number(asked in prop::collection::vec((0..6_u32, any::<bool>()), 0..200)) {
            let name = |number: u32| Topic::new(&format!("t{number}")).unwrap();
            let topics: Vec<Topic> = (0..6).map(name).collect();
            let (mut numbers, mut known) = (TopicNumbers::default(), [false; 6]);
            for (number, is_copy) in asked {
                let topic = if is_copy { name(number) } else { topics[number as usize].clone() };
                let found = numbers.get(&topic);
                prop_assert_eq!(found, known[number as usize].then_some(number + 1));
                if found.is_none() {
                    numbers.insert(&topic, number + 1);
                    known[number as usize] = true;
                }
            }
        }
    }
}
