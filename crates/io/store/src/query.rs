//! Questions to the store. Answers stream: a page of rows at a time, and no lock is held between pages.

use crate::aggregate::Bucket;
use crate::row::value;
use crate::{Aggregate, Row, STORE_FILE, StoreError, schema};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use tieline_core::{Filter, Point, Quality, Timestamp, Topic, Validity};

/// Rows that one read takes.
const PAGE_ROWS: u32 = 1024;

/// Which way through time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The oldest first.
    #[default]
    Up,
    /// The newest first.
    Down,
}

/// A question. Topics are answered one after the other, in the order of their names; within a topic in order of time.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Which topics.
    pub topics: Filter,
    /// Not before this.
    pub from: Option<Timestamp>,
    /// Before this.
    pub to: Option<Timestamp>,
    /// Buckets of this width, aligned to 1970; none asks for the samples themselves.
    pub every: Option<Duration>,
    /// What stands for a bucket. A bucket without samples has no row.
    pub aggregate: Aggregate,
    /// Whether buckets count samples of bad quality, too.
    pub with_bad: bool,
    /// Which way through time.
    pub order: Order,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Goes on behind this row of an earlier answer to the same question.
    pub after: Option<Place>,
}

impl HistoryQuery {
    /// All samples of the topics.
    #[must_use]
    pub const fn of(topics: Filter) -> Self {
        Self {
            topics,
            from: None,
            to: None,
            every: None,
            aggregate: Aggregate::Mean,
            with_bad: false,
            order: Order::Up,
            limit: None,
            after: None,
        }
    }
}

/// A row's place in an answer. As text: `<microseconds>.<seq>.<topic>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    time_us: i64,
    seq: i64,
    topic: Topic,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.time_us, self.seq, self.topic)
    }
}

/// A text that is not a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceError;

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a place as an earlier answer gave it: <microseconds>.<seq>.<topic>")
    }
}

impl std::error::Error for PlaceError {}

impl FromStr for Place {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next().ok_or(PlaceError);
        let time_us = part()?.parse().map_err(|_| PlaceError)?;
        let seq = part()?.parse().map_err(|_| PlaceError)?;
        Ok(Self { time_us, seq, topic: part()?.parse().map_err(|_| PlaceError)? })
    }
}

/// The reading side of the store; one a thread.
pub struct StoreReader {
    db: Connection,
}

impl StoreReader {
    /// Opens the store of a data folder, whether a node runs on it or not.
    ///
    /// # Errors
    /// There is none, or it was written by a newer release, or it cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let path = data.join(STORE_FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let opened = Connection::open_with_flags(&path, flags).map_err(StoreError::from).and_then(checked);
        match opened {
            // A folder that cannot be written holds no running node: nothing changes below the reader.
            Err(StoreError::Failed(error)) => match path.to_str().filter(|_| path.exists()) {
                Some(text) => {
                    let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
                    checked(Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)?)
                }
                None => Err(error.into()),
            },
            opened => opened,
        }
    }

    /// The topics that have a history, by name.
    ///
    /// # Errors
    /// The file failed.
    pub fn topics(&self, filter: &Filter) -> Result<Vec<Topic>, StoreError> {
        Ok(self.numbered(filter)?.into_iter().map(|(_, topic)| topic).collect())
    }

    /// Answers a question. The rows come as they are read; samples that are stored or removed meanwhile may be in the
    /// answer or not.
    ///
    /// # Errors
    /// The question is none, or the file failed.
    pub fn query(&self, query: HistoryQuery) -> Result<Rows<'_>, StoreError> {
        let every = match query.every {
            None => None,
            Some(every) => match i64::try_from(every.as_micros()) {
                Ok(micros) if micros > 0 => Some(micros),
                Ok(_) | Err(_) => return Err(StoreError::Question("the width of buckets is out of range")),
            },
        };
        if query.order == Order::Down && every.is_some() && query.aggregate == Aggregate::TimeWeighted {
            return Err(StoreError::Question("a time-weighted mean is answered with the oldest first only"));
        }
        let mut topics = self.numbered(&query.topics)?;
        if let Some(place) = &query.after {
            topics.retain(|(_, topic)| *topic >= place.topic);
        }
        let left = query.limit.unwrap_or(u64::MAX);
        Ok(Rows { db: &self.db, query, every, topics: topics.into(), scan: None, left })
    }

    fn numbered(&self, filter: &Filter) -> Result<Vec<(i64, Topic)>, StoreError> {
        let mut found = Vec::new();
        let sql = if filter.contains(['+', '#']) {
            "SELECT id, name FROM topics WHERE ?1 <> '' ORDER BY name"
        } else {
            "SELECT id, name FROM topics WHERE name = ?1"
        };
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([filter.as_str()])?;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(1)?.as_str().map_err(|_| StoreError::Damaged("a topic is no text".into()))?;
            if filter.matches(name) {
                let topic = Topic::new(name).map_err(|e| StoreError::Damaged(e.to_string()))?;
                found.push((row.get(0)?, topic));
            }
        }
        Ok(found)
    }
}

fn checked(db: Connection) -> Result<StoreReader, StoreError> {
    db.busy_timeout(Duration::from_secs(5))?;
    schema::check(&db)?;
    Ok(StoreReader { db })
}

/// An answer: rows, as they are read.
pub struct Rows<'a> {
    db: &'a Connection,
    query: HistoryQuery,
    every: Option<i64>,
    topics: VecDeque<(i64, Topic)>,
    scan: Option<TopicScan>,
    left: u64,
}

/// One topic's samples, a page at a time.
struct TopicScan {
    id: i64,
    topic: Topic,
    page: VecDeque<(i64, i64, Point)>,
    /// The key of the last row read.
    at: (i64, i64),
    done: bool,
    bucket: Option<Bucket>,
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

impl Rows<'_> {
    fn find(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            let Some(scan) = &mut self.scan else {
                let Some((id, topic)) = self.topics.pop_front() else { return Ok(None) };
                self.scan = Some(self.begin(id, topic)?);
                continue;
            };
            let row = match self.every {
                None => scan.sample(self.db, &self.query)?,
                Some(every) => scan.aggregate(self.db, &self.query, every)?,
            };
            if row.is_some() {
                return Ok(row);
            }
            self.scan = None;
        }
    }

    fn begin(&self, id: i64, topic: Topic) -> Result<TopicScan, StoreError> {
        let from = self.query.from.map_or(i64::MIN, Timestamp::micros);
        let to = self.query.to.map_or(i64::MAX, Timestamp::micros);
        let up = self.query.order == Order::Up;
        let mut at = if up { (from, -1) } else { (to, 0) };
        if let Some(place) = self.query.after.as_ref().filter(|place| place.topic == topic) {
            at = match (self.every, up) {
                (None, _) => (place.time_us, place.seq),
                (Some(every), true) => (place.time_us.saturating_add(every), -1),
                (Some(_), false) => (place.time_us, 0),
            };
        }
        let mut scan = TopicScan { id, topic, page: VecDeque::new(), at, done: false, bucket: None };
        if self.every.is_some() && self.query.aggregate == Aggregate::TimeWeighted {
            let standing = scan.standing_before(self.db, at.0, self.query.with_bad)?;
            scan.bucket = Some(Bucket::new(self.query.aggregate, i64::MIN, standing));
        }
        Ok(scan)
    }
}

impl TopicScan {
    fn sample(&mut self, db: &Connection, query: &HistoryQuery) -> Result<Option<Row>, StoreError> {
        let Some((time_us, seq, point)) = self.next_sample(db, query)? else { return Ok(None) };
        let topic = self.topic.clone();
        Ok(Some(Row { place: Place { time_us, seq, topic: topic.clone() }, topic, point, count: 1 }))
    }

    fn aggregate(&mut self, db: &Connection, query: &HistoryQuery, every: i64) -> Result<Option<Row>, StoreError> {
        let end = |start: i64| start.saturating_add(every).min(query.to.map_or(i64::MAX, Timestamp::micros));
        while let Some((time_us, _, point)) = self.next_sample(db, query)? {
            if !query.with_bad && point.quality.validity() == Validity::Bad {
                continue;
            }
            let start = time_us.div_euclid(every).saturating_mul(every);
            let full = match &mut self.bucket {
                Some(bucket) if bucket.start == start => {
                    bucket.add(point);
                    continue;
                }
                bucket => bucket.take(),
            };
            // A value from before the first bucket stands from where the question begins.
            let standing = full.as_ref().and_then(Bucket::standing);
            let begin = start.max(query.from.map_or(i64::MIN, Timestamp::micros));
            let mut fresh = Bucket::new(query.aggregate, begin, standing);
            fresh.start = start;
            fresh.add(point);
            self.bucket = Some(fresh);
            if let Some(row) = full.and_then(|bucket| self.row(bucket, end)) {
                return Ok(Some(row));
            }
        }
        Ok(self.bucket.take().and_then(|bucket| self.row(bucket, end)))
    }

    fn row(&self, bucket: Bucket, end: impl Fn(i64) -> i64) -> Option<Row> {
        let (time_us, count) = (bucket.start, bucket.count);
        let topic = self.topic.clone();
        let point = bucket.finish(end(time_us))?;
        Some(Row { place: Place { time_us, seq: 0, topic: topic.clone() }, topic, point, count })
    }

    fn next_sample(&mut self, db: &Connection, query: &HistoryQuery) -> Result<Option<(i64, i64, Point)>, StoreError> {
        if self.page.is_empty() && !self.done {
            self.read_page(db, query)?;
        }
        Ok(self.page.pop_front())
    }

    fn read_page(&mut self, db: &Connection, query: &HistoryQuery) -> Result<(), StoreError> {
        let (sql, bound) = match query.order {
            Order::Up => (
                "SELECT time_us, seq, kind, value, quality FROM samples
                 WHERE topic_id = ?1 AND (time_us, seq) > (?2, ?3) AND time_us < ?4
                 ORDER BY time_us, seq LIMIT ?5",
                query.to.map_or(i64::MAX, Timestamp::micros),
            ),
            Order::Down => (
                "SELECT time_us, seq, kind, value, quality FROM samples
                 WHERE topic_id = ?1 AND (time_us, seq) < (?2, ?3) AND time_us >= ?4
                 ORDER BY time_us DESC, seq DESC LIMIT ?5",
                query.from.map_or(i64::MIN, Timestamp::micros),
            ),
        };
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.id, self.at.0, self.at.1, bound, PAGE_ROWS])?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            let (time_us, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
            let value = value(row.get(2)?, row.get_ref(3)?)
                .ok_or_else(|| StoreError::Damaged(format!("a sample of {} at {time_us} has no value", self.topic)))?;
            let quality = Quality::from_bits(row.get(4)?);
            self.page.push_back((time_us, seq, Point { value, quality, time: Timestamp::from_micros(time_us) }));
            self.at = (time_us, seq);
            read += 1;
        }
        self.done = read < PAGE_ROWS;
        Ok(())
    }

    /// The number that stands at a time: that of the last sample before it.
    fn standing_before(&self, db: &Connection, time_us: i64, with_bad: bool) -> Result<Option<f64>, StoreError> {
        let found = db
            .prepare_cached(
                "SELECT kind, value, quality FROM samples WHERE topic_id = ? AND time_us < ?
                 ORDER BY time_us DESC, seq DESC LIMIT 1",
            )?
            .query_row(params![self.id, time_us], |row| {
                Ok((value(row.get(0)?, row.get_ref(1)?), Quality::from_bits(row.get(2)?)))
            })
            .optional()?;
        let usable = found.filter(|(_, quality)| with_bad || quality.validity() != Validity::Bad);
        Ok(usable.and_then(|(value, _)| value?.as_f64()).filter(|x| !x.is_nan()))
    }
}
