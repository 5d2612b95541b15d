//! Control packets: what each says, and how it is read and written in both versions.
//!
//! ```text
//!  byte 1        bytes 2..5                 rest
//! +------+-------+---------------------------+-----------------------------------------------+
//! | type | flags | remaining length (varint) | variable header (with properties in 5.0), payload |
//! +------+-------+---------------------------+-----------------------------------------------+
//! ```

mod ack;
mod connack;
mod connect;
mod disconnect;
mod properties;
mod property;
mod publish;
mod subscribe;

pub use ack::Ack;
pub use connack::Connack;
pub use connect::{Connect, Will};
pub use disconnect::{Auth, Disconnect};
pub use properties::{OwnProperty, PROPERTIES_MAX, Properties};
pub use property::{Property, SubscriptionId, UserProperty};
pub(crate) use publish::PublishView;
pub use publish::{Guarantee, Publish};
pub use subscribe::{
    FILTERS_MAX, RetainHandling, Suback, Subscribe, SubscriptionFilter, SubscriptionOptions, Unsuback, Unsubscribe,
};

use crate::cursor::{Count, Reader, Sink, VARIABLE_MAX, variable_len};
use crate::{DecodeError, ReasonCode, TooLong};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::NonZeroU16;

/// Where a property or a reason code may stand: one bit a packet type, and one for the will.
pub(crate) mod place {
    pub(crate) const WILL: u16 = 1;
    pub(crate) const CONNECT: u16 = 1 << 1;
    pub(crate) const CONNACK: u16 = 1 << 2;
    pub(crate) const PUBLISH: u16 = 1 << 3;
    pub(crate) const PUBACK: u16 = 1 << 4;
    pub(crate) const PUBREC: u16 = 1 << 5;
    pub(crate) const PUBREL: u16 = 1 << 6;
    pub(crate) const PUBCOMP: u16 = 1 << 7;
    pub(crate) const SUBSCRIBE: u16 = 1 << 8;
    pub(crate) const SUBACK: u16 = 1 << 9;
    pub(crate) const UNSUBSCRIBE: u16 = 1 << 10;
    pub(crate) const UNSUBACK: u16 = 1 << 11;
    pub(crate) const DISCONNECT: u16 = 1 << 14;
    pub(crate) const AUTH: u16 = 1 << 15;
}

/// What tells apart the exchanges under way: 1 to 65,535 (section 2.2.1).
pub type PacketId = NonZeroU16;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// MQTT 3.1.1, level 4.
    V311,
    /// MQTT 5.0, level 5.
    #[default]
    V5,
}

/// How surely a message arrives (section 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Qos {
    /// At most once.
    #[default]
    AtMostOnce,
    /// At least once.
    AtLeastOnce,
    /// Exactly once.
    ExactlyOnce,
}

impl Qos {
    /// The two bits on the wire: 0 to 2.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::AtMostOnce => 0,
            Self::AtLeastOnce => 1,
            Self::ExactlyOnce => 2,
        }
    }

    /// The level with these bits; none for 3 and above.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The reason code that grants this level to a subscription.
    #[must_use]
    pub const fn granted(self) -> ReasonCode {
        match self {
            Self::AtMostOnce => ReasonCode::Success,
            Self::AtLeastOnce => ReasonCode::GrantedQos1,
            Self::ExactlyOnce => ReasonCode::GrantedQos2,
        }
    }
}

macro_rules! packet_types {
    ($($number:literal $name:ident $flags:pat, $words:literal;)*) => {
        /// The type of a control packet (table 2-1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PacketType {
            $(#[doc = $words] $name,)*
        }

        impl PacketType {
            /// The type and flags of a packet's first byte.
            ///
            /// # Errors
            /// The type does not exist, or reserved flags are wrong (table 2-2).
            pub const fn parse(first: u8) -> Result<(Self, u8), DecodeError> {
                let flags = first & 0x0F;
                match (first >> 4, flags) {
                    $(
                        ($number, $flags) => Ok((Self::$name, flags)),
                        ($number, _) => Err(DecodeError::Flags(Self::$name)),
                    )*
                    _ => Err(DecodeError::PacketType),
                }
            }

            /// The number on the wire: 1 to 15.
            #[must_use]
            pub const fn number(self) -> u8 {
                match self {
                    $(Self::$name => $number,)*
                }
            }
        }
    };
}

#[allow(unreachable_patterns, reason = "PUBLISH has no reserved flags")]
mod types {
    use super::DecodeError;
    packet_types! {
        1 Connect 0, "A client asks for a connection.";
        2 Connack 0, "The server answers it.";
        3 Publish _, "A message.";
        4 Puback 0, "Answers a QoS 1 message.";
        5 Pubrec 0, "Answers a QoS 2 message: received.";
        6 Pubrel 2, "Answers PUBREC: release.";
        7 Pubcomp 0, "Answers PUBREL: complete.";
        8 Subscribe 2, "A client asks for messages.";
        9 Suback 0, "The server answers it.";
        10 Unsubscribe 2, "A client asks for no more of them.";
        11 Unsuback 0, "The server answers it.";
        12 Pingreq 0, "A client shows that it lives.";
        13 Pingresp 0, "The server answers it.";
        14 Disconnect 0, "The connection ends.";
        15 Auth 0, "A step of extended authentication.";
    }
}
pub use types::PacketType;

/// A whole packet in bytes: its first byte taken apart, and what follows the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The type.
    pub packet_type: PacketType,
    /// The low four bits of the first byte.
    pub flags: u8,
    /// Variable header and payload.
    pub body: Bytes,
}

/// A control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A client asks for a connection.
    Connect(Box<Connect>),
    /// The server answers it.
    Connack(Connack),
    /// A message.
    Publish(Publish),
    /// Answers a QoS 1 message.
    Puback(Ack),
    /// Answers a QoS 2 message: received.
    Pubrec(Ack),
    /// Answers PUBREC: release.
    Pubrel(Ack),
    /// Answers PUBREL: complete.
    Pubcomp(Ack),
    /// A client asks for messages.
    Subscribe(Subscribe),
    /// The server answers it.
    Suback(Suback),
    /// A client asks for no more of them.
    Unsubscribe(Unsubscribe),
    /// The server answers it.
    Unsuback(Unsuback),
    /// A client shows that it lives.
    Pingreq,
    /// The server answers it.
    Pingresp,
    /// The connection ends.
    Disconnect(Disconnect),
    /// A step of extended authentication (5.0 only).
    Auth(Auth),
}

impl Packet {
    /// Reads a packet. CONNECT says its own version; `version` is ignored for it.
    ///
    /// # Errors
    /// The bytes break a rule of the standard.
    pub fn parse(version: Version, frame: &Frame) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(&frame.body);
        let r = &mut reader;
        let packet = match frame.packet_type {
            PacketType::Connect => Self::Connect(Box::new(Connect::read(r)?)),
            PacketType::Connack => Self::Connack(Connack::read(version, r)?),
            PacketType::Publish => Self::Publish(Publish::read(version, frame.flags, r)?),
            PacketType::Puback => Self::Puback(Ack::read(version, place::PUBACK, r)?),
            PacketType::Pubrec => Self::Pubrec(Ack::read(version, place::PUBREC, r)?),
            PacketType::Pubrel => Self::Pubrel(Ack::read(version, place::PUBREL, r)?),
            PacketType::Pubcomp => Self::Pubcomp(Ack::read(version, place::PUBCOMP, r)?),
            PacketType::Subscribe => Self::Subscribe(Subscribe::read(version, r)?),
            PacketType::Suback => Self::Suback(Suback::read(version, r)?),
            PacketType::Unsubscribe => Self::Unsubscribe(Unsubscribe::read(version, r)?),
            PacketType::Unsuback => Self::Unsuback(Unsuback::read(version, r)?),
            PacketType::Pingreq => Self::Pingreq,
            PacketType::Pingresp => Self::Pingresp,
            PacketType::Disconnect => Self::Disconnect(Disconnect::read(version, r)?),
            PacketType::Auth => Self::Auth(Auth::read(version, r)?),
        };
        reader.finish()?;
        Ok(packet)
    }

    /// Appends the packet to `out`. What `version` cannot say (properties and reasons in 3.1.1) is left out.
    ///
    /// # Errors
    /// The packet is longer than MQTT can say; nothing is appended.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), TooLong> {
        emit_frame(out, self.first_byte(), |out| self.write_body(version, out), |count| self.write_body(version, count))
    }

    /// Bytes that [`Packet::emit`] appends.
    #[must_use]
    pub fn len(&self, version: Version) -> usize {
        let mut count = Count::default();
        self.write_body(version, &mut count);
        1 + variable_len(count.0) + count.0
    }

    /// The type.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::Connack(_) => PacketType::Connack,
            Self::Publish(_) => PacketType::Publish,
            Self::Puback(_) => PacketType::Puback,
            Self::Pubrec(_) => PacketType::Pubrec,
            Self::Pubrel(_) => PacketType::Pubrel,
            Self::Pubcomp(_) => PacketType::Pubcomp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::Suback(_) => PacketType::Suback,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::Unsuback(_) => PacketType::Unsuback,
            Self::Pingreq => PacketType::Pingreq,
            Self::Pingresp => PacketType::Pingresp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }

    /// How many properties it has; of a CONNECT with a will, the larger number of both.
    pub(crate) fn property_count(&self) -> usize {
        match self {
            Self::Connect(packet) => {
                let will = packet.will.as_ref().map_or(0, |will| will.properties.count());
                packet.properties.count().max(will)
            }
            Self::Connack(packet) => packet.properties.count(),
            Self::Publish(packet) => packet.properties.count(),
            Self::Puback(packet) | Self::Pubrec(packet) | Self::Pubrel(packet) | Self::Pubcomp(packet) => {
                packet.properties.count()
            }
            Self::Subscribe(packet) => packet.properties.count(),
            Self::Suback(packet) => packet.properties.count(),
            Self::Unsubscribe(packet) => packet.properties.count(),
            Self::Unsuback(packet) => packet.properties.count(),
            Self::Pingreq | Self::Pingresp => 0,
            Self::Disconnect(packet) => packet.properties.count(),
            Self::Auth(packet) => packet.properties.count(),
        }
    }

    const fn first_byte(&self) -> u8 {
        let flags = match self {
            Self::Publish(publish) => publish.flags(),
            Self::Pubrel(_) | Self::Subscribe(_) | Self::Unsubscribe(_) => 2,
            _ => 0,
        };
        self.packet_type().number() << 4 | flags
    }

    fn write_body(&self, version: Version, out: &mut impl Sink) {
        match self {
            Self::Connect(packet) => packet.write(out),
            Self::Connack(packet) => packet.write(version, out),
            Self::Publish(packet) => packet.view().write(version, out),
            Self::Puback(packet) | Self::Pubrec(packet) | Self::Pubrel(packet) | Self::Pubcomp(packet) => {
                packet.write(version, out);
            }
            Self::Subscribe(packet) => packet.write(version, out),
            Self::Suback(packet) => packet.write(version, out),
            Self::Unsubscribe(packet) => packet.write(version, out),
            Self::Unsuback(packet) => packet.write(version, out),
            Self::Pingreq | Self::Pingresp => {}
            Self::Disconnect(packet) => packet.write(version, out),
            Self::Auth(packet) => packet.write(version, out),
        }
    }
}

/// Appends a frame: first byte, length, body.
pub(crate) fn emit_frame(
    out: &mut Vec<u8>,
    first: u8,
    body: impl FnOnce(&mut Vec<u8>),
    count: impl FnOnce(&mut Count),
) -> Result<(), TooLong> {
    let mut counted = Count::default();
    count(&mut counted);
    let bytes = counted.0;
    let length = u32::try_from(bytes).ok().filter(|&n| n <= VARIABLE_MAX).ok_or(TooLong { bytes })?;
    out.reserve(bytes + 5);
    out.u8(first);
    out.variable(length);
    body(out);
    Ok(())
}

/// A reason code that may stand in this packet.
fn read_reason(place: u16, code: u8) -> Result<ReasonCode, DecodeError> {
    ReasonCode::from_code(code).filter(|r| r.places() & place != 0).ok_or(DecodeError::Reason(code))
}

/// The reason and the properties that end many packets of 5.0; both may be left out from the end.
fn read_reason_and_properties(
    version: Version,
    place: u16,
    reader: &mut Reader<'_>,
) -> Result<(ReasonCode, Properties), DecodeError> {
    if version == Version::V311 || reader.is_empty() {
        return Ok((ReasonCode::Success, Properties::default()));
    }
    let reason = read_reason(place, reader.u8()?)?;
    let properties = if reader.is_empty() { Properties::default() } else { Properties::read(reader, place)? };
    Ok((reason, properties))
}

fn write_reason_and_properties(version: Version, reason: ReasonCode, properties: &Properties, out: &mut impl Sink) {
    if version == Version::V311 || (reason == ReasonCode::Success && properties.is_empty()) {
        return;
    }
    out.u8(reason.code());
    if !properties.is_empty() {
        properties.write(out);
    }
}
