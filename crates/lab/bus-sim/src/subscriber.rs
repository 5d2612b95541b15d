//! One subscriber: what it asks for, what it has heard, and what is wrong with that at once.

use crate::defect::{Defect, Ear};
use crate::rights::{OTHERS, READER};
use crate::speech;
use bytes::Bytes;
use core::num::NonZeroU16;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tieline_core::{Body, Filter, Instant, Now, Topic};
use tieline_delta::{Codecs, Event, PROPERTY, Publish, Receiver, ReceiverLimits, is_mark};
use tieline_mqtt::{
    ClientConfig, ClientEvent, ClientSession, Properties, Property, Qos, Received, SubscriptionOptions, Text,
};
use tieline_net::{Owner, Session};

/// What a subscriber wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything, over a network without faults: what it hears is what happened.
    Witness,
    /// QoS 2 in a session that outlives connections.
    Persistent,
    /// QoS 1 in a session that ends with its connection: last values wait in one queue with messages that may not be dropped.
    Once,
    /// The newest values.
    Newest,
    /// The newest values, as what changed.
    Deltas,
    /// The same, in fewer writes: what is for it waits so long for more ([`WRITE_WINDOW_MS`]).
    Gathered,
    /// Every message, and to be told of gaps.
    All,
    /// The newest values, no sooner than [`THROTTLE_MS`] after one another.
    Throttled,
    /// The newest values that its user may read, over a network without faults.
    Reader,
}

/// What [`Kind::Throttled`] asks for.
pub const THROTTLE_MS: u64 = 500;
/// What [`Kind::Gathered`] asks for.
const WRITE_WINDOW_MS: u64 = 60;

impl Kind {
    /// Which topics.
    #[must_use]
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Witness | Self::All => "#",
            Self::Persistent
            | Self::Once
            | Self::Newest
            | Self::Deltas
            | Self::Gathered
            | Self::Throttled
            | Self::Reader => "p/#",
        }
    }

    /// Whether its network may fail.
    #[must_use]
    pub const fn has_faults(self) -> bool {
        matches!(self, Self::Persistent | Self::Once | Self::Newest | Self::Deltas | Self::Gathered)
    }

    const fn qos(self) -> Qos {
        match self {
            Self::Persistent => Qos::ExactlyOnce,
            Self::Once => Qos::AtLeastOnce,
            Self::Witness
            | Self::Newest
            | Self::Deltas
            | Self::Gathered
            | Self::All
            | Self::Throttled
            | Self::Reader => Qos::AtMostOnce,
        }
    }

    /// The properties of its SUBSCRIBE.
    fn delivery_properties(self) -> Properties {
        let pair = |name: &str, value: &str| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
        let all = || pair("tieline-slow", "all");
        let delivery_properties = match self {
            Self::Witness | Self::All => Some(all()),
            Self::Persistent | Self::Once | Self::Newest | Self::Reader => None,
            Self::Deltas | Self::Gathered => Some(pair(PROPERTY, "point,hunk")),
            Self::Throttled => Some(pair("tieline-throttle", &THROTTLE_MS.to_string())),
        };
        delivery_properties.into_iter().collect()
    }

    /// Its session.
    #[must_use]
    pub fn session(self, name: &str) -> ClientSession {
        let kept = self == Self::Persistent;
        let text = |text: &str| Text::truncated(text);
        let window = (text("tieline-write-window"), text(&WRITE_WINDOW_MS.to_string()));
        ClientSession::new(ClientConfig {
            client_id: Text::truncated(name),
            user_name: Some(Text::truncated(if self == Self::Reader { READER } else { OTHERS })),
            clean_start: !kept,
            session_expiry_s: if kept { 3600 } else { 0 },
            // Who is held back and not cut must not take it for a cut: what is lost with a connection is not told.
            keep_alive_s: if self.has_faults() { 6 } else { 600 },
            topic_alias_max: 40,
            user_properties: if self == Self::Gathered { vec![window] } else { Vec::new() },
            ..ClientConfig::default()
        })
    }
}

/// A message that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Which value of its topic.
    pub number: u32,
    /// Over which connection.
    pub connection: u32,
    /// Whether it is a last value of a new subscription.
    pub retain: bool,
    /// How many are said to be missing before it.
    pub lost: u32,
    /// When.
    pub at: Instant,
}

/// What one subscriber has heard.
#[derive(Debug)]
pub struct Subscriber {
    /// What it wants.
    pub kind: Kind,
    /// What it heard of each topic.
    pub heard: BTreeMap<String, Vec<Heard>>,
    /// The last value of each topic.
    pub last: BTreeMap<String, Bytes>,
    /// Whether its subscription was granted.
    pub is_granted: bool,
    /// What was wrong at once.
    pub wrong: Option<String>,
    connection: u32,
    receiver: Receiver,
}

impl Subscriber {
    /// One that has heard nothing.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let receiver = Receiver::new(Codecs::built_in(), ReceiverLimits::default());
        let (heard, last) = Default::default();
        Self { kind, heard, last, is_granted: false, wrong: None, connection: 0, receiver }
    }

    fn take(&mut self, now: Now, received: &Received) {
        let message = &received.message;
        let is_marked = message.properties.user_properties().any(|(name, value)| is_mark(&name, &value));
        let alias = received.alias.map(NonZeroU16::get);
        let publish = Publish { topic: &message.topic, alias, is_marked, payload: &message.payload, version: None };
        let mut events = Vec::new();
        self.receiver.handle_publish(publish, &mut events);
        let lost = message.properties.user_properties().find(|(name, _)| &**name == "tieline-lost");
        let lost = lost.and_then(|(_, count)| count.parse().ok()).unwrap_or(0);
        for event in events {
            match event {
                Event::Value { topic, body: Body::Opaque(value) } => {
                    self.hear(now, &topic, value, received.retain, lost)
                }
                Event::Value { topic, .. } => self.complain(format!("a point of {topic}")),
                Event::Lost { topic, error } => self.complain(format!("a value of {topic} is lost: {error}")),
            }
        }
    }

    fn hear(&mut self, now: Now, topic: &Topic, value: Bytes, retain: bool, lost: u32) {
        let number = std::str::from_utf8(&value).ok().and_then(|text| text.get(..8)?.parse().ok());
        let Some(number) = number.filter(|number| speech(topic, *number) == value) else {
            return self.complain(format!("{topic} has a value that nobody published: {value:?}"));
        };
        let heard = Heard { number, connection: self.connection, retain, lost, at: now.mono };
        self.heard.entry(topic.to_string()).or_default().push(heard);
        self.last.insert(topic.to_string(), value);
    }

    fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

/// A subscriber as the owner of its session.
#[derive(Debug)]
pub struct SubscriberOwner {
    subscriber: Rc<RefCell<Subscriber>>,
    ear: Ear,
    defect: Option<Rc<Defect>>,
}

impl SubscriberOwner {
    /// The owner of a subscriber; the defect reaches it where it is of its kind.
    #[must_use]
    pub fn new(subscriber: Rc<RefCell<Subscriber>>, defect: Option<&Rc<Defect>>) -> Self {
        let kind = subscriber.borrow().kind;
        Self { subscriber, ear: Ear::default(), defect: defect.filter(|defect| defect.kind == kind).cloned() }
    }
}

impl Owner<ClientSession> for SubscriberOwner {
    fn event(&mut self, session: &Session<ClientSession>, now: Now, event: ClientEvent) {
        let mut subscriber = self.subscriber.borrow_mut();
        match event {
            ClientEvent::Connected(connected) => {
                subscriber.connection += 1;
                let kind = subscriber.kind;
                if kind == Kind::Persistent && connected.session_present {
                    return;
                }
                if kind == Kind::Persistent && subscriber.connection > 1 && subscriber.is_granted {
                    subscriber.complain("a kept session has gone".to_owned());
                }
                let options = SubscriptionOptions { qos: kind.qos(), ..SubscriptionOptions::default() };
                let filter = Filter::new(kind.filter()).expect("a filter");
                let asked = session.with(|m, _| m.subscribe_with(&[(filter, options)], kind.delivery_properties()));
                if asked.is_err() {
                    subscriber.complain("it cannot subscribe".to_owned());
                }
            }
            ClientEvent::Subscribed { reasons, properties, .. } => {
                subscriber.is_granted = true;
                if reasons.iter().any(|reason| reason.is_error()) {
                    subscriber.complain(format!("refused: {reasons:?}"));
                }
                let answer = properties.user_properties().find(|(name, _)| &**name == PROPERTY);
                let filter = Filter::new(subscriber.kind.filter()).expect("a filter");
                subscriber.receiver.handle_suback(&filter, answer.as_ref().map(|(_, answer)| &**answer));
            }
            ClientEvent::Message(received) => {
                let topic = received.message.topic.to_string();
                let heard = self.ear.hear(self.defect.as_deref(), &topic, received);
                heard.iter().for_each(|received| subscriber.take(now, received));
            }
            ClientEvent::Ended(_) => subscriber.receiver.handle_disconnect(),
            ClientEvent::Refused { reason, text } => subscriber.complain(format!("turned away: {reason} {text}")),
            ClientEvent::Published { .. } | ClientEvent::Unsubscribed { .. } => {}
        }
    }
}
