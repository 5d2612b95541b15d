//! Files of a disk that takes long to sync: each call that makes something durable takes so much longer.

use std::thread::sleep;
use std::time::Duration;
use tieline_core::{Storage, StorageError};
use tieline_store::FolderStorage;

/// A folder on such a disk.
pub struct DelayedFiles {
    files: FolderStorage,
    delay: Duration,
}

impl DelayedFiles {
    pub const fn new(files: FolderStorage, delay: Duration) -> Self {
        Self { files, delay }
    }
}

impl Storage for DelayedFiles {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        self.files.list()
    }

    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        self.files.len(name)
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError> {
        self.files.read(name, offset, out)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.files.append(name, bytes)
    }

    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        sleep(self.delay);
        self.files.sync(name)
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        sleep(self.delay);
        self.files.truncate(name, len)
    }

    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        sleep(self.delay);
        self.files.remove(name)
    }

    fn erase(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), StorageError> {
        sleep(self.delay);
        self.files.erase(name, offset, bytes)
    }
}
