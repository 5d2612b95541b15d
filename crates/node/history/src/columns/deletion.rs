//! Deletes samples so that their bytes are gone.
//!
//! ```text
//! memory ─▶ chunks   chunk ─▶ the same without the samples, in another place   index: the other one   old bytes: zeros
//!           durable           durable                                          committed              durable, forgotten
//! ```
//!
//! A deletion that is killed goes on with the next start where the index has its new chunks and old bytes are left; the rest is
//! deleted when it is asked for again.

use super::Columns;
use crate::store::{Deleting, Deletion, StoreError};
use std::collections::VecDeque;
use tieline_core::Storage;
use tieline_series::{Chunk, Column, Sample, encode};
use tieline_store::{ChunkRow, Extent, chunk_file_name, read_chunk};

/// Chunks of one step.
const STEP_CHUNKS: usize = 64;

/// A chunk, and what is to be in its place.
type Replaced = (ChunkRow, Option<ChunkRow>);

impl<S: Storage> Columns<S> {
    /// One step; false when nothing is left.
    pub(super) fn delete_some(&mut self, what: &Deletion, deleting: &mut Deleting) -> Result<bool, StoreError> {
        if deleting.topics.is_none() {
            // What is in memory is in the journal, too, and would be read from there again.
            self.live.with(|heads| heads.seal_all());
            self.flush()?;
            if self.position < self.taken {
                self.index.commit(&[], self.taken.0, None)?;
                self.position = self.taken;
            }
            deleting.topics = Some(self.index.topics(&what.topics)?.into_iter().map(|(number, _)| number).collect());
        }
        let (mut replaced, mut bytes) = (Vec::new(), Vec::new());
        while let Some(topic) = deleting.topics.as_ref().and_then(|topics| topics.front().copied()) {
            let damaged = self.take_topic(topic, what, (&mut replaced, &mut bytes))?;
            if replaced.len() >= STEP_CHUNKS {
                break;
            }
            deleting.done.damaged += damaged;
            deleting.topics.as_mut().map(VecDeque::pop_front);
        }
        if replaced.is_empty() {
            return Ok(false);
        }
        let written = || replaced.iter().filter_map(|(_, new)| new.as_ref());
        let topics: Vec<(u32, u32)> = written().map(|new| (new.topic, new.extent.bytes)).collect();
        if !topics.is_empty() {
            let (file, start) = self.files.append(&topics, &bytes, |topics| self.index.names(topics))?;
            for row in replaced.iter_mut().filter_map(|(_, new)| new.as_mut()) {
                row.extent = Extent { file, offset: start + row.extent.offset, ..row.extent };
            }
        }
        let removed = self.index.replace(&replaced)?;
        deleting.done.samples += removed.samples;
        deleting.done.chunks += replaced.len() as u64;
        self.erase()?;
        self.files.remove(&removed.files).map_err(tieline_store::StoreError::from)?;
        self.index.forget(&removed.files)?;
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
        for row in self.index.chunks(topic, (what.from, what.to))? {
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

    /// Overwrites the bytes of deleted chunks.
    pub(super) fn erase(&mut self) -> Result<(), StoreError> {
        let extents = self.index.to_erase()?;
        for Extent { file, offset, bytes } in &extents {
            match self.files.storage().erase(&chunk_file_name(*file), *offset, u64::from(*bytes)) {
                Err(error) if error.kind != tieline_core::StorageErrorKind::Missing => {
                    return Err(tieline_store::StoreError::from(error).into());
                }
                Ok(()) | Err(_) => {}
            }
        }
        if !extents.is_empty() {
            self.index.forget_erased()?;
        }
        Ok(())
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
    let extent =
        Extent { file: 0, offset: offset as u64, bytes: u32::try_from(bytes.len() - offset).unwrap_or(u32::MAX) };
    let mut words = Vec::new();
    summary.put(&mut words);
    ChunkRow { topic: row.topic, first, last, extent, samples: rest.len() as u64, summary: words }
}
