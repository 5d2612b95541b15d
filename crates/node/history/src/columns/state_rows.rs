//! How long topics were in each state.
//!
//! ```text
//! last sample before ─┐
//! samples, by topic ──┴─▶ StateTimes of a topic ─▶ rows, bucket by bucket
//! ```

use super::instant::Latest;
use super::question::HistoryQuery;
use super::reader::HistoryReader;
use super::rows::Rows;
use crate::edits::ActiveEdits;
use std::iter::Peekable;
use std::sync::Arc;
use tieline_core::{Body, Timestamp, Topic};
use tieline_series::{Frame, Grid, STATES_MAX, Sample, StateTime, StateTimes};
use tieline_store::{StateRow, StoreError};

/// An answer: how long each topic was in each state, topic by topic, as it is read.
pub struct States<'r> {
    before: Peekable<Latest<'r>>,
    rows: Peekable<Rows<'r>>,
    frame: Frame,
    edits: Arc<ActiveEdits>,
    walk: Option<Walk>,
    left: u64,
}

struct Walk {
    topic: Topic,
    times: StateTimes,
    is_finished: bool,
}

impl<'r> States<'r> {
    pub(super) fn new(reader: &'r HistoryReader, query: HistoryQuery) -> Result<Self, StoreError> {
        const BETWEEN: StoreError = StoreError::Question("states stand between two times");
        let (Some(from), Some(to)) = (query.from, query.to) else { return Err(BETWEEN) };
        let grid = query.grid()?.unwrap_or_else(|| Grid::Starts(vec![from]));
        let left = query.limit.unwrap_or(u64::MAX);
        let instant = Timestamp::from_micros(from.micros().saturating_sub(1));
        let before = Latest::new(reader, &query.topics, instant, |_| true)?.peekable();
        let samples = HistoryQuery { from: query.from, to: query.to, ..HistoryQuery::of_several(query.topics) };
        let rows = Rows::new(reader, samples)?.peekable();
        let (edits, frame) = (reader.edits()?, Frame { from, to, grid });
        Ok(Self { before, rows, frame, edits, walk: None, left })
    }

    fn find(&mut self) -> Result<Option<StateRow>, StoreError> {
        loop {
            let Some(walk) = &mut self.walk else {
                let Some(walk) = self.begin()? else { return Ok(None) };
                self.walk = Some(walk);
                continue;
            };
            if let Some(time) = walk.times.poll() {
                let row = row(&walk.topic, time);
                let edited = self.edits.of(&row.topic).and_then(|edits| {
                    let (from, to) = self.frame.bucket(row.start.max(self.frame.from))?;
                    edits.last_between(from.max(self.frame.from), to)
                });
                return Ok(Some(StateRow { edited, ..row }));
            }
            if walk.is_finished {
                self.walk = None;
                continue;
            }
            let is_its =
                |row: &Result<tieline_store::Row, StoreError>| row.as_ref().map_or(true, |row| row.topic == walk.topic);
            let taken = match self.rows.next_if(is_its).transpose()? {
                Some(row) => walk.times.push(&Sample::new(row.point.time, &Body::Point(row.point))),
                None => {
                    walk.is_finished = true;
                    walk.times.finish()
                }
            };
            taken.map_err(|_| StoreError::States(walk.topic.clone(), STATES_MAX))?;
        }
    }

    /// The next topic that has a state before or a sample.
    fn begin(&mut self) -> Result<Option<Walk>, StoreError> {
        let of_rows = match self.rows.peek() {
            Some(Ok(row)) => Some(row.topic.clone()),
            Some(Err(_)) => return self.rows.next().transpose().map(|_| None),
            None => None,
        };
        let is_earlier = |found: &Result<(Topic, Sample, Option<u64>), StoreError>| {
            found.as_ref().map_or(true, |(topic, ..)| of_rows.as_ref().is_none_or(|of_rows| topic <= of_rows))
        };
        let before = self.before.next_if(is_earlier).transpose()?;
        let Some(topic) = before.as_ref().map(|(topic, ..)| topic.clone()).or(of_rows) else { return Ok(None) };
        let times = StateTimes::new(self.frame.clone(), before.as_ref().map(|(_, sample, _)| sample));
        Ok(Some(Walk { topic, times, is_finished: false }))
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a few hundred years at most")]
fn row(topic: &Topic, time: StateTime) -> StateRow {
    let seconds = time.micros as f64 / 1e6;
    let share = if time.bucket_micros == 0 { 0.0 } else { time.micros as f64 / time.bucket_micros as f64 };
    let state = time.state.map(tieline_series::Datum::into_value);
    StateRow { topic: topic.clone(), start: time.start, state, seconds, share, count: time.entered, edited: None }
}

impl Iterator for States<'_> {
    type Item = Result<StateRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let row = self.find().transpose();
        self.left = if matches!(row, Some(Ok(_))) { self.left - 1 } else { 0 };
        row
    }
}
