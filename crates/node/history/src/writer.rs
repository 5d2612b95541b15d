//! The history of a node: opened, given updates, watched, closed.

use crate::columns::reader::HistorySource;
use crate::columns::{Columns, folder_of};
use crate::feed::JournalFeed;
use crate::forward::{DATABASES_FOLDER, DatabaseKeeper, ForwardNotes, Forwarder, Forwarding};
use crate::journal_thread::JournalThread;
use crate::options::HistoryOptions;
use crate::queue::{Batch, Noted, Queue, Receipt};
use crate::replicate::{Placed, Replication};
use crate::status::{Asked, Board, Disk, HistoryState, HistoryStatus};
use crate::store::{Deleted, Deletion, Store, StoreError};
use crate::store_thread::{StoreThread, utc};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tieline_core::{Storage, StorageError};
use tieline_journal::{Journal, Reader, Sample, Seq};
use tieline_store::{FolderStorage, JOURNAL_FOLDER};
use tracing::{info, warn};

/// Deletions that may wait, and closings of days.
const DELETIONS_MAX: usize = 16;

/// Whether old samples may be removed now.
pub type MayRemove = Arc<dyn Fn() -> bool + Send + Sync>;

/// Why a history cannot be opened.
#[derive(Debug)]
pub enum HistoryError {
    /// The store.
    Store(StoreError),
    /// The journal's files.
    Journal(StorageError),
    /// The folder, or a thread.
    System(io::Error),
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Journal(error) => error.fmt(f),
            Self::System(error) => write!(f, "the history cannot be opened: {error}"),
        }
    }
}

impl std::error::Error for HistoryError {}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<StorageError> for HistoryError {
    fn from(error: StorageError) -> Self {
        Self::Journal(error)
    }
}

impl From<io::Error> for HistoryError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Where updates go in; cheap to clone.
#[derive(Clone)]
pub struct HistoryHandle {
    queue: Arc<Queue>,
    board: Arc<Board>,
}

impl HistoryHandle {
    /// Records a batch for which nobody waits. Where it cannot be recorded it is dropped and counted.
    pub fn record(&self, samples: Vec<Sample>) {
        // Who waits for a disk that hangs says so, for those who write to it cannot.
        self.board.takes();
        self.queue.put(Batch { samples, ..Batch::default() });
    }

    /// Records a batch and calls the receipt once: when the batch is as durable as configured, or with the reason why
    /// it will not be. A batch that was taken before the disk failed is held until the disk is well again; one that
    /// comes after is refused at once.
    pub fn submit(&self, samples: Vec<Sample>, receipt: Receipt) {
        self.board.takes();
        self.queue.put(Batch { samples, receipt: Some(receipt), ..Batch::default() });
    }

    /// Records samples with notes, each a record of the journal, in their order: none is recorded without those before it. Each receipt is
    /// called as in [`HistoryHandle::submit`].
    pub fn submit_noted(&self, noted: Vec<Noted>) {
        self.board.takes();
        self.queue.put(Batch { noted, ..Batch::default() });
    }

    /// Records what the log of all members has, each a record of the journal, in their order; what is there is not recorded twice. The
    /// receipt is called once, as in [`HistoryHandle::submit`].
    pub fn submit_placed(&self, placed: Vec<Placed>, receipt: Receipt) {
        self.board.takes();
        self.queue.put(Batch { placed, receipt: Some(receipt), ..Batch::default() });
    }

    /// Whether so many more updates with so many bytes would be taken now: to be asked before anything is done that must
    /// not be done without.
    #[must_use]
    pub fn has_room(&self, points: usize, bytes: usize) -> bool {
        self.board.takes() && self.queue.has_room(points, bytes)
    }

    /// How the history is doing.
    #[must_use]
    pub fn status(&self) -> HistoryStatus {
        let mut status = self.board.status();
        let (queued, turned) = self.queue.counts();
        status.queued_points = queued;
        status.dropped_points += turned.dropped;
        status.refused_points += turned.refused;
        status
    }

    /// Asks the store to delete samples, with all that is durable by now; the answer comes when their bytes are gone from chunks and day
    /// files. The journal lets go of them soon after, but for databases that do not have them. Nothing comes where the history is closed
    /// before, or too many deletions wait.
    #[must_use]
    pub fn delete(&self, what: Deletion) -> Receiver<Result<Deleted, String>> {
        let (answer, answered) = sync_channel(1);
        self.board.note(|notes| {
            if notes.store_done || notes.deletions.len() >= DELETIONS_MAX {
                return;
            }
            notes.deletions.push_back(Asked { what, upto: None, answer });
        });
        answered
    }

    /// Asks the store to close the days that have ended, without waiting for late samples; the answer is how many were. Nothing comes
    /// where the history is closed before, or too many wait.
    #[must_use]
    pub fn close_days(&self) -> Receiver<Result<u64, String>> {
        let (answer, answered) = sync_channel(1);
        self.board.note(|notes| {
            if !notes.store_done && notes.closings.len() < DELETIONS_MAX {
                notes.closings.push(answer);
            }
        });
        answered
    }

    /// Waits until a journal record is durable, for `patience` at most; the last one that is, and whether the journal is closed.
    pub(crate) fn wait_durable(&self, seq: Seq, patience: Duration) -> (Seq, bool) {
        let is_there = |notes: &crate::status::Notes| notes.status.durable >= seq || notes.journal_done;
        self.board.wait(patience, is_there, |notes| (notes.status.durable, notes.journal_done))
    }

    /// Waits until the store has the journal's records up to `seq`, and all those that were there at the start, for `patience` at most;
    /// says whether it has. Answers have from then on what is durable, and nothing else.
    pub fn wait_stored(&self, seq: Seq, patience: Duration) -> bool {
        let has = |notes: &crate::status::Notes| notes.caught_up && notes.status.stored >= seq;
        self.board.wait(patience, |notes| has(notes) || notes.store_done, has)
    }
}

/// The history's two threads. Dropping it closes it: what was put in is made durable first, as far as the disk lets.
pub struct HistoryWriter {
    handle: HistoryHandle,
    threads: Vec<JoinHandle<()>>,
    /// Those that write to databases.
    forwarders: Vec<JoinHandle<()>>,
    close_patience: Duration,
    /// The log of the core, and the place of the last record when the journal was opened.
    replication: Replication,
}

impl HistoryWriter {
    /// Opens the history of a data folder, or makes one, and begins to move what the journal still holds.
    ///
    /// # Errors
    /// The folder, the journal or the store cannot be opened.
    pub fn open(data: &Path, options: HistoryOptions) -> Result<Self, HistoryError> {
        Self::open_guarded(&HistorySource::new(data), options, Arc::new(|| true))
    }

    /// The same, to be read through `source`, and old samples are removed only while `may_remove` says so: age goes by a clock, which
    /// may be wrong.
    ///
    /// # Errors
    /// The folder, the journal or the store cannot be opened.
    pub fn open_guarded(
        source: &HistorySource,
        options: HistoryOptions,
        may_remove: MayRemove,
    ) -> Result<Self, HistoryError> {
        Self::open_replicated(source, options, may_remove, Replication::default())
    }

    /// The same for a member of a core: each record has a place in the log of all members.
    ///
    /// # Errors
    /// The folder, the journal or the store cannot be opened.
    pub fn open_replicated(
        source: &HistorySource,
        options: HistoryOptions,
        may_remove: MayRemove,
        replication: Replication,
    ) -> Result<Self, HistoryError> {
        Self::open_with(source, options, (may_remove, replication), |files| files)
    }

    /// The same, with the files of the journal and of chunks reached through what `through` makes of their folders.
    ///
    /// # Errors
    /// The folder, the journal or the store cannot be opened.
    pub fn open_through<S: Storage + Send + 'static>(
        source: &HistorySource,
        options: HistoryOptions,
        may_remove: MayRemove,
        through: impl Fn(FolderStorage) -> S,
    ) -> Result<Self, HistoryError> {
        Self::open_with(source, options, (may_remove, Replication::default()), through)
    }

    fn open_with<S: Storage + Send + 'static>(
        source: &HistorySource,
        options: HistoryOptions,
        (may_remove, replication): (MayRemove, Replication),
        through: impl Fn(FolderStorage) -> S,
    ) -> Result<Self, HistoryError> {
        let (data, live) = (source.data(), source.live().clone());
        live.edits().set_log(replication.log.clone());
        let folder = data.join(JOURNAL_FOLDER);
        let [write, read] = [FolderStorage::open(&folder)?, FolderStorage::open(&folder)?].map(&through);
        let chunks = through(FolderStorage::open(&folder_of(data))?);
        let store = Columns::over(chunks, data, live, options.memory_bytes, options.file_bytes())?;
        Self::over_replicated((write, read), Box::new(store), options, may_remove, replication)
    }

    #[cfg(test)]
    pub(crate) fn over<S: Storage + Send + 'static>(
        write: S,
        read: S,
        store: Box<dyn Store>,
        options: HistoryOptions,
        may_remove: MayRemove,
    ) -> Result<Self, HistoryError> {
        Self::over_replicated((write, read), store, options, may_remove, Replication::default())
    }

    fn over_replicated<S: Storage + Send + 'static>(
        (write, read): (S, S),
        store: Box<dyn Store>,
        options: HistoryOptions,
        may_remove: MayRemove,
        replication: Replication,
    ) -> Result<Self, HistoryError> {
        let stored = store.position();
        let (journal, found) = Journal::open(write, options.journal, stored, utc())?;
        for damage in &found.damage {
            warn!(%damage, "the journal's last segment held bytes that are no record");
        }
        info!(records = found.records, segments = found.segments, stored = stored.0, "the history is open");
        let (queue, board) =
            (Arc::new(Queue::new(options.queue_points_max, options.queue_bytes_max)), Arc::new(Board::default()));
        board.note(|notes| {
            notes.status.durable = journal.durable();
            (notes.status.stored, notes.status.released) = (stored, stored);
            (notes.opened, notes.status.journal_first) = (journal.durable(), journal.first());
            notes.status.damage_found = found.damage.len() as u64;
        });
        let retain_at = Instant::now();
        let mover = StoreThread {
            reader: Reader::new(read, stored.next()),
            store,
            options,
            board: Arc::clone(&board),
            may_remove,
            retain_at,
            migrates: true,
            replays_upto: Some(journal.durable()),
            deletion_waits: false,
            closing_from: None,
        };
        let keeper = JournalThread {
            journal,
            options,
            queue: Arc::clone(&queue),
            board: Arc::clone(&board),
            held: Vec::new(),
            held_points: 0,
            retry_at: None,
            bytes: Vec::new(),
            replication: replication.clone(),
            said_at: Instant::now(),
        };
        let handle = HistoryHandle { queue, board };
        let close_patience = options.close_patience;
        let mut writer = Self { handle, threads: Vec::new(), forwarders: Vec::new(), close_patience, replication };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let (queue, board) = (Arc::clone(&writer.handle.queue), Arc::clone(&writer.handle.board));
        writer.threads.push(named("history-journal").spawn(move || {
            // A receipt is the caller's code: when it panics, the history says so, and closes.
            let ended = catch_unwind(AssertUnwindSafe(|| keeper.run()));
            queue.close();
            board.write(Disk::Journal, false);
            board.note(|notes| {
                notes.journal_done = true;
                if ended.is_err() {
                    let why = "the journal thread panicked".to_owned();
                    notes.journal_trouble = Some(HistoryState::Failed { why });
                }
            });
        })?);
        writer.threads.push(named("history-store").spawn(move || mover.run())?);
        Ok(writer)
    }

    /// Begins to write what the journal of `source` has, and gets, to databases. To be called once, for a journal whose limits have room
    /// for what they do not have yet ([`Limits::kept_bytes`](tieline_journal::Limits::kept_bytes)).
    ///
    /// # Errors
    /// The folder cannot be written, or the system gives no thread.
    pub fn forward(&mut self, source: &HistorySource, databases: Vec<Forwarding>) -> Result<(), HistoryError> {
        let board = &self.handle.board;
        board.note(|notes| {
            notes.forwarding.extend(databases.iter().map(|forwarding| {
                let mut own = ForwardNotes::default();
                (own.status.name, own.status.kind) = (forwarding.name.clone(), forwarding.kind);
                own.status.trouble = Some("not connected yet".to_owned());
                own
            }));
        });
        for (index, forwarding) in databases.into_iter().enumerate() {
            let name: String = format!("db-{}", forwarding.name).chars().take(15).collect();
            let folders = (source.data().join(JOURNAL_FOLDER), source.data().join(DATABASES_FOLDER));
            let parts = (Arc::clone(board), &self.replication);
            let forwarder = Forwarder::new(forwarding, index, parts, folders, self.close_patience)?;
            board.note(|notes| notes.forwarders += 1);
            self.forwarders.push(thread::Builder::new().name(name).spawn(move || forwarder.run())?);
        }
        Ok(())
    }

    /// What the journal of a standby keeps for databases that the leader writes to. To be called once.
    ///
    /// # Errors
    /// The folder of databases cannot be read or written.
    pub fn keep_for(&self, source: &HistorySource, databases: Vec<String>) -> std::io::Result<DatabaseKeeper> {
        DatabaseKeeper::new(Arc::clone(&self.handle.board), source.data().join(DATABASES_FOLDER), databases)
    }

    /// Another reader of the journal of `source`. `is_held`: what it wants is never given up; otherwise beyond
    /// [`Limits::kept_bytes`](tieline_journal::Limits::kept_bytes), which must not be zero.
    #[must_use]
    pub fn feed(&self, source: &HistorySource, is_held: bool) -> JournalFeed {
        let board = Arc::clone(&self.handle.board);
        let index = board.note(|notes| {
            notes.feeds.push((Seq(0), is_held));
            notes.feeds.len() - 1
        });
        JournalFeed::new(board, index, source.data().join(JOURNAL_FOLDER))
    }

    /// Where updates go in.
    #[must_use]
    pub const fn handle(&self) -> &HistoryHandle {
        &self.handle
    }
}

impl Drop for HistoryWriter {
    fn drop(&mut self) {
        self.handle.queue.close();
        let threads = &self.threads;
        let closed = self.handle.board.wait_closed(|| threads.iter().all(JoinHandle::is_finished));
        if !closed {
            warn!("the disk of the history does not answer: it closes without what was not stored");
        }
        // A database that does not answer is not waited for: what it was given is undone there, and written after the next start.
        let patience = if self.forwarders.is_empty() { Duration::ZERO } else { 2 * self.close_patience };
        if !self.handle.board.wait(patience, |notes| notes.forwarders == 0, |notes| notes.forwarders == 0) {
            info!("a database does not answer: the journal keeps what it does not have");
        }
        for thread in self.threads.drain(..).filter(|thread| closed || thread.is_finished()) {
            if thread.join().is_err() {
                warn!("a thread of the history panicked");
            }
        }
    }
}

impl fmt::Debug for HistoryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HistoryHandle").field(&self.status()).finish()
    }
}

impl fmt::Debug for HistoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HistoryWriter").field(&self.handle().status()).finish()
    }
}
