//! What one client is owed beyond what goes out at once: newest values of topics, and messages that are kept one by one.
//!
//! A client that takes everything has none of this. One whose socket is full, or that wishes its updates together, seldom,
//! or as deltas, has a [`Flow`]: it is asked for octets whenever the socket takes some.

use super::client::Behind;
use super::deltas::{Deltas, Follower, marked};
use super::fanout::payload_of;
use super::retained::{Manner, Retained};
use super::state::id_of;
use super::wire::Wire;
use crate::access::Badge;
use std::collections::{HashMap, VecDeque};
use tieline_core::{Instant, Now, Topic};
use tieline_mqtt::{Aside, Delivery, Message, Property, SubscriptionId, Text};
use tieline_topics::{Applied, Arrears, Change, Lane, Match, Slow, TopicId, Tree};

/// Octets that are made at a time: as many as one write may hold.
const BURST_OCTETS: usize = 16 * 1024;
/// Topics with a gap that the client was not told of yet; one that has more is ended.
const GAPS_MAX: usize = 4096;
/// What a kept message costs besides its octets.
const ENTRY_OCTETS: usize = 96;
/// The user property that says how many messages of the topic are missing before this one.
const LOST: &str = "tieline-lost";

/// What one client is owed.
#[derive(Debug, Default)]
pub struct Flow {
    pub(super) arrears: Arrears,
    /// Messages that are kept one by one, by lane; they go before the values of their lane.
    logs: [VecDeque<(Delivery, Slow)>; 3],
    log_octets: usize,
    /// Messages of each topic that were dropped and that its subscriber wants to be told of.
    gaps: HashMap<Topic, u64>,
    /// Messages dropped because the log was full.
    pub(super) dropped: u64,
    /// When the bus looks at it again.
    pub(super) armed: Option<Instant>,
}

/// What became of a message that could not go out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
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
    pub badge: Option<&'a Badge>,
    /// What it takes as deltas.
    pub follower: Option<&'a mut Follower>,
    /// Last values that it has not been sent yet.
    pub behind: &'a Behind,
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
    pub fn owe(
        &mut self,
        now: Now,
        applied: Applied,
        to: &Match<'_>,
        message: impl FnOnce() -> Delivery,
        octets_max: usize,
    ) -> Owed {
        let policy = to.wish.policy();
        if applied.change == Change::Stored && policy == Slow::Newest {
            self.arrears.owe(now.mono, applied.topic, to.lane, to.wish);
            return Owed::Yes;
        }
        // What is newer than the value stands for it.
        self.arrears.forget(applied.topic);
        self.keep(message(), to.lane, policy, octets_max)
    }

    fn keep(&mut self, delivery: Delivery, lane: Lane, policy: Slow, octets_max: usize) -> Owed {
        self.log_octets += weight(&delivery);
        self.logs[lane as usize].push_back((delivery, policy));
        while self.log_octets > octets_max {
            if policy == Slow::Disconnect {
                return Owed::End;
            }
            // The least urgent goes first.
            let Some((oldest, policy)) = self.logs.iter_mut().rev().find_map(VecDeque::pop_front) else { break };
            self.log_octets -= weight(&oldest);
            self.dropped += 1;
            if policy == Slow::All {
                *self.gaps.entry(oldest.message.topic.clone()).or_default() += 1;
            }
            if self.gaps.len() > GAPS_MAX {
                return Owed::End;
            }
        }
        Owed::Yes
    }

    /// Appends what may go, the most urgent first; true while there is more that may.
    pub fn fill(&mut self, whom: &mut Whom<'_>, wire: &Wire, source: &mut Source<'_>, out: &mut Vec<u8>) -> bool {
        let now = source.now;
        for lane in Lane::ALL {
            while let Some((delivery, _)) = self.logs[lane as usize].pop_front() {
                self.log_octets -= weight(&delivery);
                if whom.may(&delivery.message.topic) {
                    self.emit_kept(now, wire, &delivery, out);
                }
                if out.len() >= BURST_OCTETS {
                    return true;
                }
            }
            while let Some(topic) = self.arrears.next_of(now.mono, lane) {
                whom.emit_value(topic, false, wire, source, out);
                if out.len() >= BURST_OCTETS {
                    return true;
                }
            }
        }
        false
    }

    fn emit_kept(&mut self, now: Now, wire: &Wire, delivery: &Delivery, out: &mut Vec<u8>) {
        let Delivery { message, retain, subscription_ids, .. } = delivery;
        let lost = self.gaps.remove(&message.topic).map(|lost| {
            let words = Property::UserProperty((Text::truncated(LOST), Text::truncated(&lost.to_string())));
            Message { properties: message.properties.with(&words), ..(**message).clone() }
        });
        let message = lost.as_ref().unwrap_or(message);
        wire.mqtt.emit_aside(now.mono, &Aside { message, retain: *retain, subscription_ids, alias: None }, out);
    }

    /// Topics and messages that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.arrears.len() + self.logs.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Octets of the messages that are kept one by one.
    #[must_use]
    pub const fn log_octets(&self) -> usize {
        self.log_octets
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arrears.is_empty() && self.logs.iter().all(VecDeque::is_empty)
    }

    /// Whether a new one would know as much.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_empty() && self.gaps.is_empty() && self.dropped == 0 && self.arrears.is_spent()
    }

    /// When something may go; at once where messages wait.
    #[must_use]
    pub fn timeout(&self, now: Instant) -> Option<Instant> {
        if self.logs.iter().all(VecDeque::is_empty) { self.arrears.timeout() } else { Some(now) }
    }
}

impl Whom<'_> {
    /// Appends the topic's newest value, where the client still wants it; `first` for one of a new subscription.
    pub fn emit_value(&mut self, topic: TopicId, first: bool, wire: &Wire, source: &mut Source<'_>, out: &mut Vec<u8>) {
        let now = source.now;
        let wanted = source.tree.match_of(topic, id_of(self.key), |to| {
            let ids: Vec<SubscriptionId> = to.ids.iter().filter_map(|id| SubscriptionId::new(*id)).collect();
            // What another subscription wants at QoS 1 or 2 goes out so, one by one and plain.
            (to.retain_as_published, to.wish.wants_deltas() && to.qos == 0, ids)
        });
        let (Some((as_published, wants_deltas, ids)), Some(view)) = (wanted, source.tree.view(topic)) else { return };
        // Rights may have changed since it was owed.
        if !self.may(view.topic) {
            return;
        }
        let Manner { properties, received, .. } = source.retained.manner(&view, now.mono);
        let retain = first || as_published;
        let mut message = Message { topic: view.topic.clone(), payload: bytes::Bytes::new(), properties, received };
        let Some(follower) = self.follower.as_deref_mut().filter(|_| wants_deltas) else {
            message.payload = payload_of(view.body);
            let aside = Aside { message: &message, retain, subscription_ids: &ids, alias: None };
            wire.mqtt.emit_aside(now.mono, &aside, out);
            return;
        };
        let anew = first || self.behind.iter().any(|catchup| catchup.renews(view.topic));
        let next = source.deltas.since(follower, &view, anew);
        message.payload = next.payload;
        if next.alias.is_none_or(|(_, known)| !known) {
            message.properties = marked(&message.properties);
        }
        let aside = Aside { message: &message, retain, subscription_ids: &ids, alias: next.alias };
        if !wire.mqtt.emit_aside(now.mono, &aside, out) {
            source.deltas.void(Some(follower), topic);
        }
    }

    fn may(&self, topic: &Topic) -> bool {
        self.badge.is_none_or(|badge| badge.may_read(topic))
    }
}

fn weight(delivery: &Delivery) -> usize {
    ENTRY_OCTETS + delivery.message.payload.len()
}
