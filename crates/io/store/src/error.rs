//! What keeps the store from doing its work, by blame.

use rusqlite::ErrorCode;
use std::fmt;
use tieline_core::{StorageError, StorageErrorKind, Topic};

/// Why a call to the store was not done.
#[derive(Debug)]
pub enum StoreError {
    /// The caller's question cannot be answered; what is wrong with it.
    Question(&'static str),
    /// A topic has more different values than states of a bucket may be; so many.
    States(Topic, usize),
    /// No space is left; passes.
    Full,
    /// A newer release wrote the file: its schema version, and the newest one known here.
    Newer(i64, i64),
    /// The file is not a store, or is damaged.
    Damaged(String),
    /// Anything else that SQLite said.
    Failed(rusqlite::Error),
    /// What the system said of the files of chunks or of the journal.
    Files(StorageError),
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        match error.kind {
            StorageErrorKind::Full => Self::Full,
            StorageErrorKind::Missing | StorageErrorKind::Io => Self::Files(error),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _ => Self::Failed(error),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Question(what) => f.write_str(what),
            Self::States(topic, most) => {
                write!(f, "{topic} has more than {most} different values in a bucket, expected a topic of states")
            }
            Self::Full => f.write_str("no space is left for the history store"),
            Self::Newer(found, known) => {
                write!(f, "the history store has schema version {found}, this release knows up to {known}")
            }
            Self::Damaged(what) => write!(f, "the history store is damaged: {what}"),
            Self::Failed(error) => write!(f, "the history store failed: {error}"),
            Self::Files(error) => write!(f, "the history store failed: {error}"),
        }
    }
}

// Without a source: its words have the cause.
impl std::error::Error for StoreError {}
