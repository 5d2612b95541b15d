//! Live feeds for HTTP: each is a subscriber of the tree that is sent what changed, conflated, ten times a second; one that was
//! sent as much as may wait for its reader goes on as soon as the reader has taken some.
//!
//! A feed is a set of dirty topics, not a queue ([`super::changes`]): a reader that is slow gets the newest value of each topic later.
//! Each second it is told the time: a reader that hears nothing for longer knows that the bus stands still, or the way to it.
//! Counts by quality ([`super::counting`]) are sent to readers that name groups, when they change.

use super::census::Censuses;
use super::changes::Changes;
use super::counting::{Counting, Groups};
use super::state::{Bus, Subscriber, id_of};
use crate::access::ReadFilter;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Instant, Now, Topic};
use tieline_topics::{DeliveryOptions, Options, RetainHandling, TopicId, Tree, TreeError};
use tokio::sync::mpsc;

/// For how long readers are sent something in a turn of the bus.
const FEEDS_A_TURN: Duration = Duration::from_millis(1);
/// How often a reader is sent what changed.
const EVERY: Duration = Duration::from_millis(100);
/// How soon a reader is looked at again that had not taken all: at 256 KiB that wait, 25 MB a second reach it.
const FULL_EVERY: Duration = Duration::from_millis(10);
/// Messages that may wait for a reader.
pub const WAITING_MAX: usize = 4;
/// The same of all readers together, but for one of each.
const CROWD_MESSAGES: usize = 256;
/// How often a reader is told the time.
const BEAT: Duration = Duration::from_secs(1);
/// What a reader is sent.
#[derive(Debug)]
pub struct LiveMessage {
    /// The event's name.
    pub event: &'static str,
    /// JSON.
    pub data: String,
}

/// What a reader may be sent in a turn.
struct Turn<F> {
    /// Messages that may wait for it.
    messages_max: usize,
    /// Whether the turn is over.
    is_over: F,
}

/// How far a reader was sent what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    /// All that there is.
    All,
    /// As much as may wait for it.
    Full,
    /// As much as there was time for.
    Some,
    /// It is gone, or has to go.
    Gone,
}

/// One reader.
#[derive(Debug)]
pub struct LiveFeed {
    /// Whose it is.
    owner: Arc<str>,
    out: mpsc::Sender<LiveMessage>,
    counting: Option<Counting>,
    /// When it is looked at next.
    due: Instant,
    beat_due: Instant,
    changes: Changes,
    /// More was removed than could wait, or its rights have changed: the reader must begin again.
    is_behind: bool,
    /// What is told has to pass it.
    read_filter: Option<ReadFilter>,
    /// When the reader has to show again who it is.
    until: Option<Instant>,
}

impl LiveFeed {
    /// A feed that begins with the last values that the filters select.
    #[must_use]
    pub fn new(
        filters: &[Filter],
        out: mpsc::Sender<LiveMessage>,
        read_filter: Option<ReadFilter>,
        until: Option<Instant>,
    ) -> Self {
        Self {
            owner: Arc::default(),
            out,
            counting: None,
            due: Instant::ZERO,
            beat_due: Instant::ZERO,
            changes: Changes::new(filters),
            is_behind: false,
            read_filter,
            until,
        }
    }

    /// The same with counts by quality, in all and of groups.
    #[must_use]
    pub fn counting(mut self, groups: Option<Groups>) -> Self {
        self.counting = groups.map(Counting::new);
        self
    }

    /// The same on somebody's account.
    #[must_use]
    pub fn owned_by(mut self, owner: Arc<str>) -> Self {
        self.owner = owner;
        self
    }

    /// Ends it at its next turn where its reader had to show who it is.
    pub fn end_if_gated(&mut self) {
        self.is_behind |= self.read_filter.is_some();
    }

    /// The topic has a new value.
    pub fn changed(&mut self, topic: TopicId) {
        self.changes.changed(topic);
    }

    /// The topic has no value any more, and its number may become another's.
    pub fn removed(&mut self, topic: TopicId, path: &str) {
        let may_read = self.read_filter.as_ref().is_none_or(|read_filter| read_filter.allows(path));
        self.is_behind |= self.changes.removed(topic, may_read.then_some(path)).is_err();
    }

    /// A branch of a count has changed.
    fn group_changed(&mut self, census: usize, path: &str, above: &str) {
        if let Some(counting) = self.counting.as_mut().filter(|counting| counting.census == Some(census)) {
            counting.group_changed(path, above);
        }
    }

    /// Sends what is due as far as the reader takes it, until its time is over.
    fn flush(&mut self, now: Now, tree: &Tree, censuses: &Censuses, turn: &Turn<impl Fn() -> bool>) -> Flushed {
        if self.is_behind || self.out.is_closed() || self.until.is_some_and(|until| until <= now.mono) {
            return Flushed::Gone;
        }
        self.changes.restart_where_behind();
        let mut is_first = true;
        loop {
            // The time goes first, and the counts, which are small: a reader who is sent much hears that the node is there,
            // and how much there is.
            let is_beat = self.beat_due <= now.mono;
            let counting = self.counting.as_mut().filter(|counting| counting.has_work(now.mono, censuses));
            if !is_beat && self.changes.is_empty() && counting.is_none() {
                return if self.out.is_closed() { Flushed::Gone } else { Flushed::All };
            }
            if !std::mem::take(&mut is_first) && (turn.is_over)() {
                return Flushed::Some;
            }
            if self.out.max_capacity() - self.out.capacity() >= turn.messages_max {
                return Flushed::Full;
            }
            let permit = match self.out.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Full(())) => return Flushed::Full,
                Err(mpsc::error::TrySendError::Closed(())) => return Flushed::Gone,
            };
            if is_beat {
                self.beat_due = now.mono + BEAT;
                let since = now.mono.since(Instant::ZERO).as_millis();
                let data = format!("{{\"time\":\"{}\",\"mono_ms\":{since}}}", now.utc);
                permit.send(LiveMessage { event: "beat", data });
            } else if let Some(counting) = counting {
                let data = counting.next_message(now.mono, censuses);
                permit.send(LiveMessage { event: "counts", data });
            } else if let Some(data) = self.changes.next_message(self.read_filter.as_ref(), tree) {
                permit.send(LiveMessage { event: "update", data });
            }
        }
    }
}

impl Bus {
    /// Adds a reader of live updates.
    ///
    /// # Errors
    /// There are too many subscriptions.
    pub fn add_feed(&mut self, filters: &[Filter], mut feed: LiveFeed) -> Result<(), TreeError> {
        if let Some(counting) = &mut feed.counting {
            counting.census = self.censuses.join(feed.read_filter.as_ref());
            counting.begin(&self.censuses);
        }
        let may = |topic: &Topic| feed.read_filter.as_ref().is_none_or(|read_filter| read_filter.allows(topic));
        // What has wildcards is no topic.
        let asked: Vec<Topic> = filters.iter().filter_map(|filter| Topic::new(filter).ok()).filter(may).collect();
        let key = self.subscribers.insert(Subscriber::Feed(Box::new(feed)));
        let options = Options {
            qos: 0,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Skip,
            subscription_id: None,
            delivery_options: DeliveryOptions::default(),
        };
        for filter in filters {
            if let Err(error) = self.tree.subscribe(id_of(key), filter, options) {
                self.remove_feed(key);
                return Err(error);
            }
        }
        asked.iter().for_each(|topic| self.miss(topic));
        self.feeds.push(key);
        self.work.notify_one();
        Ok(())
    }

    /// Readers of `/v1/live` on somebody's account.
    #[must_use]
    pub fn feed_count_of(&self, owner: &str) -> usize {
        let is_own = |key: &&usize| match self.subscribers.get(**key) {
            Some(Subscriber::Feed(feed)) => *feed.owner == *owner,
            _ => false,
        };
        self.feeds.iter().filter(is_own).count()
    }

    /// Removes a feed whose reader is gone.
    pub(super) fn remove_feed(&mut self, key: usize) {
        self.tree.drop_subscriber(id_of(key));
        if let Some(Subscriber::Feed(feed)) = self.subscribers.try_remove(key)
            && let Some(census) = feed.counting.and_then(|counting| counting.census)
        {
            self.censuses.leave(census);
        }
        self.feeds.retain(|feed| *feed != key);
    }

    /// Sends feeds what changed, for as long as a turn may take; says when to go on.
    pub(super) fn flush_feeds(&mut self, now: Now) -> Instant {
        let Self { shard, subscribers, tree, feeds, next_feed, censuses, .. } = self;
        censuses.take_changes(|census, path, above| {
            for key in feeds.iter() {
                if let Some(Subscriber::Feed(feed)) = subscribers.get_mut(*key) {
                    feed.group_changed(census, path, above);
                }
            }
        });
        let began = shard.now().mono;
        let is_over = || shard.now().mono.since(began) >= FEEDS_A_TURN;
        let messages_max = (CROWD_MESSAGES / feeds.len().max(1)).clamp(1, WAITING_MAX);
        let turn = Turn { messages_max, is_over };
        let mut gone = Vec::new();
        while let Some(key) = feeds.get(*next_feed).copied() {
            if let Some(Subscriber::Feed(feed)) = subscribers.get_mut(key)
                && feed.due <= now.mono
            {
                match feed.flush(now, tree, censuses, &turn) {
                    Flushed::All => feed.due = next_time(now.mono),
                    Flushed::Full => feed.due = now.mono + FULL_EVERY,
                    Flushed::Gone => gone.push(key),
                    Flushed::Some => break,
                }
            }
            *next_feed += 1;
            if (turn.is_over)() {
                break;
            }
        }
        let is_done = *next_feed >= feeds.len();
        if is_done {
            *next_feed = 0;
        }
        gone.into_iter().for_each(|key| self.remove_feed(key));
        if is_done { self.feeds_due(now.mono) } else { now.mono }
    }

    /// When the first feed is due; a new one waits for the others.
    fn feeds_due(&self, now: Instant) -> Instant {
        let due = |key: &usize| match self.subscribers.get(*key) {
            Some(Subscriber::Feed(feed)) => Some(feed.due),
            _ => None,
        };
        self.feeds.iter().filter_map(due).min().map_or(next_time(now), |due| due.min(next_time(now)))
    }
}

/// Feeds are looked at at the same times, so that the bus is not woken for each.
fn next_time(now: Instant) -> Instant {
    let every = u64::try_from(EVERY.as_nanos()).unwrap_or(u64::MAX);
    Instant((now.0 / every + 1) * every)
}

#[cfg(test)]
mod tests {
    use super::super::changes::{DIRTY_MAX, MESSAGE_BYTES};
    use super::super::counting::GROUPS;
    use super::*;
    use crate::bus::written;
    use bytes::Bytes;
    use std::collections::HashSet;
    use tieline_core::{Body, Topic, Update};
    use tieline_topics::Limits;

    /// A tree with one feed, whose messages are taken when it is asked.
    struct Desk {
        tree: Tree,
        censuses: Censuses,
        feed: LiveFeed,
        messages: mpsc::Receiver<LiveMessage>,
    }

    impl Desk {
        fn new(groups: Option<Groups>) -> Self {
            let (out, messages) = mpsc::channel(WAITING_MAX);
            let mut feed = LiveFeed::new(&[Filter::new("site/#").unwrap()], out, None, None).counting(groups);
            let mut censuses = Censuses::default();
            if let Some(counting) = &mut feed.counting {
                counting.census = censuses.join(None);
            }
            Self { tree: Tree::new(Limits::default()), censuses, feed, messages }
        }

        fn put(&mut self, at_ms: u64, path: &str, payload: &'static str) {
            let topic = Topic::new(path).unwrap();
            let body = Body::read(Bytes::from_static(payload.as_bytes()));
            let update = Update { topic: topic.clone(), body: body.clone() };
            let applied = self.tree.apply(now(at_ms), update, true).unwrap();
            self.censuses.note(&topic, &applied, &body);
            self.feed.changed(applied.topic);
        }

        /// What is sent at a time, an event a line; a reader that does not read leaves it.
        fn flush(&mut self, at_ms: u64, reads: bool) -> String {
            while self.censuses.advance(&self.tree, || Instant::ZERO) {}
            let Self { censuses, feed, .. } = self;
            censuses.take_changes(|key, path, above| feed.group_changed(key, path, above));
            let turn = Turn { messages_max: WAITING_MAX, is_over: || false };
            let flushed = feed.flush(now(at_ms), &self.tree, censuses, &turn);
            assert!(matches!(flushed, Flushed::All | Flushed::Full), "{flushed:?}");
            let mut text = String::new();
            while let Some(message) = if reads { self.messages.try_recv().ok() } else { None } {
                match message.event {
                    "update" => written::check::<written::LiveUpdate>(&message.data),
                    "beat" => written::check::<written::LiveBeat>(&message.data),
                    _ => written::check::<written::LiveCounts>(&message.data),
                }
                text += &format!("{} {}\n", message.event, message.data);
            }
            text
        }
    }

    fn now(at_ms: u64) -> Now {
        Now { mono: Instant::ZERO + Duration::from_millis(at_ms), utc: tieline_core::Timestamp::from_millis(0) }
    }

    #[test]
    fn a_reader_is_told_the_time_each_second_and_only_by_the_bus() {
        let mut desk = Desk::new(None);
        let beat = |ms: u64| format!("beat {{\"time\":\"1970-01-01T00:00:00.000Z\",\"mono_ms\":{ms}}}\n");
        desk.flush(5_000, true);
        assert_eq!(desk.flush(5_900, true), "");
        assert_eq!(desk.flush(6_000, true), beat(6_000));
        // A reader that takes nothing hears no time that would make what it has look new.
        for i in 0..20 {
            desk.flush(7_000 + i * 1_000, false);
        }
        assert_eq!(desk.flush(30_000, true).lines().count(), WAITING_MAX);
        assert_eq!(desk.flush(30_100, true), beat(30_100));
    }

    #[test]
    fn values_come_with_their_own_time_and_quality_and_that_of_their_arrival() {
        let mut desk = Desk::new(None);
        desk.put(0, "site/a", r#"{"v":1,"q":"bad","t":"2020-01-01T00:00:00Z"}"#);
        let expect = r#"{"updates":[{"topic":"site/a","kind":"point","value":{"v":1,"q":"bad","t":"2020-01-01T00:00:00.000Z"},"seq":1,"updated":"1970-01-01T00:00:00.000Z"}]}"#;
        assert!(desk.flush(0, true).contains(expect));
    }

    fn counts(good: u32, uncertain: u32, bad: u32) -> String {
        let total = good + uncertain + bad;
        format!("{{\"good\":{good},\"uncertain\":{uncertain},\"bad\":{bad},\"unstated\":0,\"total\":{total}}}")
    }

    #[test]
    fn counts_of_the_groups_that_are_looked_at_are_pushed() {
        let mut desk = Desk::new(Some(Groups::Below(["site".to_owned()].into())));
        desk.put(0, "site/a/x", r#"{"v":1,"q":"good"}"#);
        desk.put(0, "site/b/y/z", r#"{"v":1,"q":"good"}"#);
        desk.put(0, "other/x/y", r#"{"v":1,"q":"uncertain"}"#);
        let groups = format!("{{\"site/a\":{},\"site/b\":{}}}", counts(1, 0, 0), counts(1, 0, 0));
        let all = format!("counts {{\"complete\":true,\"total\":{},\"groups\":{groups}}}\n", counts(2, 1, 0));
        let delivered = desk.flush(0, true);
        assert!(delivered.contains(&all), "{delivered}");
        // The worst member of a group is deep below it.
        desk.put(100, "site/b/y/z", r#"{"v":1,"q":"bad"}"#);
        let groups = format!("{{\"site/b\":{}}}", counts(0, 0, 1));
        let changed = format!("counts {{\"complete\":true,\"total\":{},\"groups\":{groups}}}\n", counts(1, 1, 1));
        let delivered = desk.flush(100, true);
        assert!(delivered.contains(&changed), "{delivered}");
        assert_eq!(desk.flush(200, true), "");
        desk.put(300, "site/b/y/z", "");
        let gone = format!("{{\"site/b\":{}}}", counts(0, 0, 0));
        assert!(desk.flush(300, true).contains(&gone));
    }

    #[test]
    fn a_reader_of_all_groups_is_told_them_in_parts() {
        let mut desk = Desk::new(Some(Groups::All));
        for i in 0..GROUPS + 10 {
            desk.put(0, &format!("plant/unit{i}/x"), r#"{"v":1,"q":"good"}"#);
        }
        let mut delivered = String::new();
        for i in 0..10 {
            delivered += &desk.flush(i * 10, true);
        }
        assert!(
            delivered.contains("\"plant\":") && delivered.contains(&format!("\"plant/unit{}\":", GROUPS + 9)),
            "{delivered}"
        );
        assert!(!desk.flush(200, true).contains("counts"));
    }

    #[test]
    fn counts_that_are_not_all_there_say_so() {
        let mut desk = Desk::new(Some(Groups::All));
        desk.feed.counting.as_mut().unwrap().census = None;
        assert!(desk.flush(0, true).contains(r#"counts {"complete":false,"total":null,"groups":{}}"#));
        assert_eq!(desk.flush(100, true), "");
    }

    #[test]
    fn where_too_much_has_changed_all_is_told_again() {
        let mut desk = Desk::new(None);
        desk.flush(0, true);
        for i in 0..=DIRTY_MAX {
            desk.put(0, &format!("site/{i}"), "1");
        }
        assert!(desk.feed.changes.is_behind());
        let mut delivered = HashSet::new();
        for at in 0..100 {
            for line in desk.flush(at, true).lines().filter_map(|line| line.strip_prefix("update ")) {
                let update: serde_json::Value = serde_json::from_str(line).unwrap();
                let topics = update["updates"].as_array().unwrap().iter();
                delivered.extend(topics.map(|update| update["topic"].as_str().unwrap().to_owned()));
            }
        }
        assert_eq!(delivered.len(), DIRTY_MAX + 1);
        desk.put(200, "site/7", "2");
        assert!(desk.flush(200, true).contains("site/7"), "it goes on as before");
    }

    #[test]
    fn a_message_is_short_whatever_values_are_long() {
        let long: &'static str = "x".repeat(MESSAGE_BYTES / 2).leak();
        for is_known in [false, true] {
            let mut desk = Desk::new(None);
            if is_known {
                desk.flush(0, true);
            }
            for i in 0..9 {
                desk.put(0, &format!("site/{i}"), long);
            }
            let delivered: Vec<String> =
                (0..9).flat_map(|at| desk.flush(at, true).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
            let updates: Vec<_> = delivered.iter().filter(|line| line.starts_with("update")).collect();
            assert!(
                updates.len() >= 4 && updates.iter().all(|line| line.len() < 2 * MESSAGE_BYTES),
                "{}",
                updates.len()
            );
            for i in 0..9 {
                assert!(updates.iter().any(|line| line.contains(&format!("site/{i}"))));
            }
        }
    }
}
