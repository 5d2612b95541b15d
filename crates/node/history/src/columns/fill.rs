//! What stands for a bucket without samples.

use std::mem;
use tieline_core::{Point, Quality, Timestamp, Topic, Validity, Value, Words};
use tieline_series::Frame;
use tieline_store::Row;

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

/// The rows of a topic, with those that stand for buckets without samples. Such a row is uncertain and counts no samples.
#[derive(Debug)]
pub(super) struct Filler {
    fill: Fill,
    topic: Topic,
    frame: Frame,
    /// The bucket that comes next; none behind the last.
    next: Option<Timestamp>,
    before: Option<Point>,
    /// The next row that is there.
    row: Option<Row>,
    is_finished: bool,
}

impl Filler {
    pub(super) fn new(fill: Fill, topic: Topic, frame: Frame) -> Self {
        let next = frame.first();
        Self { fill, topic, frame, next, before: None, row: None, is_finished: false }
    }

    /// The row that comes next; none until another is given by [`Filler::push`], or after [`Filler::finish`].
    pub(super) fn poll(&mut self) -> Option<Row> {
        let start = self.next?;
        let is_gap = self.row.as_ref().is_none_or(|row| start < row.point.time);
        if is_gap && self.row.is_none() && !self.is_finished {
            return None;
        }
        self.next = self.frame.next(start);
        if is_gap {
            return Some(self.made(start));
        }
        let row = mem::take(&mut self.row);
        self.before = row.as_ref().map(|row| row.point.clone()).or(mem::take(&mut self.before));
        row
    }

    /// Gives the next row that is there.
    pub(super) fn push(&mut self, row: Row) {
        self.row = Some(row);
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// There are no more rows.
    pub(super) const fn finish(&mut self) {
        self.is_finished = true;
    }

    fn made(&self, start: Timestamp) -> Row {
        let value = match self.fill {
            Fill::None | Fill::Null => None,
            Fill::Previous => self.before.as_ref().map(|point| point.value.clone()),
            Fill::Linear => self.between(start).map(Value::Float),
        };
        let quality = Quality::GOOD.with_validity(Validity::Uncertain);
        let point = Point { value: value.unwrap_or(Value::Null), quality, time: start };
        Row { topic: self.topic.clone(), point, is_payload: false, count: 0, number: 0, edited: None }
    }

    #[expect(clippy::cast_precision_loss, reason = "a share of a time is a double")]
    fn between(&self, start: Timestamp) -> Option<f64> {
        let (before, behind) = (self.before.as_ref()?, &self.row.as_ref()?.point);
        let (low, high) = (before.value.as_f64()?, behind.value.as_f64()?);
        let since = |time: Timestamp| time.micros().saturating_sub(before.time.micros()) as f64;
        Some(low + (high - low) * (since(start) / since(behind.time)))
    }
}
