//! The store's thread: from the journal into SQLite, in batches, each with its position.

use super::status::{Ailment, Board, Organ};
use super::writer::utc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use tieline_core::{StorageError, StorageErrorKind};
use tieline_journal::{Item, Reader, Seq, decode};
use tieline_store::{FolderStorage, Retention, Sample, Store, StoreError};

/// Samples of one transaction.
const BATCH_SAMPLES: usize = 20_000;
/// How soon a store that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often old samples are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(60);
/// Samples removed in one step.
const RETAIN_ROWS: u64 = 50_000;

/// Moves what is durable.
pub struct Mover {
    store: Store,
    reader: Reader<FolderStorage>,
    /// How far the journal is durable.
    durable: Seq,
    retention: Retention,
    board: Arc<Board>,
    /// Read from the journal, not yet in the store.
    batch: Vec<Sample>,
    /// The last record of the batch.
    position: Seq,
}

enum Trouble {
    Journal(StorageError),
    Store(StoreError),
}

impl Mover {
    /// Goes on behind the store's position.
    pub fn new(store: Store, storage: FolderStorage, position: Seq, retention: Retention, board: Arc<Board>) -> Self {
        let reader = Reader::new(storage, position.next());
        Self { store, reader, durable: position, retention, board, batch: Vec::new(), position }
    }

    /// Moves one batch; how many samples.
    fn step(&mut self) -> Result<usize, Trouble> {
        while self.batch.len() < BATCH_SAMPLES {
            let Some(item) = self.reader.next(self.durable).map_err(Trouble::Journal)? else { break };
            match item {
                Item::Record { seq, payload } => {
                    match decode(payload) {
                        Ok(samples) => self.batch.extend(samples.into_iter().map(to_store)),
                        Err(error) => tracing::error!(seq = seq.0, %error, "a journal record cannot be read; it is skipped"),
                    }
                    self.position = seq;
                }
                Item::Lost(lost) => {
                    tracing::error!(first = lost.first.0, records = lost.records, damage = ?lost.damage, "journal records are lost");
                    self.position = Seq(lost.first.0.saturating_add(lost.records).saturating_sub(1));
                }
            }
        }
        if self.position.0 <= self.store.position().map_err(Trouble::Store)? {
            return Ok(0);
        }
        self.store.insert(&self.batch, self.position.0).map_err(Trouble::Store)?;
        let moved = self.batch.len();
        self.batch.clear();
        Board::add(&self.board.stored, moved);
        Ok(moved)
    }

    fn retain(&mut self) -> Result<bool, Trouble> {
        self.store.retain(&self.retention, utc(), RETAIN_ROWS).map(|retained| retained.more).map_err(Trouble::Store)
    }
}

/// Moves until the journal's thread has ended and all it made durable is stored.
pub fn run(mut mover: Mover, news: &Receiver<Seq>) {
    let (mut patience, mut ended, mut more_to_remove) = (RETAIN_EVERY, false, false);
    loop {
        if !ended {
            match news.recv_timeout(patience) {
                Ok(durable) => mover.durable = news.try_iter().last().unwrap_or(durable),
                Err(RecvTimeoutError::Timeout) => more_to_remove = true,
                Err(RecvTimeoutError::Disconnected) => ended = true,
            }
        }
        let mut result = Ok(1);
        while matches!(result, Ok(moved) if moved > 0) {
            result = mover.step();
            if result.is_ok() {
                mover.board.position.store(mover.position.0, Ordering::Relaxed);
            }
        }
        if more_to_remove && result.is_ok() {
            result = mover.retain().map(|more| {
                more_to_remove = more;
                0
            });
        }
        patience = if more_to_remove { Duration::from_millis(10) } else { RETAIN_EVERY };
        match result {
            Ok(_) => mover.board.set(Organ::Store, None),
            Err(trouble) => {
                mover.board.set(Organ::Store, Some(ailment(&trouble)));
                patience = RETRY;
            }
        }
        if ended {
            return;
        }
    }
}

fn to_store(sample: tieline_journal::Sample) -> Sample {
    Sample { topic: sample.update.topic, time: sample.time, body: sample.update.body }
}

fn ailment(trouble: &Trouble) -> Ailment {
    match trouble {
        Trouble::Journal(error) => Ailment { full: error.kind == StorageErrorKind::Full, detail: error.to_string() },
        Trouble::Store(error) => Ailment { full: matches!(error, StoreError::Full), detail: error.to_string() },
    }
}
