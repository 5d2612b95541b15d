//! Heads: the latest samples of each topic, in memory until they are worth a chunk.
//!
//! ```text
//! sample ─ push ─▶ head of its topic ─▶ sealed: sorted, with the journal records it came from ─ chunk durable ─▶ release
//!                    │  too many samples, another hour, too much memory in all, or held for too long
//!                    └─ read meanwhile, open or sealed: `columns`
//! ```
//!
//! What is in heads the journal still has: after a crash they are made again of its records from [`Heads::oldest`] on.

use crate::chunk::{Origin, SAMPLES_MAX};
use crate::column::{Column, Sample};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::{HashMap, HashSet};
use tieline_core::Timestamp;

/// When a head is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of all open heads together; beyond it the larger ones are sealed.
    pub bytes_max: usize,
    /// Samples of a head, [`SAMPLES_MAX`] at most.
    pub samples_max: usize,
    /// A head ends where a multiple of this time since 1970 begins, unless it has fewer than 256 samples.
    pub window: Duration,
}

impl Default for HeadLimits {
    /// 64 MiB, 4,096 samples, an hour.
    fn default() -> Self {
        Self { bytes_max: 64 << 20, samples_max: 4096, window: Duration::from_secs(3600) }
    }
}

/// A head with fewer samples goes on over the end of its window: it costs less to decode them than to keep a chunk of its own.
const SAMPLES_FEW: usize = 256;

/// A head that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    /// Whose: the number that it was pushed with.
    pub topic: u32,
    /// Its samples, in order of time.
    pub column: Arc<Column>,
    /// Where they came from.
    pub origin: Origin,
}

#[derive(Debug)]
struct Head {
    /// Shared with readers: it is copied when a sample comes while one has it.
    column: Arc<Column>,
    /// Whether each sample came later than the one before: it is as [`Column::settle`] leaves it.
    is_settled: bool,
    origin: Origin,
    /// The times of its earliest and latest sample in microseconds.
    earliest: i64,
    latest: i64,
}

impl Head {
    /// What it takes in memory.
    fn bytes(&self) -> usize {
        size_of::<(u32, Box<Self>, Self, Column)>() + self.column.bytes()
    }

    /// Its samples in order; those before the time may be among them.
    fn settled_from(&self, time: Timestamp) -> Arc<Column> {
        if self.is_settled { Arc::clone(&self.column) } else { Arc::new(self.column.settled_from(time)) }
    }

    fn into_settled(self) -> Arc<Column> {
        if self.is_settled {
            return self.column;
        }
        let mut column = Arc::unwrap_or_clone(self.column);
        column.settle();
        Arc::new(column)
    }
}

/// The heads of all topics.
#[derive(Debug)]
pub struct Heads {
    limits: HeadLimits,
    window_micros: i64,
    /// A table that grows moves its entries, and has room for twice as many: heads are beside it.
    open: HashMap<u32, Box<Head>>,
    sealed: VecDeque<Sealed>,
    /// How many of `sealed` are of a topic.
    sealed_of: HashMap<u32, usize>,
    /// Bytes of the open ones.
    bytes: usize,
    bytes_sealed: usize,
}

impl Heads {
    /// No samples yet.
    #[must_use]
    pub fn new(limits: HeadLimits) -> Self {
        let limits = HeadLimits { samples_max: limits.samples_max.clamp(1, SAMPLES_MAX), ..limits };
        let window_micros = i64::try_from(limits.window.as_micros()).unwrap_or(i64::MAX).max(1);
        let (open, sealed, sealed_of) = (HashMap::new(), VecDeque::new(), HashMap::new());
        Self { limits, window_micros, open, sealed, sealed_of, bytes: 0, bytes_sealed: 0 }
    }

    /// Adds a sample of a topic, which came in a record of the journal. Records come in their order.
    pub fn push(&mut self, topic: u32, sample: Sample, sequence: u64) {
        let (time, window) = (sample.time.micros(), |time: i64| time.div_euclid(self.window_micros));
        let ends = |head: &Head| head.column.len() >= SAMPLES_FEW && window(time) > window(head.latest);
        if self.open.get(&topic).is_some_and(|head| ends(head)) {
            self.seal(topic);
        }
        let bytes = &mut self.bytes;
        let head = self.open.entry(topic).or_insert_with(|| {
            let origin = Origin { first: sequence, last: sequence };
            let column = Arc::new(Column::default());
            let head = Box::new(Head { column, is_settled: true, origin, earliest: time, latest: time });
            *bytes += head.bytes();
            head
        });
        let before = head.bytes();
        head.is_settled &= head.column.is_empty() || time > head.latest;
        Arc::make_mut(&mut head.column).push(sample);
        head.origin.last = sequence;
        (head.earliest, head.latest) = (head.earliest.min(time), head.latest.max(time));
        // A copy may have less room than what it was made of.
        *bytes = *bytes + head.bytes() - before;
        if head.column.len() >= self.limits.samples_max {
            self.seal(topic);
        }
        if self.bytes > self.limits.bytes_max {
            self.seal_larger();
        }
    }

    /// The heads that are to be written, in the order in which they were sealed. Until their chunks are durable, the journal has to
    /// keep the records from [`Heads::oldest`] on.
    pub fn sealed(&self) -> impl ExactSizeIterator<Item = &Sealed> {
        self.sealed.iter()
    }

    /// The first `count` of the sealed heads are durable.
    pub fn release(&mut self, count: usize) {
        for Sealed { topic, column, .. } in self.sealed.drain(..count.min(self.sealed.len())) {
            self.bytes_sealed -= column.bytes();
            if let Some(left) = self.sealed_of.get_mut(&topic) {
                *left -= 1;
                if *left == 0 {
                    self.sealed_of.remove(&topic);
                }
            }
        }
    }

    /// Seals heads with samples of records before `sequence`: the journal is to let go of those.
    pub fn seal_before(&mut self, sequence: u64) {
        self.seal_where(|_, head| head.origin.first < sequence);
    }

    /// Seals heads whose samples are all from before a time of their topic.
    pub fn seal_ending_before(&mut self, time: impl Fn(u32) -> Option<Timestamp>) {
        self.seal_where(|topic, head| time(topic).is_some_and(|time| head.latest < time.micros()));
    }

    /// Seals heads with samples from before a time: the day that ends there is to be closed.
    pub fn seal_beginning_before(&mut self, time: Timestamp) {
        self.seal_where(|_, head| head.earliest < time.micros());
    }

    /// Seals all heads.
    pub fn seal_all(&mut self) {
        self.seal_where(|_, _| true);
    }

    /// The first record of the journal that any head has samples of; none without samples.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.oldest_after(0)
    }

    /// The same, once the first `count` of the sealed heads are durable.
    #[must_use]
    pub fn oldest_after(&self, count: usize) -> Option<u64> {
        let open = self.open.values().map(|head| head.origin.first);
        open.chain(self.sealed.iter().skip(count).map(|sealed| sealed.origin.first)).min()
    }

    /// The samples of a topic from a time on, in order of time each, the column that came first in front. A column that has any may have
    /// earlier ones, too: it is not copied.
    #[must_use]
    pub fn columns(&self, topic: u32, from: Timestamp) -> Vec<Arc<Column>> {
        let mut columns = Vec::new();
        if self.sealed_of.contains_key(&topic) {
            let reaches = |sealed: &&Sealed| sealed.column.ends().is_some_and(|(_, last)| last >= from);
            let of_topic = self.sealed.iter().filter(|sealed| sealed.topic == topic).filter(reaches);
            columns.extend(of_topic.map(|sealed| Arc::clone(&sealed.column)));
        }
        if let Some(head) = self.open.get(&topic).filter(|head| head.latest >= from.micros()) {
            columns.push(head.settled_from(from));
        }
        columns
    }

    /// The same of several topics at once, where a sample is not behind a time; none of the others.
    #[must_use]
    pub fn columns_of(&self, topics: &[u32], time: Timestamp) -> HashMap<u32, Vec<Arc<Column>>> {
        let mut found: HashMap<u32, Vec<Arc<Column>>> = HashMap::new();
        if topics.iter().any(|topic| self.sealed_of.contains_key(topic)) {
            let meant: HashSet<u32> = topics.iter().copied().collect();
            let is_meant = |sealed: &&Sealed| meant.contains(&sealed.topic) && sealed.column.reaches_back_to(time);
            for sealed in self.sealed.iter().filter(is_meant) {
                found.entry(sealed.topic).or_default().push(Arc::clone(&sealed.column));
            }
        }
        for topic in topics {
            if let Some(head) = self.open.get(topic).filter(|head| head.earliest <= time.micros()) {
                found.entry(*topic).or_default().push(head.settled_from(Timestamp::from_micros(i64::MIN)));
            }
        }
        found
    }

    /// The samples of all topics, head by head.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Column)> {
        let sealed = self.sealed.iter().map(|sealed| (sealed.topic, &*sealed.column));
        sealed.chain(self.open.iter().map(|(topic, head)| (*topic, &*head.column)))
    }

    /// What all heads take in memory, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes + self.bytes_sealed
    }

    /// The larger heads: those of half the mean and more have at least half of all bytes, so this is seldom.
    fn seal_larger(&mut self) {
        let mean = self.bytes / self.open.len().max(1);
        self.seal_where(|_, head| head.bytes() >= mean / 2);
    }

    fn seal_where(&mut self, is_meant: impl Fn(u32, &Head) -> bool) {
        let meant = self.open.iter().filter(|(topic, head)| is_meant(**topic, head));
        let mut topics: Vec<u32> = meant.map(|(topic, _)| *topic).collect();
        // In an order that does not depend on the table.
        topics.sort_unstable();
        topics.into_iter().for_each(|topic| self.seal(topic));
    }

    fn seal(&mut self, topic: u32) {
        let Some(head) = self.open.remove(&topic) else { return };
        self.bytes -= head.bytes();
        let (origin, column) = (head.origin, head.into_settled());
        self.bytes_sealed += column.bytes();
        *self.sealed_of.entry(topic).or_insert(0) += 1;
        self.sealed.push_back(Sealed { topic, column, origin });
    }
}

#[cfg(test)]
mod tests;
