//! What is pending for one client: newest values of topics, and messages that are kept one by one.
//!
//! A client that takes everything has none of this. One whose socket is full, or that asked for its updates together,
//! seldom, or as deltas, has a [`Flow`]: it is asked for bytes whenever the socket takes some.

use super::counters::{DropCause, Drops};
use super::deltas::{Deltas, Follower, counted, marked, uncounted};
use super::replays::RetainedReplays;
use super::retained::{PublishMetadata, Retained};
use super::state::id_of;
use super::wire::Wire;
use crate::access::ClientIdentity;
use std::collections::{HashMap, VecDeque};
use tieline_core::{Instant, Now, Topic};
use tieline_mqtt::{Aside, Delivery, Message, Property, SubscriptionId, Text};
use tieline_topics::{Applied, Change, DeliveryOptions, Lane, Match, OverflowPolicy, PendingSet, TopicId, Tree};

/// Bytes that are made at a time: as many as one write may hold.
const BURST_BYTES: usize = 16 * 1024;
/// Topics with a gap that the client was not told of yet; one that has more is ended.
const GAPS_MAX: usize = 4096;
/// What a kept message costs besides its bytes.
const ENTRY_BYTES: usize = 96;
/// The user property that says how many messages of the topic are missing before this one.
const LOST: &str = "tieline-lost";

/// What is pending for one client.
#[derive(Debug, Default)]
pub struct Flow {
    pub(super) pending: PendingSet,
    /// Messages that are kept one by one, by lane; they go before the values of their lane.
    logs: [VecDeque<Entry>; 3],
    log_bytes: usize,
    /// Messages of each topic that were dropped and that its subscriber wants to be told of.
    gaps: HashMap<Topic, u64>,
    /// Messages that were dropped.
    pub(super) dropped: Drops,
    /// When the bus looks at it again.
    pub(super) armed: Option<Instant>,
}

/// Counters of what is pending for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Values that were never sent because a newer one came first.
    pub conflated: u64,
    /// Messages that were dropped.
    pub dropped: Drops,
}

impl FlowCounters {
    /// Counts what another counted.
    pub fn add(&mut self, other: Self) {
        self.conflated += other.conflated;
        self.dropped.add(other.dropped);
    }
}

/// A message that is kept until the socket takes it.
#[derive(Debug)]
struct Entry {
    delivery: Delivery,
    /// What is done where there is no room for it.
    policy: OverflowPolicy,
    topic: TopicId,
    /// The version of the topic's value that it is; none where it is no value.
    version: Option<u64>,
    /// Whether it takes the place of a pending value.
    stands_for_value: bool,
}

/// What became of a message that could not go out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// It, or a newer one, goes out when it can.
    Yes,
    /// The log is full, and the client is to be ended.
    End,
}

/// Who is sent something.
#[derive(Debug)]
pub struct Whom<'a> {
    /// Its place.
    pub key: usize,
    /// What it may read, where it had to show who it is.
    pub identity: Option<&'a ClientIdentity>,
    /// What it takes as deltas.
    pub follower: Option<&'a mut Follower>,
    /// Last values that it has not been sent yet.
    pub replays: &'a RetainedReplays,
}

/// Where values are read from when they are sent.
pub struct Source<'a> {
    /// The time.
    pub now: Now,
    /// The values.
    pub tree: &'a mut Tree,
    /// What they were published with.
    pub retained: &'a Retained,
    /// What changed of them.
    pub deltas: &'a mut Deltas,
}

impl Flow {
    /// Takes note of an update: its value will be read when it is sent, or the message is kept.
    pub fn queue(
        &mut self,
        now: Now,
        applied: Applied,
        to: &Match<'_>,
        message: impl FnOnce() -> Delivery,
        bytes_max: usize,
    ) -> Queued {
        let (policy, topic) = (to.delivery_options.policy(), applied.topic);
        if applied.change == Change::Stored && policy == OverflowPolicy::Newest {
            self.pending.add(now.mono, topic, to.lane, to.delivery_options);
            return Queued::Yes;
        }
        // What is newer than the value stands for it.
        let stands_for_value = applied.change == Change::Passed && self.pending.contains(topic);
        self.pending.forget(topic);
        let version = (applied.change == Change::Stored).then_some(applied.version);
        self.log(to.lane, Entry { delivery: message(), policy, topic, version, stands_for_value });
        while self.log_bytes > bytes_max {
            if !self.drop_oldest(now.mono) {
                return Queued::End;
            }
        }
        Queued::Yes
    }

    fn log(&mut self, lane: Lane, entry: Entry) {
        self.log_bytes += weight(&entry.delivery);
        self.logs[lane as usize].push_back(entry);
    }

    /// Drops the oldest message of the least urgent lane that has some; false where that may not be. The value that goes with it
    /// is owed.
    fn drop_oldest(&mut self, now: Instant) -> bool {
        let Some(lane) = Lane::ALL.into_iter().rev().find(|lane| !self.logs[*lane as usize].is_empty()) else {
            return true;
        };
        let log = &mut self.logs[lane as usize];
        let Some(oldest) = log.pop_front_if(|oldest| oldest.policy != OverflowPolicy::Disconnect) else { return false };
        self.log_bytes -= weight(&oldest.delivery);
        self.dropped.count(DropCause::QueueFull, 1);
        if oldest.policy == OverflowPolicy::All {
            *self.gaps.entry(oldest.delivery.message.topic.clone()).or_default() += 1;
        }
        if oldest.version.is_some() || oldest.stands_for_value {
            self.put_back(now, oldest.topic, lane);
        }
        self.gaps.len() <= GAPS_MAX
    }

    /// A value that could not be sent otherwise is pending.
    pub fn put_back(&mut self, now: Instant, topic: TopicId, lane: Lane) {
        if !self.pending.contains(topic) {
            self.pending.add(now, topic, lane, DeliveryOptions::default());
        }
    }

    /// Appends what may go, the most urgent first; true while there is more that may.
    pub fn fill(&mut self, whom: &mut Whom<'_>, wire: &Wire, source: &mut Source<'_>, out: &mut Vec<u8>) -> bool {
        let now = source.now;
        for lane in Lane::ALL {
            while let Some(entry) = self.logs[lane as usize].pop_front() {
                self.log_bytes -= weight(&entry.delivery);
                if whom.may(&entry.delivery.message.topic) {
                    self.emit_kept(now, wire, &entry.delivery, out);
                }
                // An older value of the topic was dropped, and this is the newest.
                let newest = |topic| source.tree.view(topic).map(|view| view.version);
                if self.pending.contains(entry.topic) && entry.version.is_some() && entry.version == newest(entry.topic)
                {
                    self.pending.forget(entry.topic);
                }
                if out.len() >= BURST_BYTES {
                    return true;
                }
            }
            while let Some(topic) = self.pending.next_of(now.mono, lane) {
                let lost = self.missing_before(topic, source.tree);
                whom.emit_value(topic, (false, lost), wire, source, out);
                if out.len() >= BURST_BYTES {
                    return true;
                }
            }
        }
        false
    }

    /// Appends the messages that are kept, when nothing else is pending: a socket that takes bytes takes them before
    /// the turn ends, so that none is dropped for want of room.
    pub fn fill_early(&mut self, now: Now, identity: Option<&ClientIdentity>, wire: &Wire, out: &mut Vec<u8>) {
        for lane in Lane::ALL {
            while let Some(entry) = self.logs[lane as usize].pop_front() {
                self.log_bytes -= weight(&entry.delivery);
                if identity.is_none_or(|identity| identity.may_read(&entry.delivery.message.topic)) {
                    self.emit_kept(now, wire, &entry.delivery, out);
                }
            }
        }
    }

    fn emit_kept(&mut self, now: Now, wire: &Wire, delivery: &Delivery, out: &mut Vec<u8>) {
        let Delivery { message, retain, subscription_ids, .. } = delivery;
        let lost = self
            .gaps
            .remove(&message.topic)
            .map(|lost| Message { properties: message.properties.with(&words_of(lost)), ..(**message).clone() });
        let message = lost.as_ref().unwrap_or(message);
        let aside = Aside { message, retain: *retain, subscription_ids, alias: None };
        if !wire.mqtt.emit_aside(now.mono, &aside, out) {
            let is_late = message.is_expired(now.mono);
            self.dropped.count(if is_late { DropCause::Expired } else { DropCause::TooLarge }, 1);
        }
    }

    /// Messages of a topic that were dropped, and that its newest value makes good but for the last of them.
    fn missing_before(&mut self, topic: TopicId, tree: &Tree) -> u64 {
        if self.gaps.is_empty() {
            return 0;
        }
        let dropped = tree.view(topic).and_then(|view| self.gaps.remove(view.topic));
        dropped.map_or(0, |dropped| dropped.saturating_sub(1))
    }

    /// Topics and messages that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.pending.len() + self.logs.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Bytes of the messages that are kept one by one.
    #[must_use]
    pub const fn log_bytes(&self) -> usize {
        self.log_bytes
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.logs.iter().all(VecDeque::is_empty)
    }

    /// Whether a new one would know as much, but for what was counted.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_empty() && self.gaps.is_empty() && self.pending.is_spent()
    }

    /// What was counted.
    #[must_use]
    pub const fn flow_counters(&self) -> FlowCounters {
        FlowCounters { conflated: self.pending.conflated(), dropped: self.dropped }
    }

    /// When something may go; at once where messages wait.
    #[must_use]
    pub fn timeout(&self, now: Instant) -> Option<Instant> {
        if self.logs.iter().all(VecDeque::is_empty) { self.pending.timeout() } else { Some(now) }
    }
}

impl Whom<'_> {
    /// Appends the topic's newest value, where the client still wants it; `first` for one of a new subscription, and
    /// how many messages before it are to be told as `lost`.
    pub fn emit_value(
        &mut self,
        topic: TopicId,
        (first, lost): (bool, u64),
        wire: &Wire,
        source: &mut Source<'_>,
        out: &mut Vec<u8>,
    ) {
        let now = source.now;
        let wanted = source.tree.match_of(topic, id_of(self.key), |to| {
            let ids: Vec<SubscriptionId> = to.ids.iter().filter_map(|id| SubscriptionId::new(*id)).collect();
            // What another subscription wants at QoS 1 or 2 goes out so, one by one and plain.
            (to.retain_as_published, to.delivery_options.wants_deltas() && to.qos == 0, ids)
        });
        let (Some((as_published, wants_deltas, ids)), Some(view)) = (wanted, source.tree.view(topic)) else { return };
        // Rights may have changed since it was owed.
        if !self.may(view.topic) {
            return;
        }
        let PublishMetadata { properties, received, .. } = source.retained.metadata(&view, now.mono);
        let retain = first || as_published;
        let properties = if lost > 0 { properties.with(&words_of(lost)) } else { properties };
        let mut message = Message { topic: view.topic.clone(), payload: bytes::Bytes::new(), properties, received };
        let Some(follower) = self.follower.as_deref_mut().filter(|_| wants_deltas) else {
            message.payload = view.body.to_payload();
            let aside = Aside { message: &message, retain, subscription_ids: &ids, alias: None };
            wire.mqtt.emit_aside(now.mono, &aside, out);
            return;
        };
        let restart = first || self.replays.iter().any(|replay| replay.renews(view.topic));
        let next = source.deltas.since(follower, &view, restart);
        message.payload = next.payload;
        if next.alias.is_none_or(|(_, known)| !known) {
            if follower.counts() {
                message.properties = match source.tree.version_told(&view) {
                    Some(version) => counted(&message.properties, version),
                    None => uncounted(&message.properties),
                };
            }
            message.properties = marked(&message.properties);
        }
        let aside = Aside { message: &message, retain, subscription_ids: &ids, alias: next.alias };
        if !wire.mqtt.emit_aside(now.mono, &aside, out) {
            source.deltas.void(Some(follower), topic);
        }
    }

    fn may(&self, topic: &Topic) -> bool {
        self.identity.is_none_or(|identity| identity.may_read(topic))
    }
}

/// The property that says how many messages are missing.
fn words_of(lost: u64) -> Property {
    Property::UserProperty((Text::truncated(LOST), Text::truncated(&lost.to_string())))
}

fn weight(delivery: &Delivery) -> usize {
    ENTRY_BYTES + delivery.message.payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tieline_mqtt::Qos;
    use tieline_topics::SubscriberId;

    /// Room for three of the messages below.
    const ROOM: usize = 3 * (ENTRY_BYTES + 4);

    fn queue(flow: &mut Flow, topic: u32, change: Change, policy: OverflowPolicy, lane: Lane) -> Queued {
        let applied = Applied { topic: TopicId(topic), version: 1, change, is_new: false };
        let delivery_options = DeliveryOptions::default().overflow(policy);
        let to =
            Match { subscriber: SubscriberId(0), qos: 0, retain_as_published: false, ids: &[], delivery_options, lane };
        let name = Topic::new(&topic.to_string()).unwrap();
        let message = Arc::new(Message::new(name, bytes::Bytes::from_static(b"1234"), Instant::ZERO));
        let delivery = Delivery { message, qos: Qos::AtMostOnce, retain: false, subscription_ids: Vec::new() };
        flow.queue(Now::default(), applied, &to, || delivery, ROOM)
    }

    /// Updates in their order, with their topics, and what becomes of the last; then the topics whose messages are kept, and
    /// those whose values are owed.
    #[track_caller]
    fn check(updates: &[(u32, Change, OverflowPolicy, Lane)], expect: Queued, kept: &[u32], owed: &[u32]) {
        let mut flow = Flow::default();
        let last =
            updates.iter().map(|(topic, change, policy, lane)| queue(&mut flow, *topic, *change, *policy, *lane));
        let last = last.collect::<Vec<_>>();
        assert!(last[..last.len() - 1].iter().all(|owed| *owed == Queued::Yes));
        let held: Vec<u32> = flow.logs.iter().flatten().map(|entry| entry.topic.0).collect();
        let found: Vec<u32> = (0..10).filter(|topic| flow.pending.contains(TopicId(*topic))).collect();
        assert_eq!((last[last.len() - 1], &held[..], &found[..]), (expect, kept, owed));
    }

    #[test]
    fn the_policy_of_the_message_that_would_go_decides() {
        use Change::{Passed, Stored};
        use Lane::{Bulk, Monitoring, Protection};
        use OverflowPolicy::{All, Disconnect, DropOldest, Newest};
        let others =
            [(2, Passed, Newest, Monitoring), (3, Passed, DropOldest, Monitoring), (4, Passed, All, Monitoring)];
        let ended = (1, Stored, Disconnect, Monitoring);
        check(&[&[ended][..], &others].concat(), Queued::End, &[1, 2, 3, 4], &[]);
        check(&[&others[..], &[ended]].concat(), Queued::Yes, &[3, 4, 1], &[]);
        // What is less urgent goes before it.
        let urgent = (1, Stored, Disconnect, Protection);
        check(&[&[urgent][..], &others].concat(), Queued::Yes, &[1, 3, 4], &[]);
        let less = (1, Stored, Disconnect, Bulk);
        check(&[&others[..], &[less]].concat(), Queued::End, &[2, 3, 4, 1], &[]);
    }

    #[test]
    fn a_value_that_is_dropped_is_pending() {
        use Change::{Cleared, Passed, Stored};
        use Lane::Monitoring;
        use OverflowPolicy::{All, DropOldest, Newest};
        let passed = |topic| (topic, Passed, Newest, Monitoring);
        let some = [passed(5), passed(6), passed(7)];
        for policy in [All, DropOldest] {
            let value = (1, Stored, policy, Monitoring);
            check(&[&[value][..], &some].concat(), Queued::Yes, &[5, 6, 7], &[1]);
            // A newer message of the topic stands for it, and it is owed again where that goes.
            check(&[&[value][..], &some, &[passed(1)]].concat(), Queued::Yes, &[6, 7, 1], &[]);
            check(&[&[value][..], &some, &[passed(1)], &some].concat(), Queued::Yes, &[5, 6, 7], &[1]);
        }
        // What was no value is none.
        check(&[&[passed(1)][..], &some].concat(), Queued::Yes, &[5, 6, 7], &[]);
        check(&[&[(1, Cleared, All, Monitoring)][..], &some].concat(), Queued::Yes, &[5, 6, 7], &[]);
    }
}
