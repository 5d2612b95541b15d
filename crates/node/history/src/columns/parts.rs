//! What the index says of a topic's day in a day file: of each hour what its samples are together, or, of few samples, the samples
//! themselves. A day of few is read from the index then: its neighbours there are days of the same topic, and not other topics.

use super::HOUR_US;
use bytes::Bytes;
use tieline_core::{Cursor, Timestamp, varint};
use tieline_series::{Chunk, Column, Origin, SeriesError, Span, Summary};

/// Samples of an hour.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) span: Span,
    /// The places of its samples among those of the row of the index.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) summary: Summary,
    /// The number that stands for its samples, where it is worth while to read them without those of the other hours.
    pub(super) check: Option<u64>,
}

/// A row of more samples has a number for each hour.
const READ_WHOLE_MAX: usize = 4096;

/// Behind it is a chunk. It is no number of hours: earlier releases find none, and read the day file.
const CHUNK_MARK: [u8; 10] = [u8::MAX; 10];
/// A row of more samples is not tried as a chunk: its hours take fewer bytes. Tests have few samples, and want both.
const CHUNK_SAMPLES_MAX: usize = if cfg!(test) { 12 } else { 1024 };

/// What the index has of a column: a chunk of its samples or, where that takes fewer bytes, its hours; behind them a number that stands
/// for all its samples, and one for those of each hour where there are many.
pub(crate) fn encode(column: &Column) -> Vec<u8> {
    let hours: Vec<Column> = column.cut_every(HOUR_US).collect();
    let mut out = encode_hours(&hours);
    out.extend(encode_checks(column, &hours));
    encode_chunk(column).filter(|chunk| chunk.len() <= out.len()).unwrap_or(out)
}

fn encode_chunk(column: &Column) -> Option<Vec<u8>> {
    let is_few = (1..=CHUNK_SAMPLES_MAX).contains(&column.len());
    is_few.then(|| {
        let mut out = CHUNK_MARK.to_vec();
        tieline_series::encode(column, Origin { first: 0, last: 0 }, &mut out);
        out
    })
}

/// The samples of a row of the index, where it has them and they are whole.
pub(super) fn chunk(bytes: &[u8]) -> Option<Chunk> {
    Chunk::parse(&Bytes::copy_from_slice(bytes.strip_prefix(&CHUNK_MARK)?)).ok()
}

fn encode_hours(hours: &[Column]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put_len(&mut out, hours.len());
    for hour in hours {
        let (first, last) = hour.ends().unwrap_or_default();
        varint::put_len(&mut out, hour.len());
        varint::put_signed(&mut out, first.micros());
        varint::put(&mut out, last.micros().wrapping_sub(first.micros()).cast_unsigned());
        Summary::of(hour).put(&mut out);
    }
    out
}

fn encode_checks(column: &Column, hours: &[Column]) -> Vec<u8> {
    let hours = if column.len() > READ_WHOLE_MAX { hours } else { &[] };
    let all = std::iter::once(column).chain(hours).map(Column::check);
    all.flat_map(u64::to_le_bytes).collect()
}

/// Whether the bytes say all of a column, and nothing else. Those of earlier releases have hours of few samples, too, and end before
/// the numbers, or behind the first.
pub(crate) fn says(bytes: &[u8], column: &Column) -> bool {
    if bytes.starts_with(&CHUNK_MARK) {
        return encode_chunk(column).is_some_and(|chunk| chunk == bytes);
    }
    let hours: Vec<Column> = column.cut_every(HOUR_US).collect();
    bytes.strip_prefix(encode_hours(&hours).as_slice()).is_some_and(|checks| {
        let all = encode_checks(column, &hours);
        all.starts_with(checks) && [0, size_of::<u64>(), all.len()].contains(&checks.len())
    })
}

/// Whether a column is what the bytes were made of; says true where they are of an earlier release that did not check it.
pub(super) fn is_of(bytes: &[u8], column: &Column) -> bool {
    if let Some(samples) = chunk(bytes).and_then(|chunk| chunk.samples().ok()) {
        return samples.check() == column.check();
    }
    let mut parts = decode(bytes);
    let is_read = parts.by_ref().all(|part| part.is_ok());
    let check = parts.cursor.rest().first_chunk().map(|check| u64::from_le_bytes(*check));
    !is_read || check.is_none_or(|check| check == column.check())
}

/// All hours of a row of the index.
///
/// # Errors
/// It is damaged.
pub(super) fn hours(bytes: &[u8]) -> Result<Vec<Part>, SeriesError> {
    let mut parts = decode(bytes);
    let mut hours = parts.by_ref().collect::<Result<Vec<_>, _>>()?;
    let (checks, _) = parts.cursor.rest().as_chunks();
    for (hour, check) in hours.iter_mut().zip(checks.iter().skip(1)) {
        hour.check = Some(u64::from_le_bytes(*check));
    }
    Ok(hours)
}

/// Reads them, one after the other, without the numbers that stand for their samples. An error is the last.
pub(super) const fn decode(bytes: &[u8]) -> Parts<'_> {
    Parts { cursor: Cursor::new(bytes), left: None, end: 0 }
}

/// The hours of a row of the index, as they are read.
pub(super) struct Parts<'b> {
    cursor: Cursor<'b>,
    /// How many are left; none before their number was read.
    left: Option<usize>,
    /// The place behind the samples of the last one.
    end: usize,
}

impl Parts<'_> {
    fn part(&mut self) -> Result<Part, SeriesError> {
        let (start, cursor) = (self.end, &mut self.cursor);
        self.end = start.saturating_add(varint::get_len(cursor)?);
        let (first, span) = (varint::get_signed(cursor)?, varint::get(cursor)?);
        let [first, last] = [first, first.wrapping_add(span.cast_signed())].map(Timestamp::from_micros);
        Ok(Part { span: Span { first, last }, start, end: self.end, summary: Summary::get(cursor)?, check: None })
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Part, SeriesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = match self.left {
            Some(left) => left,
            None => match varint::get_len(&mut self.cursor) {
                Ok(count) => count,
                Err(error) => {
                    self.left = Some(0);
                    return Some(Err(error.into()));
                }
            },
        };
        self.left = Some(left.checked_sub(1)?);
        let part = self.part();
        if part.is_err() {
            self.left = Some(0);
        }
        Some(part)
    }
}
