//! Frames on TCP (Messaging on TCP/IP 3.1.3).
//!
//! ```text
//! transaction 2   protocol 2 (0)   length 2 (unit and PDU)   unit 1   PDU 1 to 253
//! ```
//!
//! A header with another protocol or an impossible length means that the stream is out of step: bytes are dropped one
//! by one until a header is possible again.

use super::ADU_TCP_BYTES_MAX;
use crate::Unit;
use alloc::vec::Vec;
use tieline_core::Cursor;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mbap<'a> {
    pub(crate) transaction: u16,
    pub(crate) unit: Unit,
    pub(crate) pdu: &'a [u8],
}

/// What a stream begins with.
enum Head<'a> {
    Partial,
    Impossible,
    Frame(Mbap<'a>, usize),
}

impl<'a> Head<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self::read(bytes).unwrap_or(Self::Partial)
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let transaction = cursor.u16_be().ok()?;
        // Judged byte by byte, so that what is dropped does not depend on how the stream is cut.
        if cursor.rest().iter().take(3).any(|byte| *byte != 0) {
            return Some(Self::Impossible);
        }
        let (_, length) = (cursor.u16_be().ok()?, cursor.u16_be().ok()?);
        let length = usize::from(length);
        if !(2..=ADU_TCP_BYTES_MAX - 6).contains(&length) {
            return Some(Self::Impossible);
        }
        let unit = Unit(cursor.u8().ok()?);
        let pdu = cursor.take(length - 1).ok()?;
        Some(Self::Frame(Mbap { transaction, unit, pdu }, 6 + length))
    }
}

/// Bytes dropped in a row after which a stream is given up: none of the frames that it holds will be found in it.
const DROPPED_MAX: usize = ADU_TCP_BYTES_MAX;

/// Finds frames in a stream. Keeps what is not whole yet, fewer than [`ADU_TCP_BYTES_MAX`] bytes, and nothing otherwise.
#[derive(Debug, Default)]
pub(crate) struct MbapDecoder {
    partial: Vec<u8>,
    /// Bytes dropped since the last frame.
    dropped: usize,
}

impl MbapDecoder {
    /// Forgets what came.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the stream is out of step for so long that only a new connection helps. Takes and drops all then.
    pub(crate) const fn is_lost(&self) -> bool {
        self.dropped > DROPPED_MAX
    }

    /// Gives each frame to `take` until it says that it takes no more; returns how many bytes were used, and how many
    /// of these were dropped.
    pub(crate) fn decode(&mut self, bytes: &[u8], mut take: impl FnMut(Mbap<'_>) -> bool) -> (usize, usize) {
        let (mut used, mut dropped) = (0, 0);
        while let Some(byte) = bytes.get(used).filter(|_| !self.partial.is_empty() && !self.is_lost()) {
            self.partial.push(*byte);
            used += 1;
            let lost = self.settle();
            dropped += lost;
            let Head::Frame(frame, _) = Head::of(&self.partial) else { continue };
            let more = take(frame);
            self.partial.clear();
            self.dropped = 0;
            if !more {
                return (used, dropped);
            }
        }
        while !self.is_lost() {
            let rest = bytes.get(used..).unwrap_or_default();
            match Head::of(rest) {
                Head::Partial => {
                    self.partial.extend_from_slice(rest);
                    return (bytes.len(), dropped);
                }
                Head::Impossible => {
                    (used, dropped) = (used + 1, dropped + 1);
                    self.dropped += 1;
                }
                Head::Frame(frame, length) => {
                    used += length;
                    self.dropped = 0;
                    if !take(frame) {
                        return (used, dropped);
                    }
                }
            }
        }
        (bytes.len(), dropped + (bytes.len() - used))
    }

    /// Drops bytes from the front until a header is possible.
    fn settle(&mut self) -> usize {
        let mut lost = 0;
        while let Head::Impossible = Head::of(self.partial.get(lost..).unwrap_or_default()) {
            lost += 1;
            self.dropped += 1;
        }
        self.partial.drain(..lost);
        lost
    }
}
