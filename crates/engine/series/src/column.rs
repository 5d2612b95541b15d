//! Samples in memory, field by field.

use crate::runs::Runs;
use crate::times::count_before;
use alloc::vec::Vec;
use bytes::Bytes;
use core::ops::Range;
use hashbrown::HashSet;
use tieline_core::{Body, Point, Quality, Timestamp, Value};

/// What a sample holds, as history keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// A double.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A two-state value.
    Bool(bool),
    /// Words, UTF-8.
    Text(Bytes),
    /// Bytes without a known meaning.
    Bytes(Bytes),
    /// Nothing is known.
    Null,
    /// A payload as it was published, which is no point.
    Opaque(Bytes),
}

/// One sample of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub time: Timestamp,
    /// What.
    pub datum: Datum,
    /// How far it may be trusted.
    pub quality: Quality,
}

impl Sample {
    /// The sample of a body. A point's own time is not looked at.
    #[must_use]
    pub fn new(time: Timestamp, body: &Body) -> Self {
        let (datum, quality) = match body {
            Body::Opaque(payload) => (Datum::Opaque(payload.clone()), Quality::GOOD),
            Body::Point(point) => (Datum::of(&point.value), point.quality),
            Body::Published(point) => (Datum::of(point.value()), point.quality()),
        };
        Self { time, datum, quality }
    }
}

impl Sample {
    /// The body of the sample. A payload is as it was published; all else is a point.
    #[must_use]
    pub fn into_body(self) -> Body {
        let Self { time, datum, quality } = self;
        match datum {
            Datum::Opaque(payload) => Body::Opaque(payload),
            datum => Body::Point(Point { value: datum.into_value(), quality, time }),
        }
    }

    /// What it is besides its time, so that equal samples are found: not-a-number is equal to itself, and 0 is not -0.
    fn identity(&self) -> (Kind, u64, Bytes, u16) {
        let (bits, blob) = match &self.datum {
            Datum::Float(double) => (double.to_bits(), Bytes::new()),
            Datum::Int(integer) => (integer.cast_unsigned(), Bytes::new()),
            Datum::Bool(state) => (u64::from(*state), Bytes::new()),
            Datum::Text(bytes) | Datum::Bytes(bytes) | Datum::Opaque(bytes) => (0, bytes.clone()),
            Datum::Null => (0, Bytes::new()),
        };
        (self.datum.kind(), bits, blob, self.quality.bits())
    }
}

impl Datum {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(state) => Self::Bool(*state),
            Value::Int(integer) => Self::Int(*integer),
            Value::Float(double) => Self::Float(*double),
            Value::Text(text) => Self::Text(Bytes::copy_from_slice(text.as_bytes())),
            Value::Bytes(bytes) => Self::Bytes(Bytes::copy_from_slice(bytes)),
        }
    }

    /// The value. A payload as published is text where it is UTF-8, else bytes.
    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Self::Float(double) => Value::Float(double),
            Self::Int(integer) => Value::Int(integer),
            Self::Bool(state) => Value::Bool(state),
            Self::Null => Value::Null,
            Self::Bytes(bytes) => Value::Bytes(bytes.as_ref().into()),
            Self::Text(bytes) | Self::Opaque(bytes) => match str::from_utf8(&bytes) {
                Ok(text) => Value::Text(text.into()),
                Err(_) => Value::Bytes(bytes.as_ref().into()),
            },
        }
    }

    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Float(_) => Kind::Float,
            Self::Int(_) => Kind::Int,
            Self::Bool(_) => Kind::Bool,
            Self::Text(_) => Kind::Text,
            Self::Bytes(_) => Kind::Bytes,
            Self::Null => Kind::Null,
            Self::Opaque(_) => Kind::Opaque,
        }
    }

    /// The value as a number: `true` is 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a sum takes doubles; the exact integer stays in the sample")]
    pub const fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(double) => Some(*double),
            Self::Int(integer) => Some(*integer as f64),
            Self::Bool(state) => Some(if *state { 1.0 } else { 0.0 }),
            Self::Text(_) | Self::Bytes(_) | Self::Null | Self::Opaque(_) => None,
        }
    }
}

/// Samples of one kind and one quality.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'c> {
    pub(crate) times: &'c [i64],
    pub(crate) data: Data<'c>,
    pub(crate) quality: Quality,
}

impl<'c> Stretch<'c> {
    /// The samples before a place, and those from it on.
    pub(crate) fn split_at(self, place: usize) -> (Self, Self) {
        let (before, behind) = self.times.split_at(place.min(self.times.len()));
        let (data, rest) = self.data.split_at(place);
        (Self { times: before, data, ..self }, Self { times: behind, data: rest, ..self })
    }

    pub(crate) fn sample(&self, place: usize) -> Option<Sample> {
        let time = Timestamp::from_micros(*self.times.get(place)?);
        Some(Sample { time, datum: self.data.at(place), quality: self.quality })
    }

    pub(crate) fn into_samples(self) -> impl Iterator<Item = Sample> + use<'c> {
        (0..self.times.len()).filter_map(move |place| self.sample(place))
    }
}

/// What samples of one kind hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Data<'c> {
    Floats(&'c [f64]),
    Ints(&'c [i64]),
    Bools(&'c [i64]),
    Texts(&'c [Bytes]),
    Bytes(&'c [Bytes]),
    Nulls,
    Opaque(&'c [Bytes]),
}

impl<'c> Data<'c> {
    fn split_at(self, place: usize) -> (Self, Self) {
        fn halves<'c, T>(all: &'c [T], place: usize, of: fn(&'c [T]) -> Data<'c>) -> (Data<'c>, Data<'c>) {
            let (before, behind) = all.split_at(place.min(all.len()));
            (of(before), of(behind))
        }
        match self {
            Self::Floats(floats) => halves(floats, place, Data::Floats),
            Self::Ints(integers) => halves(integers, place, Data::Ints),
            Self::Bools(integers) => halves(integers, place, Data::Bools),
            Self::Texts(blobs) => halves(blobs, place, Data::Texts),
            Self::Bytes(blobs) => halves(blobs, place, Data::Bytes),
            Self::Nulls => (Self::Nulls, Self::Nulls),
            Self::Opaque(blobs) => halves(blobs, place, Data::Opaque),
        }
    }

    pub(crate) fn at(&self, place: usize) -> Datum {
        let integer = |integers: &[i64]| integers.get(place).copied().unwrap_or_default();
        let blob = |blobs: &[Bytes]| blobs.get(place).cloned().unwrap_or_default();
        match self {
            Self::Floats(floats) => Datum::Float(floats.get(place).copied().unwrap_or_default()),
            Self::Ints(integers) => Datum::Int(integer(integers)),
            Self::Bools(integers) => Datum::Bool(integer(integers) != 0),
            Self::Texts(blobs) => Datum::Text(blob(blobs)),
            Self::Bytes(blobs) => Datum::Bytes(blob(blobs)),
            Self::Nulls => Datum::Null,
            Self::Opaque(blobs) => Datum::Opaque(blob(blobs)),
        }
    }
}

/// Takes the first `length` from `rest`, or as many as there are.
fn cut<'c, T>(rest: &mut &'c [T], length: usize) -> &'c [T] {
    let (first, others) = rest.split_at(length.min(rest.len()));
    *rest = others;
    first
}

/// Which of a [`Datum`]'s forms. The numbers are those of the store's column `kind`, and stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Float,
    Int,
    Bool,
    Text,
    Bytes,
    Null,
    Opaque,
}

impl Kind {
    const ALL: [Self; 7] = [Self::Float, Self::Int, Self::Bool, Self::Text, Self::Bytes, Self::Null, Self::Opaque];

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl From<Kind> for u64 {
    fn from(kind: Kind) -> Self {
        kind as Self
    }
}

/// Samples of one topic, in the order in which they came or by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Microseconds since 1970.
    pub(crate) times: Vec<i64>,
    pub(crate) qualities: Runs<u16>,
    pub(crate) kinds: Runs<Kind>,
    pub(crate) floats: Vec<f64>,
    /// Integers and two-state values.
    pub(crate) integers: Vec<i64>,
    /// Texts, bytes and payloads.
    pub(crate) blobs: Vec<Bytes>,
    pub(crate) blob_bytes: usize,
    pub(crate) is_unsorted: bool,
}

impl Column {
    /// Adds a sample behind the others.
    pub fn push(&mut self, sample: Sample) {
        let Sample { time, datum, quality } = sample;
        let time = time.micros();
        self.is_unsorted |= self.times.last().is_some_and(|last| *last > time);
        self.times.push(time);
        self.qualities.push(quality.bits());
        self.kinds.push(datum.kind());
        match datum {
            Datum::Float(double) => self.floats.push(double),
            Datum::Int(integer) => self.integers.push(integer),
            Datum::Bool(state) => self.integers.push(i64::from(state)),
            Datum::Text(bytes) | Datum::Bytes(bytes) | Datum::Opaque(bytes) => {
                self.blob_bytes += bytes.len();
                self.blobs.push(bytes);
            }
            Datum::Null => {}
        }
    }

    /// How many samples it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let numbers = self.times.capacity() + self.floats.capacity() + self.integers.capacity();
        let blobs = self.blobs.capacity() * size_of::<Bytes>() + self.blob_bytes;
        numbers * size_of::<i64>() + blobs + self.qualities.bytes() + self.kinds.bytes()
    }

    /// The samples, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Sample> {
        self.stretches().flat_map(Stretch::into_samples)
    }

    /// The samples, as many together as follow one another with one kind and one quality.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let (mut kinds, mut qualities) = (self.kinds.runs().iter(), self.qualities.runs().iter());
        let (mut kind, mut quality) = (kinds.next().copied(), qualities.next().copied());
        let (mut times, mut floats) = (self.times.as_slice(), self.floats.as_slice());
        let (mut integers, mut blobs) = (self.integers.as_slice(), self.blobs.as_slice());
        core::iter::from_fn(move || {
            let ((of, kind_left), (bits, quality_left)) = (kind?, quality?);
            let length = kind_left.min(quality_left);
            let data = match of {
                Kind::Float => Data::Floats(cut(&mut floats, length)),
                Kind::Int => Data::Ints(cut(&mut integers, length)),
                Kind::Bool => Data::Bools(cut(&mut integers, length)),
                Kind::Text => Data::Texts(cut(&mut blobs, length)),
                Kind::Bytes => Data::Bytes(cut(&mut blobs, length)),
                Kind::Null => Data::Nulls,
                Kind::Opaque => Data::Opaque(cut(&mut blobs, length)),
            };
            kind = if kind_left == length { kinds.next().copied() } else { Some((of, kind_left - length)) };
            quality =
                if quality_left == length { qualities.next().copied() } else { Some((bits, quality_left - length)) };
            Some(Stretch { times: cut(&mut times, length), data, quality: Quality::from_bits(bits) })
        })
    }

    /// Puts the samples in order of time; those of one time keep theirs, and equal ones of one time stay once.
    pub fn settle(&mut self) {
        let has_ties = || self.times.windows(2).any(|two| two.first() == two.last());
        if !self.is_unsorted && !has_ties() {
            return;
        }
        let mut samples: Vec<Sample> = self.iter().collect();
        samples.sort_by_key(|sample| sample.time);
        *self = Self::default();
        for together in samples.chunk_by(|one, next| one.time == next.time) {
            let mut known = HashSet::new();
            let is_alone = together.len() == 1;
            let fresh = together.iter().filter(|sample| is_alone || known.insert(sample.identity()));
            fresh.for_each(|sample| self.push(sample.clone()));
        }
    }

    /// The samples at places of the column.
    #[must_use]
    pub fn range(&self, places: Range<usize>) -> Self {
        let (mut part, mut start) = (Self::default(), 0);
        for stretch in self.stretches() {
            let end = start + stretch.times.len();
            if start < places.end && places.start < end {
                let (_, stretch) = stretch.split_at(places.start.saturating_sub(start));
                let (stretch, _) = stretch.split_at(places.end.min(end) - places.start.max(start));
                part.extend(&stretch);
            }
            start = end;
        }
        part
    }

    /// Adds the samples of another column behind the others.
    pub fn append(&mut self, other: &Self) {
        other.stretches().for_each(|stretch| self.extend(&stretch));
    }

    /// The times of the earliest and the latest sample, in whatever order they are.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let (first, last) = self.times.iter().min().zip(self.times.iter().max())?;
        Some((Timestamp::from_micros(*first), Timestamp::from_micros(*last)))
    }

    /// How many samples are before a time; the column is sorted.
    #[must_use]
    pub fn count_before(&self, time: Timestamp) -> usize {
        count_before(&self.times, time.micros())
    }

    /// The samples from a time on, in order as [`Column::settle`] leaves them. Nothing before that time is copied of a column that is
    /// sorted.
    #[must_use]
    pub fn settled_from(&self, time: Timestamp) -> Self {
        let mut settled = if self.is_unsorted { self.clone() } else { self.from(time) };
        settled.settle();
        if self.is_unsorted { settled.from(time) } else { settled }
    }

    fn from(&self, time: Timestamp) -> Self {
        match self.count_before(time) {
            0 => self.clone(),
            start => self.range(start..self.len()),
        }
    }

    /// The samples of the last time that is not behind `time`; the column is sorted.
    #[must_use]
    pub fn latest(&self, time: Timestamp) -> Self {
        let end = self.times.partition_point(|micros| *micros <= time.micros());
        let last = end.checked_sub(1).and_then(|place| self.times.get(place)).copied().unwrap_or_default();
        self.range(count_before(&self.times, last).min(end)..end)
    }

    /// Whether a sample is not behind a time; the column need not be sorted.
    #[must_use]
    pub(crate) fn reaches_back_to(&self, time: Timestamp) -> bool {
        self.times.iter().any(|micros| *micros <= time.micros())
    }

    /// The times of the first and of the last sample; the column is sorted.
    #[must_use]
    pub fn ends(&self) -> Option<(Timestamp, Timestamp)> {
        self.times
            .first()
            .zip(self.times.last())
            .map(|(first, last)| (Timestamp::from_micros(*first), Timestamp::from_micros(*last)))
    }

    /// The column cut where a multiple of `micros` since 1970 lies between two samples; it is sorted.
    pub fn cut_every(&self, micros: i64) -> impl Iterator<Item = Self> {
        let mut start = 0;
        core::iter::from_fn(move || {
            let first = self.times.get(start)?;
            let until = first.div_euclid(micros).saturating_add(1).saturating_mul(micros);
            let end = self.times.partition_point(|time| *time < until).max(start + 1);
            let part = self.range(start..end);
            start = end;
            Some(part)
        })
    }

    fn extend(&mut self, stretch: &Stretch<'_>) {
        let length = stretch.times.len();
        let joins = self.times.last().zip(stretch.times.first()).is_none_or(|(last, first)| last <= first);
        self.is_unsorted |= !joins || !stretch.times.is_sorted();
        self.times.extend_from_slice(stretch.times);
        self.qualities.push_many(stretch.quality.bits(), length);
        let (kind, blobs): (_, &[Bytes]) = match stretch.data {
            Data::Floats(floats) => {
                self.floats.extend_from_slice(floats);
                (Kind::Float, &[])
            }
            Data::Ints(integers) => {
                self.integers.extend_from_slice(integers);
                (Kind::Int, &[])
            }
            Data::Bools(integers) => {
                self.integers.extend_from_slice(integers);
                (Kind::Bool, &[])
            }
            Data::Texts(blobs) => (Kind::Text, blobs),
            Data::Bytes(blobs) => (Kind::Bytes, blobs),
            Data::Opaque(blobs) => (Kind::Opaque, blobs),
            Data::Nulls => (Kind::Null, &[]),
        };
        self.kinds.push_many(kind, length);
        self.blobs.extend_from_slice(blobs);
        self.blob_bytes += blobs.iter().map(Bytes::len).sum::<usize>();
    }

    /// Whether the samples are in order of time.
    #[must_use]
    pub const fn is_sorted(&self) -> bool {
        !self.is_unsorted
    }
}

impl FromIterator<Sample> for Column {
    fn from_iter<I: IntoIterator<Item = Sample>>(samples: I) -> Self {
        let mut column = Self::default();
        samples.into_iter().for_each(|sample| column.push(sample));
        column
    }
}
