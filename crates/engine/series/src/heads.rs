//! Heads: the latest samples of each topic, in memory until they are worth a chunk.
//!
//! ```text
//! sample ─ push ─▶ head of its topic ─ poll_full ─▶ column, sorted, with the journal records it came from
//!                    │  too many samples, too long a span, too much memory in all, or held for too long
//!                    └─ queried meanwhile: `column`
//! ```
//!
//! A head is what the journal still has: after a crash the heads are made again of its records from [`Heads::oldest`] on.

use crate::chunk::{Origin, SAMPLES_MAX};
use crate::column::{Column, Sample};
use alloc::collections::VecDeque;
use core::time::Duration;
use hashbrown::HashMap;

/// When a head becomes a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of all heads together; beyond it the larger ones are full.
    pub bytes_max: usize,
    /// Samples of a head, [`SAMPLES_MAX`] at most.
    pub samples_max: usize,
    /// Time from the first to the last sample of a head.
    pub span_max: Duration,
}

impl Default for HeadLimits {
    /// 64 MiB, 4,096 samples, an hour.
    fn default() -> Self {
        Self { bytes_max: 64 << 20, samples_max: 4096, span_max: Duration::from_secs(3600) }
    }
}

/// A head that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Full {
    /// Whose: the number that it was pushed with.
    pub topic: u32,
    /// Its samples, in order of time.
    pub column: Column,
    /// Where they came from.
    pub origin: Origin,
}

#[derive(Debug)]
struct Head {
    column: Column,
    origin: Origin,
    /// The times of its earliest and latest sample, in microseconds.
    ends: (i64, i64),
    is_full: bool,
}

impl Head {
    /// What it takes in memory.
    const fn bytes(&self) -> usize {
        size_of::<(u32, Self)>() + self.column.bytes()
    }
}

/// The heads of all topics.
#[derive(Debug)]
pub struct Heads {
    limits: HeadLimits,
    heads: HashMap<u32, Head>,
    full: VecDeque<u32>,
    bytes: usize,
    /// Bytes of those in `full`.
    bytes_full: usize,
}

impl Heads {
    /// No samples yet.
    #[must_use]
    pub fn new(limits: HeadLimits) -> Self {
        let limits = HeadLimits { samples_max: limits.samples_max.clamp(1, SAMPLES_MAX), ..limits };
        Self { limits, heads: HashMap::new(), full: VecDeque::new(), bytes: 0, bytes_full: 0 }
    }

    /// Adds a sample of a topic, which came in a record of the journal. Records come in their order. A full head goes on taking
    /// samples: call [`Heads::poll_full`] until there is none.
    pub fn push(&mut self, topic: u32, sample: Sample, sequence: u64) {
        let time = sample.time.micros();
        let bytes = &mut self.bytes;
        let head = self.heads.entry(topic).or_insert_with(|| {
            let origin = Origin { first: sequence, last: sequence };
            let head = Head { column: Column::default(), origin, ends: (time, time), is_full: false };
            *bytes += head.bytes();
            head
        });
        let before = head.bytes();
        head.column.push(sample);
        head.origin.last = sequence;
        head.ends = (head.ends.0.min(time), head.ends.1.max(time));
        let added = head.bytes() - before;
        self.bytes += added;
        if head.is_full {
            self.bytes_full += added;
            return;
        }
        let span = Duration::from_micros(head.ends.1.abs_diff(head.ends.0));
        if head.column.len() >= self.limits.samples_max || span >= self.limits.span_max {
            self.fill(topic);
        }
        if self.bytes - self.bytes_full > self.limits.bytes_max {
            self.fill_larger();
        }
    }

    /// The next head that is to be written; it is no longer among the heads. One at a time: until its chunk is durable, the journal
    /// has to keep the records from [`Heads::oldest`] and from its origin on.
    pub fn poll_full(&mut self) -> Option<Full> {
        let topic = self.full.pop_front()?;
        let head = self.heads.remove(&topic)?;
        self.bytes -= head.bytes();
        self.bytes_full -= head.bytes();
        let Head { mut column, origin, .. } = head;
        column.sort();
        Some(Full { topic, column, origin })
    }

    /// Heads with samples of records before `sequence` are full: the journal is to let go of those.
    pub fn fill_before(&mut self, sequence: u64) {
        self.fill_where(|head| head.origin.first < sequence);
    }

    /// All heads are full.
    pub fn fill_all(&mut self) {
        self.fill_where(|_| true);
    }

    /// The first record of the journal that any head has samples of; none without samples.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.heads.values().map(|head| head.origin.first).min()
    }

    /// The samples of a topic, as they came; none where it has no head.
    #[must_use]
    pub fn column(&self, topic: u32) -> Option<&Column> {
        self.heads.get(&topic).map(|head| &head.column)
    }

    /// What all heads take in memory, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The larger heads are full: those of half the mean and more have at least half of all bytes, so this is seldom.
    fn fill_larger(&mut self) {
        let waiting = self.heads.len() - self.full.len();
        let mean = (self.bytes - self.bytes_full) / waiting.max(1);
        self.fill_where(|head| head.bytes() >= mean / 2);
    }

    fn fill_where(&mut self, is_meant: impl Fn(&Head) -> bool) {
        let meant = self.heads.iter().filter(|(_, head)| !head.is_full && is_meant(head));
        let mut topics: alloc::vec::Vec<u32> = meant.map(|(topic, _)| *topic).collect();
        // In an order that does not depend on the table.
        topics.sort_unstable();
        topics.into_iter().for_each(|topic| self.fill(topic));
    }

    fn fill(&mut self, topic: u32) {
        let Some(head) = self.heads.get_mut(&topic).filter(|head| !head.is_full) else { return };
        head.is_full = true;
        self.bytes_full += head.bytes();
        self.full.push_back(topic);
    }
}

#[cfg(test)]
mod tests;
