//! Columns taken apart, for formats of others.

use crate::SeriesError;
use crate::column::{Column, Kind};
use crate::runs::Runs;
use alloc::vec::Vec;
use bytes::Bytes;

/// The samples of a column, field by field, for formats of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Microseconds since 1970.
    pub times: Vec<i64>,
    /// Kinds, each with how many samples have it one after the other: 0 double, 1 integer, 2 two-state, 3 text, 4 bytes, 5 nothing, 6 a
    /// payload as published.
    pub kinds: Vec<(u8, usize)>,
    /// The bits of qualities, likewise.
    pub qualities: Vec<(u16, usize)>,
    /// Of doubles.
    pub floats: Vec<f64>,
    /// Of integers and two-state values.
    pub integers: Vec<i64>,
    /// Of all others that are something.
    pub blobs: Vec<Bytes>,
}

impl From<Column> for Fields {
    fn from(column: Column) -> Self {
        let Column { times, qualities, kinds, floats, integers, blobs, .. } = column;
        let kinds = kinds.runs().iter().map(|(kind, length)| (*kind as u8, *length)).collect();
        Self { times, kinds, qualities: qualities.runs().to_vec(), floats, integers, blobs }
    }
}

impl TryFrom<Fields> for Column {
    type Error = SeriesError;

    fn try_from(fields: Fields) -> Result<Self, SeriesError> {
        const ILLEGAL: SeriesError = SeriesError::Illegal("number of values");
        let Fields { times, kinds: numbers, qualities: bits, floats, integers, blobs } = fields;
        let (mut kinds, mut qualities) = (Runs::default(), Runs::default());
        let (mut float_count, mut integer_count, mut blob_count, mut count) = (0, 0, 0, 0);
        for (number, length) in numbers.into_iter().filter(|(_, length)| *length > 0) {
            let kind = Kind::from_number(number.into()).ok_or(SeriesError::Illegal("kind"))?;
            match kind {
                Kind::Float => float_count += length,
                Kind::Int | Kind::Bool => integer_count += length,
                Kind::Text | Kind::Bytes | Kind::Opaque => blob_count += length,
                Kind::Null => {}
            }
            count += length;
            kinds.push_many(kind, length);
        }
        let runs = bits.into_iter().filter(|(_, length)| *length > 0);
        let qualities_count = runs.map(|(bits, length)| {
            qualities.push_many(bits, length);
            length
        });
        let is_whole = (count, qualities_count.sum::<usize>()) == (times.len(), times.len());
        let fits = (float_count, integer_count, blob_count) == (floats.len(), integers.len(), blobs.len());
        if !is_whole || !fits {
            return Err(ILLEGAL);
        }
        let (is_unsorted, blob_bytes) = (!times.is_sorted(), blobs.iter().map(Bytes::len).sum());
        Ok(Self { times, qualities, kinds, floats, integers, blobs, blob_bytes, is_unsorted })
    }
}
