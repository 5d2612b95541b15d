//! The embedded store: heads in memory, chunks of columns in files, an index in SQLite.
//!
//! ```text
//! append ─▶ heads ─ sealed ─▶ chunk bytes ─▶ file, synced ─▶ index, committed ─▶ heads release them
//!             └──────────── read meanwhile (`reader`) ──────────────┘
//! ```
//!
//! A sample is in a head until its chunk is in the index. Who reads takes the heads first, then the index: a sample that moves
//! meanwhile is met twice, and equal samples of one time are one.

mod deletion;
pub(crate) mod live;
mod migration;
pub(crate) mod question;
pub(crate) mod reader;
pub(crate) mod rows;
#[cfg(test)]
mod tests;

use crate::store::{Deleting, Deletion, Entry, Migration, Retained, Retention, Size, Store, StoreError};
use live::Live;
use migration::Mover;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::{Storage, Timestamp};
use tieline_journal::Seq;
use tieline_series::{Column, HeadLimits, Heads, Origin, Sample, Sealed, encode};
use tieline_store::{
    ChunkFiles, ChunkRow, DAY_US, Extent, FolderStorage, HISTORY_FOLDER, INDEX_FILE, Index, Moved, chunk_files,
};

/// Bytes of chunks that are written, synced and committed together, give or take a head.
const FLUSH_BYTES: usize = 8 << 20;
/// How far the bound of age moves before chunks are looked for that are behind it.
const CUTOFF_STEP: Duration = Duration::from_secs(60);

/// The writing side of the embedded store.
pub(crate) struct Columns<S> {
    files: ChunkFiles<S>,
    index: Index,
    pub(crate) live: Live,
    /// Where the index is.
    position: Seq,
    /// The record up to which samples were taken.
    taken: Seq,
    cutoff: Option<Timestamp>,
    mover: Option<Mover>,
    chunks: u64,
    written_bytes: u64,
    numbers: Vec<u32>,
}

impl Columns<FolderStorage> {
    /// Opens the store of a data folder, or makes one. Its heads are read through `live`.
    ///
    /// # Errors
    /// It is no store, was written by a newer release, or cannot be opened.
    pub(crate) fn open(data: &Path, live: Live, memory_bytes: usize, file_bytes: u64) -> Result<Self, StoreError> {
        let folder = folder_of(data);
        let storage = FolderStorage::open(&folder).map_err(|error| StoreError::Failed(error.into()))?;
        Self::over(storage, data, live, memory_bytes, file_bytes)
    }
}

/// Where the files of the store are.
pub(crate) fn folder_of(data: &Path) -> PathBuf {
    data.join(HISTORY_FOLDER)
}

impl<S: Storage> Columns<S> {
    /// The same, with its chunks in a storage.
    pub(crate) fn over(
        storage: S,
        data: &Path,
        live: Live,
        memory_bytes: usize,
        file_bytes: u64,
    ) -> Result<Self, StoreError> {
        let (mut storage, path) = (storage, folder_of(data).join(INDEX_FILE));
        if !path.exists() && !chunk_files(&mut storage).map_err(tieline_store::StoreError::from)?.is_empty() {
            // A new index would know none of the files, and they would be removed.
            let words = format!("{INDEX_FILE} is lost; tieline history repair makes it again of the files of chunks");
            return Err(tieline_store::StoreError::Damaged(words).into());
        }
        let mut index = Index::open(&path)?;
        let files = ChunkFiles::open(storage, &index.files()?, file_bytes).map_err(tieline_store::StoreError::from)?;
        let mover = Mover::open(data, &mut index)?;
        let position = Seq(index.position()?);
        live.set(Some(Heads::new(HeadLimits { bytes_max: memory_bytes, ..HeadLimits::default() })));
        let (cutoff, numbers) = (None, Vec::new());
        let mut store =
            Self { files, index, live, position, taken: position, cutoff, mover, chunks: 0, written_bytes: 0, numbers };
        store.erase()?;
        Ok(store)
    }

    /// Writes what is sealed. What could not be written stays in memory, and can be read there.
    fn flush(&mut self) -> Result<(), StoreError> {
        loop {
            let mut weight = 0;
            let sealed: Vec<Sealed> = self.live.with(|heads| {
                let light = |sealed: &&Sealed| {
                    let is_light = weight < FLUSH_BYTES;
                    weight += sealed.column.bytes();
                    is_light
                };
                heads.sealed().take_while(light).cloned().collect()
            });
            if sealed.is_empty() {
                return Ok(());
            }
            let count = sealed.len();
            let position =
                self.live.with(|heads| heads.oldest_after(count)).map_or(self.taken, |oldest| Seq(oldest).previous());
            let columns = sealed.iter().map(|sealed| (sealed.topic, &*sealed.column, sealed.origin));
            self.write(columns, position, None)?;
            self.live.with(|heads| heads.release(count));
        }
    }

    /// Writes columns as chunks, a day at most each, and enters them.
    fn write<'c>(
        &mut self,
        columns: impl Iterator<Item = (u32, &'c Column, Origin)>,
        position: Seq,
        moved: Option<Moved>,
    ) -> Result<(), StoreError> {
        let (mut bytes, mut rows) = (Vec::new(), Vec::new());
        for (topic, column, origin) in columns {
            for part in column.cut_every(DAY_US) {
                let offset = bytes.len();
                let summary = encode(&part, origin, &mut bytes);
                let Some((first, last)) = part.ends() else { continue };
                let length = u32::try_from(bytes.len() - offset).unwrap_or(u32::MAX);
                let extent = Extent { file: 0, offset: offset as u64, bytes: length };
                let mut words = Vec::new();
                summary.put(&mut words);
                rows.push(ChunkRow { topic, first, last, extent, samples: part.len() as u64, summary: words });
            }
        }
        let chunks: Vec<(u32, u32)> = rows.iter().map(|row| (row.topic, row.extent.bytes)).collect();
        let (file, start) = self.files.append(&chunks, &bytes, |topics| self.index.names(topics))?;
        for row in &mut rows {
            row.extent = Extent { file, offset: start + row.extent.offset, ..row.extent };
        }
        self.index.commit(&rows, position.0, moved)?;
        self.position = position;
        self.chunks += rows.len() as u64;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }
}

impl<S: Storage + Send> Store for Columns<S> {
    fn position(&self) -> Seq {
        self.position
    }

    fn append(&mut self, entries: &[Entry], upto: Seq) -> Result<(), StoreError> {
        // What is left of earlier calls goes first, so that memory is bounded where the disk takes nothing.
        self.flush()?;
        self.numbers.clear();
        self.index.numbers(entries.iter().map(|entry| &entry.topic), &mut self.numbers)?;
        let numbers = &self.numbers;
        self.live.with(|heads| {
            for (entry, number) in entries.iter().zip(numbers) {
                heads.push(*number, Sample::new(entry.time, &entry.body), entry.seq.0);
            }
        });
        self.taken = self.taken.max(upto);
        if let Err(error) = self.flush() {
            tracing::debug!(%error, "chunks are written with the next samples");
        }
        Ok(())
    }

    fn relieve_journal(&mut self) -> Result<(), StoreError> {
        // The older half: soon there is as much again.
        let middle = self.position.0 + self.taken.since(self.position) / 2 + 1;
        let is_empty = self.live.with(|heads| {
            heads.seal_before(middle);
            heads.oldest().is_none()
        });
        if is_empty && self.position < self.taken {
            // Records without samples.
            self.index.commit(&[], self.taken.0, None)?;
            self.position = self.taken;
        }
        self.flush()
    }

    fn retain(&mut self, retention: &Retention, now: Timestamp, samples_max: u64) -> Result<Retained, StoreError> {
        let before = |age: Duration| {
            let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(now.micros().saturating_sub(micros))
        };
        let by_size = match retention.bytes {
            Some(bytes) if self.index.bytes()? > bytes => self.index.oldest()?.map(|(first, last)| {
                // A twentieth of the span, and the oldest chunk at least.
                let span = now.micros().saturating_sub(first.micros()).max(0);
                let end = first.micros().saturating_add(span / 20).max(last.micros());
                Timestamp::from_micros(end.saturating_add(1))
            }),
            Some(_) | None => None,
        };
        let is_new = |cutoff: &Timestamp| self.cutoff.is_none_or(|last| *cutoff >= last.later(CUTOFF_STEP));
        let by_age = retention.age.map(before).filter(is_new);
        let Some(cutoff) = by_age.max(by_size) else { return Ok(Retained::default()) };
        self.live.with(|heads| heads.seal_ending_before(cutoff));
        self.flush()?;
        let removed = self.index.remove_before(cutoff, samples_max)?;
        self.files.remove(&removed.files).map_err(tieline_store::StoreError::from)?;
        self.index.forget(&removed.files)?;
        if !removed.more {
            self.cutoff = by_age.or(self.cutoff);
        }
        let more = removed.more || (by_size.is_some() && removed.samples > 0);
        Ok(Retained { removed: removed.samples, more })
    }

    fn delete(&mut self, what: &Deletion, deleting: &mut Deleting) -> Result<bool, StoreError> {
        self.delete_some(what, deleting)
    }

    fn migrate(&mut self) -> Result<Option<Migration>, StoreError> {
        let Some(mut mover) = self.mover.take() else { return Ok(None) };
        let left = mover.step(self);
        if !matches!(left, Ok(None)) {
            self.mover = Some(mover);
        }
        left
    }

    fn size(&self) -> Size {
        Size {
            disk_bytes: self.index.bytes().unwrap_or(0),
            memory_bytes: self.live.with(|heads| heads.bytes() as u64),
            chunks: self.chunks,
            written_bytes: self.written_bytes,
        }
    }
}

impl<S> Drop for Columns<S> {
    fn drop(&mut self) {
        // What is in heads is in the journal: who reads takes it from there.
        self.live.set(None);
    }
}
