//! Samples of chunks and day files as columns, and what is said of those that cannot be read.

use super::MICROSECOND;
use super::source::{Loaded, Loader, Source};
use std::sync::Arc;
use tieline_series::Column;
use tieline_store::{IndexReader, StoreError};
use tracing::warn;

/// What became of reading the samples of a source.
pub(super) enum Read {
    Column(Arc<Column>),
    /// They cannot be read; that was counted and said.
    Damaged,
    /// They are elsewhere now, or were removed.
    Moved,
}

/// Reads samples, and counts those that are damaged.
pub(super) struct ChunkReader {
    loader: Loader,
    damaged: u64,
}

impl ChunkReader {
    pub(super) const fn new(loader: Loader) -> Self {
        Self { loader, damaged: 0 }
    }

    /// Samples that could not be read because their chunk is damaged or lost, so far.
    pub(super) const fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Reads the samples of a source.
    pub(super) fn read(&mut self, index: &IndexReader, source: &Source) -> Result<Read, StoreError> {
        let why = match self.loader.source(source)? {
            Loaded::Column(column) => return Ok(Read::Column(column)),
            Loaded::Damaged(why) => why,
            Loaded::Missing => "its bytes are not there".to_owned(),
        };
        let Some((row, samples)) = source.row() else { return Ok(Read::Damaged) };
        // As it is now, whatever was held.
        index.release()?;
        let there = index.chunks(row.topic, row.first, row.first.later(MICROSECOND))?;
        if there.iter().all(|other| other.extent != row.extent) {
            return Ok(Read::Moved);
        }
        self.damaged += samples;
        warn!(chunk = %row.extent, samples, why, "samples of the history cannot be read and are left out");
        Ok(Read::Damaged)
    }
}
