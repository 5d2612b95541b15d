//! MQTT 5.0 and 3.1.1 without I/O: packets, the server side of a connection, and a client.
//!
//! In: bytes and deadlines ([`tieline_core::Machine`]), typed calls of the owner (accept, deliver, acknowledge).
//! Out: bytes, and events ([`ServerEvent`], [`ClientEvent`]).
//!
//! Never: a socket, a clock, a thread, a random number; never authorization, the subscriptions of others, or the value
//! of a topic.
//!
//! Read first: `packet/mod.rs` (the packets), then `server/mod.rs` or `client/mod.rs`.
#![no_std]
extern crate alloc;

mod client;
mod cursor;
mod decoder;
mod error;
mod flow;
mod message;
mod packet;
mod reason;
mod refusal;
mod server;
mod text;

#[cfg(test)]
mod tests;

pub use client::{ClientConfig, ClientEnd, ClientEvent, ClientSession, Connected, PublishOutcome, Received};
pub use decoder::Decoder;
pub use error::{DecodeError, TooLong};
pub use flow::SessionChange;
pub use message::{AliasFrame, Aside, Delivery, Message, append_publish, encode_publish};
pub(crate) use packet::place;
pub use packet::{
    Ack, Auth, Connack, Connect, Disconnect, FILTERS_MAX, Frame, Guarantee, OwnProperty, PROPERTIES_MAX, Packet,
    PacketId, PacketType, Properties, Property, Publish, Qos, RetainHandling, Suback, Subscribe, SubscriptionFilter,
    SubscriptionId, SubscriptionOptions, Unsuback, Unsubscribe, UserProperty, Version, Will,
};
pub use reason::ReasonCode;
pub use refusal::refuse_connect;
pub use server::{
    Accept, AuthRequest, AwayLimits, CONTROL_BYTES_MAX, ConnectRequest, DeliverError, EndCause, Ended, PublishRequest,
    ServerConfig, ServerCounters, ServerEvent, ServerSession, SessionState, SharedFilter, SubscribeRequest,
    UnsubscribeRequest,
};
pub use text::{Binary, FIELD_BYTES_MAX, FieldError, Text};
