//! Points by field.
//!
//! A [`PointState`] is a point and what its next delta is told against: how the number is kept, the unit of time, and
//! the usual step of it. Both sides hold the same state at the same revision, however they came to it, because
//! whole values carry all of it and deltas say every change of it.

mod encode;
mod number;
mod step;
mod whole;

pub(crate) use encode::PointEncoder;

use alloc::vec::Vec;
use number::Number;
use tieline_core::{Point, Quality, Timestamp};

/// A point as the codec `point` keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct PointState {
    number: Number,
    quality: Quality,
    /// Microseconds since 1970.
    micros: i64,
    unit: Unit,
    /// The expected time from one update to the next, in units.
    step: i64,
}

impl PointState {
    /// The point.
    #[must_use]
    pub fn to_point(&self) -> Point {
        Point { value: self.number.to_value(), quality: self.quality, time: Timestamp::from_micros(self.micros) }
    }

    /// CRC-32 of the whole form.
    pub(crate) fn crc(&self) -> u32 {
        let mut whole = Vec::with_capacity(32);
        self.emit(&mut whole);
        crc32fast::hash(&whole)
    }

    /// Whether the value is text or bytes.
    pub(crate) const fn is_long(&self) -> bool {
        matches!(self.number, Number::Text(_) | Number::Bytes(_))
    }
}

/// What times are counted in, the finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Micros,
    Millis,
    Seconds,
}

impl Unit {
    const fn micros(self) -> i64 {
        match self {
            Self::Micros => 1,
            Self::Millis => 1000,
            Self::Seconds => 1_000_000,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Micros => 0,
            Self::Millis => 1,
            Self::Seconds => 2,
        }
    }

    const fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Micros),
            1 => Some(Self::Millis),
            2 => Some(Self::Seconds),
            _ => None,
        }
    }

    /// The largest unit that counts so many microseconds exactly.
    const fn of(micros: i64) -> Self {
        if micros % 1_000_000 == 0 {
            Self::Seconds
        } else if micros % 1000 == 0 {
            Self::Millis
        } else {
            Self::Micros
        }
    }
}

#[cfg(test)]
mod tests;
