//! The files of an outstation: a folder.
//!
//! No name leads out of the folder: the kernel resolves every path beneath it (`openat2` with `RESOLVE_BENEATH`), symbolic
//! links included, and parts that begin with a dot are not there for a master, but `.`, which stands for the folder it is in:
//! `./name` is `name`. A leading `/` stands for the folder itself.
//! Only regular files and directories are served.
//!
//! A file is written beside its place, as `.NAME.HANDLE.part`, and takes it when the master closes it: synced, then
//! renamed. Until then, and after a failure, what was there stays.
//!
//! What a crash left behind of such files is removed at the start; an exclusive lock on a folder that is written keeps other
//! stations out of it meanwhile.
//!
//! A folder is served by a thread of its own: see `worker.rs`.

mod disk;
#[cfg(test)]
mod tests;
mod worker;

pub use worker::FolderThread;

use crate::config::FolderConfig;
use disk::{Part, Root};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::task::Poll;
use tieline_dnp3::DnpTime;
use tieline_dnp3::app::{FileKind, FileMode, FileStatus, Permissions};
use tieline_dnp3::outstation::{FileAnswer, FileClose, FileEntry, FileHandler, FileOpen, FileOpened};

/// Entries of a directory that a master is told of; the rest is left out, and logged.
const ENTRIES_MAX: usize = 10_000;

/// Serves a folder.
#[derive(Debug)]
pub struct Folder {
    root: Root,
    writable: bool,
    size_max: u64,
    user: Option<User>,
    open: HashMap<u32, Opened>,
}

#[derive(Debug)]
struct User {
    name: String,
    password: String,
    /// Changes with every start.
    key: u32,
}

#[derive(Debug)]
enum Opened {
    Reading(File),
    Listing(Vec<FileEntry>),
    Writing(Part),
}

impl Folder {
    /// Opens the folder.
    ///
    /// # Errors
    /// It is no folder, another station writes it, or its password cannot be read.
    pub fn open(config: &FolderConfig) -> io::Result<Self> {
        let root = Root::open(&config.root)?;
        if config.writable {
            root.lock()?;
            let removed = root.remove_parts()?;
            if removed > 0 {
                tracing::info!(removed, "parts of files that were not written to their end are removed");
            }
        }
        let user = config.user.as_ref().map(|(name, file)| {
            let text = std::fs::read_to_string(file)?;
            let password = text.lines().next().unwrap_or_default().to_owned();
            if password.is_empty() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is empty", file.display())));
            }
            // The seeds of the standard library come from the system's random source.
            let random = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or(1);
            Ok(User { name: name.clone(), password, key: random.max(1) })
        });
        let user = user.transpose()?;
        let FolderConfig { writable, size_max, .. } = *config;
        Ok(Self { root, writable, size_max, user, open: HashMap::new() })
    }

    /// The entries of a directory that was opened, for who answers for them from there on.
    fn take_listing(&mut self, handle: u32) -> Vec<FileEntry> {
        match self.open.get_mut(&handle) {
            Some(Opened::Listing(entries)) => std::mem::take(entries),
            Some(Opened::Reading(_) | Opened::Writing(_)) | None => Vec::new(),
        }
    }

    fn allows(&self, key: u32) -> bool {
        self.user.as_ref().is_none_or(|user| user.key == key)
    }

    fn open_any(&mut self, handle: u32, request: &FileOpen<'_>) -> Result<FileOpened, FileStatus> {
        if !self.allows(request.key) {
            return Err(FileStatus::PermissionDenied);
        }
        let (opened, size) = match request.mode {
            FileMode::READ => self.open_to_read(request.name)?,
            FileMode::WRITE | FileMode::APPEND => self.open_to_write(handle, request)?,
            _ => return Err(FileStatus::InvalidMode),
        };
        let kind = if matches!(opened, Opened::Listing(_)) { FileKind::DIRECTORY } else { FileKind::SIMPLE };
        self.open.insert(handle, opened);
        Ok(FileOpened { kind, size })
    }

    fn open_to_read(&self, name: &str) -> Result<(Opened, u32), FileStatus> {
        let file = self.root.open_file(name).map_err(|error| status_of(&error))?;
        let metadata = file.metadata().map_err(|error| status_of(&error))?;
        if metadata.is_dir() {
            let (entries, all) = Root::list(&file, ENTRIES_MAX).map_err(|error| status_of(&error))?;
            if all > entries.len() {
                tracing::warn!(name, entries = all, told = entries.len(), "directory told in part");
            }
            let size = u32::try_from(entries.len()).unwrap_or(u32::MAX);
            return Ok((Opened::Listing(entries), size));
        }
        let size = u32::try_from(metadata.len()).map_err(|_| FileStatus::Fatal)?;
        if metadata.is_file() { Ok((Opened::Reading(file), size)) } else { Err(FileStatus::PermissionDenied) }
    }

    fn open_to_write(&self, handle: u32, request: &FileOpen<'_>) -> Result<(Opened, u32), FileStatus> {
        if !self.writable {
            return Err(FileStatus::PermissionDenied);
        }
        if request.size.is_some_and(|size| u64::from(size) > self.size_max) {
            return Err(FileStatus::BufferOverrun);
        }
        let append = request.mode == FileMode::APPEND;
        let part = self.root.create(request.name, handle, append, self.size_max).map_err(|error| status_of(&error))?;
        let is_same = |open: &Opened| matches!(open, Opened::Writing(other) if other.is_same_place(&part));
        if self.open.values().any(is_same) {
            part.discard();
            return Err(FileStatus::Locked);
        }
        let size = u32::try_from(part.start).map_err(|_| FileStatus::Fatal)?;
        Ok((Opened::Writing(part.with_mode(request.permissions)), size))
    }

    fn write_at(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> Result<(), FileStatus> {
        let Some(Opened::Writing(part)) = self.open.get(&handle) else { return Err(FileStatus::NotOpened) };
        let at = part.start + offset;
        if at + u64::try_from(bytes.len()).unwrap_or(u64::MAX) > self.size_max {
            return Err(FileStatus::BufferOverrun);
        }
        part.file.write_all_at(bytes, at).map_err(|error| status_of(&error))
    }
}

impl FileHandler for Folder {
    fn authenticate(&mut self, user: &str, password: &str) -> Poll<Option<u32>> {
        let known = self.user.as_ref().filter(|known| known.name == user && is_same(&known.password, password));
        if known.is_none() {
            tracing::warn!(user, "file authentication refused");
        }
        Poll::Ready(known.map(|known| known.key))
    }

    fn open(&mut self, handle: u32, request: &FileOpen<'_>) -> FileAnswer<FileOpened> {
        Poll::Ready(self.open_any(handle, request))
    }

    fn read(&mut self, handle: u32, offset: u64, bytes_max: usize, out: &mut Vec<u8>) -> FileAnswer<bool> {
        let Some(Opened::Reading(file)) = self.open.get(&handle) else {
            return Poll::Ready(Err(FileStatus::NotOpened));
        };
        let read = read_at(file, offset, bytes_max, out).map_err(|error| status_of(&error));
        Poll::Ready(read)
    }

    fn list(&mut self, handle: u32, position: u32) -> FileAnswer<Option<FileEntry>> {
        let Some(Opened::Listing(entries)) = self.open.get(&handle) else {
            return Poll::Ready(Err(FileStatus::NotOpened));
        };
        let entry = usize::try_from(position).ok().and_then(|position| entries.get(position));
        Poll::Ready(Ok(entry.cloned()))
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> FileAnswer<()> {
        Poll::Ready(self.write_at(handle, offset, bytes))
    }

    fn close(&mut self, handle: u32, how: FileClose) -> FileAnswer<()> {
        let closed = match (self.open.remove(&handle), how) {
            (Some(Opened::Writing(part)), FileClose::Done) => part.commit().map_err(|error| status_of(&error)),
            (Some(Opened::Writing(part)), FileClose::Aborted | FileClose::Expired) => {
                part.discard();
                Ok(())
            }
            (Some(Opened::Reading(_) | Opened::Listing(_)), _) => Ok(()),
            (None, _) => Err(FileStatus::InvalidHandle),
        };
        Poll::Ready(closed)
    }

    fn delete(&mut self, name: &str, key: u32) -> FileAnswer<()> {
        if !self.writable || !self.allows(key) {
            return Poll::Ready(Err(FileStatus::PermissionDenied));
        }
        Poll::Ready(self.root.delete(name).map_err(|error| status_of(&error)))
    }

    fn info(&mut self, name: &str) -> FileAnswer<FileEntry> {
        let found = self.root.open_file(name).and_then(|file| disk::entry_of(name.to_owned(), &file));
        Poll::Ready(found.map_err(|error| status_of(&error)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for (_, opened) in self.open.drain() {
            if let Opened::Writing(part) = opened {
                part.discard();
            }
        }
    }
}

/// Reads at most so many bytes, and looks whether the file ends there.
fn read_at(file: &File, offset: u64, bytes_max: usize, out: &mut Vec<u8>) -> io::Result<bool> {
    let start = out.len();
    out.resize(start + bytes_max, 0);
    let mut filled = start;
    while let Some(room) = out.get_mut(filled..).filter(|room| !room.is_empty()) {
        let at = offset + u64::try_from(filled - start).unwrap_or(u64::MAX);
        match file.read_at(room, at) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.truncate(filled);
    let end = offset + u64::try_from(filled - start).unwrap_or(u64::MAX);
    Ok(filled - start < bytes_max || end >= file.metadata()?.len())
}

/// Compares without telling by its time where the first difference is.
fn is_same(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

fn status_of(error: &io::Error) -> FileStatus {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound | Kind::NotADirectory | Kind::InvalidInput | Kind::InvalidFilename => FileStatus::NotFound,
        // Out of the folder there is nothing.
        Kind::CrossesDevices => FileStatus::NotFound,
        _ if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP) => FileStatus::NotFound,
        Kind::PermissionDenied | Kind::IsADirectory | Kind::ReadOnlyFilesystem => FileStatus::PermissionDenied,
        Kind::AlreadyExists | Kind::ResourceBusy => FileStatus::Locked,
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => FileStatus::BufferOverrun,
        _ => {
            tracing::warn!(%error, "file request failed");
            FileStatus::Fatal
        }
    }
}
