//! Values that go out as what changed (docs/delta.md, Publishers), and what of them is not answered.

use super::deltas;
use bytes::Bytes;
use std::collections::HashMap;
use tieline_core::{Body, Instant, Topic};
use tieline_delta::{Codecs, MARK, PROPERTY, RESYNC_TOPIC, Sender, SenderLimits, SenderStats};
use tieline_mqtt::{ClientSession, Message, Properties, Property, PublishOutcome, Qos, ReasonCode, Received, Text};

/// Values on their way to a server.
#[derive(Debug)]
pub struct Outbox {
    sender: Sender<Manner>,
    /// Marked messages that are not done with, by what `publish` gave.
    marked: HashMap<u64, Marked>,
    /// The QoS of the last of them. Those of one QoS do not overtake one another.
    marked_qos: Qos,
    /// How many of them were published over a connection that is gone: until they are answered, what is told as a change
    /// might meet them at the server.
    stale: usize,
    /// Connections so far.
    connection: u64,
}

/// How a topic's value is published.
#[derive(Clone, Copy, Debug)]
struct Manner {
    qos: Qos,
    retain: bool,
}

#[derive(Debug)]
struct Marked {
    topic: Topic,
    number: u64,
    is_whole: bool,
    connection: u64,
}

/// What becomes of a message that is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// As it is.
    Over,
    /// Its value was published once more, as this.
    Again(u64),
}

/// The user property of CONNECT.
#[must_use]
pub fn offer() -> Vec<(Text, Text)> {
    let codecs = Codecs::built_in();
    let offer = codecs.offer(codecs.set()).unwrap_or_default();
    vec![(Text::truncated(PROPERTY), Text::truncated(&offer))]
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// Nothing was published.
    #[must_use]
    pub fn new() -> Self {
        let sender = Sender::new(Codecs::built_in(), SenderLimits::default());
        Self { sender, marked: HashMap::new(), marked_qos: Qos::AtMostOnce, stale: 0, connection: 0 }
    }

    /// There is a connection; these are the properties of CONNACK.
    pub fn connected(&mut self, properties: &Properties) {
        self.connection += 1;
        self.stale = self.marked.len();
        self.sender.handle_connack(deltas::answer(properties).as_deref());
    }

    /// The connection has ended.
    pub fn disconnected(&mut self) {
        self.sender.handle_disconnect();
    }

    /// Publishes a topic's value; none where the queue is full.
    pub fn publish(
        &mut self,
        session: &mut ClientSession,
        now: Instant,
        (topic, value): (&Topic, Bytes),
        (qos, retain): (Qos, bool),
    ) -> Option<u64> {
        let how = Manner { qos, retain };
        let in_turn = self.marked.is_empty() || (self.stale == 0 && self.marked_qos == qos);
        let may_mark = session.is_open() && in_turn;
        let saying = self.sender.say(topic, &Body::Opaque(value), how, may_mark);
        let is_whole = saying.payload.first().is_none_or(|first| first >> 5 < 2);
        let mark = Property::UserProperty((Text::truncated(PROPERTY), Text::truncated(MARK)));
        let properties = saying.is_marked.then_some(mark).into_iter().collect();
        let message = Message { topic: topic.clone(), payload: saying.payload, properties, received: now };
        let Ok(token) = session.publish(message, qos, retain) else {
            // It was never sent: what comes next is told against something else.
            let _ = self.sender.handle_refused(topic, None);
            return None;
        };
        if saying.is_marked {
            let (number, connection) = (saying.number, self.connection);
            self.marked_qos = qos;
            self.marked.insert(token, Marked { topic: topic.clone(), number, is_whole, connection });
        }
        Some(token)
    }

    /// A message is done with.
    pub fn done(&mut self, session: &mut ClientSession, now: Instant, token: u64, outcome: PublishOutcome) -> Done {
        let Some(marked) = self.marked.remove(&token) else { return Done::Over };
        if marked.connection != self.connection {
            self.stale = self.stale.saturating_sub(1);
        }
        let again = match outcome {
            PublishOutcome::Answered(reason) if !reason.is_error() => None,
            PublishOutcome::Answered(reason) => {
                let last = self.sender.handle_refused(&marked.topic, Some(marked.number));
                last.filter(|_| reason == ReasonCode::PayloadFormatInvalid && !marked.is_whole)
            }
            // It never went out; what came after it was told against it.
            PublishOutcome::Unknown
            | PublishOutcome::Dropped
            | PublishOutcome::Expired
            | PublishOutcome::TooLarge
            | PublishOutcome::Unsent => {
                let _ = self.sender.handle_refused(&marked.topic, Some(marked.number));
                None
            }
        };
        let again = again.and_then(|last| self.again(session, now, &marked.topic, last));
        again.map_or(Done::Over, Done::Again)
    }

    /// Whether a message is the server's request for a topic's whole value, which goes out then.
    pub fn is_request(&mut self, session: &mut ClientSession, now: Instant, received: &Received) -> bool {
        if *received.message.topic != *RESYNC_TOPIC {
            return false;
        }
        let topic = std::str::from_utf8(&received.message.payload).ok().and_then(|topic| Topic::new(topic).ok());
        if let Some(topic) = topic
            && let Some(last) = self.sender.handle_refused(&topic, None)
        {
            let _ = self.again(session, now, &topic, last);
        }
        true
    }

    fn again(
        &mut self,
        session: &mut ClientSession,
        now: Instant,
        topic: &Topic,
        (value, how): (Body, Manner),
    ) -> Option<u64> {
        let value = value.published()?.clone();
        self.publish(session, now, (topic, value), (how.qos, how.retain))
    }

    /// What went out, and how.
    #[must_use]
    pub const fn stats(&self) -> SenderStats {
        self.sender.stats()
    }
}
