//! Everything that a data folder holds as one archive, while a node runs on it or not, and back again.
//!
//! ```text
//!  opened: journal, ledger, audit log, …  ─▶  index: copied in one transaction  ─▶  files of chunks, as far as the index knows them
//!                                         archive, tar: each file, then backup.json with sums of all
//! ```
//!
//! Files of a node only grow, or are replaced as a whole: what is open, up to its length then, is what a power cut would have left,
//! and all that was acknowledged before is in it. The journal is opened before the index is copied, so that every sample that the
//! index does not know is in the journal.
//!
//! Never: the files of the configuration, which are not in the data folder.
//!
//! Read first: `snapshot.rs`, then `archive.rs`, `restored.rs`; `format.rs`.

mod archive;
mod format;
mod restored;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

pub use format::{DataFormat, FORMAT, FormatError, claim};
pub use restored::{check, restore};
pub use snapshot::{is_data_folder, write};

/// The last file of an archive.
const MANIFEST: &str = "backup.json";
/// The version of its form.
const VERSION: u64 = 1;

/// Told now and then: bytes that are done, and all bytes, as far as they are known.
pub type Watch<'w> = &'w mut dyn FnMut(u64, u64);

/// What an archive holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// When it was made, RFC 3339.
    pub time: String,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug)]
pub enum BackupError {
    /// A file of the folder, or the archive, cannot be read or written.
    Io(String, io::Error),
    /// The history cannot be copied.
    History(String),
    /// The archive is damaged, ends too early, or is none; in words.
    Damaged(String),
    /// The folder that is to be made has something in it.
    Occupied(String),
    /// The data has the format of a newer release.
    Format(FormatError),
    /// Another backup is under way.
    Busy,
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::History(why) => write!(f, "the history cannot be copied: {why}"),
            Self::Damaged(why) => write!(f, "the backup cannot be used: {why}"),
            Self::Format(error) => write!(f, "the backup cannot be used: {error}"),
            Self::Occupied(folder) => write!(f, "{folder} has files in it, expected an empty folder or none"),
            Self::Busy => f.write_str("another backup is under way"),
        }
    }
}

impl std::error::Error for BackupError {}

/// Says of what an error is.
fn of<P: AsRef<std::path::Path>>(path: P) -> impl FnOnce(io::Error) -> BackupError {
    move |error| BackupError::Io(path.as_ref().display().to_string(), error)
}
