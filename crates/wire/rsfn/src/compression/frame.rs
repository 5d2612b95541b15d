//! What stands around DEFLATE data in gzip (RFC 1952, 2.3) and zip (APPNOTE 6.3, 4.3).

use super::InflateError;
use tieline_core::{Cursor, Truncated};

/// The first bytes of a member of gzip: magic and method 8.
pub(super) const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];
/// The first bytes of a file in a zip.
pub(super) const ZIP_FILE: [u8; 4] = *b"PK\x03\x04";
/// What follows the files of a zip.
const ZIP_DIRECTORY: [u8; 4] = *b"PK\x01\x02";
/// What may stand before the checksum that follows a file in a zip.
const ZIP_DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Bytes of a frame at most.
pub(super) const FRAME_BYTES_MAX: usize = 65_536;

/// How a file is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Gzip,
    /// Checksum, when it stands before the file and not behind it.
    Zip(Option<u32>),
}

/// What stands in front of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) frame: Frame,
    /// Bytes of a file that is stored and not deflated.
    pub(super) stored: Option<u64>,
    /// Bytes of the file, when known.
    pub(super) bytes: Option<u64>,
}

/// A part of the frame and how many bytes it takes; none when more bytes are needed to know.
pub(super) type Part<T> = Result<Option<(T, usize)>, InflateError>;

/// Reads what stands in front of a file.
pub(super) fn head(bytes: &[u8]) -> Part<Head> {
    let begins = |magic: &[u8]| bytes.iter().zip(magic).all(|(byte, expected)| byte == expected);
    let mut cursor = Cursor::new(bytes);
    let head = if begins(&GZIP) {
        gzip_head(&mut cursor)
    } else if begins(&ZIP_FILE) {
        zip_head(&mut cursor)
    } else {
        return Err(InflateError::NotCompressed);
    };
    match head {
        Ok(head) => Ok(Some((head?, bytes.len() - cursor.left()))),
        Err(Truncated { .. }) => Ok(None),
    }
}

fn gzip_head(cursor: &mut Cursor<'_>) -> Result<Result<Head, InflateError>, Truncated> {
    const HEADER_CHECKSUM: u8 = 0x02;
    const EXTRA: u8 = 0x04;
    const NAME: u8 = 0x08;
    const COMMENT: u8 = 0x10;
    const RESERVED: u8 = 0xe0;
    cursor.take(GZIP.len())?;
    let flags = cursor.u8()?;
    if flags & RESERVED != 0 {
        return Ok(Err(InflateError::Malformed));
    }
    cursor.take(6)?;
    if flags & EXTRA != 0 {
        let extra = cursor.u16_le()?;
        cursor.take(usize::from(extra))?;
    }
    for text in [NAME, COMMENT] {
        while flags & text != 0 && cursor.u8()? != 0 {}
    }
    if flags & HEADER_CHECKSUM != 0 {
        cursor.take(2)?;
    }
    Ok(Ok(Head { frame: Frame::Gzip, stored: None, bytes: None }))
}

fn zip_head(cursor: &mut Cursor<'_>) -> Result<Result<Head, InflateError>, Truncated> {
    const ENCRYPTED: u16 = 0x0001;
    const CHECKSUM_BEHIND: u16 = 0x0008;
    const STORED: u16 = 0;
    const DEFLATED: u16 = 8;
    cursor.take(ZIP_FILE.len() + 2)?;
    let (flags, method) = (cursor.u16_le()?, cursor.u16_le()?);
    cursor.take(4)?;
    let (checksum, compressed, bytes) = (cursor.u32_le()?, cursor.u32_le()?, cursor.u32_le()?);
    let (name, extra) = (cursor.u16_le()?, cursor.u16_le()?);
    cursor.take(usize::from(name))?;
    cursor.take(usize::from(extra))?;
    // Sizes of all ones stand for a larger one in the extra field (4.4.8).
    let size = |size: u32| (size != u32::MAX && flags & CHECKSUM_BEHIND == 0).then_some(u64::from(size));
    let stored = match method {
        DEFLATED => None,
        STORED => size(compressed),
        _ => return Ok(Err(InflateError::Unsupported)),
    };
    if flags & ENCRYPTED != 0 || (method == STORED && stored.is_none()) {
        return Ok(Err(InflateError::Unsupported));
    }
    let frame = Frame::Zip((flags & CHECKSUM_BEHIND == 0).then_some(checksum));
    Ok(Ok(Head { frame, stored, bytes: size(bytes) }))
}

/// Reads what stands behind a file of `bytes` bytes and compares the checksums.
pub(super) fn tail(held: &[u8], frame: Frame, checksum: u32, bytes: u64) -> Part<()> {
    let mut cursor = Cursor::new(held);
    let read = match frame {
        Frame::Gzip => gzip_tail(&mut cursor, bytes),
        Frame::Zip(Some(expected)) => directory(cursor).map(|next| next.map(|()| expected)),
        Frame::Zip(None) => zip_descriptor(cursor),
    };
    match read {
        Ok(expected) if expected? == checksum => Ok(Some(((), held.len() - cursor.left()))),
        Ok(_) => Err(InflateError::Checksum),
        Err(Truncated { .. }) => Ok(None),
    }
}

fn gzip_tail(cursor: &mut Cursor<'_>, bytes: u64) -> Result<Result<u32, InflateError>, Truncated> {
    let (checksum, length) = (cursor.u32_le()?, cursor.u32_le()?);
    let same = u64::from(length) == bytes & u64::from(u32::MAX);
    Ok(if same { Ok(checksum) } else { Err(InflateError::Checksum) })
}

/// A descriptor has its sign or not, and sizes of 4 bytes or of 8: the directory behind it tells which.
fn zip_descriptor(mut cursor: Cursor<'_>) -> Result<Result<u32, InflateError>, Truncated> {
    const NEEDED: usize = 4 + 4 + 16 + 4;
    let mut whole = Cursor::new(cursor.take(NEEDED)?);
    if whole.rest().starts_with(&ZIP_DESCRIPTOR) {
        whole.take(ZIP_DESCRIPTOR.len())?;
    }
    let checksum = whole.u32_le()?;
    let ends_after = |sizes: usize| whole.rest().get(sizes..).is_some_and(|rest| rest.starts_with(&ZIP_DIRECTORY));
    Ok(if ends_after(8) || ends_after(16) { Ok(checksum) } else { Err(InflateError::Unsupported) })
}

fn directory(mut cursor: Cursor<'_>) -> Result<Result<(), InflateError>, Truncated> {
    Ok(if cursor.array()? == ZIP_DIRECTORY { Ok(()) } else { Err(InflateError::Unsupported) })
}
