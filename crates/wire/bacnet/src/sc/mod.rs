//! BACnet/SC (annex AB, Secure Connect): messages of the network layer over WebSockets to a hub, which forwards them.
//!
//! ```text
//! Client ─ NPDU ─ Directory: device instance ▶ VMAC ─ Connector ─ Message ─▶ one binary message of a WebSocket ─▶ hub
//! ```
//!
//! In: whole messages of a WebSocket, when one opened or closed, deadlines. Out: messages, which hub is to be dialled and when,
//! events. The WebSocket, TLS and certificates are of the owner.
//!
//! Never: a hub, a direct connection to a node that is not the hub.
//!
//! Read first: `message.rs`, then `connector/mod.rs` and `directory.rs`.

pub mod connector;
mod directory;
mod message;
mod option;
mod vmac;

pub use connector::{Connector, ConnectorConfig, Hub};
pub use directory::{Directory, Found};
pub use message::{Advertisement, Body, Connect, Malformed, Message, Nak, function_name};
pub use option::{HeaderOption, Options};
pub use vmac::{Uuid, Vmac};

/// The subprotocol of a WebSocket to a hub (clause AB.7.1).
pub const HUB_PROTOCOL: &str = "hub.bsc.bacnet.org";
