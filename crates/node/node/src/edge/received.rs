//! What a message of the upstream is: a value, whole or as what changed.

use bytes::Bytes;
use core::num::NonZeroU16;
use tieline_core::{Body, Now, Topic};
use tieline_delta::{PROPERTY, Publish, RESYNC_TOPIC, VERSION, is_mark};
use tieline_mqtt::{Message, Received};

/// The value of a payload. One that came plain shares the bytes of its packet, which is not kept.
pub fn read(bytes: Bytes, is_delta: bool) -> Body {
    let bytes = if is_delta { bytes } else { Bytes::copy_from_slice(&bytes) };
    Body::read(bytes)
}

/// Whether it says that it is of deltas.
pub fn is_marked(received: &Received) -> bool {
    received.message.properties.own_properties().any(|own| own.is(PROPERTY) && is_mark(PROPERTY, own.value()))
}

/// The message as deltas have it.
pub fn publish_of(received: &Received) -> Publish<'_> {
    let Message { topic, payload, .. } = &received.message;
    let is_marked = is_marked(received);
    let version = if is_marked { received.message.properties.own_property(VERSION) } else { None };
    let version = version.and_then(|version| version.parse().ok());
    Publish { topic, alias: received.alias.map(NonZeroU16::get), is_marked, payload, version }
}

/// The request for a topic's whole value.
pub fn resync(topic: &Topic, now: Now) -> Option<Message> {
    let to = Topic::new(RESYNC_TOPIC).ok()?;
    Some(Message::new(to, topic.as_str().as_bytes().to_vec(), now.mono))
}
