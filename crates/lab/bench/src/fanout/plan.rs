//! What is published when, who subscribes to what, and what topics are called: arithmetic, so that every process of a
//! run knows it without being told.

use super::values::Form;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One combination, as every process of it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Subscribers.
    pub subscribers: usize,
    /// Topics.
    pub topics: usize,
    /// Updates a second.
    pub rate: u64,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// What values are.
    pub form: Form,
}

/// Neighbours in these orders are far apart in the other: primes larger than any number of topics here.
const SPREAD: usize = 1_000_000_007;
const ORDER: usize = 998_244_353;
/// From one update of a topic to the next, where values are points: their times tell the updates apart.
const PERIOD_MIN: Duration = Duration::from_millis(20);

impl Plan {
    /// Refuses what cannot be spread evenly: every topic has the same number of subscribers.
    pub fn check(&self) -> Result<()> {
        let Self { subscribers, topics, rate, subscriptions_each, form } = *self;
        ensure!(subscribers > 0 && rate > 0, "subscribers and rate are 1 or more");
        ensure!((1..=100_000_000).contains(&topics), "topics are 1 to 100,000,000");
        ensure!(
            subscriptions_each > 0 && topics.is_multiple_of(subscriptions_each),
            "topics must be a multiple of the subscriptions of each, found {topics} and {subscriptions_each}"
        );
        let period = Duration::from_micros(self.due_us(topics as u64));
        ensure!(
            form == Form::Json || period >= PERIOD_MIN,
            "points are for topics that are updated once in {PERIOD_MIN:?} or less often, found {period:?}"
        );
        Ok(())
    }

    /// The topic of a subscriber's subscription.
    pub const fn topic_of(&self, subscriber: usize, subscription: usize) -> usize {
        let slot = (subscriber * self.subscriptions_each + subscription) % self.topics;
        slot * (SPREAD % self.topics) % self.topics
    }

    /// Which subscription of each subscriber may be to each topic: what [`Plan::topic_of`] does, read backwards.
    pub fn slots(&self) -> Vec<u32> {
        self.backwards(SPREAD)
    }

    /// In which turn each topic is updated: what [`Plan::topic_at`] does, read backwards.
    pub fn turns(&self) -> Vec<u32> {
        self.backwards(ORDER)
    }

    fn backwards(&self, order: usize) -> Vec<u32> {
        let mut places = vec![0; self.topics];
        for place in 0..self.topics {
            let topic = place * (order % self.topics) % self.topics;
            if let Some(found) = places.get_mut(topic) {
                *found = u32::try_from(place).unwrap_or(u32::MAX);
            }
        }
        places
    }

    /// Which of a subscriber's subscriptions is to the topic at `slot`.
    pub const fn subscription_of(&self, subscriber: usize, slot: usize) -> Option<usize> {
        let groups = self.topics / self.subscriptions_each;
        if slot / self.subscriptions_each == subscriber % groups { Some(slot % self.subscriptions_each) } else { None }
    }

    /// Subscribers of the topic at `slot`.
    const fn audience(&self, slot: usize) -> usize {
        let groups = self.topics / self.subscriptions_each;
        let group = slot / self.subscriptions_each;
        self.subscribers / groups + (group < self.subscribers % groups) as usize
    }

    /// The topic of an update.
    pub fn topic_at(&self, update: u64) -> usize {
        let turn = usize::try_from(update % self.topics as u64).unwrap_or(0);
        turn * (ORDER % self.topics) % self.topics
    }

    /// How many updates its topic had before an update.
    pub const fn round_of(&self, update: u64) -> u64 {
        update / self.topics as u64
    }

    /// When an update is due, in µs after the first.
    pub const fn due_us(&self, update: u64) -> u64 {
        update * 1_000_000 / self.rate
    }

    /// How many updates are due within so many µs after the first.
    pub const fn due_by(&self, us: u64) -> u64 {
        (us * self.rate).div_ceil(1_000_000)
    }

    /// How many events the updates due from one time to another make, each for each subscriber.
    pub fn events_between(&self, from_us: u64, to_us: u64) -> u64 {
        let slots = self.slots();
        let slot = |update| slots.get(self.topic_at(update)).map_or(0, |slot| *slot as usize);
        (self.due_by(from_us)..self.due_by(to_us)).map(|update| self.audience(slot(update)) as u64).sum()
    }
}

/// The name of a topic; `separator` is the protocol's.
pub fn name(topic: usize, separator: char) -> String {
    format!("fan{separator}{topic:08}")
}

/// The topic of a name.
pub fn topic_of(name: &[u8]) -> Option<usize> {
    usize::try_from(number(name.get(4..)?)?).ok()
}

/// What decimal digits say.
pub fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, digit| {
        digit.is_ascii_digit().then(|| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_have_names() {
        assert_eq!(topic_of(name(31_337, '/').as_bytes()), Some(31_337));
        assert_eq!(topic_of(b"fan/3x"), None);
    }

    #[test]
    fn every_event_of_a_run_has_its_subscription() {
        for (subscribers, topics, each) in [(7, 60, 10), (1, 4, 4), (30, 100, 5)] {
            let plan = Plan { subscribers, topics, rate: 1000, subscriptions_each: each, form: Form::Json };
            plan.check().unwrap();
            let slots = plan.slots();
            let mut events = vec![0u64; topics];
            for subscriber in 0..subscribers {
                for subscription in 0..each {
                    let topic = plan.topic_of(subscriber, subscription);
                    events[topic] += 1;
                    assert_eq!(plan.subscription_of(subscriber, slots[topic] as usize), Some(subscription));
                }
            }
            let naive: u64 = (40..90).map(|update| events[plan.topic_at(update)]).sum();
            assert_eq!(plan.events_between(40_000, 90_000), naive);
            let mut seen: Vec<usize> = (0..topics as u64).map(|update| plan.topic_at(update)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..topics));
            let turns = plan.turns();
            assert!((0..200).all(|update| u64::from(turns[plan.topic_at(update)]) == update % topics as u64));
        }
    }
}
