//! A publisher at the core or at an edge: what it has said, and what of that was acknowledged.

use super::words::word;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tieline_core::{Now, Topic};
use tieline_mqtt::{ClientConfig, ClientEvent, ClientSession, Message, Properties, PublishOutcome, Qos, Text};
use tieline_net::{Owner, Session};

/// One publisher.
#[derive(Debug, Default)]
pub struct Writer {
    /// The number of the last value of each topic, and whether that was removed.
    pub said: BTreeMap<String, (u32, bool)>,
    /// The numbers of those that were acknowledged as taken, by topic.
    pub taken: BTreeMap<String, BTreeSet<u32>>,
    /// How many were refused, or had no answer.
    pub refused: u64,
    /// What was wrong at once.
    pub wrong: Option<String>,
    tokens: BTreeMap<u64, (String, u32)>,
}

impl Writer {
    pub fn session(name: &str) -> ClientSession {
        ClientSession::new(ClientConfig {
            client_id: Text::truncated(name),
            clean_start: true,
            keep_alive_s: 6,
            ..ClientConfig::default()
        })
    }

    /// Publishes the next value of a topic.
    pub fn say(&mut self, session: &Session<ClientSession>, topic: &str, qos: Qos) {
        let number = self.said.get(topic).map_or(0, |(number, _)| *number) + 1;
        self.said.insert(topic.to_owned(), (number, false));
        self.publish(session, (topic, number), word(topic, number), qos);
    }

    /// Publishes the last value once more, as nobody may: a defect, for tests.
    pub fn repeat(&mut self, session: &Session<ClientSession>, topic: &str) {
        if let Some((number, false)) = self.said.get(topic).copied() {
            self.publish(session, (topic, number), word(topic, number), Qos::ExactlyOnce);
        }
    }

    /// Removes the value of a topic.
    pub fn remove(&mut self, session: &Session<ClientSession>, topic: &str) {
        if let Some((number, is_removed)) = self.said.get_mut(topic) {
            *is_removed = true;
            let number = *number;
            self.publish(session, (topic, number), Bytes::new(), Qos::AtLeastOnce);
        }
    }

    fn publish(&mut self, session: &Session<ClientSession>, (topic, number): (&str, u32), payload: Bytes, qos: Qos) {
        let is_value = !payload.is_empty();
        let taken = session.with(|m, now| {
            let (topic, properties) = (Topic::new(topic).expect("a topic"), Properties::default());
            m.publish(Message { topic, payload, properties, received: now.mono }, qos, true).ok()
        });
        match taken {
            Some(token) if is_value && qos != Qos::AtMostOnce => {
                self.tokens.insert(token, (topic.to_owned(), number));
            }
            Some(_) => {}
            None => drop(self.wrong.get_or_insert("its queue is full".to_owned())),
        }
    }
}

/// A publisher as the owner of its session.
pub struct WriterOwner(pub Rc<RefCell<Writer>>);

impl Owner<ClientSession> for WriterOwner {
    fn event(&mut self, _: &Session<ClientSession>, _: Now, event: ClientEvent) {
        let mut writer = self.0.borrow_mut();
        match event {
            ClientEvent::Published { token, outcome } => {
                let Some((topic, number)) = writer.tokens.remove(&token) else { return };
                match outcome {
                    PublishOutcome::Answered(reason) if !reason.is_error() => {
                        writer.taken.entry(topic).or_default().insert(number);
                    }
                    _ => writer.refused += 1,
                }
            }
            ClientEvent::Refused { reason, text } => {
                writer.wrong.get_or_insert(format!("turned away: {reason} {text}"));
            }
            ClientEvent::Connected(_)
            | ClientEvent::Message(_)
            | ClientEvent::Subscribed { .. }
            | ClientEvent::Unsubscribed { .. }
            | ClientEvent::Ended(_) => {}
        }
    }
}
