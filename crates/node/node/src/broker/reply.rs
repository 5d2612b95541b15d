//! Answers to requests over MQTT: the topic that each goes to, and what it carries.

use super::ConnectedClient;
use crate::bus::wanted::Wanted;
use crate::bus::{Asked, Bus, Callback, SharedBus};
use crate::control::command::{CommandRequest, CommandResult};
use crate::edge::ANSWER_TOPIC;
use bytes::Bytes;
use tieline_core::{Body, Now, Topic};
use tieline_mqtt::{Message, Properties, Property, Qos};
use tieline_topics::TreeError;

/// Takes a command request, for a point of this node or of a site; the answer goes to its response topic, if it has one.
pub fn command(bus: &SharedBus, now: Now, client: &ConnectedClient, (topic, message): (&str, &Message), asked: &Asked) {
    let reply = Reply::of(message, client, |topic| bus.borrow().is_reserved(topic) || bus.borrow().derives(topic));
    let parsed = Topic::new(topic).map_err(|e| e.to_string());
    let parsed = parsed.and_then(|topic| CommandRequest::from_payload(&message.payload, topic));
    let bus = &mut *bus.borrow_mut();
    match parsed {
        Ok(request) => match bus.site_command(&request) {
            Some(of_site) => bus.call_site(now, of_site, &asked.by, reply.awaited()),
            None => Wanted::Command(request).carry_out(bus, now, asked, |_, _| true, reply.awaited()),
        },
        Err(detail) => {
            tracing::debug!(who = &*asked.by.who, detail, "malformed command");
            reply.send(bus, now, CommandResult::malformed(detail).to_string());
        }
    }
}

/// Where an answer goes: the response topic, with the correlation data of the request (MQTT 5.0 section 4.10).
#[derive(Clone, Debug)]
pub struct Reply {
    topic: Option<Topic>,
    /// The session that asked, where the answer is for it alone.
    alone: Option<(usize, u64)>,
    properties: Properties,
}

/// Whether a response topic is one that the client may name: nobody but it gets what goes there.
pub fn is_private(response_topic: &str) -> bool {
    response_topic == ANSWER_TOPIC
}

impl Reply {
    /// Where the answer to a message goes; nowhere where only the node publishes.
    pub fn of(message: &Message, client: &ConnectedClient, is_reserved: impl Fn(&str) -> bool) -> Self {
        let topic = message.properties.response_topic().and_then(|text| Topic::new(&text).ok());
        let alone = topic.as_deref().is_some_and(is_private).then_some((client.key, client.number));
        let topic = topic.filter(|topic| alone.is_some() || !is_reserved(topic));
        let correlation = message.properties.correlation_data().map(|data| Property::CorrelationData(data.clone()));
        Self { topic, alone, properties: correlation.into_iter().collect() }
    }

    /// Publishes the answer once it is there.
    pub fn awaited(self) -> Callback<String> {
        Box::new(move |bus, text| {
            let now = bus.now();
            self.send(bus, now, text);
        })
    }

    /// Publishes the answer.
    pub fn send(self, bus: &mut Bus, now: Now, text: String) {
        let Some(topic) = self.topic else { return };
        let message = Message { topic, payload: Bytes::from(text), properties: self.properties, received: now.mono };
        if let Some(client) = self.alone {
            return bus.tell_alone(client, message);
        }
        // What the node answers is no measurement.
        let body = Body::Opaque(message.payload.clone());
        let sent: Result<(), TreeError> = bus.apply_message(now, message, &body, Qos::AtLeastOnce, false, None);
        if let Err(error) = sent {
            tracing::warn!(%error, "the answer to a request could not be published");
        }
    }
}
