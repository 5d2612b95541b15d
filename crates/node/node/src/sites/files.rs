//! Small files that are replaced as a whole.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use tieline_service::replacement;

/// Replaces a file durably.
///
/// # Errors
/// The folder cannot be written; the old file stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    replacement::replace(path, text.as_bytes(), 0o666)
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
