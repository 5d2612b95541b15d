//! Many samples, one number.

use tieline_core::{Point, Quality, Timestamp, Value};

/// What stands for the samples of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// The mean of the samples' numbers.
    #[default]
    Mean,
    /// The mean over time: each value counts for as long as it stood.
    TimeWeighted,
    /// The smallest.
    Min,
    /// The greatest.
    Max,
    /// The sum of the samples' numbers.
    Sum,
    /// The earliest.
    First,
    /// The latest.
    Last,
    /// How many samples there are.
    Count,
}

impl Aggregate {
    /// Every aggregate with its word in questions.
    pub const ALL: [(&'static str, Self); 8] = [
        ("mean", Self::Mean),
        ("time_weighted", Self::TimeWeighted),
        ("min", Self::Min),
        ("max", Self::Max),
        ("sum", Self::Sum),
        ("first", Self::First),
        ("last", Self::Last),
        ("count", Self::Count),
    ];

    /// The aggregate of that word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, aggregate)| *aggregate)
    }

    const fn takes(self, value: &Value) -> bool {
        match self {
            Self::Mean | Self::TimeWeighted | Self::Min | Self::Max | Self::Sum => match value.as_f64() {
                Some(x) => !x.is_nan(),
                None => false,
            },
            Self::First | Self::Last => !matches!(value, Value::Null),
            Self::Count => true,
        }
    }
}

/// The samples of one bucket so far, given in order of time, up or down.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    aggregate: Aggregate,
    pub(crate) start: i64,
    pub(crate) count: u64,
    quality: Quality,
    sum: f64,
    kept: Option<Point>,
    /// Time-weighted: the value that stands, since when, and the area so far with its width.
    standing: Option<(f64, i64)>,
    area: f64,
    width: f64,
}

impl Bucket {
    /// Begins at `start`; `standing` is the value from before, for the time-weighted mean.
    pub(crate) fn new(aggregate: Aggregate, start: i64, standing: Option<f64>) -> Self {
        Self {
            aggregate,
            start,
            count: 0,
            quality: Quality::GOOD,
            sum: 0.0,
            kept: None,
            standing: standing.map(|x| (x, start)),
            area: 0.0,
            width: 0.0,
        }
    }

    pub(crate) fn add(&mut self, point: Point) {
        if !self.aggregate.takes(&point.value) {
            return;
        }
        self.count += 1;
        self.quality = self.quality.with(point.quality);
        let number = point.value.as_f64().unwrap_or(0.0);
        self.sum += number;
        if self.aggregate == Aggregate::TimeWeighted {
            self.stand_until(point.time.micros());
            self.standing = Some((number, point.time.micros()));
        }
        let replaces = match (&self.kept, self.aggregate) {
            (None, _) => true,
            (Some(kept), Aggregate::Min) => kept.value.as_f64() > Some(number),
            (Some(kept), Aggregate::Max) => kept.value.as_f64() < Some(number),
            (Some(kept), Aggregate::First) => point.time < kept.time,
            (Some(kept), Aggregate::Last) => point.time >= kept.time,
            (Some(_), Aggregate::Mean | Aggregate::TimeWeighted | Aggregate::Sum | Aggregate::Count) => false,
        };
        if replaces {
            self.kept = Some(point);
        }
    }

    /// The value that stands when the bucket ends.
    pub(crate) fn standing(&self) -> Option<f64> {
        self.standing.map(|(x, _)| x)
    }

    /// The bucket as a point; none without samples. `end` closes the last stretch of the time-weighted mean.
    pub(crate) fn finish(mut self, end: i64) -> Option<Point> {
        let kept = self.kept.take()?;
        let value = match self.aggregate {
            Aggregate::Mean => Value::Float(self.sum / as_f64(self.count)),
            Aggregate::Sum => Value::Float(self.sum),
            Aggregate::Min | Aggregate::Max | Aggregate::First | Aggregate::Last => kept.value,
            Aggregate::Count => Value::Int(self.count.cast_signed()),
            Aggregate::TimeWeighted => {
                self.stand_until(end);
                Value::Float(if self.width > 0.0 { self.area / self.width } else { self.sum / as_f64(self.count) })
            }
        };
        Some(Point { value, quality: self.quality, time: Timestamp::from_micros(self.start) })
    }

    fn stand_until(&mut self, end: i64) {
        if let Some((value, since)) = self.standing {
            let width = as_f64(end.saturating_sub(since).max(0).cast_unsigned());
            self.area += value * width;
            self.width += width;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean is a double, and so is what it is divided by")]
const fn as_f64(n: u64) -> f64 {
    n as f64
}
