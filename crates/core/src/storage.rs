//! Files as an engine sees them: named, append-only, durable when asked.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What kept a storage call from being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// No space is left; may pass.
    Full,
    /// No file of that name.
    Missing,
    /// Anything else the medium or the system said.
    Io,
}

/// A storage call that failed, in the system's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    /// What a program acts on.
    pub kind: StorageErrorKind,
    /// What a person reads.
    pub message: String,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for StorageError {}

/// A folder of append-only files.
///
/// What survives what: after [`Storage::append`] returns, the bytes survive the end of the process; after
/// [`Storage::sync`] returns, they survive a power cut. A failed `sync` means that nothing is known about the file's
/// unsynced bytes: it must not be tried again on the same file.
pub trait Storage {
    /// The names of all files, in no order.
    ///
    /// # Errors
    /// The medium failed.
    fn list(&mut self) -> Result<Vec<String>, StorageError>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// `Missing`, or the medium failed.
    fn len(&mut self, name: &str) -> Result<u64, StorageError>;

    /// Reads up to `out.len()` bytes at `offset` and returns how many; zero at the end.
    ///
    /// # Errors
    /// `Missing`, or the medium failed.
    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError>;

    /// Appends all bytes, making the file if need be. On an error any prefix of them may have been appended.
    ///
    /// # Errors
    /// `Full`, or the medium failed.
    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError>;

    /// Makes the file's bytes and its name durable.
    ///
    /// # Errors
    /// `Missing`, or the medium failed.
    fn sync(&mut self, name: &str) -> Result<(), StorageError>;

    /// Cuts the file to `len` bytes, durably.
    ///
    /// # Errors
    /// `Missing`, or the medium failed.
    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError>;

    /// Removes the file, durably.
    ///
    /// # Errors
    /// `Missing`, or the medium failed.
    fn remove(&mut self, name: &str) -> Result<(), StorageError>;

    /// Overwrites bytes of a file with zeros, durably: what was there is to be gone, not only unused.
    ///
    /// # Errors
    /// `Missing`, the medium failed, or it cannot do this.
    fn erase(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), StorageError> {
        let message = alloc::format!("cannot erase {bytes} bytes at {offset} of {name}: the storage only appends");
        Err(StorageError { kind: StorageErrorKind::Io, message })
    }
}
