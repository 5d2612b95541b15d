//! What stands for a bucket without samples.

use super::walk::Shown;
use std::mem;
use tieline_core::{Quality, Timestamp, Validity, Words};
use tieline_series::{Aggregated, Datum, Frame};

/// What stands for a bucket without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Nothing: there is no row.
    #[default]
    None,
    /// A row without a value.
    Null,
    /// The value of the last bucket before that has one.
    Previous,
    /// A number between those of the buckets before and behind that have one, in proportion to the time.
    Linear,
}

impl Words for Fill {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("null", Self::Null), ("previous", Self::Previous), ("linear", Self::Linear)];
}

/// The buckets of a topic, with those that have no samples. What stands for such a bucket is uncertain and counts no samples.
#[derive(Debug)]
pub(super) struct Filler {
    fill: Fill,
    frame: Frame,
    /// The bucket that comes next; none behind the last.
    next: Option<Timestamp>,
    before: Option<(Timestamp, Datum)>,
    /// The next bucket that has samples.
    behind: Option<Shown>,
    is_finished: bool,
}

impl Filler {
    pub(super) fn new(fill: Fill, frame: Frame) -> Self {
        let next = frame.first();
        Self { fill, frame, next, before: None, behind: None, is_finished: false }
    }

    /// The bucket that comes next; none until another is given by [`Filler::push`], or after [`Filler::finish`].
    pub(super) fn poll(&mut self) -> Option<Shown> {
        let start = self.next?;
        let is_gap = self.behind.as_ref().is_none_or(|(behind, ..)| start < *behind);
        if is_gap && self.behind.is_none() && !self.is_finished {
            return None;
        }
        self.next = self.frame.next(start);
        if is_gap {
            return Some(self.made(start));
        }
        let shown = mem::take(&mut self.behind);
        if let Some((start, found, _)) = &shown {
            self.before = Some((*start, found.datum.clone()));
        }
        shown
    }

    /// Gives the next bucket that has samples.
    pub(super) fn push(&mut self, shown: Shown) {
        self.behind = Some(shown);
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// No more buckets have samples.
    pub(super) const fn finish(&mut self) {
        self.is_finished = true;
    }

    fn made(&self, start: Timestamp) -> Shown {
        let datum = match self.fill {
            Fill::None | Fill::Null => None,
            Fill::Previous => self.before.as_ref().map(|(_, datum)| datum.clone()),
            Fill::Linear => self.between(start).map(Datum::Float),
        };
        let quality = Quality::GOOD.with_validity(Validity::Uncertain);
        (start, Aggregated { datum: datum.unwrap_or(Datum::Null), quality, count: 0 }, None)
    }

    #[expect(clippy::cast_precision_loss, reason = "a share of a time is a double")]
    fn between(&self, start: Timestamp) -> Option<f64> {
        let ((since, before), (until, behind, _)) = (self.before.as_ref()?, self.behind.as_ref()?);
        let (low, high) = (before.as_f64()?, behind.datum.as_f64()?);
        let width = |time: Timestamp| time.micros().saturating_sub(since.micros()) as f64;
        Some(low + (high - low) * (width(start) / width(*until)))
    }
}
