//! Metadata of retained messages besides the value that the tree keeps: their properties, the QoS with which they
//! were published, and when they expire (MQTT 5.0 sections 3.3.1.3 and 3.3.2.3).

use super::state::Bus;
use bytes::Bytes;
use std::collections::HashMap;
use std::time::Duration;
use tieline_core::{Body, Deadlines, Instant, Now, Topic};
use tieline_mqtt::{Message, Properties, Qos};
use tieline_topics::{TreeError, View};

/// Bytes of properties kept for all topics; a retained message beyond them is refused.
const BYTES_MAX: usize = 64 << 20;
/// What an entry costs besides its properties.
const ENTRY_BYTES: usize = 128;

/// How a retained message was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishMetadata {
    /// How surely.
    pub qos: Qos,
    /// What it said of itself.
    pub properties: Properties,
    /// When it came: its expiry counts from here.
    pub received: Instant,
}

impl PublishMetadata {
    /// Of what was published with QoS 1 and no properties, as the node does.
    #[must_use]
    pub fn plain(now: Instant) -> Self {
        Self { qos: Qos::AtLeastOnce, properties: Properties::default(), received: now }
    }

    /// How surely, as the byte that the tree keeps with a value; the node's own have 0.
    #[must_use]
    pub const fn mark(qos: Qos) -> u8 {
        qos.bits() + 1
    }

    fn expires(&self) -> Option<Instant> {
        let after_s = self.properties.message_expiry_s()?;
        Some(self.received + Duration::from_secs(after_s.into()))
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.properties.len()
    }
}

/// The manners that are not plain.
#[derive(Debug, Default)]
pub struct Retained {
    metadata: HashMap<Topic, PublishMetadata>,
    expiries: Deadlines<Topic>,
    bytes: usize,
}

impl Retained {
    /// Whether a message's properties have room.
    ///
    /// # Errors
    /// They have none.
    pub fn admit(&self, message: &Message) -> Result<(), TreeError> {
        if message.properties.is_empty() {
            return Ok(());
        }
        let needed = ENTRY_BYTES + message.properties.len();
        if self.bytes + needed <= BYTES_MAX { Ok(()) } else { Err(TreeError::BytesFull { max: BYTES_MAX }) }
    }

    /// The message is its topic's value.
    pub fn keep(&mut self, message: &Message, qos: Qos) {
        let Message { topic, properties, received, .. } = message;
        self.forget(topic);
        if properties.is_empty() {
            return;
        }
        let metadata = PublishMetadata { qos, properties: properties.clone(), received: *received };
        self.bytes += metadata.bytes();
        if let Some(at) = metadata.expires() {
            self.expiries.add(at, topic.clone());
        }
        self.metadata.insert(topic.clone(), metadata);
    }

    /// The topic's value was replaced or removed.
    pub fn forget(&mut self, topic: &Topic) {
        if self.metadata.is_empty() {
            return;
        }
        let Some(metadata) = self.metadata.remove(topic) else { return };
        self.bytes -= metadata.bytes();
        if let Some(at) = metadata.expires() {
            self.expiries.remove(at, topic.clone());
        }
    }

    /// How the topic's value was published.
    #[must_use]
    pub fn metadata(&self, view: &View<'_>, now: Instant) -> PublishMetadata {
        let qos = view.mark.checked_sub(1).and_then(Qos::from_bits);
        let known = if self.metadata.is_empty() { None } else { self.metadata.get(view.topic).cloned() };
        known.unwrap_or_else(|| PublishMetadata { qos: qos.unwrap_or(Qos::AtLeastOnce), ..PublishMetadata::plain(now) })
    }

    /// When the next value expires.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.expiries.timeout()
    }

    fn take_expired(&mut self, now: Instant) -> Option<Topic> {
        let (_, topic) = self.expiries.due(now)?;
        let topic = topic.clone();
        self.forget(&topic);
        Some(topic)
    }
}

impl Bus {
    /// Removes the values whose time has passed.
    pub(super) fn remove_expired(&mut self, now: Now) {
        while let Some(topic) = self.retained.take_expired(now.mono) {
            self.remove_value(now, &topic);
        }
    }
}

/// A copy of bytes that is kept for long: in the room of a value that is no more, where that has as much and nobody else has it.
pub(super) fn copied(bytes: &[u8], replaced: Option<Body>) -> Bytes {
    let room = match replaced {
        Some(Body::Opaque(old)) if old.len() == bytes.len() => {
            old.try_into_mut().ok().filter(|room| room.capacity() == room.len())
        }
        Some(Body::Opaque(_) | Body::Published(_) | Body::Point(_)) | None => None,
    };
    let Some(mut room) = room else { return Bytes::copy_from_slice(bytes) };
    room.copy_from_slice(bytes);
    room.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Update;
    use tieline_mqtt::Property;
    use tieline_topics::{Limits, Tree};

    fn message(topic: &Topic, expiry_s: Option<u32>, received_s: u64) -> Message {
        let properties = expiry_s.map(Property::MessageExpiry).into_iter().collect();
        let received = Instant::ZERO + Duration::from_secs(received_s);
        Message { topic: topic.clone(), payload: Bytes::from_static(b"1"), properties, received }
    }

    #[test]
    fn only_what_is_not_plain_is_kept_and_nothing_is_left_behind() {
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        let topic = |text| Topic::new(text).unwrap();
        let (a, b) = (topic("a"), topic("b"));
        let mut retained = Retained::default();
        retained.keep(&message(&a, None, 0), Qos::AtLeastOnce);
        assert_eq!((retained.metadata.len(), retained.bytes), (0, 0));
        let mut tree = Tree::new(Limits::default());
        let update = Update { topic: a.clone(), body: Body::Opaque(bytes::Bytes::from_static(b"1")) };
        let applied = tree.apply(Now::default(), update, true).unwrap();
        assert_eq!(retained.metadata(&tree.get(&a).unwrap(), at(9)).qos, Qos::AtLeastOnce);
        tree.mark(applied.topic, PublishMetadata::mark(Qos::AtMostOnce));
        assert_eq!(retained.metadata(&tree.get(&a).unwrap(), at(9)).qos, Qos::AtMostOnce);
        retained.keep(&message(&a, Some(5), 0), Qos::AtLeastOnce);
        retained.keep(&message(&a, Some(5), 2), Qos::AtLeastOnce);
        retained.keep(&message(&b, Some(4), 1), Qos::AtLeastOnce);
        assert_eq!(retained.timeout(), Some(at(5)));
        assert_eq!(retained.take_expired(at(4)), None);
        assert_eq!(retained.take_expired(at(7)), Some(b));
        assert_eq!(retained.take_expired(at(7)), Some(a.clone()));
        assert_eq!((retained.timeout(), retained.bytes), (None, 0));
    }

    #[test]
    fn a_value_is_copied_into_the_room_of_one_that_is_no_more() {
        let value = |bytes: &[u8]| Some(Body::Opaque(Bytes::copy_from_slice(bytes)));
        let place_of = |body: Option<&Body>| match body {
            Some(Body::Opaque(bytes)) => Some(bytes.as_ptr()),
            Some(Body::Published(_) | Body::Point(_)) | None => None,
        };
        let check = |replaced: Option<Body>, is_there: bool| {
            let before = place_of(replaced.as_ref());
            let copy = copied(b"new", replaced);
            assert_eq!((&copy[..], Some(copy.as_ptr()) == before), (&b"new"[..], is_there));
        };
        check(value(b"old"), true);
        check(value(&[0; 500]), false);
        check(None, false);
        let kept = value(b"old");
        check(kept.clone(), false);
        // A part of something larger would keep all of it.
        let part = Bytes::copy_from_slice(b"an old one").slice(3..6);
        check(Some(Body::Opaque(part)), false);
        assert_eq!(kept, value(b"old"));
    }
}
