//! Write-ahead batches, the bus's side of the ledger: the batch that is being made, the acknowledgements that wait
//! for it, and compaction.
//!
//! One batch is on its way to the disk at a time. What changes meanwhile goes into the next, so that a slow disk makes
//! larger batches and not longer queues. A last value that nobody waits for is recorded by its topic alone and read
//! when it is written: a topic that changed a thousand times is written once.
//!
//! ```text
//!          the disk fails                 the journal goes on           the end of compaction is on the disk
//!   Good ────────────────▶ Failing ────────────────────────▶ Mending ───────────────────────────────▶ Good
//! ```
//!
//! While it is failing nothing is acknowledged, and changes are not written: when the journal goes on, all state is
//! said again, which is what compaction does too.
//!
//! A disk that hangs says nothing at all. A batch that has been on its way for [`HUNG_AFTER`] is therefore a failing disk:
//! nothing more is acknowledged until it is back. What was accepted before still waits, for it may be on the disk
//! already. Changes are written on into memory, up to [`WRITTEN_BYTES_MAX`]; beyond it they are given up, and all state
//! is written again.

use super::lazy::Lazy;
use super::losses::Lost;
use super::pending_ack::PendingAck;
use super::status::{LedgerState, LedgerStatus};
use super::thread::{Batch, News, segment_bytes};
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tieline_core::{Instant, Now};
use tieline_history::HUNG_AFTER;
use tieline_ledger::Record;
use tieline_topics::{Snapshot, TopicId};
use tracing::{info, warn};

/// A batch is closed once it has so many bytes and the action that made them is complete: what one action changes is on
/// the disk whole, or not at all.
pub const BATCH_BYTES: usize = 1 << 20;
/// Only an action that changes more than this is on the disk in parts.
const ACT_BYTES_MAX: usize = 7 << 20;
/// How long a change waits that nobody waits for.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// A bus that looks so much later than it wanted to did not run, and the disk's thread neither: the batch gets as much time again.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// Bytes of a journal that is not worth a compaction.
const COMPACTION_FROM_BYTES: u64 = 16 << 20;
/// Bytes that may wait for the disk in memory; beyond them nothing is acknowledged.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes that wait with what cannot be refused, as acknowledgements; beyond them changes are dropped and all state is
/// written again.
const WRITTEN_BYTES_MAX: usize = WAITING_BYTES_MAX + (32 << 20);
/// The longest change that is written: a record of the journal, 16 MiB at most, holds it with a batch before it.
const CHANGE_BYTES_MAX: usize = 8 << 20;
/// The longest message that is kept, with its properties.
pub const MESSAGE_BYTES_MAX: usize = CHANGE_BYTES_MAX - (256 << 10);

/// A compaction: all state is written again.
#[derive(Debug)]
pub struct Compaction {
    /// Sessions that are to be said, by their places on the bus.
    pub sessions: Vec<usize>,
    /// Alarms that are to be said.
    pub alarms: Vec<tieline_alarms::AlarmId>,
    /// Last values that are to be said.
    pub values: Snapshot,
    /// Bytes that were said.
    pub bytes: u64,
}

/// A ledger that was opened.
#[derive(Debug)]
pub struct Opened {
    /// Where batches go; none is the last.
    pub give: Sender<Option<Batch>>,
    /// Bytes of the journal.
    pub bytes: u64,
    /// Bytes that it may have.
    pub bytes_max: u64,
    /// What of it could not be read: all state is written again then.
    pub lost: Option<Lost>,
}

/// A batch that the thread has.
#[derive(Debug)]
struct UnderWay {
    number: u64,
    bytes: usize,
    since: Instant,
    /// When it has taken too long.
    deadline: Instant,
}

/// The bus's side of the ledger.
#[derive(Debug, Default)]
pub struct LedgerBatches {
    /// Where batches go; none where there is no ledger.
    give: Option<Sender<Option<Batch>>>,
    status: LedgerStatus,
    bytes_max: u64,
    /// The batch that is made.
    batch: Batch,
    /// Batches that are closed.
    closed: VecDeque<Batch>,
    closed_bytes: usize,
    /// The batch that is on its way.
    under_way: Option<UnderWay>,
    /// Whether it takes too long.
    hung: bool,
    /// Whether the journal holds what cannot be read.
    damaged: bool,
    /// Whether changes were given up, so that all state is to be written again.
    missed: bool,
    durable: u64,
    pending_acks: VecDeque<(u64, PendingAck)>,
    /// Bytes that wait with pending acknowledgements.
    pending_ack_bytes: usize,
    /// Those that are to be told that they need not wait.
    released: Vec<(PendingAck, bool)>,
    /// Topics whose values have changed and that nobody waits for.
    lazy: Lazy,
    /// When what nobody waits for is written.
    due: Option<Instant>,
    /// Whether the present action wrote something that it has to wait for.
    touched: bool,
    compaction: Option<Compaction>,
    /// Bytes of all state, as the last compaction found it.
    compacted_bytes: u64,
}

impl LedgerBatches {
    /// One whose batches go to the thread, where there is one.
    #[must_use]
    pub fn new(opened: Option<Opened>) -> Self {
        let Some(Opened { give, bytes, bytes_max, lost }) = opened else { return Self::default() };
        let damaged = lost.is_some();
        let status = LedgerStatus { state: LedgerState::Good, bytes, lost, ..LedgerStatus::default() };
        Self { give: Some(give), status, bytes_max, damaged, ..Self::default() }
    }

    /// Whether there is a ledger.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.give.is_some()
    }

    /// How it does.
    #[must_use]
    pub fn status(&self, now: Now) -> LedgerStatus {
        let age = self.under_way.as_ref().map_or(Duration::ZERO, |batch| now.mono.since(batch.since));
        let state = if self.hung { LedgerState::Hung { age } } else { self.status.state.clone() };
        LedgerStatus { state, waiting_bytes: self.waiting_bytes(), under_way: age, ..self.status.clone() }
    }

    fn waiting_bytes(&self) -> usize {
        let under_way = self.under_way.as_ref().map_or(0, |batch| batch.bytes);
        self.batch.bytes.len() + self.closed_bytes + under_way + self.pending_ack_bytes
    }

    /// Whether nothing more can be acknowledged.
    fn refuses(&self) -> bool {
        match self.status.state {
            LedgerState::Off => false,
            LedgerState::Failing { .. } | LedgerState::Mending | LedgerState::Hung { .. } => true,
            LedgerState::Good => {
                self.hung
                    || self.waiting_bytes() > WAITING_BYTES_MAX
                    || self.status.bytes > self.bytes_max.saturating_mul(2)
            }
        }
    }

    /// Whether nothing can be acknowledged for so many bytes more: to be asked before anything is done that has to be
    /// kept.
    #[must_use]
    pub fn has_no_room(&self, bytes: usize) -> bool {
        self.is_on() && (self.refuses() || self.waiting_bytes() + bytes > WAITING_BYTES_MAX)
    }

    /// Counts what is refused before anything was done with it.
    pub const fn count_refused(&mut self) {
        self.status.refused += 1;
    }

    /// Looks whether the batch on its way takes too long.
    pub fn handle_timeout(&mut self, now: Now) {
        let Some(batch) = self.under_way.as_mut().filter(|_| !self.hung) else { return };
        if now.mono < batch.deadline {
            return;
        }
        if now.mono.since(batch.deadline) > STOOD_STILL {
            batch.deadline = now.mono + STOOD_STILL;
            return;
        }
        let age = now.mono.since(batch.since);
        self.hung = true;
        self.status.hung += 1;
        warn!(
            seconds = age.as_secs(),
            waiting_bytes = self.waiting_bytes(),
            "the disk of the ledger does not answer: what would have to be kept over a restart is refused until it does"
        );
        // Sessions live in memory until the disk is back, and alarms are told.
        let (released, others): (VecDeque<_>, _) =
            std::mem::take(&mut self.pending_acks).into_iter().partition(|(_, p)| p.goes_on_without_disk());
        self.pending_acks = others;
        self.pending_ack_bytes -= released.iter().map(|(_, ack)| ack.bytes()).sum::<usize>();
        self.released.extend(released.into_iter().map(|(_, ack)| (ack, false)));
    }

    /// Those who need not wait any longer though no news has come, and whether they got what they waited for.
    pub fn take_released(&mut self) -> Vec<(PendingAck, bool)> {
        std::mem::take(&mut self.released)
    }

    /// Writes a change into the batch.
    pub fn write(&mut self, now: Now, record: &Record) {
        if !self.is_on() || self.gives_up() {
            return;
        }
        if self.batch.bytes.is_empty() {
            Record::begin(&mut self.batch.bytes);
            Record::Alive(now.utc).emit(&mut self.batch.bytes);
        }
        let before = self.batch.bytes.len();
        record.emit(&mut self.batch.bytes);
        if self.batch.bytes.len() - before > CHANGE_BYTES_MAX {
            self.batch.bytes.truncate(before);
            if let Record::Value(value) = record {
                // No value is better than one that is old.
                Record::Cleared(value.message.topic.clone()).emit(&mut self.batch.bytes);
            }
        }
        self.status.changes += 1;
        self.due.get_or_insert(now.mono + WRITE_EVERY);
        if self.batch.bytes.len() >= ACT_BYTES_MAX {
            self.close();
        }
        if self.waiting_bytes() > WRITTEN_BYTES_MAX {
            self.give_up();
        }
    }

    /// Too much waits for the disk: all state will be written again when the disk is back.
    fn give_up(&mut self) {
        warn!(
            waiting_bytes = self.waiting_bytes(),
            "too much waits for the disk of the ledger: all state is written again"
        );
        self.status.state = LedgerState::Mending;
        self.missed = true;
        self.forget();
        // What is on its way may be on the disk yet.
        let number = self.under_way.as_ref().map_or(0, |batch| batch.number);
        let waits = self.pending_acks.partition_point(|(known, _)| *known <= number);
        let told: Vec<_> = self.pending_acks.drain(waits..).map(|(_, ack)| (ack, false)).collect();
        self.pending_ack_bytes -= told.iter().map(|(ack, _)| ack.bytes()).sum::<usize>();
        self.status.refused += told.len() as u64;
        self.released.extend(told);
    }

    /// Whether changes are not written, because all state will be written again.
    const fn gives_up(&self) -> bool {
        self.missed || self.is_failing()
    }

    /// Writes a change that the present action has to wait for.
    pub fn write_awaited(&mut self, now: Now, record: &Record) {
        self.write(now, record);
        self.touched = self.is_on();
    }

    const fn is_failing(&self) -> bool {
        matches!(self.status.state, LedgerState::Failing { .. })
    }

    /// A topic's value has changed, and nobody waits until it is on the disk.
    pub fn changed(&mut self, now: Now, topic: TopicId) {
        if self.is_on() && !self.gives_up() {
            self.lazy.insert(topic);
            self.due.get_or_insert(now.mono + WRITE_EVERY);
        }
    }

    /// A topic has no value any longer, or its value is in the batch.
    pub fn settled(&mut self, topic: TopicId) {
        self.lazy.remove(topic);
    }

    /// Begins an action: what was written before is not part of it.
    pub const fn begin_act(&mut self) {
        self.touched = false;
    }

    /// Ends an action; gives the batch that it has to wait for, none when it wrote nothing.
    pub fn end_act(&mut self) -> Option<u64> {
        let touched = std::mem::take(&mut self.touched);
        let number = self.batch_number();
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.close();
        }
        touched.then_some(number)
    }

    /// The batch that holds all that was written.
    #[must_use]
    pub fn batch_number(&self) -> u64 {
        self.batch.number + u64::from(!self.batch.bytes.is_empty())
    }

    /// Registers who waits for a batch. Gives it back where the batch is on the disk (true), or nothing can be
    /// acknowledged.
    pub fn ack(&mut self, number: u64, ack: PendingAck) -> Option<(PendingAck, bool)> {
        let is_void = match self.status.state {
            LedgerState::Failing { .. } | LedgerState::Mending => true,
            // A session lives in memory meanwhile, and alarms are told; whatever else was done is written, and may be on the
            // disk already.
            LedgerState::Off | LedgerState::Good | LedgerState::Hung { .. } => self.hung && ack.goes_on_without_disk(),
        };
        if is_void {
            self.status.refused += 1;
            return Some((ack, false));
        }
        if number <= self.durable {
            return Some((ack, true));
        }
        self.pending_ack_bytes += ack.bytes();
        let at = self.pending_acks.partition_point(|(known, _)| *known <= number);
        self.pending_acks.insert(at, (number, ack));
        None
    }

    /// When something is to be written.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        match &self.under_way {
            // Its end wakes the bus.
            Some(batch) => (!self.hung).then_some(batch.deadline),
            None => self.due,
        }
    }

    /// Whether a batch may go now: none is under way, and somebody waits or it is time.
    #[must_use]
    pub fn wants_batch(&self, now: Now) -> bool {
        let is_due = self.due.is_some_and(|at| at <= now.mono);
        let is_awaited = !self.pending_acks.is_empty();
        self.is_on()
            && self.under_way.is_none()
            && !self.is_failing()
            && (is_due || is_awaited || self.compaction.is_some() || self.has_closed())
    }

    /// The next topic whose value is due to be written.
    pub fn next_changed(&mut self, now: Now) -> Option<TopicId> {
        if self.due.is_none_or(|at| at > now.mono) {
            return None;
        }
        self.lazy.pop()
    }

    /// Ends the batch that is made; what follows goes into another.
    pub fn close(&mut self) {
        // What is due is in the batch, but for values that it had no room for.
        self.due = self.due.filter(|_| !self.lazy.is_empty());
        if self.batch.bytes.is_empty() {
            return;
        }
        let number = self.batch.number + 1;
        let closed = Batch { number, ..std::mem::take(&mut self.batch) };
        self.batch.number = number;
        self.closed_bytes += closed.bytes.len();
        self.closed.push_back(closed);
    }

    /// Whether a batch waits to be handed over.
    #[must_use]
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Hands the next batch to the thread.
    pub fn submit(&mut self, now: Now) {
        let (Some(give), None) = (&self.give, &self.under_way) else { return };
        let Some(batch) = self.closed.pop_front() else { return };
        let (number, bytes) = (batch.number, batch.bytes.len());
        self.closed_bytes -= bytes;
        if give.send(Some(batch)).is_ok() {
            let (since, deadline) = (now.mono, now.mono + HUNG_AFTER);
            self.under_way = Some(UnderWay { number, bytes, since, deadline });
        }
    }

    /// Hands all batches to the thread: the bus ends.
    pub fn finish(&mut self) {
        self.close();
        let Some(give) = &self.give else { return };
        for batch in self.closed.drain(..) {
            // A thread that has ended has said why.
            let _ = give.send(Some(batch));
        }
    }

    /// Takes the thread's news: those who need not wait any longer, and whether they got what they waited for.
    pub fn handle_news(&mut self, news: News) -> Vec<(PendingAck, bool)> {
        match news {
            News::Durable { number, bytes, took, whole } => {
                self.under_way = None;
                self.durable = self.durable.max(number);
                (self.status.bytes, self.status.last) = (bytes, took);
                self.status.batches += 1;
                if std::mem::take(&mut self.hung) {
                    info!(seconds = took.as_secs(), "the disk of the ledger answers again");
                }
                if whole && !self.missed && self.status.state == LedgerState::Mending {
                    self.status.state = LedgerState::Good;
                }
                self.settle(number, true)
            }
            News::Failed { number, full, why } => {
                self.under_way = None;
                (self.durable, self.hung) = (number, false);
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

    fn settle(&mut self, upto: u64, kept: bool) -> Vec<(PendingAck, bool)> {
        let end = self.pending_acks.partition_point(|(number, _)| *number <= upto);
        if !kept {
            self.status.refused += end as u64;
        }
        let settled: Vec<_> = self.pending_acks.drain(..end).map(|(_, ack)| (ack, kept)).collect();
        self.pending_ack_bytes -= settled.iter().map(|(ack, _)| ack.bytes()).sum::<usize>();
        settled
    }

    /// What is not on the disk will be written by a compaction.
    fn forget(&mut self) {
        let number = self.batch.number;
        self.batch = Batch { number, ..Batch::default() };
        (self.closed, self.closed_bytes) = (VecDeque::new(), 0);
        self.durable = number;
        (self.compaction, self.due) = (None, None);
        self.lazy.clear();
    }

    /// Whether all state is to be written again: the journal has grown, is damaged, or does not hold all.
    #[must_use]
    pub fn wants_compaction(&self) -> bool {
        let compacted = self.compacted_bytes;
        // A compaction that finds as much as the last one is not worth its bytes.
        let least = compacted + compacted / 4 + 2 * segment_bytes(self.bytes_max);
        let grown = self.status.bytes > (2 * compacted + COMPACTION_FROM_BYTES).min(self.bytes_max).max(least);
        let mends = self.status.state == LedgerState::Mending;
        self.compaction.is_none()
            && self.under_way.is_none()
            && (mends || ((grown || self.damaged) && self.status.state == LedgerState::Good))
    }

    /// Begins to write all state again.
    pub fn begin_compaction(&mut self, now: Now, compaction: Compaction) {
        (self.missed, self.damaged) = (false, false);
        // First, for a batch may end with what is written.
        self.batch.begins = true;
        self.write(now, &Record::Begin);
        self.compaction = Some(compaction);
    }

    /// The compaction, to go on with it.
    pub fn take_compaction(&mut self) -> Option<Compaction> {
        self.compaction.take()
    }

    /// The compaction goes on with the next batch.
    pub fn put_compaction(&mut self, compaction: Compaction) {
        self.compaction = Some(compaction);
    }

    /// All has been said.
    pub fn end_compaction(&mut self, now: Now, compaction: &Compaction) {
        self.batch.ends = true;
        self.write(now, &Record::End);
        self.compacted_bytes = compaction.bytes;
        self.status.compactions += 1;
    }

    /// Bytes of the batch that is made.
    #[must_use]
    pub const fn batch_bytes(&self) -> usize {
        self.batch.bytes.len()
    }
}

#[cfg(test)]
mod tests;
