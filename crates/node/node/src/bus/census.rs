//! Counts of all values by their quality, kept while somebody is shown them: one for all readers who may read the same.
//!
//! The first count of a large tree goes on over many turns, each of which counts for [`TURN`] at most; until it is
//! through, the counts say that they are not all. What changes is counted from then on, the same way.

use super::grade::grade;
use super::state::Bus;
use crate::access::ReadFilter;
use slab::Slab;
use std::collections::VecDeque;
use std::time::Duration;
use tieline_core::{Body, Filter, Instant, Topic};
use tieline_topics::{Applied, Change, QualityCounts, Snapshot, TopicId, Tree};

/// How long all counting may take in one turn of the bus.
const TURN: Duration = Duration::from_micros(300);
/// Topics between two looks at the clock.
const STEP: usize = 64;
/// Counts that are kept at a time: one for each set of rights that readers have. Who would need one more has no counts.
const CENSUSES_MAX: usize = 32;
/// A change that has not been counted for this long makes the counts incomplete.
const LATE: Duration = Duration::from_secs(1);

/// All counts.
#[derive(Debug, Default)]
pub struct Censuses {
    all: Slab<Census>,
    /// Readers that got none.
    refused: u64,
}

/// The counts of what some readers may read.
#[derive(Debug)]
pub struct Census {
    read_filter: Option<ReadFilter>,
    readers: usize,
    counts: QualityCounts,
    /// Where the first count is; none when it is through.
    walk: Option<Snapshot>,
    /// Topics whose values have to be looked at, each once.
    pending: VecDeque<TopicId>,
    is_pending: Vec<bool>,
    /// Since when something waits.
    behind: Option<Instant>,
}

impl Censuses {
    /// Gives a reader the count of what it may read; none when there are too many.
    pub fn join(&mut self, read_filter: Option<&ReadFilter>) -> Option<usize> {
        let is_same = |census: &Census| match (&census.read_filter, read_filter) {
            (None, None) => true,
            (Some(known), Some(read_filter)) => known.is_same(read_filter),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if let Some((key, census)) = self.all.iter_mut().find(|(_, census)| is_same(census)) {
            census.readers += 1;
            return Some(key);
        }
        if self.all.len() >= CENSUSES_MAX {
            self.refused += 1;
            return None;
        }
        Some(self.all.insert(Census::new(read_filter.cloned())))
    }

    /// Counts that are kept, and readers that got none because there were too many.
    #[must_use]
    pub fn stats(&self) -> (usize, u64) {
        (self.all.len(), self.refused)
    }

    /// A reader has gone; with the last one the count goes.
    pub fn leave(&mut self, key: usize) {
        let Some(census) = self.all.get_mut(key) else { return };
        census.readers -= 1;
        if census.readers == 0 {
            self.all.remove(key);
        }
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, key: usize) -> Option<&Census> {
        self.all.get(key)
    }

    /// Tells which branches of which count have changed, and the branch that each stands in.
    pub fn take_changes(&mut self, mut tell: impl FnMut(usize, &str, &str)) {
        for (key, census) in &mut self.all {
            census.counts.take_changes(|path, above| tell(key, path, above));
        }
    }

    /// A topic was updated.
    pub fn note(&mut self, topic: &Topic, applied: &Applied, body: &Body) {
        for (_, census) in &mut self.all {
            census.note(topic, applied, body);
        }
    }

    /// Counts for a while; true when there is more to count.
    pub fn advance(&mut self, tree: &Tree, clock: impl Fn() -> Instant) -> bool {
        let began = clock();
        let mut is_over = || clock().since(began) > TURN;
        let mut has_more = false;
        for (_, census) in &mut self.all {
            has_more |= census.advance(tree, began, &mut is_over);
        }
        has_more
    }
}

impl Census {
    fn new(read_filter: Option<ReadFilter>) -> Self {
        let walk = Filter::new("#").ok().map(Snapshot::new);
        let (pending, is_pending) = (VecDeque::new(), Vec::new());
        Self { read_filter, readers: 1, counts: QualityCounts::default(), walk, pending, is_pending, behind: None }
    }

    /// The counts as far as they are.
    #[must_use]
    pub const fn counts(&self) -> &QualityCounts {
        &self.counts
    }

    /// Whether everything is counted.
    #[must_use]
    pub fn is_complete(&self, now: Instant) -> bool {
        self.walk.is_none() && self.behind.is_none_or(|since| now.since(since) < LATE)
    }

    fn note(&mut self, topic: &Topic, applied: &Applied, body: &Body) {
        let id = applied.topic;
        match applied.change {
            Change::Passed => {}
            Change::Cleared => self.counts.remove(id),
            Change::Stored if topic.starts_with('$') => {}
            // What was counted before may be read: a point tells its grade without a look at it.
            Change::Stored if !matches!(body, Body::Opaque(_)) && self.counts.grade(id).is_some() => {
                self.counts.set(id, topic, grade(body));
            }
            Change::Stored => self.look_later(id),
        }
    }

    fn look_later(&mut self, id: TopicId) {
        let at = id.0 as usize;
        if self.is_pending.len() <= at {
            self.is_pending.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_pending[at], true) {
            self.pending.push_back(id);
        }
    }

    fn advance(&mut self, tree: &Tree, now: Instant, is_over: &mut impl FnMut() -> bool) -> bool {
        let Self { read_filter, counts, walk, pending, is_pending, behind, .. } = self;
        let may = |path: &str| read_filter.as_ref().is_none_or(|read_filter| read_filter.allows(path));
        while !pending.is_empty() && !is_over() {
            for id in pending.drain(..STEP.min(pending.len())) {
                is_pending[id.0 as usize] = false;
                match tree.view(id).filter(|view| may(view.topic)) {
                    Some(view) => counts.set(id, view.topic, grade(view.body)),
                    None => counts.remove(id),
                }
            }
        }
        *behind = if pending.is_empty() { None } else { behind.or(Some(now)) };
        while let Some(place) = walk.as_mut().filter(|_| !is_over()) {
            for view in tree.next(place, STEP) {
                if may(view.topic) {
                    counts.set(view.id, view.topic, grade(view.body));
                }
            }
            if place.is_done() {
                *walk = None;
            }
        }
        walk.is_some() || !pending.is_empty()
    }
}

impl Bus {
    /// Counts of values by quality that are kept, and readers that got none.
    #[must_use]
    pub fn count_stats(&self) -> (usize, u64) {
        self.censuses.stats()
    }

    /// Counts what has come, for as long as one turn may take.
    pub(super) fn count_qualities(&mut self) {
        if self.censuses.all.is_empty() {
            return;
        }
        let Self { censuses, tree, shard, work, .. } = self;
        if censuses.advance(tree, || shard.now().mono) {
            work.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tieline_core::{Now, Point, Quality, Update, Value};
    use tieline_topics::{Counts, Limits};

    struct Desk {
        tree: Tree,
        censuses: Censuses,
    }

    impl Desk {
        fn apply(&mut self, path: &str, body: Body) {
            let topic = Topic::new(path).unwrap();
            let update = Update { topic: topic.clone(), body: body.clone() };
            let applied = self.tree.apply(Now::default(), update, true).unwrap();
            self.censuses.note(&topic, &applied, &body);
        }

        fn text(&mut self, path: &str, payload: &'static str) {
            self.apply(path, Body::read(Bytes::from_static(payload.as_bytes())));
        }

        fn point(&mut self, path: &str, quality: Quality) {
            self.apply(path, Body::Point(Point { value: Value::Int(1), quality, ..Point::default() }));
        }

        /// Turns in which the clock says after one look that it is enough.
        fn turns(&mut self) -> usize {
            let mut turns = 1;
            let late = std::cell::Cell::new(0);
            let clock = || {
                late.set(late.get() + 1);
                Instant::ZERO + TURN * late.get()
            };
            while self.censuses.advance(&self.tree, clock) {
                turns += 1;
            }
            turns
        }

        fn counts(&self, key: usize, branch: Option<&str>) -> [u32; 4] {
            let counts = self.censuses.get(key).unwrap().counts();
            let Counts { good, uncertain, bad, unstated } = branch.map_or(counts.total(), |path| counts.below(path));
            [good, uncertain, bad, unstated]
        }
    }

    #[test]
    fn any_number_of_topics_is_counted_a_slice_a_turn() {
        let mut desk = Desk { tree: Tree::new(Limits::default()), censuses: Censuses::default() };
        for i in 0..30_000 {
            let quality = if i % 1000 == 0 { Quality::AWAY } else { Quality::GOOD };
            desk.point(&format!("site/unit{}/p{i}", i / 100), quality);
        }
        desk.text("$SYS/broker/uptime", "{\"v\":1,\"q\":\"bad\"}");
        let key = desk.censuses.join(None).unwrap();
        assert!(!desk.censuses.get(key).unwrap().is_complete(Instant::ZERO), "nothing is counted yet");
        // What comes while the first count is under way is counted once.
        desk.point("site/unit299/p29999", Quality::STALE);
        desk.text("aaa/first", "{\"v\":1,\"q\":\"uncertain\"}");
        assert!(desk.turns() > 100);
        assert!(desk.censuses.get(key).unwrap().is_complete(Instant::ZERO));
        assert_eq!(desk.counts(key, None), [29_969, 2, 30, 0]);
        assert_eq!(desk.counts(key, Some("site/unit299")), [99, 1, 0, 0]);
        desk.point("site/unit299/p29999", Quality::AWAY);
        desk.text("site/unit0/p0", "");
        desk.text("aaa/first", "5");
        desk.turns();
        assert_eq!(desk.counts(key, None), [29_969, 0, 30, 1]);
        assert_eq!(desk.counts(key, Some("site/unit0")), [99, 0, 0, 0]);
        desk.text("site/unit0/p0", "");
        desk.censuses.leave(key);
        assert!(desk.censuses.get(key).is_none());
    }
}
