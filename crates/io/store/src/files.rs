//! `core::Storage` over a folder.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use tieline_core::{Storage, StorageError, StorageErrorKind};

/// Open files kept; beyond it all are closed and opened again as they are used.
const HANDLES_MAX: usize = 16;

/// A folder of append-only files. Several may stand over one folder: one that appends, others that read.
pub struct FolderStorage {
    folder: PathBuf,
    handles: HashMap<String, Handle>,
}

struct Handle {
    file: File,
    /// Opened by an append; readers open without.
    appends: bool,
    /// Whether the folder may not hold the name durably yet.
    fresh: bool,
}

impl FolderStorage {
    /// Makes the folder, and those above it, if need be.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
            File::open(above)?.sync_all()?;
        }
        let storage = Self { folder: folder.to_path_buf(), handles: HashMap::new() };
        // An earlier process may have ended between making a file and making its name durable.
        storage.sync_folder()?;
        Ok(storage)
    }

    /// A folder that is only read; it is not made where there is none.
    #[must_use]
    pub fn reading(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), handles: HashMap::new() }
    }

    fn handle(&mut self, name: &str, append: bool) -> io::Result<&mut Handle> {
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{name:?} is not the name of a file")));
        }
        let usable = self.handles.get(name).is_some_and(|handle| handle.appends || !append);
        if !usable {
            if self.handles.len() >= HANDLES_MAX {
                self.handles.retain(|_, handle| handle.fresh);
            }
            let path = self.folder.join(name);
            let fresh = append && !path.exists();
            let file = if append {
                OpenOptions::new().append(true).read(true).create(true).open(&path)?
            } else {
                File::open(&path)?
            };
            self.handles.insert(name.to_owned(), Handle { file, appends: append, fresh });
        }
        self.handles.get_mut(name).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }
}

impl Storage for FolderStorage {
    fn list(&mut self) -> Result<Vec<String>, StorageError> {
        self.names().map_err(|e| said(&e, "list", &self.folder))
    }

    fn len(&mut self, name: &str) -> Result<u64, StorageError> {
        let path = self.folder.join(name);
        fs::metadata(&path).map(|found| found.len()).map_err(|e| said(&e, "stat", &path))
    }

    fn read(&mut self, name: &str, offset: u64, out: &mut [u8]) -> Result<usize, StorageError> {
        let done = self.handle(name, false).and_then(|handle| {
            loop {
                match handle.file.read_at(out, offset) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    done => return done,
                }
            }
        });
        done.map_err(|e| said(&e, "read", &self.folder.join(name)))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let done = self.handle(name, true).and_then(|handle| handle.file.write_all(bytes));
        done.map_err(|e| said(&e, "append to", &self.folder.join(name)))
    }

    fn sync(&mut self, name: &str) -> Result<(), StorageError> {
        let synced = self.handle(name, false).and_then(|handle| handle.file.sync_data().map(|()| handle.fresh));
        let done = match synced {
            Ok(true) => self.sync_folder(),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        done.map_err(|e| said(&e, "sync", &self.folder.join(name)))?;
        if let Some(handle) = self.handles.get_mut(name) {
            handle.fresh = false;
        }
        Ok(())
    }

    fn truncate(&mut self, name: &str, len: u64) -> Result<(), StorageError> {
        self.handles.remove(name);
        let path = self.folder.join(name);
        let cut = || {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(len)?;
            file.sync_all()?;
            // The name may be as young as the file.
            self.sync_folder()
        };
        cut().map_err(|e| said(&e, "truncate", &path))
    }

    fn erase(&mut self, name: &str, offset: u64, bytes: u64) -> Result<(), StorageError> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let path = self.folder.join(name);
        let overwrite = || {
            let file = OpenOptions::new().write(true).open(&path)?;
            // A file does not become longer.
            let end = offset.saturating_add(bytes).min(file.metadata()?.len());
            let mut at = offset;
            while at < end {
                let piece = usize::try_from(end - at).unwrap_or(usize::MAX).min(ZEROS.len());
                file.write_all_at(ZEROS.get(..piece).unwrap_or_default(), at)?;
                at += piece as u64;
            }
            file.sync_all()
        };
        overwrite().map_err(|e| said(&e, "erase bytes of", &path))
    }

    fn remove(&mut self, name: &str) -> Result<(), StorageError> {
        self.handles.remove(name);
        let path = self.folder.join(name);
        fs::remove_file(&path).and_then(|()| self.sync_folder()).map_err(|e| said(&e, "remove", &path))
    }
}

pub(crate) fn said(error: &io::Error, call: &str, path: &Path) -> StorageError {
    let kind = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StorageErrorKind::Full,
        ErrorKind::NotFound => StorageErrorKind::Missing,
        _ => StorageErrorKind::Io,
    };
    StorageError { kind, message: format!("cannot {call} {}: {error}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_does_what_storage_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut storage = FolderStorage::open(&folder.path().join("a/b")).unwrap();
        assert_eq!(storage.list(), Ok(vec![]));
        storage.append("x", b"hello ").unwrap();
        storage.append("x", b"world").unwrap();
        storage.sync("x").unwrap();
        assert_eq!((storage.list(), storage.len("x")), (Ok(vec!["x".to_owned()]), Ok(11)));
        let mut out = [0; 8];
        assert_eq!(storage.read("x", 6, &mut out), Ok(5));
        assert_eq!(&out[..5], b"world");
        assert_eq!(storage.read("x", 99, &mut out), Ok(0));
        storage.truncate("x", 5).unwrap();
        storage.append("x", b"!").unwrap();
        assert_eq!(storage.read("x", 0, &mut out), Ok(6));
        assert_eq!(&out[..6], b"hello!");
        storage.erase("x", 1, 3).unwrap();
        storage.erase("x", 5, 90).unwrap();
        assert_eq!((storage.read("x", 0, &mut out), &out[..6]), (Ok(6), b"h\0\0\0o\0".as_slice()));
        storage.remove("x").unwrap();
        for missing in [storage.len("x").map(drop), storage.remove("x"), storage.truncate("x", 0), storage.sync("x")] {
            assert_eq!(missing.unwrap_err().kind, StorageErrorKind::Missing);
        }
        assert_eq!(storage.append("../x", b"").unwrap_err().kind, StorageErrorKind::Io);
    }

    #[test]
    fn more_files_than_handles_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let mut storage = FolderStorage::open(folder.path()).unwrap();
        for round in 0..2 {
            for n in 0..3 * HANDLES_MAX {
                let name = n.to_string();
                storage.append(&name, b"ab").unwrap();
                storage.sync(&name).unwrap();
                assert_eq!(storage.len(&name), Ok(2 * (round + 1)));
            }
        }
        assert!(storage.handles.len() <= HANDLES_MAX);
    }

    #[test]
    fn a_full_disk_is_named() {
        // /dev/full takes no byte: the same answer as a full disk, without one.
        let Ok(mut full) = OpenOptions::new().write(true).open("/dev/full") else {
            println!("no /dev/full here: skipped");
            return;
        };
        let error = full.write_all(b"x").unwrap_err();
        assert_eq!(said(&error, "append to", Path::new("/dev/full")).kind, StorageErrorKind::Full);
    }
}
