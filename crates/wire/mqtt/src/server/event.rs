//! What the owner of a server session learns.

use super::AuthRequest;
use crate::{
    Binary, Message, PacketId, Properties, Qos, ReasonCode, SubscriptionId, SubscriptionOptions, Text, Version, Will,
};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use tieline_core::Filter;

/// What the owner of a server session learns.
#[derive(Debug)]
pub enum ServerEvent {
    /// A client asks to be let in. Answer with `accept` or `refuse`; no more is read until then.
    Connect(Box<ConnectRequest>),
    /// A message was published. Answer a QoS 1 or 2 one with `acknowledge`, when it is safe.
    Publish(PublishRequest),
    /// Messages are wanted. Answer with `suback`, one reason a subscription.
    Subscribe(SubscribeRequest),
    /// Messages are wanted no more. Answer with `unsuback`, one reason a filter.
    Unsubscribe(UnsubscribeRequest),
    /// A client proves who it is, as it was asked to or once more. Answer with `challenge`, `accept`, `refuse`,
    /// `authenticated` or `disconnect`.
    Auth(AuthRequest),
    /// An accepted connection is over: the last event.
    Ended(Ended),
}

/// A client asks to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The version that it speaks.
    pub version: Version,
    /// Its name: its own, or one made up for it.
    pub client_id: Text,
    /// Whether the name was made up here.
    pub client_id_assigned: bool,
    /// Whether a session of before is to be forgotten.
    pub clean_start: bool,
    /// The keep alive that it asked for, in seconds; 0 is none.
    pub keep_alive_s: u16,
    /// How long the session is to outlive the connection, in seconds; all ones is for ever. In 3.1.1 without clean
    /// session it is for ever.
    pub session_expiry_s: u32,
    /// The will, if any: to be published when [`Ended::publish_will`] says so.
    pub will: Option<Will>,
    /// The user's name.
    pub user_name: Option<Text>,
    /// The password or another credential.
    pub password: Option<Binary>,
    /// All properties of the packet.
    pub properties: Properties,
}

/// A message was published.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishRequest {
    /// The message; a topic alias is resolved already.
    pub message: Message,
    /// How surely.
    pub qos: Qos,
    /// What `acknowledge` takes; none for QoS 0.
    pub packet_id: Option<PacketId>,
    /// Whether it becomes the topic's retained message.
    pub retain: bool,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// Whether its owner took it before the server ended, and was not sure of having done all with it.
    pub again: bool,
}

/// A filter, and the group that shares its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFilter {
    /// The name of the group, from `$share/NAME/FILTER` (section 4.8.2).
    pub share: Option<Text>,
    /// Which topics.
    pub filter: Filter,
}

/// Messages are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct SubscribeRequest {
    /// What `suback` takes.
    pub packet_id: PacketId,
    /// At least one, up to [`crate::FILTERS_MAX`].
    pub subscriptions: Vec<(SharedFilter, SubscriptionOptions)>,
    /// What to name in each message that these subscriptions match.
    pub subscription_id: Option<SubscriptionId>,
    /// All properties of the packet.
    pub properties: Properties,
}

/// Messages are wanted no more.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsubscribeRequest {
    /// What `unsuback` takes.
    pub packet_id: PacketId,
    /// At least one, up to [`crate::FILTERS_MAX`].
    pub filters: Vec<SharedFilter>,
}

/// Why an accepted connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// The client said so, with this reason.
    Client(ReasonCode),
    /// The owner said so, with this reason.
    Server(ReasonCode),
    /// The client broke a rule.
    Broken {
        /// What it was told, where the version has words.
        reason: ReasonCode,
        /// Which rule.
        detail: String,
    },
    /// One and a half keep alives without a packet ([MQTT-3.1.2-22]).
    Silent,
    /// The transport is gone.
    Lost,
}

/// An accepted connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub cause: EndCause,
    /// Whether the will is to be published, after its delay ([MQTT-3.1.2-8], [MQTT-3.14.4-3]).
    pub publish_will: bool,
    /// A new session expiry in seconds, where the client gave one with its DISCONNECT.
    pub session_expiry_s: Option<u32>,
}
