//! The reading side of the index; its tables are told in `index.rs`.

use crate::StoreError;
use crate::chunk_files::Extent;
use crate::index::{BUSY_WAIT, ChunkRow, DAY_US, FileRow, check, keep_plans, state};
use crate::names::NamedChunk;
use rusqlite::{Connection, OpenFlags, Row, params};
use std::collections::HashMap;
use std::path::Path;
use tieline_core::{Filter, Timestamp, Topic};

/// What the chunks of a topic are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSums {
    /// How many chunks, and parts of day files.
    pub chunks: u64,
    /// How many samples they have.
    pub samples: u64,
    /// How many bytes they take.
    pub bytes: u64,
    /// The times of the first and the last sample; none without chunks.
    pub span: Option<(Timestamp, Timestamp)>,
}

/// What could be read of a damaged index.
#[derive(Clone, Debug, Default)]
pub struct Salvage {
    /// Names of topics, by number.
    pub names: HashMap<u32, Topic>,
    /// Chunks, and whose they are; parts of day files among them.
    pub chunks: Vec<NamedChunk>,
}

/// A file, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// Number, committed bytes, day.
    pub row: FileRow,
    /// Bytes of chunks that the index has.
    pub live_bytes: u64,
    /// The CRC-32 of a day file, where it is known.
    pub check: Option<u32>,
}

/// Opens a SQLite file to read, whether a node runs on it or not.
pub(crate) fn open_reading(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let checked = |db: Connection| {
        db.busy_timeout(BUSY_WAIT)?;
        keep_plans(&db)?;
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
    pub(crate) db: Connection,
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

    /// Everything that is read from here on until [`IndexReader::release`] is as it is at the first of it: many short looks cost less
    /// together. It must not take long: the file grows meanwhile.
    ///
    /// # Errors
    /// The file failed.
    pub fn hold(&self) -> Result<(), StoreError> {
        Ok(self.db.prepare_cached("BEGIN")?.execute([]).map(drop)?)
    }

    /// Everything that is read from here on is as it is by then; nothing happens without [`IndexReader::hold`].
    ///
    /// # Errors
    /// The file failed.
    pub fn release(&self) -> Result<(), StoreError> {
        if self.db.is_autocommit() {
            return Ok(());
        }
        Ok(self.db.prepare_cached("COMMIT")?.execute([]).map(drop)?)
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
        chunks(&self.db, topic, from, to)
    }

    /// All topics by name, those that begin with `$` among them.
    ///
    /// # Errors
    /// The file failed.
    pub fn every_topic(&self) -> Result<Vec<(u32, Topic)>, StoreError> {
        let mut found = Vec::new();
        let mut statement = self.db.prepare_cached("SELECT id, name FROM topics ORDER BY name")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let topic = Topic::new(&row.get::<_, String>(1)?).map_err(|e| StoreError::Damaged(e.to_string()))?;
            found.push((row.get(0)?, topic));
        }
        Ok(found)
    }

    /// What the chunks of a topic are together.
    ///
    /// # Errors
    /// The file failed.
    pub fn sums(&self, topic: u32) -> Result<TopicSums, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT count(*), coalesce(sum(samples), 0), coalesce(sum(bytes), 0), min(first_us), max(last_us) FROM chunks
             WHERE topic_id = ?",
        )?;
        Ok(statement.query_row([topic], |row| {
            let number = |place| row.get::<_, i64>(place).map(i64::cast_unsigned);
            let time = |place| row.get::<_, Option<i64>>(place).map(|micros| micros.map(Timestamp::from_micros));
            let (chunks, samples, bytes) = (number(0)?, number(1)?, number(2)?);
            Ok(TopicSums { chunks, samples, bytes, span: time(3)?.zip(time(4)?) })
        })?)
    }

    /// The samples of each topic in chunks that end behind a length of a file of chunks: 0 for a file that is lost. Of a day file all
    /// are meant, which cannot be read where its end is lost.
    ///
    /// # Errors
    /// The file failed.
    pub fn samples_beyond(&self, file: FileRow, length: u64) -> Result<Vec<(u32, u64)>, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT topic_id, sum(samples) FROM chunks WHERE file_id = ?1 AND (?3 OR offset + bytes > ?2) GROUP BY topic_id",
        )?;
        let asked = params![file.number, length.cast_signed(), file.day.is_some()];
        let found = statement.query_map(asked, |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The files, by number.
    ///
    /// # Errors
    /// The file failed.
    pub fn files(&self) -> Result<Vec<KnownFile>, StoreError> {
        let all = |sql| -> Result<Vec<KnownFile>, StoreError> {
            let mut statement = self.db.prepare_cached(sql)?;
            let found = statement.query_map([], |row| {
                let bytes = |place| row.get::<_, i64>(place).map(i64::cast_unsigned);
                let file = FileRow { number: row.get(0)?, bytes: bytes(1)?, day: row.get(3)? };
                Ok(KnownFile { row: file, live_bytes: bytes(2)?, check: row.get(4)? })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        };
        let checked = "SELECT id, bytes, live_bytes, day, crc FROM files LEFT JOIN checks ON file_id = id ORDER BY id";
        // An index that only an earlier release has opened has no checks.
        all(checked).or_else(|_| all("SELECT id, bytes, live_bytes, day, NULL FROM files ORDER BY id"))
    }

    /// Chunks of files that the index does not know.
    ///
    /// # Errors
    /// The file failed.
    pub fn without_file(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM chunks WHERE file_id NOT IN (SELECT id FROM files)";
        Ok(self.db.query_row(sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned())
    }

    /// The last number that a file got; 0 before the first.
    ///
    /// # Errors
    /// The file failed.
    pub fn last_file(&self) -> Result<u32, StoreError> {
        Ok(state(&self.db, "file")?.and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
    }

    /// Writes the index to a new file, as it is at one moment.
    ///
    /// # Errors
    /// The file failed, or the new one cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        self.db.execute("VACUUM INTO ?", [path.to_string_lossy()])?;
        Ok(())
    }

    /// What the index itself takes on the disk in bytes, without the write-ahead log.
    ///
    /// # Errors
    /// The file failed.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let pragma = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok((pragma("page_count")? * pragma("page_size")?).cast_unsigned())
    }

    /// What SQLite finds wrong with the file; nothing where it is whole.
    ///
    /// # Errors
    /// The file is so damaged that it cannot be looked at.
    pub fn faults(&self) -> Result<Vec<String>, StoreError> {
        let mut statement = self.db.prepare("PRAGMA quick_check(20)")?;
        let found = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    /// What can be read of a damaged index: names of topics by number, and whose the chunk is that begins at a place of a file.
    #[must_use]
    pub fn salvage(&self) -> Salvage {
        let mut found = Salvage::default();
        // Each row that can be read is one that is not lost: the first that cannot ends the table.
        if let Ok(mut statement) = self.db.prepare("SELECT id, name FROM topics NOT INDEXED")
            && let Ok(mut rows) = statement.query([])
        {
            while let Ok(Some(row)) = rows.next() {
                if let (Ok(number), Ok(name)) = (row.get(0), row.get::<_, String>(1))
                    && let Ok(topic) = Topic::new(&name)
                {
                    found.names.insert(number, topic);
                }
            }
        }
        if let Ok(mut statement) = self.db.prepare("SELECT file_id, offset, bytes, topic_id FROM chunks")
            && let Ok(mut rows) = statement.query([])
        {
            while let Ok(Some(row)) = rows.next() {
                if let (Ok(file), Ok(offset), Ok(bytes), Ok(topic)) =
                    (row.get(0), row.get::<_, i64>(1), row.get(2), row.get(3))
                {
                    let extent = Extent { file, offset: offset.cast_unsigned(), bytes };
                    found.chunks.push(NamedChunk { topic, extent });
                }
            }
        }
        found
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

/// The chunks of a topic, in the order in which they came.
pub(crate) fn chunks(db: &Connection, topic: u32, from: Timestamp, to: Timestamp) -> Result<Vec<ChunkRow>, StoreError> {
    // A chunk is in one day: what begins earlier than the day of `from` ends before it.
    let day = day_of(from.micros());
    let mut statement = db.prepare_cached(
        "SELECT topic_id, first_us, last_us, file_id, offset, chunks.bytes, samples, summary, chunks.id, day
         FROM chunks JOIN files ON files.id = file_id
         WHERE topic_id = ?1 AND first_us >= ?2 AND first_us < ?3 AND last_us >= ?4",
    )?;
    let found = statement.query_map(params![topic, day, to.micros(), from.micros()], chunk_row)?;
    let mut found: Vec<ChunkRow> = found.collect::<Result<_, _>>()?;
    found.sort_by_key(|chunk| chunk.number);
    Ok(found)
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
