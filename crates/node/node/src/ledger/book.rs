//! The bus's side: the batch that is made, who waits for it, and what is to be said again.
//!
//! One batch is on its way to the disk at a time. What changes meanwhile goes into the next, so that a slow disk makes
//! larger batches and not longer queues. A last value that nobody waits for is noted by its topic alone and read when it
//! is written: a topic that changed a thousand times is written once.
//!
//! ```text
//!          the disk fails                 the journal goes on           the walk's end is on the disk
//!   Good ────────────────▶ Failing ────────────────────────▶ Mending ───────────────────────────────▶ Good
//! ```
//!
//! While it is failing nothing is promised, and changes are not written: when the journal goes on, all state is said
//! anew, which is what compaction does too.

use super::thread::{Batch, News, segment_octets};
use crate::bus::Wire;
use crate::history::Receipt;
use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tieline_core::{Body, Instant, Now};
use tieline_journal::Sample;
use tieline_ledger::Record;
use tieline_net::Session;
use tieline_topics::{Snapshot, TopicId};

/// A batch is closed once it has so many octets and whoever acts has done so: what one act changes is on the disk whole, or
/// not at all.
pub const BATCH_OCTETS: usize = 1 << 20;
/// Only an act that changes more than this is on the disk in parts.
const ACT_OCTETS_MAX: usize = 7 << 20;
/// How long a change waits that nobody waits for.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Octets of a journal that is not worth a walk.
const WALK_FROM_OCTETS: u64 = 16 << 20;
/// Octets that may wait for the disk in memory; beyond them nothing is promised.
const WAITING_OCTETS_MAX: usize = 64 << 20;
/// The longest change that is written: a record of the journal, 16 MiB at most, holds it with a batch before it.
const CHANGE_OCTETS_MAX: usize = 8 << 20;
/// The longest message that is kept, with its properties.
pub const MESSAGE_OCTETS_MAX: usize = CHANGE_OCTETS_MAX - (256 << 10);

/// Who waits until a batch is on the disk.
#[derive(Debug)]
pub enum Promise {
    /// Whoever sent a message.
    Receipt(Receipt),
    /// A message that history is given then.
    Record {
        /// What is recorded.
        sample: Box<Sample>,
        /// Who waits for history.
        receipt: Receipt,
    },
    /// A connection that says nothing until then.
    Cork {
        /// Its place on the bus.
        key: usize,
        /// The connection.
        session: Session<Wire>,
    },
    /// A session whose exchanges go on then, up to a note.
    Notes {
        /// Its place on the bus.
        key: usize,
        /// Its number.
        number: u64,
        /// The last note that the batch holds.
        upto: u64,
    },
}

impl Promise {
    /// Octets that wait with it.
    fn octets(&self) -> usize {
        match self {
            Self::Record { sample, .. } => match &sample.update.body {
                Body::Opaque(octets) => octets.len(),
                Body::Point(_) => 0,
            },
            Self::Receipt(_) | Self::Cork { .. } | Self::Notes { .. } => 0,
        }
    }
}

/// How the ledger does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LedgerState {
    /// There is none.
    #[default]
    Off,
    /// What is promised is on the disk.
    Good,
    /// The disk is full or fails: nothing is promised.
    Failing {
        /// Whether there is no space left.
        full: bool,
        /// In the system's words.
        why: String,
    },
    /// The disk goes on, and does not hold all yet.
    Mending,
}

impl LedgerState {
    /// A word for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Good => "ok",
            Self::Failing { full: true, .. } => "disk_full",
            Self::Failing { full: false, .. } => "failed",
            Self::Mending => "mending",
        }
    }

    /// What is wrong, in words; none where nothing is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Off | Self::Good => None,
            Self::Failing { full: true, .. } => {
                Some("disk_full: no space is left: what has to be kept is refused".to_owned())
            }
            Self::Failing { full: false, why } => Some(format!("failed: {why}: what has to be kept is refused")),
            Self::Mending => Some("mending: the disk does not hold all yet".to_owned()),
        }
    }
}

/// What operators see of the ledger.
#[derive(Clone, Debug, Default)]
pub struct LedgerStatus {
    /// How it does.
    pub state: LedgerState,
    /// Octets of the journal.
    pub octets: u64,
    /// Octets that wait for the disk.
    pub waiting_octets: usize,
    /// Batches on the disk since the start.
    pub batches: u64,
    /// Changes written since the start.
    pub changes: u64,
    /// Promises that could not be kept: whoever waited was told.
    pub refused: u64,
    /// Walks over all state that were finished.
    pub walks: u64,
    /// How long the last batch took.
    pub last: Duration,
}

/// A walk over all state.
#[derive(Debug)]
pub struct Walk {
    /// Sessions that are to be said, by their places on the bus.
    pub sessions: Vec<usize>,
    /// Last values that are to be said.
    pub values: Snapshot,
    /// Octets that were said.
    pub octets: u64,
}

/// A ledger that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Where batches go; none is the last.
    pub give: SyncSender<Option<Batch>>,
    /// Octets of the journal.
    pub octets: u64,
    /// Octets that it may have.
    pub octets_max: u64,
}

/// The bus's side of the ledger.
#[derive(Debug, Default)]
pub struct LedgerBook {
    /// Where batches go; none where there is no ledger.
    give: Option<SyncSender<Option<Batch>>>,
    status: LedgerStatus,
    octets_max: u64,
    /// The batch that is made.
    batch: Batch,
    /// Batches that are closed.
    closed: VecDeque<Batch>,
    closed_octets: usize,
    /// The batch that is on its way.
    under_way: Option<u64>,
    durable: u64,
    promises: VecDeque<(u64, Promise)>,
    /// Octets of what waits in promises.
    promised_octets: usize,
    /// Topics whose values have changed and that nobody waits for, each once, in the order in which they did.
    lazy: HashSet<TopicId>,
    lazy_order: VecDeque<TopicId>,
    /// When what nobody waits for is written.
    due: Option<Instant>,
    /// Whether something was written that whoever acts now has to wait for.
    touched: bool,
    walk: Option<Walk>,
    /// Octets of all state, as the last walk found it.
    walked_octets: u64,
}

impl LedgerBook {
    /// One whose batches go to the thread, where there is one.
    #[must_use]
    pub fn new(opened: Option<Opened>) -> Self {
        let Some(Opened { give, octets, octets_max }) = opened else { return Self::default() };
        let status = LedgerStatus { state: LedgerState::Good, octets, ..LedgerStatus::default() };
        Self { give: Some(give), status, octets_max, ..Self::default() }
    }

    /// Whether there is a ledger.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.give.is_some()
    }

    /// How it does.
    #[must_use]
    pub fn status(&self) -> LedgerStatus {
        let waiting_octets = self.waiting_octets();
        LedgerStatus { waiting_octets, ..self.status.clone() }
    }

    fn waiting_octets(&self) -> usize {
        self.batch.octets.len() + self.closed_octets + self.promised_octets
    }

    /// Whether nothing more can be promised.
    fn refuses(&self) -> bool {
        match self.status.state {
            LedgerState::Off => false,
            LedgerState::Failing { .. } | LedgerState::Mending => true,
            LedgerState::Good => {
                self.waiting_octets() > WAITING_OCTETS_MAX || self.status.octets > self.octets_max.saturating_mul(2)
            }
        }
    }

    /// Writes a change into the batch.
    pub fn write(&mut self, now: Now, record: &Record) {
        if !self.is_on() || self.is_failing() {
            return;
        }
        if self.batch.octets.is_empty() {
            Record::begin(&mut self.batch.octets);
            Record::Alive(now.utc).emit(&mut self.batch.octets);
        }
        let before = self.batch.octets.len();
        record.emit(&mut self.batch.octets);
        if self.batch.octets.len() - before > CHANGE_OCTETS_MAX {
            self.batch.octets.truncate(before);
            if let Record::Value(value) = record {
                // No value is better than one that is old.
                Record::Cleared(value.message.topic.clone()).emit(&mut self.batch.octets);
            }
        }
        self.status.changes += 1;
        self.due.get_or_insert(now.mono + WRITE_EVERY);
        if self.batch.octets.len() >= ACT_OCTETS_MAX {
            self.close();
        }
    }

    /// Writes a change that whoever acts now has to wait for.
    pub fn write_awaited(&mut self, now: Now, record: &Record) {
        self.write(now, record);
        self.touched = self.is_on();
    }

    const fn is_failing(&self) -> bool {
        matches!(self.status.state, LedgerState::Failing { .. })
    }

    /// A topic's value has changed, and nobody waits until it is on the disk.
    pub fn changed(&mut self, now: Now, topic: TopicId) {
        if self.is_on() && !self.is_failing() && self.lazy.insert(topic) {
            self.lazy_order.push_back(topic);
            self.due.get_or_insert(now.mono + WRITE_EVERY);
        }
    }

    /// A topic has no value any longer, or its value is in the batch.
    pub fn settled(&mut self, topic: TopicId) {
        self.lazy.remove(&topic);
    }

    /// Forgets what was written so far by whoever acts now.
    pub const fn begin_act(&mut self) {
        self.touched = false;
    }

    /// The batch that whoever acts now has to wait for; none where it wrote nothing.
    pub fn end_act(&mut self) -> Option<u64> {
        let touched = std::mem::take(&mut self.touched);
        let number = self.ticket();
        if self.batch.octets.len() >= BATCH_OCTETS {
            self.close();
        }
        touched.then_some(number)
    }

    /// The batch that holds all that was written.
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.batch.number + u64::from(!self.batch.octets.is_empty())
    }

    /// Notes who waits for a batch. Gives it back where the batch is on the disk (true), or nothing can be promised.
    pub fn promise(&mut self, number: u64, promise: Promise) -> Option<(Promise, bool)> {
        if self.refuses() {
            self.status.refused += 1;
            return Some((promise, false));
        }
        if number <= self.durable {
            return Some((promise, true));
        }
        self.promised_octets += promise.octets();
        let at = self.promises.partition_point(|(known, _)| *known <= number);
        self.promises.insert(at, (number, promise));
        None
    }

    /// When something is to be written.
    #[must_use]
    pub const fn timeout(&self) -> Option<Instant> {
        // While a batch is under way, its end wakes the bus.
        if self.under_way.is_some() { None } else { self.due }
    }

    /// Whether a batch may go now: none is under way, and somebody waits or it is time.
    #[must_use]
    pub fn wants_batch(&self, now: Now) -> bool {
        let is_due = self.due.is_some_and(|at| at <= now.mono);
        let is_awaited = !self.promises.is_empty();
        self.is_on()
            && self.under_way.is_none()
            && !self.is_failing()
            && (is_due || is_awaited || self.walk.is_some() || self.has_closed())
    }

    /// The next topic whose value is due to be written.
    pub fn next_changed(&mut self, now: Now) -> Option<TopicId> {
        if self.due.is_none_or(|at| at > now.mono) {
            return None;
        }
        while let Some(topic) = self.lazy_order.pop_front() {
            if self.lazy.remove(&topic) {
                return Some(topic);
            }
        }
        None
    }

    /// Ends the batch that is made; what follows goes into another.
    pub fn close(&mut self) {
        // What is due is in the batch, but for values that it had no room for.
        self.due = self.due.filter(|_| !self.lazy_order.is_empty());
        if self.batch.octets.is_empty() {
            return;
        }
        let number = self.batch.number + 1;
        let closed = Batch { number, ..std::mem::take(&mut self.batch) };
        self.batch.number = number;
        self.closed_octets += closed.octets.len();
        self.closed.push_back(closed);
    }

    /// Whether a batch waits to be handed over.
    #[must_use]
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Hands the next batch to the thread.
    pub fn submit(&mut self) {
        let (Some(give), None) = (&self.give, self.under_way) else { return };
        let Some(batch) = self.closed.pop_front() else { return };
        self.closed_octets -= batch.octets.len();
        let number = batch.number;
        if give.try_send(Some(batch)).is_ok() {
            self.under_way = Some(number);
        }
    }

    /// Hands all batches to the thread, and waits until it has taken them: the bus ends.
    pub fn finish(&mut self) {
        self.close();
        let Some(give) = &self.give else { return };
        for batch in self.closed.drain(..) {
            // A thread that has ended has said why.
            let _ = give.send(Some(batch));
        }
    }

    /// Takes the thread's news: those who need not wait any longer, and whether they got what they waited for.
    pub fn handle_news(&mut self, news: News) -> Vec<(Promise, bool)> {
        match news {
            News::Durable { number, octets, took, whole } => {
                (self.under_way, self.durable) = (None, number);
                (self.status.octets, self.status.last) = (octets, took);
                self.status.batches += 1;
                if whole && self.status.state == LedgerState::Mending {
                    self.status.state = LedgerState::Good;
                }
                self.settle(number, true)
            }
            News::Failed { number, full, why } => {
                (self.under_way, self.durable) = (None, number);
                self.status.state = LedgerState::Failing { full, why };
                self.forget();
                self.settle(u64::MAX, false)
            }
            News::GoesOn => {
                self.status.state = LedgerState::Mending;
                Vec::new()
            }
        }
    }

    fn settle(&mut self, upto: u64, kept: bool) -> Vec<(Promise, bool)> {
        let end = self.promises.partition_point(|(number, _)| *number <= upto);
        if !kept {
            self.status.refused += end as u64;
        }
        let settled: Vec<_> = self.promises.drain(..end).map(|(_, promise)| (promise, kept)).collect();
        self.promised_octets -= settled.iter().map(|(promise, _)| promise.octets()).sum::<usize>();
        settled
    }

    /// What is not on the disk will be said by a walk.
    fn forget(&mut self) {
        let number = self.batch.number;
        self.batch = Batch { number, ..Batch::default() };
        (self.closed, self.closed_octets) = (VecDeque::new(), 0);
        self.durable = number;
        (self.walk, self.due) = (None, None);
        self.lazy.clear();
        self.lazy_order.clear();
    }

    /// Whether all state is to be said anew: the journal has grown, or does not hold all.
    #[must_use]
    pub fn wants_walk(&self) -> bool {
        let walked = self.walked_octets;
        // A walk that finds as much as the last one is not worth its octets.
        let least = walked + walked / 4 + 2 * segment_octets(self.octets_max);
        let grown = self.status.octets > (2 * walked + WALK_FROM_OCTETS).min(self.octets_max).max(least);
        let mends = self.status.state == LedgerState::Mending;
        self.walk.is_none() && self.under_way.is_none() && (mends || (grown && self.status.state == LedgerState::Good))
    }

    /// Begins to say all state anew.
    pub fn begin_walk(&mut self, now: Now, walk: Walk) {
        // First, for a batch may end with what is written.
        self.batch.begins = true;
        self.write(now, &Record::Begin);
        self.walk = Some(walk);
    }

    /// The walk, to go on with it.
    pub fn take_walk(&mut self) -> Option<Walk> {
        self.walk.take()
    }

    /// The walk goes on with the next batch.
    pub fn put_walk(&mut self, walk: Walk) {
        self.walk = Some(walk);
    }

    /// All has been said.
    pub fn end_walk(&mut self, now: Now, walk: &Walk) {
        self.batch.ends = true;
        self.write(now, &Record::End);
        self.walked_octets = walk.octets;
        self.status.walks += 1;
    }

    /// Octets of the batch that is made.
    #[must_use]
    pub const fn batch_octets(&self) -> usize {
        self.batch.octets.len()
    }
}
