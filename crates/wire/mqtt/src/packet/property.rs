//! One property (MQTT 5.0 section 2.2.2): a table of what exists, of which type, in which packets.

use super::{Properties, place};
use crate::cursor::{Count, Reader, Sink, VARIABLE_MAX};
use crate::{Binary, DecodeError, Text};
use core::num::{NonZeroU16, NonZeroU32};

/// The number by which a client knows a subscription: 1 to 268,435,455 (section 3.8.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(NonZeroU32);

impl SubscriptionId {
    /// The identifier, where the number is one.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).filter(|n| n.get() <= VARIABLE_MAX).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get()
    }
}

/// A name and a value that mean something to the application.
pub type UserProperty = (Text, Text);

/// The identifier of user properties.
pub(super) const USER_PROPERTY: u32 = 0x26;
/// That of the response topic, which is a topic name ([MQTT-3.3.2-13], [MQTT-3.3.2-14]).
pub(super) const RESPONSE_TOPIC: u32 = 0x08;

/// How a type of property is written.
trait Field: Sized {
    fn read(reader: &mut Reader<'_>, id: u8) -> Result<Self, DecodeError>;

    /// Says no where `read` would, and makes nothing.
    fn check(reader: &mut Reader<'_>, id: u8) -> Result<(), DecodeError> {
        Self::read(reader, id).map(drop)
    }

    fn write(&self, out: &mut impl Sink);
}

macro_rules! properties {
    ($($id:literal $name:ident $accessor:ident $type:ty, $words:literal, [$($place:ident)*];)*) => {
        /// One property.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Property {
            $(
                #[doc = concat!($words, " (", stringify!($id), ").")]
                $name($type),
            )*
        }

        impl Property {
            /// The identifier of table 2-4.
            #[must_use]
            pub const fn id(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $id,)*
                }
            }

            /// The packets that may carry it, as bits of [`place`].
            pub(super) const fn places(id: u32) -> u16 {
                match id {
                    $($id => 0 $(| place::$place)*,)*
                    _ => 0,
                }
            }

            pub(super) fn read(id: u32, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match id {
                    $($id => Ok(Self::$name(Field::read(reader, $id)?)),)*
                    _ => Err(DecodeError::PropertyPlace(id)),
                }
            }

            /// Reads past a value, and checks it.
            pub(super) fn check(id: u32, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
                match id {
                    $($id => <$type as Field>::check(reader, $id),)*
                    _ => Err(DecodeError::PropertyPlace(id)),
                }
            }

            pub(super) fn write(&self, out: &mut impl Sink) {
                out.u8(self.id());
                match self {
                    $(Self::$name(value) => value.write(out),)*
                }
            }
        }

        impl Properties {
            $(
                #[doc = concat!($words, " (", stringify!($id), "), the first there is.")]
                #[must_use]
                pub fn $accessor(&self) -> Option<$type> {
                    self.first($id, |p| if let Property::$name(value) = p { Some(value) } else { None })
                }
            )*
        }
    };
}

properties! {
    0x01 PayloadFormat payload_is_text bool, "Whether the payload is UTF-8 text", [PUBLISH WILL];
    0x02 MessageExpiry message_expiry_s u32, "Seconds that the message lives", [PUBLISH WILL];
    0x03 ContentType content_type Text, "What the payload is", [PUBLISH WILL];
    0x08 ResponseTopic response_topic Text, "Where an answer is to be published", [PUBLISH WILL];
    0x09 CorrelationData correlation_data Binary, "What tells which request an answer belongs to", [PUBLISH WILL];
    0x0B SubscriptionIdentifier subscription_id SubscriptionId, "The subscription", [PUBLISH SUBSCRIBE];
    0x11 SessionExpiry session_expiry_s u32, "Seconds that the session outlives the connection; all ones is for ever",
        [CONNECT CONNACK DISCONNECT];
    0x12 AssignedClientIdentifier assigned_client_id Text, "The client identifier that the server chose", [CONNACK];
    0x13 ServerKeepAlive server_keep_alive_s u16, "The keep alive that the server wants, in seconds", [CONNACK];
    0x15 AuthenticationMethod authentication_method Text, "The method of extended authentication",
        [CONNECT CONNACK AUTH];
    0x16 AuthenticationData authentication_data Binary, "What the authentication method says", [CONNECT CONNACK AUTH];
    0x17 RequestProblemInformation request_problem_information bool, "Whether reasons may be put into words", [CONNECT];
    0x18 WillDelay will_delay_s u32, "Seconds from the end of the connection to the will", [WILL];
    0x19 RequestResponseInformation request_response_information bool, "Whether response information is wanted",
        [CONNECT];
    0x1A ResponseInformation response_information Text, "What response topics are made from", [CONNACK];
    0x1C ServerReference server_reference Text, "Another server to use", [CONNACK DISCONNECT];
    0x1F ReasonString reason_string Text, "The reason in words",
        [CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH];
    0x21 ReceiveMaximum receive_max NonZeroU16, "QoS 1 and 2 messages that may be unacknowledged", [CONNECT CONNACK];
    0x22 TopicAliasMaximum topic_alias_max u16, "The highest topic alias that is taken", [CONNECT CONNACK];
    0x23 TopicAlias topic_alias NonZeroU16, "A number that stands for the topic name", [PUBLISH];
    0x24 MaximumQos qos1_max bool, "Whether QoS 1 is the highest (else 0); absent is 2", [CONNACK];
    0x25 RetainAvailable retain_available bool, "Whether retained messages are kept", [CONNACK];
    0x26 UserProperty user_property UserProperty, "A name and a value of the application",
        [CONNECT CONNACK PUBLISH WILL PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK DISCONNECT AUTH];
    0x27 MaximumPacketSize packet_bytes_max NonZeroU32, "The largest packet that is taken, in bytes", [CONNECT CONNACK];
    0x28 WildcardSubscriptionAvailable wildcards_available bool, "Whether filters may hold wildcards", [CONNACK];
    0x29 SubscriptionIdentifierAvailable subscription_ids_available bool, "Whether subscriptions may have identifiers",
        [CONNACK];
    0x2A SharedSubscriptionAvailable shared_available bool, "Whether subscriptions may be shared", [CONNACK];
}

impl Property {
    /// Bytes on the wire.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let mut count = Count::default();
        self.write(&mut count);
        count.0
    }

    /// Section 3.3.2.3.8: a PUBLISH names every subscription that it matches.
    pub(super) const fn may_repeat(id: u32, place: u16) -> bool {
        id == USER_PROPERTY || (id == 0x0B && place == place::PUBLISH)
    }
}

impl Field for bool {
    fn read(reader: &mut Reader<'_>, id: u8) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::PropertyValue(id)),
        }
    }
    fn write(&self, out: &mut impl Sink) {
        out.u8(u8::from(*self));
    }
}

impl Field for u16 {
    fn read(reader: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        reader.u16()
    }
    fn write(&self, out: &mut impl Sink) {
        out.u16(*self);
    }
}

impl Field for NonZeroU16 {
    fn read(reader: &mut Reader<'_>, id: u8) -> Result<Self, DecodeError> {
        let zero = if id == 0x23 { DecodeError::TopicAliasZero } else { DecodeError::PropertyValue(id) };
        Self::new(reader.u16()?).ok_or(zero)
    }
    fn write(&self, out: &mut impl Sink) {
        out.u16(self.get());
    }
}

impl Field for u32 {
    fn read(reader: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        reader.u32()
    }
    fn write(&self, out: &mut impl Sink) {
        out.u32(*self);
    }
}

impl Field for NonZeroU32 {
    fn read(reader: &mut Reader<'_>, id: u8) -> Result<Self, DecodeError> {
        Self::new(reader.u32()?).ok_or(DecodeError::PropertyValue(id))
    }
    fn write(&self, out: &mut impl Sink) {
        out.u32(self.get());
    }
}

impl Field for SubscriptionId {
    fn read(reader: &mut Reader<'_>, id: u8) -> Result<Self, DecodeError> {
        Self::new(reader.variable()?).ok_or(DecodeError::PropertyValue(id))
    }
    fn write(&self, out: &mut impl Sink) {
        out.variable(self.number());
    }
}

impl Field for Text {
    fn read(reader: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        reader.text()
    }
    fn check(reader: &mut Reader<'_>, _: u8) -> Result<(), DecodeError> {
        reader.checked_text().map(drop)
    }
    fn write(&self, out: &mut impl Sink) {
        out.field(self.bytes());
    }
}

impl Field for Binary {
    fn read(reader: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        reader.binary()
    }
    fn check(reader: &mut Reader<'_>, _: u8) -> Result<(), DecodeError> {
        reader.field().map(drop)
    }
    fn write(&self, out: &mut impl Sink) {
        out.field(self);
    }
}

impl Field for UserProperty {
    fn read(reader: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        Ok((reader.text()?, reader.text()?))
    }
    fn check(reader: &mut Reader<'_>, _: u8) -> Result<(), DecodeError> {
        reader.checked_text()?;
        reader.checked_text().map(drop)
    }
    fn write(&self, out: &mut impl Sink) {
        out.field(self.0.bytes());
        out.field(self.1.bytes());
    }
}
