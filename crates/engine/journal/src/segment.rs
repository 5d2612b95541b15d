//! The format: what a segment is called and what is in it. docs/journal.md says the same for other languages.
//!
//! A journal is a folder of segments. A segment's name is the sequence of its first record (20 decimal digits), a
//! stamp (16 hexadecimal digits) and `.seg`. The stamp grows from one segment to the next and goes into every
//! checksum, so a frame is valid in one file only: neither a copy of a frame elsewhere nor a payload that looks
//! like one is taken for a record.
//!
//! ```text
//! header, once
//!  0        4         6          8                16             24           28
//!  +--------+---------+----------+----------------+--------------+------------+
//!  | "TLJ1" | version | 0        | first sequence | stamp        | CRC-32     |
//!  +--------+---------+----------+----------------+--------------+------------+
//!
//! frame, once a record
//!  0        4                12             16             20
//!  +--------+----------------+--------------+--------------+------- - - -
//!  | length | sequence       | payload CRC  | head CRC     | payload
//!  +--------+----------------+--------------+--------------+------- - - -
//! ```
//!
//! Integers have the low byte first. CRC-32 is that of IEEE 802.3 over the stamp (8 bytes) and then: in the header,
//! bytes 0 to 23; in a head CRC, bytes 0 to 15; in a payload CRC, the payload. The header repeats what the name says
//! and serves people and tools; a damaged one costs no record.
//!
//! A segment's records end where the next segment begins: what an earlier segment holds from that sequence on was
//! never acknowledged, or was written once more. A segment that holds no valid record begins nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Cursor;

/// The longest record in bytes: a bound on what one read takes.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

pub(crate) const HEADER_BYTES: usize = 28;
pub(crate) const HEAD_BYTES: usize = 20;
const MAGIC: [u8; 4] = *b"TLJ1";
const VERSION: u16 = 1;

/// The place of a record in the journal. The first record is 1; 0 stands before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    /// The one that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one before; 0 stays 0.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How many records lie from `earlier` (included) to here (not included).
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a segment's name says. Ordered as the segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentId {
    pub(crate) first: Seq,
    pub(crate) stamp: u64,
}

impl SegmentId {
    pub(crate) fn name(self) -> String {
        format!("{:020}-{:016x}.seg", self.first.0, self.stamp)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (first, stamp) = name.strip_suffix(".seg")?.split_once('-')?;
        let id = Self { first: Seq(first.parse().ok()?), stamp: u64::from_str_radix(stamp, 16).ok()? };
        (id.name() == name).then_some(id)
    }

    /// The segments among the names, in order.
    pub(crate) fn sorted(names: &[String]) -> Vec<Self> {
        let mut ids: Vec<Self> = names.iter().filter_map(|name| Self::parse(name)).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn header(self) -> [u8; HEADER_BYTES] {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&[0, 0]);
        header.extend_from_slice(&self.first.0.to_le_bytes());
        header.extend_from_slice(&self.stamp.to_le_bytes());
        header.extend_from_slice(&checksum(self.stamp, &header).to_le_bytes());
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(&header);
        out
    }
}

/// The head of a frame that passed its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) seq: Seq,
    payload_crc: u32,
}

impl Head {
    /// None where the bytes are no head of this segment.
    pub(crate) fn parse(bytes: &[u8; HEAD_BYTES], stamp: u64) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let len = usize::try_from(cursor.u32_le().ok()?).ok()?;
        let seq = Seq(cursor.u64_le().ok()?);
        let payload_crc = cursor.u32_le().ok()?;
        let head_crc = cursor.u32_le().ok()?;
        let covered = bytes.first_chunk::<16>()?;
        (len <= RECORD_BYTES_MAX && checksum(stamp, covered) == head_crc).then_some(Self { len, seq, payload_crc })
    }

    pub(crate) fn covers(&self, payload: &[u8], stamp: u64) -> bool {
        payload.len() == self.len && checksum(stamp, payload) == self.payload_crc
    }
}

/// Appends a frame whose checksums wait for [`seal`]. The payload must not be longer than [`RECORD_BYTES_MAX`].
pub(crate) fn push_frame(out: &mut Vec<u8>, seq: Seq, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&seq.0.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(payload);
}

/// Writes the checksums of whole frames for the segment of that stamp.
pub(crate) fn seal(mut frames: &mut [u8], stamp: u64) {
    while let Some((head, rest)) = frames.split_first_chunk_mut::<HEAD_BYTES>() {
        let [l0, l1, l2, l3, ..] = *head;
        let len = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX).min(rest.len());
        let (payload, next) = rest.split_at_mut(len);
        if let Some(field) = head.get_mut(12..16) {
            field.copy_from_slice(&checksum(stamp, payload).to_le_bytes());
        }
        if let Some((covered, field)) = head.split_at_mut_checked(16) {
            field.copy_from_slice(&checksum(stamp, covered).to_le_bytes());
        }
        frames = next;
    }
}

fn checksum(stamp: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&stamp.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}
