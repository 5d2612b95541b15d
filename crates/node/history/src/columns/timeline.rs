//! The samples of many topics in order of time, in slices of time that have a bounded number of samples.
//!
//! ```text
//! from ├── slice ──┤── slice ──┤─ … ─▶ to      each: the samples of all topics, sorted by time
//! ```
//!
//! A slice with too many samples is read again, narrower. One of a microsecond needs no sorting: its samples come as they are read.

use super::listing::{Journaled, Recorded, list};
use super::question::{HistoryQuery, Order};
use super::reader::HistoryReader;
use super::rows::Rows;
use std::vec;
use tieline_core::{Timestamp, Topic};
use tieline_store::{Place, Row, StoreError};

/// Samples of a slice in memory.
const SLICE_ROWS_MAX: usize = 100_000;
/// The same where few are asked for.
const SLICE_ROWS_MIN: usize = 1000;
/// How wide the first slice is, in microseconds.
const FIRST_WIDTH: i64 = 1_000_000;

/// Rows in order of time, those of one time by topic.
pub(super) struct Timeline<'r> {
    reader: &'r HistoryReader,
    query: HistoryQuery,
    topics: Vec<Recorded>,
    journaled: Journaled,
    /// Where the next slice begins.
    next: i64,
    to: i64,
    width: i64,
    rows_max: usize,
    after: Option<Place>,
    slice: Slice<'r>,
    damaged: u64,
}

enum Slice<'r> {
    Sorted(vec::IntoIter<Row>),
    /// Of a microsecond.
    Read(Box<Rows<'r>>),
}

impl<'r> Timeline<'r> {
    pub(super) fn new(reader: &'r HistoryReader, query: HistoryQuery) -> Result<Self, StoreError> {
        if query.every.is_some() || query.starts.is_some() {
            return Err(StoreError::Question("buckets come by topic; samples come in order of time"));
        }
        let (topics, journaled) = list(reader, &query.topics, |_| true)?;
        let cutoff = reader.cutoffs().lowest().map_or(i64::MIN, Timestamp::micros);
        let start = query.after.as_ref().map_or(i64::MIN, |place| place.time_us);
        let next = query.from.map_or(i64::MIN, Timestamp::micros).max(cutoff).max(start);
        let to = query.to.map_or(i64::MAX, Timestamp::micros);
        let asked = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let rows_max = asked.saturating_mul(2).clamp(SLICE_ROWS_MIN, SLICE_ROWS_MAX);
        let (after, slice) = (query.after.clone(), Slice::Sorted(Vec::new().into_iter()));
        let query = HistoryQuery { limit: None, after: None, order: Order::Topic, ..query };
        let (width, damaged) = (FIRST_WIDTH, 0);
        Ok(Self { reader, query, topics, journaled, next, to, width, rows_max, after, slice, damaged })
    }

    /// See [`Rows::damaged`].
    pub(super) fn damaged(&self) -> u64 {
        match &self.slice {
            Slice::Sorted(_) => self.damaged,
            Slice::Read(rows) => self.damaged + rows.damaged(),
        }
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = Topic> {
        self.topics.iter().map(|recorded| recorded.topic.clone())
    }

    pub(super) fn find(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            let row = match &mut self.slice {
                Slice::Sorted(rows) => rows.next(),
                Slice::Read(rows) => rows.next().transpose()?,
            };
            match row {
                Some(row) if self.after.as_ref().is_some_and(|after| !is_behind(&row.place(), after)) => {}
                Some(row) => return Ok(Some(row)),
                None if self.topics.is_empty() || self.next >= self.to => return Ok(None),
                None => self.slice()?,
            }
        }
    }

    /// Reads the next slice.
    fn slice(&mut self) -> Result<(), StoreError> {
        self.damaged = self.damaged();
        let end = self.next.saturating_add(self.width).min(self.to);
        let at = Timestamp::from_micros;
        let query = HistoryQuery { from: Some(at(self.next)), to: Some(at(end)), ..self.query.clone() };
        let mut read = Rows::of(self.reader, query, self.topics.iter().cloned().collect(), self.journaled.clone())?;
        if end.saturating_sub(self.next) <= 1 {
            self.slice = Slice::Read(Box::new(read));
            self.next = end;
            self.width = self.width.saturating_mul(2);
            return Ok(());
        }
        let mut rows = Vec::new();
        for row in read.by_ref() {
            rows.push(row?);
            if rows.len() > self.rows_max {
                self.slice = Slice::Sorted(Vec::new().into_iter());
                self.width = (end.saturating_sub(self.next) / 8).max(1);
                return Ok(());
            }
        }
        self.damaged += read.damaged();
        if rows.len() < self.rows_max / 4 {
            self.width = self.width.saturating_mul(2);
        }
        rows.sort_by_key(|row| row.point.time);
        (self.slice, self.next) = (Slice::Sorted(rows.into_iter()), end);
        Ok(())
    }
}

/// Whether a place is behind another in the order of time.
fn is_behind(place: &Place, other: &Place) -> bool {
    let key = |place: &Place| (place.time_us, place.topic.clone(), place.number);
    key(place) > key(other)
}
