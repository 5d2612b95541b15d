//! Traces on the disk: some files a connection, the oldest of which goes when there is no room.
//!
//! ```text
//! <data>/trace/device-site%2Frelay1/000000000000002a.trace      "TLTRACE1", records
//! ```
//!
//! A file is only appended to, and a run of the node begins a new one: what a crash has cut is at the end of a file and is left out.
//! A second's records may be lost in a crash, and what the system had not written in a power failure.

use super::counters::{TraceCounters, add};
use super::store::TracedConnection;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};

/// What a file begins with.
const START: &[u8; 8] = b"TLTRACE1";
/// Batches that may wait for the thread.
const BATCHES_MAX: usize = 64;
/// Files of a connection, about.
const FILES: u64 = 8;
/// The ending of their names.
const ENDING: &str = "trace";

/// Records of a connection on their way to the disk.
#[derive(Debug)]
struct Batch {
    connection: TracedConnection,
    bytes_max: u64,
    records: Vec<u8>,
    /// Nothing follows.
    is_last: bool,
}

/// The thread that writes traces. Copies are handles of the same.
#[derive(Clone, Debug)]
pub struct TraceDisk {
    folder: PathBuf,
    /// Once something is to be written.
    batches: Arc<OnceLock<SyncSender<Batch>>>,
    counters: Arc<TraceCounters>,
}

impl TraceDisk {
    /// Below a data folder, with a thread where something is to be written; it ends with the last handle.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(data: &Path, is_written: bool) -> io::Result<Self> {
        let (folder, counters, batches) = (data.join("trace"), Arc::default(), Arc::default());
        let disk = Self { folder, batches, counters };
        if is_written {
            disk.begin_writing()?;
        }
        Ok(disk)
    }

    /// Starts the thread, where there is none: something is to be written from here on.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin_writing(&self) -> io::Result<()> {
        if self.batches.get().is_some() {
            return Ok(());
        }
        let (batches, incoming) = sync_channel(BATCHES_MAX);
        let writer = Writer { folder: self.folder.clone(), open: HashMap::new(), counters: Arc::clone(&self.counters) };
        std::thread::Builder::new().name("trace".to_owned()).spawn(move || writer.run(&incoming))?;
        // Where another came first, this thread ends.
        let _ = self.batches.set(batches);
        Ok(())
    }

    /// What traces count.
    #[must_use]
    pub const fn counters(&self) -> &Arc<TraceCounters> {
        &self.counters
    }

    /// Hands records to the thread; they come back where it has enough to do.
    pub(super) fn write(&self, connection: &TracedConnection, bytes_max: u64, records: Vec<u8>) -> Result<(), Vec<u8>> {
        self.send(Batch { connection: connection.clone(), bytes_max, records, is_last: false })
    }

    /// Hands the last records of a connection to the thread, which closes its file; they come back where it has enough to do.
    pub(super) fn close(&self, connection: &TracedConnection, bytes_max: u64, records: Vec<u8>) -> Result<(), Vec<u8>> {
        self.send(Batch { connection: connection.clone(), bytes_max, records, is_last: true })
    }

    fn send(&self, batch: Batch) -> Result<(), Vec<u8>> {
        let Some(batches) = self.batches.get() else { return Ok(()) };
        batches.try_send(batch).map_err(|(TrySendError::Full(batch) | TrySendError::Disconnected(batch))| batch.records)
    }

    /// The files of a connection, oldest first; none where nothing was written.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn files(&self, connection: &TracedConnection) -> io::Result<Vec<PathBuf>> {
        let files = files(&self.folder.join(connection.folder()))?;
        Ok(files.into_iter().map(|(_, path, _)| path).collect())
    }
}

/// The records of a file.
///
/// # Errors
/// It cannot be read, or is no trace.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut start = [0; START.len()];
    // A file that a crash left without its start has no records.
    if file.metadata()?.len() < u64::try_from(START.len()).unwrap_or(u64::MAX) {
        return Ok(Vec::new());
    }
    file.read_exact(&mut start)?;
    if start != *START {
        return Err(io::Error::other(format!("{} is no trace of this version", path.display())));
    }
    let mut records = Vec::new();
    file.read_to_end(&mut records)?;
    Ok(records)
}

/// Number, path and bytes of each file in a folder, oldest first.
fn files(folder: &Path) -> io::Result<Vec<(u64, PathBuf, u64)>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let is_trace = path.extension().is_some_and(|ending| ending == ENDING);
        let number = path.file_stem().and_then(|name| u64::from_str_radix(name.to_str()?, 16).ok());
        if let Some(number) = number.filter(|_| is_trace) {
            let bytes = fs::metadata(&path).map_or(0, |about| about.len());
            found.push((number, path, bytes));
        }
    }
    found.sort_unstable_by_key(|(number, ..)| *number);
    Ok(found)
}

/// What the thread has.
struct Writer {
    folder: PathBuf,
    open: HashMap<TracedConnection, Segment>,
    counters: Arc<TraceCounters>,
}

/// The file of a connection that is appended to.
struct Segment {
    file: File,
    bytes: u64,
}

impl Writer {
    fn run(mut self, batches: &Receiver<Batch>) {
        let mut failed = false;
        while let Ok(batch) = batches.recv() {
            let appended = if batch.records.is_empty() { Ok(()) } else { self.append(&batch) };
            if batch.is_last {
                self.open.remove(&batch.connection);
            }
            match appended {
                Ok(()) => {
                    failed = false;
                    add(&self.counters.disk_bytes, batch.records.len());
                }
                Err(error) => {
                    self.open.remove(&batch.connection);
                    add(&self.counters.disk_dropped_bytes, batch.records.len());
                    // The disk may be full for days.
                    if !std::mem::replace(&mut failed, true) {
                        tracing::warn!(folder = %self.folder.display(), %error, "a protocol trace cannot be written");
                    }
                }
            }
        }
    }

    fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let folder = self.folder.join(batch.connection.folder());
        let share = batch.bytes_max / FILES;
        let more = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
        let has_room = |segment: &Segment| segment.bytes + more <= share;
        if !self.open.get(&batch.connection).is_some_and(has_room) {
            self.open.remove(&batch.connection);
            let segment = begin(&folder, batch.bytes_max.saturating_sub(share.max(more)))?;
            self.open.insert(batch.connection.clone(), segment);
        }
        let Some(segment) = self.open.get_mut(&batch.connection) else { return Ok(()) };
        segment.file.write_all(&batch.records)?;
        segment.bytes += more;
        Ok(())
    }
}

/// Removes the oldest files until no more than `keep` bytes are left, and begins a new one.
fn begin(folder: &Path, keep: u64) -> io::Result<Segment> {
    // What devices and the node say to each other may have secrets.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let known = files(folder)?;
    let next = known.last().map_or(0, |(number, ..)| number + 1);
    let mut bytes: u64 = known.iter().map(|(.., bytes)| *bytes).sum();
    for (_, path, length) in known {
        if bytes <= keep {
            break;
        }
        fs::remove_file(path)?;
        bytes -= length;
    }
    let path = folder.join(format!("{next:016x}.{ENDING}"));
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(START)?;
    Ok(Segment { file, bytes: u64::try_from(START.len()).unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::super::record::{Kind, Records, header};
    use super::*;
    use tieline_core::{Instant, Now, Timestamp};

    fn record(number: u8) -> Vec<u8> {
        let now = Now { mono: Instant(1), utc: Timestamp::from_millis(0) };
        let payload = [number; 100];
        [&header(Kind::Sent, 0, now, 100)[..], &payload].concat()
    }

    fn writer(folder: &Path) -> Writer {
        Writer { folder: folder.to_owned(), open: HashMap::new(), counters: Arc::default() }
    }

    fn append(writer: &mut Writer, connection: &TracedConnection, numbers: std::ops::Range<u8>) {
        for number in numbers {
            let batch =
                Batch { connection: connection.clone(), bytes_max: 4096, records: record(number), is_last: false };
            writer.append(&batch).unwrap();
        }
    }

    #[test]
    fn the_newest_records_are_on_the_disk_over_restarts() {
        let data = tempfile::tempdir().unwrap();
        let disk = TraceDisk::start(data.path(), false).unwrap();
        let connection = TracedConnection::of_name("device-a/b c");
        let mut first = writer(&disk.folder);
        append(&mut first, &connection, 0..20);
        drop(first);
        // What a crash cut.
        let last = disk.files(&connection).unwrap().pop().unwrap();
        OpenOptions::new().append(true).open(last).unwrap().write_all(&record(99)[..50]).unwrap();
        append(&mut writer(&disk.folder), &connection, 20..60);
        let files = disk.files(&connection).unwrap();
        assert!(files.iter().all(|file| file.starts_with(data.path().join("trace/device-a%2Fb%20c"))));
        let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!(bytes <= 4096, "{bytes}");
        let mut numbers = Vec::new();
        for file in files {
            numbers.extend(Records(&read_file(&file).unwrap()).map(|record| record.payload[0]));
        }
        assert!(numbers.len() > 20, "{numbers:?}");
        assert!(numbers.is_sorted() && numbers.last() == Some(&59), "{numbers:?}");
        assert!(disk.files(&TracedConnection::of_name("none")).unwrap().is_empty());
    }

    #[test]
    fn other_files_are_no_traces() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("1.trace");
        fs::write(&path, b"something else").unwrap();
        assert!(read_file(&path).is_err());
        fs::write(&path, b"TL").unwrap();
        assert_eq!(read_file(&path).unwrap(), [0; 0]);
    }

    /// A thread that was not needed at the start is there once it is, and a connection that is no more keeps no file open.
    #[test]
    fn the_thread_begins_when_there_is_something_to_write() {
        let data = tempfile::tempdir().unwrap();
        let disk = TraceDisk::start(data.path(), false).unwrap();
        let connection = TracedConnection::of_name("device-a");
        disk.write(&connection, 4096, record(1)).unwrap();
        disk.begin_writing().unwrap();
        disk.begin_writing().unwrap();
        disk.write(&connection, 4096, record(2)).unwrap();
        disk.close(&connection, 4096, record(3)).unwrap();
        disk.write(&connection, 4096, record(4)).unwrap();
        let counters = Arc::clone(disk.counters());
        let written = || super::super::counters::read(&counters.disk_bytes);
        let all = u64::try_from(3 * record(0).len()).unwrap();
        while written() < all {
            std::thread::yield_now();
        }
        let files = disk.files(&connection).unwrap();
        let numbers = |file: &PathBuf| -> Vec<u8> {
            Records(&read_file(file).unwrap()).map(|record| record.payload[0]).collect()
        };
        assert_eq!(files.iter().map(numbers).collect::<Vec<_>>(), [vec![2, 3], vec![4]]);
    }
}
