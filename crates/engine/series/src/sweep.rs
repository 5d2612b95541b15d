//! Samples of many chunks and heads in order of time, each decoded when its turn has come.
//!
//! ```text
//! spans ─▶ Sweep ─ next ─▶ Whole(one that none overlaps: its summary may be enough)
//!                          Open(one): its samples are wanted ─ open ─┐
//!                          Samples(merged, up to where the next begins) ◀┘
//! ```
//!
//! Spans that share a time overlap: which of their samples are equal, and are one sample, only the samples say.

use crate::column::Column;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::Timestamp;

/// From the first to the last sample of a chunk or a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time of the first.
    pub first: Timestamp,
    /// The time of the last.
    pub last: Timestamp,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// That one is next, and nothing overlaps it: all of its samples are.
    Whole(usize),
    /// That one is to be given to [`Sweep::open`].
    Open(usize),
    /// These samples are next.
    Samples(Column),
}

#[derive(Debug)]
struct Open {
    number: usize,
    column: Arc<Column>,
    /// How many of its samples were given out.
    done: usize,
}

/// A walk through spans. Each has a number: its place in the list, in the order in which they came.
#[derive(Debug)]
pub struct Sweep {
    waiting: VecDeque<(Span, usize)>,
    open: Vec<Open>,
}

impl Sweep {
    /// Begins with the earliest.
    #[must_use]
    pub fn new(spans: &[Span]) -> Self {
        let mut waiting: Vec<(Span, usize)> = spans.iter().copied().zip(0..).collect();
        waiting.sort_by_key(|(span, _)| span.first);
        Self { waiting: waiting.into(), open: Vec::new() }
    }

    /// The next step; none at the end.
    pub fn step(&mut self) -> Option<Step> {
        self.open.retain(|open| open.done < open.column.len());
        let Some((span, number)) = self.waiting.front().copied() else {
            return (!self.open.is_empty()).then(|| Step::Samples(self.take(|column| column.len())));
        };
        let place = |open: &Open| open.column.count_before(span.first);
        if self.open.iter().any(|open| open.done < place(open)) {
            return Some(Step::Samples(self.take(|column| column.count_before(span.first))));
        }
        self.waiting.pop_front();
        let is_alone = self.open.is_empty() && self.waiting.front().is_none_or(|(next, _)| next.first > span.last);
        Some(if is_alone { Step::Whole(number) } else { Step::Open(number) })
    }

    /// Gives the samples of a chunk or head that [`Step::Open`] asked for, in order of time. One that cannot be read is left out.
    pub fn open(&mut self, number: usize, column: Arc<Column>) {
        let place = self.open.partition_point(|open| open.number < number);
        self.open.insert(place, Open { number, column, done: 0 });
    }

    /// The samples of all that are open, up to a place of each.
    fn take(&mut self, place: impl Fn(&Column) -> usize) -> Column {
        let mut parts = self.open.iter_mut().filter_map(|open| {
            let (start, end) = (open.done, place(&open.column));
            open.done = end.max(start);
            (start < end).then(|| open.column.range(start..end))
        });
        let mut all = parts.next().unwrap_or_default();
        let mut is_one = true;
        for part in parts {
            is_one = false;
            part.iter().for_each(|sample| all.push(sample));
        }
        if !is_one {
            all.settle();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Datum, Sample};
    use proptest::prelude::*;
    use tieline_core::Quality;

    fn column(samples: &[(i64, i64)]) -> Column {
        let sample = |(time, value): &(i64, i64)| Sample {
            time: Timestamp::from_micros(*time),
            datum: Datum::Int(*value),
            quality: Quality::GOOD,
        };
        let mut column: Column = samples.iter().map(sample).collect();
        column.settle();
        column
    }

    proptest! {
        #[test]
        fn samples_come_in_order_and_equal_ones_once(
            parts in prop::collection::vec(prop::collection::vec((0..60_i64, 0..3_i64), 1..20), 0..8),
        ) {
            let columns: Vec<Arc<Column>> = parts.iter().map(|part| Arc::new(column(part))).collect();
            let span = |column: &Arc<Column>| column.ends().map(|(first, last)| Span { first, last });
            let mut sweep = Sweep::new(&columns.iter().filter_map(span).collect::<Vec<_>>());
            let (mut found, mut wholes) = (Vec::new(), 0);
            while let Some(step) = sweep.step() {
                match step {
                    Step::Whole(one) => {
                        wholes += 1;
                        found.extend(columns[one].iter());
                    }
                    Step::Open(one) => sweep.open(one, Arc::clone(&columns[one])),
                    Step::Samples(samples) => {
                        prop_assert!(!samples.is_empty());
                        found.extend(samples.iter());
                    }
                }
            }
            let all = column(&parts.concat());
            prop_assert_eq!(found, all.iter().collect::<Vec<_>>());
            prop_assert!(columns.len() != 1 || wholes == 1);
        }
    }
}
