//! Writing gzip (RFC 1952).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use miniz_oxide::deflate::CompressionLevel;
use miniz_oxide::deflate::core::CompressorOxide;
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Magic, method 8, no flags, no time, no hint, unknown system: the same content gives the same bytes everywhere.
const HEAD: [u8; 10] = [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff];
const PIECE_BYTES: usize = 32_768;

/// A gzip that is written piece by piece.
pub struct GzipWriter {
    deflater: Box<CompressorOxide>,
    checksum: crc32fast::Hasher,
    /// Bytes of content modulo 2³², as gzip counts them.
    bytes: u32,
    begun: bool,
}

impl Default for GzipWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl GzipWriter {
    /// Begins a file.
    #[must_use]
    pub fn new() -> Self {
        let deflater =
            Box::new(CompressorOxide::with_format_and_level(DataFormat::Raw, CompressionLevel::DefaultLevel));
        Self { deflater, checksum: crc32fast::Hasher::new(), bytes: 0, begun: false }
    }

    /// Takes the next bytes of content and appends what they became to `out`.
    pub fn feed(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.begin(out);
        self.checksum.update(content);
        let low = content.len() & 0xffff_ffff;
        self.bytes = self.bytes.wrapping_add(u32::try_from(low).unwrap_or(u32::MAX));
        self.deflate(content, MZFlush::None, out);
    }

    /// Appends the end of the file to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.begin(out);
        self.deflate(&[], MZFlush::Finish, out);
        out.extend_from_slice(&self.checksum.finalize().to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !core::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&HEAD);
        }
    }

    fn deflate(&mut self, mut content: &[u8], flush: MZFlush, out: &mut Vec<u8>) {
        loop {
            let before = out.len();
            out.resize(before + PIECE_BYTES, 0);
            let room = out.get_mut(before..).unwrap_or_default();
            let result = deflate(&mut self.deflater, content, room, flush);
            out.truncate(before + result.bytes_written);
            content = content.get(result.bytes_consumed..).unwrap_or_default();
            let all = content.is_empty() && result.bytes_written < PIECE_BYTES;
            match result.status {
                Ok(MZStatus::StreamEnd | MZStatus::NeedDict) | Err(MZError::Buf) => return,
                Ok(MZStatus::Ok) if all && flush == MZFlush::None => return,
                Ok(MZStatus::Ok) => {}
                Err(error) => unreachable!("deflate has room and legal parameters: {error:?}"),
            }
        }
    }
}

impl fmt::Debug for GzipWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GzipWriter").field("bytes", &self.bytes).finish()
    }
}

/// Compresses content that is in memory.
#[must_use]
pub fn gzip(content: &[u8]) -> Vec<u8> {
    let (mut writer, mut out) = (GzipWriter::new(), Vec::with_capacity(content.len() / 4 + 64));
    writer.feed(content, &mut out);
    writer.finish(&mut out);
    out
}
