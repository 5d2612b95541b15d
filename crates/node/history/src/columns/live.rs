//! The heads and the edits, shared by the threads that fill them and those that read.

use super::policy::Cutoffs;
use crate::edits::SharedEdits;
use crate::queue::lock;
use crate::store::Rule;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use tieline_core::Timestamp;
use tieline_series::{Column, Heads};
use tieline_store::ChunkRow;

/// Columns by topic.
pub(super) type ColumnsOf = HashMap<u32, Vec<Arc<Column>>>;

/// What a store has in memory, while a thread of this process writes it. It is held for no longer than it takes to add a batch of samples
/// or to copy a head: never while something is written to the disk.
#[derive(Clone, Default)]
pub(crate) struct Live {
    open: Arc<Mutex<Option<Open>>>,
    /// Rules of retention, where some were given.
    rules: Arc<Mutex<Option<Arc<[Rule]>>>>,
    edits: SharedEdits,
}

struct Open {
    heads: Heads,
    written: Written,
    /// Whether the heads have all that the journal had at the start. Until then who reads takes it from the journal.
    is_complete: bool,
    /// Which samples are too old to be kept: chunks that have others, too, are still there.
    cutoffs: Arc<Cutoffs>,
}

/// Up to when chunks have samples. Questions about what came last need not look for chunks, however many there are.
struct Written {
    /// By the number of the topic.
    until: Vec<Timestamp>,
    /// Of all topics that are not there.
    others: Timestamp,
}

impl Written {
    /// Topics that are kept apart; all others are one.
    const TOPICS_MAX: usize = 1_000_000;

    fn note(&mut self, topic: u32, last: Timestamp) {
        let place = topic as usize;
        if place >= Self::TOPICS_MAX {
            self.others = self.others.max(last);
            return;
        }
        if self.until.len() <= place {
            self.until.resize(place + 1, Timestamp::from_micros(i64::MIN));
        }
        if let Some(until) = self.until.get_mut(place) {
            *until = last.max(*until);
        }
    }

    fn until(&self, topic: u32) -> Timestamp {
        self.until.get(topic as usize).map_or(self.others, |until| self.others.max(*until))
    }
}

impl Live {
    pub(crate) const fn edits(&self) -> &SharedEdits {
        &self.edits
    }

    /// Opens the store of a folder whose chunks have no sample from a time on.
    pub(super) fn open(&self, heads: Heads, written_before: Timestamp) {
        let written = Written { until: Vec::new(), others: written_before };
        *lock(&self.open) = Some(Open { heads, written, is_complete: false, cutoffs: Arc::default() });
    }

    /// These chunks are in the index; their samples may still be in heads, too.
    pub(super) fn note_written(&self, chunks: &[ChunkRow]) {
        if let Some(open) = lock(&self.open).as_mut() {
            chunks.iter().for_each(|chunk| open.written.note(chunk.topic, chunk.last));
        }
    }

    /// Whether a chunk may have samples of a topic from a time on. Who reads heads first, and asks then, misses none.
    pub(super) fn may_be_written(&self, topic: u32, from: Timestamp) -> bool {
        lock(&self.open).as_ref().is_none_or(|open| open.written.until(topic) >= from)
    }

    /// The heads have all that the journal had at the start.
    pub(super) fn complete(&self) {
        if let Some(open) = lock(&self.open).as_mut() {
            open.is_complete = true;
        }
    }

    pub(super) fn close(&self) {
        *lock(&self.open) = None;
    }

    /// Does something with the heads of an open store.
    pub(crate) fn with<T: Default>(&self, act: impl FnOnce(&mut Heads) -> T) -> T {
        lock(&self.open).as_mut().map(|open| act(&mut open.heads)).unwrap_or_default()
    }

    /// Samples that are too old are hidden from here on.
    pub(super) fn cut_off(&self, cutoffs: Cutoffs) {
        if let Some(open) = lock(&self.open).as_mut() {
            open.cutoffs = Arc::new(cutoffs);
        }
    }

    /// Gives other rules.
    pub(super) fn set_rules(&self, rules: Arc<[Rule]>) {
        *lock(&self.rules) = Some(rules);
    }

    /// The rules that were given; none where nobody gave any.
    pub(super) fn rules(&self) -> Option<Arc<[Rule]>> {
        lock(&self.rules).clone()
    }

    /// The samples of a topic from a time on that may be in no chunk; none where no store is open, or it has not read the journal yet.
    pub(crate) fn columns(&self, topic: u32, from: Timestamp) -> Option<Vec<Arc<Column>>> {
        lock(&self.open).as_ref().filter(|open| open.is_complete).map(|open| open.heads.columns(topic, from))
    }

    /// From where on samples are shown.
    pub(super) fn cutoffs(&self) -> Arc<Cutoffs> {
        lock(&self.open).as_ref().map(|open| Arc::clone(&open.cutoffs)).unwrap_or_default()
    }

    /// The same of several topics, where a sample is not behind a time.
    pub(super) fn columns_of(&self, topics: &[u32], time: Timestamp) -> Option<ColumnsOf> {
        let open = lock(&self.open);
        let complete = open.as_ref().filter(|open| open.is_complete);
        complete.map(|open| open.heads.columns_of(topics, time).into_iter().collect())
    }

    /// Whether the heads say all that is in no chunk.
    pub(super) fn is_open(&self) -> bool {
        lock(&self.open).as_ref().is_some_and(|open| open.is_complete)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Live(open)" } else { "Live(closed)" })
    }
}
