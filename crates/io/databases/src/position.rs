//! The position of a database that has no transactions: a file of one line, the journal's name and a sequence.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Bytes of the longest file that is one.
const BYTES_MAX: u64 = 200;

/// Where a position is kept.
#[derive(Clone, Debug)]
pub(crate) struct PositionFile(PathBuf);

impl PositionFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The position in this journal; none where there is no file, or that of another journal.
    ///
    /// # Errors
    /// The file cannot be read, or is no position.
    pub(crate) fn read(&self, journal: &str) -> io::Result<Option<u64>> {
        let text = match fs::metadata(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(found) if found.len() > BYTES_MAX => return Err(self.damaged()),
            Ok(_) => fs::read_to_string(&self.0)?,
        };
        let (of, seq) = text.trim_end().split_once(' ').ok_or_else(|| self.damaged())?;
        let seq = seq.parse().map_err(|_| self.damaged())?;
        Ok((of == journal).then_some(seq))
    }

    /// Replaces the file: it survives a power cut.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn write(&self, journal: &str, seq: u64) -> io::Result<()> {
        let next = self.0.with_extension("next");
        let mut file = File::create(&next)?;
        writeln!(file, "{journal} {seq}")?;
        file.sync_all()?;
        fs::rename(&next, &self.0)?;
        File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn damaged(&self) -> io::Error {
        let words = format!("{} is not a position, expected a journal and a sequence", self.0.display());
        io::Error::new(ErrorKind::InvalidData, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_that_of_its_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.position");
        let file = PositionFile::new(path.clone());
        assert_eq!(file.read("a").unwrap(), None);
        file.write("a", 7).unwrap();
        file.write("a", u64::MAX).unwrap();
        assert_eq!((file.read("a").unwrap(), file.read("b").unwrap()), (Some(u64::MAX), None));
        for damaged in ["", "a", "a 1 2", "a -1", &"a".repeat(300)] {
            fs::write(&path, damaged).unwrap();
            assert!(file.read("a").is_err(), "{damaged:?}");
        }
    }
}
