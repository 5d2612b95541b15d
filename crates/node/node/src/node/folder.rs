//! A data folder that one node has for itself.

use crate::backup;
use std::fs::{File, TryLockError};
use std::path::Path;

/// Keeps other nodes out of a folder until it is dropped, or the process ends.
///
/// The lock is on the folder itself: a file in it may be removed or replaced while the node runs. The file `lock` is
/// locked, too: earlier releases look at that one alone, and some network file systems lock files only.
#[derive(Debug)]
pub struct FolderLock {
    _folder: File,
    _file: File,
}

impl FolderLock {
    /// Makes the folder, where it is not there, and locks it.
    ///
    /// # Errors
    /// Another node has it, its format is newer than this release, or the system refuses; in words.
    pub fn take(folder: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
        let itself = File::open(folder).map_err(|e| e.to_string())?;
        match itself.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(TAKEN.to_owned()),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, folder = %folder.display(), "the folder cannot be locked, only a file in it");
            }
        }
        let file = File::create(folder.join("lock")).map_err(|e| e.to_string())?;
        match file.try_lock() {
            Ok(()) => {
                backup::claim(folder).map_err(|error| error.to_string())?;
                Ok(Self { _folder: itself, _file: file })
            }
            Err(TryLockError::WouldBlock) => Err(TAKEN.to_owned()),
            Err(TryLockError::Error(error)) => Err(error.to_string()),
        }
    }
}

const TAKEN: &str = "another node uses it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_nodes_whatever_becomes_of_the_file() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("data");
        let file = folder.join("lock");
        let held = FolderLock::take(&folder).unwrap();
        let refused = || assert_eq!(FolderLock::take(&folder).unwrap_err(), TAKEN);
        refused();
        std::fs::remove_file(&file).unwrap();
        refused();
        std::fs::write(&file, "").unwrap();
        refused();
        drop(held);
        let _held = FolderLock::take(&folder).unwrap();
        // A release that locks the file alone.
        let other = above.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let old = File::create(other.join("lock")).unwrap();
        old.try_lock().unwrap();
        assert_eq!(FolderLock::take(&other).unwrap_err(), TAKEN);
    }
}
