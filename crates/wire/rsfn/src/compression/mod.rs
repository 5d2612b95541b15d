//! Compressed files: gzip (RFC 1952) is written; gzip and zip (APPNOTE 6.3) with one file are read, told apart by
//! their first bytes. DEFLATE itself is `miniz_oxide`'s.
//!
//! What is read is hostile until proven otherwise, and so is what comes out: size and ratio have limits, and a piece
//! of input gives at most [`PIECE_BYTES_MAX`] at a time.

mod error;
mod frame;
mod inflater;
mod writer;

pub use error::InflateError;
pub use inflater::{InflateProgress, Inflater, PIECE_BYTES_MAX};
pub use writer::{GzipWriter, gzip};

use alloc::vec::Vec;

/// How far compressed content may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflateLimits {
    /// Bytes of the content, decompressed, at most.
    pub bytes_max: u64,
    /// Bytes that each byte of input may become, at most. DEFLATE can do 1032; XML of many equal records reaches
    /// about 100. The first 64 KiB are free.
    pub ratio_max: u32,
}

impl Default for InflateLimits {
    /// 1 GiB, and 250 bytes from one.
    fn default() -> Self {
        Self { bytes_max: 1 << 30, ratio_max: 250 }
    }
}

/// Whether content begins like gzip or zip.
#[must_use]
pub fn is_compressed(content: &[u8]) -> bool {
    content.starts_with(&frame::GZIP) || content.starts_with(&frame::ZIP_FILE)
}

/// Decompresses content that is in memory. Zeros behind gzip, up to the 7 that protocol 2 pads with, are ignored.
///
/// # Errors
/// It is not compressed, is damaged, or grows beyond a limit; nothing is kept then.
pub fn inflate(content: &[u8], limits: InflateLimits) -> Result<Vec<u8>, InflateError> {
    let (mut inflater, mut out, mut rest) = (Inflater::new(limits), Vec::new(), content);
    loop {
        let progress = inflater.feed(rest, &mut out)?;
        rest = rest.get(progress.used..).unwrap_or_default();
        if rest.is_empty() && !progress.more {
            inflater.finish()?;
            return Ok(out);
        }
    }
}
