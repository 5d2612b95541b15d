//! WebSocket (RFC 6455) without I/O: the server side, for a protocol that is a stream of bytes, such as MQTT.
//!
//! In: bytes of a client. Out: the bytes inside its messages, as they arrive and without a stored copy; the response to
//! its handshake, frames around the bytes of the server, pongs, the close.
//!
//! Never: a whole message, an extension, a text message unless [`Offer::texts`] accepts them (otherwise closed with
//! 1003), a socket, a clock, the meaning of the bytes.
//!
//! | limit | when reached |
//! |---|---|
//! | [`REQUEST_BYTES_MAX`], [`HEADERS_MAX`] of a handshake | 431, closed |
//! | [`ANSWER_BYTES_MAX`] of pongs that wait to be sent | nothing more is read |
//!
//! Frames may have any length, because their bytes are not buffered. Read first: `socket.rs`.
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
