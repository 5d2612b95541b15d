//! The store of earlier releases: a row of SQLite for each sample. It is read once, to be moved.
//!
//! | table | column | holds |
//! |---|---|---|
//! | `topics` | `id` | number of the topic in this file |
//! | | `name` | its path |
//! | `samples` | `topic_id` | whose sample |
//! | | `time_us` | when: microseconds since 1970 UTC |
//! | | `seq` | 0; 1, 2, … for further samples of the same topic and time |
//! | | `kind` | 0 double, 1 integer, 2 two-state, 3 text, 4 bytes, 5 nothing, 6 a payload as published |
//! | | `value` | kind 0: REAL, or INTEGER where that is the same number, or NULL for not-a-number; 1, 2: INTEGER; 3: TEXT; 4, 6: BLOB; 5: NULL |
//! | | `quality` | the reasons against the value as bits (`tieline_core::Quality`) |
//! | `state` | `journal` | the sequence of the last journal record that is stored |

use crate::index_reader::{open_reading, topics};
use crate::{Moved, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use std::path::Path;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Value};

/// A store of an earlier release.
pub struct OlderStore {
    db: Connection,
    topics: Vec<(u32, Topic)>,
}

/// Samples of one topic, and up to where they reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Whose.
    pub topic: Topic,
    /// What and when.
    pub samples: Vec<(Timestamp, Body)>,
    /// The last of them.
    pub upto: Moved,
}

impl OlderStore {
    /// Opens the store to read it.
    ///
    /// # Errors
    /// It is none, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = open_reading(path)?;
        let mut topics = topics(&db, &Filter::new("#").map_err(|e| StoreError::Damaged(e.to_string()))?)?;
        topics.sort_by_key(|(number, _)| *number);
        Ok(Self { db, topics })
    }

    /// The journal record up to which samples are in it.
    ///
    /// # Errors
    /// It failed.
    pub fn position(&self) -> Result<u64, StoreError> {
        let found: i64 = self.db.query_row("SELECT value FROM state WHERE key = 'journal'", [], |row| row.get(0))?;
        Ok(found.cast_unsigned())
    }

    /// How many topics it has, and how many of them are behind a sample.
    #[must_use]
    pub fn topics(&self, moved: Option<Moved>) -> (usize, usize) {
        let done =
            self.topics.partition_point(|(number, _)| moved.is_some_and(|(topic, ..)| i64::from(*number) < topic));
        (self.topics.len(), done)
    }

    /// The samples behind one, of one topic, `rows_max` at most; none at the end.
    ///
    /// # Errors
    /// It failed.
    pub fn page(&self, moved: Option<Moved>, rows_max: u32) -> Result<Option<Page>, StoreError> {
        let (_, done) = self.topics(moved);
        for (number, topic) in self.topics.iter().skip(done) {
            let number = i64::from(*number);
            let (time, seq) = match moved {
                Some((topic, time, seq)) if topic == number => (time, seq),
                _ => (i64::MIN, -1),
            };
            let (samples, last) = self.read(number, (time, seq), rows_max)?;
            if let Some((time, seq)) = last {
                return Ok(Some(Page { topic: topic.clone(), samples, upto: (number, time, seq) }));
            }
        }
        Ok(None)
    }

    #[expect(clippy::type_complexity, reason = "samples, and the key of the last row")]
    fn read(
        &self,
        topic: i64,
        behind: (i64, i64),
        rows_max: u32,
    ) -> Result<(Vec<(Timestamp, Body)>, Option<(i64, i64)>), StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT time_us, seq, kind, value, quality FROM samples
             WHERE topic_id = ?1 AND (time_us, seq) > (?2, ?3) ORDER BY time_us, seq LIMIT ?4",
        )?;
        let mut rows = statement.query(params![topic, behind.0, behind.1, rows_max])?;
        let (mut samples, mut last) = (Vec::new(), None);
        while let Some(row) = rows.next()? {
            let time = Timestamp::from_micros(row.get(0)?);
            let quality = Quality::from_bits(row.get(4)?);
            last = Some((time.micros(), row.get(1)?));
            // A row that no release wrote is left out: the others are worth more.
            samples.extend(body(row.get(2)?, row.get_ref(3)?, quality, time).map(|body| (time, body)));
        }
        Ok((samples, last))
    }
}

fn body(kind: u8, value: ValueRef<'_>, quality: Quality, time: Timestamp) -> Option<Body> {
    let value = match (kind, value) {
        (0, ValueRef::Null) => Value::Float(f64::NAN),
        #[expect(clippy::cast_precision_loss, reason = "only integers below 2^47 were written for doubles")]
        (0, ValueRef::Integer(whole)) => Value::Float(whole as f64),
        (0, ValueRef::Real(double)) => Value::Float(double),
        (1, ValueRef::Integer(whole)) => Value::Int(whole),
        (2, ValueRef::Integer(state)) => Value::Bool(state != 0),
        (3, ValueRef::Text(text)) => Value::Text(str::from_utf8(text).ok()?.into()),
        (4, ValueRef::Blob(bytes)) => Value::Bytes(bytes.into()),
        (5, ValueRef::Null) => Value::Null,
        (6, ValueRef::Blob(bytes)) => return Some(Body::Opaque(bytes.to_vec().into())),
        _ => return None,
    };
    Some(Body::Point(Point { value, quality, time }))
}
