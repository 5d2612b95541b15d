//! Chunks as columns, read from their files.

use super::MICROSECOND;
use std::sync::Arc;
use tieline_series::{Chunk, Column};
use tieline_store::{ChunkRow, FolderStorage, IndexReader, StoreError, read_chunk};
use tracing::warn;

/// Reads chunks, and counts the samples of those that are damaged.
pub(super) struct ChunkReader {
    files: FolderStorage,
    damaged: u64,
}

impl ChunkReader {
    pub(super) const fn new(files: FolderStorage) -> Self {
        Self { files, damaged: 0 }
    }

    /// Samples that could not be read because their chunk is damaged or lost, so far.
    pub(super) const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The samples of a chunk; none where it is damaged, lost, or removed since.
    pub(super) fn column(&mut self, index: &IndexReader, row: &ChunkRow) -> Result<Option<Arc<Column>>, StoreError> {
        let read = read_chunk(&mut self.files, row.extent)?;
        let why = match read.map(|bytes| Chunk::parse(&bytes.into()).and_then(|chunk| Ok((chunk.samples()?, chunk)))) {
            Some(Ok((column, chunk))) if (chunk.first, chunk.last) == (row.first, row.last) => {
                return Ok(Some(Arc::new(column)));
            }
            Some(Ok(_)) => "it is another chunk than the index says".to_owned(),
            Some(Err(error)) => error.to_string(),
            // Removed since by retention, or lost.
            None => {
                let there = index.chunks(row.topic, row.first, row.first.later(MICROSECOND))?;
                if there.iter().all(|other| other.extent != row.extent) {
                    return Ok(None);
                }
                "its bytes are not there".to_owned()
            }
        };
        self.damaged += row.samples;
        warn!(chunk = %row.extent, samples = row.samples, why, "a chunk of the history cannot be read; its samples are left out");
        Ok(None)
    }
}
