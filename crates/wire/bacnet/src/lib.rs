//! BACnet/IP and BACnet/SC (ANSI/ASHRAE 135) without I/O: codecs, a client of many devices, and a server of simulated ones.
//!
//! In: datagrams with the address they came from, deadlines, typed calls of the owner (read, write, subscribe).
//! Out: datagrams with the address they go to, and events (an answer, a changed value, a device that announced itself).
//!
//! ```text
//! datagram ─ Bvlc ─ Npdu ─ Apdu ─ service::* ─ Value
//!             └ client::Client: transactions, segments, discovery, foreign device ─ device::Device: reads, COV
//!             ├ server::Server: objects of a simulated device
//!             └ dissect::Dissector: text for people
//! message of a WebSocket ─ sc::Message ─ sc::Connector: the hub ─ Npdu …
//! ```
//!
//! Never: a socket, a clock, a thread; never a scaled value or a topic; never the role of a broadcast management device
//! or of a hub.
//!
//! Read first: `value.rs`, `apdu.rs`, then `client/mod.rs` and `device/mod.rs`.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod apdu;
pub mod bvlc;
pub mod client;
pub mod device;
pub mod dissect;
mod error;
pub mod names;
pub mod npdu;
pub mod sc;
mod segments;
pub mod server;
pub mod service;
pub mod tag;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use error::{DecodeError, Decoded};
pub use names::{ObjectType, PropertyId, Unit};
pub use service::{PropertyRef, ServiceError};
pub use tag::DEPTH_MAX;
pub use types::{ANY, BitString, Date, DateTime, INSTANCE_ANY, Mac, ObjectId, Peer, Station, Time};
pub use value::Value;
