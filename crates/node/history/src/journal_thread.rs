//! The thread that makes batches durable and calls their receipts.

use crate::options::{Durability, HistoryOptions};
use crate::queue::{Batch, NotRecorded, Noted, Queue, Receipt, bytes};
use crate::replicate::{Placed, ReplicaKind, Replication};
use crate::status::{Asked, Board, Disk, HistoryState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_core::Storage;
use tieline_journal::{Failure, Journal, JournalError, Sample, State, begin_placed, encode, encode_noted};
use tracing::{info, warn};

/// A record ends with the update that reaches this.
const RECORD_POINTS: usize = 8192;
/// How often what was stored is let go when nothing else happens.
const IDLE: Duration = Duration::from_secs(1);
/// How often a leader's journal gets a record at least, so that its place in the log is not one that the log has removed.
const SAY_EVERY: Duration = Duration::from_secs(60);

pub(crate) struct JournalThread<S> {
    pub(crate) journal: Journal<S>,
    pub(crate) options: HistoryOptions,
    pub(crate) queue: Arc<Queue>,
    pub(crate) board: Arc<Board>,
    /// Receipts of batches that were taken and are not as durable as they must be.
    pub(crate) held: Vec<Receipt>,
    /// Their updates, and those of batches without a receipt.
    pub(crate) held_points: u64,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) bytes: Vec<u8>,
    /// The log of all members of a core, and the last place.
    pub(crate) replication: Replication,
    pub(crate) said_at: Instant,
}

impl<S: Storage> JournalThread<S> {
    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            let patience = self.retry_at.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            let Some(batches) = self.queue.take(patience) else { break };
            self.board.write(Disk::Journal, true);
            self.recover();
            self.handle(batches);
            self.say_place();
            self.board.write(Disk::Journal, false);
            let (released, wanted) = self.board.wait(
                Duration::ZERO,
                |_| true,
                |notes| (notes.held_back(notes.status.released), notes.wanted()),
            );
            self.end_segment();
            self.journal.want(wanted);
            self.journal.release(released);
            self.report(None);
            self.board.note(|notes| notes.let_go = released);
        }
        self.board.write(Disk::Journal, true);
        self.close();
    }

    /// Ends the segment for deletions that wait: when the store has all of its records in chunks, it is removed.
    fn end_segment(&mut self) {
        let is_new = |asked: &&mut Asked| asked.upto.is_none();
        if !self.board.wait(Duration::ZERO, |_| true, |notes| notes.deletions.iter().any(|asked| asked.upto.is_none()))
        {
            return;
        }
        // A disk that fails is told by the next write, and this is tried again then.
        if self.journal.end_segment().and_then(|()| self.begin_segment()).is_ok() {
            let last = self.journal.durable();
            self.board.note(|notes| {
                notes.deletions.iter_mut().filter(is_new).for_each(|asked| asked.upto = Some(last));
            });
        }
    }

    /// Appends a record without samples, so that the segment before it can be removed.
    fn begin_segment(&mut self) -> Result<(), JournalError> {
        self.bytes.clear();
        if self.replication.place > 0 {
            begin_placed(self.replication.place, &mut self.bytes);
        }
        encode(&[], &mut self.bytes);
        match self.journal.append(&self.bytes) {
            // The next record does it.
            Err(JournalError::Full(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => self.journal.sync().map(drop),
        }
    }

    fn recover(&mut self) {
        if self.retry_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        match self.journal.recover() {
            Ok(durable) => {
                info!(durable = durable.0, "the history's journal goes on");
                self.retry_at = None;
                self.board.note(|notes| notes.journal_trouble = None);
                self.acknowledge();
            }
            Err(JournalError::Failed(failure)) => {
                self.retry_at = Some(Instant::now() + self.options.retry);
                self.board.note(|notes| notes.journal_trouble = Some(trouble(&failure)));
            }
            Err(JournalError::TooLong(_) | JournalError::Full(_) | JournalError::Unsynced(_)) => {}
        }
    }

    fn handle(&mut self, batches: Vec<Batch>) {
        if let State::Failed(failure) = self.journal.state() {
            let why = reason(failure);
            for batch in batches {
                self.queue.turn_away(batch, why.clone());
            }
            return;
        }
        if batches.is_empty() {
            return;
        }
        let started = Instant::now();
        let (mut samples, mut weight, mut receipts) = (Vec::new(), 0, Vec::new());
        for batch in batches {
            let mut broken = None;
            if !batch.placed.is_empty() {
                broken = self.append(&mut samples, &mut receipts).and_then(|()| self.append_placed(batch.placed)).err();
                weight = 0;
            }
            for sample in batch.samples {
                let bytes = bytes(&sample);
                if samples.len() >= RECORD_POINTS || weight + bytes > self.options.record_bytes {
                    broken = self.append(&mut samples, &mut receipts).err().or(broken);
                    weight = 0;
                }
                weight += bytes;
                samples.push(sample);
            }
            match (batch.receipt, broken) {
                (Some(receipt), Some(why)) => receipt(Err(why)),
                (Some(receipt), None) => receipts.push(receipt),
                (None, _) => {}
            }
            if !batch.noted.is_empty() {
                // What came before stays before.
                let _ = self.append(&mut samples, &mut receipts);
                weight = 0;
                self.append_noted(batch.noted);
            }
        }
        // Where this fails, the receipts were called.
        let _ = self.append(&mut samples, &mut receipts);
        self.held.append(&mut receipts);
        self.commit(started);
    }

    /// Appends the samples as a record and holds the receipts of the batches that end in it or just before it. When
    /// the record is refused, so are those batches.
    fn append(&mut self, samples: &mut Vec<Sample>, receipts: &mut Vec<Receipt>) -> Result<(), NotRecorded> {
        if samples.is_empty() {
            return Ok(());
        }
        self.bytes.clear();
        encode(samples, &mut self.bytes);
        let points = samples.len() as u64;
        samples.clear();
        let taken = self.append_bytes(points);
        match &taken {
            Ok(()) => self.held.append(receipts),
            Err(why) => receipts.drain(..).for_each(|receipt| receipt(Err(why.clone()))),
        }
        taken
    }

    /// Appends records with notes, in their order; the first that is refused ends it.
    fn append_noted(&mut self, noted: Vec<Noted>) {
        let mut broken = None;
        for Noted { note, samples, receipt } in noted {
            let points = samples.len() as u64;
            if let Some(why) = &broken {
                self.board.note(|notes| notes.status.refused_points += points);
                receipt(Err(NotRecorded::clone(why)));
                continue;
            }
            self.bytes.clear();
            encode_noted(&note, &samples, &mut self.bytes);
            match self.append_bytes(points) {
                Ok(()) => self.held.push(receipt),
                Err(why) => {
                    receipt(Err(why.clone()));
                    broken = Some(why);
                }
            }
        }
    }

    /// Appends records that the log has, but for those that are here; the first that is refused ends it.
    fn append_placed(&mut self, placed: Vec<Placed>) -> Result<(), NotRecorded> {
        for Placed { place, record } in placed {
            if place > self.replication.place {
                self.bytes.clear();
                begin_placed(place, &mut self.bytes);
                self.bytes.extend_from_slice(&record);
                self.append_here(0)?;
                self.replication.place = place;
            }
        }
        Ok(())
    }

    /// Gives an idle leader's journal a record.
    fn say_place(&mut self) {
        if self.replication.log.is_some() && self.retry_at.is_none() && self.said_at.elapsed() >= SAY_EVERY {
            self.said_at = Instant::now();
            self.bytes.clear();
            encode(&[], &mut self.bytes);
            if self.append_bytes(0).is_ok() {
                self.commit(Instant::now());
            }
        }
    }

    /// Appends the record that `bytes` has, after the log where there is one.
    fn append_bytes(&mut self, points: u64) -> Result<(), NotRecorded> {
        if let Some(log) = &self.replication.log {
            let place = log.replicate(ReplicaKind::History, &self.bytes).map_err(NotRecorded::Failed)?;
            let record = std::mem::take(&mut self.bytes);
            begin_placed(place, &mut self.bytes);
            self.bytes.extend_from_slice(&record);
            self.append_here(points)?;
            self.replication.place = place;
            return Ok(());
        }
        self.append_here(points)
    }

    fn append_here(&mut self, points: u64) -> Result<(), NotRecorded> {
        let mut taken = self.journal.append(&self.bytes);
        if matches!(taken, Err(JournalError::Unsynced(_))) && self.journal.sync().is_ok() {
            taken = self.journal.append(&self.bytes);
        }
        let why = match taken {
            Ok(_) => {
                self.held_points += points;
                return Ok(());
            }
            Err(JournalError::TooLong(_)) => NotRecorded::TooLong,
            Err(JournalError::Full(_) | JournalError::Unsynced(_)) => NotRecorded::Full,
            Err(JournalError::Failed(failure)) => reason(&failure),
        };
        self.board.note(|notes| notes.status.refused_points += points);
        Err(why)
    }

    fn commit(&mut self, started: Instant) {
        if self.options.durability == Durability::Written && self.journal.write().is_ok() {
            self.acknowledge();
        }
        match self.journal.sync() {
            Ok(_) => {
                self.acknowledge();
                self.report(Some(started.elapsed()));
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &JournalError) {
        let JournalError::Failed(failure) = error else { return };
        warn!(error = %failure, "the history's journal failed: nothing is acknowledged until it goes on");
        self.retry_at = Some(Instant::now() + self.options.retry);
        let trouble = trouble(failure);
        self.board.note(|notes| notes.journal_trouble = Some(trouble));
    }

    /// Calls the receipts of everything taken.
    fn acknowledge(&mut self) {
        let last = self.journal.last();
        let points = std::mem::take(&mut self.held_points);
        self.board.note(|notes| {
            notes.status.journaled_points += points;
            notes.status.durable = self.journal.durable();
        });
        for receipt in self.held.drain(..) {
            receipt(Ok(last));
        }
    }

    fn report(&self, sync: Option<Duration>) {
        self.board.note(|notes| {
            notes.journal_full = self.journal.is_full();
            let status = &mut notes.status;
            status.durable = self.journal.durable();
            status.journal = *self.journal.counters();
            status.journal_bytes = self.journal.bytes();
            status.journal_kept_bytes = self.journal.kept_bytes();
            status.journal_first = self.journal.first();
            status.journal_segments = self.journal.segments();
            sync.into_iter().for_each(|took| status.syncs.record(took));
        });
    }

    /// One last attempt for what is held; who still waits is told.
    fn close(mut self) {
        if self.journal.recover().and_then(|_| self.journal.sync()).is_ok() {
            self.acknowledge();
        }
        for receipt in self.held.drain(..) {
            receipt(Err(NotRecorded::Closed));
        }
        self.report(None);
    }
}

fn reason(failure: &Failure) -> NotRecorded {
    if failure.is_full() { NotRecorded::DiskFull } else { NotRecorded::Failed(failure.to_string()) }
}

fn trouble(failure: &Failure) -> HistoryState {
    if failure.is_full() { HistoryState::DiskFull } else { HistoryState::Failed { why: failure.to_string() } }
}
