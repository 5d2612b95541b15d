//! A sample on its way in, a row on its way out, and the columns between.

use crate::query::Place;
use rusqlite::types::{ToSqlOutput, ValueRef};
use tieline_core::{Body, Point, Quality, Timestamp, Topic, Value};

/// One topic's state at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Whose.
    pub topic: Topic,
    /// When.
    pub time: Timestamp,
    /// What. A point's own time is not looked at.
    pub body: Body,
    /// Whether it may be stored already: it is left out where one that is equal is.
    pub again: bool,
}

/// One answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose.
    pub topic: Topic,
    /// Value, quality and time; of a bucket the aggregate, all reasons against the samples in it, and its beginning. A
    /// payload as published is text where it is UTF-8, else bytes.
    pub point: Point,
    /// How many samples it stands for; 1 for a sample itself.
    pub count: u64,
    /// Where to go on behind this row.
    pub place: Place,
}

pub(crate) const KIND_FLOAT: u8 = 0;
const KIND_INT: u8 = 1;
const KIND_BOOL: u8 = 2;
const KIND_TEXT: u8 = 3;
const KIND_BYTES: u8 = 4;
const KIND_NULL: u8 = 5;
const KIND_OPAQUE: u8 = 6;

/// The columns `kind`, `value` and `quality` of a body.
pub(crate) fn columns(body: &Body) -> (u8, ToSqlOutput<'_>, u16) {
    let (kind, value, quality) = match body {
        Body::Opaque(bytes) => (KIND_OPAQUE, ValueRef::Blob(bytes), Quality::GOOD),
        Body::Point(point) => typed(&point.value, point.quality),
        Body::Published(point) => typed(point.value(), point.quality()),
    };
    (kind, ToSqlOutput::Borrowed(value), quality.bits())
}

fn typed(value: &Value, quality: Quality) -> (u8, ValueRef<'_>, Quality) {
    let (kind, value) = match value {
        Value::Null => (KIND_NULL, ValueRef::Null),
        Value::Bool(b) => (KIND_BOOL, ValueRef::Integer(i64::from(*b))),
        Value::Int(i) => (KIND_INT, ValueRef::Integer(*i)),
        Value::Float(x) => (KIND_FLOAT, float(*x)),
        Value::Text(text) => (KIND_TEXT, ValueRef::Text(text.as_bytes())),
        Value::Bytes(bytes) => (KIND_BYTES, ValueRef::Blob(bytes)),
    };
    (kind, value, quality)
}

/// A whole number below 2^47 takes at most six bytes as an integer, and eight as a double.
fn float(x: f64) -> ValueRef<'static> {
    #[expect(clippy::cast_possible_truncation, reason = "the way back is compared bit by bit")]
    let whole = x as i64;
    if x.is_nan() {
        ValueRef::Null
    } else if whole.unsigned_abs() < 1 << 47 && to_f64(whole).to_bits() == x.to_bits() {
        ValueRef::Integer(whole)
    } else {
        ValueRef::Real(x)
    }
}

#[expect(clippy::cast_precision_loss, reason = "only integers below 2^47 were written for doubles")]
const fn to_f64(i: i64) -> f64 {
    i as f64
}

/// The value of a row's columns; none where they were not written by [`columns`].
pub(crate) fn value(kind: u8, value: ValueRef<'_>) -> Option<Value> {
    Some(match (kind, value) {
        (KIND_FLOAT, ValueRef::Null) => Value::Float(f64::NAN),
        (KIND_FLOAT, ValueRef::Integer(i)) => Value::Float(to_f64(i)),
        (KIND_FLOAT, ValueRef::Real(x)) => Value::Float(x),
        (KIND_INT, ValueRef::Integer(i)) => Value::Int(i),
        (KIND_BOOL, ValueRef::Integer(i)) => Value::Bool(i != 0),
        (KIND_TEXT, ValueRef::Text(text)) => Value::Text(str::from_utf8(text).ok()?.into()),
        (KIND_BYTES, ValueRef::Blob(bytes)) => Value::Bytes(bytes.into()),
        (KIND_NULL, ValueRef::Null) => Value::Null,
        (KIND_OPAQUE, ValueRef::Blob(bytes)) => match str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.into()),
            Err(_) => Value::Bytes(bytes.into()),
        },
        _ => return None,
    })
}
