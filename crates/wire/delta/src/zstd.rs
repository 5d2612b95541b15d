//! Zstandard with the base as its prefix: for long values that are re-ordered or written again.
//!
//! The delta is one Zstandard frame (RFC 8878) that says its content's size and was compressed with the base as raw
//! dictionary content, without a dictionary's number.

use crate::{Codec, CodecId, DeltaError};
use alloc::vec::Vec;
use zstd_safe::{CCtx, DCtx};

/// Levels below 1 save nothing that a sender of small values would notice.
const LEVEL: i32 = 1;
/// Values shorter than this are left to other codecs: a frame and its tables cost more.
const VALUE_BYTES_MIN: usize = 256;
/// A base that begins so would be taken for a trained dictionary (RFC 8878 section 5).
const DICTIONARY: [u8; 4] = 0xEC30_A437_u32.to_le_bytes();

/// The codec `zstd`.
#[derive(Default)]
pub struct Zstd {
    compress: Option<CCtx<'static>>,
    decompress: Option<DCtx<'static>>,
}

impl Codec for Zstd {
    fn id(&self) -> CodecId {
        CodecId::ZSTD
    }

    fn name(&self) -> &'static str {
        "zstd"
    }

    fn diff(&mut self, base: &[u8], value: &[u8], delta_bytes_max: usize, out: &mut Vec<u8>) -> bool {
        if value.len() < VALUE_BYTES_MIN || base.starts_with(&DICTIONARY) {
            return false;
        }
        if self.compress.is_none() {
            self.compress = CCtx::try_create();
        }
        let Some(context) = &mut self.compress else { return false };
        let start = out.len();
        out.resize(start + delta_bytes_max, 0);
        let space = out.get_mut(start..).unwrap_or_default();
        let Ok(count) = context.compress_using_dict(space, value, base, LEVEL) else { return false };
        out.truncate(start + count);
        true
    }

    fn apply(
        &mut self,
        base: &[u8],
        delta: &[u8],
        value_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DeltaError> {
        let size = zstd_safe::get_frame_content_size(delta).ok().flatten();
        let size = size.ok_or(DeltaError::Malformed("not a Zstandard frame that says its size"))?;
        let too_long = DeltaError::TooLong { bytes_max: value_bytes_max };
        let size = usize::try_from(size).ok().filter(|&size| size <= value_bytes_max).ok_or(too_long)?;
        // A block of 128 kB can be told in four bytes: what is promised is held against what came (RFC 8878 3.1.1.2.2).
        let possible = delta.len().saturating_mul(32 * 1024).saturating_add(base.len());
        if size > possible || base.starts_with(&DICTIONARY) {
            return Err(DeltaError::Malformed("a Zstandard frame that promises too much"));
        }
        if self.decompress.is_none() {
            self.decompress = DCtx::try_create();
        }
        let context = self.decompress.as_mut().ok_or(DeltaError::UnknownCodec(CodecId::ZSTD))?;
        out.resize(size, 0);
        match context.decompress_using_dict(out.as_mut_slice(), delta, base) {
            Ok(count) if count == size => Ok(()),
            _ => Err(DeltaError::Malformed("a Zstandard frame that does not fit the base")),
        }
    }
}
