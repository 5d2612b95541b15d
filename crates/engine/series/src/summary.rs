//! What a chunk tells without being decoded.

use crate::SeriesError;
use crate::column::{Column, Data, Datum, Stretch};
use alloc::vec::Vec;
use tieline_core::{Cursor, Quality, Timestamp, Validity, varint};

/// How many samples may be trusted how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidityCounts {
    /// Good.
    pub good: u64,
    /// Uncertain.
    pub uncertain: u64,
    /// Bad.
    pub bad: u64,
}

impl ValidityCounts {
    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.good + self.uncertain + self.bad
    }
}

/// The numbers among samples that are not bad; not-a-number is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The smallest.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The earliest and when.
    pub first: (Timestamp, f64),
    /// The latest and when.
    pub last: (Timestamp, f64),
    /// Each number times the microseconds to the next, from the first to the last.
    pub area: f64,
    /// All reasons against them.
    pub reasons: Quality,
    /// Whether all are doubles, all integers that a double holds, or all two-state values: then what is here is exact.
    pub kind: Option<NumberKind>,
}

/// What all numbers of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Doubles.
    Float,
    /// Integers below 2^53.
    Int,
    /// Two-state values.
    Bool,
}

/// What samples are together, in order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many may be trusted how far.
    pub validities: ValidityCounts,
    /// The numbers; none where there are none.
    pub numbers: Option<Numbers>,
}

/// An integer beyond it may not be a double.
const EXACT_MAX: u64 = 1 << 53;

impl Summary {
    /// The summary of samples, in order of time.
    #[must_use]
    pub fn of(column: &Column) -> Self {
        let mut summary = Self::default();
        column.stretches().for_each(|stretch| summary.add(&stretch));
        summary
    }

    /// Adds samples that follow in time.
    pub(crate) fn append(&mut self, others: &Self) {
        self.validities.good += others.validities.good;
        self.validities.uncertain += others.validities.uncertain;
        self.validities.bad += others.validities.bad;
        self.numbers = match (&self.numbers, &others.numbers) {
            (Some(numbers), Some(others)) => Some(numbers.followed_by(others)),
            (numbers, others) => numbers.or(*others),
        };
    }

    pub(crate) fn add(&mut self, stretch: &Stretch<'_>) {
        let ValidityCounts { good, uncertain, bad } = &mut self.validities;
        let count = match stretch.quality.validity() {
            Validity::Good => good,
            Validity::Uncertain => uncertain,
            Validity::Bad => bad,
        };
        *count += stretch.times.len() as u64;
        if stretch.quality.validity() == Validity::Bad {
            return;
        }
        let times = stretch.times.iter().copied();
        let (added, kind) = match stretch.data {
            Data::Floats(floats) => (Numbers::of(times.zip(floats.iter().copied())), Some(NumberKind::Float)),
            Data::Ints(integers) => {
                let is_exact = integers.iter().all(|integer| integer.unsigned_abs() <= EXACT_MAX);
                (Numbers::of(times.zip(integers.iter().map(as_f64))), is_exact.then_some(NumberKind::Int))
            }
            Data::Bools(states) => (Numbers::of(times.zip(states.iter().map(as_f64))), Some(NumberKind::Bool)),
            Data::Texts(_) | Data::Bytes(_) | Data::Nulls | Data::Opaque(_) => return,
        };
        let Some(added) = added else { return };
        let added = Numbers { reasons: stretch.quality, kind, ..added };
        self.numbers = Some(self.numbers.map_or(added, |numbers| numbers.followed_by(&added)));
    }

    /// Appends the summary as bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        let ValidityCounts { good, uncertain, bad } = self.validities;
        [good, uncertain, bad].into_iter().for_each(|count| varint::put(out, count));
        let Some(numbers) = &self.numbers else { return varint::put(out, 0) };
        varint::put(out, numbers.count);
        out.push(numbers.kind.map_or(0, |kind| kind as u8 + 1));
        varint::put(out, numbers.reasons.bits().into());
        for (time, number) in [numbers.first, numbers.last] {
            varint::put_signed(out, time.micros());
            out.extend(number.to_le_bytes());
        }
        for number in [numbers.sum, numbers.min, numbers.max, numbers.area] {
            out.extend(number.to_le_bytes());
        }
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// The bytes are none that [`Summary::put`] writes.
    pub fn get(cursor: &mut Cursor<'_>) -> Result<Self, SeriesError> {
        let mut count = || varint::get(cursor);
        let validities = ValidityCounts { good: count()?, uncertain: count()?, bad: count()? };
        let count = varint::get(cursor)?;
        if count == 0 {
            return Ok(Self { validities, numbers: None });
        }
        let kind = NumberKind::from_number(cursor.u8()?).ok_or(SeriesError::Illegal("kind of numbers"))?;
        let reasons = u16::try_from(varint::get(cursor)?).map_err(|_| SeriesError::Illegal("quality"))?;
        let mut end = || Ok::<_, SeriesError>((Timestamp::from_micros(varint::get_signed(cursor)?), cursor.f64_le()?));
        let (first, last) = (end()?, end()?);
        let (sum, min, max, area) = (cursor.f64_le()?, cursor.f64_le()?, cursor.f64_le()?, cursor.f64_le()?);
        let reasons = Quality::from_bits(reasons);
        Ok(Self { validities, numbers: Some(Numbers { count, sum, min, max, first, last, area, reasons, kind }) })
    }
}

impl Numbers {
    /// What numbers at times are together, without what is against them; none where all are not-a-number.
    fn of(numbers: impl Iterator<Item = (i64, f64)>) -> Option<Self> {
        let mut numbers = numbers.filter(|(_, number)| !number.is_nan());
        let (time, number) = numbers.next()?;
        let (mut count, mut sum, mut min, mut max, mut area) = (1, number, number, number, 0.0);
        let (mut since, mut standing) = (time, number);
        for (time, number) in numbers {
            count += 1;
            sum += number;
            min = if number < min { number } else { min };
            max = if number > max { number } else { max };
            area += standing * micros_between(since, time);
            (since, standing) = (time, number);
        }
        let at = |time, number| (Timestamp::from_micros(time), number);
        let (first, last) = (at(time, number), at(since, standing));
        Some(Self { count, sum, min, max, first, last, area, reasons: Quality::GOOD, kind: None })
    }

    /// These numbers, and others that follow them in time.
    #[must_use]
    pub fn followed_by(&self, others: &Self) -> Self {
        let gap = micros_between(self.last.0.micros(), others.first.0.micros());
        Self {
            count: self.count + others.count,
            sum: self.sum + others.sum,
            min: self.min.min(others.min),
            max: self.max.max(others.max),
            first: self.first,
            last: others.last,
            area: self.area + self.last.1 * gap + others.area,
            reasons: self.reasons.with(others.reasons),
            kind: self.kind.filter(|kind| Some(*kind) == others.kind),
        }
    }
}

impl Summary {
    /// Whether all samples that are not bad are numbers of one kind: then the summary says of each what it is.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        let trusted = self.validities.good + self.validities.uncertain;
        self.numbers.map_or(trusted == 0, |numbers| numbers.count == trusted && numbers.kind.is_some())
    }
}

impl NumberKind {
    /// A number of this kind.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "integers of this kind are below 2^53")]
    pub fn datum(self, number: f64) -> Datum {
        match self {
            Self::Float => Datum::Float(number),
            Self::Int => Datum::Int(number as i64),
            Self::Bool => Datum::Bool(number != 0.0),
        }
    }

    /// The kind of a stored number; 0 is of several.
    const fn from_number(number: u8) -> Option<Option<Self>> {
        match number {
            0 => Some(None),
            1 => Some(Some(Self::Float)),
            2 => Some(Some(Self::Int)),
            3 => Some(Some(Self::Bool)),
            _ => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an area is a double")]
const fn micros_between(since: i64, until: i64) -> f64 {
    until.saturating_sub(since) as f64
}

#[expect(clippy::cast_precision_loss, reason = "a sum takes doubles; the exact integer stays in the sample")]
const fn as_f64(integer: &i64) -> f64 {
    *integer as f64
}
