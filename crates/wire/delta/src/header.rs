//! The first byte of every payload.
//!
//! ```text
//!  7   6   5   4   3   2   1   0
//! [   kind   ][   revision % 32   ]
//! ```

use crate::{CodecId, DeltaError};
use core::fmt;
use tieline_core::Cursor;

/// The count of a topic's updates on its server, as far as one run of the server counts. It wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision(pub u32);

impl Revision {
    /// The part that payloads carry.
    #[must_use]
    pub const fn low(self) -> Low {
        Low((self.0 & 31) as u8)
    }

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Updates from `earlier` to this one; a huge number when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// A revision modulo 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Low(u8);

impl Low {
    /// The low five bits of a number.
    #[must_use]
    pub const fn new(bits: u8) -> Self {
        Self(bits & 31)
    }

    /// The number, 0 to 31.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The revision `count` updates later.
    #[must_use]
    pub const fn after(self, count: u8) -> Self {
        Self::new(self.0.wrapping_add(count & 31))
    }

    /// Updates from `earlier` to this one, if they are fewer than 32.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u8 {
        self.0.wrapping_sub(earlier.0) & 31
    }

    /// Whether a payload that leads to this revision carries the value's CRC-32.
    #[must_use]
    pub const fn is_checked(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Low {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes, whole. The revision is the value's.
    Bytes,
    /// A point, whole. The revision is the value's.
    Point,
    /// The same value was published again: one update.
    Same,
    /// One update by a codec. The revision is the base's here and below.
    Delta(CodecId),
    /// Several updates at once, or none (a check).
    Several,
}

/// Kind and revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// The value's revision for whole values, the base's otherwise.
    pub revision: Low,
}

impl Header {
    /// Reads one byte, and a second one where the codec is an owner's.
    ///
    /// # Errors
    /// The bytes end, or the codec's number is not one of an owner.
    pub fn parse(cursor: &mut Cursor<'_>) -> Result<Self, DeltaError> {
        let first = cursor.u8()?;
        let kind = match first >> 5 {
            0 => Kind::Bytes,
            1 => Kind::Point,
            5 => Kind::Same,
            6 => Kind::Several,
            7 => Kind::Delta(own_codec(cursor.u8()?)?),
            codec => Kind::Delta(CodecId(codec)),
        };
        Ok(Self { kind, revision: Low::new(first) })
    }

    /// Its bytes.
    pub fn emit(self, out: &mut alloc::vec::Vec<u8>) {
        let first = |kind: u8| kind << 5 | self.revision.bits();
        match self.kind {
            Kind::Bytes => out.push(first(0)),
            Kind::Point => out.push(first(1)),
            Kind::Same => out.push(first(5)),
            Kind::Several => out.push(first(6)),
            Kind::Delta(CodecId(own)) if CodecId::OWN.contains(&own) => out.extend_from_slice(&[first(7), own]),
            Kind::Delta(CodecId(codec)) => out.push(first(codec & 7)),
        }
    }
}

fn own_codec(byte: u8) -> Result<CodecId, DeltaError> {
    if CodecId::OWN.contains(&byte) { Ok(CodecId(byte)) } else { Err(DeltaError::Malformed("not a codec's number")) }
}
