//! Numbers of topics that are known: found by the topic that came before, else by name.
//!
//! Samples of many topics come in the same order again and again, and their topics are the same allocations: then a number costs
//! the comparison of two pointers.

use std::collections::HashMap;
use tieline_core::Topic;

/// Topics that are kept; beyond it all are forgotten and looked up again.
const TOPICS_MAX: usize = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct TopicNumbers {
    by_name: HashMap<Topic, u32>,
    /// The topic that came behind another the last time, by the number of the other.
    after: Vec<Option<(Topic, u32)>>,
    /// The number that came last.
    last: u32,
}

impl TopicNumbers {
    /// The number of a topic that is known.
    pub(crate) fn get(&mut self, topic: &Topic) -> Option<u32> {
        let expected = self.after.get(self.last as usize).and_then(Option::as_ref);
        if let Some((_, number)) = expected.filter(|(next, _)| next.is_same_allocation(topic)) {
            self.last = *number;
            return Some(*number);
        }
        let number = *self.by_name.get(topic)?;
        self.follow(topic, number);
        Some(number)
    }

    pub(crate) fn insert(&mut self, topic: &Topic, number: u32) {
        self.by_name.insert(topic.clone(), number);
        self.follow(topic, number);
    }

    /// Forgets all where there are too many.
    pub(crate) fn limit(&mut self) {
        if self.by_name.len() > TOPICS_MAX {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn follow(&mut self, topic: &Topic, number: u32) {
        let place = self.last as usize;
        if place < TOPICS_MAX {
            if self.after.len() <= place {
                self.after.resize(place + 1, None);
            }
            if let Some(after) = self.after.get_mut(place) {
                *after = Some((topic.clone(), number));
            }
        }
        self.last = number;
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
