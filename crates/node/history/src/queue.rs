//! What waits for the journal thread.

use crate::replicate::Placed;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tieline_core::{Body, PublishedPoint, Value};
use tieline_journal::{Sample, Seq};

/// Why a batch is not in the history. It may be in part; who waits should send it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRecorded {
    /// Too much waits, or the journal has reached its size.
    Full,
    /// The disk is full.
    DiskFull,
    /// The disk failed; in the system's words.
    Failed(String),
    /// An update is longer than a record can be.
    TooLong,
    /// The history is closed.
    Closed,
}

impl fmt::Display for NotRecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the history takes no more for the moment"),
            Self::DiskFull => f.write_str("no space is left for the history"),
            Self::Failed(why) => write!(f, "the history failed: {why}"),
            Self::TooLong => f.write_str("an update is too long for the history"),
            Self::Closed => f.write_str("the history is closed"),
        }
    }
}

impl std::error::Error for NotRecorded {}

/// Called once, from the journal thread or the caller's, when a batch is durable (with the journal record that holds
/// the last of it) or will not be. Must not block.
pub type Receipt = Box<dyn FnOnce(Result<Seq, NotRecorded>) + Send>;

/// Samples that are a record of their own, with a note: after a crash both are there, or neither.
pub struct Noted {
    /// What is kept together with the samples; [`JournalFeed::read`](crate::JournalFeed::read) finds it.
    pub note: Vec<u8>,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Told what became of it.
    pub receipt: Receipt,
}

impl fmt::Debug for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noted").field("samples", &self.samples.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) samples: Vec<Sample>,
    pub(crate) receipt: Option<Receipt>,
    /// Records in their order, behind the samples: none without those before it.
    pub(crate) noted: Vec<Noted>,
    /// Records that the log of all members has, in their order.
    pub(crate) placed: Vec<Placed>,
}

impl Batch {
    fn all_samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().chain(self.noted.iter().flat_map(|noted| &noted.samples))
    }
}

/// Counts of what never reached the journal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turned {
    pub(crate) dropped: u64,
    pub(crate) refused: u64,
}

#[derive(Default)]
struct Inner {
    batches: Vec<Batch>,
    points: usize,
    bytes: usize,
    closed: bool,
    turned: Turned,
}

/// A bounded queue that is emptied at once.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
    points_max: usize,
    bytes_max: usize,
}

impl Queue {
    pub(crate) fn new(points_max: usize, bytes_max: usize) -> Self {
        Self { inner: Mutex::default(), filled: Condvar::new(), points_max, bytes_max }
    }

    pub(crate) fn put(&self, batch: Batch) {
        let (points, bytes) = (batch.all_samples().count(), batch.all_samples().map(bytes).sum::<usize>());
        let mut inner = lock(&self.inner);
        let fits = self.fits(&inner, points, bytes);
        if fits && !inner.closed {
            let wakes = inner.batches.is_empty();
            inner.points += points;
            inner.bytes += bytes;
            inner.batches.push(batch);
            drop(inner);
            if wakes {
                self.filled.notify_one();
            }
            return;
        }
        let why = if inner.closed { NotRecorded::Closed } else { NotRecorded::Full };
        drop(inner);
        self.turn_away(batch, why);
    }

    /// Whether a batch would be taken now.
    pub(crate) fn has_room(&self, points: usize, bytes: usize) -> bool {
        let inner = lock(&self.inner);
        self.fits(&inner, points, bytes) && !inner.closed
    }

    /// A batch that is longer than the queue passes when it is alone.
    fn fits(&self, inner: &Inner, points: usize, bytes: usize) -> bool {
        inner.points == 0 || (inner.points + points <= self.points_max && inner.bytes + bytes <= self.bytes_max)
    }

    /// Counts a batch that is not recorded, and says so to who waits for it.
    pub(crate) fn turn_away(&self, batch: Batch, why: NotRecorded) {
        let points = batch.samples.len() as u64;
        let mut inner = lock(&self.inner);
        inner.turned.refused += batch.noted.iter().map(|noted| noted.samples.len() as u64).sum::<u64>();
        drop(inner);
        batch.noted.into_iter().for_each(|noted| (noted.receipt)(Err(why.clone())));
        let mut inner = lock(&self.inner);
        match batch.receipt {
            Some(receipt) => {
                inner.turned.refused += points;
                drop(inner);
                receipt(Err(why));
            }
            None => inner.turned.dropped += points,
        }
    }

    /// Everything that waits, after at most `patience`; none once the queue is closed and empty.
    pub(crate) fn take(&self, patience: Duration) -> Option<Vec<Batch>> {
        let inner = lock(&self.inner);
        let waits = |inner: &mut Inner| inner.batches.is_empty() && !inner.closed;
        let (mut inner, _) =
            self.filled.wait_timeout_while(inner, patience, waits).unwrap_or_else(PoisonError::into_inner);
        if inner.batches.is_empty() && inner.closed {
            return None;
        }
        (inner.points, inner.bytes) = (0, 0);
        Some(std::mem::take(&mut inner.batches))
    }

    pub(crate) fn close(&self) {
        lock(&self.inner).closed = true;
        self.filled.notify_all();
    }

    /// Updates that wait, and what was turned away.
    pub(crate) fn counts(&self) -> (usize, Turned) {
        let inner = lock(&self.inner);
        (inner.points, inner.turned)
    }
}

/// The bytes of a sample, roughly.
pub(crate) fn bytes(sample: &Sample) -> usize {
    let body = match &sample.update.body {
        Body::Opaque(bytes) => bytes.len(),
        Body::Published(point) => size_of::<PublishedPoint>() + point.payload().len(),
        Body::Point(point) => match &point.value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 8,
        },
    };
    sample.update.topic.len() + body + 8
}

/// What a lock guards here is counters and lists that are whole between statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
