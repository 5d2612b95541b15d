//! Bytes that are no record.

use crate::record::{PLACED, VERSION};
use core::fmt;
use tieline_core::Truncated;
use tieline_core::varint::VarintError;

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// They end too early.
    Truncated,
    /// A version that this release does not know.
    Version(u8),
    /// A change that this release does not know.
    Tag(u8),
    /// A member that no writer makes; which.
    Illegal(&'static str),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a record of the ledger ends too early"),
            Self::Version(found) => {
                write!(f, "a record of the ledger has version {found}, expected {VERSION} or {PLACED}")
            }
            Self::Tag(found) => write!(f, "a record of the ledger has a change of kind {found}, which is not known"),
            Self::Illegal(what) => write!(f, "a record of the ledger has an illegal {what}"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<VarintError> for RecordError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLarge => Self::Illegal("number"),
        }
    }
}

impl From<Truncated> for RecordError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}
