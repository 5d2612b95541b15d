//! Why bytes are not a chunk.

use core::fmt;
use tieline_core::Truncated;
use tieline_core::varint::VarintError;

/// Why bytes are not a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesError {
    /// They end too early.
    Truncated,
    /// They are damaged: their check does not fit.
    Damaged,
    /// A version that this release does not know.
    Version(u8),
    /// A member that no writer makes; which.
    Illegal(&'static str),
}

impl fmt::Display for SeriesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a chunk of samples ends too early"),
            Self::Damaged => f.write_str("a chunk of samples is damaged: its check does not fit"),
            Self::Version(found) => {
                write!(f, "a chunk of samples has version {found}, expected {}", crate::chunk::VERSION)
            }
            Self::Illegal(what) => write!(f, "a chunk of samples has an illegal {what}"),
        }
    }
}

impl core::error::Error for SeriesError {}

impl From<Truncated> for SeriesError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<VarintError> for SeriesError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLarge => Self::Illegal("number"),
        }
    }
}
