//! Archives: tar (POSIX.1-1988, with the long names of GNU), so that any system can look into one.

use super::{BackupError, MANIFEST, of};
use aws_lc_rs::digest::{Context, SHA256};
use std::fmt::Write as _;
use std::io::{self, Read, Write};

const BLOCK: usize = 512;
/// The name of an entry whose bytes are the name of the next.
const LONG_NAME: &str = "././@LongLink";
/// Bytes of a name, and of the last entry.
const NAME_BYTES_MAX: u64 = 4096;
const MANIFEST_BYTES_MAX: u64 = 256 << 20;
/// Bytes that are moved at one time.
const PIECE_BYTES: usize = 128 * 1024;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Appends a file of which exactly so many bytes are taken; says what was stored.
pub(super) fn put(
    out: &mut impl Write,
    name: &str,
    bytes: u64,
    from: &mut impl Read,
    mut tell: impl FnMut(u64),
) -> Result<Stored, BackupError> {
    if name.len() > 100 {
        out.write_all(&header(LONG_NAME, name.len() as u64 + 1, b'L')).map_err(of("the archive"))?;
        out.write_all(name.as_bytes()).map_err(of("the archive"))?;
        let end = padding(name.len() as u64 + 1) + 1;
        out.write_all(&vec![0; end]).map_err(of("the archive"))?;
    }
    out.write_all(&header(name, bytes, b'0')).map_err(of("the archive"))?;
    let (mut sum, mut left, mut piece) = (Context::new(&SHA256), bytes, vec![0; PIECE_BYTES]);
    while left > 0 {
        let room = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let count = from.read(piece.get_mut(..room).unwrap_or_default()).map_err(of(name))?;
        if count == 0 {
            return Err(of(name)(io::ErrorKind::UnexpectedEof.into()));
        }
        let read = piece.get(..count).unwrap_or_default();
        sum.update(read);
        out.write_all(read).map_err(of("the archive"))?;
        left -= count as u64;
        tell(count as u64);
    }
    out.write_all(&vec![0; padding(bytes)]).map_err(of("the archive"))?;
    Ok(Stored { name: name.to_owned(), bytes, sha256: hex(sum.finish().as_ref()) })
}

/// Ends an archive.
pub(super) fn end(out: &mut impl Write) -> Result<(), BackupError> {
    out.write_all(&[0; 2 * BLOCK]).and_then(|()| out.flush()).map_err(of("the archive"))
}

/// Reads an archive. `begin` gives what the bytes of a file go to. Returns what was read, and the text of the last entry.
pub(super) fn take<W: Write>(
    from: &mut impl Read,
    mut begin: impl FnMut(&str) -> Result<W, BackupError>,
    mut tell: impl FnMut(u64),
) -> Result<(Vec<Stored>, String), BackupError> {
    let damaged = |what: &str| BackupError::Damaged(what.to_owned());
    let (mut stored, mut long_name) = (Vec::new(), None::<String>);
    loop {
        let mut block = [0; BLOCK];
        from.read_exact(&mut block).map_err(|_| damaged("it ends too early"))?;
        if block.iter().all(|byte| *byte == 0) {
            return Err(damaged(&format!("it has no {MANIFEST}")));
        }
        let (name, bytes, kind) = entry(&block).ok_or_else(|| damaged("it is no archive of tieline backup"))?;
        let whole = |from: &mut dyn Read, max: u64| {
            let mut text = vec![0; usize::try_from(bytes.min(max)).unwrap_or_default()];
            let mut rest = [0; BLOCK];
            let rest = rest.get_mut(..padding(bytes)).unwrap_or_default();
            from.read_exact(&mut text)
                .and_then(|()| from.read_exact(rest))
                .map_err(|_| damaged("it ends too early"))?;
            String::from_utf8(text).map_err(|_| damaged("a name is no text"))
        };
        if kind == b'L' && bytes <= NAME_BYTES_MAX {
            long_name = Some(whole(from, NAME_BYTES_MAX)?.trim_end_matches('\0').to_owned());
            continue;
        }
        let name = long_name.take().unwrap_or(name);
        if kind != b'0' || !is_below(&name) {
            return Err(BackupError::Damaged(format!("the entry {name:?} is no file below the folder")));
        }
        if name == MANIFEST && bytes <= MANIFEST_BYTES_MAX {
            return Ok((stored, whole(from, MANIFEST_BYTES_MAX)?));
        }
        let (mut out, mut sum, mut left) = (begin(&name)?, Context::new(&SHA256), bytes);
        let mut piece = vec![0; PIECE_BYTES];
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = piece.get_mut(..room).unwrap_or_default();
            from.read_exact(read).map_err(|_| damaged("it ends too early"))?;
            sum.update(read);
            out.write_all(read).map_err(of(&name))?;
            left -= room as u64;
            tell(room as u64);
        }
        out.flush().map_err(of(&name))?;
        let mut rest = [0; BLOCK];
        from.read_exact(rest.get_mut(..padding(bytes)).unwrap_or_default())
            .map_err(|_| damaged("it ends too early"))?;
        stored.push(Stored { name, bytes, sha256: hex(sum.finish().as_ref()) });
    }
}

fn header(name: &str, bytes: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| {
        if let Some(place) = block.get_mut(at..at + text.len()) {
            place.copy_from_slice(text);
        }
    };
    put(0, name.as_bytes().get(..100).unwrap_or(name.as_bytes()));
    put(100, b"0000600\x000000000\x000000000\x00");
    put(124, format!("{bytes:011o}\0").as_bytes());
    put(136, b"00000000000\x00");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    if let Some(place) = block.get_mut(148..156) {
        place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    block
}

/// Name, bytes and kind of an entry.
fn entry(block: &[u8; BLOCK]) -> Option<(String, u64, u8)> {
    let text = |at: usize, length: usize| {
        let field = block.get(at..at + length)?;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(length);
        str::from_utf8(field.get(..end)?).ok().map(str::trim)
    };
    let given = u32::from_str_radix(text(148, 8)?, 8).ok()?;
    let place = |at: usize| (148..156).contains(&at);
    let sum: u32 = block.iter().enumerate().map(|(at, byte)| if place(at) { 32 } else { u32::from(*byte) }).sum();
    let kind = *block.get(156)?;
    (given == sum).then_some((text(0, 100)?.to_owned(), u64::from_str_radix(text(124, 12)?, 8).ok()?, kind))
}

/// Whether a name is of a file below a folder, and nowhere else.
fn is_below(name: &str) -> bool {
    !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | "..")) && !name.contains('\0')
}

/// Bytes up to the next block.
fn padding(bytes: u64) -> usize {
    usize::try_from(bytes.wrapping_neg() % BLOCK as u64).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes that a file may have.
pub(super) const FILE_BYTES_MAX: u64 = (8 << 30) - 1;
