//! Fewer samples in the place of many: one value, or the extremes, for each interval of a topic.
//!
//! ```text
//! time      |  interval  |  interval  |
//! samples   . . . . . . . x x x . . . .      x bad
//!           [  piece    ] ^     [piece]      a piece: samples of one interval with no bad one between them
//!              └ mean, last or extremes      ^ the first bad one of a run stays
//! ```
//!
//! What comes out of samples that went through the same or a smaller interval is what comes out of the originals, except for the mean: there
//! each mean counts as one sample.

use crate::column::{Column, Data, Datum, Sample, Stretch};
use crate::times::count_before;
use alloc::vec::Vec;
use core::cmp::Ordering;
use tieline_core::{Quality, Timestamp, Validity, Words};

/// What stands for the samples of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The mean of doubles and integers, at the beginning of the interval, or where a bad run ended in it; of all else the last.
    Mean,
    /// The last sample.
    Last,
    /// The first, the smallest, the greatest and the last number; of all else the last.
    Extremes,
}

impl Words for Keep {
    const WORDS: &'static [(&'static str, Self)] =
        &[("mean", Self::Mean), ("last", Self::Last), ("extremes", Self::Extremes)];
}

/// Takes the samples of a topic in order of time, and gives those that stand for them. It never gives more than it took.
#[derive(Debug)]
pub struct Downsampler {
    every: i64,
    keep: Keep,
    piece: Option<Piece>,
    /// Whether the last sample was bad.
    is_bad: bool,
    done: Column,
}

/// A sample and its place among those of its piece.
type Placed = (u64, Sample);

/// Samples of one interval with no bad one between them, as far as they are taken.
#[derive(Debug, Default)]
struct Piece {
    /// The end of the interval.
    end: i64,
    /// The time of a mean: the beginning of the interval, or the first sample behind a bad one.
    stamp: i64,
    count: u64,
    sum: Sum,
    /// First, smallest, greatest, last number.
    extremes: Option<[Placed; 4]>,
    /// The last sample that is no number.
    other: Option<Placed>,
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    sum: f64,
    reasons: Quality,
}

impl Downsampler {
    /// Intervals begin at the multiples of so many microseconds since 1970, one at least.
    #[must_use]
    pub fn new(every: i64, keep: Keep) -> Self {
        Self { every: every.max(1), keep, piece: None, is_bad: false, done: Column::default() }
    }

    /// Takes samples, sorted and behind all that were taken.
    pub fn push(&mut self, column: &Column) {
        for mut stretch in column.stretches() {
            if stretch.quality.validity() == Validity::Bad {
                self.close();
                if !self.is_bad
                    && let Some(first) = stretch.sample(0)
                {
                    self.done.push(first);
                }
                self.is_bad = true;
                continue;
            }
            while let Some(first) = stretch.times.first().copied() {
                if self.piece.as_ref().is_some_and(|piece| first >= piece.end) {
                    self.close();
                }
                let (keep, every, was_bad) = (self.keep, self.every, self.is_bad);
                let piece = self.piece.get_or_insert_with(|| {
                    let start = first.div_euclid(every).saturating_mul(every);
                    Piece {
                        end: start.saturating_add(every),
                        stamp: if was_bad { first } else { start },
                        ..Piece::default()
                    }
                });
                self.is_bad = false;
                let length = count_before(stretch.times, piece.end).max(1);
                let (part, rest) = stretch.split_at(length);
                piece.add(&part, keep);
                stretch = rest;
            }
        }
    }

    /// What stands for samples that were taken, as far as that is known.
    pub fn take(&mut self) -> Column {
        core::mem::take(&mut self.done)
    }

    /// All was taken: the rest.
    #[must_use]
    pub fn finish(mut self) -> Column {
        self.close();
        self.done
    }

    fn close(&mut self) {
        let Some(piece) = self.piece.take() else { return };
        match self.keep {
            Keep::Mean => piece.put_mean(&mut self.done),
            Keep::Last | Keep::Extremes => piece.put_samples(&mut self.done),
        }
    }
}

impl Piece {
    fn add(&mut self, stretch: &Stretch<'_>, keep: Keep) {
        match (keep, stretch.data) {
            (Keep::Mean, Data::Floats(floats)) => {
                self.average(floats.iter().copied().filter(|number| !number.is_nan()), stretch.quality);
                if let Some(place) = floats.iter().rposition(|number| number.is_nan()) {
                    self.note_other(stretch, place);
                }
            }
            (Keep::Mean, Data::Ints(integers)) => {
                #[expect(clippy::cast_precision_loss, reason = "a mean is a double")]
                self.average(integers.iter().map(|number| *number as f64), stretch.quality);
            }
            (Keep::Extremes, Data::Floats(_) | Data::Ints(_) | Data::Bools(_)) => self.rank(stretch),
            (Keep::Mean | Keep::Last | Keep::Extremes, _) => {
                self.note_other(stretch, stretch.times.len().saturating_sub(1));
            }
        }
        self.count += stretch.times.len() as u64;
    }

    fn average(&mut self, numbers: impl Iterator<Item = f64>, quality: Quality) {
        let before = self.sum.count;
        for number in numbers {
            self.sum.sum += number;
            self.sum.count += 1;
        }
        if self.sum.count > before {
            self.sum.reasons = self.sum.reasons.with(quality);
        }
    }

    fn note_other(&mut self, stretch: &Stretch<'_>, place: usize) {
        if let Some(sample) = stretch.sample(place) {
            self.other = Some((self.count + place as u64, sample));
        }
    }

    fn rank(&mut self, stretch: &Stretch<'_>) {
        let is_number = |place: &usize| !matches!(stretch.data, Data::Floats(floats) if floats.get(*place).is_some_and(|number| number.is_nan()));
        let mut places = (0..stretch.times.len()).filter(is_number);
        if let Some(first) = places.next() {
            let (mut least, mut most, mut last) = (first, first, first);
            for place in places {
                let is = |than: usize| order(&stretch.data.at(place), &stretch.data.at(than));
                least = if is(least) == Ordering::Less { place } else { least };
                most = if is(most) == Ordering::Greater { place } else { most };
                last = place;
            }
            let placed = |place: usize| Some((self.count + place as u64, stretch.sample(place)?));
            if let (Some(first), Some(low), Some(high), Some(last)) =
                (placed(first), placed(least), placed(most), placed(last))
            {
                self.extremes = Some(match self.extremes.take() {
                    None => [first, low, high, last],
                    Some([begun, least, most, _]) => {
                        let is_lower = order(&low.1.datum, &least.1.datum) == Ordering::Less;
                        let is_higher = order(&high.1.datum, &most.1.datum) == Ordering::Greater;
                        [begun, if is_lower { low } else { least }, if is_higher { high } else { most }, last]
                    }
                });
            }
        }
        if let Some(place) = (0..stretch.times.len()).rev().find(|place| !is_number(place)) {
            self.note_other(stretch, place);
        }
    }

    fn put_mean(self, out: &mut Column) {
        let Self { stamp, sum, other, .. } = self;
        if sum.count > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a mean is a double")]
            let datum = Datum::Float(sum.sum / sum.count as f64);
            out.push(Sample { time: Timestamp::from_micros(stamp), datum, quality: sum.reasons });
        }
        if let Some((_, sample)) = other {
            out.push(sample);
        }
    }

    /// Those that stay as they were measured, in their order.
    fn put_samples(self, out: &mut Column) {
        let mut stay: Vec<Placed> = self.extremes.into_iter().flatten().chain(self.other).collect();
        stay.sort_by_key(|(place, _)| *place);
        stay.dedup_by_key(|(place, _)| *place);
        stay.into_iter().for_each(|(_, sample)| out.push(sample));
    }
}

/// The order of numbers; integers are compared exactly.
fn order(one: &Datum, other: &Datum) -> Ordering {
    match (one, other) {
        (Datum::Int(one), Datum::Int(other)) => one.cmp(other),
        (one, other) => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
    }
}

#[cfg(test)]
mod tests;
