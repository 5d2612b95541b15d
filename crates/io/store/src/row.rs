//! One row of an answer, and its place in it.

use std::fmt;
use std::str::FromStr;
use tieline_core::{Point, Topic, Value};

/// One answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose.
    pub topic: Topic,
    /// Value, quality and time; of a bucket the aggregate, all reasons against the samples in it, and its beginning. A
    /// payload as published is text where it is UTF-8, else bytes.
    pub point: Point,
    /// Whether it is a message as it was published, which is no point.
    pub is_payload: bool,
    /// How many samples it stands for; 1 for a sample itself.
    pub count: u64,
    /// How many rows of the same topic and time are before it.
    pub number: u64,
    /// The edit that changed or added it last; of a bucket the last whose time meets it.
    pub edited: Option<u64>,
}

impl Row {
    /// Where to go on behind this row.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { time_us: self.point.time.micros(), number: self.number, topic: self.topic.clone() }
    }

    /// What its value is.
    #[must_use]
    pub const fn kind(&self) -> ValueKind {
        match (&self.point.value, self.is_payload) {
            (Value::Null, _) => ValueKind::Null,
            (Value::Bool(_), _) => ValueKind::Boolean,
            (Value::Int(_), _) => ValueKind::Integer,
            (Value::Float(_), _) => ValueKind::Double,
            (Value::Text(_), false) => ValueKind::Text,
            (Value::Bytes(_), false) => ValueKind::Bytes,
            (Value::Text(_), true) => ValueKind::Payload,
            (Value::Bytes(_), true) => ValueKind::PayloadBytes,
        }
    }
}

/// What a value is, where its text alone does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// No value.
    Null,
    /// A two-state value.
    Boolean,
    /// An integer.
    Integer,
    /// A double.
    Double,
    /// A text.
    Text,
    /// Bytes, as hexadecimal digits.
    Bytes,
    /// A payload as it was published, which is UTF-8 and no point.
    Payload,
    /// The same of bytes that are no UTF-8, as hexadecimal digits.
    PayloadBytes,
}

impl ValueKind {
    const ALL: [(&'static str, Self); 8] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("double", Self::Double),
        ("text", Self::Text),
        ("bytes", Self::Bytes),
        ("payload", Self::Payload),
        ("payload_bytes", Self::PayloadBytes),
    ];

    /// Its word in exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The kind of that word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// A row's place in an answer. As text: `<microseconds>.<number>.<topic>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The time of the row in microseconds since 1970.
    pub time_us: i64,
    /// How many rows of the same topic and time are before it.
    pub number: u64,
    /// Whose.
    pub topic: Topic,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.time_us, self.number, self.topic)
    }
}

/// A text that is not a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceError;

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a place as an earlier answer gave it: <microseconds>.<number>.<topic>")
    }
}

impl std::error::Error for PlaceError {}

impl FromStr for Place {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(PlaceError);
        let time_us = part()?.parse().map_err(|_| PlaceError)?;
        let number = part()?.parse().map_err(|_| PlaceError)?;
        Ok(Self { time_us, number, topic: part()?.parse().map_err(|_| PlaceError)? })
    }
}
