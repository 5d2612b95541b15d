//! The transport function (IEEE 1815 clause 8): a fragment travels as segments, one in each link frame.
//!
//! ```text
//! FIN 80 | FIR 40 | SEQ 3F     one byte, then 1 to 249 bytes of the fragment
//! ```

use crate::link::{Frame, LinkAddress};
use alloc::vec::Vec;
use core::fmt;

/// Bytes of a fragment in one segment at most.
pub const SEGMENT_BYTES_MAX: usize = 249;
/// Bytes of a fragment that every station takes unless configured otherwise.
pub const FRAGMENT_BYTES_DEFAULT: u16 = 2048;
/// Bytes of a fragment that every station must take (IEEE 1815 8.2).
pub const FRAGMENT_BYTES_MIN: u16 = 249;

/// The byte before each segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The last segment of its fragment.
    pub fin: bool,
    /// The first segment of its fragment.
    pub fir: bool,
    /// Counts segments, 0..=63.
    pub sequence: u8,
}

impl SegmentHeader {
    /// Reads the byte: every value is one.
    #[must_use]
    pub const fn parse(byte: u8) -> Self {
        Self { fin: byte & 0x80 != 0, fir: byte & 0x40 != 0, sequence: byte & 0x3F }
    }

    /// The byte.
    #[must_use]
    pub const fn emit(self) -> u8 {
        (if self.fin { 0x80 } else { 0 }) | (if self.fir { 0x40 } else { 0 }) | self.sequence & 0x3F
    }
}

/// The sequence number that follows.
#[must_use]
pub const fn next_sequence(sequence: u8) -> u8 {
    sequence.wrapping_add(1) & 0x3F
}

/// What a reassembler has seen, in events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCounters {
    /// Fragments completed.
    pub fragments: u64,
    /// Segments that did not follow the one before; the fragment begun was dropped.
    pub sequence_errors: u64,
    /// Segments that repeat the one before, byte by byte: passed over.
    pub repeated: u64,
    /// Segments that continue a fragment that never began.
    pub without_first: u64,
    /// Fragments begun and dropped because another began.
    pub interrupted: u64,
    /// Fragments dropped because they outgrew the limit.
    pub too_long: u64,
    /// Frames of user data without a segment.
    pub empty: u64,
}

/// Why a segment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The frame has no segment header.
    Empty,
    /// It continues a fragment that never began.
    WithoutFirst,
    /// It repeats the segment before.
    Repeated,
    /// It does not follow the segment before; the fragment begun was dropped.
    Sequence {
        /// The number that should have come.
        expected: u8,
    },
    /// The fragment outgrew the limit and was dropped.
    TooLong,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("user data without a segment"),
            Self::WithoutFirst => f.write_str("the segment continues a fragment that never began"),
            Self::Repeated => f.write_str("the segment repeats the one before"),
            Self::Sequence { expected } => write!(f, "the segment is out of sequence, expected {expected}"),
            Self::TooLong => f.write_str("the fragment is longer than this station takes"),
        }
    }
}

impl core::error::Error for SegmentError {}

/// Joins segments to fragments: one at a time, at most `fragment_max` bytes, no heap while none has begun.
#[derive(Clone, Debug)]
pub struct Reassembler {
    fragment: Vec<u8>,
    addresses: Option<(LinkAddress, LinkAddress)>,
    expected: u8,
    complete: bool,
    fragment_max: u16,
    counters: TransportCounters,
}

impl Reassembler {
    /// One that drops fragments longer than `fragment_max` bytes.
    #[must_use]
    pub fn new(fragment_max: u16) -> Self {
        Self {
            fragment: Vec::new(),
            addresses: None,
            expected: 0,
            complete: false,
            fragment_max,
            counters: TransportCounters::default(),
        }
    }

    /// What was seen so far.
    #[must_use]
    pub const fn counters(&self) -> TransportCounters {
        self.counters
    }

    /// The complete fragment; empty while there is none.
    #[must_use]
    pub fn fragment(&self) -> &[u8] {
        if self.complete { &self.fragment } else { &[] }
    }

    /// Whether a complete fragment is held.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether a fragment has begun and is not complete.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        self.addresses.is_some() && !self.complete
    }

    /// Drops what is held, complete or not, and its heap.
    pub fn release(&mut self) {
        self.fragment = Vec::new();
        self.addresses = None;
        self.complete = false;
    }

    /// Hands the complete fragment over; empty while there is none. What is held is dropped.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let fragment = if self.complete { core::mem::take(&mut self.fragment) } else { Vec::new() };
        self.release();
        fragment
    }

    /// Takes a frame's user data as a segment and says whether it completed a fragment. A complete fragment that was
    /// not released is dropped.
    ///
    /// # Errors
    /// The segment was not taken; the cause is counted.
    pub fn push(&mut self, frame: &Frame<'_>) -> Result<bool, SegmentError> {
        if self.complete {
            self.release();
        }
        let Some(first) = frame.blocks().next().and_then(<[u8]>::first) else {
            self.counters.empty += 1;
            return Err(SegmentError::Empty);
        };
        let segment = SegmentHeader::parse(*first);
        let bytes = frame.user_bytes().saturating_sub(1);
        let from = (frame.header().source, frame.header().destination);
        if let Err(error) = self.check(segment, from) {
            return Err(self.refuse(error, segment, frame));
        }
        if self.fragment.len() + bytes > usize::from(self.fragment_max) {
            self.counters.too_long += 1;
            self.release();
            return Err(SegmentError::TooLong);
        }
        // A fragment of one segment gets exactly its size; a longer one grows with what has truly arrived.
        if segment.fir && segment.fin {
            self.fragment.reserve_exact(bytes);
        } else {
            self.fragment.reserve(bytes);
        }
        frame.append_segment(&mut self.fragment);
        self.expected = next_sequence(segment.sequence);
        self.complete = segment.fin;
        self.counters.fragments += u64::from(segment.fin);
        Ok(segment.fin)
    }

    /// A fragment begins that comes without segments; room is made for so many bytes of it.
    pub(crate) fn begin(&mut self, from: (LinkAddress, LinkAddress), bytes: usize) {
        self.release();
        self.addresses = Some(from);
        self.fragment.reserve_exact(bytes);
    }

    /// Bytes of the fragment that has begun, and whether they are the last.
    pub(crate) fn append(&mut self, bytes: &[u8], last: bool) {
        self.fragment.extend_from_slice(bytes);
        self.complete = last && self.addresses.is_some();
        self.counters.fragments += u64::from(self.complete);
    }

    /// A fragment came that needed no joining.
    pub(crate) const fn count_whole(&mut self) {
        self.counters.fragments += 1;
    }

    /// A fragment that outgrew the limit was passed over.
    pub(crate) const fn count_too_long(&mut self) {
        self.counters.too_long += 1;
    }

    fn check(&mut self, segment: SegmentHeader, from: (LinkAddress, LinkAddress)) -> Result<(), SegmentError> {
        if segment.fir {
            if self.addresses.is_some() {
                self.counters.interrupted += 1;
                self.release();
            }
            self.addresses = Some(from);
            return Ok(());
        }
        if self.addresses != Some(from) {
            self.counters.without_first += 1;
            return Err(SegmentError::WithoutFirst);
        }
        if segment.sequence != self.expected {
            return Err(SegmentError::Sequence { expected: self.expected });
        }
        Ok(())
    }

    /// What becomes of a segment that does not follow: a link frame that was sent again brings the segment before once
    /// more, byte by byte; anything else ends the fragment (IEEE 1815 8.2.4).
    #[cold]
    fn refuse(&mut self, error: SegmentError, segment: SegmentHeader, frame: &Frame<'_>) -> SegmentError {
        if !matches!(error, SegmentError::Sequence { .. }) {
            return error;
        }
        let mut bytes = Vec::new();
        frame.append_segment(&mut bytes);
        // The first segment cannot be it: its header differs.
        let follows_first = self.fragment.len() > bytes.len();
        let before = next_sequence(segment.sequence) == self.expected && !segment.fin;
        if before && follows_first && self.fragment.ends_with(&bytes) {
            self.counters.repeated += 1;
            return SegmentError::Repeated;
        }
        self.counters.sequence_errors += 1;
        self.release();
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Function, Header};

    /// Feeds segments given as (header byte, bytes, source) and tells the fragments and counters.
    fn check(segments: &[(u8, usize, u16)], fragments: &[usize], expect: TransportCounters) {
        let (mut reassembler, mut found) = (Reassembler::new(500), Vec::new());
        for &(header, bytes, source) in segments {
            let source = LinkAddress::new(source);
            let link = Header::new(false, Function::UnconfirmedUserData, LinkAddress::new(1), source);
            let (mut user_data, mut frame) = (alloc::vec![header], Vec::new());
            user_data.resize(1 + bytes, 0xAA);
            link.emit(&user_data, &mut frame);
            if reassembler.push(&Frame::parse(&frame).unwrap()) == Ok(true) {
                found.push(reassembler.fragment().len());
            }
        }
        let fragments_found = u64::try_from(found.len()).unwrap();
        assert_eq!(found, fragments);
        assert_eq!(reassembler.counters(), TransportCounters { fragments: fragments_found, ..expect });
        reassembler.release();
        assert_eq!(reassembler.fragment.capacity(), 0);
    }

    #[test]
    fn segments_are_joined_by_the_rules() {
        let none = TransportCounters::default();
        check(&[(0xC5, 10, 2)], &[10], none);
        check(&[(0x7F, 249, 2), (0x00, 100, 2), (0x81, 1, 2)], &[350], none);
        check(&[(0x40, 249, 2), (0x82, 1, 2)], &[], TransportCounters { sequence_errors: 1, ..none });
        check(
            &[(0x40, 9, 2), (0x01, 9, 2), (0x01, 9, 2), (0x82, 1, 2)],
            &[19],
            TransportCounters { repeated: 1, ..none },
        );
        let cut = TransportCounters { sequence_errors: 1, ..none };
        check(&[(0x40, 9, 2), (0x01, 9, 2), (0x01, 8, 2), (0x00, 1, 2)], &[], TransportCounters { repeated: 1, ..cut });
        check(&[(0x40, 9, 2), (0x00, 9, 2)], &[], cut);
        check(&[(0x40, 249, 2), (0x40, 9, 2), (0x81, 1, 2)], &[10], TransportCounters { interrupted: 1, ..none });
        check(&[(0x81, 1, 2)], &[], TransportCounters { without_first: 1, ..none });
        check(&[(0x40, 9, 2), (0x81, 1, 3), (0x81, 1, 2)], &[10], TransportCounters { without_first: 1, ..none });
        check(&[(0x40, 249, 2), (0x01, 249, 2), (0x82, 3, 2)], &[], TransportCounters { too_long: 1, ..none });
        check(&[(0xC0, 1, 2), (0xC0, 2, 2)], &[1, 2], none);
    }

    #[test]
    fn every_byte_is_a_segment_header() {
        for byte in 0..=u8::MAX {
            assert_eq!(SegmentHeader::parse(byte).emit(), byte);
        }
    }
}
