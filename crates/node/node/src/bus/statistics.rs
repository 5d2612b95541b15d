//! What is counted over time: rates of sessions, the busiest topics, and the moving averages of `$SYS`.
//!
//! All are looked at together every [`EVERY`], or as often as `$SYS` is published.

use super::state::{Bus, Subscriber};
use super::system_topics::LOADS;
use std::collections::HashMap;
use std::time::Duration;
use tieline_core::{Instant, Now};
use tieline_net::Traffic;
use tieline_topics::{Busiest, Busy};

/// How often all is looked at where `$SYS` is off.
const EVERY: Duration = Duration::from_secs(10);
/// Topics of which the updates are counted at a time: one with more than this part of all updates is not missed.
const PLACES: usize = 512;
/// The minutes that moving averages look back.
pub const MINUTES: [u8; 3] = [1, 5, 15];

/// What is counted over time.
#[derive(Debug)]
pub struct Statistics {
    /// How often `$SYS` is published; zero is never.
    interval: Duration,
    looked: Option<Instant>,
    /// The time that rates and `busy` are of.
    window: Duration,
    busiest: Busiest,
    busy: Vec<Busy>,
    busy_of: u64,
    /// The most clients that were connected at a time, as far as was looked.
    pub(super) clients_max: usize,
    /// In the order of their names.
    pub(super) loads: [Load; LOADS.len()],
    /// What `$SYS` shows.
    pub(super) shown: HashMap<String, String>,
    /// When the first look was.
    pub(super) began: Option<Instant>,
}

/// How much a client is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionRate {
    messages: u64,
    octets: u64,
    /// Messages a second over the last window.
    pub messages_per_s: f32,
    /// Octets a second.
    pub octets_per_s: f32,
}

/// The topics with the most updates of the last window.
#[derive(Clone, Debug, PartialEq)]
pub struct BusiestTopics {
    /// How long the window was.
    pub window: Duration,
    /// Updates of all topics.
    pub updates: u64,
    /// The busiest first.
    pub topics: Vec<Busy>,
}

/// Moving averages of something that is counted, a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    before: u64,
    /// Over 1, 5 and 15 minutes.
    pub per_minute: [f64; 3],
}

impl Load {
    /// Takes what was counted so far, some time after the look before.
    pub fn look(&mut self, passed: Duration, total: u64) {
        let minutes = passed.as_secs_f64() / 60.0;
        if minutes <= 0.0 {
            return;
        }
        let made = total.saturating_sub(self.before) as f64 / minutes;
        self.before = total;
        for (average, span) in self.per_minute.iter_mut().zip(MINUTES) {
            let kept = (-minutes / f64::from(span)).exp();
            *average = kept * *average + (1.0 - kept) * made;
        }
    }
}

impl SessionRate {
    /// Takes what was sent so far, some time after the look before.
    fn look(&mut self, passed: Duration, traffic: Traffic) {
        let since = |count: u64, before: u64| match passed.as_secs_f64() {
            seconds if seconds > 0.0 => (count.saturating_sub(before) as f64 / seconds) as f32,
            _ => 0.0,
        };
        *self = Self {
            messages: traffic.messages_out,
            octets: traffic.octets_out,
            messages_per_s: since(traffic.messages_out, self.messages),
            octets_per_s: since(traffic.octets_out, self.octets),
        };
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            interval: EVERY,
            looked: None,
            window: Duration::ZERO,
            busiest: Busiest::new(PLACES),
            busy: Vec::new(),
            busy_of: 0,
            clients_max: 0,
            loads: [Load::default(); LOADS.len()],
            shown: HashMap::new(),
            began: None,
        }
    }
}

impl Statistics {
    /// Counts an update of a topic.
    pub fn count(&mut self, id: tieline_topics::TopicId, topic: &tieline_core::Topic, octets: usize) {
        self.busiest.count(id, topic, u64::try_from(octets).unwrap_or(u64::MAX));
    }

    /// When to look again.
    pub fn timeout(&self) -> Option<Instant> {
        self.looked.map(|looked| looked + self.every())
    }

    fn every(&self) -> Duration {
        if self.interval.is_zero() { EVERY } else { self.interval }
    }
}

impl Bus {
    /// Sets how often `$SYS` is published; zero is never.
    pub fn set_sys_interval(&mut self, interval: Duration) {
        self.statistics.interval = interval;
    }

    /// Looks at all that is counted over time, when it is time.
    pub(super) fn look_at_statistics(&mut self, now: Now) {
        if self.statistics.timeout().is_some_and(|due| now.mono < due) {
            return;
        }
        let passed = self.statistics.looked.map_or(Duration::ZERO, |looked| now.mono.since(looked));
        self.statistics.looked = Some(now.mono);
        self.statistics.began.get_or_insert(now.mono);
        self.look_at_sessions(passed);
        let statistics = &mut self.statistics;
        statistics.window = passed;
        statistics.busy_of = statistics.busiest.updates();
        statistics.busy = statistics.busiest.take();
        statistics.clients_max = statistics.clients_max.max(self.clients.len() - self.kept.away());
        if !self.statistics.interval.is_zero() {
            self.publish_sys(now, passed);
        }
    }

    fn look_at_sessions(&mut self, passed: Duration) {
        let Self { subscribers, pump, .. } = self;
        for (_, subscriber) in subscribers.iter_mut() {
            let Subscriber::Client(client) = subscriber else { continue };
            client.rate.look(passed, client.session.traffic());
        }
        pump.keep_late(|key, generation| {
            matches!(subscribers.get(key), Some(Subscriber::Client(client)) if client.generation == generation)
        });
    }

    /// The topics with the most updates of the last window, of those that `shows` lets through, no more than `limit`.
    #[must_use]
    pub fn busiest_topics(&self, limit: usize, shows: impl Fn(&str) -> bool) -> BusiestTopics {
        let Statistics { window, busy, busy_of, .. } = &self.statistics;
        let topics = busy.iter().filter(|busy| shows(&busy.topic)).take(limit).cloned().collect();
        BusiestTopics { window: *window, updates: *busy_of, topics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_come_near_what_goes_on_and_forget_it() {
        let mut load = Load::default();
        let mut total = 0;
        let mut pass = |minutes: u64, each: u64| {
            for _ in 0..minutes * 6 {
                total += each;
                load.look(Duration::from_secs(10), total);
            }
            load.per_minute
        };
        let [one, five, fifteen] = pass(5, 100);
        assert!((595.0..600.0).contains(&one), "{one}");
        assert!((370.0..390.0).contains(&five), "600 × (1 − 1/e) is 379, and not {five}");
        assert!((165.0..175.0).contains(&fifteen), "600 × (1 − e^(−1/3)) is 170, and not {fifteen}");
        let [one, _, fifteen] = pass(10, 0);
        assert!(one < 0.1 && fifteen > 80.0, "{one} {fifteen}");
    }
}
