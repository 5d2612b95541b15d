//! Paths beneath a folder.

use super::{DnpTime, FileEntry, FileKind, Permissions};
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, ResolveFlags, flock, openat, openat2, renameat, statat, unlinkat,
};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// A folder that no name leads out of.
#[derive(Debug)]
pub(super) struct Root(OwnedFd);

/// A file that is being written beside its place.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: File,
    /// Where writing begins: behind what a file holds that is appended to.
    pub(super) start: u64,
    folder: OwnedFd,
    folder_id: (u64, u64),
    name: String,
    part: String,
    mode: u32,
}

/// Folders within folders that are looked through for what a crash left.
const DEPTH_MAX: usize = 16;
/// Entries of folders that are looked at for it.
const LOOKED_AT_MAX: usize = 1_000_000;

const FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Keeps other stations from writing, as long as this one is there.
    pub(super) fn lock(&self) -> io::Result<()> {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => io::Error::other("another outstation writes its files there"),
            error => error.into(),
        })
    }

    /// Removes the parts of files that were being written when their station was killed; how many there were. To be
    /// called under the lock: nobody writes.
    pub(super) fn remove_parts(&self) -> io::Result<usize> {
        let (mut removed, mut looked_at) = (0, 0);
        let mut folders = vec![(self.0.try_clone()?, 0)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                looked_at += 1;
                if looked_at > LOOKED_AT_MAX {
                    tracing::warn!(looked_at, "not all of the folder was looked through for parts of files");
                    return Ok(removed);
                }
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let stat = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                if is_regular(stat.st_mode) && name.to_str().is_ok_and(is_part) {
                    unlinkat(&folder, name, AtFlags::empty())?;
                    removed += 1;
                }
                let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
                if is_folder && depth < DEPTH_MAX {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    // One that may not be read holds nothing that was written.
                    folders.extend(openat(&folder, name, flags, Mode::empty()).ok().map(|inner| (inner, depth + 1)));
                }
            }
        }
        Ok(removed)
    }

    /// Opens what a name says to be read. Pipes and devices do not block, and are not read.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let path = beneath(name)?;
        let path = if path.is_empty() { "." } else { &path };
        self.resolve(path, OFlags::RDONLY | FLAGS).map(File::from)
    }

    /// The kernel follows no path and no link out of the folder.
    fn resolve(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        Ok(openat2(&self.0, path, flags, Mode::empty(), how)?)
    }

    /// The folder of a name, and the name within.
    fn place(&self, name: &str) -> io::Result<(OwnedFd, String)> {
        let path = beneath(name)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", &path));
        if name.is_empty() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = self.resolve(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC)?;
        Ok((folder, name.to_owned()))
    }

    /// Makes a file beside the place of `name`, with what is there where it is appended to.
    pub(super) fn create(&self, name: &str, handle: u32, append: bool, size_max: u64) -> io::Result<Part> {
        let (folder, name) = self.place(name)?;
        let metadata = File::from(folder.try_clone()?).metadata()?;
        if statat(&folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| !is_regular(stat.st_mode)) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let before = match append {
            true => openat(&folder, name.as_str(), OFlags::RDONLY | OFlags::NOFOLLOW | FLAGS, Mode::empty())
                .map(File::from)
                .ok(),
            false => None,
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let part = format!(".{name}.{handle}.part");
        let file = File::from(openat(&folder, part.as_str(), flags, Mode::RUSR | Mode::WUSR)?);
        let folder_id = (metadata.dev(), metadata.ino());
        let mut part = Part { file, start: 0, folder, folder_id, name, part, mode: 0o644 };
        if let Some(before) = before {
            let copied = before.metadata().and_then(|metadata| match metadata.len() <= size_max {
                true => io::copy(&mut &before, &mut part.file),
                false => Err(io::ErrorKind::FileTooLarge.into()),
            });
            match copied {
                Ok(bytes) => part.start = bytes,
                Err(error) => {
                    part.discard();
                    return Err(error);
                }
            }
        }
        Ok(part)
    }

    pub(super) fn delete(&self, name: &str) -> io::Result<()> {
        let (folder, name) = self.place(name)?;
        Ok(unlinkat(&folder, name.as_str(), AtFlags::empty())?)
    }

    /// What a directory holds, by name, at most so much of it; and how much there is.
    pub(super) fn list(directory: &File, entries_max: usize) -> io::Result<(Vec<FileEntry>, usize)> {
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            // A name that is not UTF-8 could not be asked for.
            names.extend(entry.file_name().to_str().ok().filter(|name| !name.starts_with('.')).map(str::to_owned));
        }
        names.sort_unstable();
        let all = names.len();
        names.truncate(entries_max);
        let entries = names.into_iter().filter_map(|name| entry_in(directory, name)).collect();
        Ok((entries, all))
    }
}

fn entry_in(directory: &File, name: String) -> Option<FileEntry> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(directory, name.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how).ok()?;
    entry_of(name, &File::from(file)).ok()
}

/// What a file is.
pub(super) fn entry_of(name: String, file: &File) -> io::Result<FileEntry> {
    let metadata = file.metadata()?;
    let (kind, size) = match (metadata.is_dir(), metadata.is_file()) {
        (true, _) => (FileKind::DIRECTORY, 0),
        (_, true) => (FileKind::SIMPLE, u32::try_from(metadata.len()).unwrap_or(u32::MAX)),
        _ => return Err(io::ErrorKind::PermissionDenied.into()),
    };
    let millis = metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000);
    let created = DnpTime::from_millis(u64::try_from(millis).unwrap_or(0));
    let permissions = Permissions(u16::try_from(metadata.permissions().mode() & 0o777).unwrap_or(0));
    Ok(FileEntry { name, kind, size, created, permissions })
}

impl Part {
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        (self.folder_id, &self.name) == (other.folder_id, &other.name)
    }

    /// What the file may be used for once it is there; nothing is executable, and we can always read and write it.
    pub(super) fn with_mode(mut self, permissions: Permissions) -> Self {
        self.mode = u32::from(permissions.0) & 0o666 | 0o600;
        self
    }

    /// Takes the place: synced before, and the name after.
    pub(super) fn commit(self) -> io::Result<()> {
        let committed = (|| {
            self.file.set_permissions(std::fs::Permissions::from_mode(self.mode))?;
            self.file.sync_all()?;
            renameat(&self.folder, self.part.as_str(), &self.folder, self.name.as_str())?;
            rustix::fs::fsync(&self.folder)?;
            Ok(())
        })();
        if committed.is_err() {
            self.discard();
        }
        committed
    }

    /// Leaves what was there.
    pub(super) fn discard(&self) {
        if let Err(error) = unlinkat(&self.folder, self.part.as_str(), AtFlags::empty())
            && error != rustix::io::Errno::NOENT
        {
            tracing::warn!(%error, part = self.part, "part of a file stays");
        }
    }
}

fn is_regular(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode).is_file()
}

/// Whether a name is `.NAME.HANDLE.part`.
fn is_part(name: &str) -> bool {
    let middle = name.strip_prefix('.').and_then(|rest| rest.strip_suffix(".part"));
    let handle = middle.and_then(|middle| middle.rsplit_once('.')).filter(|(name, _)| !name.is_empty());
    handle.is_some_and(|(_, handle)| handle.parse::<u32>().is_ok())
}

/// The path of a name beneath the folder, without the parts that stand for the folder they are in (`.`, and nothing between
/// two slashes); no other part begins with a dot. Empty for the folder itself.
fn beneath(name: &str) -> io::Result<String> {
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let hidden = parts.iter().any(|part| part.starts_with('.'));
    if hidden || name.contains('\0') { Err(io::ErrorKind::NotFound.into()) } else { Ok(parts.join("/")) }
}
