//! A piece of the past: what the history has of a series' inputs, and the results of it.

use crate::columns::question::{HistoryQuery, Order};
use crate::columns::reader::HistoryReader;
use std::time::{Duration, Instant};
use tieline_core::{Filter, Point, Timestamp, Topic};
use tieline_derived::{Changes, Held, Reading, Series, Window};
use tieline_series::Sample;
use tieline_store::{Row, StoreError};

/// Samples that are read for a piece, results that it has, and how long it takes, roughly.
const SAMPLES_MAX: u64 = 20_000;
const RESULTS_MAX: usize = 5_000;
const TIME_MAX: Duration = Duration::from_millis(50);
/// However long it takes: to open chunks costs more than to read them.
const SAMPLES_MIN: u64 = 2_000;

/// The results of a piece.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) points: Vec<Point>,
    /// Up to here all is calculated.
    pub(super) upto: Timestamp,
    pub(super) samples: u64,
}

impl Piece {
    fn is_full(&self, began: Instant) -> bool {
        let work = self.samples + self.points.len() as u64;
        let is_late = || work >= SAMPLES_MIN && began.elapsed() > TIME_MAX;
        self.samples >= SAMPLES_MAX || self.points.len() >= RESULTS_MAX || is_late()
    }
}

const MICROSECOND: Duration = Duration::from_micros(1);

/// A topic as a filter; a topic has no wildcards.
pub(super) fn filter_of(topic: &Topic) -> Result<Filter, String> {
    Filter::new(topic.as_str()).map_err(|error| error.to_string())
}

pub(super) fn words(error: StoreError) -> String {
    error.to_string()
}

fn reading_of(row: &Row) -> Reading {
    Reading::of(&row.point.value, row.point.quality)
}

/// What the inputs of a series held before a time.
pub(super) fn held_before(reader: &HistoryReader, series: &Series, time: Timestamp) -> Result<Vec<Held>, String> {
    let before = Timestamp::from_micros(time.micros().saturating_sub(1));
    let each = |input: &Topic| {
        let mut found = reader.at(&filter_of(input)?, before, |_| true).map_err(words)?;
        let sample = found.next().transpose().map_err(words)?;
        Ok(sample.map(|(_, Sample { time, datum, quality }, _)| (time, Reading::of(&datum.into_value(), quality))))
    };
    series.expression.inputs().iter().map(each).collect()
}

/// When the first sample of an input is.
pub(super) fn first_sample(reader: &HistoryReader, series: &Series) -> Result<Option<Timestamp>, String> {
    let mut first = None;
    for input in series.expression.inputs() {
        let query = HistoryQuery { limit: Some(1), ..HistoryQuery::of(filter_of(input)?) };
        let row = reader.query(query).map_err(words)?.next().transpose().map_err(words)?;
        let time = row.map(|row| row.point.time);
        first = first.into_iter().chain(time).min();
    }
    Ok(first)
}

/// The samples of a series' inputs between two times, in order of time, each with its input.
fn samples<'r>(
    reader: &'r HistoryReader,
    series: &'r Series,
    (from, to): (Timestamp, Timestamp),
) -> Result<impl Iterator<Item = Result<(usize, Row), String>> + 'r, String> {
    let topics = series.expression.inputs().iter().map(filter_of).collect::<Result<_, _>>()?;
    let query = HistoryQuery { from: Some(from), to: Some(to), order: Order::Time, ..HistoryQuery::of_several(topics) };
    let rows = reader.query(query).map_err(words)?;
    Ok(rows.filter_map(move |row| match row {
        Ok(row) => {
            let input = series.expression.inputs().iter().position(|input| *input == row.topic)?;
            Some(Ok((input, row)))
        }
        Err(error) => Some(Err(words(error))),
    }))
}

/// Calculates at each change from a time on, which ends before `to`.
pub(super) fn changes(
    reader: &HistoryReader,
    series: &Series,
    (from, to): (Timestamp, Timestamp),
) -> Result<Piece, String> {
    let mut changes = Changes::new(&series.expression, held_before(reader, series, from)?);
    let mut piece = Piece { points: Vec::new(), upto: to, samples: 0 };
    let (mut last, began) = (from, Instant::now());
    for sample in samples(reader, series, (from, to))? {
        let (input, row) = sample?;
        let time = row.point.time;
        // Samples of one time belong to one result.
        if time > last && piece.is_full(began) {
            piece.upto = time;
            break;
        }
        (last, piece.samples) = (time, piece.samples + 1);
        piece.points.extend(changes.take(&series.expression, input, (time, reading_of(&row))));
    }
    piece.points.extend(changes.finish(&series.expression));
    Ok(piece)
}

/// Calculates intervals from the beginning of one on, which end at `to` at the latest.
pub(super) fn intervals(
    reader: &HistoryReader,
    series: &Series,
    every: Duration,
    (from, to): (Timestamp, Timestamp),
) -> Result<Piece, String> {
    let held = held_before(reader, series, from)?;
    let mut open = Open { series, every, start: from, windows: Vec::new(), last: readings(&held) };
    open.begin();
    let mut piece = Piece { points: Vec::new(), upto: from, samples: 0 };
    let began = Instant::now();
    for sample in samples(reader, series, (from, to))? {
        let (input, row) = sample?;
        while row.point.time >= open.end() {
            open.finish(&mut piece);
            if piece.is_full(began) {
                return Ok(piece);
            }
        }
        piece.samples += 1;
        open.add(input, row.point.time, reading_of(&row));
    }
    while open.end() <= to && (piece.upto == from || !piece.is_full(began)) {
        open.finish(&mut piece);
    }
    Ok(piece)
}

fn readings(held: &[Held]) -> Vec<Option<Reading>> {
    held.iter().map(|held| held.map(|(_, reading)| reading)).collect()
}

/// The interval that samples are taken into.
struct Open<'a> {
    series: &'a Series,
    every: Duration,
    start: Timestamp,
    windows: Vec<Window>,
    last: Vec<Option<Reading>>,
}

impl Open<'_> {
    fn end(&self) -> Timestamp {
        self.start.later(self.every)
    }

    fn begin(&mut self) {
        let (start, end) = (self.start, self.end());
        self.windows = self.last.iter().map(|before| Window::new(start, end, *before)).collect();
    }

    fn add(&mut self, input: usize, time: Timestamp, reading: Reading) {
        if let (Some(window), Some(last)) = (self.windows.get_mut(input), self.last.get_mut(input)) {
            window.add(time, reading);
            *last = Some(reading);
        }
    }

    fn finish(&mut self, piece: &mut Piece) {
        if let Some((value, quality)) = self.series.expression.of_interval(&self.windows) {
            piece.points.push(Point { value, quality, time: self.start });
        }
        self.start = self.end();
        piece.upto = self.start;
        self.begin();
    }
}

/// The last result of a series before a time, if there is one at or behind `from`.
pub(super) fn last_result(
    reader: &HistoryReader,
    topic: &Topic,
    (from, before): (Timestamp, Timestamp),
) -> Result<Option<Point>, String> {
    let time = Timestamp::from_micros(before.micros().saturating_sub(1));
    let mut found = reader.at(&filter_of(topic)?, time, |_| true).map_err(words)?;
    let sample = found.next().transpose().map_err(words)?;
    let point = |(_, Sample { time, datum, quality }, _)| Point { value: datum.into_value(), quality, time };
    Ok(sample.map(point).filter(|point| point.time >= from))
}

/// The first time behind one.
pub(super) fn behind(time: Timestamp) -> Timestamp {
    time.later(MICROSECOND)
}
