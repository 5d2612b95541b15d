//! A batch of history on its way upward, as bytes.
//!
//! ```text
//!  +---------+-------+--------+---------+------+-------+------+-------+------+- - - - -+-------+
//!  | version | flags | stream | epoch   | site | first | lost | count | size | records | check |
//!  | 1 byte  | 1     | 1      | 8 bytes |      |       |      |       |      |         | 4     |
//!  +---------+-------+--------+---------+------+-------+------+-------+------+- - - - -+-------+
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `version` | 1 |
//! | `flags` | bit 0: the records are one Zstandard frame (RFC 8878); the others are 0 |
//! | `stream` | 0 live, 1 back-fill, 2 bulk |
//! | `epoch` | of the site's numbers, low byte first: when they began, in microseconds since 1970, or higher |
//! | `site` | length (varint), then its name in UTF-8: 1 to 128 bytes |
//! | `first` | varint: the number of the first record, from 1; of a question, the number that would be sent next |
//! | `lost` | varint: how many numbers directly below `first` the site cannot send any more |
//! | `count` | varint: how many records; 0 is a question, which stores nothing |
//! | `size` | varint: bytes of the records before they were compressed |
//! | `records` | each: length (varint), then its bytes |
//! | `check` | CRC-32 of all bytes before it, low byte first |
//!
//! Varints are of base 128, low group first. The numbers of the records are `first`, `first` + 1 and so on. A batch continues
//! after the number `first` - 1 - `lost`.

use crate::Stream;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use tieline_core::varint::{self, VarintError};
use tieline_core::{Cursor, Truncated};
use zstd_safe::{CCtx, DCtx};

const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const CHECK_BYTES: usize = 4;
/// The name of a site is this long at most, in bytes.
pub const SITE_BYTES_MAX: usize = 128;
/// The records of a batch take this many bytes at most, before they are compressed.
pub const RECORDS_BYTES_MAX: usize = 900_000;
/// A batch takes this many bytes at most: a message of the engine below may have a mebibyte.
pub const BATCH_BYTES_MAX: usize = RECORDS_BYTES_MAX + HEAD_BYTES_MAX + CHECK_BYTES;
/// All before the records, with integers as long as they can be.
const HEAD_BYTES_MAX: usize = 11 + 2 + SITE_BYTES_MAX + 4 * 10;
/// Below this a frame costs more than it saves.
const COMPRESSED_BYTES_MIN: usize = 128;
const LEVEL: i32 = 1;

/// Records with consecutive numbers, from one stream of one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whose.
    pub site: Box<str>,
    /// Which of its streams.
    pub stream: Stream,
    /// Of the numbers: a site that lost its own begins a higher one.
    pub epoch: u64,
    /// The number of the first record.
    pub first: u64,
    /// How many numbers directly below it can never come.
    pub lost: u64,
    /// The records; none of a question.
    pub records: Records,
}

impl Batch {
    /// The number after which it continues.
    #[must_use]
    pub const fn after(&self) -> u64 {
        self.first - 1 - self.lost
    }

    /// The number of its last record; of a question, of the record before it.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.first - 1 + self.records.count
    }

    /// Reads a batch; [`BatchReader`] reads many.
    ///
    /// # Errors
    /// The bytes are no batch; nothing is taken from them then.
    pub fn parse(bytes: &Bytes) -> Result<Self, BatchError> {
        BatchReader::default().read(bytes)
    }
}

/// Reads batches; it keeps what decompression needs between two of them.
#[derive(Default)]
pub struct BatchReader(Option<DCtx<'static>>);

impl fmt::Debug for BatchReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchReader").finish_non_exhaustive()
    }
}

impl BatchReader {
    /// Reads a batch.
    ///
    /// # Errors
    /// As [`Batch::parse`].
    pub fn read(&mut self, bytes: &Bytes) -> Result<Batch, BatchError> {
        let Some((covered, check)) = bytes.split_last_chunk::<CHECK_BYTES>() else { return Err(BatchError::Truncated) };
        if bytes.len() > BATCH_BYTES_MAX {
            return Err(BatchError::Illegal("length"));
        }
        let mut cursor = Cursor::new(covered);
        let version = cursor.u8()?;
        if version != VERSION {
            return Err(BatchError::Version(version));
        }
        if crc32fast::hash(covered) != u32::from_le_bytes(*check) {
            return Err(BatchError::Check);
        }
        let flags = cursor.u8()?;
        if flags & !COMPRESSED != 0 {
            return Err(BatchError::Illegal("flag"));
        }
        let stream = Stream::of_number(cursor.u8()?).ok_or(BatchError::Illegal("stream"))?;
        let epoch = cursor.u64_le()?;
        let site = site(&mut cursor)?;
        let (first, lost) = (varint::get(&mut cursor)?, varint::get(&mut cursor)?);
        let (count, size) = (varint::get(&mut cursor)?, varint::get_len(&mut cursor)?);
        if first == 0 || lost >= first || first.checked_add(count).is_none() {
            return Err(BatchError::Illegal("number"));
        }
        if size > RECORDS_BYTES_MAX {
            return Err(BatchError::Illegal("size"));
        }
        let records = match flags {
            COMPRESSED => self.decompress(cursor.rest(), size)?,
            _ => bytes.slice(covered.len() - cursor.left()..covered.len()),
        };
        Ok(Batch { site, stream, epoch, first, lost, records: Records::new(records, count, size)? })
    }

    fn decompress(&mut self, frame: &[u8], size: usize) -> Result<Bytes, BatchError> {
        let broken = BatchError::Illegal("Zstandard frame");
        // A block of 128 kB can be told in four bytes: what is promised is held against what came (RFC 8878 3.1.1.2.2).
        if size > frame.len().saturating_mul(32 * 1024) {
            return Err(broken);
        }
        if self.0.is_none() {
            self.0 = DCtx::try_create();
        }
        let context = self.0.as_mut().ok_or(broken)?;
        let mut records = alloc::vec![0; size];
        match context.decompress(records.as_mut_slice(), frame) {
            Ok(count) if count == size => Ok(records.into()),
            Ok(_) | Err(_) => Err(broken),
        }
    }
}

fn site(cursor: &mut Cursor<'_>) -> Result<Box<str>, BatchError> {
    let length = varint::get_len(cursor)?;
    if length == 0 || length > SITE_BYTES_MAX {
        return Err(BatchError::Illegal("name of a site"));
    }
    let name = core::str::from_utf8(cursor.take(length)?).map_err(|_| BatchError::Illegal("name of a site"))?;
    Ok(name.into())
}

/// The records of a batch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    bytes: Bytes,
    count: u64,
}

impl Records {
    fn new(bytes: Bytes, count: u64, size: usize) -> Result<Self, BatchError> {
        if bytes.len() != size {
            return Err(BatchError::Illegal("size"));
        }
        let (mut cursor, mut found) = (Cursor::new(&bytes), 0);
        while !cursor.is_empty() {
            let length = varint::get_len(&mut cursor)?;
            cursor.take(length)?;
            found += 1;
        }
        if found != count {
            return Err(BatchError::Illegal("count"));
        }
        Ok(Self { bytes, count })
    }

    /// How many.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that they take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Each, without a copy.
    pub fn iter(&self) -> impl Iterator<Item = Bytes> {
        let mut cursor = Cursor::new(&self.bytes);
        core::iter::from_fn(move || {
            let length = varint::get_len(&mut cursor).ok()?;
            Some(self.bytes.slice_ref(cursor.take(length).ok()?))
        })
    }
}

/// Writes batches; it keeps what compression needs between two of them.
#[derive(Default)]
pub struct BatchWriter {
    context: Option<CCtx<'static>>,
    packed: Vec<u8>,
}

impl fmt::Debug for BatchWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchWriter").finish_non_exhaustive()
    }
}

/// All of a batch but its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    pub(crate) site: &'a str,
    pub(crate) stream: Stream,
    pub(crate) epoch: u64,
    pub(crate) first: u64,
    pub(crate) lost: u64,
    pub(crate) count: u64,
}

impl BatchWriter {
    /// The bytes of a batch.
    pub fn emit(&mut self, batch: &Batch) -> Vec<u8> {
        let Batch { site, stream, epoch, first, lost, records } = batch;
        let head = Head { site, stream: *stream, epoch: *epoch, first: *first, lost: *lost, count: records.count };
        self.emit_parts(head, &records.bytes)
    }

    pub(crate) fn emit_parts(&mut self, head: Head<'_>, records: &[u8]) -> Vec<u8> {
        let is_compressed = self.pack(records);
        let body = if is_compressed { self.packed.as_slice() } else { records };
        let mut out = Vec::with_capacity(HEAD_BYTES_MAX + body.len() + CHECK_BYTES);
        out.extend([VERSION, u8::from(is_compressed), head.stream.number()]);
        out.extend(head.epoch.to_le_bytes());
        varint::put_len(&mut out, head.site.len());
        out.extend_from_slice(head.site.as_bytes());
        varint::put(&mut out, head.first);
        varint::put(&mut out, head.lost);
        varint::put(&mut out, head.count);
        varint::put_len(&mut out, records.len());
        out.extend_from_slice(body);
        let check = crc32fast::hash(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// Whether the records became shorter; `packed` has them then.
    fn pack(&mut self, records: &[u8]) -> bool {
        if records.len() < COMPRESSED_BYTES_MIN {
            return false;
        }
        if self.context.is_none() {
            self.context = CCtx::try_create();
        }
        let Some(context) = &mut self.context else { return false };
        // A frame that is not shorter has no space, and is given up.
        self.packed.resize(records.len() - 1, 0);
        let Ok(count) = context.compress(self.packed.as_mut_slice(), records, LEVEL) else { return false };
        self.packed.truncate(count);
        true
    }
}

/// Appends a record to the records of a batch.
pub(crate) fn push_record(record: &[u8], out: &mut Vec<u8>) {
    varint::put_len(out, record.len());
    out.extend_from_slice(record);
}

/// Why bytes are not a batch or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// They end too early.
    Truncated,
    /// A version that this release does not know.
    Version(u8),
    /// They were changed on their way.
    Check,
    /// A member that no writer makes; which.
    Illegal(&'static str),
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a batch ends too early"),
            Self::Version(found) => write!(f, "a batch has version {found}, expected {VERSION}"),
            Self::Check => f.write_str("the check of a batch does not fit its bytes"),
            Self::Illegal(what) => write!(f, "a batch has an illegal {what}"),
        }
    }
}

impl core::error::Error for BatchError {}

impl From<VarintError> for BatchError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLarge => Self::Illegal("number"),
        }
    }
}

impl From<Truncated> for BatchError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    fn records(of: &[Vec<u8>]) -> Records {
        let mut bytes = Vec::new();
        of.iter().for_each(|record| push_record(record, &mut bytes));
        Records { count: of.len() as u64, bytes: bytes.into() }
    }

    fn batch() -> impl Strategy<Value = (Batch, Vec<Vec<u8>>)> {
        let parts = ("[a-zä]{1,40}", 0..3_u8, any::<u64>(), 1..u64::MAX / 2, any::<u64>());
        let content = prop::collection::vec(prop::collection::vec(0..9_u8, 0..60), 0..40);
        (parts, content).prop_map(|((site, stream, epoch, first, lost), content)| {
            let site: String = site;
            let stream = Stream::of_number(stream).unwrap();
            let records = records(&content);
            (Batch { site: site.into(), stream, epoch, first, lost: lost % first, records }, content)
        })
    }

    proptest! {
        #[test]
        fn a_batch_that_was_written_reads_the_same((batch, content) in batch()) {
            let bytes = Bytes::from(BatchWriter::default().emit(&batch));
            let read = Batch::parse(&bytes).unwrap();
            prop_assert_eq!(&read, &batch);
            prop_assert_eq!(read.records.iter().map(|record| record.to_vec()).collect::<Vec<_>>(), content);
        }

        #[test]
        fn a_changed_or_short_batch_is_refused((batch, _) in batch(), at in any::<prop::sample::Index>(), bit in 0..8) {
            let bytes = BatchWriter::default().emit(&batch);
            let short = Bytes::copy_from_slice(&bytes[..at.index(bytes.len())]);
            prop_assert!(Batch::parse(&short).is_err());
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= 1_u8 << bit;
            prop_assert!(Batch::parse(&changed.into()).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_check_are_safe(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(version) = bytes.first_mut() {
                *version = VERSION;
            }
            let check = crc32fast::hash(&bytes);
            bytes.extend(check.to_le_bytes());
            let _ = Batch::parse(&bytes.into());
        }
    }

    #[test]
    fn history_becomes_shorter() {
        let samples: Vec<Vec<u8>> = (0..200).map(|i| alloc::format!("site/feeder/voltage {i}").into_bytes()).collect();
        let records = records(&samples);
        let size = records.size();
        let batch = Batch { site: "north".into(), stream: Stream::Live, epoch: 1, first: 1, lost: 0, records };
        assert!(BatchWriter::default().emit(&batch).len() < size / 2);
    }

    #[test]
    fn a_frame_cannot_promise_more_than_it_has() {
        let mut out = alloc::vec![VERSION, COMPRESSED, 0];
        out.extend(1_u64.to_le_bytes());
        out.extend([1, b'a', 1, 0, 1]);
        varint::put_len(&mut out, RECORDS_BYTES_MAX);
        out.extend([1; 8]);
        let check = crc32fast::hash(&out);
        out.extend(check.to_le_bytes());
        assert_eq!(Batch::parse(&out.into()), Err(BatchError::Illegal("Zstandard frame")));
    }
}
