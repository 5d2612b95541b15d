//! The thread that writes the journal's records to one database.

use super::Forwarding;
use super::core_position::{Shared, first_behind, path_of};
use super::identity::Identity;
use crate::replicate::Replication;
use crate::running::RunningInstant;
use crate::status::Board;
use crate::store_thread::entry_of;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_core::{Body, Filter, Value};
use tieline_databases::{DatabaseError, Row};
use tieline_journal::{Decoder, Item, Reader, Sample, Seq, place_of};
use tieline_store::FolderStorage;
use tracing::{info, warn};

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The fewest samples of a batch, where more are to be written.
const ROWS_MIN: usize = 500;
/// Bytes of journal of one batch, give or take a record.
const BATCH_BYTES: usize = 8 << 20;
/// What was written stays in the journal for so long: a database that falls back by less, to a replica, gets it again.
const KEEP_WRITTEN: Duration = Duration::from_secs(60);
/// How exactly that is known.
const KEEP_STEP: Duration = Duration::from_secs(5);
/// How often something is looked at when nothing happens.
const IDLE: Duration = Duration::from_secs(1);

pub(crate) struct Forwarder {
    forwarding: Forwarding,
    /// Which of the notes is its own.
    index: usize,
    board: Arc<Board>,
    /// The journal's folder.
    folder: PathBuf,
    identity: Identity,
    /// The log of the core that this node leads; positions are places there.
    core: Option<Shared>,
    /// The last position that the journal shares with what the database may have: that of the restored folder, or of the last record that
    /// was durable when the journal was opened.
    shared: u64,
    /// The position as the database has it.
    position: Option<u64>,
    /// Where it reads; none without a connection.
    reader: Option<Reader<FolderStorage>>,
    decoder: Decoder,
    /// What was read while the batch before it was written.
    ahead: Option<Batch>,
    /// Whether a position was read since the start.
    known: bool,
    rows_max: usize,
    /// Records that go one by one, because a batch with them was refused.
    singly: u64,
    /// What was written when, and the positions.
    written: VecDeque<(Instant, Seq, Option<u64>)>,
    close_patience: Duration,
}

/// Samples on their way.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    records: u64,
    missing: u64,
    upto: Option<Seq>,
    /// The place of the last record that has one.
    place: Option<u64>,
    /// Whether there was more than fits.
    is_full: bool,
}

impl Forwarder {
    /// # Errors
    /// The folder of databases cannot be written.
    pub(crate) fn new(
        forwarding: Forwarding,
        index: usize,
        (board, replication): (Arc<Board>, &Replication),
        (folder, databases): (PathBuf, PathBuf),
        close_patience: Duration,
    ) -> std::io::Result<Self> {
        std::fs::create_dir_all(&databases)?;
        let core = Shared::of(replication);
        let (identity, shared) = match &core {
            Some(core) => (Identity::open(path_of(&databases, &forwarding.name))?, core.opened),
            None => {
                let identity = Identity::open(databases.join(format!("{}.journal", forwarding.name)))?;
                let opened = board.wait(Duration::ZERO, |_| true, |notes| notes.opened);
                let shared = identity.restored_at(opened.0)?.unwrap_or(opened.0);
                (identity, shared)
            }
        };
        let (rows_max, written) = (forwarding.batch_rows, VecDeque::new());
        let (reader, ahead, known, singly) = (None, None, false, 0);
        Ok(Self {
            forwarding,
            index,
            board,
            folder,
            identity,
            core,
            shared,
            position: None,
            reader,
            decoder: Decoder::default(),
            ahead,
            known,
            rows_max,
            singly,
            written,
            close_patience,
        })
    }

    /// Runs until the journal thread has ended and all is written, or writing fails or takes too long then.
    pub(crate) fn run(mut self) {
        let (mut pause, mut close_by) = (self.forwarding.retry, None);
        loop {
            let (durable, done) =
                self.board.wait(Duration::ZERO, |_| true, |notes| (notes.status.durable, notes.journal_done));
            let late = done && *close_by.get_or_insert_with(|| Instant::now() + self.close_patience) <= Instant::now();
            let all_read = self.ahead.is_none() && self.reader.as_ref().is_some_and(|reader| reader.place() > durable);
            let is_over = self.core.as_ref().is_some_and(|core| !core.leads());
            if late || (done && all_read) || is_over {
                break;
            }
            let connects = self.reader.is_none();
            match if connects { self.connect() } else { self.forward() } {
                Ok(()) if connects => {}
                Ok(()) => pause = self.forwarding.retry,
                Err(error) => {
                    self.fail(&error);
                    if done {
                        break;
                    }
                    self.board.wait(pause, |notes| notes.journal_done, |_| ());
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
        self.board.note(|notes| notes.forwarders -= 1);
    }

    fn connect(&mut self) -> Result<(), DatabaseError> {
        let system = |error: std::io::Error| DatabaseError::Refused(error.to_string());
        let name = self.forwarding.name.clone();
        if let Some(core) = self.core.as_mut().filter(|_| !self.known) {
            // All members know the name before the database has a position for it.
            core.say(&name, &self.identity, 0)?;
        }
        let mut position = self.forwarding.database.connect(self.identity.name())?;
        if !self.known && position.is_some_and(|seq| seq > self.shared) {
            // This journal never had these records: its folder was restored from a copy. The name changes once the database has a
            // position for it, which says that it has all before.
            warn!(
                database = name,
                position,
                journal = self.shared,
                "the database is ahead of the journal: a new count begins"
            );
            let other = Identity::another().map_err(system)?;
            self.forwarding.database.connect(&other)?;
            self.forwarding.database.write(&[], self.shared)?;
            self.identity.rename(other).map_err(system)?;
            position = Some(self.shared);
            if let Some(core) = &mut self.core {
                core.say(&name, &self.identity, self.shared)?;
            }
        }
        if !self.known && self.core.is_none() {
            self.identity.forget_restored().map_err(system)?;
        }
        let storage = FolderStorage::open(&self.folder).map_err(system)?;
        let (first, last) =
            self.board.wait(Duration::ZERO, |_| true, |notes| (notes.status.journal_first, notes.status.durable));
        let next = match (position, &self.core) {
            // A database that has nothing of this journal gets what the journal has.
            (None, _) => first.max(Seq(1)),
            (Some(seq), None) => Seq(seq).next(),
            (Some(place), Some(_)) => first_behind(&self.folder, (first, last), place)?,
        };
        self.position = position;
        (self.reader, self.ahead) = (Some(Reader::new(storage, next)), None);
        self.known = true;
        self.written.clear();
        self.note_position(next.previous());
        let trouble = self.board.note(|notes| {
            let notes = &mut notes.forwarding[self.index];
            notes.status.connects += 1;
            notes.away_since = None;
            notes.status.trouble.take()
        });
        info!(database = self.forwarding.name, position, after = trouble, "connected to the database");
        Ok(())
    }

    /// Writes a batch, or waits for a moment where there is nothing to write.
    fn forward(&mut self) -> Result<(), DatabaseError> {
        let Some(place) = self.reader.as_ref().map(Reader::place) else { return Ok(()) };
        let batch = match self.ahead.take() {
            Some(batch) => batch,
            None => {
                let durable = self.board.wait(
                    IDLE,
                    |notes| notes.status.durable >= place || notes.journal_done,
                    |notes| notes.status.durable,
                );
                self.gather(durable)?
            }
        };
        let Some(upto) = batch.upto else {
            self.note_position(place.previous());
            return Ok(());
        };
        let Some(to) = (if self.core.is_some() { batch.place } else { Some(upto.0) }) else {
            // Records of before the core alone.
            self.note_batch(&batch, upto, 0, Duration::ZERO);
            return Ok(());
        };
        let started = Instant::now();
        match self.write(&batch, to)? {
            Ok(skipped) => {
                self.position = Some(to);
                self.note_batch(&batch, upto, skipped, started.elapsed());
            }
            Err(DatabaseError::Rejected(why)) if batch.records == 1 => self.leave_out(&batch, (upto, to), &why)?,
            Err(error) => {
                match &error {
                    DatabaseError::Rejected(_) => self.singly = batch.records,
                    DatabaseError::Away(_) | DatabaseError::Refused(_) => {
                        self.rows_max = (self.rows_max / 2).max(ROWS_MIN);
                    }
                }
                return Err(error);
            }
        }
        if !batch.is_full && self.singly == 0 {
            self.board.wait(self.forwarding.every, |notes| notes.journal_done, |_| ());
        }
        Ok(())
    }

    /// Writes a batch, and reads the next one meanwhile where there is more.
    ///
    /// # Errors
    /// The journal cannot be read.
    fn write(&mut self, batch: &Batch, to: u64) -> Result<Result<u64, DatabaseError>, DatabaseError> {
        let durable = self.board.wait(Duration::ZERO, |_| true, |notes| notes.status.durable);
        let Self { forwarding, reader, decoder, rows_max, singly, core, .. } = self;
        let is_core = core.is_some();
        let Forwarding { database, name, topics, .. } = forwarding;
        let Some(reader) = reader.as_mut().filter(|_| batch.is_full && *singly == 0) else {
            return Ok(database.write(&batch.rows, to));
        };
        let (written, ahead) = std::thread::scope(|scope| {
            let read = || gather((reader, decoder), (name, topics, is_core), durable, (*rows_max, u64::MAX));
            // A system without another thread reads the batch when its turn comes.
            let reading = std::thread::Builder::new().name("db-read".to_owned()).spawn_scoped(scope, read);
            let written = database.write(&batch.rows, to);
            (written, reading.ok().and_then(|reading| reading.join().ok()))
        });
        self.ahead = ahead.transpose()?.filter(|batch| batch.upto.is_some());
        Ok(written)
    }

    /// Counts a record whose values the database refuses, and goes on behind it.
    fn leave_out(&mut self, batch: &Batch, (upto, to): (Seq, u64), why: &str) -> Result<(), DatabaseError> {
        let (name, points) = (self.forwarding.name.as_str(), batch.rows.len() as u64);
        warn!(database = name, record = upto.0, points, why, "the database refuses these samples; they are left out");
        let found = self.forwarding.database.connect(self.identity.name())?;
        if found.unwrap_or_default() != self.position.unwrap_or_default() {
            return Err(DatabaseError::Away("the position is not what it was".to_owned()));
        }
        self.forwarding.database.write(&[], to)?;
        self.position = Some(to);
        self.board.note(|notes| notes.forwarding[self.index].status.rejected_points += points);
        let left_out = Batch { records: 1, missing: batch.missing, ..Batch::default() };
        self.note_batch(&left_out, upto, 0, Duration::ZERO);
        Ok(())
    }

    fn gather(&mut self, durable: Seq) -> Result<Batch, DatabaseError> {
        let Some(reader) = &mut self.reader else { return Ok(Batch::default()) };
        let records_max = if self.singly > 0 { 1 } else { u64::MAX };
        let (from, is_core) = ((reader, &mut self.decoder), self.core.is_some());
        gather(from, (&self.forwarding.name, &self.forwarding.topics, is_core), durable, (self.rows_max, records_max))
    }

    fn note_batch(&mut self, batch: &Batch, upto: Seq, skipped: u64, took: Duration) {
        self.singly = self.singly.saturating_sub(batch.records);
        if took > self.forwarding.timeout / 4 {
            self.rows_max = (self.rows_max / 2).max(ROWS_MIN);
        } else if batch.is_full && took < self.forwarding.timeout / 16 {
            self.rows_max = (self.rows_max * 2).min(self.forwarding.batch_rows);
        }
        let rejected = self.forwarding.database.take_rejected();
        self.board.note(|notes| {
            let status = &mut notes.forwarding[self.index].status;
            status.batches += 1;
            status.written_points += (batch.rows.len() as u64).saturating_sub(skipped + rejected);
            status.rejected_points += rejected;
            status.skipped_points += skipped;
            status.missing_records += batch.missing;
            status.last_batch = took;
        });
        self.note_position(upto);
    }

    /// Says what is written, and what the journal may let go: what has been written for a while.
    fn note_position(&mut self, position: Seq) {
        let now = Instant::now();
        if self.written.back().is_none_or(|(at, ..)| now.duration_since(*at) >= KEEP_STEP) {
            self.written.push_back((now, position, self.position));
        }
        while self.written.get(1).is_some_and(|(at, ..)| now.duration_since(*at) >= KEEP_WRITTEN) {
            self.written.pop_front();
        }
        let oldest = self.written.front().map(|(_, oldest, place)| (*oldest, *place));
        let wanted = oldest.map_or(position, |(oldest, _)| oldest).next();
        self.board.note(|notes| {
            let notes = &mut notes.forwarding[self.index];
            notes.status.position = Some(position);
            notes.wanted = wanted;
        });
        if let (Some(core), Some((_, Some(place)))) = (&mut self.core, oldest) {
            // A node that leads no longer learns it where it looks for that.
            let _ = core.say(&self.forwarding.name, &self.identity, place);
        }
    }

    fn fail(&mut self, error: &DatabaseError) {
        (self.reader, self.ahead) = (None, None);
        let name = self.forwarding.name.as_str();
        let (was, given_up) = self.board.note(|notes| {
            let first = notes.status.journal_first;
            let notes = &mut notes.forwarding[self.index];
            notes.status.failures += 1;
            notes.away_since.get_or_insert_with(RunningInstant::now);
            let given_up = notes.status.position.map_or(0, |position| first.since(position.next()));
            let was = notes.status.trouble.replace(error.to_string());
            (was, given_up)
        });
        if was.as_deref() != Some(error.words()) {
            warn!(database = name, %error, "the database takes nothing; it is tried again");
        }
        if given_up > 0 {
            warn!(database = name, records = given_up, "the journal gave up records that the database does not have");
        }
    }
}

/// Reads a batch of at most so many rows and records, give or take a record; of the topics that the database is to have.
fn gather(
    (reader, decoder): (&mut Reader<FolderStorage>, &mut Decoder),
    (name, topics, is_core): (&str, &[Filter], bool),
    durable: Seq,
    (rows_max, records_max): (usize, u64),
) -> Result<Batch, DatabaseError> {
    let (mut batch, mut bytes) = (Batch::default(), 0);
    let wanted = |sample: &Sample| topics.iter().any(|filter| filter.matches(&sample.update.topic));
    loop {
        if batch.rows.len() >= rows_max || bytes >= BATCH_BYTES || batch.records >= records_max {
            batch.is_full = true;
            return Ok(batch);
        }
        let item = reader.next(durable);
        match item.map_err(|error| DatabaseError::Refused(format!("the journal cannot be read: {error}")))? {
            None => return Ok(batch),
            Some(Item::Record { seq, payload }) => {
                bytes += payload.len();
                (batch.upto, batch.records) = (Some(seq), batch.records + 1);
                let place = place_of(payload);
                batch.place = place.or(batch.place);
                match decoder.decode(payload) {
                    // Of before the core: no member could say whether the database has it.
                    Ok(samples) if is_core && place.is_none() => batch.missing += u64::from(!samples.is_empty()),
                    Ok(samples) => batch.rows.extend(samples.into_iter().filter(wanted).map(row_of)),
                    Err(_) => batch.missing += 1,
                }
            }
            Some(Item::Lost(lost)) => {
                warn!(database = name, first = lost.first.0, records = lost.records, "journal records are gone");
                batch.missing += lost.records;
                batch.upto = Some(Seq(lost.first.0.saturating_add(lost.records)).previous());
            }
        }
    }
}

/// A sample as databases take it.
fn row_of(sample: Sample) -> Row {
    let again = sample.again;
    let entry = entry_of(Seq(0), sample);
    let (value, quality) = match entry.body {
        Body::Point(point) => (point.value, point.quality),
        Body::Published(point) => (point.value().clone(), point.quality()),
        Body::Opaque(bytes) => {
            let value = match std::str::from_utf8(&bytes) {
                Ok(text) => Value::Text(text.into()),
                Err(_) => Value::Bytes(bytes.to_vec().into()),
            };
            (value, tieline_core::Quality::GOOD)
        }
    };
    Row { topic: entry.topic, time: entry.time, value, quality, again }
}
