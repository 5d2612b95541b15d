//! Small files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

/// Replaces a file durably.
///
/// # Errors
/// The folder cannot be written; the old file stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension("part");
    let mut file = File::create(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads a file; none where there is none.
///
/// # Errors
/// It is there, and cannot be read.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
