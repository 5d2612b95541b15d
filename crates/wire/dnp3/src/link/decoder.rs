//! Finds frames in a stream of octets, in whatever pieces they come.

use super::frame::{BadLength, START, body_is_intact};
use super::{FRAME_OCTETS_MAX, Frame, HEADER_OCTETS, Header, frame_octets};
use crate::crc;
use alloc::vec::Vec;
use core::fmt;

/// Finds frames in a stream. Holds heap only while a frame is incomplete, and then at most one frame's octets.
///
/// After anything that is not a frame it goes on at the next `05 64`, even inside a frame whose body was damaged:
/// octets lost on a serial line must not cost the frame that follows.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    partial: Vec<u8>,
    /// Octets of `partial` that were given out as a frame.
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
    /// Octets that belong to no frame.
    pub octets_discarded: u64,
}

/// Why octets are no frame.
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

/// Octets that were passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub error: LinkError,
    /// How many octets before the search goes on.
    pub octets: usize,
}

/// What the first octets of a buffer are.
enum Scan {
    Frame(Header, usize),
    Refused(Refused),
    /// Undecided before the buffer has so many octets.
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
                octets_discarded: 0,
            },
        }
    }

    /// What was seen so far.
    #[must_use]
    pub const fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Forgets a partial frame: the stream begins anew.
    pub fn reset(&mut self) {
        self.partial = Vec::new();
        self.given = 0;
    }

    /// Whether a frame has begun and is not complete.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.partial_octets() > 0
    }

    /// Octets of a frame that has begun and is not complete.
    #[must_use]
    pub const fn partial_octets(&self) -> usize {
        self.partial.len() - self.given
    }

    /// Frees what held the last frame, which [`Decoder::decode`] would do at its next call.
    pub fn release(&mut self) {
        let given = core::mem::take(&mut self.given);
        self.drop_front(given);
    }

    /// The next frame, or the next octets that are none; moves `input` over what was used. None: `input` is used up.
    /// Call until None: the call after a frame frees what held it.
    pub fn decode<'d, 'i: 'd>(&'d mut self, input: &mut &'i [u8]) -> Option<Result<Frame<'d>, Refused>> {
        match self.find(input) {
            Found::InInput(header, octets) => {
                let (frame, rest) = input.split_at_checked(octets)?;
                *input = rest;
                Some(Ok(Frame::checked(header, frame)))
            }
            Found::InPartial(header, octets) => Some(Ok(Frame::checked(header, self.partial.get(..octets)?))),
            Found::Refused(refused) => Some(Err(refused)),
            Found::Nothing => None,
        }
    }

    fn find(&mut self, input: &mut &[u8]) -> Found {
        self.release();
        while !self.partial.is_empty() {
            match scan(&self.partial) {
                Scan::Frame(header, octets) => {
                    self.given = octets;
                    self.counters.frames += 1;
                    return Found::InPartial(header, octets);
                }
                Scan::Refused(refused) => {
                    self.drop_front(refused.octets);
                    return self.refuse(refused);
                }
                Scan::Needs(octets) => {
                    let missing = octets.saturating_sub(self.partial.len()).min(input.len());
                    let Some((more, rest)) = input.split_at_checked(missing) else { return Found::Nothing };
                    if more.is_empty() {
                        return Found::Nothing;
                    }
                    self.partial.reserve_exact(octets.saturating_sub(self.partial.len()));
                    self.partial.extend_from_slice(more);
                    *input = rest;
                }
            }
        }
        if input.is_empty() {
            return Found::Nothing;
        }
        match scan(input) {
            Scan::Frame(header, octets) => {
                self.counters.frames += 1;
                Found::InInput(header, octets)
            }
            Scan::Refused(refused) => {
                *input = input.get(refused.octets..).unwrap_or_default();
                self.refuse(refused)
            }
            Scan::Needs(octets) => {
                debug_assert!(input.len() < octets && octets <= FRAME_OCTETS_MAX);
                self.partial.reserve_exact(octets);
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
        self.counters.octets_discarded += u64::try_from(refused.octets).unwrap_or(u64::MAX);
        Found::Refused(refused)
    }

    fn drop_front(&mut self, octets: usize) {
        if octets >= self.partial.len() {
            self.partial = Vec::new();
        } else {
            self.partial.drain(..octets);
        }
    }
}

/// Looks at a non-empty buffer. Every answer depends on the octets alone, never on how they were cut.
fn scan(octets: &[u8]) -> Scan {
    let garbage = before_start(octets);
    if garbage > 0 {
        return Scan::Refused(Refused { error: LinkError::NoStart, octets: garbage });
    }
    let Some((head, body)) = octets.split_first_chunk::<HEADER_OCTETS>() else { return Scan::Needs(HEADER_OCTETS) };
    let refuse = |error| Scan::Refused(Refused { error, octets: START.len() });
    if !crc::is_intact(head) {
        return refuse(LinkError::HeaderCrc);
    }
    let (header, user_octets) = match Header::parse(head) {
        Ok(parsed) => parsed,
        Err(BadLength) => return refuse(LinkError::Length),
    };
    let whole = frame_octets(user_octets);
    match body.get(..whole - HEADER_OCTETS) {
        None => Scan::Needs(whole),
        Some(body) if body_is_intact(body) => Scan::Frame(header, whole),
        Some(_) => refuse(LinkError::BodyCrc),
    }
}

/// How many octets stand before the first 05 64, or before a final 05 that may become one.
fn before_start(octets: &[u8]) -> usize {
    if octets.starts_with(&START) {
        return 0;
    }
    let whole = octets.windows(START.len()).position(|pair| pair == START);
    whole.unwrap_or_else(|| octets.len() - usize::from(octets.last() == START.first()))
}

#[cfg(test)]
mod tests;
