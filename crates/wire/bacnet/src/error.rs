//! What a peer can do wrong on the wire.

use core::fmt;
use tieline_core::Truncated;

/// A rule of the standard that received bytes break, or a thing that no machine of this crate takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before a value does.
    Truncated(Truncated),
    /// Bytes follow the last value.
    Trailing(usize),
    /// Something else stands where this was expected.
    Expected(&'static str),
    /// A length, count or number is out of range.
    Range(&'static str),
    /// Constructed values stand inside each other deeper than [`crate::DEPTH_MAX`].
    TooDeep,
}

impl From<Truncated> for DecodeError {
    fn from(error: Truncated) -> Self {
        Self::Truncated(error)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(truncated) => write!(f, "the message ends inside a value: {truncated}"),
            Self::Trailing(count) => write!(f, "{count} bytes follow the last value"),
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::Range(what) => write!(f, "{what} is out of range"),
            Self::TooDeep => write!(f, "constructed values nested deeper than {}", crate::DEPTH_MAX),
        }
    }
}

impl core::error::Error for DecodeError {}

/// The result of decoding.
pub type Decoded<T> = Result<T, DecodeError>;
