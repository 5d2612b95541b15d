//! What a data folder holds at one moment.

use super::archive::{FILE_BYTES_MAX, Stored, end, put};
use super::{BackupError, Contents, DataFormat, MANIFEST, VERSION, Watch, of};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Mutex;
use tieline_core::Timestamp;
use tieline_store::{
    EDITS_FILE, EditFile, HISTORY_FOLDER, INDEX_FILE, IndexReader, JOURNAL_FOLDER, OLDER_FILE, file_name,
};

/// Where the copies of the index and of the edits are until they are in the archive.
const SCRATCH: &str = "backup.tmp";
/// The file of the known time: `wall_clock.rs` writes it at each start.
const CLOCK_FILE: &str = "clock";
/// How often the folder is looked at again while files come and go.
const ATTEMPTS: usize = 20;

/// One backup of this process at a time.
static UNDER_WAY: Mutex<()> = Mutex::new(());

/// Whether a folder is the data folder of a node that has run.
#[must_use]
pub fn is_data_folder(data: &Path) -> bool {
    [CLOCK_FILE, JOURNAL_FOLDER, HISTORY_FOLDER, OLDER_FILE].iter().any(|name| data.join(name).exists())
}

/// Writes a data folder as an archive.
///
/// # Errors
/// A file cannot be read, or the archive cannot be written; what was written is incomplete then.
pub fn write(data: &Path, now: Timestamp, out: &mut impl Write, watch: Watch<'_>) -> Result<Contents, BackupError> {
    let _one = UNDER_WAY.try_lock().map_err(|_| BackupError::Busy)?;
    let scratch = data.join(SCRATCH);
    let made = remove_all(&scratch).and_then(|()| fs::create_dir(&scratch)).map_err(of(&scratch));
    let done = made.and_then(|()| copy(data, &scratch, now, out, watch));
    remove_all(&scratch).map_err(of(&scratch))?;
    done
}

fn remove_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn copy(
    data: &Path,
    scratch: &Path,
    now: Timestamp,
    out: &mut impl Write,
    watch: Watch<'_>,
) -> Result<Contents, BackupError> {
    let mut opened = None;
    for _ in 0..ATTEMPTS {
        opened = open(data, scratch)?;
        if opened.is_some() {
            break;
        }
    }
    let opened = opened.ok_or_else(|| BackupError::History("files come and go too fast".to_owned()))?;
    let total = opened.values().map(|(_, bytes)| bytes).sum();
    let (mut bytes, mut stored) = (0, Vec::with_capacity(opened.len()));
    for (name, (file, length)) in opened {
        if length > FILE_BYTES_MAX {
            return Err(BackupError::Io(name, io::ErrorKind::FileTooLarge.into()));
        }
        stored.push(put(out, &name, length, &mut file.take(length), |count| {
            bytes += count;
            watch(bytes, total);
        })?);
    }
    let contents = Contents { time: now.to_string(), files: stored.len() as u64, bytes };
    let format = DataFormat::of(data).map_err(BackupError::Format)?;
    let text = manifest(&contents, &format, &stored);
    put(out, MANIFEST, text.len() as u64, &mut text.as_bytes(), |_| {})?;
    end(out)?;
    Ok(contents)
}

fn manifest(contents: &Contents, format: &DataFormat, stored: &[Stored]) -> String {
    let file = |file: &Stored| json!({ "name": file.name, "bytes": file.bytes, "sha256": file.sha256 });
    json!({
        "version": VERSION,
        "format": format.number,
        "needs": format.needs,
        "release": env!("CARGO_PKG_VERSION"),
        "time": contents.time,
        "files": stored.iter().map(file).collect::<Vec<_>>(),
    })
    .to_string()
}

/// Files that are open, with the bytes that are meant, by name.
type Opened = BTreeMap<String, (File, u64)>;

/// Opens all files; none where they came or went meanwhile.
fn open(data: &Path, scratch: &Path) -> Result<Option<Opened>, BackupError> {
    let mut opened = Opened::new();
    let names = names(data)?;
    // A journal as it is now has a place in the log of a core. What the log has before that and is in files of its own must be in the
    // backup, too: these are opened later.
    let is_file_of_log =
        |name: &String| name == "control.jsonl" || name.starts_with("audit") || name.starts_with("fabric/");
    let (later, first): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| is_file_of_log(name));
    for name in first.into_iter().chain(later) {
        match File::open(data.join(name)).and_then(|file| Ok((file.metadata()?.len(), file))) {
            Ok((length, file)) => drop(opened.insert(name.clone(), (file, length))),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(of(data.join(name))(error)),
        }
    }
    let is_chunks =
        |name: &String| name.starts_with(HISTORY_FOLDER) && (name.ends_with(".chunks") || name.ends_with(".parquet"));
    // Chunks and day files are as far meant as the index knows them, which is copied now.
    if names.iter().filter(|name| !is_chunks(name)).ne(self::names(data)?.iter().filter(|name| !is_chunks(name))) {
        return Ok(None);
    }
    let index = data.join(HISTORY_FOLDER).join(INDEX_FILE);
    if !index.exists() {
        return Ok(Some(opened));
    }
    let copied = scratch.join(INDEX_FILE);
    remove_file(&copied)?;
    let history = |error: tieline_store::StoreError| BackupError::History(error.to_string());
    IndexReader::open(&index).and_then(|index| index.copy_to(&copied)).map_err(history)?;
    let known = IndexReader::open(&copied).and_then(|index| index.files()).map_err(history)?;
    let mut chunks: BTreeMap<String, (File, u64)> = BTreeMap::new();
    for row in known {
        let name = format!("{HISTORY_FOLDER}/{}", file_name(row.row.number, row.row.day));
        let file = match opened.remove(&name) {
            Some((file, _)) => file,
            None => match File::open(data.join(&name)) {
                Ok(file) => file,
                // Lost, or removed since: then the index has changed.
                Err(error) if error.kind() == ErrorKind::NotFound && row.live_bytes == 0 => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let there = IndexReader::open(&index).and_then(|index| index.files()).map_err(history)?;
                    if there.contains(&row) {
                        continue;
                    }
                    return Ok(None);
                }
                Err(error) => return Err(of(data.join(&name))(error)),
            },
        };
        let length = file.metadata().map_err(of(&name))?.len().min(row.row.bytes);
        chunks.insert(name, (file, length));
    }
    opened.retain(|name, _| !is_chunks(name));
    opened.append(&mut chunks);
    let file = File::open(&copied).map_err(of(&copied))?;
    let length = file.metadata().map_err(of(&copied))?.len();
    opened.insert(format!("{HISTORY_FOLDER}/{INDEX_FILE}"), (file, length));
    copy_edits(data, scratch, &mut opened)?;
    Ok(Some(opened))
}

/// The database of edits, as it is at one moment.
fn copy_edits(data: &Path, scratch: &Path, opened: &mut Opened) -> Result<(), BackupError> {
    let edits = data.join(HISTORY_FOLDER).join(EDITS_FILE);
    if !edits.exists() {
        return Ok(());
    }
    let copied = scratch.join(EDITS_FILE);
    remove_file(&copied)?;
    let history = |error: tieline_store::StoreError| BackupError::History(error.to_string());
    EditFile::reading(&edits).and_then(|file| file.copy_to(&copied)).map_err(history)?;
    let file = File::open(&copied).map_err(of(&copied))?;
    let length = file.metadata().map_err(of(&copied))?.len();
    opened.insert(format!("{HISTORY_FOLDER}/{EDITS_FILE}"), (file, length));
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), BackupError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(of(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The files below a folder that a backup has, but the index and the edits.
fn names(data: &Path) -> Result<Vec<String>, BackupError> {
    let (mut found, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        let path = data.join(&folder);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !folder.is_empty() => continue,
            entries => entries.map_err(of(&path))?,
        };
        for entry in entries {
            let entry = entry.map_err(of(&path))?;
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            let is_copied = [INDEX_FILE, EDITS_FILE].map(|file| format!("{HISTORY_FOLDER}/{file}"));
            let is_copied = is_copied.iter().any(|file| name.starts_with(file));
            // What is being written and replaces another file, and the lock.
            let is_passing = name == SCRATCH
                || name == "lock"
                || [".new", ".tmp", ".part", ".next"].iter().any(|end| name.ends_with(end));
            // A store of an earlier release that is being moved has its log beside it, which changes.
            let is_older = name.starts_with(OLDER_FILE) && !name.starts_with("history.db.moved");
            let kind = entry.file_type().map_err(of(&path))?;
            if is_copied || is_passing {
                continue;
            }
            if is_older {
                return Err(BackupError::History(format!(
                    "{OLDER_FILE} of an earlier release is being moved, expected it to be done: tieline status"
                )));
            }
            if kind.is_dir() {
                folders.push(format!("{name}/"));
            } else if kind.is_file() {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}
