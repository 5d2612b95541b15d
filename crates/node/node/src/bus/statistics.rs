//! What is counted over time: rates of sessions, the busiest topics, and the moving averages of `$SYS`.
//!
//! All are looked at together every [`EVERY`], or as often as `$SYS` is published.

use super::state::{Bus, Subscriber};
use super::system_topics::LOADS;
use crate::cluster::ClusterBoard;
use std::collections::HashMap;
use std::sync::Arc;
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
    /// What is shown of the core that this node leads.
    pub(super) cluster: Option<Arc<ClusterBoard>>,
    /// What `$SYS` shows.
    pub(super) shown: HashMap<String, String>,
    /// When the first look was.
    pub(super) began: Option<Instant>,
}

/// A rate is over no less than this: what comes in a burst is no rate.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// How much a client is sent: from when it came, and later from the last look that had a window behind it. Looks are
/// [`EVERY`], and whenever rates are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionRate {
    /// When the window began, in milliseconds, modulo 2^32.
    since_ms: u32,
    /// What was sent before it, modulo 2^32.
    messages: u32,
    /// The same; 0 in a client's first window.
    bytes: u64,
    /// Those of the window before.
    per_s: (f32, f32),
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
    /// That of a client that comes now.
    #[must_use]
    pub fn begin(now: Instant) -> Self {
        Self { since_ms: millis(now), ..Self::default() }
    }

    /// Begins another window, where this one is long enough.
    fn look(&mut self, now: Instant, traffic: Traffic) {
        if self.passed(now) >= WINDOW_MIN {
            let per_s = self.per_s(now, traffic);
            let messages = whole(traffic.messages_out);
            *self = Self { since_ms: millis(now), messages, bytes: traffic.bytes_out, per_s };
        }
    }

    /// Messages and bytes a second: of this window as far as it has come, or of the one before where it has just begun.
    #[must_use]
    pub fn per_s(&self, now: Instant, traffic: Traffic) -> (f32, f32) {
        let passed = self.passed(now);
        if passed < WINDOW_MIN && self.bytes > 0 {
            return self.per_s;
        }
        let seconds = passed.max(WINDOW_MIN).as_secs_f64();
        let per_s = |made: f64| (made / seconds) as f32;
        let messages = whole(traffic.messages_out).wrapping_sub(self.messages);
        (per_s(messages.into()), per_s(traffic.bytes_out.saturating_sub(self.bytes) as f64))
    }

    fn passed(&self, now: Instant) -> Duration {
        Duration::from_millis(millis(now).wrapping_sub(self.since_ms).into())
    }
}

/// Modulo 2^32.
fn millis(now: Instant) -> u32 {
    whole(now.0 / 1_000_000)
}

#[expect(clippy::cast_possible_truncation, reason = "modulo 2^32: only differences are looked at")]
const fn whole(count: u64) -> u32 {
    count as u32
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
            cluster: None,
            shown: HashMap::new(),
            began: None,
        }
    }
}

impl Statistics {
    /// Counts an update of a topic.
    pub fn count(&mut self, id: tieline_topics::TopicId, topic: &tieline_core::Topic, bytes: usize) {
        self.busiest.count(id, topic, u64::try_from(bytes).unwrap_or(u64::MAX));
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
    /// Sets what is shown of the core that this node leads.
    pub fn set_cluster(&mut self, board: Option<Arc<ClusterBoard>>) {
        self.statistics.cluster = board;
    }

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
        self.look_at_sessions(now.mono);
        let statistics = &mut self.statistics;
        statistics.window = passed;
        statistics.busy_of = statistics.busiest.updates();
        statistics.busy = statistics.busiest.take();
        statistics.clients_max = statistics.clients_max.max(self.clients.len() - self.kept.away());
        if !self.statistics.interval.is_zero() {
            self.publish_sys(now, passed);
        }
    }

    /// Begins another window of each client whose own is long enough.
    pub(super) fn look_at_rates(&mut self, now: Instant) {
        for (_, subscriber) in &mut self.subscribers {
            let Subscriber::Client(client) = subscriber else { continue };
            client.rate.look(now, client.session.traffic());
        }
    }

    fn look_at_sessions(&mut self, now: Instant) {
        self.look_at_rates(now);
        let Self { subscribers, pump, .. } = self;
        pump.keep_late(|key, generation| {
            matches!(subscribers.get(key), Some(Subscriber::Client(client)) if client.generation == generation)
        });
    }

    /// The topics with the most updates of the last window, of those that `shows` lets through, no more than `limit`. Of
    /// the first window, as far as it has come.
    #[must_use]
    pub fn busiest_topics(&self, now: Instant, limit: usize, shows: impl Fn(&str) -> bool) -> BusiestTopics {
        let Statistics { window, busiest, busy, busy_of, looked, .. } = &self.statistics;
        let begun = looked.map_or(Duration::ZERO, |looked| now.since(looked));
        let first = (window.is_zero() && begun >= WINDOW_MIN).then(|| busiest.topics());
        let (window, updates) = match first {
            Some(_) => (begun, busiest.updates()),
            None => (*window, *busy_of),
        };
        let busy = first.as_ref().unwrap_or(busy);
        let topics = busy.iter().filter(|busy| shows(&busy.topic)).take(limit).cloned().collect();
        BusiestTopics { window, updates, topics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        // Where milliseconds of 32 bits go round.
        Instant::ZERO + Duration::from_millis((1 << 32) - 5_000 + ms)
    }

    /// Of a client that came at 3 s, and is sent 20 messages of 10 bytes a second.
    fn sent(ms: u64) -> Traffic {
        let messages = ms.saturating_sub(3_000) * 20 / 1_000;
        Traffic { messages_out: messages, bytes_out: messages * 10, ..Traffic::default() }
    }

    #[test]
    fn a_rate_is_right_from_its_first_second_on() {
        let mut rate = SessionRate::begin(at(3_000));
        let check = |rate: &SessionRate, ms: u64, messages: f32| {
            assert_eq!(rate.per_s(at(ms), sent(ms)), (messages, messages * 10.0), "{ms}");
        };
        check(&rate, 3_000, 0.0);
        // A burst of 20 ms is no rate of its own.
        check(&rate, 3_500, 10.0);
        check(&rate, 4_000, 20.0);
        check(&rate, 7_000, 20.0);
        rate.look(at(10_000), sent(10_000));
        check(&rate, 10_000, 20.0);
        check(&rate, 10_001, 20.0);
        check(&rate, 12_000, 20.0);
        // A look that comes too early ends no window.
        let before = rate;
        rate.look(at(10_999), sent(10_999));
        assert_eq!(rate, before);
    }

    #[test]
    fn who_asks_each_second_sees_what_changes() {
        let mut rate = SessionRate::begin(at(0));
        let traffic = |messages: u64| Traffic { messages_out: messages, bytes_out: 4 + messages, ..Traffic::default() };
        rate.look(at(1_000), traffic(0));
        assert_eq!(rate.per_s(at(2_000), traffic(50)).0, 50.0);
        rate.look(at(2_000), traffic(50));
        assert_eq!(rate.per_s(at(3_000), traffic(50)).0, 0.0);
    }

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
