//! One row of an answer, and its place in it.

use std::fmt;
use std::str::FromStr;
use tieline_core::{Point, Topic};

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
}

impl Row {
    /// Where to go on behind this row.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { time_us: self.point.time.micros(), number: self.number, topic: self.topic.clone() }
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
