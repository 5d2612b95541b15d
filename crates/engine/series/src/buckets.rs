//! Many samples, few numbers: what the samples of a stretch of time are together, from summaries where these say enough.
//!
//! ```text
//! Sweep ─ Whole, within one bucket ─▶ add_summary ─┐
//!       └ Samples, or Whole decoded ─▶ add_samples ─┴─▶ Buckets ─ a Bucket for each stretch that has samples ─▶ taken ─ poll ─▶
//! ```
//!
//! Samples of bad quality are counted and otherwise left out. A number stands until the next one.

use crate::column::{Column, Data, Datum, Stretch};
use crate::summary::Summary;
use crate::sweep::Span;
use crate::times::count_before;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use tieline_core::{Quality, Timestamp, Validity};

/// Where buckets begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grid {
    /// At the multiples of so many microseconds since 1970; one at least.
    Every(i64),
    /// At these times, ascending: days and months of a calendar.
    Starts(Vec<Timestamp>),
}

/// Which time is asked for, and in which buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Not before this.
    pub from: Timestamp,
    /// Before this.
    pub to: Timestamp,
    /// The buckets.
    pub grid: Grid,
}

impl Frame {
    /// The bucket of a time: its start, and its end or that of the frame; none outside.
    #[must_use]
    pub fn bucket(&self, time: Timestamp) -> Option<(Timestamp, Timestamp)> {
        if time < self.from || time >= self.to {
            return None;
        }
        let (start, end) = match &self.grid {
            Grid::Every(micros) => {
                let number = time.micros().div_euclid(*micros);
                let at = |number: i64| Timestamp::from_micros(number.saturating_mul(*micros));
                (at(number), at(number.saturating_add(1)))
            }
            Grid::Starts(starts) => {
                let place = starts.partition_point(|start| *start <= time);
                (*starts.get(place.checked_sub(1)?)?, starts.get(place).copied().unwrap_or(self.to))
            }
        };
        Some((start, end.min(self.to)))
    }

    /// When the first bucket begins; none where there is none.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        self.bucket(self.begin()).map(|(start, _)| start)
    }

    /// The first time that is in a bucket; its end where there is none.
    fn begin(&self) -> Timestamp {
        match &self.grid {
            Grid::Every(_) => self.from,
            Grid::Starts(starts) => starts.first().map_or(self.to, |start| self.from.max(*start)),
        }
    }

    /// When the bucket begins that follows the one that begins at `start`; none behind the last.
    #[must_use]
    pub fn next(&self, start: Timestamp) -> Option<Timestamp> {
        let (_, end) = self.bucket(start.max(self.from))?;
        (end < self.to).then_some(end)
    }

    /// Whether all of a span is in one bucket.
    #[must_use]
    pub fn holds(&self, span: Span) -> bool {
        let bucket = self.bucket(span.first);
        bucket.is_some() && bucket == self.bucket(span.last)
    }
}

/// The samples of one stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bucket {
    /// From here on.
    pub start: Timestamp,
    /// Up to, and without.
    pub end: Timestamp,
    /// Where what is asked for begins in it.
    pub from: Timestamp,
    /// How many samples may be trusted how far, and the numbers that are not bad.
    pub summary: Summary,
    /// The number that stood when it began.
    pub standing: Option<f64>,
    /// All numbers, ascending, where [`Needs::numbers`] says so.
    pub sorted: Vec<f64>,
    /// What its samples hold, where [`Needs::data`] says so.
    pub data: Extent,
}

/// What samples hold that are not bad.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extent {
    /// How many are not nothing.
    pub count: u64,
    /// The first and the last that is not nothing.
    pub ends: Option<(Datum, Datum)>,
    /// The smallest and the greatest number.
    pub extremes: Option<(Datum, Datum)>,
    /// All reasons against them, and against those that are nothing.
    pub reasons: Quality,
}

impl Extent {
    fn is_told(&self) -> bool {
        self.count > 0 || self.reasons != Quality::GOOD
    }

    fn add(&mut self, count: u64, ends: (Datum, Datum), extremes: Option<(Datum, Datum)>) {
        self.count += count;
        let (first, last) = ends;
        self.ends = Some((self.ends.take().map_or(first, |(first, _)| first), last));
        if let Some((low, high)) = extremes {
            let (least, most) = self.extremes.take().unwrap_or_else(|| (low.clone(), high.clone()));
            let least = if low.as_f64() < least.as_f64() { low } else { least };
            let most = if high.as_f64() > most.as_f64() { high } else { most };
            self.extremes = Some((least, most));
        }
    }

    fn add_stretch(&mut self, stretch: &Stretch<'_>) {
        self.reasons = self.reasons.with(stretch.quality);
        let (count, at) = (stretch.times.len(), |place| stretch.data.at(place));
        if count == 0 || matches!(stretch.data, Data::Nulls) {
            return;
        }
        let number = |place: &usize| at(*place).as_f64().filter(|number| !number.is_nan());
        let numbers = || (0..count).filter_map(|place| number(&place).map(|number| (number, place)));
        let least = numbers().min_by(|one, other| one.0.total_cmp(&other.0));
        let most = numbers().max_by(|one, other| one.0.total_cmp(&other.0));
        let extremes = least.zip(most).map(|((_, low), (_, high))| (at(low), at(high)));
        self.add(count as u64, (at(0), at(count - 1)), extremes);
    }

    /// Of a summary that is uniform.
    fn add_summary(&mut self, summary: &Summary) {
        let Some((numbers, kind)) = summary.numbers.and_then(|numbers| Some((numbers, numbers.kind?))) else { return };
        self.reasons = self.reasons.with(numbers.reasons);
        let pair = |one, other| (kind.datum(one), kind.datum(other));
        let (ends, extremes) = (pair(numbers.first.1, numbers.last.1), pair(numbers.min, numbers.max));
        self.add(numbers.count, ends, Some(extremes));
    }
}

impl Bucket {
    /// An empty one.
    fn begin(&mut self, from: Timestamp, standing: Option<f64>) {
        (self.from, self.standing) = (from, standing);
        self.summary = Summary::default();
        self.sorted.clear();
        if self.data.is_told() {
            self.data = Extent::default();
        }
    }

    /// The mean of the numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.summary.numbers.map(|numbers| numbers.sum / as_f64(numbers.count))
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
                let width = between(self.from, until);
                (standing * width, width)
            })
        };
        match &self.summary.numbers {
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
        self.summary.add(stretch);
        if stretch.quality.validity() == Validity::Bad {
            return;
        }
        if needs.numbers {
            let numbers = (0..stretch.times.len()).filter_map(|place| stretch.data.at(place).as_f64());
            self.sorted.extend(numbers.filter(|number| !number.is_nan()));
        }
        if needs.data {
            self.data.add_stretch(stretch);
        }
    }
}

/// What is asked of buckets beyond what summaries always say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Every number, for percentiles.
    pub numbers: bool,
    /// What samples hold: first, last, smallest, greatest as they are, and how many there are.
    pub data: bool,
}

impl Needs {
    /// Whether a summary says all of it.
    #[must_use]
    pub fn fits(self, summary: &Summary) -> bool {
        !self.numbers && (!self.data || summary.is_uniform())
    }
}

/// Takes of a bucket that gets no more samples what is wanted of it.
pub type Take<T> = Box<dyn Fn(&Bucket) -> Option<T> + Send>;

/// Buckets as they are filled, in order of time.
pub struct Buckets<T> {
    frame: Frame,
    needs: Needs,
    take: Take<T>,
    /// The number that stood before what comes next.
    standing: Option<f64>,
    done: VecDeque<T>,
    /// The bucket that is being filled, where one is.
    bucket: Bucket,
    is_open: bool,
}

impl<T> Buckets<T> {
    /// Empty buckets; `standing` is the number before the frame.
    #[must_use]
    pub fn new(frame: Frame, needs: Needs, standing: Option<f64>, take: Take<T>) -> Self {
        let bucket = Bucket::default();
        Self { frame, needs, take, standing, done: VecDeque::new(), bucket, is_open: false }
    }

    /// Which time, and which buckets.
    #[must_use]
    pub const fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Adds what a chunk says of itself that is wholly in one bucket, behind all that was added, and [fits](Needs::fits).
    pub fn add_summary(&mut self, first: Timestamp, summary: &Summary) {
        let needs = self.needs;
        if let Some(bucket) = self.bucket(first) {
            bucket.summary.append(summary);
            if needs.data {
                bucket.data.add_summary(summary);
            }
        }
    }

    /// Adds samples, which are sorted and behind all that was added. Those outside the frame are left out.
    pub fn add_samples(&mut self, column: &Column) {
        self.add_samples_from(column, 0);
    }

    /// The same, without the first `skipped` ones.
    pub fn add_samples_from(&mut self, column: &Column, mut skipped: usize) {
        for whole in column.stretches() {
            let (left_out, mut stretch) = whole.split_at(skipped.min(whole.times.len()));
            skipped -= left_out.times.len();
            while let Some(first) = stretch.times.first() {
                let first = Timestamp::from_micros(*first);
                let is_inside = self.bucket(first).is_some();
                if !is_inside && first >= self.frame.to {
                    break;
                }
                let until = if is_inside { self.bucket.end } else { self.frame.begin() };
                let (part, rest) = stretch.split_at(count_before(stretch.times, until.micros()).max(1));
                if is_inside {
                    self.bucket.add_stretch(&part, self.needs);
                }
                stretch = rest;
            }
        }
    }

    /// The bucket of a time, which is that of the last one or behind it; none outside the frame.
    fn bucket(&mut self, time: Timestamp) -> Option<&mut Bucket> {
        if self.is_open && time >= self.bucket.from && time < self.bucket.end {
            return Some(&mut self.bucket);
        }
        let (start, end) = self.frame.bucket(time)?;
        self.close();
        self.bucket.begin(start.max(self.frame.from), self.standing);
        (self.bucket.start, self.bucket.end, self.is_open) = (start, end, true);
        Some(&mut self.bucket)
    }

    fn close(&mut self) {
        if core::mem::take(&mut self.is_open) {
            self.bucket.sorted.sort_by(f64::total_cmp);
            self.standing = self.bucket.summary.numbers.map(|numbers| numbers.last.1).or(self.standing);
            if let Some(taken) = (self.take)(&self.bucket) {
                self.done.push_back(taken);
            }
        }
    }

    /// Of how many buckets what was taken was not given out.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done.len()
    }

    /// What was taken of all buckets that get no more samples.
    #[must_use]
    pub fn take_done(&mut self) -> VecDeque<T> {
        core::mem::take(&mut self.done)
    }

    /// Forgets the bucket that is being filled, and says from where on its samples are to be added again; none where there is none.
    pub fn discard_open(&mut self) -> Option<Timestamp> {
        core::mem::take(&mut self.is_open).then_some(self.bucket.from)
    }

    /// What was taken of the next bucket that gets no more samples.
    pub fn poll(&mut self) -> Option<T> {
        self.done.pop_front()
    }

    /// All has been added: the last bucket gets no more samples.
    pub fn finish(&mut self) {
        self.close();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean is a double, and so is what it is divided by")]
const fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests;
