//! The receiver of a centre: which batches continue after the mark of their stream, and what is answered once they are on the disk.
//!
//! ```text
//!  batch ─▶ continues after what is taken? ─ yes ─▶ waits ─▶ a transaction: records and marks ─▶ stored
//!                 │ no: a question now                             │ not known
//!                 ▼                                                ▼
//!           waits behind what is taken ─▶ not stored, the mark    marks are loaded again, all are told "busy"
//! ```
//!
//! One transaction is at the disk at a time; what comes meanwhile waits for the next one, which has it all: many sites share a sync. An
//! answer has only what is on the disk.

use crate::answer::{Answer, Mark, Outcome};
use crate::batch::{Batch, BatchReader, Records};
use crate::{BatchError, Stream};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use hashbrown::HashMap;
use tieline_core::{Now, Timestamp};

/// Limits of a receiver.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverLimits {
    /// Streams of sites; a batch of a further one is refused.
    pub streams_max: usize,
    /// Bytes of records that wait, those at the disk included; above, batches are told "busy".
    pub waiting_bytes_max: usize,
    /// The same of one stream of one site.
    pub stream_bytes_max: usize,
    /// Requests that wait, questions included.
    pub waiting_max: usize,
    /// Bytes of records of a transaction, give or take the last batch.
    pub transaction_bytes_max: usize,
}

impl Default for ReceiverLimits {
    fn default() -> Self {
        Self {
            streams_max: 30_000,
            waiting_bytes_max: 64 << 20,
            stream_bytes_max: 8 << 20,
            waiting_max: 65_536,
            transaction_bytes_max: 8 << 20,
        }
    }
}

/// How much happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Batches that are on the disk.
    pub stored: u64,
    /// Records of them.
    pub records: u64,
    /// Numbers that sites said they lost.
    pub lost: u64,
    /// Batches that did not continue after the mark.
    pub not_stored: u64,
    /// Questions.
    pub questions: u64,
    /// Batches that came while too much waited, or while marks were loaded.
    pub busy: u64,
    /// Batches that were refused: wrong site, old epoch, illegal, full.
    pub refused: u64,
    /// Transactions whose outcome is not known.
    pub failed: u64,
}

/// An answer, and the request that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<R> {
    /// What [`Receiver::handle_batch`] was given.
    pub request: R,
    /// The answer.
    pub body: Vec<u8>,
}

/// One batch of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of which site.
    pub site: Arc<str>,
    /// Of which of its streams.
    pub stream: Stream,
    /// The mark that the store must have: if it has another one, somebody else receives too, and the transaction fails.
    pub before: Mark,
    /// The mark that the store has afterwards.
    pub mark: Mark,
    /// The number of the first record; those between `before` and it are lost.
    pub first: u64,
    /// What is stored.
    pub records: Records,
}

#[derive(Debug)]
enum Kind {
    Batch(Part),
    Question,
}

#[derive(Debug)]
struct Waiting<R> {
    request: R,
    key: (Arc<str>, Stream),
    /// The epoch that the site asked for.
    epoch: u64,
    received: Timestamp,
    kind: Kind,
}

impl<R> Waiting<R> {
    const fn is_question(&self) -> bool {
        matches!(self.kind, Kind::Question)
    }

    fn size(&self) -> usize {
        match &self.kind {
            Kind::Batch(part) => part.records.size(),
            Kind::Question => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// On the disk.
    stored: Mark,
    /// With what waits.
    taken: Mark,
    waiting: usize,
    waiting_bytes: usize,
}

/// The receiver of a centre. Requests are answered by what they are known by: `R`.
#[derive(Debug)]
pub struct Receiver<R> {
    limits: ReceiverLimits,
    streams: HashMap<(Arc<str>, Stream), Entry>,
    /// Whether marks are those of the disk.
    is_loaded: bool,
    waiting: VecDeque<Waiting<R>>,
    waiting_bytes: usize,
    /// How many of those that wait are at the disk.
    storing: usize,
    reader: BatchReader,
    stats: ReceiverStats,
}

impl<R> Receiver<R> {
    /// A receiver that knows no marks yet.
    #[must_use]
    pub fn new(limits: ReceiverLimits) -> Self {
        Self {
            limits,
            streams: HashMap::new(),
            is_loaded: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            storing: 0,
            reader: BatchReader::default(),
            stats: ReceiverStats::default(),
        }
    }

    /// Whether the marks of the store must be read, for [`Receiver::handle_marks`].
    #[must_use]
    pub const fn needs_marks(&self) -> bool {
        !self.is_loaded
    }

    /// All marks of the store. Batches are taken from now on.
    pub fn handle_marks(&mut self, marks: impl IntoIterator<Item = (Arc<str>, Stream, Mark)>) {
        let entry = |mark| Entry { stored: mark, taken: mark, ..Entry::default() };
        self.streams = marks.into_iter().map(|(site, stream, mark)| ((site, stream), entry(mark))).collect();
        self.is_loaded = true;
    }

    /// A batch from a site: which one the connection says, not the batch. Returns the answer, if it needs no disk.
    pub fn handle_batch(&mut self, now: Now, site: &str, request: R, body: &Bytes) -> Option<Reply<R>> {
        let received = now.utc;
        let refuse = |request, outcome, mark| Some(reply(request, outcome, mark, received, received));
        let batch = match self.reader.read(body) {
            Ok(batch) => batch,
            Err(BatchError::Truncated | BatchError::Version(_) | BatchError::Check | BatchError::Illegal(_)) => {
                self.stats.refused += 1;
                return refuse(request, Outcome::Illegal, Mark::default());
            }
        };
        if *batch.site != *site {
            self.stats.refused += 1;
            return refuse(request, Outcome::WrongSite, Mark::default());
        }
        if !self.is_loaded {
            self.stats.busy += 1;
            return refuse(request, Outcome::Busy, Mark::default());
        }
        let key = (Arc::from(site), batch.stream);
        let known = self.streams.get(&key).copied();
        if known.is_none() && self.streams.len() >= self.limits.streams_max {
            self.stats.refused += 1;
            return refuse(request, Outcome::Full, Mark::default());
        }
        let entry = known.unwrap_or_default();
        if batch.epoch < entry.taken.epoch {
            self.stats.refused += 1;
            return refuse(request, Outcome::OldEpoch, entry.stored);
        }
        let size = batch.records.size();
        if self.is_full(&entry, size) {
            self.stats.busy += 1;
            return refuse(request, Outcome::Busy, of_epoch(entry.stored, batch.epoch));
        }
        let before = of_epoch(entry.taken, batch.epoch);
        let continues = !batch.records.is_empty() && batch.after() == before.number;
        if !continues && entry.waiting == 0 {
            self.count_question(&batch);
            return refuse(request, Outcome::NotStored, of_epoch(entry.stored, batch.epoch));
        }
        self.take(key, entry, request, received, batch, continues);
        None
    }

    /// What goes to the disk next, in one transaction; nothing while another one is there.
    pub fn poll_store(&mut self) -> Option<Vec<Part>> {
        if self.storing > 0 {
            return None;
        }
        let (mut bytes, mut parts) = (0, Vec::new());
        for waiting in &self.waiting {
            // Questions go with the batch before them: what is left begins with a batch.
            if let Kind::Batch(part) = &waiting.kind {
                if bytes >= self.limits.transaction_bytes_max {
                    break;
                }
                bytes += waiting.size();
                parts.push(part.clone());
            }
            self.storing += 1;
        }
        (!parts.is_empty()).then_some(parts)
    }

    /// The transaction is on the disk, whole. Returns the answers.
    pub fn handle_stored(&mut self, now: Now) -> Vec<Reply<R>> {
        let mut replies = Vec::with_capacity(self.storing);
        let mut storing = core::mem::take(&mut self.storing);
        // A question that came meanwhile and is first has all before it on the disk.
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| storing > 0 || waiting.is_question()) {
            storing = storing.saturating_sub(1);
            let size = waiting.size();
            self.waiting_bytes -= size;
            let Some(entry) = self.streams.get_mut(&waiting.key) else { continue };
            entry.waiting -= 1;
            entry.waiting_bytes -= size;
            let outcome = match &waiting.kind {
                Kind::Batch(part) => {
                    entry.stored = part.mark;
                    self.stats.stored += 1;
                    self.stats.records += part.records.count();
                    self.stats.lost += part.first - 1 - of_epoch(part.before, part.mark.epoch).number;
                    Outcome::Stored
                }
                Kind::Question => Outcome::NotStored,
            };
            let mark = of_epoch(entry.stored, waiting.epoch);
            replies.push(reply(waiting.request, outcome, mark, waiting.received, now.utc));
        }
        replies
    }

    /// It is not known whether the transaction is on the disk, or the store had another mark. Returns the answers: all that wait are told
    /// to ask later, and the marks must be loaded.
    pub fn handle_failed(&mut self, now: Now) -> Vec<Reply<R>> {
        self.stats.failed += 1;
        self.is_loaded = false;
        (self.storing, self.waiting_bytes) = (0, 0);
        self.streams.clear();
        let busy =
            |waiting: Waiting<R>| reply(waiting.request, Outcome::Busy, Mark::default(), waiting.received, now.utc);
        let replies: Vec<_> = self.waiting.drain(..).map(busy).collect();
        self.stats.busy += replies.len() as u64;
        replies
    }

    /// How far a stream of a site is on the disk.
    #[must_use]
    pub fn mark(&self, site: &str, stream: Stream) -> Option<Mark> {
        self.streams.get(&(Arc::from(site), stream)).map(|entry| entry.stored)
    }

    /// Bytes of records that wait, those at the disk included.
    #[must_use]
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// How much happened.
    #[must_use]
    pub const fn stats(&self) -> ReceiverStats {
        self.stats
    }

    fn is_full(&self, entry: &Entry, size: usize) -> bool {
        let limits = &self.limits;
        self.waiting.len() >= limits.waiting_max
            || self.waiting_bytes + size > limits.waiting_bytes_max
            || (entry.waiting_bytes + size > limits.stream_bytes_max && entry.waiting > 0)
    }

    fn count_question(&mut self, batch: &Batch) {
        if batch.records.is_empty() {
            self.stats.questions += 1;
        } else {
            self.stats.not_stored += 1;
        }
    }

    fn take(
        &mut self,
        key: (Arc<str>, Stream),
        entry: Entry,
        request: R,
        received: Timestamp,
        batch: Batch,
        continues: bool,
    ) {
        if !continues {
            self.count_question(&batch);
        }
        let (mut entry, epoch, size) = (entry, batch.epoch, batch.records.size());
        let kind = if continues {
            let (site, mark) = (key.0.clone(), Mark { epoch, number: batch.last() });
            let before = core::mem::replace(&mut entry.taken, mark);
            entry.waiting_bytes += size;
            self.waiting_bytes += size;
            Kind::Batch(Part { site, stream: key.1, before, mark, first: batch.first, records: batch.records })
        } else {
            Kind::Question
        };
        entry.waiting += 1;
        self.streams.insert(key.clone(), entry);
        self.waiting.push_back(Waiting { request, key, epoch, received, kind });
    }
}

/// A mark as seen from an epoch: nothing of a higher one is there yet.
fn of_epoch(mark: Mark, epoch: u64) -> Mark {
    if mark.epoch == epoch { mark } else { Mark { epoch, number: 0 } }
}

fn reply<R>(request: R, outcome: Outcome, mark: Mark, received: Timestamp, sent: Timestamp) -> Reply<R> {
    Reply { request, body: Answer { outcome, mark, received, sent }.emit() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchWriter, Head, push_record};

    fn batch(site: &str, epoch: u64, first: u64, lost: u64, count: u64) -> Bytes {
        let mut records = Vec::new();
        (0..count).for_each(|number| push_record(&[b'r', u8::try_from(number).unwrap()], &mut records));
        let head = Head { site, stream: Stream::Live, epoch, first, lost, count };
        BatchWriter::default().emit_parts(head, &records).into()
    }

    fn receiver(limits: ReceiverLimits, marks: &[(&str, Mark)]) -> Receiver<u32> {
        let mut receiver = Receiver::new(limits);
        receiver.handle_marks(marks.iter().map(|(site, mark)| (Arc::from(*site), Stream::Live, *mark)));
        receiver
    }

    fn told<R>(reply: &Reply<R>) -> (Outcome, u64, u64) {
        let answer = Answer::parse(&reply.body).unwrap();
        (answer.outcome, answer.mark.epoch, answer.mark.number)
    }

    /// What a batch is answered at once, by a centre that has 9 records of `north` in epoch 4.
    fn check(limits: ReceiverLimits, body: &Bytes, expect: (Outcome, u64, u64)) {
        let mut receiver = receiver(limits, &[("north", Mark { epoch: 4, number: 9 })]);
        let reply = receiver.handle_batch(Now::default(), "north", 1, body).expect("an answer at once");
        assert_eq!(told(&reply), expect);
        assert_eq!(receiver.poll_store(), None);
    }

    #[test]
    fn only_what_continues_is_taken() {
        let limits = ReceiverLimits::default();
        check(limits, &batch("north", 4, 9, 0, 1), (Outcome::NotStored, 4, 9));
        check(limits, &batch("north", 4, 8, 0, 5), (Outcome::NotStored, 4, 9));
        check(limits, &batch("north", 4, 11, 0, 1), (Outcome::NotStored, 4, 9));
        check(limits, &batch("north", 4, 12, 3, 1), (Outcome::NotStored, 4, 9));
        check(limits, &batch("north", 4, 10, 0, 0), (Outcome::NotStored, 4, 9));
        check(limits, &batch("north", 5, 10, 0, 1), (Outcome::NotStored, 5, 0));
        check(limits, &batch("north", 3, 10, 0, 1), (Outcome::OldEpoch, 4, 9));
        check(limits, &batch("south", 4, 10, 0, 1), (Outcome::WrongSite, 0, 0));
        check(limits, &Bytes::from_static(b"no batch"), (Outcome::Illegal, 0, 0));
        let none = ReceiverLimits { waiting_bytes_max: 0, ..limits };
        check(none, &batch("north", 4, 10, 0, 1), (Outcome::Busy, 4, 9));
    }

    #[test]
    fn a_further_site_is_refused_where_there_are_enough() {
        let limits = ReceiverLimits { streams_max: 1, ..ReceiverLimits::default() };
        let mut receiver = receiver(limits, &[("north", Mark::default())]);
        let reply = receiver.handle_batch(Now::default(), "south", 1, &batch("south", 1, 1, 0, 1)).unwrap();
        assert_eq!(told(&reply), (Outcome::Full, 0, 0));
    }

    #[test]
    fn answers_come_when_all_before_them_is_on_the_disk() {
        let now = Now::default();
        let mut receiver = receiver(ReceiverLimits::default(), &[]);
        assert_eq!(receiver.handle_batch(now, "north", 1, &batch("north", 1, 1, 0, 2)), None);
        let parts = receiver.poll_store().unwrap();
        assert_eq!(parts.iter().map(|part| (part.before.number, part.mark.number)).collect::<Vec<_>>(), [(0, 2)]);
        // While it is at the disk: the next one, a copy of the first one, and a gap that the site names.
        assert_eq!(receiver.handle_batch(now, "north", 2, &batch("north", 1, 3, 0, 1)), None);
        assert_eq!(receiver.handle_batch(now, "north", 3, &batch("north", 1, 1, 0, 2)), None);
        assert_eq!(receiver.handle_batch(now, "north", 4, &batch("north", 1, 9, 5, 1)), None);
        assert_eq!(receiver.poll_store(), None, "one transaction at a time");
        let replies = receiver.handle_stored(now);
        assert_eq!(replies.iter().map(told).collect::<Vec<_>>(), [(Outcome::Stored, 1, 2)]);
        assert_eq!(receiver.poll_store().unwrap().len(), 2);
        let told: Vec<_> = receiver.handle_stored(now).iter().map(|reply| (reply.request, told(reply))).collect();
        let expect = [(2, (Outcome::Stored, 1, 3)), (3, (Outcome::NotStored, 1, 3)), (4, (Outcome::Stored, 1, 9))];
        assert_eq!(told, expect);
        assert_eq!((receiver.stats().lost, receiver.stats().records, receiver.waiting_bytes()), (5, 4, 0));
    }

    #[test]
    fn after_a_transaction_without_an_outcome_marks_are_loaded() {
        let now = Now::default();
        let mut receiver = receiver(ReceiverLimits::default(), &[]);
        assert_eq!(receiver.handle_batch(now, "north", 1, &batch("north", 1, 1, 0, 2)), None);
        assert!(receiver.poll_store().is_some());
        assert_eq!(receiver.handle_failed(now).iter().map(told).collect::<Vec<_>>(), [(Outcome::Busy, 0, 0)]);
        assert!(receiver.needs_marks());
        let reply = receiver.handle_batch(now, "north", 2, &batch("north", 1, 1, 0, 2)).unwrap();
        assert_eq!(told(&reply).0, Outcome::Busy);
        receiver.handle_marks([(Arc::from("north"), Stream::Live, Mark { epoch: 1, number: 2 })]);
        let reply = receiver.handle_batch(now, "north", 3, &batch("north", 1, 1, 0, 2)).unwrap();
        assert_eq!(told(&reply), (Outcome::NotStored, 1, 2));
    }
}
