//! A chunk: samples of one topic as bytes, with what they are together in front.
//!
//! ```text
//!  +---------+----------+- - - -+- - - - - -+---------+
//!  | version | length   | head  | columns   | CRC-32  |
//!  | 1 byte  | 4 bytes  |       |           | 4 bytes |
//!  +---------+----------+- - - -+- - - - - -+---------+
//!            low byte first; bytes of head and columns   of all before it
//!
//!  head      count · first time · (last − first time) · first sequence · (last − first sequence) · summary
//!  columns   kinds · qualities · times · doubles · integers · dictionary · places in the dictionary
//! ```
//!
//! `version` is 1. Numbers of the head are varints, the first time a signed one; times are in microseconds since 1970. The sequences
//! are those of the journal records that the samples came from. Samples are in order of time, those of one time in the order
//! in which they came.
//!
//! | column | what |
//! |---|---|
//! | kinds | runs: 0 double, 1 integer, 2 two-state, 3 text, 4 bytes, 5 nothing, 6 a payload as published |
//! | qualities | runs of the bits of `tieline_core::Quality` |
//! | times | integers, of all samples |
//! | doubles | doubles, of kind 0 |
//! | integers | integers, of kinds 1 and 2 |
//! | dictionary | a count, and so many strings of bytes, each after its length; of kinds 3, 4 and 6 |
//! | places | integers: which of them each is |
//!
//! The summary: how many samples are good, uncertain, bad, how many numbers there are among those not bad; if any: their kind
//! (0 several, 1 double, 2 integer, 3 two-state), all reasons against them, time and value of the first and the last, sum, smallest, greatest, area.

use crate::column::{Column, Kind};
use crate::runs::Runs;
use crate::summary::Summary;
use crate::{SeriesError, floats, integers};
use alloc::vec::Vec;
use bytes::Bytes;
use hashbrown::HashMap;
use tieline_core::{Cursor, Timestamp, varint};

/// Samples of a chunk at most.
pub const SAMPLES_MAX: usize = 65_536;
pub(crate) const VERSION: u8 = 1;
/// Version and length.
const FRONT_BYTES: usize = 5;
const CHECK_BYTES: usize = 4;

/// The journal records that samples came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sequence of the first.
    pub first: u64,
    /// The sequence of the last.
    pub last: u64,
}

/// Appends the chunk of samples, which are settled, [`SAMPLES_MAX`] at most and one at least; returns what they are together.
pub fn encode(column: &Column, origin: Origin, out: &mut Vec<u8>) -> Summary {
    debug_assert!(
        column.is_sorted() && (1..=SAMPLES_MAX).contains(&column.len()),
        "sorted, and neither empty nor too long"
    );
    let start = out.len();
    out.push(VERSION);
    out.extend([0; FRONT_BYTES - 1]);
    let ends = column.times.first().zip(column.times.last());
    let (first, last) = ends.map_or((0, 0), |(first, last)| (*first, *last));
    varint::put_len(out, column.len());
    varint::put_signed(out, first);
    varint::put(out, last.wrapping_sub(first).cast_unsigned());
    varint::put(out, origin.first);
    varint::put(out, origin.last.saturating_sub(origin.first));
    let summary = Summary::of(column);
    summary.put(out);
    column.kinds.put(out);
    column.qualities.put(out);
    integers::put_all(&column.times, out);
    floats::put_all(&column.floats, out);
    integers::put_all(&column.integers, out);
    put_blobs(&column.blobs, out);
    let length = u32::try_from(out.len() - start - FRONT_BYTES).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start + 1..).and_then(<[u8]>::first_chunk_mut) {
        *place = length.to_le_bytes();
    }
    let check = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend(check.to_le_bytes());
    summary
}

fn put_blobs(blobs: &[Bytes], out: &mut Vec<u8>) {
    let mut numbers: HashMap<&[u8], i64> = HashMap::new();
    let mut places = Vec::with_capacity(blobs.len());
    let mut dictionary: Vec<&[u8]> = Vec::new();
    for blob in blobs {
        let fresh = i64::try_from(dictionary.len()).unwrap_or(i64::MAX);
        places.push(*numbers.entry(blob).or_insert_with(|| {
            dictionary.push(blob);
            fresh
        }));
    }
    varint::put_len(out, dictionary.len());
    for blob in dictionary {
        varint::put_len(out, blob.len());
        out.extend_from_slice(blob);
    }
    integers::put_all(&places, out);
}

/// A chunk of which the head is read.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// How many samples it has.
    pub count: usize,
    /// The time of the first.
    pub first: Timestamp,
    /// The time of the last.
    pub last: Timestamp,
    /// Where they came from.
    pub origin: Origin,
    /// What they are together.
    pub summary: Summary,
    columns: Bytes,
}

impl Chunk {
    /// The bytes of the chunk that `bytes` begins with, check included; none where too few are there to say.
    ///
    /// # Errors
    /// It is of a version that this release does not know.
    pub fn bytes(bytes: &[u8]) -> Result<Option<usize>, SeriesError> {
        let Some((version, rest)) = bytes.split_first() else { return Ok(None) };
        if *version != VERSION {
            return Err(SeriesError::Version(*version));
        }
        let length = rest.first_chunk().map(|length| u32::from_le_bytes(*length));
        Ok(length.and_then(|length| usize::try_from(length).ok()).map(|length| FRONT_BYTES + length + CHECK_BYTES))
    }

    /// Reads the head of the chunk that `bytes` are; the check is compared.
    ///
    /// # Errors
    /// They are none.
    pub fn parse(bytes: &Bytes) -> Result<Self, SeriesError> {
        let size = Self::bytes(bytes)?.ok_or(SeriesError::Truncated)?;
        let (body, check) = bytes.get(..size).and_then(<[u8]>::split_last_chunk).ok_or(SeriesError::Truncated)?;
        if bytes.len() > size {
            return Err(SeriesError::Illegal("length"));
        }
        if crc32fast::hash(body) != u32::from_le_bytes(*check) {
            return Err(SeriesError::Damaged);
        }
        let mut cursor = Cursor::new(body.get(FRONT_BYTES..).unwrap_or_default());
        let count = varint::get_len(&mut cursor)?;
        if count == 0 || count > SAMPLES_MAX {
            return Err(SeriesError::Illegal("count of samples"));
        }
        let (first, span) = (varint::get_signed(&mut cursor)?, varint::get(&mut cursor)?);
        let (first_sequence, records) = (varint::get(&mut cursor)?, varint::get(&mut cursor)?);
        let summary = Summary::get(&mut cursor)?;
        let columns = bytes.slice_ref(cursor.rest());
        Ok(Self {
            count,
            first: Timestamp::from_micros(first),
            last: Timestamp::from_micros(first.wrapping_add(span.cast_signed())),
            origin: Origin { first: first_sequence, last: first_sequence.saturating_add(records) },
            summary,
            columns,
        })
    }

    /// Decodes the samples.
    ///
    /// # Errors
    /// The bytes are none that [`encode`] writes.
    pub fn samples(&self) -> Result<Column, SeriesError> {
        let mut cursor = Cursor::new(&self.columns);
        let kinds = Runs::get(&mut cursor, self.count, Kind::from_number)?;
        let qualities = Runs::get(&mut cursor, self.count, |bits| u16::try_from(bits).ok())?;
        let (mut float_count, mut integer_count, mut blob_count) = (0, 0, 0);
        for (kind, length) in kinds.runs() {
            match kind {
                Kind::Float => float_count += length,
                Kind::Int | Kind::Bool => integer_count += length,
                Kind::Text | Kind::Bytes | Kind::Opaque => blob_count += length,
                Kind::Null => {}
            }
        }
        let mut times = Vec::with_capacity(self.count);
        integers::get_all(&mut cursor, self.count, &mut times)?;
        let mut floats = Vec::with_capacity(float_count);
        floats::get_all(&mut cursor, float_count, &mut floats)?;
        let mut whole = Vec::with_capacity(integer_count);
        integers::get_all(&mut cursor, integer_count, &mut whole)?;
        let blobs = self.blobs(&mut cursor, blob_count)?;
        if !cursor.is_empty() {
            return Err(SeriesError::Illegal("length"));
        }
        let is_unsorted = !times.is_sorted();
        let blob_bytes = blobs.iter().map(Bytes::len).sum();
        Ok(Column { times, qualities, kinds, floats, integers: whole, blobs, blob_bytes, is_unsorted })
    }

    fn blobs(&self, cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Bytes>, SeriesError> {
        const ILLEGAL: SeriesError = SeriesError::Illegal("dictionary");
        let distinct = varint::get_len(cursor)?;
        if distinct > count {
            return Err(ILLEGAL);
        }
        let mut dictionary = Vec::with_capacity(distinct);
        for _ in 0..distinct {
            let length = varint::get_len(cursor)?;
            dictionary.push(self.columns.slice_ref(cursor.take(length)?));
        }
        let mut places = Vec::with_capacity(count);
        integers::get_all(cursor, count, &mut places)?;
        let blob = |place: &i64| usize::try_from(*place).ok().and_then(|place| dictionary.get(place)).cloned();
        places.iter().map(blob).collect::<Option<_>>().ok_or(ILLEGAL)
    }
}
