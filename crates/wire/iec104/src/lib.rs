//! IEC 60870-5-104 (edition 2.1, with the application data of 60870-5-101) without I/O: codec, link and a controlling station.
//!
//! In: bytes and deadlines ([`tieline_core::Machine`]), typed calls of the owner (submit a procedure or a command).
//! Out: bytes, and events ([`ClientEvent`]).
//!
//! ```text
//! bytes ─ Framer ─ Apdu ─ Link (sequence numbers, windows, t1 to t3) ─ Asdu ─ Object ─ Client ─ ClientEvent
//! ```
//!
//! Never: a socket, a clock, a thread; never a scaled value or a topic; never files, parameters or redundancy groups.
//!
//! Read first: `apdu.rs`, `link.rs`, then `asdu/mod.rs`, `asdu/types.rs`, `client/mod.rs`.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod apdu;
mod asdu;
mod client;
mod link;
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
