//! The hours of a topic's day in a day file: what each of them says of itself, in the index.

use super::HOUR_US;
use tieline_core::{Cursor, Timestamp, varint};
use tieline_series::{Column, SeriesError, Span, Summary};

/// Samples of an hour.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) span: Span,
    /// The places of its samples among those of the row of the index.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) summary: Summary,
}

/// The hours of a column as the index has them.
pub(crate) fn encode(column: &Column) -> Vec<u8> {
    let mut out = Vec::new();
    let hours: Vec<Column> = column.cut_every(HOUR_US).collect();
    varint::put_len(&mut out, hours.len());
    for hour in hours {
        let (first, last) = hour.ends().unwrap_or_default();
        varint::put_len(&mut out, hour.len());
        varint::put_signed(&mut out, first.micros());
        varint::put(&mut out, last.micros().wrapping_sub(first.micros()).cast_unsigned());
        Summary::of(&hour).put(&mut out);
    }
    out
}

/// Reads them.
///
/// # Errors
/// The bytes are none that [`encode`] writes.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Part>, SeriesError> {
    let mut cursor = Cursor::new(bytes);
    let (count, mut parts, mut start) = (varint::get_len(&mut cursor)?, Vec::new(), 0_usize);
    for _ in 0..count {
        let end = start.saturating_add(varint::get_len(&mut cursor)?);
        let (first, span) = (varint::get_signed(&mut cursor)?, varint::get(&mut cursor)?);
        let [first, last] = [first, first.wrapping_add(span.cast_signed())].map(Timestamp::from_micros);
        parts.push(Part { span: Span { first, last }, start, end, summary: Summary::get(&mut cursor)? });
        start = end;
    }
    Ok(parts)
}
