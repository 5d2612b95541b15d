//! Moves what an earlier release stored, a page at a time, between what comes in. It goes on after a restart where it was.

use super::{Columns, HOUR_US};
use crate::store::{Migration, StoreError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tieline_core::Storage;
use tieline_series::{Column, Origin, Sample};
use tieline_store::{Index, Moved, OLDER_FILE, OlderStore, Page};
use tracing::info;

/// Samples of one step.
const PAGE_SAMPLES: u32 = 65_536;
/// The name of the older store once all of it was moved.
const MOVED_FILE: &str = "history.db.moved";

pub(super) struct Mover {
    store: OlderStore,
    path: PathBuf,
    moved: Option<Moved>,
    samples: u64,
    said_percent: usize,
}

impl Mover {
    /// Begins, or goes on, where there is an older store.
    pub(super) fn open(data: &Path, index: &mut Index) -> Result<Option<Self>, StoreError> {
        let path = data.join(OLDER_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let (store, moved) = (OlderStore::open(&path)?, index.moved()?);
        if moved.is_none() {
            // What the older store has, the journal may have no longer, and need not.
            let position = store.position()?.max(index.position()?);
            index.commit(&[], position, Some((i64::MIN, 0, 0)))?;
        }
        let (topics, _) = store.topics(moved);
        info!(topics, file = %path.display(), "the history of an earlier release is moved into columns; it can be read as it comes");
        Ok(Some(Self { store, path, moved, samples: 0, said_percent: 0 }))
    }

    /// Moves a page. None when all was moved.
    pub(super) fn step<S: Storage>(&mut self, columns: &mut Columns<S>) -> Result<Option<Migration>, StoreError> {
        let Some(Page { topic, samples, upto }) = self.store.page(self.moved, PAGE_SAMPLES)? else {
            return self.finish().map(|()| None);
        };
        self.samples += samples.len() as u64;
        let mut numbers = Vec::new();
        columns.index.numbers(std::iter::once(&topic), &mut numbers)?;
        let number = numbers.first().copied().unwrap_or_default();
        let mut column: Column = samples.iter().map(|(time, body)| Sample::new(*time, body)).collect();
        column.settle();
        let hours: Vec<Column> = column.cut_every(HOUR_US).collect();
        let origin = Origin { first: 0, last: 0 };
        let parts = merge_small(hours);
        columns.write(parts.iter().map(|part| (number, part, origin)), columns.position, Some(upto))?;
        self.moved = Some(upto);
        let (topics, topics_done) = self.store.topics(self.moved);
        let percent = topics_done * 100 / topics.max(1);
        if percent >= self.said_percent + 10 {
            self.said_percent = percent;
            info!(percent, samples = self.samples, "the history of an earlier release is moved");
        }
        Ok(Some(Migration { topics, topics_done, samples: self.samples }))
    }

    fn finish(&self) -> Result<(), StoreError> {
        // The database last: while it has its name, there is something to be moved.
        for part in ["-shm", "-wal", ""] {
            let [from, to] = [OLDER_FILE, MOVED_FILE].map(|name| self.path.with_file_name(format!("{name}{part}")));
            match std::fs::rename(from, to) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::Failed(error.into())),
                Ok(()) | Err(_) => {}
            }
        }
        info!(
            samples = self.samples,
            kept = MOVED_FILE,
            "the history of an earlier release was moved; its file can be removed"
        );
        Ok(())
    }
}

/// Hours with few samples go together.
fn merge_small(hours: Vec<Column>) -> Vec<Column> {
    const FEW: usize = 256;
    let mut parts: Vec<Column> = Vec::new();
    for hour in hours {
        match parts.last_mut() {
            Some(last) if last.len() < FEW => hour.iter().for_each(|sample| last.push(sample)),
            _ => parts.push(hour),
        }
    }
    parts
}
