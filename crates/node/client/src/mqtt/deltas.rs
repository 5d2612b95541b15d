//! What a subscription with deltas says and hears (docs/delta.md).

use core::num::NonZeroU16;
use tieline_core::{Now, Topic};
use tieline_delta::{Codecs, Event, PROPERTY, Publish, RESYNC_TOPIC, Receiver, ReceiverLimits, is_mark};
use tieline_mqtt::{Message, Properties, Property, Received, Text};

pub(super) fn receiver() -> Receiver {
    Receiver::new(Codecs::built_in(), ReceiverLimits::default())
}

/// The properties of SUBSCRIBE.
pub(super) fn offer() -> Properties {
    let codecs = Codecs::built_in();
    let offer = codecs.offer(codecs.set()).unwrap_or_default();
    [Property::UserProperty((Text::truncated(PROPERTY), Text::truncated(&offer)))].into_iter().collect()
}

/// The server's answer in the properties of SUBACK.
pub(super) fn answer(properties: &Properties) -> Option<String> {
    properties.own_property(PROPERTY).map(str::to_owned)
}

/// A message as the receiver takes it.
pub(super) fn publish(received: &Received) -> Publish<'_> {
    let Message { topic, payload, properties, .. } = &received.message;
    let is_marked = properties.own_properties().any(|own| own.is(PROPERTY) && is_mark(PROPERTY, own.value()));
    Publish { topic, alias: received.alias.map(NonZeroU16::get), is_marked, payload, version: None }
}

/// The request for a topic's whole value.
pub(super) fn resync(topic: &Topic, now: Now) -> Option<Message> {
    let to = Topic::new(RESYNC_TOPIC).ok()?;
    Some(Message::new(to, topic.as_str().as_bytes().to_vec(), now.mono))
}

/// A message as it would have come plain.
pub(super) fn rebuilt(received: &Received, event: &Event) -> Received {
    let mut plain = received.clone();
    if let Event::Value { topic, body } = event {
        plain.message.topic = topic.clone();
        if publish(received).is_marked {
            let is_other = |property: &Property| !matches!(property, Property::UserProperty((name, value)) if is_mark(name, value));
            plain.message.properties = received.message.properties.iter().filter(is_other).collect();
        }
        plain.message.payload = body.to_payload();
    }
    plain
}
