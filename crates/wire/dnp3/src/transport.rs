//! The transport function (IEEE 1815 clause 8): a fragment travels as segments, one in each link frame.
//!
//! ```text
//! FIN 80 | FIR 40 | SEQ 3F     one octet, then 1 to 249 octets of the fragment
//! ```

use crate::link::{Frame, LinkAddress};
use alloc::vec::Vec;

/// Octets of a fragment in one segment at most.
pub const SEGMENT_OCTETS_MAX: usize = 249;
/// Octets of a fragment that every station takes unless configured otherwise.
pub const FRAGMENT_OCTETS_DEFAULT: u16 = 2048;
/// Octets of a fragment that every station must take (IEEE 1815 8.2).
pub const FRAGMENT_OCTETS_MIN: u16 = 249;

/// The octet before each segment.
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
    /// Reads the octet: every value is one.
    #[must_use]
    pub const fn parse(octet: u8) -> Self {
        Self { fin: octet & 0x80 != 0, fir: octet & 0x40 != 0, sequence: octet & 0x3F }
    }

    /// The octet.
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
    /// Segments that continue a fragment that never began.
    pub without_first: u64,
    /// Fragments begun and dropped because another began.
    pub interrupted: u64,
    /// Fragments dropped because they outgrew the limit.
    pub too_long: u64,
    /// Frames of user data without a segment.
    pub empty: u64,
}

/// Joins segments to fragments: one at a time, at most `fragment_max` octets, no heap while none has begun.
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
    /// One that drops fragments longer than `fragment_max` octets.
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

    /// Drops what is held, complete or not, and its heap.
    pub fn release(&mut self) {
        self.fragment = Vec::new();
        self.addresses = None;
        self.complete = false;
    }

    /// Takes a frame's user data as a segment and says whether it completed a fragment. A complete fragment that was
    /// not released is dropped.
    pub fn push(&mut self, frame: &Frame<'_>) -> bool {
        if self.complete {
            self.release();
        }
        let mut blocks = frame.blocks();
        let Some((first, data)) = blocks.next().and_then(<[u8]>::split_first) else {
            self.counters.empty += 1;
            return false;
        };
        let segment = SegmentHeader::parse(*first);
        let octets = frame.user_octets().saturating_sub(1);
        let from = (frame.header().source, frame.header().destination);
        if !self.accepts(segment, from) {
            return false;
        }
        if self.fragment.len() + octets > usize::from(self.fragment_max) {
            self.counters.too_long += 1;
            self.release();
            return false;
        }
        // A fragment of one segment gets exactly its size; a longer one grows with what has truly arrived.
        if segment.fir && segment.fin {
            self.fragment.reserve_exact(octets);
        } else {
            self.fragment.reserve(octets);
        }
        self.fragment.extend_from_slice(data);
        blocks.for_each(|block| self.fragment.extend_from_slice(block));
        self.expected = next_sequence(segment.sequence);
        self.complete = segment.fin;
        self.counters.fragments += u64::from(segment.fin);
        segment.fin
    }

    fn accepts(&mut self, segment: SegmentHeader, from: (LinkAddress, LinkAddress)) -> bool {
        if segment.fir {
            if self.addresses.is_some() {
                self.counters.interrupted += 1;
                self.release();
            }
            self.addresses = Some(from);
            return true;
        }
        if self.addresses != Some(from) {
            self.counters.without_first += 1;
            return false;
        }
        if segment.sequence != self.expected {
            self.counters.sequence_errors += 1;
            self.release();
            return false;
        }
        true
    }
}
