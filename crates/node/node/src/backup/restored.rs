//! A data folder out of an archive: as a whole, or not at all.

use super::archive::{Stored, take};
use super::{BackupError, Contents, DataFormat, VERSION, Watch, of};
use serde_json::Value as Json;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Makes a data folder of an archive. The folder is made beside its place and gets its name when all of it is durable.
///
/// # Errors
/// The archive is not whole, the folder has something in it, or a file cannot be written; there is no folder then that was not there.
pub fn restore(from: &mut impl Read, total: u64, data: &Path, watch: Watch<'_>) -> Result<Contents, BackupError> {
    // The mark says that the folder beside is ours, and not whole: it is there before the folder, and for as long.
    let (folder, mark) = (beside(data, "restoring"), beside(data, "restore-is-not-done"));
    if is_occupied(data).map_err(of(data))? {
        return Err(BackupError::Occupied(data.display().to_string()));
    }
    if folder.exists() && !mark.exists() {
        return Err(BackupError::Occupied(folder.display().to_string()));
    }
    fs::create_dir_all(parent(&mark)).and_then(|()| File::create(&mark)).map_err(of(&mark))?;
    remove(&folder).and_then(|()| fs::create_dir(&folder)).map_err(of(&folder))?;
    let mut bytes = 0;
    let done = take(
        from,
        |name| Restored::begin(&folder, name),
        |count| {
            bytes += count;
            watch(bytes, total.max(bytes));
        },
    );
    let contents = done.and_then(|(stored, manifest)| compare(&stored, &manifest)).inspect_err(|_| {
        let _ = remove(&folder).and_then(|()| fs::remove_file(&mark));
    })?;
    let settle = || {
        tieline_history::note_restored(&folder)?;
        sync_folders(&folder)?;
        match fs::remove_dir(data) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::rename(&folder, data)?;
        File::open(parent(data))?.sync_all()?;
        fs::remove_file(&mark)
    };
    settle().map_err(of(data))?;
    Ok(contents)
}

/// Reads an archive to its end.
///
/// # Errors
/// It is not whole.
pub fn check(from: &mut impl Read, total: u64, watch: Watch<'_>) -> Result<Contents, BackupError> {
    let mut bytes = 0;
    let (stored, manifest) = take(
        from,
        |_| Ok(io::sink()),
        |count| {
            bytes += count;
            watch(bytes, total.max(bytes));
        },
    )?;
    compare(&stored, &manifest)
}

/// Compares what was read with what was to be read.
fn compare(stored: &[Stored], manifest: &str) -> Result<Contents, BackupError> {
    let damaged = |what: String| BackupError::Damaged(what);
    let manifest: Json =
        serde_json::from_str(manifest).map_err(|error| damaged(format!("its list of files: {error}")))?;
    if manifest["version"] != VERSION {
        return Err(damaged(format!("it has version {}, expected {VERSION}", manifest["version"])));
    }
    DataFormat::of_manifest(&manifest)?.check().map_err(BackupError::Format)?;
    let listed = manifest["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    if listed.len() != stored.len() {
        return Err(damaged(format!("it has {} files, expected {}", stored.len(), listed.len())));
    }
    for (file, expect) in stored.iter().zip(listed) {
        if expect["name"] != file.name || expect["bytes"] != file.bytes || expect["sha256"] != file.sha256 {
            return Err(damaged(format!("{} is not what was stored", file.name)));
        }
    }
    let time = manifest["time"].as_str().unwrap_or_default().to_owned();
    Ok(Contents { time, files: stored.len() as u64, bytes: stored.iter().map(|file| file.bytes).sum() })
}

/// The folder of what its owner alone may read: keys and the list of sites.
const SECRETS: &str = "fabric/";

/// A file that is durable once it is flushed.
struct Restored(File);

impl Restored {
    fn begin(folder: &Path, name: &str) -> Result<Self, BackupError> {
        let path = folder.join(name);
        fs::create_dir_all(parent(&path)).map_err(of(&path))?;
        // Seeds are refused where others could read them.
        let mode = if name.starts_with(SECRETS) { 0o600 } else { 0o666 };
        File::options().write(true).create_new(true).mode(mode).open(&path).map(Self).map_err(of(&path))
    }
}

impl Write for Restored {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

fn is_occupied(data: &Path) -> io::Result<bool> {
    match fs::read_dir(data) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A name on the same file system.
fn beside(data: &Path, end: &str) -> PathBuf {
    let name = data.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    parent(data).join(format!(".{name}.{end}"))
}

fn parent(path: &Path) -> PathBuf {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    above.map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Makes the names of all files durable.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}
