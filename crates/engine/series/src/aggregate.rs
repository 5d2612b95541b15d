//! What stands for the samples of a bucket.

use crate::buckets::{Bucket, Needs};
use crate::column::Datum;
use tieline_core::{Quality, Words};

/// What stands for the samples of a bucket. Samples of bad quality are left out.
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
    /// Numbers times seconds, each for as long as it stood: energy in joules of power in watts.
    Integral,
    /// The number below which so many hundredths of the numbers lie.
    Percentile(u8),
}

/// One value for a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregated {
    /// What it is.
    pub datum: Datum,
    /// All reasons against the samples that it is made of.
    pub quality: Quality,
    /// How many they are.
    pub count: u64,
}

impl Words for Aggregate {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("mean", Self::Mean),
        ("time_weighted", Self::TimeWeighted),
        ("min", Self::Min),
        ("max", Self::Max),
        ("sum", Self::Sum),
        ("first", Self::First),
        ("last", Self::Last),
        ("count", Self::Count),
        ("integral", Self::Integral),
        ("median", Self::Percentile(50)),
        ("p90", Self::Percentile(90)),
        ("p95", Self::Percentile(95)),
        ("p99", Self::Percentile(99)),
    ];
}

impl Aggregate {
    /// What it needs of buckets.
    #[must_use]
    pub const fn needs(self) -> Needs {
        match self {
            Self::Mean | Self::TimeWeighted | Self::Sum | Self::Integral => Needs { numbers: false, data: false },
            Self::Min | Self::Max | Self::First | Self::Last | Self::Count => Needs { numbers: false, data: true },
            Self::Percentile(_) => Needs { numbers: true, data: false },
        }
    }

    /// Whether it depends on the number that stood before.
    #[must_use]
    pub const fn needs_standing(self) -> bool {
        matches!(self, Self::TimeWeighted | Self::Integral)
    }

    /// The value of a bucket; none where it has no sample that counts.
    #[must_use]
    pub fn of(self, bucket: &Bucket) -> Option<Aggregated> {
        let data = &bucket.data;
        let of_numbers = |number: f64| {
            let numbers = bucket.summary.numbers?;
            Some(Aggregated { datum: Datum::Float(number), quality: numbers.reasons, count: numbers.count })
        };
        let of_data = |datum: Datum| Some(Aggregated { datum, quality: data.reasons, count: data.count });
        match self {
            Self::Mean => of_numbers(bucket.mean()?),
            Self::TimeWeighted => of_numbers(bucket.time_weighted()?),
            Self::Integral => of_numbers(bucket.integral()?),
            Self::Sum => of_numbers(bucket.summary.numbers?.sum),
            Self::Percentile(hundredths) => of_numbers(bucket.percentile(f64::from(hundredths) / 100.0)?),
            Self::Min | Self::Max => {
                let (numbers, (low, high)) = (bucket.summary.numbers?, data.extremes.clone()?);
                let datum = if self == Self::Min { low } else { high };
                Some(Aggregated { datum, quality: numbers.reasons, count: numbers.count })
            }
            Self::First => of_data(data.ends.clone()?.0),
            Self::Last => of_data(data.ends.clone()?.1),
            Self::Count => {
                let count = bucket.summary.validities.good + bucket.summary.validities.uncertain;
                let datum = Datum::Int(count.cast_signed());
                (count > 0).then_some(Aggregated { datum, quality: data.reasons, count })
            }
        }
    }
}
