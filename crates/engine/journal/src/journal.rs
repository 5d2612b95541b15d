//! The writing side: appends, makes durable, goes on after failures, lets go of what was stored.

use crate::limits::{Limits, WhenFull};
use crate::scan::{Damage, Scan, Step};
use crate::segment::{HEAD_BYTES, HEADER_BYTES, RECORD_BYTES_MAX, SegmentId, Seq, push_frame, seal};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::{Storage, StorageError, StorageErrorKind, Timestamp};

/// Why a call was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The caller's record is longer than [`RECORD_BYTES_MAX`]; how long, in bytes.
    TooLong(usize),
    /// All segments together have reached their limit, in bytes.
    Full(u64),
    /// Too much is not durable yet; the limit in bytes.
    Unsynced(usize),
    /// The storage failed, before or in this call; nothing is acknowledged until [`Journal::recover`] succeeds.
    Failed(Failure),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "a record of {bytes} bytes, at most {RECORD_BYTES_MAX} are taken"),
            Self::Full(limit) => write!(f, "the journal has reached its limit of {limit} bytes"),
            Self::Unsynced(limit) => write!(f, "{limit} bytes wait to be made durable"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl core::error::Error for JournalError {}

/// A storage call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which call: `append`, `sync`, `truncate`.
    pub call: &'static str,
    /// What the storage said.
    pub error: StorageError,
}

impl Failure {
    /// Whether the disk is full, which passes.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.error.kind == StorageErrorKind::Full
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "journal {}: {}", self.call, self.error)
    }
}

/// Whether the journal takes records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Open,
    /// A storage call failed: nothing is taken or acknowledged until [`Journal::recover`] succeeds.
    Failed(Failure),
}

/// What was done since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records taken.
    pub appended: u64,
    /// Bytes written, with heads and rewrites.
    pub written_bytes: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Records refused because a limit was reached.
    pub refused: u64,
    /// Records removed unread by [`WhenFull::DropOldest`].
    pub dropped: u64,
    /// Storage calls that failed.
    pub failures: u64,
    /// Times that the journal went on after a failure.
    pub recoveries: u64,
}

/// What was found at the opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments held.
    pub segments: usize,
    /// Records from the oldest segment's first to the last.
    pub records: u64,
    /// What was no record in the last segment. A torn tail was cut; wrong checksums were left in place.
    pub damage: Vec<Damage>,
}

#[derive(Clone, Copy)]
struct Segment {
    id: SegmentId,
    bytes: u64,
}

/// The log. Records are taken into memory by [`Journal::append`], reach the file with [`Journal::write`] and are
/// durable with [`Journal::sync`]; one call of each serves any number of records (group commit).
pub struct Journal<S> {
    storage: S,
    limits: Limits,
    segments: VecDeque<Segment>,
    /// Whether the last segment takes more frames.
    active: bool,
    /// Frames that are not durable, oldest first. The first `tail_written` bytes are in the file.
    tail: Vec<u8>,
    tail_written: usize,
    durable: Seq,
    written: Seq,
    last: Seq,
    released: Seq,
    /// The first record that other readers want.
    wanted: Seq,
    stamp: u64,
    state: State,
    counters: Counters,
}

impl<S: Storage> Journal<S> {
    /// Finds the end of what was written, cuts a torn tail and makes the rest durable where the storage can. `stored` is the consumer's own
    /// position: no sequence up to it is given again, and segments up to it are let go.
    ///
    /// # Errors
    /// The storage failed in a way that leaves the end unknown.
    pub fn open(mut storage: S, limits: Limits, stored: Seq, now: Timestamp) -> Result<(Self, Recovery), StorageError> {
        let mut segments = VecDeque::new();
        for id in SegmentId::sorted(&storage.list()?) {
            let bytes = storage.len(&id.name())?;
            segments.push_back(Segment { id, bytes });
        }
        let latest = segments.iter().map(|s: &Segment| s.id.stamp).max().unwrap_or(0);
        let limits = limits.of_segments();
        let mut journal = Self {
            storage,
            limits,
            segments,
            active: false,
            tail: Vec::new(),
            tail_written: 0,
            durable: stored,
            written: stored,
            last: stored,
            released: stored,
            wanted: Seq(0),
            stamp: latest.max(u64::try_from(now.micros()).unwrap_or(0)),
            state: State::Open,
            counters: Counters::default(),
        };
        let damage = journal.find_end()?;
        let (segments, records) = (journal.segments.len(), journal.last.next().since(journal.first()));
        let recovery = Recovery { segments, records, damage };
        journal.release(stored);
        Ok((journal, recovery))
    }

    /// Takes a record into memory and says which it is.
    ///
    /// # Errors
    /// `TooLong`, `Unsynced`, `Full` by policy, or `Failed`; the record is not taken then.
    pub fn append(&mut self, record: &[u8]) -> Result<Seq, JournalError> {
        self.check_open()?;
        if record.len() > RECORD_BYTES_MAX {
            return Err(JournalError::TooLong(record.len()));
        }
        let frame = HEAD_BYTES + record.len();
        if !self.tail.is_empty() && self.tail.len() + frame > self.limits.unsynced_bytes {
            self.counters.refused += 1;
            return Err(JournalError::Unsynced(self.limits.unsynced_bytes));
        }
        self.make_room(frame as u64)?;
        self.last = self.last.next();
        push_frame(&mut self.tail, self.last, record);
        self.counters.appended += 1;
        Ok(self.last)
    }

    /// Writes all that was appended: it survives the end of the process. Returns the last record written.
    ///
    /// # Errors
    /// The storage failed: see [`Journal::recover`].
    pub fn write(&mut self) -> Result<Seq, JournalError> {
        self.check_open()?;
        if self.written == self.last {
            return Ok(self.written);
        }
        if self.segments.back().is_some_and(|s| s.bytes >= self.limits.segment_bytes) && self.active {
            self.sync_written()?;
            self.active = false;
        }
        self.begin_segment()?;
        let Some(segment) = self.segments.back_mut() else { return Ok(self.written) };
        let frames = self.tail.get_mut(self.tail_written..).unwrap_or_default();
        seal(frames, segment.id.stamp);
        let bytes = frames.len();
        let done = self.storage.append(&segment.id.name(), frames);
        self.settle("append", done)?;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes += bytes as u64;
        }
        self.counters.written_bytes += bytes as u64;
        self.tail_written = self.tail.len();
        self.written = self.last;
        Ok(self.written)
    }

    /// Writes all that was appended and makes it durable: it survives a power cut. Returns the last record that does.
    ///
    /// # Errors
    /// The storage failed: see [`Journal::recover`].
    pub fn sync(&mut self) -> Result<Seq, JournalError> {
        self.write()?;
        self.sync_written()?;
        Ok(self.durable)
    }

    /// Tries to go on after a failure: to be called now and then, for instance each second. Cuts off what a failed
    /// append left, or leaves the file for good when it is not to be trusted (its sync failed once); then writes all
    /// that is not durable and makes it so. Nothing that was taken is lost. Harmless when nothing has failed.
    ///
    /// # Errors
    /// The storage fails still.
    pub fn recover(&mut self) -> Result<Seq, JournalError> {
        let State::Failed(failure) = &self.state else { return Ok(self.durable) };
        let (is_append, is_full) = (failure.call == "append", failure.is_full());
        if is_full && self.kept_bytes() > 0 {
            // What is new is worth more than what others have not read.
            let _ = self.remove_oldest();
        }
        let trusted = is_append && self.cut_active();
        if !trusted {
            self.leave_active();
            self.tail_written = 0;
            self.written = self.durable;
        }
        self.state = State::Open;
        let durable = self.sync()?;
        self.counters.recoveries += 1;
        Ok(durable)
    }

    /// Has the next record begin another segment, so that [`Journal::release`] can remove the present one.
    ///
    /// # Errors
    /// The storage failed: see [`Journal::recover`].
    pub fn end_segment(&mut self) -> Result<(), JournalError> {
        self.sync()?;
        self.active = false;
        Ok(())
    }

    /// Lets go of all records up to `upto`, because the consumer has them: segments without others are removed, the
    /// newest never, and not those that other readers want. A removal that fails is tried again with the next call.
    pub fn release(&mut self, upto: Seq) {
        self.released = self.released.max(upto.min(self.durable));
        while let Some(second) = self.segments.get(1).filter(|second| second.id.first <= self.released.next()) {
            let is_kept = second.id.first > self.wanted && self.kept_bytes() <= self.limits.kept_bytes;
            if is_kept || self.remove_oldest().is_err() {
                return;
            }
        }
    }

    /// Says the first record that other readers want, within [`Limits::kept_bytes`]; until it is called they want all.
    pub const fn want(&mut self, first: Seq) {
        self.wanted = first;
    }

    /// The last record that survives a power cut.
    #[must_use]
    pub const fn durable(&self) -> Seq {
        self.durable
    }

    /// The last record taken.
    #[must_use]
    pub const fn last(&self) -> Seq {
        self.last
    }

    /// The first record that there is, or will be.
    #[must_use]
    pub fn first(&self) -> Seq {
        self.segments.front().map_or(self.last.next(), |segment| segment.id.first)
    }

    /// Whether records are taken.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// What was done since the opening.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All segments together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum()
    }

    /// Those of the segments that are kept for other readers alone, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let next = self.segments.iter().skip(1);
        let kept = self.segments.iter().zip(next).take_while(|(_, next)| next.id.first <= self.released.next());
        kept.map(|(segment, _)| segment.bytes).sum()
    }

    /// Whether it has reached its size, so that a record of some length is refused by policy.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let wanted = self.bytes() - self.kept_bytes()
            + (self.tail.len() - self.tail_written) as u64
            + self.limits.segment_bytes / 16;
        self.limits.when_full == WhenFull::Refuse && wanted > self.limits.total_bytes
    }

    /// How many segments there are.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    fn check_open(&self) -> Result<(), JournalError> {
        match &self.state {
            State::Open => Ok(()),
            State::Failed(failure) => Err(JournalError::Failed(failure.clone())),
        }
    }

    fn settle<T>(&mut self, call: &'static str, done: Result<T, StorageError>) -> Result<T, JournalError> {
        done.map_err(|error| {
            let failure = Failure { call, error };
            self.counters.failures += 1;
            self.state = State::Failed(failure.clone());
            JournalError::Failed(failure)
        })
    }

    /// Makes the written frames durable.
    fn sync_written(&mut self) -> Result<(), JournalError> {
        let Some(segment) = self.segments.back().filter(|_| self.durable < self.written) else { return Ok(()) };
        let done = self.storage.sync(&segment.id.name());
        self.settle("sync", done)?;
        self.counters.syncs += 1;
        self.durable = self.written;
        self.tail.drain(..self.tail_written);
        self.tail_written = 0;
        Ok(())
    }

    /// Begins a segment where none takes frames. All before it is durable.
    fn begin_segment(&mut self) -> Result<(), JournalError> {
        if !self.active {
            self.stamp += 1;
            let id = SegmentId { first: self.durable.next(), stamp: self.stamp };
            self.segments.push_back(Segment { id, bytes: 0 });
            self.active = true;
        }
        let Some(Segment { id, bytes: 0 }) = self.segments.back().copied() else { return Ok(()) };
        let done = self.storage.append(&id.name(), &id.header());
        self.settle("append", done)?;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = HEADER_BYTES as u64;
        }
        Ok(())
    }

    /// Cuts the last segment to what is known to be in it, and says whether that succeeded.
    fn cut_active(&mut self) -> bool {
        let Some(segment) = self.segments.back().filter(|_| self.active) else { return false };
        match self.storage.truncate(&segment.id.name(), segment.bytes) {
            Ok(()) => true,
            Err(error) => error.kind == StorageErrorKind::Missing && segment.bytes == 0,
        }
    }

    /// Leaves the last segment for good. One that never took a frame is not kept.
    fn leave_active(&mut self) {
        let Some(segment) = self.segments.back().filter(|_| self.active) else { return };
        if segment.bytes <= HEADER_BYTES as u64 {
            match self.storage.remove(&segment.id.name()) {
                Err(error) if error.kind != StorageErrorKind::Missing => {}
                Ok(()) | Err(_) => drop(self.segments.pop_back()),
            }
        }
        self.active = false;
    }

    fn make_room(&mut self, frame: u64) -> Result<(), JournalError> {
        let unwritten = (self.tail.len() - self.tail_written) as u64;
        let wanted = unwritten + frame + HEADER_BYTES as u64;
        while self.bytes() - self.kept_bytes() + wanted > self.limits.total_bytes {
            let removable = self.limits.when_full == WhenFull::DropOldest && self.segments.len() > 1;
            if !removable || self.remove_oldest().is_err() {
                self.counters.refused += 1;
                return Err(JournalError::Full(self.limits.total_bytes));
            }
        }
        Ok(())
    }

    fn remove_oldest(&mut self) -> Result<(), StorageError> {
        let (Some(oldest), Some(second)) = (self.segments.front(), self.segments.get(1)) else { return Ok(()) };
        let unread_from = oldest.id.first.max(self.released.next());
        let dropped = second.id.first.since(unread_from);
        match self.storage.remove(&oldest.id.name()) {
            Err(error) if error.kind != StorageErrorKind::Missing => return Err(error),
            Ok(()) | Err(_) => self.segments.pop_front(),
        };
        self.counters.dropped += dropped;
        Ok(())
    }

    /// Reads the last segment to its end. Sets where the next record goes.
    fn find_end(&mut self) -> Result<Vec<Damage>, StorageError> {
        while let Some(segment) = self.segments.back().copied() {
            if segment.bytes > HEADER_BYTES as u64 {
                return self.find_end_in(segment);
            }
            // Its first write never came: its sequence alone is worth keeping.
            self.storage.remove(&segment.id.name())?;
            self.segments.pop_back();
            self.start_after(segment.id.first.previous());
        }
        Ok(Vec::new())
    }

    fn find_end_in(&mut self, segment: Segment) -> Result<Vec<Damage>, StorageError> {
        let (mut scan, mut damage) = (Scan::new(segment.id), Vec::new());
        let mut last = segment.id.first.previous();
        loop {
            match scan.step(&mut self.storage)? {
                Step::Record { seq, len } => {
                    scan.advance(seq, len);
                    last = seq;
                }
                Step::Damage(found) => damage.push(found),
                Step::Torn(found) => {
                    self.storage.truncate(scan.name(), found.at)?;
                    damage.push(found);
                    break;
                }
                Step::End => break,
            }
        }
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = scan.at();
        }
        self.start_after(last);
        // What an earlier process acknowledged, it has synced. The rest was promised to nobody: it must not be written
        // once more under the same sequences, because a crash on the way would shadow what was acknowledged.
        if self.storage.sync(scan.name()).is_err() {
            self.counters.failures += 1;
        }
        Ok(damage)
    }

    fn start_after(&mut self, last: Seq) {
        self.last = self.last.max(last);
        self.written = self.last;
        self.durable = self.last;
    }
}
