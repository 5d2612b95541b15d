//! Edits of samples: values that are replaced, samples that are left out or added in answers, while what was recorded stays as it is.
//!
//! ```text
//! edits, in the order in which they were made ─▶ Edits: stretches of time, each with what becomes of samples in it; samples added
//! columns, in order of time ─▶ Editor ─▶ columns as they are shown, and which edit changed which sample
//! ```
//!
//! An edit changes what those before it have left: a sample that was added is changed by later edits alone, and one that was left out
//! stays so. Samples that are added come behind others of their time.

use crate::column::{Column, Datum, Sample};
use crate::sweep::Span;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::{Quality, Timestamp};

/// What an edit does to the samples of its time.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Gives them another value, another quality, or both.
    Set {
        /// The value; none leaves theirs.
        datum: Option<Datum>,
        /// The quality; none leaves theirs.
        quality: Option<Quality>,
    },
    /// Leaves them out.
    Exclude,
    /// Adds a sample where its time begins.
    Insert(Datum, Quality),
}

/// A column as it is shown.
#[derive(Clone, Debug, Default)]
pub struct Marked {
    /// The samples.
    pub column: Arc<Column>,
    /// The number of the edit that changed or added each sample last, 0 for none; empty where none is changed.
    pub marks: VecDeque<u64>,
}

/// The edits of a topic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edits {
    /// Ascending, and none overlaps another.
    stretches: Vec<Stretch>,
    /// By time; those of one time in the order in which they were added.
    added: Vec<Added>,
}

/// What becomes of recorded samples from a time on and before another, in microseconds.
#[derive(Clone, Debug, PartialEq)]
struct Stretch {
    from: i64,
    to: i64,
    effect: Effect,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Effect {
    datum: Option<Datum>,
    quality: Option<Quality>,
    is_excluded: bool,
    /// The last edit.
    by: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Added {
    sample: Sample,
    by: u64,
}

impl Effect {
    fn change(&mut self, number: u64, change: &Change) {
        match change {
            _ if self.is_excluded => {}
            Change::Set { datum, quality } => {
                self.datum = datum.clone().or(self.datum.take());
                self.quality = quality.or(self.quality);
                self.by = number;
            }
            Change::Exclude => (self.is_excluded, self.by) = (true, number),
            Change::Insert(..) => {}
        }
    }
}

impl Edits {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.stretches.is_empty() && self.added.is_empty()
    }

    /// Adds an edit behind the others, of the time from `from` on and before `to`. Its number is no less than theirs.
    pub fn push(&mut self, number: u64, from: Timestamp, to: Timestamp, change: Change) {
        let (from, to) = (from.micros(), to.micros());
        if from >= to {
            return;
        }
        if let Change::Insert(datum, quality) = change {
            let place = self.added.partition_point(|added| added.sample.time.micros() <= from);
            let sample = Sample { time: Timestamp::from_micros(from), datum, quality };
            self.added.insert(place, Added { sample, by: number });
            return;
        }
        let is_meant = |added: &Added| (from..to).contains(&added.sample.time.micros());
        match &change {
            Change::Exclude => self.added.retain(|added| !is_meant(added)),
            Change::Set { datum, quality } => {
                for added in self.added.iter_mut().filter(|added| is_meant(added)) {
                    added.sample.datum = datum.clone().unwrap_or_else(|| added.sample.datum.clone());
                    added.sample.quality = quality.unwrap_or(added.sample.quality);
                    added.by = number;
                }
            }
            Change::Insert(..) => {}
        }
        self.change_stretches(number, (from, to), &change);
    }

    fn change_stretches(&mut self, number: u64, (from, to): (i64, i64), change: &Change) {
        let start = self.stretches.partition_point(|stretch| stretch.to <= from);
        let end = self.stretches.partition_point(|stretch| stretch.from < to);
        let (mut changed, mut reached) = (Vec::with_capacity(end.saturating_sub(start) + 3), from);
        let mut add = |from: i64, to: i64, effect: Effect| {
            if from < to {
                changed.push(Stretch { from, to, effect });
            }
        };
        let of = |mut effect: Effect| {
            effect.change(number, change);
            effect
        };
        for stretch in self.stretches.get(start..end).unwrap_or_default() {
            add(stretch.from, from, stretch.effect.clone());
            add(reached, stretch.from, of(Effect::default()));
            add(stretch.from.max(from), stretch.to.min(to), of(stretch.effect.clone()));
            add(to, stretch.to, stretch.effect.clone());
            reached = stretch.to.min(to);
        }
        add(reached, to, of(Effect::default()));
        self.stretches.splice(start..end.max(start), changed);
    }

    fn stretch(&self, time: Timestamp) -> Option<&Stretch> {
        let place = self.stretches.partition_point(|stretch| stretch.to <= time.micros());
        self.stretches.get(place).filter(|stretch| stretch.from <= time.micros())
    }

    /// A recorded sample as it is shown, and the edit that changed it last; none where it is left out.
    #[must_use]
    pub fn edited(&self, sample: Sample) -> Option<(Sample, Option<u64>)> {
        let Some(Stretch { effect, .. }) = self.stretch(sample.time) else { return Some((sample, None)) };
        (!effect.is_excluded).then(|| (effect.apply(sample), Some(effect.by)))
    }

    /// Where all recorded samples are left out that are at a time and shortly before it: from when on.
    #[must_use]
    pub fn excluded_since(&self, time: Timestamp) -> Option<Timestamp> {
        let stretch = self.stretch(time).filter(|stretch| stretch.effect.is_excluded)?;
        Some(Timestamp::from_micros(stretch.from))
    }

    /// The last sample added that is not behind a time, and the edit that changed it last.
    #[must_use]
    pub fn last_added(&self, time: Timestamp) -> Option<(Sample, u64)> {
        let end = self.added.partition_point(|added| added.sample.time <= time);
        let Added { sample, by } = self.added.get(end.checked_sub(1)?)?;
        Some((sample.clone(), *by))
    }

    /// The samples added before a time, and the edits that changed each last.
    pub fn added_before(&self, time: Timestamp) -> impl Iterator<Item = (Sample, u64)> {
        let end = self.added.partition_point(|added| added.sample.time < time);
        self.added.iter().take(end).map(|Added { sample, by }| (sample.clone(), *by))
    }

    /// The times of the first and the last sample added.
    #[must_use]
    pub fn added_span(&self) -> Option<(Timestamp, Timestamp)> {
        self.added.first().zip(self.added.last()).map(|(first, last)| (first.sample.time, last.sample.time))
    }

    /// The number of the last edit that changes what is shown from a time on and before another.
    #[must_use]
    pub fn last_between(&self, from: Timestamp, to: Timestamp) -> Option<u64> {
        let start = self.stretches.partition_point(|stretch| stretch.to <= from.micros());
        let stretches = self.stretches.iter().skip(start).take_while(|stretch| stretch.from < to.micros());
        let start = self.added.partition_point(|added| added.sample.time < from);
        let added = self.added.iter().skip(start).take_while(|added| added.sample.time < to);
        stretches.map(|stretch| stretch.effect.by).chain(added.map(|added| added.by)).max()
    }

    /// Whether what was recorded from the first to the last time of a span is shown as it is, and nothing is added to it.
    #[must_use]
    pub fn spares(&self, span: Span) -> bool {
        self.last_between(span.first, Timestamp::from_micros(span.last.micros().saturating_add(1))).is_none()
    }

    /// A column without what is left out, and with what is changed; nothing is added.
    #[must_use]
    pub fn changed(&self, column: &Column) -> Column {
        column.iter().filter_map(|sample| self.edited(sample)).map(|(sample, _)| sample).collect()
    }
}

impl Effect {
    fn apply(&self, sample: Sample) -> Sample {
        let datum = self.datum.clone().unwrap_or(sample.datum);
        Sample { time: sample.time, datum, quality: self.quality.unwrap_or(sample.quality) }
    }
}

/// A walk through the time of a topic that has edits.
#[derive(Clone, Debug)]
pub struct Editor {
    edits: Arc<Edits>,
    /// The next sample that is added.
    next: usize,
}

impl Editor {
    /// Begins at a time.
    #[must_use]
    pub fn new(edits: Arc<Edits>, from: Timestamp) -> Self {
        let next = edits.added.partition_point(|added| added.sample.time < from);
        Self { edits, next }
    }

    /// The edits.
    #[must_use]
    pub fn edits(&self) -> &Edits {
        &self.edits
    }

    /// Goes back to a time, where it is behind it.
    pub fn rewind(&mut self, from: Timestamp) {
        self.next = self.next.min(self.edits.added.partition_point(|added| added.sample.time < from));
    }

    /// The samples that are added before a time, of those that did not come yet.
    pub fn before(&mut self, time: Timestamp) -> Marked {
        let mut out = Out::default();
        while let Some(Added { sample, by }) = self.due(|added| added < time) {
            out.push(sample, by);
        }
        out.finish()
    }

    /// A column as it is shown, with the samples that are added before and in it. It is sorted, and behind those before.
    pub fn take(&mut self, column: Arc<Column>) -> Marked {
        let Some((first, last)) = column.ends() else { return Marked::default() };
        let adds = self.edits.added.get(self.next).is_some_and(|added| added.sample.time <= last);
        if !adds && self.edits.spares(Span { first, last }) {
            return Marked { column, marks: VecDeque::new() };
        }
        let mut out = Out::default();
        for sample in column.iter() {
            while let Some(Added { sample, by }) = self.due(|added| added < sample.time) {
                out.push(sample, by);
            }
            if let Some((sample, by)) = self.edits.edited(sample) {
                out.push(sample, by.unwrap_or(0));
            }
        }
        while let Some(Added { sample, by }) = self.due(|added| added <= last) {
            out.push(sample, by);
        }
        out.finish()
    }

    /// The next sample that is added, where its time is due.
    fn due(&mut self, is_due: impl Fn(Timestamp) -> bool) -> Option<Added> {
        let added = self.edits.added.get(self.next).filter(|added| is_due(added.sample.time))?;
        self.next += 1;
        Some(added.clone())
    }
}

#[derive(Default)]
struct Out {
    column: Column,
    marks: VecDeque<u64>,
}

impl Out {
    fn push(&mut self, sample: Sample, by: u64) {
        self.column.push(sample);
        self.marks.push_back(by);
    }

    fn finish(self) -> Marked {
        let is_marked = self.marks.iter().any(|by| *by != 0);
        Marked { column: Arc::new(self.column), marks: if is_marked { self.marks } else { VecDeque::new() } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn sample(time: i64, value: i64) -> Sample {
        Sample { time: at(time), datum: Datum::Int(value), quality: Quality::GOOD }
    }

    fn change() -> impl Strategy<Value = Change> {
        let quality = || prop_oneof![Just(Quality::AWAY), Just(Quality::GOOD)];
        prop_oneof![
            (prop::option::of(100..109_i64), prop::option::of(quality()))
                .prop_map(|(value, quality)| Change::Set { datum: value.map(Datum::Int), quality }),
            Just(Change::Exclude),
            (200..209_i64, quality()).prop_map(|(value, quality)| Change::Insert(Datum::Int(value), quality)),
        ]
    }

    /// One edit after the other, each on all samples.
    fn naive(samples: &[Sample], edits: &[(i64, i64, Change)]) -> Vec<(Sample, u64)> {
        let mut shown: Vec<(Sample, u64)> = samples.iter().map(|sample| (sample.clone(), 0)).collect();
        for ((from, to, change), number) in edits.iter().zip(1..) {
            let is_meant = |sample: &Sample| (*from..*to).contains(&sample.time.micros());
            match change {
                Change::Exclude => shown.retain(|(sample, _)| !is_meant(sample)),
                Change::Insert(datum, quality) => {
                    let sample = Sample { time: at(*from), datum: datum.clone(), quality: *quality };
                    shown.push((sample, number));
                    shown.sort_by_key(|(sample, _)| sample.time);
                }
                Change::Set { datum, quality } => {
                    for (sample, by) in shown.iter_mut().filter(|(sample, _)| is_meant(sample)) {
                        sample.datum = datum.clone().unwrap_or_else(|| sample.datum.clone());
                        sample.quality = quality.unwrap_or(sample.quality);
                        *by = number;
                    }
                }
            }
        }
        shown
    }

    proptest! {
        #[test]
        fn edits_are_applied_in_the_order_in_which_they_were_made(
            mut times in prop::collection::vec(0..40_i64, 0..30),
            edits in prop::collection::vec((-5..45_i64, 1..20_i64, change()), 0..12),
            cuts in prop::collection::vec(0..40_i64, 0..4),
        ) {
            times.sort_unstable();
            let samples: Vec<Sample> = times.iter().zip(0..).map(|(time, value)| sample(*time, value)).collect();
            let edits: Vec<(i64, i64, Change)> = edits.into_iter().map(|(from, length, change)| (from, from + length, change)).collect();
            let mut made = Edits::default();
            for ((from, to, change), number) in edits.iter().zip(1..) {
                made.push(number, at(*from), at(*to), change.clone());
            }
            prop_assert!(made.stretches.windows(2).all(|two| two[0].to <= two[1].from));
            let expect = naive(&samples, &edits);
            let mut found = Vec::new();
            let mut editor = Editor::new(Arc::new(made.clone()), at(i64::MIN));
            let mut add = |Marked { column, mut marks }: Marked| {
                marks.resize(column.len(), 0);
                found.extend(column.iter().zip(marks));
            };
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut left = &samples[..];
            for cut in cuts.into_iter().chain([i64::MAX]) {
                let (part, rest) = left.split_at(left.partition_point(|sample| sample.time.micros() < cut));
                add(editor.take(Arc::new(part.iter().cloned().collect())));
                left = rest;
            }
            add(editor.before(at(i64::MAX)));
            prop_assert_eq!(&found, &expect);
            // The last one at each time, as it is found without a walk.
            for time in -6..46 {
                let (mut before, mut raw) = (at(time), None);
                while let Some(last) = samples.iter().rfind(|sample| sample.time <= before) {
                    match made.excluded_since(last.time) {
                        Some(since) => before = at(since.micros() - 1),
                        None => {
                            raw = made.edited(last.clone()).map(|(sample, _)| sample);
                            break;
                        }
                    }
                }
                let added = made.last_added(at(time)).map(|(sample, _)| sample);
                let found = match (raw, added) {
                    (Some(raw), Some(added)) => Some(if added.time >= raw.time { added } else { raw }),
                    (raw, added) => raw.or(added),
                };
                let last = expect.iter().map(|(sample, _)| sample).rfind(|sample| sample.time <= at(time)).cloned();
                prop_assert_eq!(found, last, "at {}", time);
            }
        }
    }
}
