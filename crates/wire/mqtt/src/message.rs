//! A message on its way through the server, from any publisher to any subscriber.

use crate::packet::PublishView;
use crate::{Guarantee, Properties, Property, Publish, Qos, ReasonCode, SubscriptionId, Version};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;
use tieline_core::{Instant, Topic};

/// A message with its topic's full name.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Where it was published.
    pub topic: Topic,
    /// What the application says.
    pub payload: Bytes,
    /// Content type, response topic, correlation data, user properties, payload format, and the expiry in seconds
    /// counted from `received`. Empty for 3.1.1.
    pub properties: Properties,
    /// When it arrived here.
    pub received: Instant,
}

impl Message {
    /// A message without properties.
    #[must_use]
    pub fn new(topic: Topic, payload: impl Into<Bytes>, received: Instant) -> Self {
        Self { topic, payload: payload.into(), properties: Properties::default(), received }
    }

    /// Whether its expiry has passed ([MQTT-3.3.2-5]).
    #[must_use]
    pub fn is_expired(&self, now: Instant) -> bool {
        self.properties_at(now).is_none()
    }

    /// The properties with the expiry that is left ([MQTT-3.3.2-6]); none when it has passed.
    fn properties_at(&self, now: Instant) -> Option<Properties> {
        if self.properties.is_empty() {
            return Some(Properties::default());
        }
        let Some(expiry_s) = self.properties.message_expiry_s() else { return Some(self.properties.clone()) };
        let waited_s = now.since(self.received).as_secs();
        let left_s =
            u64::from(expiry_s).checked_sub(waited_s).and_then(|s| u32::try_from(s).ok()).filter(|&s| s > 0)?;
        if left_s == expiry_s {
            return Some(self.properties.clone());
        }
        Some(self.properties.with_standard(|property| match property {
            Property::MessageExpiry(_) => Some(Property::MessageExpiry(left_s)),
            other => Some(other),
        }))
    }
}

/// The one frame of a QoS 0 message that every session of a version can share: no packet identifier, no
/// subscription identifier, no alias. None when the message has expired or is longer than MQTT can say.
#[must_use]
pub fn encode_publish(version: Version, message: &Message, retain: bool, now: Instant) -> Option<Bytes> {
    let mut out = Vec::new();
    append_publish(version, message, retain, now, &mut out).then(|| out.into())
}

/// Appends the same frame; false where there is none.
#[must_use]
pub fn append_publish(version: Version, message: &Message, retain: bool, now: Instant, out: &mut Vec<u8>) -> bool {
    emit_message(version, message, Guarantee::AtMostOnce, retain, &[], None, now, u32::MAX, out) == Emitted::Whole
}

/// A QoS 0 message of one session's own.
#[derive(Clone, Copy, Debug)]
pub struct Aside<'a> {
    /// What.
    pub message: &'a Message,
    /// Whether it is a retained message.
    pub retain: bool,
    /// The subscriptions that it matches; 5.0 only.
    pub subscription_ids: &'a [SubscriptionId],
    /// The topic's alias, and whether the client knows it already; 5.0 only.
    pub alias: Option<(NonZeroU16, bool)>,
}

impl Aside<'_> {
    /// Appends the packet; false where it has expired or is longer than `bytes_max`.
    pub(crate) fn emit(&self, version: Version, now: Instant, bytes_max: u32, out: &mut Vec<u8>) -> bool {
        let Some(properties) = self.message.properties_at(now) else { return false };
        let topic = if self.alias.is_some_and(|(_, known)| known) { "" } else { self.message.topic.as_str() };
        let alias = self.alias.map(|(alias, _)| alias);
        let (retain, subscription_ids) = (self.retain, self.subscription_ids);
        let (guarantee, payload) = (Guarantee::AtMostOnce, self.message.payload.as_ref());
        let view = PublishView { guarantee, retain, topic, properties: &properties, alias, subscription_ids, payload };
        u32::try_from(view.bytes(version)).is_ok_and(|bytes| bytes <= bytes_max) && view.emit(version, out).is_ok()
    }
}

/// A QoS 0 message that names its topic by an alias alone, so that the frames of several 5.0 sessions differ in that only.
#[derive(Debug)]
pub struct AliasFrame {
    bytes: Vec<u8>,
    alias_at: usize,
}

impl AliasFrame {
    /// None when the message has expired or is longer than MQTT can say.
    #[must_use]
    pub fn new(message: &Message, now: Instant) -> Option<Self> {
        let aside = Aside { message, retain: false, subscription_ids: &[], alias: Some((NonZeroU16::MIN, true)) };
        let mut bytes = Vec::new();
        aside.emit(Version::V5, now, u32::MAX, &mut bytes).then_some(())?;
        // The alias comes first of the properties (`PublishView::write_properties`).
        let behind = message.properties_at(now)?.block().len() + message.payload.len();
        let alias_at = bytes.len().checked_sub(behind + 2)?;
        Some(Self { bytes, alias_at })
    }

    /// The frame of a session that knows the topic by `alias`.
    #[must_use]
    pub fn with(&self, alias: NonZeroU16, retain: bool) -> Bytes {
        let mut bytes = Vec::with_capacity(self.len());
        self.append(alias, retain, &mut bytes);
        bytes.into()
    }

    /// Appends it.
    pub fn append(&self, alias: NonZeroU16, retain: bool, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        let Some(frame) = out.get_mut(begin..) else { return };
        for (byte, part) in frame.iter_mut().skip(self.alias_at).zip(alias.get().to_be_bytes()) {
            *byte = part;
        }
        // RETAIN is the lowest bit of a PUBLISH.
        frame.iter_mut().take(1).for_each(|first| *first |= u8::from(retain));
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "no frame is empty")]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// What became of a message that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emitted {
    Whole,
    Expired,
    TooLarge,
}

#[expect(clippy::too_many_arguments, reason = "the fields of one packet, written without building it")]
pub(crate) fn emit_message(
    version: Version,
    message: &Message,
    guarantee: Guarantee,
    retain: bool,
    subscription_ids: &[SubscriptionId],
    aliases: Option<&mut Numbered>,
    now: Instant,
    bytes_max: u32,
    out: &mut Vec<u8>,
) -> Emitted {
    let Some(properties) = message.properties_at(now) else { return Emitted::Expired };
    let (named, number) = aliases.as_ref().map_or(AliasUse::None, |aliases| aliases.of(&message.topic)).parts();
    let topic = if named { message.topic.as_str() } else { "" };
    let (alias, payload) = (number, message.payload.as_ref());
    let view = PublishView { guarantee, retain, topic, properties: &properties, alias, subscription_ids, payload };
    // A packet within u32 is still to be within what a length can say, which `emit` checks.
    let fits = u32::try_from(view.bytes(version)).is_ok_and(|bytes| bytes <= bytes_max);
    if !fits || view.emit(version, out).is_err() {
        return Emitted::TooLarge;
    }
    if let (Some(aliases), Some(number), true) = (aliases, number, named) {
        aliases.topics.insert(message.topic.clone(), number);
    }
    Emitted::Whole
}

/// A message for one session.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What: shared by all who get it.
    pub message: Arc<Message>,
    /// How surely: the lower of how it was published and how it was subscribed.
    pub qos: Qos,
    /// Whether it is a retained message (or was published as one, for who asked to see that).
    pub retain: bool,
    /// The subscriptions that it matches, where they have identifiers; 5.0 only.
    pub subscription_ids: Vec<SubscriptionId>,
}

/// Topics that this side has numbered for a peer: the first ones, as many as the peer takes ([MQTT-3.3.2-11]).
#[derive(Debug)]
pub(crate) struct Numbered {
    max: u16,
    topics: BTreeMap<Topic, NonZeroU16>,
}

/// How a topic goes out.
#[derive(Clone, Copy, Debug)]
enum AliasUse {
    /// By its name alone.
    None,
    /// By its name, which the number stands for from then on.
    Set(NonZeroU16),
    /// By its number alone.
    Known(NonZeroU16),
}

impl AliasUse {
    /// Whether the name goes out, and the number that does.
    const fn parts(self) -> (bool, Option<NonZeroU16>) {
        match self {
            Self::None => (true, None),
            Self::Set(number) => (true, Some(number)),
            Self::Known(number) => (false, Some(number)),
        }
    }
}

impl Numbered {
    pub(crate) const fn new(max: u16) -> Self {
        Self { max, topics: BTreeMap::new() }
    }

    fn of(&self, topic: &Topic) -> AliasUse {
        if let Some(number) = self.topics.get(topic) {
            return AliasUse::Known(*number);
        }
        let next = u16::try_from(self.topics.len() + 1).ok().filter(|next| *next <= self.max);
        next.and_then(NonZeroU16::new).map_or(AliasUse::None, AliasUse::Set)
    }
}

/// A rule that a peer broke: what it is told.
pub(crate) type Broken = (ReasonCode, String);

pub(crate) fn wrong(words: &str) -> Broken {
    (ReasonCode::ProtocolError, words.to_owned())
}

/// Topics that a peer has numbered (section 3.3.2.3.4).
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    topics: Vec<Option<Topic>>,
}

impl Aliases {
    /// The full name of a message's topic, by the alias where there is one; remembers an alias up to `max`.
    pub(crate) fn resolve(&mut self, publish: &Publish, max: u16) -> Result<Topic, Broken> {
        let alias = publish.properties.topic_alias().map(|alias| usize::from(alias.get() - 1));
        if alias.is_some_and(|at| at >= usize::from(max)) {
            let words = "a topic alias above the topic alias maximum [MQTT-3.3.2-9] [MQTT-3.3.2-10]".to_owned();
            return Err((ReasonCode::TopicAliasInvalid, words));
        }
        if publish.topic.is_empty() {
            let known = alias.and_then(|at| self.topics.get(at).cloned().flatten());
            return known.ok_or_else(|| wrong("a topic alias that was not set"));
        }
        let topic = Topic::new(&publish.topic).map_err(|e| (ReasonCode::TopicNameInvalid, e.to_string()))?;
        if let Some(at) = alias {
            if self.topics.len() <= at {
                self.topics.resize(at + 1, None);
            }
            if let Some(slot) = self.topics.get_mut(at) {
                *slot = Some(topic.clone());
            }
        }
        Ok(topic)
    }
}
