//! The embedded store: heads in memory, chunks of columns in files, an index in SQLite.
//!
//! ```text
//! append ─▶ heads ─ sealed ─▶ chunk bytes ─▶ file, synced ─▶ index, committed ─▶ heads release them
//!             └──────────── read meanwhile (`reader`) ──────────────┘
//!                                                  closed days: chunks ─▶ Parquet (`compaction`)
//! ```
//!
//! A sample is in a head until its chunk is in the index. Who reads takes the heads first, then the index: a sample that moves
//! meanwhile is met twice, and equal samples of one time are one.

mod chunk_reader;
pub(crate) mod compaction;
mod deletion;
pub(crate) mod fill;
mod in_order;
pub(crate) mod instant;
mod listing;
pub(crate) mod live;
mod migration;
pub(crate) mod parts;
pub(crate) mod policy;
pub(crate) mod question;
pub(crate) mod reader;
mod retention;
pub(crate) mod rows;
pub(crate) mod source;
mod standing;
pub(crate) mod state_rows;
#[cfg(test)]
mod tests;
mod timeline;
mod walk;

use crate::store::{
    ByRules, Deleting, Deletion, Entry, Migration, Progress, Retained, Retention, Size, Store, StoreError,
};
use compaction::{Compacted, Compaction};
use live::Live;
use migration::Mover;
pub(crate) use policy::Cutoffs;
use policy::Policy;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::{Storage, Timestamp, Topic};
use tieline_journal::Seq;
use tieline_series::{Column, HeadLimits, Heads, Origin, Sample, Sealed, encode};
use tieline_store::{
    ChunkFiles, ChunkRow, ClosedDay, DAY_US, Extent, FileRow, HISTORY_FOLDER, INDEX_FILE, Index, Moved, file_name,
    history_files,
};

/// Bytes of heads that are written, synced and committed together, give or take a head: what comes in waits meanwhile.
const FLUSH_BYTES: usize = 2 << 20;
/// How long after its end a day is closed: late samples come until then.
const CLOSED_AFTER: Duration = Duration::from_secs(3600);
/// How often samples of closed days in memory are looked for.
const SEALED_EVERY: Duration = Duration::from_secs(600);
/// How long a day file stays before late samples are merged into another.
const MERGED_AFTER: Duration = Duration::from_secs(6 * 3600);
/// Microseconds of an hour: chunks and the parts of a day file begin with one.
const HOUR_US: i64 = 3_600_000_000;
const MICROSECOND: Duration = Duration::from_micros(1);
/// Why days are neither closed nor changed.
const MOVING: &str = "the history of an earlier release is being moved, expected it to be done: tieline status";

/// The writing side of the embedded store.
pub(crate) struct Columns<S> {
    files: ChunkFiles<S>,
    index: Index,
    pub(crate) live: Live,
    /// Where the index is.
    position: Seq,
    /// The record up to which samples were taken.
    taken: Seq,
    /// What is too old, as it was looked for last, and when that was.
    cutoffs: Cutoffs,
    cut_at: Option<Timestamp>,
    /// Whether chunks are left that are too old.
    is_removing: bool,
    policy: Policy,
    /// Whether rules were taken.
    has_rules: bool,
    /// The places of topics' rules, by the number of the topic.
    places: Vec<usize>,
    /// When all closed days were looked at last.
    planned_at: Option<Timestamp>,
    /// When edits of samples that are too old were looked for last.
    edits_at: Option<Timestamp>,
    by_rules: ByRules,
    /// Samples that were removed with the day that was written last.
    removed_with_days: u64,
    mover: Option<Mover>,
    data: PathBuf,
    compaction: Option<Compaction>,
    /// While samples are deleted no day is closed otherwise.
    is_deleting: bool,
    /// Days that ended before this are closed without waiting for late samples.
    closed_by: Option<Timestamp>,
    sealed_at: Option<Timestamp>,
    chunks: u64,
    written_bytes: u64,
    closed_days: u64,
    memory_bytes: usize,
    numbers: Vec<u32>,
}

#[cfg(test)]
impl Columns<tieline_store::FolderStorage> {
    /// Opens the store of a data folder, or makes one. Its heads are read through `live`.
    ///
    /// # Errors
    /// It is no store, was written by a newer release, or cannot be opened.
    pub(crate) fn open(data: &Path, live: Live, memory_bytes: usize, file_bytes: u64) -> Result<Self, StoreError> {
        let folder = folder_of(data);
        let storage = tieline_store::FolderStorage::open(&folder).map_err(|error| StoreError::Failed(error.into()))?;
        Self::over(storage, data, live, memory_bytes, file_bytes)
    }
}

/// Where the files of the store are.
/// What is said where the files have no index.
const INDEX_IS_LOST: &str = "index.db is lost; tieline history repair makes it again of the other files";

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
        if !path.exists() && !history_files(&mut storage).map_err(tieline_store::StoreError::from)?.is_empty() {
            // A new index would know none of the files.
            return Err(tieline_store::StoreError::Damaged(INDEX_IS_LOST.to_owned()).into());
        }
        let mut index = Index::open(&path)?;
        let files = ChunkFiles::open(storage, &index.files()?, index.last_file()?, file_bytes)?;
        let mover = Mover::open(data, &mut index)?;
        let position = Seq(index.position()?);
        let heads = Heads::new(HeadLimits { bytes_max: memory_bytes, ..HeadLimits::default() });
        live.open(heads, index.end_of_days()?);
        let mut store = Self {
            files,
            index,
            live,
            position,
            taken: position,
            cutoffs: Cutoffs::default(),
            cut_at: None,
            is_removing: false,
            policy: Policy::default(),
            has_rules: false,
            places: Vec::new(),
            planned_at: None,
            edits_at: None,
            by_rules: ByRules::default(),
            removed_with_days: 0,
            mover,
            data: data.to_owned(),
            compaction: None,
            is_deleting: false,
            closed_by: None,
            sealed_at: None,
            chunks: 0,
            written_bytes: 0,
            closed_days: 0,
            memory_bytes,
            numbers: Vec::new(),
        };
        // What an earlier process was about to do when it ended.
        store.erase()?;
        let empty = store.index.empty_files()?;
        store.drop_files(&empty)?;
        Ok(store)
    }

    /// Files of which no chunk is left are removed, then forgotten.
    fn drop_files(&mut self, files: &[FileRow]) -> Result<(), StoreError> {
        self.files.remove(files).map_err(tieline_store::StoreError::from)?;
        Ok(self.index.forget(files)?)
    }

    /// A day file takes the place of the chunks that it was made of.
    fn enter_day(&mut self, day: i32, done: &Compacted, erases: bool, now: Timestamp) -> Result<(), StoreError> {
        let Compacted { file, check, rows, replaced, counts, plan, .. } = done;
        let (file, check, plan) = (*file, *check, plan.as_deref());
        let ready = now.later(MERGED_AFTER);
        let closed = ClosedDay { file, check, rows, replaced, ready, erases, plan, counts };
        let entered = self.index.commit_day(&closed);
        if entered.is_err() {
            // Another is written the next time.
            self.files.remove(&[file]).map_err(tieline_store::StoreError::from)?;
        }
        let empty = entered?;
        if erases {
            self.erase()?;
            self.planned_at = None;
        }
        self.drop_files(&empty)?;
        self.written_bytes += file.bytes;
        self.closed_days += 1;
        tracing::info!(
            file = file_name(file.number, Some(day)),
            samples = done.samples,
            bytes = file.bytes,
            "a day of the history is closed"
        );
        Ok(())
    }

    /// Enters the day that is written, where it is whole; says what became of it.
    fn poll_day(&mut self, now: Timestamp) -> Result<Option<Compacted>, StoreError> {
        let Some(compaction) = self.compaction.take() else { return Ok(None) };
        let (day, erases, is_again) = (compaction.day(), compaction.is_deletion(), compaction.is_again());
        match compaction.poll() {
            Err(under_way) => {
                self.compaction = Some(under_way);
                Ok(None)
            }
            Ok(done) => {
                let done = done?;
                self.enter_day(day, &done, erases, now)?;
                self.note_counts(&done, is_again);
                Ok(Some(done))
            }
        }
    }

    /// Writes what is sealed. What could not be written stays in memory, and can be read there.
    fn flush(&mut self) -> Result<(), StoreError> {
        while self.flush_some()? {}
        Ok(())
    }

    /// Writes some of it, and more where memory is full. Hours of all topics end together.
    fn flush_in_turn(&mut self) -> Result<(), StoreError> {
        while self.flush_some()? && self.live.with(|heads| heads.bytes()) > self.memory_bytes {}
        Ok(())
    }

    /// Says false where nothing is sealed.
    fn flush_some(&mut self) -> Result<bool, StoreError> {
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
            return Ok(false);
        }
        let count = sealed.len();
        let position =
            self.live.with(|heads| heads.oldest_after(count)).map_or(self.taken, |oldest| Seq(oldest).previous());
        let columns = sealed.iter().map(|sealed| (sealed.topic, &*sealed.column, sealed.origin));
        self.write(columns, position, None)?;
        self.live.with(|heads| heads.release(count));
        Ok(true)
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
                let samples = part.len() as u64;
                rows.push(ChunkRow { number: 0, topic, first, last, extent, samples, summary: words, day: None });
            }
        }
        let chunks: Vec<(u32, u32)> = rows.iter().map(|row| (row.topic, row.extent.bytes)).collect();
        let index = &self.index;
        let (file, start) = self.files.append(&chunks, &bytes, || index.new_file(), |topics| index.names(topics))?;
        for row in &mut rows {
            row.extent = Extent { file, offset: start + row.extent.offset, ..row.extent };
        }
        self.index.commit(&rows, position.0, moved)?;
        self.live.note_written(&rows);
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

    fn topic(&self, name: &str) -> Option<&Topic> {
        self.index.topic(name)
    }

    fn append(&mut self, entries: &[Entry], upto: Seq) -> Result<(), StoreError> {
        // What earlier calls sealed goes first, so that memory is bounded where the disk takes nothing.
        self.flush_in_turn()?;
        self.numbers.clear();
        self.index.numbers(entries.iter().map(|entry| &entry.topic), &mut self.numbers)?;
        let numbers = &self.numbers;
        self.live.with(|heads| {
            for (entry, number) in entries.iter().zip(numbers) {
                heads.push(*number, Sample::new(entry.time, &entry.body), entry.seq.0);
            }
        });
        self.taken = self.taken.max(upto);
        Ok(())
    }

    fn caught_up(&mut self) {
        self.live.complete();
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
        self.retain_some(retention, now, samples_max)
    }

    fn compact(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        if self.compaction.is_some() {
            self.poll_day(now)?;
            return Ok(true);
        }
        if self.is_deleting {
            return Ok(false);
        }
        // What an earlier release has is moved first, lest days are written twice.
        if self.mover.is_some() {
            return Ok(false);
        }
        let ended = now.micros().saturating_sub(micros(CLOSED_AFTER));
        let ended = self.closed_by.map_or(ended, |by| ended.max(by.micros()));
        let closed = ended.div_euclid(DAY_US);
        let before = i32::try_from(closed).unwrap_or(i32::MAX);
        if self.sealed_at.is_none_or(|last| now >= last.later(SEALED_EVERY) || now < last) {
            // What closed days have in memory becomes chunks.
            self.live.with(|heads| heads.seal_beginning_before(Timestamp::from_micros(closed.saturating_mul(DAY_US))));
            self.flush()?;
            self.sealed_at = Some(now);
        }
        self.take_rules(self.policy.others)?;
        let Some(day) = self.index.open_day(before, now)? else { return self.follow_rules(before, now) };
        self.close_day(day, now, false)?;
        Ok(true)
    }

    fn migrate(&mut self) -> Result<Option<Migration>, StoreError> {
        let Some(mut mover) = self.mover.take() else { return Ok(None) };
        let left = mover.step(self);
        if !matches!(left, Ok(None)) {
            self.mover = Some(mover);
        }
        left
    }

    fn delete(&mut self, what: &Deletion, deleting: &mut Deleting, now: Timestamp) -> Result<Progress, StoreError> {
        let step = self.delete_some(what, deleting, now);
        self.is_deleting = matches!(step, Ok(Progress::More | Progress::Waits));
        step
    }

    fn close_days(&mut self, now: Timestamp) -> Result<(), StoreError> {
        if self.mover.is_some() {
            return Err(StoreError::Failed(MOVING.into()));
        }
        self.index.ready_days()?;
        (self.sealed_at, self.planned_at) = (None, None);
        self.closed_by = Some(now);
        Ok(())
    }

    fn size(&self) -> Size {
        Size {
            disk_bytes: self.index.bytes().unwrap_or(0),
            memory_bytes: self.live.with(|heads| heads.bytes() as u64),
            chunks: self.chunks,
            written_bytes: self.written_bytes,
            closed_days: self.closed_days,
            rules: self.by_rules,
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl<S> Drop for Columns<S> {
    fn drop(&mut self) {
        if let Some(compaction) = self.compaction.take() {
            compaction.end();
        }
        // What is in heads is in the journal: who reads takes it from there.
        self.live.close();
    }
}
