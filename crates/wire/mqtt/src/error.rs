//! What a peer can do wrong on the wire, and the reason code that says so.

use crate::{FieldError, PacketType, ReasonCode};
use core::fmt;
use tieline_core::Truncated;

/// A rule of the standard that received bytes break. The statement is the one of MQTT 5.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Packet type 0, or AUTH in MQTT 3.1.1 (section 2.1.2).
    PacketType,
    /// Reserved bits of the fixed header are not as listed ([MQTT-2.1.3-1]).
    Flags(PacketType),
    /// A variable byte integer is longer than four bytes, or than it needs to be ([MQTT-1.5.5-1]).
    VariableByteInteger,
    /// The packet is larger than this side takes ([MQTT-3.1.2-24]); nothing of it was kept.
    TooLarge {
        /// Bytes of the whole packet.
        bytes: u32,
        /// Bytes that this side takes.
        limit: u32,
    },
    /// The packet ends before a field does.
    Truncated,
    /// Bytes follow the last field.
    Trailing,
    /// A string is not UTF-8 ([MQTT-1.5.4-1]) or holds U+0000 ([MQTT-1.5.4-2]).
    Text(FieldError),
    /// A property that the standard does not know, or not in this packet (section 2.2.2.2).
    PropertyPlace(u32),
    /// A property that may come once comes again (section 2.2.2.2).
    PropertyTwice(u8),
    /// A property's value is outside its range.
    PropertyValue(u8),
    /// Topic alias 0 ([MQTT-3.3.2-8]).
    TopicAliasZero,
    /// Packet identifier 0 ([MQTT-2.2.1-3]).
    PacketIdZero,
    /// Both QoS bits are set ([MQTT-3.3.1-4], [MQTT-3.1.2-12], [MQTT-3.8.3-5]).
    Qos,
    /// DUP is set on a QoS 0 message ([MQTT-3.3.1-2]).
    DupAtQos0,
    /// The protocol name is not `MQTT` ([MQTT-3.1.2-1]).
    ProtocolName,
    /// A protocol version other than 4 and 5 ([MQTT-3.1.2-2]).
    ProtocolVersion(u8),
    /// The reserved connect flag is set ([MQTT-3.1.2-3]).
    ConnectFlags,
    /// Will QoS or will retain without a will ([MQTT-3.1.2-11], [MQTT-3.1.2-13]).
    WillFlags,
    /// A password without a user name, in MQTT 3.1.1 ([MQTT-3.1.2-22] there).
    PasswordAlone,
    /// A topic name is empty ([MQTT-4.7.3-1]) or holds a wildcard ([MQTT-3.3.2-2]).
    TopicName,
    /// A SUBSCRIBE or UNSUBSCRIBE without a filter ([MQTT-3.8.3-2], [MQTT-3.10.3-2]), or its answer without a code.
    Empty,
    /// More filters in one packet than [`crate::FILTERS_MAX`].
    TooManyFilters,
    /// Reserved bits of the subscription options are set ([MQTT-3.8.3-5]).
    SubscriptionOptions,
    /// Retain handling 3 (section 3.8.3.1).
    RetainHandling,
    /// Reserved bits of the acknowledge flags are set ([MQTT-3.2.2-1]).
    ConnackFlags,
    /// A reason code that the standard does not know, or not in this packet.
    Reason(u8),
}

impl DecodeError {
    /// The reason code to disconnect with.
    #[must_use]
    pub const fn reason(self) -> ReasonCode {
        match self {
            Self::PacketType
            | Self::Flags(_)
            | Self::VariableByteInteger
            | Self::Truncated
            | Self::Trailing
            | Self::Text(_)
            | Self::PropertyPlace(_)
            | Self::Qos
            | Self::DupAtQos0
            | Self::ConnectFlags
            | Self::WillFlags
            | Self::PasswordAlone
            | Self::SubscriptionOptions
            | Self::ConnackFlags
            | Self::Reason(_) => ReasonCode::MalformedPacket,
            Self::PropertyTwice(_)
            | Self::PropertyValue(_)
            | Self::PacketIdZero
            | Self::Empty
            | Self::RetainHandling => ReasonCode::ProtocolError,
            Self::TooLarge { .. } => ReasonCode::PacketTooLarge,
            Self::TopicAliasZero => ReasonCode::TopicAliasInvalid,
            Self::ProtocolName | Self::ProtocolVersion(_) => ReasonCode::UnsupportedProtocolVersion,
            Self::TooManyFilters => ReasonCode::QuotaExceeded,
            Self::TopicName => ReasonCode::TopicNameInvalid,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PacketType => f.write_str("a packet type that does not exist"),
            Self::Flags(kind) => write!(f, "reserved bits of the fixed header of {kind:?} [MQTT-2.1.3-1]"),
            Self::VariableByteInteger => f.write_str("a variable byte integer is too long [MQTT-1.5.5-1]"),
            Self::TooLarge { bytes, limit } => write!(f, "a packet has {bytes} bytes, at most {limit} are taken"),
            Self::Truncated => f.write_str("a packet ends before its last field"),
            Self::Trailing => f.write_str("a packet goes on after its last field"),
            Self::Text(e) => write!(f, "{e} [MQTT-1.5.4-1] [MQTT-1.5.4-2]"),
            Self::PropertyPlace(id) => write!(f, "property 0x{id:02x} does not belong in this packet"),
            Self::PropertyTwice(id) => write!(f, "property 0x{id:02x} comes more than once"),
            Self::PropertyValue(id) => write!(f, "property 0x{id:02x} is outside its range"),
            Self::TopicAliasZero => f.write_str("topic alias 0 [MQTT-3.3.2-8]"),
            Self::PacketIdZero => f.write_str("packet identifier 0 [MQTT-2.2.1-3]"),
            Self::Qos => f.write_str("QoS 3 [MQTT-3.3.1-4]"),
            Self::DupAtQos0 => f.write_str("DUP on a QoS 0 message [MQTT-3.3.1-2]"),
            Self::ProtocolName => f.write_str("the protocol name is not MQTT [MQTT-3.1.2-1]"),
            Self::ProtocolVersion(v) => write!(f, "protocol version {v}, expected 4 or 5 [MQTT-3.1.2-2]"),
            Self::ConnectFlags => f.write_str("the reserved connect flag is set [MQTT-3.1.2-3]"),
            Self::WillFlags => f.write_str("will QoS or will retain without a will [MQTT-3.1.2-11]"),
            Self::PasswordAlone => f.write_str("a password without a user name [MQTT-3.1.2-22]"),
            Self::TopicName => f.write_str("a topic name is empty or holds a wildcard [MQTT-3.3.2-2]"),
            Self::Empty => f.write_str("no topic filter [MQTT-3.8.3-2]"),
            Self::TooManyFilters => write!(f, "more than {} filters in one packet", crate::FILTERS_MAX),
            Self::SubscriptionOptions => f.write_str("reserved subscription options [MQTT-3.8.3-5]"),
            Self::RetainHandling => f.write_str("retain handling 3, expected 0, 1 or 2"),
            Self::ConnackFlags => f.write_str("reserved acknowledge flags [MQTT-3.2.2-1]"),
            Self::Reason(code) => write!(f, "reason code 0x{code:02x} does not belong in this packet"),
        }
    }
}

impl core::error::Error for DecodeError {}

impl From<Truncated> for DecodeError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<FieldError> for DecodeError {
    fn from(e: FieldError) -> Self {
        Self::Text(e)
    }
}

/// A packet would have more than 268,435,455 bytes after its fixed header, the most that a length can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes after the fixed header.
    pub bytes: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a packet of {} bytes is longer than MQTT can say", self.bytes)
    }
}

impl core::error::Error for TooLong {}
