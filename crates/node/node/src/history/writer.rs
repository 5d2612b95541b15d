//! The journal's thread: batches in, durable, receipts out.

use super::mover::{self, Mover};
use super::status::{Ailment, Board, HistoryStatus, Organ};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tieline_core::{StorageErrorKind, Timestamp};
use tieline_journal::{Journal, JournalError, Limits, Sample, Seq, State, WhenFull, encode};
use tieline_store::{FolderStorage, JOURNAL_FOLDER, Retention, STORE_FILE, Store, StoreError};

/// Batches that may wait for the journal; one more is refused.
const WAITING_MAX: usize = 1024;
/// Samples of one journal record.
const RECORD_SAMPLES_MAX: usize = 4096;
/// Batches of one group commit.
const GROUP_MAX: usize = 256;
/// How soon a failed disk is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long written records may wait for their sync where nobody waits for it.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Whether receipts wait for the disk, or only for the system.
    pub synced: bool,
    /// Octets of the journal; beyond them batches are refused until the store has caught up.
    pub journal_octets_max: u64,
    /// What the store removes.
    pub retention: Retention,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self { synced: true, journal_octets_max: 1 << 30, retention: Retention::default() }
    }
}

/// Why history could not be opened.
#[derive(Debug)]
pub enum HistoryError {
    /// The journal's folder.
    Journal(String),
    /// The store.
    Store(StoreError),
    /// The system gives no thread.
    Thread(std::io::Error),
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(why) => write!(f, "the journal cannot be opened: {why}"),
            Self::Store(why) => why.fmt(f),
            Self::Thread(why) => write!(f, "a thread cannot be started: {why}"),
        }
    }
}

impl std::error::Error for HistoryError {}

/// Called once: true when the batch is durable, false when it will not be. On the journal's thread.
pub type Told = Box<dyn FnOnce(bool) + Send>;

/// Samples, and who waits for them.
struct Batch {
    samples: Vec<Sample>,
    told: Option<Told>,
}

/// The writing side of history. Dropping it stores what was taken and ends its threads.
pub struct HistoryWriter {
    batches: Option<SyncSender<Batch>>,
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
}

impl HistoryWriter {
    /// Opens journal and store in a data folder; says what a crash left behind.
    ///
    /// # Errors
    /// They cannot be opened, or were written by a newer release.
    pub fn open(folder: &Path, options: HistoryOptions) -> Result<Self, HistoryError> {
        let store = Store::open(&folder.join(STORE_FILE)).map_err(HistoryError::Store)?;
        let position = Seq(store.position().map_err(HistoryError::Store)?);
        let storage = || FolderStorage::open(&folder.join(JOURNAL_FOLDER)).map_err(|e| HistoryError::Journal(e.to_string()));
        let limits = Limits { total_octets: options.journal_octets_max, when_full: WhenFull::Refuse, ..Limits::default() };
        let opened = Journal::open(storage()?, limits, position, utc());
        let (journal, recovery) = opened.map_err(|e| HistoryError::Journal(e.to_string()))?;
        for damage in &recovery.damage {
            tracing::warn!(?damage, "the journal's end was torn or damaged; what was acknowledged is whole");
        }
        tracing::info!(segments = recovery.segments, records = recovery.records, stored = position.0, "journal opened");
        let board = Arc::new(Board::default());
        let (batches, incoming) = sync_channel(WAITING_MAX);
        let (durable, news) = channel();
        let _ = durable.send(journal.durable());
        let mover = Mover::new(store, storage()?, position, options.retention, Arc::clone(&board));
        let mover_thread = spawn("store", move || mover::run(mover, &news))?;
        let keeper = Keeper { journal, options, board: Arc::clone(&board), durable, unsynced_since: None };
        let journal_thread = spawn("journal", move || keeper.run(&incoming))?;
        Ok(Self { batches: Some(batches), board, threads: vec![journal_thread, mover_thread] })
    }

    /// Hands over a batch. It is refused, and `told` so at once, when too many wait.
    pub fn submit(&self, samples: Vec<Sample>, told: Option<Told>) {
        let Some(batches) = &self.batches else { return };
        match batches.try_send(Batch { samples, told }) {
            Ok(()) => {}
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                Board::add(&self.board.lost, batch.samples.len());
                // `told` may wait for the caller's own queue, so not on the caller's thread.
                if let Some(told) = batch.told {
                    std::thread::spawn(move || told(false));
                }
            }
        }
    }

    /// How history is doing.
    #[must_use]
    pub fn status(&self) -> HistoryStatus {
        self.board.look()
    }
}

impl fmt::Debug for HistoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryWriter").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for HistoryWriter {
    fn drop(&mut self) {
        self.batches = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, HistoryError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(HistoryError::Thread)
}

/// The wall clock.
pub fn utc() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Owns the journal.
struct Keeper {
    journal: Journal<FolderStorage>,
    options: HistoryOptions,
    board: Arc<Board>,
    durable: Sender<Seq>,
    unsynced_since: Option<Instant>,
}

impl Keeper {
    fn run(mut self, incoming: &Receiver<Batch>) {
        loop {
            match incoming.recv_timeout(self.patience()) {
                Ok(first) => {
                    let more = incoming.try_iter().take(GROUP_MAX);
                    self.commit(std::iter::once(first).chain(more).collect());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.journal.sync().map(|durable| self.durable.send(durable));
                    return;
                }
            }
            self.look_after();
        }
    }

    fn patience(&self) -> Duration {
        match (self.journal.state(), self.unsynced_since) {
            (State::Failed(_), _) => RETRY,
            (State::Open, Some(since)) => SYNC_EVERY.saturating_sub(since.elapsed()),
            (State::Open, None) => Duration::from_secs(3600),
        }
    }

    /// Goes on after a failure, and syncs what was only written.
    fn look_after(&mut self) {
        let late = self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_EVERY);
        if matches!(self.journal.state(), State::Failed(_)) {
            let recovered = self.journal.recover();
            self.settled(&recovered);
        } else if late {
            let synced = self.journal.sync();
            self.settled(&synced);
        }
        self.board.journal_octets.store(self.journal.octets(), Ordering::Relaxed);
    }

    /// One group: all records in one write, one sync, then every receipt.
    fn commit(&mut self, batches: Vec<Batch>) {
        self.journal.release(Seq(self.board.position.load(Ordering::Relaxed)));
        let (mut waiting, mut taken, mut urgent) = (Vec::new(), 0, false);
        for Batch { samples, told } in batches {
            match self.append(&samples) {
                Ok(()) => {
                    taken += samples.len();
                    urgent |= told.is_some();
                    waiting.extend(told);
                }
                Err(error) => {
                    Board::add(&self.board.lost, samples.len());
                    self.board.set(Organ::Journal, Some(ailment(&error)));
                    told.into_iter().for_each(|told| told(false));
                }
            }
        }
        if taken == 0 {
            return;
        }
        // Counted before the store can count them out again.
        Board::add(&self.board.journaled, taken);
        let done = if self.options.synced && urgent { self.journal.sync() } else { self.journal.write() };
        self.settled(&done);
        waiting.into_iter().for_each(|told| told(done.is_ok()));
    }

    fn append(&mut self, samples: &[Sample]) -> Result<(), JournalError> {
        for part in samples.chunks(RECORD_SAMPLES_MAX) {
            let mut record = Vec::with_capacity(part.len() * 16);
            encode(part, &mut record);
            match self.journal.append(&record) {
                // Too much is in memory: make it durable, and it is taken.
                Err(JournalError::Unsynced(_)) => {
                    self.journal.sync()?;
                    self.journal.append(&record)?;
                }
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Tells the store how far it may read, and people what ails the disk.
    fn settled(&mut self, done: &Result<Seq, JournalError>) {
        match done {
            Ok(_) => {
                self.board.set(Organ::Journal, None);
                let behind = self.journal.durable() < self.journal.last();
                self.unsynced_since = behind.then(|| self.unsynced_since.unwrap_or_else(Instant::now));
                let _ = self.durable.send(self.journal.durable());
            }
            Err(error) => self.board.set(Organ::Journal, Some(ailment(error))),
        }
    }
}

fn ailment(error: &JournalError) -> Ailment {
    let full = match error {
        JournalError::Failed(failure) => failure.error.kind == StorageErrorKind::Full,
        JournalError::Full(_) => true,
        JournalError::TooLong(_) | JournalError::Unsynced(_) => false,
    };
    Ailment { full, detail: error.to_string() }
}
