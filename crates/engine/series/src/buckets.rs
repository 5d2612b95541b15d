//! Many samples, few numbers: what the samples of a stretch of time are together, from summaries where these say enough.
//!
//! ```text
//! spans of chunks ─ steps ─▶ Summary(chunk) · Decode(chunks that overlap, or lie across a boundary)
//!                               │                  │ merged by time
//!                               ▼                  ▼
//!                     Buckets ─ add_summary ── add_samples ─▶ finish ─▶ a Bucket for each stretch
//! ```
//!
//! Samples of bad quality are counted and otherwise left out. A number stands until the next one.

use crate::column::{Column, Data, Sample, Stretch};
use crate::summary::{Numbers, Summary, ValidityCounts};
use alloc::vec::Vec;
use tieline_core::{Timestamp, Validity};

/// From the first to the last sample of a chunk or a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time of the first.
    pub first: Timestamp,
    /// The time of the last.
    pub last: Timestamp,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The summary of that one says all.
    Summary(usize),
    /// Those are to be decoded, and their samples merged; in the order in which they came.
    Decode(Vec<usize>),
}

/// How samples become buckets, in order of time. Spans that overlap belong together: which of their samples comes first only the
/// samples say. `starts` are the beginnings of buckets, ascending; each ends where the next begins, the last at `end`. Spans outside
/// are left out.
#[must_use]
pub fn steps(spans: &[Span], starts: &[Timestamp], end: Timestamp) -> Vec<Step> {
    let mut steps = Vec::new();
    let Some(start) = starts.first() else { return steps };
    let mut order: Vec<usize> = (0..spans.len()).collect();
    let span = |place: &usize| spans.get(*place).copied().unwrap_or(Span { first: end, last: end });
    order.retain(|place| span(place).last >= *start && span(place).first < end);
    order.sort_by_key(|place| span(place).first);
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let (mut last, mut length) = (span(first).last, 1);
        while let Some(next) = rest.get(length).map(span).filter(|next| next.first <= last) {
            last = last.max(next.last);
            length += 1;
        }
        let (together, behind) = rest.split_at(length);
        let is_within = place_of(starts, end, span(first).first) == place_of(starts, end, last);
        steps.push(match together {
            [one] if is_within => Step::Summary(*one),
            _ => {
                let mut together = together.to_vec();
                together.sort_unstable();
                Step::Decode(together)
            }
        });
        rest = behind;
    }
    steps
}

/// Which bucket a time is in: 0 before the first, the number of buckets and one more from `end` on.
fn place_of(starts: &[Timestamp], end: Timestamp, time: Timestamp) -> usize {
    if time >= end { starts.len() + 1 } else { starts.partition_point(|start| *start <= time) }
}

/// The samples of one stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// From here on.
    pub start: Timestamp,
    /// Up to, and without.
    pub end: Timestamp,
    /// How many may be trusted how far.
    pub validities: ValidityCounts,
    /// The numbers that are not bad.
    pub numbers: Option<Numbers>,
    /// The number that stood when it began.
    pub standing: Option<f64>,
    /// All numbers, ascending, where [`Needs::numbers`] says so.
    pub sorted: Vec<f64>,
    /// The first and the last sample that is not bad and not nothing, where [`Needs::samples`] says so.
    pub ends: Option<(Sample, Sample)>,
}

impl Bucket {
    /// The mean of the numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.numbers.map(|numbers| numbers.sum / as_f64(numbers.count))
    }

    /// The mean over time: each number for as long as it stood, up to the end. Of numbers that all came at the end, their mean.
    #[must_use]
    pub fn time_weighted(&self) -> Option<f64> {
        let (area, width) = self.area()?;
        if width > 0.0 { Some(area / width) } else { self.mean() }
    }

    /// Numbers times seconds: energy in joules of power in watts.
    #[must_use]
    pub fn integral(&self) -> Option<f64> {
        self.area().map(|(area, _)| area / 1e6)
    }

    /// The number below which that part of the numbers lies, from 0 to 1; between two numbers in proportion. Needs
    /// [`Needs::numbers`].
    #[must_use]
    pub fn percentile(&self, part: f64) -> Option<f64> {
        let highest = self.sorted.len().checked_sub(1)?;
        let place = part.clamp(0.0, 1.0) * as_f64(highest as u64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the highest place")]
        let below = place as usize;
        let at = |place: usize| self.sorted.get(place.min(highest)).copied();
        let (low, high) = (at(below)?, at(below + 1)?);
        let rest = place - as_f64(below as u64);
        Some(if rest > 0.0 { low + (high - low) * rest } else { low })
    }

    /// Numbers times the microseconds that they stood, and these microseconds.
    fn area(&self) -> Option<(f64, f64)> {
        let between = |since: Timestamp, until: Timestamp| {
            as_f64(until.micros().saturating_sub(since.micros()).max(0).cast_unsigned())
        };
        let before = |until: Timestamp| {
            self.standing.map_or((0.0, 0.0), |standing| {
                let width = between(self.start, until);
                (standing * width, width)
            })
        };
        match &self.numbers {
            None => self.standing.map(|_| before(self.end)),
            Some(numbers) => {
                let ((first, _), (last, number)) = (numbers.first, numbers.last);
                let (area, width) = before(first);
                let rest = between(last, self.end);
                Some((area + numbers.area + number * rest, width + between(first, last) + rest))
            }
        }
    }

    fn add_stretch(&mut self, stretch: &Stretch<'_>, needs: Needs) {
        let mut summary = Summary::default();
        summary.add(stretch);
        self.add_summary(&summary);
        if stretch.quality.validity() == Validity::Bad {
            return;
        }
        if needs.numbers {
            let numbers = stretch.into_samples().filter_map(|sample| sample.datum.as_f64());
            self.sorted.extend(numbers.filter(|number| !number.is_nan()));
        }
        if needs.samples
            && !matches!(stretch.data, Data::Nulls)
            && let (Some(first), Some(last)) = (stretch.sample(0), stretch.sample(stretch.times.len() - 1))
        {
            let first = self.ends.take().map_or(first, |(first, _)| first);
            self.ends = Some((first, last));
        }
    }

    fn add_summary(&mut self, summary: &Summary) {
        self.validities.good += summary.validities.good;
        self.validities.uncertain += summary.validities.uncertain;
        self.validities.bad += summary.validities.bad;
        self.numbers = match (&self.numbers, &summary.numbers) {
            (Some(numbers), Some(others)) => Some(numbers.followed_by(others)),
            (numbers, others) => numbers.or(*others),
        };
    }
}

/// What is asked of buckets beyond what summaries say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Every number, for percentiles.
    pub numbers: bool,
    /// The first and the last sample, whatever they hold.
    pub samples: bool,
}

impl Needs {
    /// Whether a summary says all of it.
    #[must_use]
    pub const fn fits_summary(self) -> bool {
        !self.numbers && !self.samples
    }
}

/// Buckets as they are filled, in order of time.
#[derive(Clone, Debug)]
pub struct Buckets {
    starts: Vec<Timestamp>,
    end: Timestamp,
    needs: Needs,
    /// The number that stood before what comes next.
    standing: Option<f64>,
    done: Vec<Bucket>,
    open: Option<Bucket>,
}

impl Buckets {
    /// Empty buckets. `starts` are ascending; `standing` is the number before the first.
    #[must_use]
    pub const fn new(starts: Vec<Timestamp>, end: Timestamp, needs: Needs, standing: Option<f64>) -> Self {
        Self { starts, end, needs, standing, done: Vec::new(), open: None }
    }

    /// Adds what a chunk says of itself that is wholly in one bucket and behind all that was added.
    pub fn add_summary(&mut self, first: Timestamp, summary: &Summary) {
        if let Some(bucket) = self.bucket(first) {
            bucket.add_summary(summary);
        }
    }

    /// Adds samples, which are sorted and behind all that was added. Those before the first bucket and from the end on are left out.
    pub fn add_samples(&mut self, column: &Column) {
        for mut stretch in column.stretches() {
            while let Some(first) = stretch.times.first() {
                let first = Timestamp::from_micros(*first);
                let place = place_of(&self.starts, self.end, first);
                if place > self.starts.len() {
                    break;
                }
                let until = self.starts.get(place).copied().unwrap_or(self.end).micros();
                let length = stretch.times.partition_point(|time| *time < until);
                let (part, rest) = stretch.split_at(length);
                let needs = self.needs;
                if let Some(bucket) = self.bucket(first) {
                    bucket.add_stretch(&part, needs);
                }
                stretch = rest;
            }
        }
    }

    /// The bucket of a time, which is that of the last one or behind it; none outside all.
    fn bucket(&mut self, time: Timestamp) -> Option<&mut Bucket> {
        let place = place_of(&self.starts, self.end, time);
        if place > self.starts.len() {
            return None;
        }
        let start = *self.starts.get(place.checked_sub(1)?)?;
        if self.open.as_ref().is_none_or(|open| open.start != start) {
            self.close();
            let end = self.starts.get(place).copied().unwrap_or(self.end);
            let (validities, sorted, standing) = (ValidityCounts::default(), Vec::new(), self.standing);
            self.open = Some(Bucket { start, end, validities, numbers: None, standing, sorted, ends: None });
        }
        self.open.as_mut()
    }

    fn close(&mut self) {
        if let Some(mut open) = self.open.take() {
            open.sorted.sort_by(f64::total_cmp);
            self.standing = open.numbers.map(|numbers| numbers.last.1).or(self.standing);
            self.done.push(open);
        }
    }

    /// The buckets that have samples, in order.
    #[must_use]
    pub fn finish(mut self) -> Vec<Bucket> {
        self.close();
        self.done
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean is a double, and so is what it is divided by")]
const fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests;
