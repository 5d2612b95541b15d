//! DNP3 (IEEE 1815) without I/O: frames, objects, an outstation and a master.
//!
//! In: bytes and deadlines ([`tieline_core::Machine`]), typed calls of the owner (update a point, send a command).
//! Out: bytes, and events (content of a fragment, a command to execute, the state of the session).
//!
//! ```text
//! bytes ─ link::Decoder ─ transport::Reassembler ─ app::Fragment ─ app::Headers ─ Measurement, Control, …
//!          └──────────── endpoint::Endpoint ────┘   └ app::FragmentWriter builds what goes back
//! ```
//!
//! Never: a socket, a clock, a thread; never a scaled value or a topic.
//!
//! Read first: `types.rs` (the basic types), `objects/mod.rs` (the table), then `outstation/mod.rs` or `master/mod.rs`.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod app;
pub mod channel;
mod codes;
pub mod crc;
pub mod datagram;
pub mod dissect;
pub mod endpoint;
pub mod lean;
pub mod link;
pub mod master;
pub mod objects;
pub mod outstation;
pub mod secure;
pub mod transport;
mod types;

pub use types::*;
