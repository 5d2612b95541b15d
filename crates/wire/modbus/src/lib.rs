//! Modbus (Application Protocol V1.1b3, Messaging on TCP/IP V1.0b, over Serial Line V1.02) without I/O: codec, a client,
//! a server, the plan of blocks that are read together, and the layout of values in registers.
//!
//! In: bytes and deadlines ([`tieline_core::Machine`]), typed calls of the owner (submit a transaction, answer a request).
//! Out: bytes, and events ([`ClientEvent`], [`ServerEvent`]).
//!
//! ```text
//! bytes ─ frame (MBAP or RTU) ─ pdu::Request, Response ─ Client ─ plan::Planner ─ layout::Layout ─ Value
//!                                                     └ Server ─ Bank, or what the owner has
//! ```
//!
//! Never: a socket, a clock, a thread; never a scaled value or a topic; never Modbus ASCII.
//!
//! Read first: `pdu/request.rs`, `pdu/response.rs`, then `client/mod.rs` or `server/mod.rs`; `dissect.rs` prints messages as text.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod client;
mod code;
pub mod dissect;
mod frame;
pub mod layout;
mod pdu;
pub mod plan;
mod server;
#[cfg(test)]
mod tests;

pub use client::{
    Client, ClientConfig, ClientCounters, ClientEvent, Failure, IN_FLIGHT_MAX, Priority, SubmitError, Transaction,
};
pub use code::{ExceptionCode, Function, Unit, UnitSet};
pub use frame::{ADU_RTU_BYTES_MAX, ADU_TCP_BYTES_MAX, Framing, SerialTiming, crc, rtu_frame, tcp_frame};
pub use pdu::{
    Bits, Identification, Identity, IdentityObject, Mismatch, OBJECT_BYTES_MAX, PDU_BYTES_MAX, READ_BITS_MAX,
    READ_REGISTERS_MAX, READ_WRITE_REGISTERS_MAX, ReadCode, Reply, Request, RequestError, Response, Table,
    WRITE_BITS_MAX, WRITE_REGISTERS_MAX,
};
pub use server::{Bank, Server, ServerConfig, ServerCounters, ServerEvent};
