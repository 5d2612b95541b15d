//! How a client session is set up, and what its owner learns.

use crate::{Binary, Message, PacketId, Properties, Qos, ReasonCode, SubscriptionId, Text, Version, Will};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU16;
use core::time::Duration;

/// How a client connects, and its limits.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The version to speak.
    pub version: Version,
    /// The client's name; empty asks the server for one.
    pub client_id: Text,
    /// Whether a session of before is to be forgotten.
    pub clean_start: bool,
    /// How long the session is to outlive the connection, in seconds; 5.0 only.
    pub session_expiry_s: u32,
    /// The longest silence in seconds; 0 is without limit.
    pub keep_alive_s: u16,
    /// The user's name.
    pub user_name: Option<Text>,
    /// The password or another credential.
    pub password: Option<Binary>,
    /// User properties of CONNECT; 5.0 only.
    pub user_properties: Vec<(Text, Text)>,
    /// What the server publishes when this client is gone without a word.
    pub will: Option<Will>,
    /// Time from the transport to CONNACK, and from PINGREQ to any packet.
    pub answer_timeout: Duration,
    /// The largest packet that is taken, in bytes.
    pub packet_bytes_max: u32,
    /// QoS 1 and 2 messages from the server that may be unacknowledged, 1 to 65,535.
    pub receive_max: u16,
    /// Topic aliases that the server may set.
    pub topic_alias_max: u16,
    /// QoS 1 and 2 messages to the server that may be unacknowledged, 1 to 65,535.
    pub in_flight_max: u16,
    /// Messages that may wait to be sent; then the oldest of QoS 0 goes, and `publish` says Full to the others.
    pub pending_max: usize,
    /// Bytes that may wait, the same way.
    pub pending_bytes_max: usize,
    /// Whether messages that were not sent when a connection ends are dropped, and not sent over the next one.
    pub forgets_unsent: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            version: Version::V5,
            client_id: Text::default(),
            clean_start: true,
            session_expiry_s: 0,
            keep_alive_s: 30,
            user_name: None,
            password: None,
            user_properties: Vec::new(),
            will: None,
            answer_timeout: Duration::from_secs(10),
            packet_bytes_max: 16_777_216,
            receive_max: 256,
            topic_alias_max: 16,
            in_flight_max: 256,
            pending_max: 10_000,
            pending_bytes_max: 16_777_216,
            forgets_unsent: false,
        }
    }
}

/// What the owner of a client session learns.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// The server let the client in.
    Connected(Connected),
    /// The server did not; the connection is over.
    Refused {
        /// Why.
        reason: ReasonCode,
        /// Why in the server's words; often empty.
        text: String,
    },
    /// A message came. It is acknowledged when this event is taken.
    Message(Received),
    /// A published message is done with: written (QoS 0) or answered (QoS 1 and 2).
    Published {
        /// What `publish` returned.
        token: u64,
        /// What became of it.
        outcome: PublishOutcome,
    },
    /// SUBACK: one reason a filter.
    Subscribed {
        /// What `subscribe` returned.
        packet_id: PacketId,
        /// The QoS granted, or why not.
        reasons: Vec<ReasonCode>,
        /// What else the server said.
        properties: Properties,
    },
    /// UNSUBACK: one reason a filter; none in 3.1.1.
    Unsubscribed {
        /// What `unsubscribe` returned.
        packet_id: PacketId,
        /// Whether it existed.
        reasons: Vec<ReasonCode>,
    },
    /// A connection that was in is over.
    Ended(ClientEnd),
}

/// The server let the client in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Whether a session of before goes on.
    pub session_present: bool,
    /// The client's name: its own, or the server's choice.
    pub client_id: Text,
    /// All that the server said about itself.
    pub properties: Properties,
}

/// A message came.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// The message; a topic alias is resolved already.
    pub message: Message,
    /// How surely it came.
    pub qos: Qos,
    /// Whether it was retained.
    pub retain: bool,
    /// The subscriptions that it matches, where they have identifiers.
    pub subscription_ids: Vec<SubscriptionId>,
    /// The topic alias that it came with.
    pub alias: Option<NonZeroU16>,
    pub(crate) packet_id: Option<PacketId>,
}

/// What became of a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// Written, for QoS 0; for QoS 1 and 2 the server's answer, which may be an error. What the server said in CONNACK that
    /// it does not take (a QoS, RETAIN) is not sent, and this is the reason.
    Answered(ReasonCode),
    /// The connection and the session were lost before the answer: it may have arrived or not.
    Unknown,
    /// Not sent: QoS 0, and the queue was full.
    Dropped,
    /// Not sent: its expiry passed in the queue.
    Expired,
    /// Not sent: larger than the server takes.
    TooLarge,
    /// Not sent: the connection ended, and nothing is to be sent over the next one.
    Unsent,
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// The owner wanted it.
    Asked,
    /// The server said so.
    Server {
        /// Why.
        reason: ReasonCode,
        /// Why in the server's words; often empty.
        text: String,
    },
    /// The server broke a rule: which.
    Broken(String),
    /// The server did not answer in time.
    Silent,
    /// The transport is gone.
    Lost,
}

impl fmt::Display for ClientEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("it was closed"),
            Self::Server { reason, text } if text.is_empty() => write!(f, "the server ends it: {reason}"),
            Self::Server { reason, text } => write!(f, "the server ends it: {reason}, {text}"),
            Self::Broken(rule) => write!(f, "the server broke a rule: {rule}"),
            Self::Silent => f.write_str("the server did not answer in time"),
            Self::Lost => f.write_str("the connection was lost"),
        }
    }
}
