//! Values that do not stay: removed after a time, when nobody renews them, when nobody wants them, or with who published
//! them.

use crate::{SubscriberId, TopicId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{Deadlines, Instant};

/// Looks that are taken at whether a topic has subscribers, in the time that it may be without: it is removed at most so much
/// of it too late.
const LOOKS: u32 = 10;

/// When a topic's value is removed: at the first of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// So long after it came.
    pub after: Option<Duration>,
    /// So long after its last update.
    pub idle: Option<Duration>,
    /// So long after it was last seen to have a subscriber; [`LOOKS`] say how exactly.
    pub unsubscribed: Option<Duration>,
    /// When the session ends that published it last.
    pub with_publisher: bool,
}

#[derive(Debug)]
struct Life {
    removal: Removal,
    came: Instant,
    updated: Instant,
    wanted: Instant,
    publisher: Option<SubscriberId>,
    due: Option<Instant>,
}

/// The topics whose values do not stay.
#[derive(Debug, Default)]
pub struct Lives {
    lives: HashMap<TopicId, Life>,
    due: Deadlines<TopicId>,
    by_publisher: BTreeMap<SubscriberId, BTreeSet<TopicId>>,
}

impl Removal {
    /// Whether values stay.
    #[must_use]
    pub fn is_never(&self) -> bool {
        *self == Self::default()
    }
}

impl Lives {
    /// A topic was given a value.
    pub fn stored(&mut self, now: Instant, topic: TopicId, removal: &Removal, publisher: Option<SubscriberId>) {
        let publisher = publisher.filter(|_| removal.with_publisher);
        let life = self.lives.entry(topic).or_insert_with(|| Life {
            removal: *removal,
            came: now,
            updated: now,
            wanted: now,
            publisher: None,
            due: None,
        });
        life.updated = now;
        if life.publisher != publisher {
            if let Some(before) = life.publisher {
                forget(&mut self.by_publisher, before, topic);
            }
            if let Some(publisher) = publisher {
                self.by_publisher.entry(publisher).or_default().insert(topic);
            }
            life.publisher = publisher;
        }
        // Later updates move the time only back: it is looked at when it comes.
        if life.due.is_none() {
            life.due = life.next(now);
            if let Some(due) = life.due {
                self.due.add(due, topic);
            }
        }
    }

    /// A topic has no value any more.
    pub fn cleared(&mut self, topic: TopicId) {
        let Some(life) = self.lives.remove(&topic) else { return };
        if let Some(due) = life.due {
            self.due.remove(due, topic);
        }
        if let Some(publisher) = life.publisher {
            forget(&mut self.by_publisher, publisher, topic);
        }
    }

    /// A publisher's session has ended: the topics that are to be removed.
    #[must_use]
    pub fn left(&mut self, publisher: SubscriberId) -> Vec<TopicId> {
        self.by_publisher.remove(&publisher).into_iter().flatten().collect()
    }

    /// When a topic has to be looked at.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.due.timeout()
    }

    /// The next topic that is to be removed. `wanted` says whether a topic has subscribers.
    pub fn next_due(&mut self, now: Instant, mut wanted: impl FnMut(TopicId) -> bool) -> Option<TopicId> {
        while let Some((_, topic)) = self.due.take_next(now) {
            let Some(life) = self.lives.get_mut(&topic) else { continue };
            life.due = None;
            if life.removal.unsubscribed.is_some() && wanted(topic) {
                life.wanted = now;
            }
            if life.is_over(now) {
                return Some(topic);
            }
            life.due = life.next(now);
            if let Some(due) = life.due {
                self.due.add(due, topic);
            }
        }
        None
    }

    /// Topics whose values do not stay.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Whether all stay.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }
}

impl Life {
    fn ends(&self) -> [Option<Instant>; 3] {
        let Removal { after, idle, unsubscribed, .. } = self.removal;
        [after.map(|by| self.came + by), idle.map(|by| self.updated + by), unsubscribed.map(|by| self.wanted + by)]
    }

    fn is_over(&self, now: Instant) -> bool {
        self.ends().into_iter().flatten().any(|end| end <= now)
    }

    /// When to look again.
    fn next(&self, now: Instant) -> Option<Instant> {
        let look = self.removal.unsubscribed.map(|by| now + by / LOOKS);
        self.ends().into_iter().chain([look]).flatten().min()
    }
}

fn forget(by_publisher: &mut BTreeMap<SubscriberId, BTreeSet<TopicId>>, publisher: SubscriberId, topic: TopicId) {
    if let Some(topics) = by_publisher.get_mut(&publisher) {
        topics.remove(&topic);
        if topics.is_empty() {
            by_publisher.remove(&publisher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Store(u32, Option<u32>),
        Clear(u32),
        Leave(u32),
        Want(u32, bool),
        Pass(u64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..6, proptest::option::of(0u32..3)).prop_map(|(topic, who)| Step::Store(topic, who)),
            1 => (0u32..6).prop_map(Step::Clear),
            1 => (0u32..3).prop_map(Step::Leave),
            2 => (0u32..6, any::<bool>()).prop_map(|(topic, wanted)| Step::Want(topic, wanted)),
            4 => (0u64..700).prop_map(Step::Pass),
        ]
    }

    fn removal(topic: u32) -> Removal {
        let span = |ms| Some(Duration::from_millis(ms));
        match topic {
            0 => Removal { after: span(1000), ..Removal::default() },
            1 => Removal { idle: span(500), ..Removal::default() },
            2 => Removal { unsubscribed: span(1000), ..Removal::default() },
            3 => Removal { with_publisher: true, ..Removal::default() },
            4 => Removal { after: span(2000), idle: span(900), unsubscribed: span(1500), with_publisher: true },
            _ => Removal::default(),
        }
    }

    /// The model: when a topic came, was updated, was last wanted, and who published it.
    #[derive(Clone, Copy)]
    struct Known {
        came: u64,
        updated: u64,
        wanted: u64,
        publisher: Option<u32>,
    }

    proptest! {
        #[test]
        fn values_go_when_they_are_to_go(steps in proptest::collection::vec(any_step(), 0..80)) {
            let mut lives = Lives::default();
            let (mut ms, mut wanted) = (0, [false; 6]);
            let mut known: BTreeMap<u32, Known> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Store(topic, publisher) => {
                        lives.stored(at(ms), TopicId(topic), &removal(topic), publisher.map(SubscriberId));
                        let new = Known { came: ms, updated: ms, wanted: ms, publisher };
                        let life = known.entry(topic).or_insert(new);
                        (life.updated, life.publisher) = (ms, publisher);
                    }
                    Step::Clear(topic) => {
                        lives.cleared(TopicId(topic));
                        known.remove(&topic);
                    }
                    Step::Leave(publisher) => {
                        let left = lives.left(SubscriberId(publisher));
                        let gone = |(topic, life): &(&u32, &Known)| {
                            removal(**topic).with_publisher && life.publisher == Some(publisher)
                        };
                        let expect: Vec<TopicId> =
                            known.iter().filter(gone).map(|(topic, _)| TopicId(*topic)).collect();
                        prop_assert_eq!(&left, &expect);
                        for topic in left {
                            lives.cleared(topic);
                            known.remove(&topic.0);
                        }
                    }
                    Step::Want(topic, wants) => wanted[topic as usize] = wants,
                    Step::Pass(more) => {
                        // As the owner does: it is called at each timeout.
                        let end = ms + more;
                        while let Some(next) = lives.timeout().filter(|next| *next <= at(end)) {
                            ms = ms.max(u64::try_from(next.since(Instant::ZERO).as_millis()).unwrap());
                            for (topic, life) in &mut known {
                                if wanted[*topic as usize] {
                                    life.wanted = ms;
                                }
                            }
                            let mut gone = vec![];
                            while let Some(topic) = lives.next_due(at(ms), |topic| wanted[topic.0 as usize]) {
                                lives.cleared(topic);
                                gone.push(topic.0);
                            }
                            for topic in gone {
                                let life = known.remove(&topic).unwrap();
                                let Removal { after, idle, unsubscribed, .. } = removal(topic);
                                let over = |since: u64, by: Option<Duration>| by.is_some_and(|by| at(since) + by <= at(ms));
                                let due = over(life.came, after) || over(life.updated, idle);
                                // Seen to have no subscriber for at least nine tenths of the time.
                                let unwanted = unsubscribed.map(|by| by * 9 / 10);
                                prop_assert!(due || over(life.wanted, unwanted), "{topic} too early");
                            }
                        }
                        ms = end;
                        for (topic, life) in &known {
                            let Removal { after, idle, .. } = removal(*topic);
                            let over = |since: u64, by: Option<Duration>| by.is_some_and(|by| at(since) + by <= at(ms));
                            prop_assert!(!over(life.came, after) && !over(life.updated, idle), "{topic} too late");
                        }
                    }
                }
                prop_assert_eq!(lives.len(), known.len());
            }
        }
    }
}
