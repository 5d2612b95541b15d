//! The sum of a day file: of the bytes that were written, and of those that are there.

use crate::StoreError;
use crate::day_file::io;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write};
use std::path::Path;

/// What became of a day file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenDay {
    /// Its bytes.
    pub bytes: u64,
    /// The CRC-32 of them.
    pub check: u32,
}

/// A file, and the sum of what was written to it.
pub(crate) struct Summed {
    pub(crate) file: File,
    pub(crate) sum: crc32fast::Hasher,
}

impl Summed {
    pub(crate) fn new(file: File) -> Self {
        Self { file, sum: crc32fast::Hasher::new() }
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.sum.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// The CRC-32 of a file, and its bytes; none where it is not there. `watch` is told how many bytes were read.
///
/// # Errors
/// The folder failed.
pub fn day_file_check(path: &Path, mut watch: impl FnMut(u64)) -> Result<Option<WrittenDay>, StoreError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let (mut sum, mut piece, mut bytes) = (crc32fast::Hasher::new(), vec![0; 256 * 1024], 0);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(Some(WrittenDay { bytes, check: sum.finalize() })),
            Ok(count) => {
                sum.update(piece.get(..count).unwrap_or_default());
                bytes += count as u64;
                watch(count as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(io(error)),
        }
    }
}
