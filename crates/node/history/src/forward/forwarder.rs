//! The thread that writes the journal's records to one database.

use super::Forwarding;
use super::batch::{Batch, Wanted, gather};
use super::core_position::Shared;
use super::counts::{Counts, Rest};
use super::identity::Identity;
use crate::replicate::Replication;
use crate::running::RunningInstant;
use crate::status::Board;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_databases::DatabaseError;
use tieline_journal::{Decoder, Reader, Seq};
use tieline_store::FolderStorage;
use tracing::{info, warn};

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The fewest samples of a batch, where more are to be written.
const ROWS_MIN: usize = 500;
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
    counts: Counts,
    /// The log of the core that this node leads.
    core: Option<Shared>,
    /// Where it reads; none without a connection.
    reader: Option<Reader<FolderStorage>>,
    decoder: Decoder,
    /// What was read while the batch before it was written.
    ahead: Option<Batch>,
    rows_max: usize,
    /// Records that go one by one, because a batch with them was refused.
    singly: u64,
    /// What was written when, and the positions.
    written: VecDeque<(Instant, Seq, Option<u64>)>,
    close_patience: Duration,
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
        let opened = board.wait(Duration::ZERO, |_| true, |notes| notes.opened);
        let counts = Counts::open(&databases, &forwarding.name, core.as_ref(), opened)?;
        let (rows_max, written) = (forwarding.batch_rows, VecDeque::new());
        let (reader, ahead, singly, decoder) = (None, None, 0, Decoder::default());
        Ok(Self {
            forwarding,
            index,
            board,
            folder,
            counts,
            core,
            reader,
            decoder,
            ahead,
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
            let is_at_end = self.reader.as_ref().is_some_and(|reader| reader.place() > durable);
            let all_read = is_at_end && self.ahead.is_none() && self.counts.rest == Rest::Done;
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

    /// Connects for what the database does not have of the count of the other mode, and then for what is recorded.
    fn connect(&mut self) -> Result<(), DatabaseError> {
        if self.counts.rest == Rest::Due && self.counts.other.is_none() {
            self.counts.rest = Rest::Done;
        }
        let is_rest = self.counts.rest == Rest::Due;
        let (first, last) =
            self.board.wait(Duration::ZERO, |_| true, |notes| (notes.status.journal_first, notes.status.durable));
        if is_rest {
            self.counts.rest = Rest::Writing(last);
        }
        let before = self.counts.main.position;
        self.read_position()?;
        let position = self.counts.current().position;
        if !is_rest && position < before && self.counts.other.is_some() {
            // The database fell back, perhaps with the other count, too.
            self.counts.rest = Rest::Due;
            return Ok(());
        }
        let mut next = self.counts.current().next(&self.folder, (first, last))?;
        if self.counts.current().is_over(next) {
            self.part()?;
            next = self.counts.current().next(&self.folder, (first, last))?;
        }
        let position = self.counts.current().position;
        if is_rest && next > last {
            self.counts.rest = Rest::Done;
            return Ok(());
        }
        let storage = FolderStorage::open(&self.folder).map_err(system)?;
        (self.reader, self.ahead) = (Some(Reader::new(storage, next)), None);
        self.written.clear();
        self.note_position(next.previous());
        let trouble = self.board.note(|notes| {
            let notes = &mut notes.forwarding[self.index];
            notes.status.connects += 1;
            if is_rest {
                // What waits of the own count is not known.
                notes.status.position = None;
            }
            notes.away_since = None;
            notes.status.trouble.take()
        });
        info!(database = self.forwarding.name, position, is_rest, after = trouble, "connected to the database");
        Ok(())
    }

    /// Connects and reads the position of the count that is to be written.
    fn read_position(&mut self) -> Result<(), DatabaseError> {
        let Self { forwarding, counts, core, .. } = self;
        let (name, is_rest) = (forwarding.name.as_str(), counts.rest != Rest::Done);
        let core = core.as_mut().filter(|_| !is_rest);
        let count = counts.current();
        if let Some(core) = core.filter(|_| !count.known) {
            // All members know the name before the database has a position for it.
            core.say(name, &count.identity, 0)?;
        }
        count.position = forwarding.database.connect(count.identity.name())?;
        if !count.known && count.position.is_some_and(|position| position > count.shared) {
            // This journal never had these records: its folder was restored from a copy.
            let (position, journal) = (count.position, count.shared);
            warn!(database = name, position, journal, "the database is ahead of the journal: a new count begins");
            self.part()?;
        }
        self.counts.current().known = true;
        Ok(())
    }

    /// Begins a count for what the journal does not share with that of another node. The name changes once the database has a position
    /// for it, which says that it has all before.
    fn part(&mut self) -> Result<(), DatabaseError> {
        let (is_rest, Self { forwarding, counts, core, .. }) = (self.counts.rest != Rest::Done, self);
        let count = counts.current();
        let other = Identity::another().map_err(system)?;
        forwarding.database.connect(&other)?;
        forwarding.database.write(&[], count.shared)?;
        count.part(other).map_err(system)?;
        if let Some(core) = core.as_mut().filter(|_| !is_rest) {
            core.say(&forwarding.name, &count.identity, count.shared)?;
        }
        Ok(())
    }

    /// Writes a batch, or waits for a moment where there is nothing to write.
    fn forward(&mut self) -> Result<(), DatabaseError> {
        let Some(place) = self.reader.as_ref().map(Reader::place) else { return Ok(()) };
        if matches!(self.counts.rest, Rest::Writing(last) if place > last) && self.ahead.is_none() {
            (self.counts.rest, self.reader) = (Rest::Done, None);
            return Ok(());
        }
        if self.ahead.is_none() && self.counts.current().is_over(place) {
            self.part()?;
        }
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
        if batch.has_others && self.counts.other.is_none() && self.core.is_none() {
            self.counts.begin_core().map_err(system)?;
            self.reader = None;
            return Ok(());
        }
        let Some(to) = batch.to else {
            // Records of the other count alone.
            self.note_batch(&batch, upto, 0, Duration::ZERO);
            return Ok(());
        };
        let started = Instant::now();
        match self.write(&batch, to)? {
            Ok(skipped) => {
                self.counts.current().position = Some(to);
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
        if !batch.is_full && self.singly == 0 && self.counts.rest == Rest::Done {
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
        let durable = self.counts.limit(durable);
        let by = self.counts.current().by;
        let misses_others = self.misses_others();
        let Self { forwarding, reader, decoder, rows_max, singly, .. } = self;
        let Forwarding { database, name, topics, .. } = forwarding;
        let Some(reader) = reader.as_mut().filter(|_| batch.is_full && *singly == 0) else {
            return Ok(database.write(&batch.rows, to));
        };
        let wanted = Wanted { name, topics, by, misses_others };
        let (written, ahead) = std::thread::scope(|scope| {
            let read = || gather((reader, decoder), wanted, durable, (*rows_max, u64::MAX));
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
        let count = self.counts.current();
        let found = self.forwarding.database.connect(count.identity.name())?;
        if found.unwrap_or_default() != count.position.unwrap_or_default() {
            return Err(DatabaseError::Away("the position is not what it was".to_owned()));
        }
        self.forwarding.database.write(&[], to)?;
        count.position = Some(to);
        self.board.note(|notes| notes.forwarding[self.index].status.rejected_points += points);
        let left_out = Batch { records: 1, missing: batch.missing, ..Batch::default() };
        self.note_batch(&left_out, upto, 0, Duration::ZERO);
        Ok(())
    }

    fn gather(&mut self, durable: Seq) -> Result<Batch, DatabaseError> {
        let (durable, by, misses_others) = (self.counts.limit(durable), self.counts.current().by, self.misses_others());
        let Some(reader) = &mut self.reader else { return Ok(Batch::default()) };
        let records_max = if self.singly > 0 { 1 } else { u64::MAX };
        let wanted = Wanted { name: &self.forwarding.name, topics: &self.forwarding.topics, by, misses_others };
        gather((reader, &mut self.decoder), wanted, durable, (self.rows_max, records_max))
    }

    /// Whether nobody writes samples of before the core: each member may have the same, and no common count of them.
    const fn misses_others(&self) -> bool {
        self.core.is_some() && self.counts.other.is_none()
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
        if self.counts.rest != Rest::Done {
            // Nothing may be let go before the position of the own count is known.
            return;
        }
        let now = Instant::now();
        if self.written.back().is_none_or(|(at, ..)| now.duration_since(*at) >= KEEP_STEP) {
            self.written.push_back((now, position, self.counts.main.position));
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
            let _ = core.say(&self.forwarding.name, &self.counts.main.identity, place);
        }
    }

    fn fail(&mut self, error: &DatabaseError) {
        (self.reader, self.ahead) = (None, None);
        if matches!(self.counts.rest, Rest::Writing(_)) {
            self.counts.rest = Rest::Due;
        }
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

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn system(error: std::io::Error) -> DatabaseError {
    DatabaseError::Refused(error.to_string())
}
