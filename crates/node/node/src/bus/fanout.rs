//! One update to all who want it: encoded once for each form that is asked for.

use super::wire::Wire;
use bytes::Bytes;
use std::sync::Arc;
use tieline_core::{Body, Instant, Topic};
use tieline_mqtt::{DeliverError, Delivery, Message, Properties, Qos, SubscriptionId, Version, encode_publish};
use tieline_net::Session;
use tieline_topics::Match;

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

    /// Queues the update for a session. True when a shared frame was queued and the session is to be flushed.
    ///
    /// # Errors
    /// The session's queue is full of messages that may not be dropped.
    pub fn queue(&mut self, session: &Session<Wire>, to: &Match<'_>) -> Result<bool, DeliverError> {
        let qos = lower(self.qos, to.qos);
        // [MQTT-3.3.1-12]: RETAIN is 0 in a delivery to a subscription that exists, unless it asked for it as published.
        let retain = self.retained && to.retain_as_published;
        if qos == Qos::AtMostOnce && to.ids.is_empty() && !retain {
            let version = session.look(|wire| wire.mqtt.version());
            if let Some(frame) = self.shared(version)
                && session.look(|wire| wire.mqtt.can_take_shared_frame(frame.len()))
            {
                session.look(|wire| wire.push_shared(frame));
                return Ok(true);
            }
        }
        let delivery = self.delivery(to);
        session.send(|wire, _| wire.mqtt.deliver(delivery)).map(|()| false)
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
