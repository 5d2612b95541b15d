//! The topics with the most updates, in bounded space: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation
//! of Frequent and Top-k Elements in Data Streams, 2005).
//!
//! So many topics are counted at a time. A topic that is not among them takes the place, and the count, of the one with
//! the lowest: what a count may be too high by is known, and every topic with more than its share of all updates (all
//! divided by the places) is counted.

use crate::TopicId;
use alloc::vec::Vec;
use hashbrown::HashMap;
use tieline_core::Topic;

/// A topic with many updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The topic.
    pub topic: Topic,
    /// Its updates, or more by no more than `over`.
    pub updates: u64,
    /// What `updates` may be too high by.
    pub over: u64,
    /// Bytes of its updates since it took its place.
    pub bytes: u64,
}

/// Counts updates of the busiest topics.
#[derive(Debug)]
pub struct Busiest {
    places_max: usize,
    /// Where each topic is counted.
    places: HashMap<TopicId, usize>,
    counted: Vec<(TopicId, Busy)>,
    /// The lowest count when it was last looked for, and places that had it.
    lowest: (u64, Vec<usize>),
    updates: u64,
}

impl Busiest {
    /// Counts up to `places_max` topics at a time, at least one.
    #[must_use]
    pub fn new(places_max: usize) -> Self {
        let places_max = places_max.max(1);
        Self { places_max, places: HashMap::new(), counted: Vec::new(), lowest: (0, Vec::new()), updates: 0 }
    }

    /// Counts an update.
    pub fn count(&mut self, id: TopicId, topic: &Topic, bytes: u64) {
        self.updates += 1;
        if let Some((_, busy)) = self.places.get(&id).and_then(|place| self.counted.get_mut(*place)) {
            busy.updates += 1;
            busy.bytes += bytes;
            return;
        }
        let mut busy = Busy { topic: topic.clone(), updates: 1, over: 0, bytes };
        let place = self.counted.len();
        if place < self.places_max {
            self.counted.push((id, busy));
        } else {
            let place = self.place_of_lowest();
            let Some(entry) = self.counted.get_mut(place) else { return };
            busy.over = entry.1.updates;
            busy.updates += busy.over;
            let (gone, _) = core::mem::replace(entry, (id, busy));
            self.places.remove(&gone);
            self.places.insert(id, place);
            return;
        }
        self.places.insert(id, place);
    }

    /// All updates counted, of whatever topic.
    #[must_use]
    pub const fn updates(&self) -> u64 {
        self.updates
    }

    /// The topics counted, the busiest first, and starts from zero.
    pub fn take(&mut self) -> Vec<Busy> {
        let taken = self.topics();
        *self = Self::new(self.places_max);
        taken
    }

    /// The topics counted so far, the busiest first.
    #[must_use]
    pub fn topics(&self) -> Vec<Busy> {
        let mut all: Vec<Busy> = self.counted.iter().map(|(_, busy)| busy.clone()).collect();
        all.sort_unstable_by(|a, b| b.updates.cmp(&a.updates).then_with(|| a.topic.cmp(&b.topic)));
        all
    }

    /// A place with the lowest count. Counts only rise: a place that had the lowest when all were looked at, and has it
    /// still, has it among all.
    fn place_of_lowest(&mut self) -> usize {
        let (lowest, known) = &mut self.lowest;
        loop {
            match known.pop() {
                Some(place) if self.counted.get(place).is_some_and(|(_, busy)| busy.updates == *lowest) => {
                    return place;
                }
                Some(_) => {}
                None => {
                    *lowest = self.counted.iter().map(|(_, busy)| busy.updates).min().unwrap_or_default();
                    let with_it = self.counted.iter().enumerate().filter(|(_, (_, busy))| busy.updates == *lowest);
                    known.extend(with_it.map(|(place, _)| place));
                    if known.is_empty() {
                        return 0;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn topic(number: u32) -> Topic {
        Topic::new(&alloc::format!("t/{number}")).unwrap()
    }

    #[test]
    fn the_busiest_come_first_and_counting_begins_anew() {
        let mut busiest = Busiest::new(2);
        for number in [1, 2, 2, 3, 2] {
            busiest.count(TopicId(number), &topic(number), 10);
        }
        let found: Vec<_> = busiest.take().into_iter().map(|b| (b.topic, b.updates, b.over, b.bytes)).collect();
        assert_eq!(found, [(topic(2), 3, 0, 30), (topic(3), 2, 1, 10)]);
        assert_eq!((busiest.take(), busiest.updates()), (Vec::new(), 0));
    }

    proptest! {
        #[test]
        fn counts_are_within_their_bounds_and_no_busy_topic_is_missed(
            numbers in proptest::collection::vec(prop_oneof![0u32..4, 0u32..40], 0..400),
            places in 1usize..12,
        ) {
            let (mut busiest, mut known) = (Busiest::new(places), BTreeMap::<Topic, u64>::new());
            for number in &numbers {
                busiest.count(TopicId(*number), &topic(*number), 1);
                *known.entry(topic(*number)).or_default() += 1;
            }
            prop_assert_eq!(busiest.updates(), numbers.len() as u64);
            let found = busiest.take();
            prop_assert!(found.len() <= places);
            prop_assert!(found.windows(2).all(|pair| pair[0].updates >= pair[1].updates));
            for busy in &found {
                let made = known.get(&busy.topic).copied().unwrap_or_default();
                prop_assert!(busy.updates - busy.over <= made && made <= busy.updates);
                prop_assert!(busy.bytes <= made);
            }
            let share = numbers.len() as u64 / places as u64;
            for (topic, made) in known {
                prop_assert!(made <= share || found.iter().any(|busy| busy.topic == topic), "{} {}", topic, made);
            }
        }
    }
}
