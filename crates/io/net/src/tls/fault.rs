//! What is wrong with files.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFault {
    /// Which file.
    pub file: PathBuf,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub expected: String,
}

impl TlsFault {
    pub(crate) fn new(file: &Path, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { file: file.to_owned(), found: found.into(), expected: expected.into() }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, expected {}", self.file.display(), self.found, self.expected)
    }
}

/// Files that cannot be used: all that is wrong with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(pub Vec<TlsFault>);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for TlsError {}
