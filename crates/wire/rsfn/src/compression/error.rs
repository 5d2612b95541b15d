//! Why compressed content is not read.

use crate::{ErrorCode, Fault};
use core::fmt;

/// What is wrong with compressed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateError {
    /// It begins neither like gzip nor like zip.
    NotCompressed,
    /// It ends before the file does.
    Truncated,
    /// Its frame or its DEFLATE data break the format.
    Malformed,
    /// Checksum or length differ from what was decompressed.
    Checksum,
    /// It uses what is not read here: encryption, several files in a zip, a method other than stored and deflated,
    /// a frame of more than 64 KiB.
    Unsupported,
    /// It is larger, decompressed, than the receiver takes.
    TooLarge {
        /// Bytes that are taken.
        limit: u64,
    },
    /// It grows more than the receiver takes.
    Ratio {
        /// Bytes that one may become.
        limit: u32,
    },
}

impl InflateError {
    /// The value of C03 that tells it: 13 when the content is not what C04 says, FF for limits of the receiver.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::NotCompressed | Self::Truncated | Self::Malformed | Self::Checksum => Fault::Treatment.code(),
            Self::Unsupported | Self::TooLarge { .. } | Self::Ratio { .. } => Fault::OutOfScope.code(),
        }
    }
}

impl fmt::Display for InflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCompressed => f.write_str("the content is neither gzip nor zip"),
            Self::Truncated => f.write_str("the compressed content ends too early"),
            Self::Malformed => f.write_str("the compressed content is damaged"),
            Self::Checksum => f.write_str("the checksum of the compressed content does not match"),
            Self::Unsupported => f.write_str("the compressed content uses what is not read here"),
            Self::TooLarge { limit } => write!(f, "the content is larger than {limit} bytes when decompressed"),
            Self::Ratio { limit } => write!(f, "the content grows more than {limit} times when decompressed"),
        }
    }
}

impl core::error::Error for InflateError {}
