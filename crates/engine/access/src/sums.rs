//! Records of which anybody can cause any number: the first of a kind is written, what follows is counted, and how many they were
//! is written once in a while.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Instant;

/// How often the counts are written.
pub const SUM_EVERY: Duration = Duration::from_secs(600);

/// Counts by kind.
#[derive(Debug)]
pub struct Sums<K> {
    /// How many of each kind were counted and not written.
    kinds: BTreeMap<K, u64>,
    kinds_max: usize,
    /// The same of kinds that have no room.
    others: u64,
    due: Option<Instant>,
    /// How many were counted since the start.
    counted: u64,
}

impl<K: Ord + Clone> Sums<K> {
    /// Nothing is counted yet; `kinds_max` kinds are told apart.
    #[must_use]
    pub const fn new(kinds_max: usize) -> Self {
        Self { kinds: BTreeMap::new(), kinds_max, others: 0, due: None, counted: 0 }
    }

    /// Whether a record is to be written; otherwise it is counted.
    pub fn note(&mut self, now: Instant, kind: &K) -> bool {
        self.due.get_or_insert(now + SUM_EVERY);
        if let Some(count) = self.kinds.get_mut(kind) {
            *count += 1;
        } else if self.kinds.len() < self.kinds_max {
            self.kinds.insert(kind.clone(), 0);
            return true;
        } else {
            self.others += 1;
        }
        self.counted += 1;
        false
    }

    /// What was counted, once it is due: by kind, and of kinds that had no room.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<(Option<K>, u64)> {
        if self.due.is_none_or(|due| now < due) {
            return Vec::new();
        }
        // A kind of which nothing came is forgotten: its next record is written.
        self.kinds.retain(|_, count| *count > 0);
        let mut sums: Vec<_> =
            self.kinds.iter_mut().map(|(kind, count)| (Some(kind.clone()), core::mem::take(count))).collect();
        let others = core::mem::take(&mut self.others);
        sums.extend((others > 0).then_some((None, others)));
        self.due = (!sums.is_empty()).then(|| now + SUM_EVERY);
        sums
    }

    /// When to call [`Sums::handle_timeout`].
    #[must_use]
    pub const fn timeout(&self) -> Option<Instant> {
        self.due
    }

    /// How many were counted, and not written, since the start.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.counted
    }
}
