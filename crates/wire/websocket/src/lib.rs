//! WebSocket (RFC 6455) without I/O: the server side, for a protocol that is a stream of bytes, such as MQTT, and the client
//! side, for one whose messages are those of the WebSocket, such as BACnet/SC.
//!
//! In: bytes of the peer. Out: the bytes inside its messages, as they arrive and without a stored copy; the request of a
//! client or the response to it, frames around the bytes of this side, pongs, the close.
//!
//! Never: a whole message, an extension, a text message unless [`Offer::texts`] accepts them (otherwise closed with
//! 1003), a socket, a clock, a random source, the meaning of the bytes.
//!
//! | limit | when reached |
//! |---|---|
//! | [`REQUEST_BYTES_MAX`], [`HEADERS_MAX`] of a handshake | 431, closed |
//! | [`RESPONSE_BYTES_MAX`], [`HEADERS_MAX`] of the response to a client | closed: [`ResponseFault::TooLarge`] |
//! | [`ANSWER_BYTES_MAX`] of pongs that wait to be sent | nothing more is read |
//!
//! Frames may have any length, because their bytes are not buffered. Read first: `socket.rs`.
#![no_std]
extern crate alloc;

mod base64;
mod client;
mod frame;
mod handshake;
mod socket;
mod text;

#[cfg(test)]
mod tests;

pub use client::{RESPONSE_BYTES_MAX, Request, ResponseFault};
pub use frame::{CloseCode, header};
pub use handshake::{HEADERS_MAX, Offer, REQUEST_BYTES_MAX, Refusal};
pub use socket::{ANSWER_BYTES_MAX, WebSocket};
