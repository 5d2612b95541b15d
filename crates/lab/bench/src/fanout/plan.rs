//! What is published when, who subscribes to what, and what one value looks like: arithmetic, so that every process of a
//! run knows it without being told.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Octets of a value.
pub const VALUE_OCTETS: usize = TEMPLATE.len();
/// A quote of two pairs with three tiers each, as the published experiment sends it: 950 octets without spaces. The
/// time and the first points change.
const TEMPLATE: &[u8] = br#"{"timestamp":"0000000000000","pairName":"AAA-BBB","pairs":[{"timestamp":"1763636521137","pairName":"AAA-BBB","tiers":[{"high":"1.10412","open":"1.10633","low":"1.10752","bid":{"big":"1.10","points":"000"},"offer":{"big":"1.10","points":"614"}},{"high":"1.10412","open":"1.10633","low":"1.10752","bid":{"big":"1.0455","points":"613"},"offer":{"big":"1.1555","points":"614"}},{"high":"1.10412","open":"1.10633","low":"1.10752","bid":{"big":"0.991","points":"613"},"offer":{"big":"1.211","points":"614"}}]},{"timestamp":"1763636529409","pairName":"AAA-CCC","tiers":[{"high":"0.87864","open":"0.88017","low":"0.88143","bid":{"big":"0.88","points":"204"},"offer":{"big":"0.88","points":"208"}},{"high":"0.87864","open":"0.88017","low":"0.88143","bid":{"big":"0.8366","points":"204"},"offer":{"big":"0.9247","points":"208"}},{"high":"0.87864","open":"0.88017","low":"0.88143","bid":{"big":"0.791","points":"204"},"offer":{"big":"0.969","points":"208"}}]}]}"#;
const TIME_AT: usize = 14;
const TIME_DIGITS: usize = 13;
const POINTS_AT: usize = 199;
const POINTS_DIGITS: usize = 3;

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
}

/// Neighbours in these orders are far apart in the other: primes larger than any number of topics here.
const SPREAD: usize = 1_000_000_007;
const ORDER: usize = 998_244_353;

impl Plan {
    /// Refuses what cannot be spread evenly: every topic has the same number of subscribers.
    pub fn check(&self) -> Result<()> {
        let Self { subscribers, topics, rate, subscriptions_each } = *self;
        ensure!(subscribers > 0 && rate > 0, "subscribers and rate are 1 or more");
        ensure!((1..=100_000_000).contains(&topics), "topics are 1 to 100,000,000");
        ensure!(
            subscriptions_each > 0 && topics.is_multiple_of(subscriptions_each),
            "topics must be a multiple of the subscriptions of each, found {topics} and {subscriptions_each}"
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
        let mut slots = vec![0; self.topics];
        for slot in 0..self.topics {
            let topic = slot * (SPREAD % self.topics) % self.topics;
            if let Some(place) = slots.get_mut(topic) {
                *place = u32::try_from(slot).unwrap_or(u32::MAX);
            }
        }
        slots
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

/// Writes the value of a topic at a time, in µs, over one that was written before, or over [`blank`].
pub fn stamp(value: &mut [u8], topic: usize, time_us: u64) {
    digits(value, TIME_AT, TIME_DIGITS, time_us);
    digits(value, POINTS_AT, POINTS_DIGITS, points(topic, time_us));
}

/// A value without a time.
pub fn blank() -> Vec<u8> {
    TEMPLATE.to_vec()
}

/// The time of a value, where it is exactly what [`stamp`] makes of it.
pub fn read(value: &[u8], topic: usize) -> Option<u64> {
    let time_us = number(value.get(TIME_AT..TIME_AT + TIME_DIGITS)?)?;
    let same = |from: usize, to: usize| value.get(from..to) == TEMPLATE.get(from..to);
    let whole = value.len() == VALUE_OCTETS
        && number(value.get(POINTS_AT..POINTS_AT + POINTS_DIGITS)?)? == points(topic, time_us)
        && same(0, TIME_AT)
        && same(TIME_AT + TIME_DIGITS, POINTS_AT)
        && same(POINTS_AT + POINTS_DIGITS, VALUE_OCTETS);
    whole.then_some(time_us)
}

/// The name of a topic; `separator` is the protocol's.
pub fn name(topic: usize, separator: char) -> String {
    format!("fan{separator}{topic:08}")
}

/// The topic of a name.
pub fn topic_of(name: &[u8]) -> Option<usize> {
    usize::try_from(number(name.get(4..)?)?).ok()
}

fn points(topic: usize, time_us: u64) -> u64 {
    // 997 divides no power of ten: every digit of the time counts.
    (topic as u64 + time_us % 997) % 1000
}

fn digits(value: &mut [u8], at: usize, count: usize, mut number: u64) {
    for place in value.iter_mut().skip(at).take(count).rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, digit| {
        digit.is_ascii_digit().then(|| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_the_published_size_and_read_back() {
        assert_eq!(VALUE_OCTETS, 950);
        let mut value = blank();
        stamp(&mut value, 7, 1_234_567_890_123);
        assert_eq!(read(&value, 7), Some(1_234_567_890_123));
        assert_eq!(read(&value, 8), None);
        assert_eq!(topic_of(name(31_337, '/').as_bytes()), Some(31_337));
        for at in [0, 20, 100, 198, 949] {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert_eq!(read(&wrong, 7), None, "{at}");
        }
        serde_json::from_slice::<serde::de::IgnoredAny>(&value).unwrap();
    }

    #[test]
    fn every_event_of_a_run_has_its_subscription() {
        for (subscribers, topics, each) in [(7, 60, 10), (1, 4, 4), (30, 100, 5)] {
            let plan = Plan { subscribers, topics, rate: 1000, subscriptions_each: each };
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
        }
    }
}
