//! Deletes samples so that their bytes are gone.
//!
//! ```text
//! memory ─▶ chunks   closed day ─▶ another file without the samples  ┐
//!                    chunk ─▶ another chunk without the samples      ├─▶ index: the others ─▶ old bytes: zeros
//!           durable           durable                                ┘   committed             durable, forgotten
//! ```
//!
//! At the end all bytes of files of chunks are overwritten that the index has no chunk for: those of chunks that became a day file
//! are among them.
//!
//! A deletion that is killed goes on with the next start where the index has its new chunks and old bytes are left; the rest is
//! deleted when it is asked for again.

use super::compaction::{Compaction, Work};
use super::{Columns, MOVING};
use crate::store::{Deleting, Deletion, Progress, StoreError};
use std::collections::{BTreeSet, HashSet, VecDeque};
use tieline_core::{Storage, StorageErrorKind, Timestamp};
use tieline_series::{Chunk, Column, Sample, encode};
use tieline_store::{ChunkRow, Extent, ToErase, file_name, read_chunk, read_names};

/// Chunks of one step.
const STEP_CHUNKS: usize = 64;

/// A chunk, and what is to be in its place.
type Replaced = (ChunkRow, Option<ChunkRow>);

impl<S: Storage> Columns<S> {
    /// One step.
    pub(super) fn delete_some(
        &mut self,
        what: &Deletion,
        deleting: &mut Deleting,
        now: Timestamp,
    ) -> Result<Progress, StoreError> {
        if self.mover.is_some() {
            return Err(StoreError::Failed(MOVING.into()));
        }
        // A day that is being written has what is to be deleted.
        if let Some(is_ours) = self.compaction.as_ref().map(Compaction::is_deletion) {
            let Some(done) = self.poll_day(now)? else { return Ok(Progress::Waits) };
            if is_ours {
                deleting.done.samples += done.deleted;
                deleting.done.chunks += done.replaced.len() as u64;
                deleting.done.damaged += done.damaged;
            }
            return Ok(Progress::More);
        }
        let Some(days) = &mut deleting.days else {
            self.begin_deletion(what, deleting)?;
            return Ok(Progress::More);
        };
        if let Some(day) = days.pop_front() {
            let number = self.index.new_file()?;
            self.compaction = Some(Compaction::start(&self.data, day, number, Work::Delete(what.clone()))?);
            return Ok(Progress::Waits);
        }
        if self.delete_chunks(what, deleting)? {
            return Ok(Progress::More);
        }
        if deleting.files.is_none() {
            let files = self.index.files()?;
            deleting.files = Some(files.iter().filter(|file| file.day.is_none()).map(|file| file.number).collect());
        }
        match deleting.files.as_mut().and_then(VecDeque::pop_front) {
            Some(file) => {
                self.erase_dead(file)?;
                Ok(Progress::More)
            }
            None => {
                deleting.done.edits = self.live.edits().erase(&self.data, what, now)?;
                Ok(Progress::Done)
            }
        }
    }

    /// Everything in memory becomes chunks; what is to be deleted is looked for.
    fn begin_deletion(&mut self, what: &Deletion, deleting: &mut Deleting) -> Result<(), StoreError> {
        self.leave_journal()?;
        deleting.topics = self.index.topics(&what.topics)?.into_iter().map(|(number, _)| number).collect();
        let mut days = BTreeSet::new();
        for topic in &deleting.topics {
            days.extend(self.index.chunks(*topic, what.from, what.to)?.into_iter().filter_map(|row| row.day));
        }
        deleting.days = Some(days.into_iter().collect());
        Ok(())
    }

    /// Deletes samples of chunks, as many as one step has; says false when none are left.
    fn delete_chunks(&mut self, what: &Deletion, deleting: &mut Deleting) -> Result<bool, StoreError> {
        let (mut replaced, mut bytes) = (Vec::new(), Vec::new());
        while let Some(topic) = deleting.topics.front().copied() {
            let damaged = self.take_topic(topic, what, (&mut replaced, &mut bytes))?;
            if replaced.len() >= STEP_CHUNKS {
                break;
            }
            deleting.done.damaged += damaged;
            deleting.topics.pop_front();
        }
        if replaced.is_empty() {
            return Ok(false);
        }
        let written = || replaced.iter().filter_map(|(_, new): &Replaced| new.as_ref());
        let topics: Vec<(u32, u32)> = written().map(|new| (new.topic, new.extent.bytes)).collect();
        if !topics.is_empty() {
            let index = &self.index;
            let (file, start) =
                self.files.append(&topics, &bytes, || index.new_file(), |topics| index.names(topics))?;
            for row in replaced.iter_mut().filter_map(|(_, new)| new.as_mut()) {
                row.extent = Extent { file, offset: start + row.extent.offset, ..row.extent };
            }
        }
        let removed = self.index.replace(&replaced)?;
        deleting.done.samples += removed.samples;
        deleting.done.chunks += replaced.len() as u64;
        self.erase()?;
        self.drop_files(&removed.files)?;
        Ok(true)
    }

    /// Adds chunks of a topic with what is to be in their place, until there are enough for a step. Returns the samples of those that
    /// cannot be read.
    fn take_topic(
        &mut self,
        topic: u32,
        what: &Deletion,
        (replaced, bytes): (&mut Vec<Replaced>, &mut Vec<u8>),
    ) -> Result<u64, StoreError> {
        let mut damaged = 0;
        // What is still in a day file cannot be read, which was counted.
        for row in self.index.chunks(topic, what.from, what.to)?.into_iter().filter(|row| row.day.is_none()) {
            if replaced.len() >= STEP_CHUNKS {
                break;
            }
            let is_whole = row.first >= what.from && row.last < what.to;
            let rest = if is_whole { Some(Column::default()) } else { self.rest_of(&row, what)? };
            match rest {
                Some(rest) if rest.len() as u64 == row.samples => {}
                Some(rest) if rest.is_empty() => replaced.push((row, None)),
                Some(rest) => {
                    let new = put(&row, &rest, bytes);
                    replaced.push((row, Some(new)));
                }
                None => damaged += row.samples,
            }
        }
        Ok(damaged)
    }

    /// Overwrites the bytes of deleted samples.
    pub(super) fn erase(&mut self) -> Result<(), StoreError> {
        let extents = self.index.to_erase()?;
        for ToErase { name, offset, bytes } in &extents {
            self.files.erase(name, *offset, *bytes).map_err(tieline_store::StoreError::from)?;
        }
        if !extents.is_empty() {
            self.index.forget_erased()?;
        }
        Ok(())
    }

    /// Overwrites the chunks of a file that the index does not have.
    fn erase_dead(&mut self, file: u32) -> Result<(), StoreError> {
        let stored = |error| StoreError::from(tieline_store::StoreError::from(error));
        let there: HashSet<u64> = self.index.offsets()?.remove(&file).unwrap_or_default();
        let named = match read_names(self.files.storage(), file) {
            Err(error) if error.kind == StorageErrorKind::Missing => return Ok(()),
            read => read.map_err(stored)?,
        };
        let (name, mut dead): (String, Vec<(u64, u64)>) = (file_name(file, None), Vec::new());
        for extent in named.chunks.into_iter().map(|chunk| chunk.extent) {
            let end = extent.offset + u64::from(extent.bytes);
            if there.contains(&extent.offset) || self.is_erased(extent)? {
                continue;
            }
            match dead.last_mut().filter(|(_, last)| *last == extent.offset) {
                Some((_, last)) => *last = end,
                None => dead.push((extent.offset, end)),
            }
        }
        for (start, end) in dead {
            self.files.erase(&name, start, end - start).map_err(stored)?;
        }
        Ok(())
    }

    fn is_erased(&mut self, extent: Extent) -> Result<bool, StoreError> {
        let read = read_chunk(self.files.storage(), extent).map_err(tieline_store::StoreError::from)?;
        Ok(read.is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0)))
    }

    /// The samples of a chunk that are to stay; none where it cannot be read.
    fn rest_of(&mut self, row: &ChunkRow, what: &Deletion) -> Result<Option<Column>, StoreError> {
        let read = read_chunk(self.files.storage(), row.extent).map_err(tieline_store::StoreError::from)?;
        let column = read.and_then(|bytes| Chunk::parse(&bytes.into()).and_then(|chunk| chunk.samples()).ok());
        let stays = |sample: &Sample| sample.time < what.from || sample.time >= what.to;
        Ok(column.map(|column| column.iter().filter(stays).collect()))
    }
}

/// Appends the chunk of the samples that stay of another; its extent begins with that of `bytes`.
fn put(row: &ChunkRow, rest: &Column, bytes: &mut Vec<u8>) -> ChunkRow {
    let offset = bytes.len();
    // The journal has none of its records.
    let summary = encode(rest, tieline_series::Origin { first: 0, last: 0 }, bytes);
    let (first, last) = rest.ends().unwrap_or((row.first, row.last));
    let length = u32::try_from(bytes.len() - offset).unwrap_or(u32::MAX);
    let extent = Extent { file: 0, offset: offset as u64, bytes: length };
    let mut words = Vec::new();
    summary.put(&mut words);
    let samples = rest.len() as u64;
    ChunkRow { number: row.number, topic: row.topic, first, last, extent, samples, summary: words, day: None }
}
