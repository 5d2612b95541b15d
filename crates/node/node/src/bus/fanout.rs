//! One update to all who want it: encoded once for each form that is asked for.

use super::client::Client;
use super::flow::Owed;
use super::wire::Wire;
use bytes::Bytes;
use std::sync::Arc;
use tieline_core::{Body, Instant, Now, Topic};
use tieline_mqtt::{DeliverError, Delivery, Message, Properties, Qos, SubscriptionId, Version, encode_publish};
use tieline_net::Session;
use tieline_topics::{Applied, Change, Match};

/// More than this is not queued in a turn while the socket takes it.
const FLUSH_OCTETS: usize = 64 * 1024;
/// The most that any update goes out with, and what the node's own updates go out with.
const NODE_QOS: Qos = Qos::AtLeastOnce;

/// One update being sent.
#[derive(Debug)]
pub struct Outgoing {
    message: Arc<Message>,
    qos: Qos,
    retained: bool,
    frames: [Option<Bytes>; 2],
}

/// The payload of a body as MQTT carries it.
#[must_use]
pub fn payload_of(body: &Body) -> Bytes {
    match body {
        Body::Point(point) => Bytes::from(point.to_json()),
        Body::Opaque(octets) => octets.clone(),
    }
}

impl Outgoing {
    /// A client's message.
    #[must_use]
    pub fn published(message: Message, qos: Qos, retained: bool) -> Self {
        Self { message: Arc::new(message), qos, retained, frames: [None, None] }
    }

    /// An update of the node's own.
    #[must_use]
    pub fn of_node(topic: Topic, body: &Body, now: Instant, retained: bool) -> Self {
        let message = Message { topic, payload: payload_of(body), properties: Properties::default(), received: now };
        Self::published(message, NODE_QOS, retained)
    }

    /// Where it goes.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.message.topic
    }

    fn shared(&mut self, version: Version) -> Option<Bytes> {
        let at = usize::from(version == Version::V5);
        let slot = self.frames.get_mut(at)?;
        if slot.is_none() {
            *slot = encode_publish(version, &self.message, false, self.message.received);
        }
        slot.clone()
    }

    /// Gives a client the update. True when it has something that is to be sent at the end of the turn.
    ///
    /// # Errors
    /// The client's queue is full of messages that may not be dropped.
    pub fn offer(
        &mut self,
        now: Now,
        client: &mut Client,
        applied: Applied,
        to: &Match<'_>,
    ) -> Result<bool, DeliverError> {
        let qos = lower(self.qos, to.qos);
        // [MQTT-3.3.1-12]: RETAIN is 0 in a delivery to a subscription that exists, unless it asked for it as published.
        let retain = self.retained && to.retain_as_published;
        if qos != Qos::AtMostOnce {
            let delivery = self.delivery(to);
            return client.session.send(|wire, _| wire.mqtt.deliver(delivery)).map(|()| false);
        }
        let session = &client.session;
        let owes = client.flow.as_ref().is_some_and(|flow| !flow.is_empty());
        let is_plain = to.wish.is_default() && to.ids.is_empty() && !retain && !owes;
        // A value that cannot go at once is read again when it can; a message that is none has to wait as it is.
        if is_plain && (applied.change != Change::Stored || session.is_clear()) && self.share(session) {
            return Ok(true);
        }
        let octets_max = session.look(|wire| wire.octets_max());
        match client.flow.get_or_insert_default().owe(now, applied, to, || self.delivery(to), octets_max) {
            Owed::Yes => Ok(true),
            Owed::End => Err(DeliverError::Full),
        }
    }

    /// Queues the frame that all sessions share; false where this one cannot have it.
    fn share(&mut self, session: &Session<Wire>) -> bool {
        let queued = session.look(|wire| {
            let frame = self.shared(wire.mqtt.version())?;
            wire.mqtt.can_take_shared_frame(frame.len()).then(|| wire.push_shared(frame))?;
            Some(wire.waiting_octets())
        });
        if queued.is_some_and(|octets| octets > FLUSH_OCTETS) && session.is_clear() {
            session.send(|_, _| ());
        }
        queued.is_some()
    }

    /// The update as a message of the session's own.
    #[must_use]
    pub fn delivery(&self, to: &Match<'_>) -> Delivery {
        let qos = lower(self.qos, to.qos);
        let retain = self.retained && to.retain_as_published;
        let subscription_ids = to.ids.iter().filter_map(|id| SubscriptionId::new(*id)).collect();
        Delivery { message: Arc::clone(&self.message), qos, retain, subscription_ids }
    }
}

/// The lower of how a message was published and how it was subscribed.
#[must_use]
pub fn lower(published: Qos, subscribed: u8) -> Qos {
    let most = Qos::from_bits(subscribed).unwrap_or(Qos::AtMostOnce);
    if most.bits() < published.bits() { most } else { published }
}
