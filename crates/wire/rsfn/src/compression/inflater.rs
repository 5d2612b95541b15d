//! Decompression piece by piece, with limits.

use super::frame::{FRAME_BYTES_MAX, Frame, Head, head, tail};
use super::{InflateError, InflateLimits};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Bytes that one call of [`Inflater::feed`] gives at most.
pub const PIECE_BYTES_MAX: usize = 32_768;

/// Bytes that no ratio is asked of.
const FREE_BYTES: u64 = 65_536;
/// Bytes behind the file in a zip at most: directory, comment.
const ZIP_REST_MAX: u64 = 131_072;
/// Zeros behind gzip at most: the padding of protocol 2.
const GZIP_REST_MAX: u64 = 7;

/// A file that is decompressed piece by piece.
pub struct Inflater {
    limits: InflateLimits,
    stage: Stage,
    /// The frame's bytes that came so far; at most [`FRAME_BYTES_MAX`].
    held: Vec<u8>,
    deflated: Box<InflateState>,
    checksum: crc32fast::Hasher,
    /// Bytes of the file, or of the current member of a gzip.
    file_bytes: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Where the next byte belongs.
#[derive(Clone, Copy)]
enum Stage {
    Head,
    Deflated(Frame),
    Stored(Frame, u64),
    Tail(Frame),
    /// Bytes that came behind the file.
    Behind(Frame, u64),
}

/// What one call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InflateProgress {
    /// Bytes of input that were used; the rest is to be given again.
    pub used: usize,
    /// Whether there may be more output without more input.
    pub more: bool,
}

/// What one stage did with what it was given: how much it used, and the stage that comes next.
struct Step {
    used: usize,
    next: Option<Stage>,
}

impl Inflater {
    /// Begins a file.
    #[must_use]
    pub fn new(limits: InflateLimits) -> Self {
        Self {
            limits,
            stage: Stage::Head,
            held: Vec::new(),
            deflated: InflateState::new_boxed(DataFormat::Raw),
            checksum: crc32fast::Hasher::new(),
            file_bytes: 0,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    /// Uses bytes of `input` and appends at most [`PIECE_BYTES_MAX`] to `out`. Call it again with the rest, or with
    /// nothing, while there is a rest or more.
    ///
    /// # Errors
    /// The input is not compressed, is damaged, or grows beyond a limit. The file is to be thrown away.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<InflateProgress, InflateError> {
        let mut used = 0;
        loop {
            let before = out.len();
            let rest = input.get(used..).unwrap_or_default();
            let step = match self.stage {
                Stage::Head => self.head(rest)?,
                Stage::Deflated(frame) => self.inflate(frame, rest, out)?,
                Stage::Stored(frame, left) => self.copy(frame, left, rest, out)?,
                Stage::Tail(frame) => self.tail(frame, rest)?,
                Stage::Behind(frame, bytes) => self.behind(frame, bytes, rest)?,
            };
            used += step.used;
            self.bytes_in = self.bytes_in.saturating_add(count(step.used));
            self.stage = step.next.unwrap_or(self.stage);
            let written = out.get(before..).unwrap_or_default();
            if !written.is_empty() {
                self.account(written)?;
                return Ok(InflateProgress { used, more: true });
            }
            if step.used == 0 && step.next.is_none() {
                return Ok(InflateProgress { used, more: false });
            }
        }
    }

    /// The input has ended.
    ///
    /// # Errors
    /// The file had not.
    pub fn finish(self) -> Result<(), InflateError> {
        match self.stage {
            Stage::Behind(..) => Ok(()),
            Stage::Head | Stage::Deflated(_) | Stage::Stored(..) | Stage::Tail(_) => Err(InflateError::Truncated),
        }
    }

    fn account(&mut self, written: &[u8]) -> Result<(), InflateError> {
        self.checksum.update(written);
        self.file_bytes = self.file_bytes.saturating_add(count(written.len()));
        self.bytes_out = self.bytes_out.saturating_add(count(written.len()));
        let InflateLimits { bytes_max, ratio_max } = self.limits;
        if self.bytes_out > bytes_max {
            return Err(InflateError::TooLarge { limit: bytes_max });
        }
        if self.bytes_out > self.bytes_in.saturating_mul(u64::from(ratio_max)).saturating_add(FREE_BYTES) {
            return Err(InflateError::Ratio { limit: ratio_max });
        }
        Ok(())
    }

    /// Holds bytes until `read` finds the part of the frame that they begin; how many of `rest` belong to it.
    fn frame<T>(
        &mut self,
        rest: &[u8],
        read: impl FnOnce(&[u8]) -> super::frame::Part<T>,
    ) -> Result<(usize, Option<T>), InflateError> {
        let before = self.held.len();
        self.held.extend(rest.iter().take(FRAME_BYTES_MAX - before));
        match read(&self.held)? {
            Some((part, bytes)) => {
                self.held.clear();
                Ok((bytes.saturating_sub(before), Some(part)))
            }
            None if self.held.len() == FRAME_BYTES_MAX => Err(InflateError::Unsupported),
            None => Ok((self.held.len() - before, None)),
        }
    }

    fn head(&mut self, rest: &[u8]) -> Result<Step, InflateError> {
        let (used, head) = self.frame(rest, head)?;
        let Some(Head { frame, stored, bytes }) = head else { return Ok(Step { used, next: None }) };
        let limit = self.limits.bytes_max;
        if bytes.is_some_and(|bytes| bytes > limit) || stored.is_some_and(|bytes| bytes > limit) {
            return Err(InflateError::TooLarge { limit });
        }
        self.file_bytes = 0;
        self.checksum.reset();
        self.deflated.reset(DataFormat::Raw);
        let next = stored.map_or(Stage::Deflated(frame), |left| Stage::Stored(frame, left));
        Ok(Step { used, next: Some(next) })
    }

    fn inflate(&mut self, frame: Frame, rest: &[u8], out: &mut Vec<u8>) -> Result<Step, InflateError> {
        let before = out.len();
        out.resize(before + PIECE_BYTES_MAX, 0);
        let room = out.get_mut(before..).unwrap_or_default();
        let result = inflate(&mut self.deflated, rest, room, MZFlush::None);
        out.truncate(before + result.bytes_written);
        let used = result.bytes_consumed;
        match result.status {
            Ok(MZStatus::StreamEnd) => Ok(Step { used, next: Some(Stage::Tail(frame)) }),
            Ok(MZStatus::Ok) | Err(MZError::Buf) => Ok(Step { used, next: None }),
            Ok(MZStatus::NeedDict) | Err(_) => Err(InflateError::Malformed),
        }
    }

    fn copy(&mut self, frame: Frame, left: u64, rest: &[u8], out: &mut Vec<u8>) -> Result<Step, InflateError> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES_MAX);
        let piece = rest.get(..most.min(rest.len())).unwrap_or_default();
        out.extend_from_slice(piece);
        let left = left.saturating_sub(count(piece.len()));
        let next = if left == 0 { Some(Stage::Tail(frame)) } else { Some(Stage::Stored(frame, left)) };
        Ok(Step { used: piece.len(), next: next.filter(|_| left == 0 || !piece.is_empty()) })
    }

    fn tail(&mut self, frame: Frame, rest: &[u8]) -> Result<Step, InflateError> {
        let (checksum, bytes) = (self.checksum.clone().finalize(), self.file_bytes);
        let (used, tail) = self.frame(rest, |held| tail(held, frame, checksum, bytes))?;
        Ok(Step { used, next: tail.map(|()| Stage::Behind(frame, 0)) })
    }

    /// Behind a member of gzip comes another, or padding; behind the file in a zip, what names it again.
    fn behind(&mut self, frame: Frame, bytes: u64, rest: &[u8]) -> Result<Step, InflateError> {
        let Some(&first) = rest.first() else { return Ok(Step { used: 0, next: None }) };
        let sum = bytes.saturating_add(count(rest.len()));
        match frame {
            Frame::Gzip if bytes == 0 && first != 0 => Ok(Step { used: 0, next: Some(Stage::Head) }),
            Frame::Gzip if sum > GZIP_REST_MAX || rest.iter().any(|&byte| byte != 0) => Err(InflateError::Malformed),
            Frame::Zip(_) if sum > ZIP_REST_MAX => Err(InflateError::Unsupported),
            Frame::Gzip | Frame::Zip(_) => Ok(Step { used: rest.len(), next: Some(Stage::Behind(frame, sum)) }),
        }
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("bytes_in", &self.bytes_in).field("bytes_out", &self.bytes_out).finish()
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
