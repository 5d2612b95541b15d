//! The thread that moves what is durable from the journal into the store, and keeps the store in its bounds.

use crate::options::HistoryOptions;
use crate::status::{Board, Disk, HistoryState, Notes};
use crate::store::{Deleting, Entry, Progress, Store, StoreError};
use crate::writer::MayRemove;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tieline_core::{Body, Storage, StorageError, StorageErrorKind, Timestamp, Topic, Update};
use tieline_journal::{Item, Reader, Seq, decode_with};
use tracing::{info, warn};

/// Samples of one transaction, give or take a record.
const BATCH_POINTS: usize = 20_000;
/// Bytes of journal of one transaction, give or take a record.
const BATCH_BYTES: usize = 8 << 20;
/// How often it is looked whether a day is written.
const COMPACT_EVERY: Duration = Duration::from_millis(500);
/// How often a deletion looks whether its day is written.
const DELETE_EVERY: Duration = Duration::from_millis(20);
/// Samples that retention removes between two batches, give or take a chunk.
const RETAIN_SAMPLES: u64 = 2_000_000;

pub(crate) struct StoreThread<S> {
    pub(crate) reader: Reader<S>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) options: HistoryOptions,
    pub(crate) board: Arc<Board>,
    pub(crate) may_remove: MayRemove,
    pub(crate) retain_at: Instant,
    /// Whether something of an earlier release is left to be moved.
    pub(crate) migrates: bool,
    /// What the journal had when it was opened; none once the store has all of it.
    pub(crate) replays_upto: Option<Seq>,
    /// Whether a deletion waits for another thread.
    pub(crate) deletion_waits: bool,
    /// While somebody waits for days to be closed: how many were before.
    pub(crate) closing_from: Option<u64>,
}

/// Samples on their way, and the journal record up to which they reach.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    upto: Seq,
}

impl<S: Storage> StoreThread<S> {
    /// Runs until the journal thread has ended and all it left is stored, or storing fails or takes too long then.
    pub(crate) fn run(mut self) {
        let mut batch = Batch::default();
        let (mut close_by, mut deleting) = (None, Deleting::default());
        loop {
            let place = self.reader.place();
            let is_held = self.deletion_waits;
            let patience = self.retain_at.saturating_duration_since(Instant::now());
            let patience = if is_held { patience.min(DELETE_EVERY) } else { patience };
            let (waits, closes) = (batch.upto != Seq(0) || self.migrates, self.closing_from.is_none());
            let (durable, done) = self.board.wait(
                patience,
                |notes| {
                    waits
                        || (notes.deletes() && !is_held)
                        || (closes && !notes.closings.is_empty())
                        || notes.status.durable >= place
                        || notes.journal_done
                },
                |notes| (notes.status.durable, notes.journal_done),
            );
            let moved = self.gather(durable, &mut batch).and_then(|()| self.store(&mut batch));
            if self.replays_upto.is_some_and(|upto| moved.is_ok() && self.reader.place() > upto) {
                self.replays_upto = None;
                self.store.caught_up();
                self.board.note(|notes| notes.caught_up = true);
            }
            let late =
                done && *close_by.get_or_insert_with(|| Instant::now() + self.options.close_patience) <= Instant::now();
            match moved {
                Ok(()) if done && self.reader.place() > durable => break,
                Ok(()) if late => {
                    info!("the store is behind; the journal keeps the rest until the next start");
                    break;
                }
                Ok(()) => {
                    self.delete(&mut deleting);
                    self.begin_closing();
                    self.retain();
                    self.migrate();
                }
                Err(_) if done => break,
                Err(trouble) => self.pause(trouble),
            }
        }
        // A store that is closed writes, too: SQLite moves its log into the index.
        let Self { store, board, .. } = self;
        board.write(Disk::Store, true);
        drop(store);
        board.write(Disk::Store, false);
        board.note(|notes| {
            notes.store_done = true;
            // Who waits for one is told by its end.
            notes.deletions.clear();
            notes.closings.clear();
        });
    }

    /// Reads a batch. One that could not be stored is still there and goes first.
    fn gather(&mut self, durable: Seq, batch: &mut Batch) -> Result<(), HistoryState> {
        let mut bytes = 0;
        while batch.entries.len() < BATCH_POINTS && bytes < BATCH_BYTES {
            match self.reader.next(durable).map_err(|error| trouble_of_journal(&error))? {
                None => break,
                Some(Item::Record { seq, payload }) => {
                    bytes += payload.len();
                    batch.upto = seq;
                    let store = &self.store;
                    match decode_with(payload, |name| {
                        store.topic(name).map_or_else(|| Topic::new(name), |topic| Ok(topic.clone()))
                    }) {
                        Ok(samples) => batch.entries.extend(samples.into_iter().map(|sample| entry_of(seq, sample))),
                        Err(error) => {
                            warn!(seq = seq.0, %error, "a journal record cannot be read and is left out of the history");
                            self.board.note(|notes| notes.status.unreadable_records += 1);
                        }
                    }
                }
                Some(Item::Lost(lost)) => {
                    warn!(first = lost.first.0, records = lost.records, at = %lost.damage, "journal records are lost");
                    batch.upto = Seq(lost.first.0.saturating_add(lost.records)).previous();
                    self.board.note(|notes| notes.status.lost_records += lost.records);
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, batch: &mut Batch) -> Result<(), HistoryState> {
        if batch.upto == Seq(0) {
            return Ok(());
        }
        self.board.write(Disk::Store, true);
        let began = Instant::now();
        let appended = self.store.append(&batch.entries, batch.upto).and_then(|()| self.relieve_journal());
        let took = began.elapsed();
        self.board.write(Disk::Store, false);
        appended.map_err(|error| trouble_of_store(&error))?;
        let (size, released) = (self.store.size(), self.store.position());
        let trouble = self.board.note(|notes| {
            notes.status.stored = batch.upto;
            notes.status.released = released;
            notes.status.stored_points += batch.entries.len() as u64;
            notes.status.store_batches.record(took);
            notes.status.take_size(size);
            notes.store_trouble.take()
        });
        if trouble.is_some() {
            info!(stored = batch.upto.0, "the history's store goes on");
        }
        batch.entries.clear();
        batch.upto = Seq(0);
        Ok(())
    }

    /// Has the store write what it has in memory before the journal, which keeps it meanwhile, is full, or takes long to be read at the
    /// next start.
    fn relieve_journal(&mut self) -> Result<(), StoreError> {
        // Not what only databases need.
        let bytes = |notes: &Notes| notes.status.journal_bytes - notes.status.journal_kept_bytes;
        let look = |notes: &Notes| (bytes(notes), notes.let_go, notes.status.durable);
        let (journal_bytes, let_go, durable) = self.board.wait(Duration::ZERO, |_| true, look);
        let (stored, read) = (self.store.position(), self.reader.place().previous());
        let is_long = journal_bytes > self.options.journal_kept();
        if is_long && is_relieved(let_go, stored, read, durable) { self.store.relieve_journal() } else { Ok(()) }
    }

    /// Takes a step of the deletion that was asked for first, once the store has what the journal had then.
    fn delete(&mut self, deleting: &mut Deleting) {
        let stored = self.board.wait(Duration::ZERO, |_| true, |notes| notes.status.stored);
        let next = |notes: &Notes| {
            notes
                .deletions
                .front()
                .filter(|asked| asked.upto.is_some_and(|upto| upto <= stored))
                .map(|asked| asked.what.clone())
        };
        let Some(what) = self.board.wait(Duration::ZERO, |_| true, next) else { return };
        self.board.write(Disk::Store, true);
        let step = self.store.delete(&what, deleting, utc());
        self.board.write(Disk::Store, false);
        let (size, released) = (self.store.size(), self.store.position());
        self.deletion_waits = matches!(step, Ok(Progress::Waits));
        let done = match step {
            Ok(Progress::More | Progress::Waits) => None,
            Ok(Progress::Done) => Some(Ok(std::mem::take(deleting).done)),
            Err(error) => {
                *deleting = Deleting::default();
                warn!(%error, "samples cannot be deleted");
                Some(Err(error.to_string()))
            }
        };
        self.board.note(|notes| {
            notes.status.released = released;
            notes.status.take_size(size);
            let Some(done) = done else { return };
            if let Ok(done) = &done {
                notes.status.deleted_samples += done.samples;
            }
            // Who has gone needs no answer.
            let _ = notes.deletions.pop_front().map(|asked| asked.answer.try_send(done));
        });
    }

    /// Begins to close days where somebody asks for it.
    fn begin_closing(&mut self) {
        let is_asked = |notes: &Notes| !notes.closings.is_empty() && notes.deletions.is_empty();
        if self.closing_from.is_some() || !self.board.wait(Duration::ZERO, |_| true, is_asked) {
            return;
        }
        self.closing_from = Some(self.store.size().closed_days);
        if let Err(error) = self.store.close_days(utc()) {
            self.end_closing(Err(error.to_string()));
        }
        self.retain_at = Instant::now();
    }

    /// Tells all who asked for it that days were closed, or why not.
    fn end_closing(&mut self, done: Result<(), String>) {
        let Some(before) = self.closing_from.take() else { return };
        let days = self.store.size().closed_days.saturating_sub(before);
        self.board.note(|notes| {
            for answer in notes.closings.drain(..) {
                // Who has gone needs no answer.
                let _ = answer.try_send(done.clone().map(|()| days));
            }
        });
    }

    /// Moves a part of what an earlier release stored.
    fn migrate(&mut self) {
        if !self.migrates {
            return;
        }
        self.board.write(Disk::Store, true);
        let moved = self.store.migrate();
        self.board.write(Disk::Store, false);
        match moved {
            Ok(migration) => {
                self.migrates = migration.is_some();
                let size = self.store.size();
                self.board.note(|notes| {
                    notes.status.migration = migration;
                    notes.status.take_size(size);
                });
            }
            Err(error) => {
                warn!(%error, "the history of an earlier release cannot be moved; it is tried again at the next start");
                self.migrates = false;
            }
        }
    }

    fn retain(&mut self) {
        if Instant::now() < self.retain_at {
            return;
        }
        if !(self.may_remove)() {
            self.end_closing(Err("the clock is in doubt, expected one that is confirmed: tieline clock".to_owned()));
            self.retain_at = Instant::now() + self.options.retain_every;
            return;
        }
        self.board.write(Disk::Store, true);
        let retained = self.store.retain(&self.options.retention, utc(), RETAIN_SAMPLES);
        let compacted = self.store.compact(utc());
        self.board.write(Disk::Store, false);
        if let Err(error) = &compacted {
            warn!(%error, "a day of the history cannot be closed; it is tried again");
        }
        match &compacted {
            Ok(true) => {}
            Ok(false) => self.end_closing(Ok(())),
            Err(error) => self.end_closing(Err(error.to_string())),
        }
        match retained {
            Ok(step) => {
                let pause = match (step.more, compacted) {
                    (true, _) => Duration::ZERO,
                    (false, Ok(true)) => COMPACT_EVERY.min(self.options.retain_every),
                    (false, Ok(false) | Err(_)) => self.options.retain_every,
                };
                self.retain_at = Instant::now() + pause;
                let (size, released) = (self.store.size(), self.store.position());
                self.board.note(|notes| {
                    notes.status.removed_samples += step.removed;
                    notes.status.released = released;
                    notes.status.take_size(size);
                });
            }
            Err(error) => {
                warn!(%error, "the history's store cannot remove old samples");
                self.retain_at = Instant::now() + self.options.retain_every;
            }
        }
    }

    /// Says what is wrong, once, and waits before the next attempt.
    fn pause(&mut self, trouble: HistoryState) {
        let known = self.board.note(|notes| notes.store_trouble.replace(trouble.clone()));
        if known.as_ref() != Some(&trouble) {
            warn!(state = %trouble, "the history's store does not take what the journal holds");
        }
        self.board.wait(self.options.retry, |notes| notes.journal_done, |_| ());
    }
}

/// Whether a journal becomes shorter where the store writes what it has in memory: records up to `stored` are in chunks, those up to
/// `read` in memory.
fn is_relieved(let_go: Seq, stored: Seq, read: Seq, durable: Seq) -> bool {
    // What was written last time may still be in the figure.
    let is_old = let_go < stored;
    // The journal has more that is not read yet. The little that is in memory would become many short chunks, and they take the time
    // that reading needs: the store would never catch up.
    let is_unread = durable.since(read) > read.since(stored);
    !is_old && !is_unread
}

fn trouble_of_store(error: &StoreError) -> HistoryState {
    match error {
        StoreError::Full(_) => HistoryState::DiskFull,
        StoreError::Newer(_) | StoreError::Failed(_) => HistoryState::Failed { why: error.to_string() },
    }
}

fn trouble_of_journal(error: &StorageError) -> HistoryState {
    match error.kind {
        StorageErrorKind::Full => HistoryState::DiskFull,
        StorageErrorKind::Missing | StorageErrorKind::Io => HistoryState::Failed { why: error.message.clone() },
    }
}

/// The wall clock.
pub(crate) fn utc() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A sample of a record as it is stored. A payload that is a point is stored as one, so that it can be drawn and averaged. What a
/// journal of an earlier release has was not asked when it came in.
pub(crate) fn entry_of(seq: Seq, sample: tieline_journal::Sample) -> Entry {
    let tieline_journal::Sample { time, update: Update { topic, body }, .. } = sample;
    let body = match body {
        Body::Opaque(payload) => Body::read(payload),
        body @ (Body::Point(_) | Body::Published(_)) => body,
    };
    let time = if let Body::Published(point) = &body { point.time(time) } else { time };
    Entry { seq, topic, time, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_catches_up_writes_no_short_chunks() {
        let check = |places: [u64; 4], expect: bool| {
            let [let_go, stored, read, durable] = places.map(Seq);
            assert_eq!(is_relieved(let_go, stored, read, durable), expect, "{places:?}");
        };
        check([100, 100, 900, 900], true);
        check([100, 100, 900, 1700], true);
        // Reading on is worth more.
        check([100, 100, 110, 900], false);
        check([100, 100, 400, 900], false);
        // The journal has not let go of what was written last.
        check([50, 100, 900, 900], false);
    }
}
