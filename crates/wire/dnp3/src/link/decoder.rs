//! Finds frames in a stream of bytes, in whatever pieces they come.

use super::frame::{BadLength, START, body_is_intact};
use super::{FRAME_BYTES_MAX, Frame, HEADER_BYTES, Header, frame_bytes};
use crate::crc;
use alloc::vec::Vec;
use core::fmt;

/// Finds frames in a stream. Holds heap only while a frame is incomplete, and then at most one frame's bytes.
///
/// After anything that is not a frame it goes on at the next `05 64`, even inside a frame whose body was damaged:
/// bytes lost on a serial line must not cost the frame that follows.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    partial: Vec<u8>,
    /// Bytes of `partial` that were given out as a frame.
    given: usize,
    counters: LinkCounters,
}

/// What a decoder has seen, in events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames with every CRC right.
    pub frames: u64,
    /// Header blocks with a wrong CRC.
    pub header_crc_errors: u64,
    /// Frames with a wrong CRC in a block of user data.
    pub body_crc_errors: u64,
    /// Header blocks whose length was below 5.
    pub length_errors: u64,
    /// Bytes that belong to no frame.
    pub bytes_discarded: u64,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// They do not begin with 05 64.
    NoStart,
    /// The header's CRC is wrong.
    HeaderCrc,
    /// The length is below 5.
    Length,
    /// The CRC of a block of user data is wrong.
    BodyCrc,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoStart => "no start 05 64",
            Self::HeaderCrc => "wrong CRC in the header",
            Self::Length => "length below 5",
            Self::BodyCrc => "wrong CRC in the user data",
        })
    }
}

impl core::error::Error for LinkError {}

/// Bytes that were passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub error: LinkError,
    /// How many bytes before the search goes on.
    pub bytes: usize,
}

/// What the first bytes of a buffer are.
enum Scan {
    Frame(Header, usize),
    Refused(Refused),
    /// Undecided before the buffer has so many bytes.
    Needs(usize),
}

enum Found {
    InInput(Header, usize),
    InPartial(Header, usize),
    Refused(Refused),
    Nothing,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            partial: Vec::new(),
            given: 0,
            counters: LinkCounters {
                frames: 0,
                header_crc_errors: 0,
                body_crc_errors: 0,
                length_errors: 0,
                bytes_discarded: 0,
            },
        }
    }

    /// What was seen so far.
    #[must_use]
    pub const fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Forgets a partial frame: the stream begins again.
    pub fn reset(&mut self) {
        self.partial = Vec::new();
        self.given = 0;
    }

    /// Whether a frame has begun and is not complete.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.partial_bytes() > 0
    }

    /// Bytes of a frame that has begun and is not complete.
    #[must_use]
    pub const fn partial_bytes(&self) -> usize {
        self.partial.len() - self.given
    }

    /// Frees what held the last frame, which [`Decoder::decode`] would do at its next call.
    pub fn release(&mut self) {
        let given = core::mem::take(&mut self.given);
        self.drop_front(given);
    }

    /// The next frame, or the next bytes that are none; moves `input` over what was used. None: `input` is used up.
    /// Call until None: the call after a frame frees what held it.
    pub fn decode<'d, 'i: 'd>(&'d mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'d>, Refused>> {
        match self.find(input) {
            Found::InInput(header, bytes) => {
                let (frame, rest) = input.split_at_checked(bytes)?;
                *input = rest;
                Some(Ok(Frame::checked(header, frame)))
            }
            Found::InPartial(header, bytes) => Some(Ok(Frame::checked(header, self.partial.get(..bytes)?))),
            Found::Refused(refused) => Some(Err(refused)),
            Found::Nothing => None,
        }
    }

    fn find(&mut self, input: &mut &[u8]) -> Found {
        self.release();
        while !self.partial.is_empty() {
            match scan(&self.partial) {
                Scan::Frame(header, bytes) => {
                    self.given = bytes;
                    self.counters.frames += 1;
                    return Found::InPartial(header, bytes);
                }
                Scan::Refused(refused) => {
                    self.drop_front(refused.bytes);
                    return self.refuse(refused);
                }
                Scan::Needs(bytes) => {
                    let missing = bytes.saturating_sub(self.partial.len()).min(input.len());
                    let Some((more, rest)) = input.split_at_checked(missing) else { return Found::Nothing };
                    if more.is_empty() {
                        return Found::Nothing;
                    }
                    self.partial.reserve_exact(bytes.saturating_sub(self.partial.len()));
                    self.partial.extend_from_slice(more);
                    *input = rest;
                }
            }
        }
        if input.is_empty() {
            return Found::Nothing;
        }
        match scan(input) {
            Scan::Frame(header, bytes) => {
                self.counters.frames += 1;
                Found::InInput(header, bytes)
            }
            Scan::Refused(refused) => {
                *input = input.get(refused.bytes..).unwrap_or_default();
                self.refuse(refused)
            }
            Scan::Needs(bytes) => {
                debug_assert!(input.len() < bytes && bytes <= FRAME_BYTES_MAX);
                self.partial.reserve_exact(bytes);
                self.partial.extend_from_slice(input);
                *input = &[];
                Found::Nothing
            }
        }
    }

    fn refuse(&mut self, refused: Refused) -> Found {
        match refused.error {
            LinkError::NoStart => {}
            LinkError::HeaderCrc => self.counters.header_crc_errors += 1,
            LinkError::Length => self.counters.length_errors += 1,
            LinkError::BodyCrc => self.counters.body_crc_errors += 1,
        }
        self.counters.bytes_discarded += u64::try_from(refused.bytes).unwrap_or(u64::MAX);
        Found::Refused(refused)
    }

    fn drop_front(&mut self, bytes: usize) {
        if bytes >= self.partial.len() {
            self.partial = Vec::new();
        } else {
            self.partial.drain(..bytes);
        }
    }
}

/// Looks at a non-empty buffer. Every answer depends on the bytes alone, never on how they were cut.
fn scan(bytes: &[u8]) -> Scan {
    let garbage = before_start(bytes);
    if garbage > 0 {
        return Scan::Refused(Refused { error: LinkError::NoStart, bytes: garbage });
    }
    let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Scan::Needs(HEADER_BYTES) };
    let refuse = |error| Scan::Refused(Refused { error, bytes: START.len() });
    if !crc::is_intact(head) {
        return refuse(LinkError::HeaderCrc);
    }
    let (header, user_bytes) = match Header::parse(head) {
        Ok(parsed) => parsed,
        Err(BadLength) => return refuse(LinkError::Length),
    };
    let whole = frame_bytes(user_bytes);
    match body.get(..whole - HEADER_BYTES) {
        None => Scan::Needs(whole),
        Some(body) if body_is_intact(body) => Scan::Frame(header, whole),
        Some(_) => refuse(LinkError::BodyCrc),
    }
}

/// How many bytes stand before the first 05 64, or before a final 05 that may become one.
fn before_start(bytes: &[u8]) -> usize {
    if bytes.starts_with(&START) {
        return 0;
    }
    let whole = bytes.windows(START.len()).position(|pair| pair == START);
    whole.unwrap_or_else(|| bytes.len() - usize::from(bytes.last() == START.first()))
}

#[cfg(test)]
mod tests;
