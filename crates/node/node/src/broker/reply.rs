//! Answers to requests over MQTT: the topic that each goes to, and what it carries.

use super::ConnectedClient;
use crate::bus::{Bus, SharedBus};
use crate::control::command::{CommandRequest, CommandResult};
use crate::control::{Call, Done};
use crate::edge::ANSWER_TOPIC;
use bytes::Bytes;
use tieline_core::{Body, Now, Topic};
use tieline_mqtt::{Message, Properties, Property, Qos};
use tieline_topics::TreeError;

/// Takes a command request; the answer goes to its response topic, if it has one.
pub fn command(bus: &SharedBus, now: Now, client: &ConnectedClient, (topic, message): (&str, &Message), by: &Call) {
    let reply = Reply::of(message, client, |topic| bus.borrow().is_reserved(topic) || bus.borrow().derives(topic));
    let parsed = Topic::new(topic).map_err(|e| e.to_string());
    let parsed = parsed.and_then(|topic| CommandRequest::from_payload(&message.payload, topic));
    match parsed {
        Ok(request) => {
            let shown = request.clone();
            let answer = move |bus: &mut Bus, done: Done| {
                let now = bus.now();
                if let Some(done) = done.into_command() {
                    reply.send(bus, now, CommandResult::of(&shown, &done).to_string());
                }
            };
            bus.borrow_mut().request(now, request, by, Box::new(answer));
        }
        Err(detail) => {
            tracing::debug!(who = &*by.who, detail, "malformed command");
            reply.send(&mut bus.borrow_mut(), now, CommandResult::malformed(detail).to_string());
        }
    }
}

/// Where an answer goes: the response topic, with the correlation data of the request (MQTT 5.0 section 4.10).
#[derive(Debug)]
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
