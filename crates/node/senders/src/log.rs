//! The file of what outlives a restart.
//!
//! ```text
//! file   = "TLNOTE1\n" frame*
//! frame  = length(4, LE) CRC-32 of the bytes(4, LE) bytes of a record of `tieline_notify`
//! ```
//!
//! What a power failure has cut off at the end is dropped: it was never acted on. A file that has grown to several times its
//! contents is written again beside itself and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use tieline_notify::{Record, Saved};

const HEAD: &[u8] = b"TLNOTE1\n";
/// Bytes below which a file is not written again.
const REWRITE_BYTES: u64 = 1 << 20;

/// The open file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    /// What its records amount to.
    saved: Saved,
    length: u64,
    /// Its length when it was written as a whole.
    length_whole: u64,
}

impl Log {
    /// Reads a file, or begins one.
    pub fn open(path: &Path) -> io::Result<(Self, Saved)> {
        let mut file = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(path)?;
        let bytes = fs::read(path)?;
        if !bytes.starts_with(HEAD) && !HEAD.starts_with(&bytes) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file of notifications"));
        }
        let (saved, length) = read(bytes.strip_prefix(HEAD).unwrap_or_default());
        let length = (HEAD.len() + length) as u64;
        if bytes.len() < HEAD.len() {
            file.write_all(HEAD)?;
        }
        file.set_len(length)?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        let log = Self { path: path.to_owned(), file, saved: saved.clone(), length, length_whole: length };
        Ok((log, saved))
    }

    /// Appends records; when it returns, they are on the disk.
    pub fn write(&mut self, records: impl Iterator<Item = Record>) -> io::Result<()> {
        let mut batch = Vec::new();
        for record in records {
            frame(&record, &mut batch);
            self.saved.apply(record);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let limit = self.length_whole.max(REWRITE_BYTES).saturating_mul(4);
        if self.length + batch.len() as u64 > limit {
            return self.rewrite();
        }
        let written = self.file.write_all(&batch).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // What was written in part is in the way of what comes next.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::End(0))?;
            return written;
        }
        self.length += batch.len() as u64;
        Ok(())
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = HEAD.to_vec();
        for record in self.saved.records() {
            frame(&record, &mut bytes);
        }
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        (self.file, self.length, self.length_whole) = (file, bytes.len() as u64, bytes.len() as u64);
        Ok(())
    }
}

fn frame(record: &Record, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    record.emit(&mut bytes);
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// The records of whole frames, and how many bytes those are.
fn read(bytes: &[u8]) -> (Saved, usize) {
    let (mut saved, mut rest) = (Saved::default(), bytes);
    while let Some((record, after)) = next(rest) {
        saved.apply(record);
        rest = after;
    }
    (saved, bytes.len() - rest.len())
}

fn next(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let is_whole = crc32fast::hash(record) == u32::from_le_bytes(*sum);
    Some((Record::parse(record).ok().filter(|_| is_whole)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &Path) -> Vec<Record> {
        Log::open(path).unwrap().1.records().collect()
    }

    fn flood(name: &str) -> Record {
        Record::Flood(vec![name.into()])
    }

    #[test]
    fn what_was_written_is_read_and_what_was_cut_off_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notifications");
        let (mut log, saved) = Log::open(&path).unwrap();
        assert_eq!(saved, Saved::default());
        log.write([flood("a")].into_iter()).unwrap();
        let first = fs::read(&path).unwrap().len();
        log.write([flood("bb")].into_iter()).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let expect = if length == whole.len() { vec![flood("bb")] } else { vec![flood("a")] };
            let expect = if length < first { vec![] } else { expect };
            assert_eq!(messages(&path), expect, "{length}");
            let (mut log, _) = Log::open(&path).unwrap();
            log.write([flood("ccc")].into_iter()).unwrap();
            assert_eq!(messages(&path), [flood("ccc")], "{length}");
        }
        let mut spoilt = whole.clone();
        spoilt[whole.len() - 1] ^= 1;
        fs::write(&path, &spoilt).unwrap();
        assert_eq!(messages(&path), [flood("a")]);
    }

    #[test]
    fn a_file_that_has_grown_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notifications");
        let (mut log, _) = Log::open(&path).unwrap();
        let name = "x".repeat(1 << 20);
        for _ in 0..9 {
            log.write([flood(&name)].into_iter()).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= 4 << 20);
        log.write([flood("a")].into_iter()).unwrap();
        assert_eq!(messages(&path), [flood("a")]);
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notifications");
        fs::write(&path, b"something else").unwrap();
        assert!(Log::open(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"something else");
    }
}
