//! A subscriber of the core or of an edge: what it knows of each topic, and whether that came in order.

use super::words::{Said, said};
use bytes::Bytes;
use core::num::NonZeroU16;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tieline_core::{Body, Filter, Now};
use tieline_delta::{Codecs, Event, PROPERTY, Publish, Receiver, ReceiverLimits, is_mark};
use tieline_mqtt::{
    ClientConfig, ClientEvent, ClientSession, Properties, Property, Qos, Received, SubscriptionOptions, Text,
};
use tieline_net::{Owner, Session};

/// How a reader subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The newest values.
    Newest,
    /// The newest values, as what changed.
    Deltas,
    /// With QoS 1.
    Once,
    /// Every message, over a network without faults, at the core: what it hears is what happened.
    Witness,
}

/// What one reader knows.
#[derive(Debug)]
pub struct Reader {
    pub how: How,
    pub filter: &'static str,
    /// The last value of each topic, of those that have one.
    pub last: BTreeMap<String, Said>,
    /// The numbers that came, of the witness.
    pub heard: BTreeMap<String, BTreeSet<u32>>,
    /// What was wrong at once.
    pub wrong: Option<String>,
    /// Messages that came.
    pub count: u64,
    /// Of these, as what changed.
    pub deltas: u64,
    /// It takes no more: a defect, for tests.
    pub is_deaf: bool,
    newest: BTreeMap<String, u32>,
    receiver: Receiver,
}

impl Reader {
    pub fn new(how: How, filter: &'static str) -> Self {
        let receiver = Receiver::new(Codecs::built_in(), ReceiverLimits::default());
        let (last, heard, newest) = Default::default();
        let (wrong, count, deltas, is_deaf) = Default::default();
        Self { how, filter, last, heard, wrong, count, deltas, is_deaf, newest, receiver }
    }

    pub fn session(name: &str) -> ClientSession {
        ClientSession::new(ClientConfig {
            client_id: Text::truncated(name),
            clean_start: true,
            keep_alive_s: 6,
            topic_alias_max: 40,
            ..ClientConfig::default()
        })
    }

    fn properties(&self) -> Properties {
        let pair = |name: &str, value: &str| Property::UserProperty((Text::truncated(name), Text::truncated(value)));
        let wish = match self.how {
            How::Newest | How::Once => None,
            How::Deltas => Some(pair(PROPERTY, "point,hunk")),
            How::Witness => Some(pair("tieline-slow", "all")),
        };
        wish.into_iter().collect()
    }

    fn take(&mut self, received: &Received) {
        let message = &received.message;
        let is_marked = message.properties.user_properties().any(|(name, value)| is_mark(&name, &value));
        let alias = received.alias.map(NonZeroU16::get);
        let publish = Publish { topic: &message.topic, alias, is_marked, payload: &message.payload, version: None };
        let mut events = Vec::new();
        self.receiver.handle_publish(publish, &mut events);
        for event in events {
            match event {
                Event::Value { topic, body } => self.hear(&topic, &body),
                Event::Lost { topic, error } => self.complain(format!("a value of {topic} is lost: {error}")),
            }
        }
        self.deltas = self.receiver.stats().deltas;
    }

    fn hear(&mut self, topic: &str, body: &Body) {
        self.count += 1;
        if self.is_deaf {
            return;
        }
        if body.to_payload().is_empty() {
            self.last.remove(topic);
            return;
        }
        let Some(said) = said(topic, body) else {
            return self.complain(format!("{topic} has a value that nobody published: {body:?}"));
        };
        let newest = self.newest.entry(topic.to_owned()).or_default();
        let is_again = self.how == How::Witness && said.number == *newest;
        if said.number < *newest || is_again {
            let words = format!("{topic}: {} came after {newest}", said.number);
            return self.complain(words);
        }
        *newest = said.number;
        if self.how == How::Witness {
            self.heard.entry(topic.to_owned()).or_default().insert(said.number);
        }
        self.last.insert(topic.to_owned(), said);
    }

    fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

/// A reader as the owner of its session.
pub struct ReaderOwner(pub Rc<RefCell<Reader>>);

impl Owner<ClientSession> for ReaderOwner {
    fn event(&mut self, session: &Session<ClientSession>, _: Now, event: ClientEvent) {
        let mut reader = self.0.borrow_mut();
        match event {
            ClientEvent::Connected(_) => {
                // Everything is said once more, by a node that may be another by now.
                reader.last.clear();
                reader.newest.clear();
                let qos = if reader.how == How::Once { Qos::AtLeastOnce } else { Qos::AtMostOnce };
                let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
                let filter = Filter::new(reader.filter).expect("a filter");
                let asked = session.with(|m, _| m.subscribe_with(&[(filter, options)], reader.properties()));
                if asked.is_err() {
                    reader.complain("it cannot subscribe".to_owned());
                }
            }
            ClientEvent::Subscribed { reasons, properties, .. } => {
                if reasons.iter().any(|reason| reason.is_error()) {
                    reader.complain(format!("refused: {reasons:?}"));
                }
                let answer = properties.user_properties().find(|(name, _)| &**name == PROPERTY);
                let filter = Filter::new(reader.filter).expect("a filter");
                reader.receiver.handle_suback(&filter, answer.as_ref().map(|(_, answer)| &**answer));
            }
            ClientEvent::Message(received) => reader.take(&received),
            ClientEvent::Ended(_) => reader.receiver.handle_disconnect(),
            ClientEvent::Refused { reason, text } => reader.complain(format!("turned away: {reason} {text}")),
            ClientEvent::Published { .. } | ClientEvent::Unsubscribed { .. } => {}
        }
    }
}

/// What a payload of a node's tree says.
pub fn value(topic: &str, payload: Bytes) -> Option<Said> {
    said(topic, &Body::read(payload))
}
