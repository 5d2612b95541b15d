//! WebSocket (RFC 6455) without I/O: the server's side, for a protocol that is a stream of bytes, as MQTT is.
//!
//! In: bytes of a client. Out: the bytes inside its messages, as they come and without a copy that is kept;
//! the answer to its handshake, frames around what the server says, pongs, the close.
//!
//! Never: a message as a whole, an extension, a text unless [`Offer::texts`] takes them (a protocol of bytes has no use
//! for them: closed with 1003), a socket, a clock; never what the bytes mean.
//!
//! | limit | when reached |
//! |---|---|
//! | [`REQUEST_BYTES_MAX`], [`HEADERS_MAX`] of a handshake | 431, closed |
//! | [`ANSWER_BYTES_MAX`] of pongs that wait to be sent | nothing more is read |
//!
//! Frames may have any length: their bytes pass through. Read first: `socket.rs`.
#![no_std]
extern crate alloc;

mod base64;
mod frame;
mod handshake;
mod socket;
mod text;

#[cfg(test)]
mod tests;

pub use frame::{CloseCode, header};
pub use handshake::{HEADERS_MAX, Offer, REQUEST_BYTES_MAX, Refusal};
pub use socket::{ANSWER_BYTES_MAX, WebSocket};
