//! One publisher: the values of its topics one after the other, whole or as what changed.

use crate::rights::OTHERS;
use crate::speech;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tieline_client::{Done, Outbox, offer};
use tieline_core::{Now, Topic};
use tieline_mqtt::{ClientConfig, ClientEvent, ClientSession, Message, Properties, PublishOutcome, Qos, Text};
use tieline_net::{Closed, Owner, Session};

/// One publisher.
#[derive(Debug)]
pub struct Publisher {
    /// Whether it sends what changed.
    pub has_deltas: bool,
    /// The number of each topic's last value.
    pub said: BTreeMap<String, u32>,
    /// What was wrong at once.
    pub wrong: Option<String>,
    /// Values that went as what changed.
    outbox: Outbox,
}

impl Publisher {
    /// One that has said nothing.
    #[must_use]
    pub fn new(has_deltas: bool) -> Self {
        Self { has_deltas, said: BTreeMap::new(), wrong: None, outbox: Outbox::new() }
    }

    /// Its session, which outlives connections.
    #[must_use]
    pub fn session(&self, name: &str) -> ClientSession {
        ClientSession::new(ClientConfig {
            client_id: Text::truncated(name),
            user_name: Some(Text::truncated(OTHERS)),
            clean_start: false,
            session_expiry_s: 3600,
            keep_alive_s: 6,
            user_properties: if self.has_deltas { offer() } else { Vec::new() },
            ..ClientConfig::default()
        })
    }

    /// Publishes the next value of a topic, retained.
    pub fn say(&mut self, session: &Session<ClientSession>, topic: &str, qos: Qos) {
        let number = self.said.entry(topic.to_owned()).or_default();
        *number += 1;
        let topic = Topic::new(topic).expect("a topic");
        let value = speech(&topic, *number);
        let Self { has_deltas, outbox, wrong, .. } = self;
        let taken = session.with(|m, now| {
            if *has_deltas {
                return outbox.publish(m, now.mono, (&topic, value), (qos, true));
            }
            let message = Message { topic, payload: value, properties: Properties::default(), received: now.mono };
            m.publish(message, qos, true).ok()
        });
        if taken.is_none() {
            wrong.get_or_insert("its queue is full".to_owned());
        }
    }

    /// Values that went as what changed.
    #[must_use]
    pub const fn deltas(&self) -> u64 {
        self.outbox.stats().deltas
    }
}

/// A publisher as the owner of its session.
#[derive(Debug)]
pub struct Desk(pub Rc<RefCell<Publisher>>);

impl Owner<ClientSession> for Desk {
    fn event(&mut self, session: &Session<ClientSession>, now: Now, event: ClientEvent) {
        let mut publisher = self.0.borrow_mut();
        let Publisher { outbox, wrong, has_deltas, .. } = &mut *publisher;
        match event {
            ClientEvent::Connected(connected) => outbox.connected(&connected.properties),
            ClientEvent::Published { token, outcome } => {
                let done = session.with(|m, _| outbox.done(m, now.mono, token, outcome));
                let is_well = match outcome {
                    PublishOutcome::Answered(reason) => !reason.is_error() || *has_deltas,
                    // Of QoS 0 that waited too long.
                    PublishOutcome::Dropped => true,
                    PublishOutcome::Unknown
                    | PublishOutcome::Expired
                    | PublishOutcome::TooLarge
                    | PublishOutcome::Unsent => false,
                };
                if !is_well && done == Done::Over {
                    wrong.get_or_insert(format!("a message ended as {outcome:?}"));
                }
            }
            ClientEvent::Message(received) => {
                session.with(|m, _| outbox.is_request(m, now.mono, &received));
            }
            ClientEvent::Refused { reason, text } => {
                wrong.get_or_insert(format!("turned away: {reason} {text}"));
            }
            ClientEvent::Subscribed { .. } | ClientEvent::Unsubscribed { .. } | ClientEvent::Ended(_) => {}
        }
    }

    fn closed(&mut self, _: &Session<ClientSession>, _: Now, _: Closed) {
        self.0.borrow_mut().outbox.disconnected();
    }
}
