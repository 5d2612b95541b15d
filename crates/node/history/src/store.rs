//! What history needs of a store of samples, and which one it has.

use crate::sqlite::Sqlite;
use std::error::Error;
use std::fmt;
use std::path::Path;
use tieline_core::Timestamp;
use tieline_journal::Seq;
use tieline_store::{Retained, Retention, Sample};

/// A store of samples: one writer, durable when a call returns.
pub(crate) trait Store: Send {
    /// Opens the store of a data folder, or makes one.
    ///
    /// # Errors
    /// It is no store, was written by a newer release, or cannot be opened.
    fn open(data: &Path) -> Result<Self, StoreError>
    where
        Self: Sized;

    /// The journal record up to which samples are stored; 0 before the first.
    ///
    /// # Errors
    /// It cannot be read.
    fn position(&self) -> Result<Seq, StoreError>;

    /// Stores samples and the journal record up to which they reach, all or nothing. Samples up to a record that is stored
    /// already add nothing: says false then.
    ///
    /// # Errors
    /// `Full`, or it failed; nothing of the samples is stored then.
    fn append(&mut self, samples: &[Sample], upto: Seq) -> Result<bool, StoreError>;

    /// Removes about `rows_max` samples at most that are too old or too many. One step: call again soon while there is more.
    ///
    /// # Errors
    /// It failed.
    fn retain(&mut self, retention: &Retention, now: Timestamp, rows_max: u64) -> Result<Retained, StoreError>;

    /// Its size on disk in bytes.
    ///
    /// # Errors
    /// It cannot be read.
    fn bytes(&self) -> Result<u64, StoreError>;
}

/// Opens the store of a data folder.
pub(crate) fn open(data: &Path) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(Sqlite::open(data)?))
}

/// Why a store did not do what it was asked to, by blame; in the store's words.
#[derive(Debug)]
pub enum StoreError {
    /// No space is left; passes.
    Full(Box<dyn Error + Send + Sync>),
    /// A newer release wrote it.
    Newer(Box<dyn Error + Send + Sync>),
    /// It is damaged, or it or the system failed.
    Failed(Box<dyn Error + Send + Sync>),
}

impl StoreError {
    const fn words(&self) -> &(dyn Error + Send + Sync + 'static) {
        match self {
            Self::Full(error) | Self::Newer(error) | Self::Failed(error) => &**error,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.words(), f)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.words().source()
    }
}
