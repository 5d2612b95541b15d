//! PUBLISH (MQTT 5.0 section 3.3).

use super::connect::read_properties;
use super::{PacketId, Properties, Property, Qos, SubscriptionId, Version, emit_frame, place};
use crate::cursor::{Reader, Sink, VARIABLE_MAX, is_topic_name, variable_len};
use crate::{DecodeError, Text, TooLong};
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;

/// How surely a message arrives, with what that takes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// QoS 0.
    #[default]
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce {
        /// What PUBACK names.
        packet_id: PacketId,
        /// Whether it may have been sent before.
        dup: bool,
    },
    /// QoS 2.
    ExactlyOnce {
        /// What PUBREC, PUBREL and PUBCOMP name.
        packet_id: PacketId,
        /// Whether it may have been sent before.
        dup: bool,
    },
}

impl Guarantee {
    /// The level alone.
    #[must_use]
    pub const fn qos(self) -> Qos {
        match self {
            Self::AtMostOnce => Qos::AtMostOnce,
            Self::AtLeastOnce { .. } => Qos::AtLeastOnce,
            Self::ExactlyOnce { .. } => Qos::ExactlyOnce,
        }
    }

    /// The packet identifier, which QoS 0 does not have.
    #[must_use]
    pub const fn packet_id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce { packet_id, .. } | Self::ExactlyOnce { packet_id, .. } => Some(packet_id),
        }
    }

    /// Whether the message may have been sent before.
    #[must_use]
    pub const fn dup(self) -> bool {
        match self {
            Self::AtMostOnce => false,
            Self::AtLeastOnce { dup, .. } | Self::ExactlyOnce { dup, .. } => dup,
        }
    }

    const fn flags(self, retain: bool) -> u8 {
        (if self.dup() { 8 } else { 0 }) | self.qos().bits() << 1 | (if retain { 1 } else { 0 })
    }
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// How surely it arrives.
    pub guarantee: Guarantee,
    /// To a server: keep it as the topic's last message. From a server: it was kept.
    pub retain: bool,
    /// The topic's name; empty where a topic alias stands for it.
    pub topic: Text,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
    /// What the application says.
    pub payload: Bytes,
}

impl Publish {
    pub(super) fn read(version: Version, flags: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let qos = Qos::from_bits(flags >> 1 & 3).ok_or(DecodeError::Qos)?;
        let dup = flags & 8 != 0;
        let topic = reader.text()?;
        if !topic.is_empty() && !is_topic_name(topic.bytes()) {
            return Err(DecodeError::TopicName);
        }
        let guarantee = match qos {
            Qos::AtMostOnce if dup => return Err(DecodeError::DupAtQos0),
            Qos::AtMostOnce => Guarantee::AtMostOnce,
            Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id: reader.packet_id()?, dup },
            Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id: reader.packet_id()?, dup },
        };
        let properties = read_properties(version, place::PUBLISH, reader)?;
        if topic.is_empty() && properties.topic_alias().is_none() {
            return Err(DecodeError::TopicName);
        }
        Ok(Self { guarantee, retain: flags & 1 != 0, topic, properties, payload: reader.rest()? })
    }

    pub(super) const fn flags(&self) -> u8 {
        self.guarantee.flags(self.retain)
    }

    pub(super) fn view(&self) -> PublishView<'_> {
        PublishView {
            guarantee: self.guarantee,
            retain: self.retain,
            topic: &self.topic,
            properties: &self.properties,
            alias: None,
            subscription_ids: &[],
            payload: &self.payload,
        }
    }
}

/// A PUBLISH to be written, borrowed from wherever its parts live.
#[derive(Clone, Copy)]
pub(crate) struct PublishView<'a> {
    pub(crate) guarantee: Guarantee,
    pub(crate) retain: bool,
    pub(crate) topic: &'a str,
    pub(crate) properties: &'a Properties,
    /// Written before `properties`, where there is one.
    pub(crate) alias: Option<NonZeroU16>,
    /// Written before `properties`.
    pub(crate) subscription_ids: &'a [SubscriptionId],
    pub(crate) payload: &'a [u8],
}

impl PublishView<'_> {
    pub(crate) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let first = 0x30 | self.guarantee.flags(self.retain);
        emit_frame(out, first, |out| self.write(version, out), |count| self.write(version, count))
    }

    /// Bytes of the whole packet.
    pub(crate) fn bytes(&self, version: Version) -> usize {
        let mut count = crate::cursor::Count::default();
        self.write(version, &mut count);
        1 + variable_len(count.0) + count.0
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.field(self.topic.as_bytes());
        if let Some(packet_id) = self.guarantee.packet_id() {
            out.u16(packet_id.get());
        }
        if version == Version::V5 {
            self.write_properties(out);
        }
        out.put(self.payload);
    }

    fn write_properties(&self, out: &mut impl Sink) {
        if self.subscription_ids.is_empty() && self.alias.is_none() {
            return self.properties.write(out);
        }
        let each = self.subscription_ids.iter().copied().map(Property::SubscriptionIdentifier);
        let alias = self.alias.map(Property::TopicAlias);
        let bytes = each.chain(alias.clone()).map(|p| p.bytes()).sum::<usize>() + self.properties.block().len();
        out.variable(u32::try_from(bytes).unwrap_or(VARIABLE_MAX));
        if let Some(alias) = alias {
            alias.write(out);
        }
        for id in self.subscription_ids {
            out.u8(0x0B);
            out.variable(id.number());
        }
        out.put(self.properties.block());
    }
}
