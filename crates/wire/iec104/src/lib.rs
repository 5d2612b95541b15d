//! IEC 60870-5-104 (edition 2.1, with the application data of 60870-5-101) without I/O: codec, link, a controlling station and
//! a controlled one.
//!
//! In: bytes and deadlines ([`tieline_core::Machine`]), typed calls of the owner (submit a procedure or a command, report a
//! change, answer a command). Out: bytes, and events ([`ClientEvent`], [`ServerEvent`]).
//!
//! ```text
//! bytes ─ Framer ─ Apdu ─ Link (sequence numbers, windows, t1 to t3) ─ Asdu ─ Object ─ Client ─ ClientEvent
//!                                                                                   └ Server ─ Database, ServerEvent
//! ```
//!
//! Never: a socket, a clock, a thread; never a scaled value or a topic; never files or parameters.
//!
//! Read first: `apdu.rs`, `link.rs`, then `asdu/mod.rs`, `asdu/types.rs`, `client/mod.rs` or `server/mod.rs`; `dissect.rs` prints
//! frames as text.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod apdu;
mod asdu;
mod client;
pub mod dissect;
mod link;
mod server;
#[cfg(test)]
mod tests;

pub use apdu::{APDU_BYTES_MAX, ASDU_BYTES_MAX, Apdu, ApduError, Control, Framer};
pub use asdu::{
    ADDRESS_MAX, Address, Asdu, AsduError, Cause, CauseCode, Cp24, Cp56, Element, EmitError, Flags, Form, Header,
    Layout, OBJECTS_MAX, Object, Qualifier, TimeForm, TimeTag, TypeId, emit,
};
pub use client::{
    Client, ClientConfig, ClientCounters, ClientEvent, CommandEnd, CommandRequest, Failure, Origin, Outcome, Procedure,
    Request, SubmitError,
};
pub use link::{Link, LinkConfig, LinkCounters, LinkError, Received};
pub use server::{
    Change, CommandAnswer, Database, DatabaseError, Freeze, Group, Point, SelectRule, Server, ServerConfig,
    ServerCounters, ServerEvent, Treatment,
};
