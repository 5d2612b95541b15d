//! The samples of one input in an interval.

use crate::expression::Windowed;
use crate::reading::{Reading, Scalar};
use tieline_core::{Quality, Timestamp, Validity};

/// The samples of one input in an interval, in order of time. Bad samples are left out, and where one stands no value stands.
#[derive(Clone, Debug)]
pub struct Window {
    end: Timestamp,
    /// Whether the input has had any sample.
    is_known: bool,
    count: u32,
    bad: u32,
    sum: f64,
    extremes: (f64, f64),
    ends: (f64, f64),
    /// Of the samples that count, and of the bad ones.
    quality: Quality,
    against: Quality,
    /// Of the number that stood when the interval began.
    standing: Quality,
    /// The number that stands, and since when in this interval.
    open: Option<(Timestamp, f64)>,
    /// Numbers times microseconds, and microseconds in which one stood.
    area: f64,
    width: f64,
}

impl Window {
    /// The interval from `start` to `end`; `before` is the last sample before it.
    #[must_use]
    pub fn new(start: Timestamp, end: Timestamp, before: Option<Reading>) -> Self {
        let number = before.and_then(|reading| reading.usable());
        let quality = before.map_or(Quality::GOOD, |reading| reading.quality);
        let is_bad = before.is_some() && number.is_none();
        Self {
            end,
            is_known: before.is_some(),
            count: 0,
            bad: 0,
            sum: 0.0,
            extremes: (f64::INFINITY, f64::NEG_INFINITY),
            ends: (0.0, 0.0),
            quality: Quality::GOOD,
            against: if is_bad { quality } else { Quality::GOOD },
            standing: if is_bad { Quality::GOOD } else { quality },
            open: number.map(|number| (start, number)),
            area: 0.0,
            width: 0.0,
        }
    }

    /// Takes the next sample.
    pub fn add(&mut self, time: Timestamp, reading: Reading) {
        self.close(time);
        self.is_known = true;
        let Some(number) = reading.usable() else {
            self.bad = self.bad.saturating_add(1);
            self.against = self.against.with(reading.quality);
            return;
        };
        let (low, high) = self.extremes;
        self.extremes = (low.min(number), high.max(number));
        self.ends = (if self.count == 0 { number } else { self.ends.0 }, number);
        self.count = self.count.saturating_add(1);
        self.sum += number;
        self.quality = self.quality.with(reading.quality);
        self.open = Some((time, number));
    }

    fn close(&mut self, time: Timestamp) {
        let (area, width) = self.closed(time);
        (self.area, self.width, self.open) = (area, width, None);
    }

    fn closed(&self, time: Timestamp) -> (f64, f64) {
        let Some((since, number)) = self.open else { return (self.area, self.width) };
        #[expect(clippy::cast_precision_loss, reason = "an interval is a day at most")]
        let width = time.micros().saturating_sub(since.micros()).max(0) as f64;
        (self.area + number * width, self.width + width)
    }

    /// What a function makes of it; none where the input has had no sample that says anything here.
    pub(crate) fn value(&self, windowed: Windowed) -> Option<Reading> {
        if !self.is_known {
            return None;
        }
        let (area, width) = self.closed(self.end);
        let stood = width > 0.0;
        let count = f64::from(self.count);
        let sampled = |number: f64| (self.count > 0).then_some((number, self.quality));
        let over_time = |number: f64| stood.then_some((number, self.quality.with(self.standing)));
        let found = match windowed {
            Windowed::Count => Some((count, self.quality)),
            Windowed::Mean => sampled(self.sum / count),
            Windowed::Sum => sampled(self.sum),
            Windowed::Min => sampled(self.extremes.0),
            Windowed::Max => sampled(self.extremes.1),
            Windowed::First => sampled(self.ends.0),
            Windowed::Last => sampled(self.ends.1),
            Windowed::Integral => over_time(area / 1e6),
            Windowed::TimeWeighted => over_time(area / width),
        };
        let is_against = self.bad > 0 || self.against != Quality::GOOD;
        match found {
            Some((number, quality)) => {
                let partly = quality.with(self.against).with_validity(Validity::Uncertain);
                let quality = if is_against { partly } else { quality };
                Some(Reading { value: Some(Scalar::Number(number)), quality })
            }
            None if is_against => Some(Reading { value: None, quality: self.against.with_validity(Validity::Bad) }),
            None => None,
        }
    }
}
