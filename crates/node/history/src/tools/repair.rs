//! Makes a damaged history usable again: a lost or damaged index is made again of the files of chunks, and what cannot be read is
//! removed. The caller holds the lock of the data folder.
//!
//! A repair that is killed is begun again: until the new index has its name, there is the old one or none, and a node does not
//! open a history without one.

use super::Watch;
use super::verify::Fault;
use crate::columns::folder_of;
use crate::columns::reader::HistoryReader;
use crate::store::StoreError;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use tieline_core::{Storage, StorageErrorKind, Topic};
use tieline_journal::{Item, Reader, Seq};
use tieline_series::Chunk;
use tieline_store::{
    ChunkRow, Extent, FolderStorage, INDEX_FILE, Index, IndexReader, JOURNAL_FOLDER, NamedFile, Salvage,
    chunk_file_name, chunk_files, read_chunk, read_names,
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
    if let Some(what) = why_unusable(&path)? {
        done.rebuilt = true;
        done.faults.push(Fault { chunk: None, topic: None, what });
        rebuild(data, &mut done, watch)?;
    }
    let seen = HistoryReader::open(data)?.verify(watch)?;
    let rows: Vec<ChunkRow> = seen.faults.iter().filter_map(|fault| fault.chunk.clone()).collect();
    let mut index = Index::open(&path)?;
    let removed = index.remove(&rows)?;
    let mut storage = folder(data)?;
    for file in &removed.files {
        match storage.remove(&chunk_file_name(*file)) {
            Err(error) if error.kind != StorageErrorKind::Missing => {
                return Err(tieline_store::StoreError::from(error).into());
            }
            Ok(()) | Err(_) => {}
        }
    }
    index.forget(&removed.files)?;
    for row in index.files()? {
        // Nothing more is expected of a file that has lost its end.
        let length = storage.len(&chunk_file_name(row.0)).unwrap_or(row.1);
        if length < row.1 {
            index.shorten(row.0, length)?;
        }
    }
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

/// Why an index cannot be used; none where it can.
fn why_unusable(path: &Path) -> Result<Option<String>, StoreError> {
    if !path.exists() {
        return Ok(Some(format!("{INDEX_FILE} is lost")));
    }
    match IndexReader::open(path).and_then(|index| index.faults()) {
        Ok(faults) => Ok(faults.first().map(|fault| format!("{INDEX_FILE} is damaged: {fault}"))),
        Err(error @ tieline_store::StoreError::Newer(..)) => Err(error.into()),
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
    let old = read_old(INDEX_FILE).or_else(|| read_old(DAMAGED_FILE)).unwrap_or_default();
    let new_path = folder_path.join(NEW_FILE);
    let mut index = Index::open(&new_path)?;
    let last_record = enter(&mut storage, &mut index, &old, done, watch)?;
    index.commit(&[], position(data, last_record)?.0, None)?;
    if let Some(cutoff) = old.cutoff {
        index.restore_cutoff(cutoff)?;
    }
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

/// Enters all chunks of the files that can be read; returns the last journal record that they have samples of.
fn enter(
    storage: &mut FolderStorage,
    index: &mut Index,
    old: &Salvage,
    done: &mut RepairedHistory,
    watch: Watch<'_>,
) -> Result<u64, StoreError> {
    let stored = |error| StoreError::from(tieline_store::StoreError::from(error));
    let numbers = chunk_files(storage).map_err(stored)?;
    let (mut names, mut files) = (old.names.clone(), BTreeMap::<u32, BTreeMap<u64, (u32, u32)>>::new());
    let mut total = 0;
    for chunk in &old.chunks {
        files.entry(chunk.extent.file).or_default().insert(chunk.extent.offset, (chunk.topic, chunk.extent.bytes));
    }
    for file in &numbers {
        let NamedFile { chunks, names: there, unnamed_bytes } = read_names(storage, *file).map_err(stored)?;
        names.extend(there);
        done.unnamed_bytes += unnamed_bytes;
        total += chunks.iter().map(|chunk| u64::from(chunk.extent.bytes)).sum::<u64>();
        let of_file = files.entry(*file).or_default();
        of_file.extend(chunks.into_iter().map(|chunk| (chunk.extent.offset, (chunk.topic, chunk.extent.bytes))));
    }
    let (mut last_record, mut bytes_done) = (0, 0);
    let mut numbered: HashMap<u32, Topic> = HashMap::new();
    for file in numbers {
        let mut rows = Vec::new();
        for (offset, (topic, bytes)) in files.remove(&file).unwrap_or_default() {
            let extent = Extent { file, offset, bytes };
            bytes_done += u64::from(bytes);
            match row_of(storage, topic, extent).map_err(stored)? {
                Ok((row, last)) => {
                    last_record = last_record.max(last);
                    let name = names.get(&topic).cloned().or_else(|| Topic::new(&format!("{NAMELESS}{topic}")).ok());
                    numbered.extend(name.map(|name| (topic, name)));
                    rows.push(row);
                }
                // Zeros: it was deleted.
                Err(what) if what.is_empty() => {}
                Err(what) => {
                    done.removed_chunks += 1;
                    let fault = Fault { chunk: None, topic: None, what: format!("{extent}: {what}") };
                    done.faults.push(fault);
                }
            }
            watch(bytes_done, total.max(bytes_done));
        }
        index.restore_topics(numbered.iter().map(|(number, name)| (*number, name)))?;
        numbered.clear();
        index.commit(&rows, 0, None)?;
    }
    Ok(last_record)
}

/// The row of a chunk, and the last journal record that it has samples of; or what is wrong with it: nothing where it was deleted.
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
            (ChunkRow { topic, first, last, extent, samples, summary }, chunk.origin.last)
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
        Err(error) => return Err(tieline_store::StoreError::from(error).into()),
    })
}
