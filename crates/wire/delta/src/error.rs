//! Why a payload could not be applied.

use crate::{CodecId, Low};
use core::fmt;
use tieline_core::Truncated;
use tieline_core::varint::VarintError;

/// A payload that says nothing about the topic's value. The decoder holds its last value and waits for a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaError {
    /// A payload before this one was lost.
    Gap {
        /// The revision that is held.
        have: Low,
        /// The revision that the delta starts from.
        base: Low,
    },
    /// A delta came before any whole value.
    NoBase,
    /// The delta is for a value of another form: a point for bytes or bytes for a point.
    WrongForm,
    /// The bytes break the rules of docs/delta.md.
    Malformed(&'static str),
    /// The value would be longer than this decoder takes, in bytes.
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// The value that came out is not the sender's: its CRC-32 differs.
    Mismatch,
    /// This build does not know the codec.
    UnknownCodec(CodecId),
}

impl fmt::Display for DeltaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { have, base } => write!(f, "a delta from revision {base} while revision {have} is held"),
            Self::NoBase => f.write_str("a delta before any whole value"),
            Self::WrongForm => f.write_str("a delta for a value of another form"),
            Self::Malformed(what) => write!(f, "malformed delta: {what}"),
            Self::TooLong { bytes_max } => write!(f, "a value of more than {bytes_max} bytes"),
            Self::Mismatch => f.write_str("the value's CRC-32 is not the sender's"),
            Self::UnknownCodec(id) => write!(f, "codec {} is not in this build", id.0),
        }
    }
}

impl core::error::Error for DeltaError {}

impl From<Truncated> for DeltaError {
    fn from(_: Truncated) -> Self {
        Self::Malformed("it ends too early")
    }
}

impl From<VarintError> for DeltaError {
    fn from(error: VarintError) -> Self {
        Self::Malformed(match error {
            VarintError::Truncated => "it ends too early",
            VarintError::TooLarge => "an integer of more than 64 bits",
        })
    }
}
