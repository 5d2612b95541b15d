//! The state that a broker keeps over restarts: last values that clients published, and sessions that outlive their
//! connections.
//!
//! In: changes ([`Record`]), one after the other. Out: bytes for a log ([`Record::emit`]); and, from the bytes of a
//! log, the state ([`Replay`], [`Image`]).
//!
//! Never: a file, a clock, a packet of MQTT. Properties of MQTT 5 are bytes here.
//!
//! Read first: `record.rs` (the format), then `replay.rs`.
#![no_std]
extern crate alloc;

mod error;
mod loss;
mod record;
mod replay;
#[cfg(test)]
mod tests;

pub use error::RecordError;
pub use loss::GivenUp;
pub use record::{Message, Record, Session, Value, Will};
pub use replay::{Image, Kept, PendingMessage, Replay, Subscription};
