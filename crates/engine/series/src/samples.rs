//! The samples of a column, one after the other, without a copy of all.

use crate::column::{Column, Datum, Kind, Sample};
use alloc::sync::Arc;
use core::ops::Range;
use tieline_core::{Quality, Timestamp};

/// The samples at places of a column, in its order.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    column: Arc<Column>,
    /// The next, and the end.
    place: usize,
    end: usize,
    kinds: Place,
    qualities: Place,
    /// How many doubles, integers and blobs were before it.
    floats: usize,
    integers: usize,
    blobs: usize,
}

/// A place in runs: which run, and how many of it are left.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    run: usize,
    left: usize,
}

impl Samples {
    /// The samples at places of a column.
    #[must_use]
    pub fn new(column: Arc<Column>, places: Range<usize>) -> Self {
        let left = |length: Option<usize>| Place { run: 0, left: length.unwrap_or(0) };
        let kinds = left(column.kinds.runs().first().map(|(_, length)| *length));
        let qualities = left(column.qualities.runs().first().map(|(_, length)| *length));
        let end = places.end.min(column.len());
        let mut samples = Self { column, place: 0, end, kinds, qualities, floats: 0, integers: 0, blobs: 0 };
        samples.skip_to(places.start);
        samples
    }

    /// The time of the next one.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        let is_one = self.place < self.end;
        self.column.times.get(self.place).filter(|_| is_one).map(|micros| Timestamp::from_micros(*micros))
    }

    /// Takes the next ones, so many at most, as a column; none where the next is a text, bytes or a payload.
    pub fn cut(&mut self, count_max: usize) -> Option<Column> {
        let end = self.end.min(self.place.saturating_add(count_max));
        if self.place >= end || !self.column.blobs.is_empty() {
            return None;
        }
        let is_whole = self.place == 0 && end == self.column.len();
        if is_whole {
            self.place = end;
            return Some(Arc::unwrap_or_clone(core::mem::take(&mut self.column)));
        }
        let column = self.column.range(self.place..end);
        self.skip_to(end);
        Some(column)
    }

    fn skip_to(&mut self, start: usize) {
        let start = start.min(self.end);
        while self.place < start {
            let Some(kind) = self.kind() else { return };
            let step = self.kinds.left.min(self.qualities.left).min(start - self.place);
            self.advance(kind, step);
        }
    }

    fn kind(&self) -> Option<Kind> {
        self.column.kinds.runs().get(self.kinds.run).map(|(kind, _)| *kind)
    }

    fn advance(&mut self, kind: Kind, step: usize) {
        match kind {
            Kind::Float => self.floats += step,
            Kind::Int | Kind::Bool => self.integers += step,
            Kind::Text | Kind::Bytes | Kind::Opaque => self.blobs += step,
            Kind::Null => {}
        }
        self.place += step;
        self.kinds.advance(step, |run| self.column.kinds.runs().get(run).map(|(_, length)| *length));
        self.qualities.advance(step, |run| self.column.qualities.runs().get(run).map(|(_, length)| *length));
    }
}

impl Place {
    fn advance(&mut self, step: usize, length: impl Fn(usize) -> Option<usize>) {
        self.left = self.left.saturating_sub(step);
        if self.left == 0 {
            self.run += 1;
            self.left = length(self.run).unwrap_or(0);
        }
    }
}

impl Iterator for Samples {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        if self.place >= self.end {
            return None;
        }
        let column = &*self.column;
        let (kind, time) = (self.kind()?, Timestamp::from_micros(*column.times.get(self.place)?));
        let quality = column.qualities.runs().get(self.qualities.run).map(|(bits, _)| Quality::from_bits(*bits))?;
        let integer = || column.integers.get(self.integers).copied().unwrap_or_default();
        let blob = || column.blobs.get(self.blobs).cloned().unwrap_or_default();
        let datum = match kind {
            Kind::Float => Datum::Float(column.floats.get(self.floats).copied().unwrap_or_default()),
            Kind::Int => Datum::Int(integer()),
            Kind::Bool => Datum::Bool(integer() != 0),
            Kind::Text => Datum::Text(blob()),
            Kind::Bytes => Datum::Bytes(blob()),
            Kind::Opaque => Datum::Opaque(blob()),
            Kind::Null => Datum::Null,
        };
        self.advance(kind, 1);
        Some(Sample { time, datum, quality })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.place;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Samples {}
