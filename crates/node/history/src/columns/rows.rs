//! An answer: rows, as they are read, topic by topic.

use super::question::HistoryQuery;
use super::reader::{Columns, HistoryReader, Read};
use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;
use tieline_core::{Cursor, Point, Timestamp, Topic, Value};
use tieline_series::{Aggregate, Bucket, Buckets, Column, Datum, Frame, Grid, Sample, Span, Step, Summary, Sweep};
use tieline_store::{ChunkRow, DAY_US, FolderStorage, Place, Row, StoreError};
use tracing::warn;

/// An answer: rows, as they are read. A chunk that is damaged costs its own samples; how many are missing is said.
pub struct Rows<'r> {
    reader: &'r HistoryReader,
    files: FolderStorage,
    query: HistoryQuery,
    every: Option<i64>,
    from: Timestamp,
    to: Timestamp,
    topics: VecDeque<(Option<u32>, Topic)>,
    /// What the journal has, where no store of this process has it.
    journaled: Option<Columns>,
    walk: Option<Walk>,
    left: u64,
    damaged: u64,
}

enum Source {
    Chunk(ChunkRow),
    Head(Arc<Column>),
}

impl Source {
    fn span(&self) -> Span {
        match self {
            Self::Chunk(row) => Span { first: row.first, last: row.last },
            Self::Head(column) => {
                let (first, last) = column.ends().unwrap_or_default();
                Span { first, last }
            }
        }
    }
}

/// One topic on the way through its time.
struct Walk {
    topic: Topic,
    sources: Vec<Source>,
    sweep: Sweep,
    /// From here on for this topic, and of one time behind so many samples.
    from: Timestamp,
    skip: Option<(i64, u64)>,
    out: Out,
}

/// What a topic's samples become.
enum Out {
    Samples { ready: vec::IntoIter<Sample>, last: Option<(i64, u64)> },
    Buckets { buckets: Box<Buckets>, aggregate: Aggregate },
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let row = self.find().transpose()?;
        self.left = if row.is_ok() { self.left - 1 } else { 0 };
        Some(row)
    }
}

impl<'r> Rows<'r> {
    pub(super) fn new(reader: &'r HistoryReader, query: HistoryQuery) -> Result<Self, StoreError> {
        let every = query.every_micros()?;
        let cutoff = reader.index.cutoff()?.unwrap_or(Timestamp::from_micros(i64::MIN));
        let from = query.from.unwrap_or(cutoff).max(cutoff);
        let to = query.to.unwrap_or(Timestamp::from_micros(i64::MAX));
        let indexed = reader.index.topics(&query.topics)?;
        let mut topics: Vec<(Option<u32>, Topic)> =
            indexed.into_iter().map(|(number, topic)| (Some(number), topic)).collect();
        let journaled = if reader.is_live() { None } else { Some(reader.journaled(&query.topics)?) };
        if let Some(journaled) = &journaled {
            let is_known = |topic: &Topic| topics.binary_search_by(|(_, known)| known.cmp(topic)).is_ok();
            let fresh: Vec<_> =
                journaled.keys().filter(|topic| !is_known(topic)).map(|topic| (None, topic.clone())).collect();
            topics.extend(fresh);
            topics.sort_by(|(_, one), (_, other)| one.cmp(other));
        }
        if let Some(place) = &query.after {
            topics.retain(|(_, topic)| *topic >= place.topic);
        }
        let (left, files) = (query.limit.unwrap_or(u64::MAX), reader.files());
        let topics = topics.into();
        Ok(Self { reader, files, query, every, from, to, topics, journaled, walk: None, left, damaged: 0 })
    }

    /// Samples that could not be read because their chunk is damaged or lost, so far.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    fn find(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            let Some(mut walk) = self.walk.take() else {
                let Some((number, topic)) = self.topics.pop_front() else { return Ok(None) };
                self.walk = Some(self.begin(number, topic)?);
                continue;
            };
            if let Some(row) = walk.row(self.to) {
                self.walk = Some(walk);
                return Ok(Some(row));
            }
            if self.advance(&mut walk)? {
                self.walk = Some(walk);
            } else if let Some(row) = walk.row(self.to) {
                self.walk = Some(walk);
                return Ok(Some(row));
            }
        }
    }

    fn begin(&mut self, number: Option<u32>, topic: Topic) -> Result<Walk, StoreError> {
        let after = self.query.after.as_ref().filter(|place| place.topic == topic);
        let (mut from, mut skip) = (self.from, None);
        if let Some(place) = after {
            let behind = place.time_us.saturating_add(self.every.unwrap_or(0));
            from = from.max(Timestamp::from_micros(behind));
            skip = self.every.is_none().then_some((place.time_us, place.number));
        }
        // Heads first: what becomes a chunk meanwhile is met twice, and counts once.
        let heads = self.heads(number, &topic)?;
        let chunks = match number {
            Some(number) => self.reader.index.chunks(number, from, self.to)?,
            None => Vec::new(),
        };
        let to = self.to;
        let is_meant = |source: &Source| source.span().last >= from && source.span().first < to;
        let out = match self.every {
            None => Out::Samples { ready: Vec::new().into_iter(), last: None },
            Some(every) => {
                let aggregate = self.query.aggregate;
                let frame = Frame { from, to, grid: Grid::Every(every) };
                let is_asked = aggregate.needs_standing();
                let standing = if is_asked { self.standing(number, &heads, from)? } else { None };
                Out::Buckets { buckets: Box::new(Buckets::new(frame, aggregate.needs(), standing)), aggregate }
            }
        };
        let heads = heads.into_iter().filter(|column| !column.is_empty()).map(Source::Head);
        let sources: Vec<Source> = chunks.into_iter().map(Source::Chunk).chain(heads).filter(is_meant).collect();
        let sweep = Sweep::new(&sources.iter().map(Source::span).collect::<Vec<_>>());
        Ok(Walk { topic, sources, sweep, from, skip, out })
    }

    /// The samples of a topic that may be in no chunk, a day at most in each column, as chunks have.
    fn heads(&mut self, number: Option<u32>, topic: &Topic) -> Result<Vec<Arc<Column>>, StoreError> {
        let live =
            if self.journaled.is_none() { number.and_then(|number| self.reader.unwritten(number)) } else { None };
        if let Some(columns) = live {
            return Ok(columns);
        }
        if self.journaled.is_none() {
            // The store was closed since.
            self.journaled = Some(self.reader.journaled(&self.query.topics)?);
        }
        let column = self.journaled.as_ref().and_then(|columns| columns.get(topic));
        Ok(column.cloned().into_iter().collect())
    }

    /// Takes one step. Says false at the end of the topic.
    fn advance(&mut self, walk: &mut Walk) -> Result<bool, StoreError> {
        match walk.sweep.step() {
            None => {
                if let Out::Buckets { buckets, .. } = &mut walk.out {
                    buckets.finish();
                }
                return Ok(false);
            }
            Some(Step::Whole(number)) => {
                let Some(source) = walk.sources.get(number) else { return Ok(true) };
                if !walk.out.take_summary(source)
                    && let Some(column) = self.column(source)?
                {
                    walk.take(&column, self.to);
                }
            }
            Some(Step::Open(number)) => {
                let column = match walk.sources.get(number) {
                    Some(source) => self.column(source)?,
                    None => None,
                };
                if let Some(column) = column {
                    walk.sweep.open(number, column);
                }
            }
            Some(Step::Samples(column)) => walk.take(&column, self.to),
        }
        Ok(true)
    }

    fn column(&mut self, source: &Source) -> Result<Option<Arc<Column>>, StoreError> {
        let row = match source {
            Source::Head(column) => return Ok(Some(Arc::clone(column))),
            Source::Chunk(row) => row,
        };
        let why = match self.reader.read(&mut self.files, row)? {
            Read::Whole(_, column) => return Ok(Some(column)),
            Read::Gone => return Ok(None),
            Read::Damaged(why) => why,
        };
        self.damaged += row.samples;
        warn!(chunk = %row.extent, samples = row.samples, why, "a chunk of the history cannot be read; its samples are left out");
        Ok(None)
    }

    /// The number that stands at a time: the last one before it that is not bad.
    fn standing(
        &mut self,
        number: Option<u32>,
        heads: &[Arc<Column>],
        from: Timestamp,
    ) -> Result<Option<f64>, StoreError> {
        let mut found: Vec<(Timestamp, f64)> = heads.iter().filter_map(|column| last_before(column, from)).collect();
        let (mut until, latest) = (from, |found: &[(Timestamp, f64)]| found.iter().map(|(time, _)| *time).max());
        // Day by day backward, until no earlier day can have a later one.
        while let Some(number) = number
            && let Some(day) = self.reader.index.day_before(number, until)?
            && latest(&found).is_none_or(|time| time < day.later(DAY).min(until))
        {
            for row in self.reader.index.chunks(number, day, until)? {
                let summary = Summary::get(&mut Cursor::new(&row.summary)).unwrap_or_default();
                match summary.numbers.map(|numbers| numbers.last) {
                    Some(last) if last.0 < from => found.push(last),
                    Some(_) => {
                        let column = self.column(&Source::Chunk(row))?;
                        found.extend(column.and_then(|column| last_before(&column, from)));
                    }
                    None => {}
                }
            }
            until = day;
        }
        Ok(found.into_iter().max_by_key(|(time, _)| *time).map(|(_, number)| number))
    }
}

const DAY: std::time::Duration = std::time::Duration::from_micros(DAY_US.cast_unsigned());

/// The last number of a column before a time, and when.
fn last_before(column: &Column, time: Timestamp) -> Option<(Timestamp, f64)> {
    let before = column.range(0..column.count_before(time));
    Summary::of(&before).numbers.map(|numbers| numbers.last)
}

impl Out {
    /// Takes what a chunk says of itself, where that is enough.
    fn take_summary(&mut self, source: &Source) -> bool {
        let (Self::Buckets { buckets, aggregate }, Source::Chunk(row)) = (self, source) else { return false };
        if !buckets.frame().holds(source.span()) {
            return false;
        }
        let Ok(summary) = Summary::get(&mut Cursor::new(&row.summary)) else { return false };
        let fits = aggregate.needs().fits(&summary);
        if fits {
            buckets.add_summary(row.first, &summary);
        }
        fits
    }
}

impl Walk {
    fn take(&mut self, column: &Column, to: Timestamp) {
        match &mut self.out {
            Out::Buckets { buckets, .. } => buckets.add_samples(column),
            Out::Samples { ready, .. } => {
                let (start, end) = (column.count_before(self.from), column.count_before(to));
                *ready = if (start, end) == (0, column.len()) {
                    column.iter().collect::<Vec<_>>().into_iter()
                } else {
                    column.range(start..end.max(start)).iter().collect::<Vec<_>>().into_iter()
                };
            }
        }
    }

    fn row(&mut self, to: Timestamp) -> Option<Row> {
        match &mut self.out {
            Out::Samples { ready, last } => {
                for sample in ready {
                    let time_us = sample.time.micros();
                    let number = last.filter(|(time, _)| *time == time_us).map_or(0, |(_, number)| number + 1);
                    *last = Some((time_us, number));
                    if self.skip.is_some_and(|place| (time_us, number) <= place) {
                        continue;
                    }
                    let is_payload = matches!(sample.datum, Datum::Opaque(_));
                    let point = Point { value: value_of(sample.datum), quality: sample.quality, time: sample.time };
                    return Some(Row { is_payload, ..row(&self.topic, point, 1, number) });
                }
                None
            }
            Out::Buckets { buckets, aggregate } => {
                while let Some(bucket) = buckets.poll() {
                    if let Some(row) = bucket_row(&self.topic, *aggregate, &bucket).filter(|_| bucket.start < to) {
                        return Some(row);
                    }
                }
                None
            }
        }
    }
}

fn bucket_row(topic: &Topic, aggregate: Aggregate, bucket: &Bucket) -> Option<Row> {
    let found = aggregate.of(bucket)?;
    let point = Point { value: value_of(found.datum), quality: found.quality, time: bucket.start };
    Some(row(topic, point, found.count, 0))
}

fn row(topic: &Topic, point: Point, count: u64, number: u64) -> Row {
    let place = Place { time_us: point.time.micros(), number, topic: topic.clone() };
    Row { topic: topic.clone(), point, count, is_payload: false, place }
}

/// A payload as published is text where it is UTF-8, else bytes.
fn value_of(datum: Datum) -> Value {
    match datum {
        Datum::Float(double) => Value::Float(double),
        Datum::Int(integer) => Value::Int(integer),
        Datum::Bool(state) => Value::Bool(state),
        Datum::Null => Value::Null,
        Datum::Bytes(bytes) => Value::Bytes(bytes.as_ref().into()),
        Datum::Text(bytes) | Datum::Opaque(bytes) => match str::from_utf8(&bytes) {
            Ok(text) => Value::Text(text.into()),
            Err(_) => Value::Bytes(bytes.as_ref().into()),
        },
    }
}
