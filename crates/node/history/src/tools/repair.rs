//! Makes a damaged history usable again: a lost or damaged index is made again of the files of chunks and the day files, and what
//! cannot be read is removed. The caller holds the lock of the data folder.
//!
//! A repair that is killed is begun again: until the new index has its name, there is the old one or none, and a node does not
//! open a history without one.

use super::Watch;
use super::verify::Fault;
use crate::columns::compaction::{PIECE_SAMPLES, place_number, share};
use crate::columns::folder_of;
use crate::columns::parts;
use crate::columns::reader::HistoryReader;
use crate::columns::source::read_part;
use crate::edits;
use crate::store::StoreError;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use tieline_core::{Storage, StorageErrorKind, Timestamp, Topic};
use tieline_journal::{Item, Reader, Seq};
use tieline_series::Chunk;
use tieline_store::{
    ChunkRow, ClosedDay, DayFile, EDITS_FILE, EditFile, Extent, FileRow, FolderStorage, INDEX_FILE, Index, IndexReader,
    JOURNAL_FOLDER, NamedFile, Salvage, StoreError as FileError, WrittenDay, day_file_check, file_name, history_files,
    read_chunk, read_names,
};

/// The index while it is made.
const NEW_FILE: &str = "index.db.new";
/// The index that was damaged.
const DAMAGED_FILE: &str = "index.db.damaged";
/// Where samples of a topic go of which no file has the name.
const NAMELESS: &str = "lost-and-found/topic-";

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairedHistory {
    /// Whether the index was made again.
    pub rebuilt: bool,
    /// Chunks that are in the history.
    pub chunks: u64,
    /// Their samples.
    pub samples: u64,
    /// Chunks that were removed.
    pub removed_chunks: u64,
    /// Samples that are lost with them.
    pub lost_samples: u64,
    /// Edits and annotations that are kept, those that were undone among them.
    pub edits: u64,
    /// Bytes of files of which nothing says what they are.
    pub unnamed_bytes: u64,
    /// What was found, and is removed or made again.
    pub faults: Vec<Fault>,
}

/// Repairs the history of a data folder.
///
/// # Errors
/// There is none, it was written by a newer release, or a file failed.
pub fn repair(data: &Path, watch: Watch<'_>) -> Result<RepairedHistory, StoreError> {
    let mut done = RepairedHistory::default();
    let path = folder_of(data).join(INDEX_FILE);
    if let Some(what) = why_unusable(data)? {
        done.rebuilt = true;
        done.faults.push(Fault { chunk: None, topic: None, what });
        rebuild(data, &mut done, watch)?;
    }
    repair_edits(data, &mut done)?;
    let seen = HistoryReader::open(data)?.verify(watch)?;
    done.edits = seen.edits;
    let rows: Vec<ChunkRow> = seen.faults.iter().filter_map(|fault| fault.chunk.clone()).collect();
    let mut index = Index::open(&path)?;
    let removed = index.remove(&rows)?;
    settle_files(data, &mut index, &removed.files)?;
    done.removed_chunks += rows.len() as u64;
    done.lost_samples += removed.samples;
    done.chunks = seen.chunks - rows.len() as u64;
    done.samples = seen.samples - removed.samples;
    let seen_faults = seen.faults.len();
    done.faults.extend(seen.faults);
    // Each look lists a bounded number of chunks.
    if seen.fault_count > seen_faults as u64 && !rows.is_empty() {
        let more = repair(data, watch)?;
        done.removed_chunks += more.removed_chunks;
        done.lost_samples += more.lost_samples;
        (done.chunks, done.samples) = (more.chunks, more.samples);
    }
    Ok(done)
}

/// Keeps the edits that can be read of a damaged database.
fn repair_edits(data: &Path, done: &mut RepairedHistory) -> Result<(), StoreError> {
    let folder = folder_of(data);
    let path = folder.join(EDITS_FILE);
    let found = match edits::reading(data).and_then(|file| file.map_or(Ok(Vec::new()), |file| file.faults())) {
        Ok(faults) => faults.into_iter().next(),
        Err(error @ FileError::Newer(..)) => return Err(error.into()),
        Err(error) => Some(error.to_string()),
    };
    let Some(what) = found else { return Ok(()) };
    let (readable, _) = EditFile::reading(&path).map(|file| file.readable()).unwrap_or_default();
    let failed = |error: std::io::Error| StoreError::Failed(error.into());
    for part in ["", "-wal", "-shm"] {
        remove(&folder.join(format!("{EDITS_FILE}.new{part}"))).map_err(failed)?;
    }
    let new = folder.join(format!("{EDITS_FILE}.new"));
    let file = EditFile::open(&new)?;
    readable.iter().try_for_each(|record| file.restore(record))?;
    file.close()?;
    for part in ["", "-wal", "-shm"] {
        match fs::rename(folder.join(format!("{EDITS_FILE}{part}")), folder.join(format!("{EDITS_FILE}.damaged{part}")))
        {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
    }
    File::open(&new).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(&new, &path).map_err(failed)?;
    File::open(&folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    let what = format!(
        "{EDITS_FILE}: {what}; {} edits can be read, the damaged file is {EDITS_FILE}.damaged now",
        readable.len()
    );
    done.faults.push(Fault { chunk: None, topic: None, what });
    Ok(())
}

/// Removes files of which no chunk is left, and expects of others what is there.
fn settle_files(data: &Path, index: &mut Index, empty: &[FileRow]) -> Result<(), StoreError> {
    let mut storage = folder(data)?;
    for file in empty {
        match storage.remove(&file_name(file.number, file.day)) {
            Err(error) if error.kind != StorageErrorKind::Missing => return Err(FileError::from(error).into()),
            Ok(()) | Err(_) => {}
        }
    }
    index.forget(empty)?;
    for row in index.files()? {
        let name = file_name(row.number, row.day);
        let length = match row.day {
            // Its samples were looked at: what was not found wrong is what it has.
            Some(_) => {
                let found = day_file_check(&folder_of(data).join(&name), |_| ())?;
                found.map(|found| index.set_check(row.number, found.check).map(|()| found.bytes)).transpose()?
            }
            None => storage.len(&name).ok(),
        };
        // Nothing more is expected of a file that has lost its end.
        if let Some(length) = length.filter(|length| *length < row.bytes || row.day.is_some()) {
            index.shorten(row.number, length)?;
        }
    }
    Ok(())
}

/// Why an index cannot be used; none where it can.
fn why_unusable(data: &Path) -> Result<Option<String>, StoreError> {
    let path = &folder_of(data).join(INDEX_FILE);
    if !path.exists() {
        return Ok(Some(format!("{INDEX_FILE} is lost")));
    }
    let last = history_files(&mut FolderStorage::reading(&folder_of(data))).map_err(FileError::from)?;
    let given = IndexReader::open(path).and_then(|index| index.last_file());
    let other = last.iter().find(|(number, _)| given.as_ref().is_ok_and(|given| number > given));
    if let Some((number, day)) = other {
        return Ok(Some(format!("{} is not of this {INDEX_FILE}", file_name(*number, *day))));
    }
    match IndexReader::open(path).and_then(|index| index.faults()) {
        Ok(faults) => Ok(faults.first().map(|fault| format!("{INDEX_FILE} is damaged: {fault}"))),
        Err(error @ FileError::Newer(..)) => Err(error.into()),
        Err(error) => Ok(Some(error.to_string())),
    }
}

fn folder(data: &Path) -> Result<FolderStorage, StoreError> {
    FolderStorage::open(&folder_of(data)).map_err(|error| StoreError::Failed(error.into()))
}

/// Makes the index again of the files.
fn rebuild(data: &Path, done: &mut RepairedHistory, watch: Watch<'_>) -> Result<(), StoreError> {
    let (folder_path, failed) = (folder_of(data), |error: std::io::Error| StoreError::Failed(error.into()));
    let mut storage = folder(data)?;
    for part in ["", "-wal", "-shm", "-journal"] {
        remove(&folder_path.join(format!("{NEW_FILE}{part}"))).map_err(failed)?;
    }
    let read_old = |name: &str| IndexReader::open(&folder_path.join(name)).map(|index| index.salvage()).ok();
    let mut old = read_old(INDEX_FILE).unwrap_or_default();
    let older = read_old(DAMAGED_FILE).unwrap_or_default();
    for (number, name) in older.names {
        old.names.entry(number).or_insert(name);
    }
    old.chunks.extend(older.chunks);
    let new_path = folder_path.join(NEW_FILE);
    let mut index = Index::open(&new_path)?;
    let last_record = enter(&mut storage, (&mut index, &folder_path), &old, done, watch)?;
    index.commit(&[], position(data, last_record)?.0, None)?;
    index.close()?;
    // The database first: while it has its name, its log has to be beside it.
    for part in ["", "-wal", "-shm"] {
        let [from, to] = [INDEX_FILE, DAMAGED_FILE].map(|name| folder_path.join(format!("{name}{part}")));
        match fs::rename(from, to) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
    }
    let replace = || {
        File::open(&new_path)?.sync_all()?;
        fs::rename(&new_path, folder_path.join(INDEX_FILE))?;
        File::open(&folder_path)?.sync_all()
    };
    replace().map_err(failed)
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Chunks of a file, by where they begin: topic and bytes.
type ChunksOf = BTreeMap<u64, (u32, u32)>;

/// Enters all that can be read of the files; returns the last journal record that chunks have samples of.
fn enter(
    storage: &mut FolderStorage,
    (index, folder): (&mut Index, &Path),
    old: &Salvage,
    done: &mut RepairedHistory,
    watch: Watch<'_>,
) -> Result<u64, StoreError> {
    let stored = |error| StoreError::from(FileError::from(error));
    let found = history_files(storage).map_err(stored)?;
    let (mut names, mut files) = (old.names.clone(), BTreeMap::<u32, ChunksOf>::new());
    for chunk in &old.chunks {
        files.entry(chunk.extent.file).or_default().insert(chunk.extent.offset, (chunk.topic, chunk.extent.bytes));
    }
    let (mut total, mut bytes_done) = (0, 0);
    files.retain(|file, _| found.contains(&(*file, None)));
    for (file, day) in &found {
        if day.is_some() {
            total += storage.len(&file_name(*file, *day)).map_err(stored)?;
            continue;
        }
        let NamedFile { chunks, names: there, unnamed_bytes } = read_names(storage, *file).map_err(stored)?;
        names.extend(there);
        done.unnamed_bytes += unnamed_bytes;
        let of_file = files.entry(*file).or_default();
        of_file.extend(chunks.into_iter().map(|chunk| (chunk.extent.offset, (chunk.topic, chunk.extent.bytes))));
        total += of_file.values().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
    }
    // Numbers of topics stay what they were; what day files name besides gets others.
    for (topic, _) in files.values().flat_map(BTreeMap::values) {
        if let Ok(name) = Topic::new(&format!("{NAMELESS}{topic}")) {
            names.entry(*topic).or_insert(name);
        }
    }
    index.restore_topics(names.iter().map(|(number, name)| (*number, name)))?;
    index.restore_last_file(found.iter().map(|(file, _)| *file).max().unwrap_or(0))?;
    let mut tell = |bytes: u64| {
        bytes_done += bytes;
        watch(bytes_done, total.max(bytes_done));
    };
    // Late samples came behind those of their day.
    for (file, day) in found.iter().filter_map(|(file, day)| Some((*file, (*day)?))) {
        enter_day(index, folder, (file, day), done, &mut tell)?;
    }
    let mut last_record = 0;
    for (file, chunks) in files {
        let mut rows = Vec::new();
        for (offset, (topic, bytes)) in chunks {
            let extent = Extent { file, offset, bytes };
            match row_of(storage, topic, extent).map_err(stored)? {
                Ok((row, last)) => {
                    last_record = last_record.max(last);
                    rows.push(row);
                }
                // Zeros: it was deleted.
                Err(what) if what.is_empty() => {}
                Err(what) => {
                    done.removed_chunks += 1;
                    let fault = Fault {
                        chunk: None,
                        topic: None,
                        what: format!("{} at {offset}: {what}", file_name(file, None)),
                    };
                    done.faults.push(fault);
                }
            }
            tell(u64::from(bytes));
        }
        index.commit(&rows, 0, None)?;
    }
    Ok(last_record)
}

/// Enters what can be read of a day file. One that cannot be read at all gets another name.
fn enter_day(
    index: &mut Index,
    folder: &Path,
    (number, day): (u32, i32),
    done: &mut RepairedHistory,
    tell: &mut dyn FnMut(u64),
) -> Result<(), StoreError> {
    let name = file_name(number, Some(day));
    let path = folder.join(&name);
    let Some(WrittenDay { bytes, check }) = day_file_check(&path, tell)? else { return Ok(()) };
    let opened = DayFile::open(&path).and_then(|file| match file {
        Some(file) => file.topics(PIECE_SAMPLES).map(|topics| Some((file, topics))),
        None => Ok(None),
    });
    let (mut file, topics) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) => return Ok(()),
        Err(FileError::Damaged(what)) => {
            let what = format!("{name}: {what}; the file is {name}.damaged now");
            done.faults.push(Fault { chunk: None, topic: None, what });
            let moved = fs::rename(&path, folder.join(format!("{name}.damaged")));
            return moved.map_err(|error| StoreError::Failed(error.into()));
        }
        Err(error) => return Err(error.into()),
    };
    let mut rows = Vec::new();
    for (topic_name, place) in topics {
        let read = match Topic::new(&topic_name) {
            Ok(topic) => read_part(&mut file, place)?.map(|column| (topic, column)),
            Err(error) => Err(error.to_string()),
        };
        let ends = read.as_ref().ok().and_then(|(_, column)| column.ends());
        match (read, ends) {
            (Ok((topic, column)), Some((first, last))) => {
                let mut numbers = Vec::new();
                index.numbers(std::iter::once(&topic), &mut numbers)?;
                let extent = Extent { file: number, offset: place_number(place), bytes: 0 };
                let (samples, summary) = (column.len() as u64, parts::encode(&column));
                let topic = numbers.first().copied().unwrap_or_default();
                rows.push(ChunkRow { number: 0, topic, first, last, extent, samples, summary, day: Some(day) });
            }
            (Ok(_), None) => {}
            (Err(what), _) => {
                done.removed_chunks += 1;
                done.lost_samples += u64::from(place.rows);
                let what = format!("{name}: {} samples of {topic_name}: {what}", place.rows);
                done.faults.push(Fault { chunk: None, topic: None, what });
            }
        }
    }
    let file = FileRow { number, bytes, day: Some(day) };
    let (rows, ready) = (share(rows, file), Timestamp::from_micros(0));
    let closed = ClosedDay { file, check, rows: &rows, replaced: &[], ready, erases: false, plan: None, counts: &[] };
    index.commit_day(&closed)?;
    Ok(())
}

/// What the index says of a chunk, and the last journal record that it has samples of; or what is wrong with it: nothing where it was
/// deleted.
fn row_of(
    storage: &mut FolderStorage,
    topic: u32,
    extent: Extent,
) -> Result<Result<(ChunkRow, u64), String>, tieline_core::StorageError> {
    let Some(bytes) = read_chunk(storage, extent)? else { return Ok(Err("its bytes are not there".to_owned())) };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Err(String::new()));
    }
    Ok(Chunk::parse(&bytes.into())
        .and_then(|chunk| Ok((chunk.samples()?, chunk)))
        .map_err(|error| error.to_string())
        .map(|(_, chunk)| {
            let mut summary = Vec::new();
            chunk.summary.put(&mut summary);
            let (first, last, samples) = (chunk.first, chunk.last, chunk.count as u64);
            (ChunkRow { number: 0, topic, first, last, extent, samples, summary, day: None }, chunk.origin.last)
        }))
}

/// The record before the first that the journal has: every sample that may be in no chunk is in a record behind it.
fn position(data: &Path, last_record: u64) -> Result<Seq, StoreError> {
    const END: Seq = Seq(u64::MAX - 1);
    let mut reader = Reader::new(FolderStorage::reading(&data.join(JOURNAL_FOLDER)), Seq(1));
    Ok(match reader.next(END) {
        Ok(Some(Item::Record { seq, .. })) => seq.previous(),
        Ok(Some(Item::Lost(lost))) if lost.first.0.saturating_add(lost.records) <= END.0 => {
            Seq(lost.first.0.saturating_add(lost.records)).previous()
        }
        // An empty journal, or none: no number is given again that a chunk has.
        Ok(Some(Item::Lost(_)) | None) => Seq(last_record),
        Err(error) if error.kind == StorageErrorKind::Missing => Seq(last_record),
        Err(error) => return Err(FileError::from(error).into()),
    })
}
