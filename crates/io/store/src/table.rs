//! Rows column by column, as columnar formats have them.

use crate::day_file::{BOOL, FLOAT, INT};
use crate::export::plain;
use crate::{Fields, Row, ValueKind};
use tieline_core::{Quality, Topic, Validity, Value};

/// Rows that lie together in an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Samples of one topic: numbers, two-state values or nothing.
    Samples(Topic, Fields),
    /// A row.
    Row(Row),
}

impl Piece {
    /// How many rows they are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        match self {
            Self::Samples(_, fields) => fields.times.len(),
            Self::Row(_) => 1,
        }
    }
}

/// Rows, column by column, until they are written as one group.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Topics, each with how many rows it has one after the other.
    pub topics: Vec<(Topic, usize)>,
    pub times: Vec<i64>,
    /// Where there is none, 0.
    pub values: Vec<f64>,
    pub value_there: Vec<bool>,
    /// What the double does not say of the value, by row.
    pub texts: Vec<(usize, String)>,
    pub text_bytes: usize,
    /// Qualities, each with how many rows have it one after the other.
    pub qualities: Vec<(Quality, usize)>,
    pub counts: Vec<i64>,
    /// What values are, each with how many rows have such one after the other.
    pub kinds: Vec<(ValueKind, usize)>,
}

/// Bytes of texts that are held.
const TEXT_BYTES_MAX: usize = 8 << 20;

impl Table {
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// Whether so many rows are there, or as much as is to be in memory.
    pub fn is_full(&self, rows_max: usize) -> bool {
        self.rows() >= rows_max || self.text_bytes >= TEXT_BYTES_MAX
    }

    /// Empties it for other rows, in the room that it has.
    pub fn clear(&mut self) {
        let Self { topics, times, values, value_there, texts, text_bytes, qualities, counts, kinds } = self;
        topics.clear();
        times.clear();
        values.clear();
        value_there.clear();
        texts.clear();
        *text_bytes = 0;
        qualities.clear();
        counts.clear();
        kinds.clear();
    }

    pub fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Samples(topic, fields) => self.extend(topic, fields),
            Piece::Row(row) => self.row(row),
        }
    }

    fn row(&mut self, row: Row) {
        self.kind(row.kind(), 1);
        let Row { topic, point, count, .. } = row;
        self.topic(topic, 1);
        let number = point.value.as_f64();
        self.values.push(number.unwrap_or_default());
        self.value_there.push(number.is_some());
        self.text(&point.value);
        self.times.push(point.time.micros());
        self.quality(point.quality, 1);
        self.counts.push(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn extend(&mut self, topic: Topic, fields: Fields) {
        let Fields { times, kinds, qualities, floats, integers, .. } = fields;
        self.topic(topic, times.len());
        self.counts.resize(self.times.len() + times.len(), 1);
        let (mut floats, mut integers) = (floats.as_slice(), integers.as_slice());
        for (kind, count) in kinds {
            let start = self.values.len();
            self.value_there.resize(start + count, kind <= BOOL);
            self.kind(kind_of(kind), count);
            match kind {
                FLOAT => self.values.extend_from_slice(floats.split_off(..count).unwrap_or_default()),
                INT | BOOL => self.integers(integers.split_off(..count).unwrap_or_default()),
                _ => {}
            }
            self.values.resize(start + count, 0.0);
        }
        qualities.into_iter().for_each(|(bits, count)| self.quality(Quality::from_bits(bits), count));
        self.times.extend(times);
    }

    fn integers(&mut self, integers: &[i64]) {
        for integer in integers {
            #[expect(clippy::cast_precision_loss, reason = "the exact integer is the text")]
            self.values.push(*integer as f64);
            self.text(&Value::Int(*integer));
        }
    }

    /// What the double of the last row does not say.
    fn text(&mut self, value: &Value) {
        if !is_exact(value) {
            let text = plain(value);
            self.text_bytes += text.len();
            self.texts.push((self.values.len() - 1, text));
        }
    }

    fn topic(&mut self, topic: Topic, count: usize) {
        match self.topics.last_mut() {
            Some((last, before)) if *last == topic => *before += count,
            Some(_) | None => self.topics.push((topic, count)),
        }
    }

    fn kind(&mut self, kind: ValueKind, count: usize) {
        match self.kinds.last_mut() {
            Some((last, before)) if *last == kind => *before += count,
            Some(_) | None => self.kinds.push((kind, count)),
        }
    }

    fn quality(&mut self, quality: Quality, count: usize) {
        match self.qualities.last_mut() {
            Some((last, before)) if *last == quality => *before += count,
            Some(_) | None => self.qualities.push((quality, count)),
        }
    }
}

/// What samples of a kind are, of those that a piece has.
const fn kind_of(kind: u8) -> ValueKind {
    match kind {
        FLOAT => ValueKind::Double,
        INT => ValueKind::Integer,
        BOOL => ValueKind::Boolean,
        _ => ValueKind::Null,
    }
}

/// The words of qualities, by number.
pub(crate) const VALIDITIES: [Validity; 3] = [Validity::Good, Validity::Uncertain, Validity::Bad];

/// Whether the column of doubles says all of the value.
const fn is_exact(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Float(_) => true,
        Value::Int(i) => i.unsigned_abs() <= 1 << 53,
        Value::Text(_) | Value::Bytes(_) => false,
    }
}
