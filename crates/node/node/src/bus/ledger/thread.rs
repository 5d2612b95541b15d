//! The thread that makes batches durable.
//!
//! A batch is one record of the journal and has a sync of its own, so that what a power cut may tear is the last record,
//! and never one before it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tieline_core::{Storage, StorageError, Timestamp};
use tieline_history::{Durability, ReplicaKind, Replicate};
use tieline_journal::{Journal, JournalError, Limits, Seq};
use tieline_ledger::Record;
use tracing::{info, warn};

/// How soon a journal that has failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often a node says that it is alive: a session whose client was there when the node died may stay so much longer.
pub(crate) const ALIVE_EVERY: Duration = Duration::from_secs(60);

/// Changes that become durable together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Which, from 1.
    pub number: u64,
    /// A record of the journal.
    pub bytes: Vec<u8>,
    /// Whether a compaction begins in it.
    pub begins: bool,
    /// Whether that compaction ends in it.
    pub ends: bool,
}

/// What the thread has done.
#[derive(Clone, Debug)]
pub enum News {
    /// A batch is on the disk.
    Durable {
        /// Which.
        number: u64,
        /// Bytes of the journal by now.
        bytes: u64,
        /// How long it took.
        took: Duration,
        /// Whether a compaction ended in it.
        whole: bool,
    },
    /// A batch is not on the disk, and nothing will be until the journal goes on.
    Failed {
        /// Which.
        number: u64,
        /// Whether there is no space left.
        full: bool,
        /// In the system's words.
        why: String,
    },
    /// The journal goes on; what it was not given meanwhile it does not know.
    GoesOn,
}

pub(crate) type Open<S> = Box<dyn FnMut() -> Result<Journal<S>, StorageError> + Send>;

pub(crate) struct Writer<S> {
    /// None where it could not be opened yet, because the disk was full before there was anything to be read.
    pub(crate) journal: Option<Journal<S>>,
    pub(crate) open: Open<S>,
    pub(crate) durability: Durability,
    /// The log of all members of a core, which has each batch first.
    pub(crate) log: Option<Arc<dyn Replicate>>,
    /// None is the last.
    pub(crate) orders: Receiver<Option<Batch>>,
    pub(crate) tell: Box<dyn Fn(News) + Send>,
    pub(crate) now: Box<dyn Fn() -> Timestamp + Send>,
    /// Where the compaction began that has not ended.
    pub(crate) begun: Option<Seq>,
    /// Whether the bus waits to hear that the journal goes on, and when it is tried again.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) alive_at: Instant,
}

/// Why a batch was not written.
struct Trouble {
    full: bool,
    why: String,
}

impl From<StorageError> for Trouble {
    fn from(error: StorageError) -> Self {
        let full = error.kind == tieline_core::StorageErrorKind::Full;
        Self { full, why: error.message }
    }
}

impl From<JournalError> for Trouble {
    fn from(error: JournalError) -> Self {
        let full = match &error {
            JournalError::Failed(failure) => failure.is_full(),
            JournalError::TooLong(_) | JournalError::Full(_) | JournalError::Unsynced(_) => false,
        };
        Self { full, why: error.to_string() }
    }
}

/// What the journal may take: compaction keeps it small, segment by segment.
pub(crate) fn limits(bytes_max: u64) -> Limits {
    Limits { segment_bytes: segment_bytes(bytes_max), total_bytes: u64::MAX, ..Limits::default() }
}

/// Bytes of a segment of a ledger that may have so many.
pub(super) const fn segment_bytes(bytes_max: u64) -> u64 {
    let eighth = bytes_max / 8;
    if eighth > 8 << 20 { 8 << 20 } else { eighth }
}

impl<S: Storage> Writer<S> {
    /// Runs until it is told to end.
    pub(super) fn run(mut self) {
        loop {
            let due = self.retry_at.map_or(self.alive_at, |at| at.min(self.alive_at));
            match self.orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Some(batch)) => self.handle(&batch, Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.handle_timeout(Instant::now());
        }
        if self.retry_at.is_none() {
            self.say_alive();
        }
    }

    /// Takes a batch; what has become of it is told.
    pub(crate) fn handle(&mut self, batch: &Batch, now: Instant) {
        let news = match self.write(batch) {
            Ok(()) => return,
            Err(Trouble { full, why }) => {
                if self.retry_at.is_none() {
                    warn!(
                        why,
                        "the ledger failed: what would have to be kept over a restart is refused until it goes on"
                    );
                }
                self.retry_at = Some(now + RETRY);
                News::Failed { number: batch.number, full, why }
            }
        };
        (self.tell)(news);
    }

    fn write(&mut self, batch: &Batch) -> Result<(), Trouble> {
        let started = Instant::now();
        if self.retry_at.is_some() {
            return Err(Trouble { full: false, why: "it does not go on yet".to_owned() });
        }
        if self.journal.is_none() {
            self.journal = Some((self.open)()?);
        }
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let kind = ReplicaKind::Ledger { begins: batch.begins, ends: batch.ends };
        let seq = match &self.log {
            Some(log) => journal.append(&replicated(&**log, kind, &batch.bytes)?)?,
            None => journal.append(&batch.bytes)?,
        };
        if self.durability == Durability::Synced {
            journal.sync()?;
        } else {
            journal.write()?;
        }
        if batch.begins {
            self.begun = Some(seq);
        }
        if batch.ends {
            journal.sync()?;
            if let Some(begun) = self.begun.take() {
                journal.release(begun.previous());
            }
        }
        (self.tell)(News::Durable {
            number: batch.number,
            bytes: journal.bytes(),
            took: started.elapsed(),
            whole: batch.ends,
        });
        if self.durability == Durability::Written {
            journal.sync()?;
        }
        Ok(())
    }

    /// Tries a journal that has failed again, when it is time.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.alive_at <= now {
            self.alive_at = now + ALIVE_EVERY;
            if self.retry_at.is_none() {
                self.say_alive();
            }
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            let done = match &mut self.journal {
                Some(journal) => journal.recover().map(drop).map_err(Trouble::from),
                None => (self.open)().map(|journal| self.journal = Some(journal)).map_err(Trouble::from),
            };
            self.retry_at = Some(now + RETRY).filter(|_| done.is_err());
            if done.is_ok() {
                info!("the ledger goes on");
                self.begun = None;
                (self.tell)(News::GoesOn);
            }
        }
    }

    /// Where it fails, the next batch says so.
    fn say_alive(&mut self) {
        let mut bytes = Vec::new();
        Record::begin(&mut bytes);
        Record::Alive((self.now)()).emit(&mut bytes);
        if let Some(log) = &self.log {
            let kind = ReplicaKind::Ledger { begins: false, ends: false };
            let Ok(placed) = replicated(&**log, kind, &bytes) else { return };
            bytes = placed;
        }
        if let Some(journal) = &mut self.journal
            && journal.append(&bytes).is_ok()
        {
            let _ = journal.sync();
        }
    }
}

/// Has the log take a record, and gives it with its place there.
fn replicated(log: &dyn Replicate, kind: ReplicaKind, record: &[u8]) -> Result<Vec<u8>, Trouble> {
    let place = log.replicate(kind, record).map_err(|why| Trouble { full: false, why })?;
    Ok(Record::placed(place, record))
}
