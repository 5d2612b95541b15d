//! Durations in classes: the classic buckets of Prometheus.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// The longest duration of each class but the last, in microseconds. The last class has no end.
pub const CLASS_EDGES_US: [u64; 11] =
    [100, 250, 1_000, 2_500, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000, 10_000_000];
/// How many classes there are.
pub const CLASSES: usize = CLASS_EDGES_US.len() + 1;

/// Durations by class. Each thread has its own, and those of several are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    classes: [u64; CLASSES],
    sum_ns: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let ns = nanoseconds(duration);
        if let Some(count) = self.classes.get_mut(class_of(ns)) {
            *count += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Counts what another counted, too.
    pub fn add(&mut self, other: &Self) {
        self.classes.iter_mut().zip(other.classes).for_each(|(count, more)| *count += more);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many durations there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// All durations together.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// For each edge, how many durations were not longer; none is the edge of the last class.
    pub fn cumulated(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let edges = CLASS_EDGES_US.iter().map(|edge| Some(Duration::from_micros(*edge))).chain([None]);
        edges.zip(self.classes).scan(0, |sum, (edge, count)| {
            *sum += count;
            Some((edge, *sum))
        })
    }
}

/// A histogram that several threads count in, without a lock.
#[derive(Debug, Default)]
pub struct SharedHistogram {
    classes: [AtomicU64; CLASSES],
    sum_ns: AtomicU64,
}

impl SharedHistogram {
    /// Counts a duration.
    pub fn record(&self, duration: Duration) {
        let ns = nanoseconds(duration);
        if let Some(count) = self.classes.get(class_of(ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What was counted by now.
    #[must_use]
    pub fn look(&self) -> Histogram {
        let classes = self.classes.each_ref().map(|count| count.load(Ordering::Relaxed));
        Histogram { classes, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of edges that are shorter: no branch depends on the duration.
fn class_of(ns: u64) -> usize {
    CLASS_EDGES_US.iter().map(|edge| usize::from(ns > edge * 1000)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn an_edge_belongs_to_its_class() {
        let check = |ns: u64, expect: usize| {
            let mut histogram = Histogram::default();
            histogram.record(Duration::from_nanos(ns));
            let first = histogram.cumulated().position(|(_, count)| count == 1);
            assert_eq!(first, Some(expect), "{ns}");
        };
        check(0, 0);
        check(99_999, 0);
        check(100_000, 0);
        check(100_001, 1);
        check(1_000_000, 2);
        check(1_000_001, 3);
        check(10_000_000_000, 10);
        check(10_000_000_001, 11);
        check(u64::MAX, 11);
    }

    proptest! {
        #[test]
        fn threads_together_count_what_each_did(durations in proptest::collection::vec(0u64..20_000_000_000, 0..50)) {
            let (mut one, mut other, shared) =
                (Histogram::default(), Histogram::default(), SharedHistogram::default());
            for (at, ns) in durations.iter().enumerate() {
                let duration = Duration::from_nanos(*ns);
                if at % 2 == 0 { one.record(duration) } else { other.record(duration) }
                shared.record(duration);
            }
            one.add(&other);
            prop_assert_eq!(one, shared.look());
            prop_assert_eq!(one.count(), durations.len() as u64);
            prop_assert_eq!(one.sum(), Duration::from_nanos(durations.iter().sum()));
            let cumulated: Vec<u64> = one.cumulated().map(|(_, count)| count).collect();
            prop_assert!(cumulated.is_sorted());
            prop_assert_eq!(cumulated.last(), Some(&one.count()));
            for (edge, count) in one.cumulated() {
                let fits = |ns: &&u64| edge.is_none_or(|edge| Duration::from_nanos(**ns) <= edge);
                prop_assert_eq!(count, durations.iter().filter(fits).count() as u64);
            }
        }
    }
}
