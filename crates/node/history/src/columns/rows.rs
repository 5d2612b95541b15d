//! An answer: rows, as they are read, topic by topic.

use super::question::HistoryQuery;
use super::reader::{Columns, HistoryReader};
use super::source::{Loaded, Loader, Source};
use std::collections::VecDeque;
use std::sync::Arc;
use tieline_core::{Point, Timestamp, Topic, Value};
use tieline_series::{Aggregate, Bucket, Buckets, Column, Datum, Frame, Grid, Samples, Step, Summary, Sweep};
use tieline_store::{DAY_US, Row, StoreError};
use tracing::warn;

/// An answer: rows, as they are read. A chunk that is damaged costs its own samples; how many are missing is said.
pub struct Rows<'r> {
    reader: &'r HistoryReader,
    loader: Loader,
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

/// One topic on the way through its time.
struct Walk {
    number: Option<u32>,
    topic: Topic,
    sources: Vec<Source>,
    sweep: Sweep,
    /// From here on for this topic, and of one time behind so many samples.
    from: Timestamp,
    to: Timestamp,
    skip: Option<(i64, u64)>,
    out: Out,
}

/// What a topic's samples become.
enum Out {
    Samples { ready: Samples, last: Option<(i64, u64)> },
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
        let cutoff = reader.cutoff().unwrap_or(Timestamp::from_micros(i64::MIN));
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
        let (left, loader) = (query.limit.unwrap_or(u64::MAX), reader.loader());
        let topics = topics.into();
        Ok(Self { reader, loader, query, every, from, to, topics, journaled, walk: None, left, damaged: 0 })
    }

    /// Samples that could not be read because their chunk is damaged or lost, so far.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }

    fn find(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            // Most rows are ready.
            if let Some(row) = self.walk.as_mut().and_then(Walk::row) {
                return Ok(Some(row));
            }
            let Some(mut walk) = self.walk.take() else {
                let Some((number, topic)) = self.topics.pop_front() else { return Ok(None) };
                self.walk = Some(self.begin(number, topic)?);
                continue;
            };
            // At the end of a topic buckets may have one more.
            if self.advance(&mut walk)? || walk.has_row() {
                self.walk = Some(walk);
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
        let (heads, sources) = self.sources(number, &topic, from)?;
        let out = match self.every {
            None => Out::Samples { ready: Samples::default(), last: None },
            Some(every) => {
                let aggregate = self.query.aggregate;
                let frame = Frame { from, to: self.to, grid: Grid::Every(every) };
                let is_asked = aggregate.needs_standing();
                let standing = if is_asked { self.standing(number, &heads, from)? } else { None };
                Out::Buckets { buckets: Box::new(Buckets::new(frame, aggregate.needs(), standing)), aggregate }
            }
        };
        let sweep = Sweep::new(&sources.iter().map(Source::span).collect::<Vec<_>>());
        Ok(Walk { number, topic, sources, sweep, from, to: self.to, skip, out })
    }

    /// The samples of a topic from a time on: those in memory, and where all are.
    fn sources(
        &mut self,
        number: Option<u32>,
        topic: &Topic,
        from: Timestamp,
    ) -> Result<(Vec<Arc<Column>>, Vec<Source>), StoreError> {
        // Heads first: what becomes a chunk meanwhile is met twice, and counts once.
        let heads = self.heads(number, topic)?;
        let rows = match number {
            Some(number) => self.reader.index.chunks(number, from, self.to)?,
            None => Vec::new(),
        };
        let of_heads = heads.iter().filter(|column| !column.is_empty()).cloned().map(Source::Head);
        let all = rows.into_iter().flat_map(Source::of).chain(of_heads);
        let is_meant = |source: &Source| source.span().last >= from && source.span().first < self.to;
        let sources = all.filter(is_meant).collect();
        Ok((heads, sources))
    }

    /// The samples of a topic that may be in no chunk.
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
        let Some(step) = walk.sweep.step() else {
            if let Out::Buckets { buckets, .. } = &mut walk.out {
                buckets.finish();
            }
            return Ok(false);
        };
        let (one, is_whole) = match step {
            Step::Samples(column) => {
                walk.take(Arc::new(column));
                return Ok(true);
            }
            Step::Whole(one) => (one, true),
            Step::Open(one) => (one, false),
        };
        let Some(source) = walk.sources.get(one) else { return Ok(true) };
        if is_whole && walk.out.take_summary(source) {
            return Ok(true);
        }
        match self.load(source)? {
            Read::Column(column) if is_whole => walk.take(column),
            Read::Column(column) => walk.sweep.open(one, column),
            Read::Damaged => {}
            Read::Moved => {
                // All before it was given out: the rest is looked for where it is now.
                walk.from = walk.out.resume(source.span().first);
                (_, walk.sources) = self.sources(walk.number, &walk.topic, walk.from)?;
                walk.sweep = Sweep::new(&walk.sources.iter().map(Source::span).collect::<Vec<_>>());
            }
        }
        Ok(true)
    }

    fn load(&mut self, source: &Source) -> Result<Read, StoreError> {
        let why = match self.loader.source(source)? {
            Loaded::Column(column) => return Ok(Read::Column(column)),
            Loaded::Damaged(why) => why,
            Loaded::Missing => "its bytes are not there".to_owned(),
        };
        let Some((row, samples)) = source.row() else { return Ok(Read::Damaged) };
        let there = self.reader.index.chunks(row.topic, row.first, row.first.later(MICROSECOND))?;
        if there.iter().all(|other| other.extent != row.extent) {
            return Ok(Read::Moved);
        }
        self.damaged += samples;
        warn!(chunk = %row.extent, samples, why, "samples of the history cannot be read and are left out");
        Ok(Read::Damaged)
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
            let sources = self.reader.index.chunks(number, day, until)?.into_iter().flat_map(Source::of);
            for source in sources.filter(|source| source.span().first < from) {
                match source.summary().and_then(|summary| summary.numbers).map(|numbers| numbers.last) {
                    Some(last) if last.0 < from => found.push(last),
                    Some(_) => {
                        if let Read::Column(column) = self.load(&source)? {
                            found.extend(last_before(&column, from));
                        }
                    }
                    None => {}
                }
            }
            until = day;
        }
        Ok(found.into_iter().max_by_key(|(time, _)| *time).map(|(_, number)| number))
    }
}

/// What became of reading the samples of a source.
enum Read {
    Column(Arc<Column>),
    /// They cannot be read; that was counted and said.
    Damaged,
    /// They are elsewhere now, or were removed.
    Moved,
}

const DAY: std::time::Duration = std::time::Duration::from_micros(DAY_US.cast_unsigned());
const MICROSECOND: std::time::Duration = std::time::Duration::from_micros(1);

/// The last number of a column before a time, and when.
fn last_before(column: &Column, time: Timestamp) -> Option<(Timestamp, f64)> {
    let before = column.range(0..column.count_before(time));
    Summary::of(&before).numbers.map(|numbers| numbers.last)
}

impl Out {
    /// Takes what a source says of itself, where that is enough.
    fn take_summary(&mut self, source: &Source) -> bool {
        let Self::Buckets { buckets, aggregate } = self else { return false };
        let Some(summary) = source.summary().filter(|_| buckets.frame().holds(source.span())) else { return false };
        let fits = aggregate.needs().fits(summary);
        if fits {
            buckets.add_summary(source.span().first, summary);
        }
        fits
    }

    /// From where on samples are wanted again, when all before a time was taken.
    fn resume(&mut self, time: Timestamp) -> Timestamp {
        match self {
            Self::Samples { .. } => time,
            Self::Buckets { buckets, .. } => buckets.discard_open().unwrap_or(time),
        }
    }
}

impl Walk {
    fn take(&mut self, column: Arc<Column>) {
        match &mut self.out {
            Out::Buckets { buckets, .. } => {
                let start = column.count_before(self.from);
                if start == 0 {
                    buckets.add_samples(&column);
                } else {
                    buckets.add_samples(&column.range(start..column.len()));
                }
            }
            Out::Samples { ready, .. } => {
                let (start, end) = (column.count_before(self.from), column.count_before(self.to));
                *ready = Samples::new(column, start..end.max(start));
            }
        }
    }

    /// Whether there may be a row without another step.
    fn has_row(&self) -> bool {
        match &self.out {
            Out::Samples { ready, .. } => ready.len() > 0,
            Out::Buckets { buckets, .. } => buckets.has_done(),
        }
    }

    fn row(&mut self) -> Option<Row> {
        match &mut self.out {
            Out::Samples { ready, last } => {
                for sample in ready {
                    let time_us = sample.time.micros();
                    let number = last.filter(|(time, _)| *time == time_us).map_or(0, |(_, number)| number + 1);
                    *last = Some((time_us, number));
                    if self.skip.is_some_and(|place| (time_us, number) <= place) {
                        continue;
                    }
                    let point = Point { value: value_of(sample.datum), quality: sample.quality, time: sample.time };
                    return Some(row(&self.topic, point, 1, number));
                }
                None
            }
            Out::Buckets { buckets, aggregate } => {
                while let Some(bucket) = buckets.poll() {
                    if let Some(row) = bucket_row(&self.topic, *aggregate, &bucket) {
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
    Row { topic: topic.clone(), point, count, number }
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
