//! From a stream of bytes in any chunks to whole packets.

use crate::DecodeError;
use crate::cursor::Variable;
use crate::packet::{Frame, PacketType};
use alloc::vec::Vec;
use bytes::Bytes;

/// Cuts a stream into packets. Owns no memory between packets, and while one is incomplete no more than twice what
/// has arrived of it.
#[derive(Debug)]
pub struct Decoder {
    bytes_max: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Start,
    Length { packet_type: PacketType, flags: u8, length: Variable },
    Body { packet_type: PacketType, flags: u8, length: usize, body: Vec<u8> },
}

impl Decoder {
    /// Refuses packets of more than `bytes_max` bytes, header included, before a single byte of them is kept.
    #[must_use]
    pub const fn new(bytes_max: u32) -> Self {
        Self { bytes_max, state: State::Start }
    }

    /// Changes the limit, from the next packet on.
    pub fn limit(&mut self, bytes_max: u32) {
        self.bytes_max = bytes_max;
    }

    /// Whether nothing of a packet has arrived.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Start)
    }

    /// Takes bytes up to the end of one packet, and returns how many, with the packet once it is whole.
    ///
    /// # Errors
    /// The header breaks a rule. The stream cannot be read any further then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Frame>), DecodeError> {
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            match &mut self.state {
                State::Start => {
                    let (packet_type, flags) = PacketType::parse(first)?;
                    self.state = State::Length { packet_type, flags, length: Variable::default() };
                    rest = after;
                }
                State::Length { packet_type, flags, length } => {
                    rest = after;
                    let Some(value) = length.push(first)? else { continue };
                    let whole = value + 1 + u32::from(length.bytes());
                    if whole > self.bytes_max {
                        return Err(DecodeError::TooLarge { bytes: whole, limit: self.bytes_max });
                    }
                    let (packet_type, flags) = (*packet_type, *flags);
                    let length = usize::try_from(value).unwrap_or(usize::MAX);
                    // The usual case: the packet is here to its end, and its body is copied once, to its size.
                    if let Some((body, after)) = rest.split_at_checked(length) {
                        self.state = State::Start;
                        let frame = Frame { packet_type, flags, body: Bytes::copy_from_slice(body) };
                        return Ok((bytes.len() - after.len(), Some(frame)));
                    }
                    self.state = State::Body { packet_type, flags, length, body: Vec::new() };
                }
                State::Body { packet_type, flags, length, body } => {
                    let (more, after) = rest.split_at(rest.len().min(*length - body.len()));
                    body.extend_from_slice(more);
                    rest = after;
                    if body.len() == *length {
                        let frame =
                            Frame { packet_type: *packet_type, flags: *flags, body: core::mem::take(body).into() };
                        self.state = State::Start;
                        return Ok((bytes.len() - rest.len(), Some(frame)));
                    }
                }
            }
        }
        Ok((bytes.len(), None))
    }

    /// Bytes that an incomplete packet says it has.
    #[must_use]
    pub const fn awaited_bytes(&self) -> usize {
        match &self.state {
            State::Start | State::Length { .. } => 0,
            State::Body { length, .. } => *length,
        }
    }

    /// Bytes of memory that an incomplete packet holds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            State::Start | State::Length { .. } => 0,
            State::Body { body, .. } => body.capacity(),
        }
    }

    /// Forgets a packet that is incomplete.
    pub fn reset(&mut self) {
        self.state = State::Start;
    }
}
