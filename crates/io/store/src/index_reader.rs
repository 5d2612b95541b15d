//! The reading side of the index; its tables are told in `index.rs`.

use crate::StoreError;
use crate::chunk_files::Extent;
use crate::index::{BUSY_WAIT, ChunkRow, DAY_US, check, state};
use rusqlite::{Connection, OpenFlags, Row, params};
use std::path::Path;
use tieline_core::{Filter, Timestamp, Topic};

/// Opens a SQLite file to read, whether a node runs on it or not.
pub(crate) fn open_reading(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let checked = |db: Connection| {
        db.busy_timeout(BUSY_WAIT)?;
        db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
        Ok(db)
    };
    match Connection::open_with_flags(path, flags).map_err(StoreError::from).and_then(checked) {
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

/// The reading side of the index; one a thread.
pub struct IndexReader {
    db: Connection,
}

impl IndexReader {
    /// Opens the index, whether a node runs on it or not.
    ///
    /// # Errors
    /// There is none, or it was written by a newer release, or it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let db = open_reading(path)?;
        check(&db)?;
        Ok(Self { db })
    }

    /// See [`Index::position`].
    ///
    /// # Errors
    /// The file failed.
    pub fn position(&self) -> Result<u64, StoreError> {
        Ok(state(&self.db, "journal")?.unwrap_or(0).cast_unsigned())
    }

    /// The topics that have a history, by name, with their numbers.
    ///
    /// # Errors
    /// The file failed.
    pub fn topics(&self, filter: &Filter) -> Result<Vec<(u32, Topic)>, StoreError> {
        topics(&self.db, filter, |_| true)
    }

    /// The same, of names that are meant.
    ///
    /// # Errors
    /// The file failed.
    pub fn topics_where(
        &self,
        filter: &Filter,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Vec<(u32, Topic)>, StoreError> {
        topics(&self.db, filter, is_meant)
    }

    /// The chunks of a topic that may have its last sample not behind a time, where that is not before `floor`, in the order in which
    /// they came; and the latest time at which one of them begins.
    ///
    /// # Errors
    /// The file failed.
    pub fn chunks_around(
        &self,
        topic: u32,
        time: Timestamp,
        floor: Timestamp,
    ) -> Result<Option<(Timestamp, Vec<ChunkRow>)>, StoreError> {
        let mut begin =
            self.db.prepare_cached("SELECT max(first_us) FROM chunks WHERE topic_id = ?1 AND first_us <= ?2")?;
        let begin: Option<i64> = begin.query_row(params![topic, time.micros()], |row| row.get(0))?;
        let Some(begin) = begin.map(Timestamp::from_micros) else { return Ok(None) };
        let behind = Timestamp::from_micros(time.micros().saturating_add(1));
        Ok(Some((begin, self.chunks(topic, begin.max(floor), behind)?)))
    }

    /// The chunks of a topic that may have samples from a time on and before another, in the order in which they came.
    ///
    /// # Errors
    /// The file failed.
    pub fn chunks(&self, topic: u32, from: Timestamp, to: Timestamp) -> Result<Vec<ChunkRow>, StoreError> {
        // A chunk is in one day: what begins earlier than the day of `from` ends before it.
        let day = day_of(from.micros());
        let mut statement = self.db.prepare_cached(
            "SELECT topic_id, first_us, last_us, file_id, offset, chunks.bytes, samples, summary, chunks.id, day
             FROM chunks JOIN files ON files.id = file_id
             WHERE topic_id = ?1 AND first_us >= ?2 AND first_us < ?3 AND last_us >= ?4",
        )?;
        let found = statement.query_map(params![topic, day, to.micros(), from.micros()], chunk_row)?;
        let mut found: Vec<ChunkRow> = found.collect::<Result<_, _>>()?;
        found.sort_by_key(|chunk| chunk.number);
        Ok(found)
    }

    /// When the day begins that has the last chunk of a topic that begins before a time.
    ///
    /// # Errors
    /// The file failed.
    pub fn day_before(&self, topic: u32, before: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let mut statement =
            self.db.prepare_cached("SELECT max(first_us) FROM chunks WHERE topic_id = ?1 AND first_us < ?2")?;
        let found: Option<i64> = statement.query_row(params![topic, before.micros()], |row| row.get(0))?;
        Ok(found.map(|first| Timestamp::from_micros(day_of(first))))
    }
}

/// When the day of a time begins.
const fn day_of(micros: i64) -> i64 {
    micros.div_euclid(DAY_US).saturating_mul(DAY_US)
}

fn chunk_row(row: &Row<'_>) -> rusqlite::Result<ChunkRow> {
    let time = |place| row.get(place).map(Timestamp::from_micros);
    let offset = row.get::<_, i64>(4)?.cast_unsigned();
    Ok(ChunkRow {
        topic: row.get(0)?,
        first: time(1)?,
        last: time(2)?,
        extent: Extent { file: row.get(3)?, offset, bytes: row.get(5)? },
        samples: row.get::<_, i64>(6)?.cast_unsigned(),
        summary: row.get(7)?,
        number: row.get(8)?,
        day: row.get(9)?,
    })
}

/// The topics of a file, by name, with their numbers.
pub(crate) fn topics(
    db: &Connection,
    filter: &Filter,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Vec<(u32, Topic)>, StoreError> {
    let mut found = Vec::new();
    let sql = if filter.contains(['+', '#']) {
        "SELECT id, name FROM topics WHERE ?1 <> '' ORDER BY name"
    } else {
        "SELECT id, name FROM topics WHERE name = ?1"
    };
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([filter.as_str()])?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str().map_err(|_| StoreError::Damaged("a topic is no text".into()))?;
        if filter.matches(name) && is_meant(name) {
            let topic = Topic::new(name).map_err(|e| StoreError::Damaged(e.to_string()))?;
            found.push((row.get(0)?, topic));
        }
    }
    Ok(found)
}
