//! The index of a history: which topics there are, and where their chunks of samples are. SQLite with a write-ahead log, one
//! writer, any number of readers (`index_reader.rs`).
//!
//! | table | column | holds |
//! |---|---|---|
//! | `topics` | `id` | number of the topic |
//! | | `name` | its path |
//! | `files` | `id` | number of the file |
//! | | `bytes` | its bytes that are chunks; what is behind them was never committed |
//! | | `live_bytes` | those of chunks that are in `chunks` |
//! | | `day` | of a day file: which day, in days since 1970; null of a file of chunks |
//! | `chunks` | `topic_id` | whose samples |
//! | | `first_us`, `last_us` | microseconds since 1970 UTC; both are in one day |
//! | | `id` | 1, 2, … in the order in which chunks came |
//! | | `file_id`, `offset`, `bytes` | where it is; in a day file `offset` is the number of the row group × 2^32 + the first of its rows, and `bytes` a share of the file |
//! | | `samples` | how many |
//! | | `summary` | what they are together, as `tieline_series::Summary` writes it; in a day file that of each hour, or few samples themselves |
//! | `days` | `day` | a day that has chunks |
//! | | `is_open` | 1 where some of them are in no day file |
//! | | `ready_us` | not before this time they are to be |
//! | `state` | `journal` | the sequence of the last journal record of which no sample is missing in chunks |
//! | | `migrated_topic`, `migrated_time`, `migrated_seq` | up to where an older store was moved into this one |
//! | `erased` | `file_id`, `offset`, `bytes` | bytes of deleted samples that are to be overwritten |
//! | `checks` | `file_id`, `crc` | CRC-32 of a day file |
//! | `plans` | `day`, `plan` | what a day went through: for each rule of retention what was done, and its topics |
//! | `rules` | `place`, `topics`, `rule` | the rules of retention, in their order; the last is of all other topics |
//! | | `removed`, `downsampled` | how many samples were removed by the rule, and replaced by others |
//!
//! A chunk is durable in its file before it is in the index. The schema's version is SQLite's `user_version`.

use crate::StoreError;
use crate::chunk_files::Extent;
use crate::index_rules::{self, RuleCounts};
use crate::topic_numbers::TopicNumbers;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use tieline_core::{Timestamp, Topic};

/// How long a call waits for a reader that holds the file.
pub(crate) const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;

/// One step a version, oldest first; a step that was released never changes.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE files (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, live_bytes INTEGER NOT NULL, day INTEGER);
    CREATE TABLE days (day INTEGER PRIMARY KEY, is_open INTEGER NOT NULL, ready_us INTEGER NOT NULL);
    CREATE TABLE chunks (
        topic_id INTEGER NOT NULL, first_us INTEGER NOT NULL, id INTEGER NOT NULL, last_us INTEGER NOT NULL,
        file_id INTEGER NOT NULL, offset INTEGER NOT NULL, bytes INTEGER NOT NULL, samples INTEGER NOT NULL, summary BLOB NOT NULL,
        PRIMARY KEY (topic_id, first_us, id)
    ) WITHOUT ROWID;
    CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO state VALUES ('journal', 0);
"];

/// A file that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// Its number.
    pub number: u32,
    /// Its bytes, as far as they are committed.
    pub bytes: u64,
    /// Of a day file: which day, in days since 1970; none of a file of chunks.
    pub day: Option<i32>,
}

/// Where a chunk is, and what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkRow {
    /// Its number, in the order in which they came. The index gives it.
    pub number: i64,
    /// Whose samples.
    pub topic: u32,
    /// The time of the first sample.
    pub first: Timestamp,
    /// The time of the last sample.
    pub last: Timestamp,
    /// Where its bytes are.
    pub extent: Extent,
    /// How many samples.
    pub samples: u64,
    /// What they are together.
    pub summary: Vec<u8>,
    /// Of samples in a day file: the day, in days since 1970.
    pub day: Option<i32>,
}

/// A day file that is durable, to take the place of chunks that it was made of.
#[derive(Clone, Debug)]
pub struct ClosedDay<'d> {
    /// The file; one without rows is left out.
    pub file: FileRow,
    /// The CRC-32 of its bytes.
    pub check: u32,
    /// Its samples, topic by topic.
    pub rows: &'d [ChunkRow],
    /// The chunks that it was made of.
    pub replaced: &'d [ChunkRow],
    /// Until then no other is to be made of the day.
    pub ready: Timestamp,
    /// Whether samples of what is replaced were deleted: its bytes are to be overwritten then ([`Index::to_erase`] has them).
    pub erases: bool,
    /// What its samples went through; none where that is as before.
    pub plan: Option<&'d str>,
    /// What comes of the rules of retention, by their places.
    pub counts: &'d [RuleCounts],
}

/// How far an older store was moved: the last sample, by the number of its topic, its time and its place at that time.
pub type Moved = (i64, i64, i64);

/// The writing side of the index.
pub struct Index {
    pub(crate) db: Connection,
    topics: TopicNumbers,
    pub(crate) next_chunk: i64,
    pub(crate) live_bytes: u64,
}

/// What became of chunks that were removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many samples they had.
    pub samples: u64,
    /// Files of which no chunk is left.
    pub files: Vec<FileRow>,
    /// Whether more are to be removed.
    pub more: bool,
}

impl Index {
    /// Opens the file, makes it if need be, and brings it to the current schema.
    ///
    /// # Errors
    /// The file is no index, was written by a newer release, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY_WAIT)?;
        keep_plans(&db)?;
        // These have effect in a new file only. The hours of a topic's day fit into a large page; freed pages go back to the system
        // in small steps.
        db.pragma_update(None, "page_size", 16_384)?;
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // A commit is durable: the journal lets go of its records right after it.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -16 * 1024)?;
        db.pragma_update(None, "wal_autocheckpoint", 1000)?;
        db.pragma_update(None, "journal_size_limit", 64 << 20)?;
        migrate(&mut db)?;
        // Beside the versions: earlier releases do not look at it, and can still open the file.
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS erased (file_id INTEGER NOT NULL, offset INTEGER NOT NULL, bytes INTEGER NOT NULL);
             CREATE TABLE IF NOT EXISTS checks (file_id INTEGER PRIMARY KEY, crc INTEGER NOT NULL);",
        )?;
        db.execute_batch(index_rules::TABLES)?;
        let next_chunk =
            db.query_row("SELECT value FROM state WHERE key = 'chunk'", [], |row| row.get(0)).optional()?;
        let live_bytes: i64 = db.query_row("SELECT coalesce(sum(live_bytes), 0) FROM files", [], |row| row.get(0))?;
        let next_chunk = next_chunk.unwrap_or(1);
        Ok(Self { db, topics: TopicNumbers::default(), next_chunk, live_bytes: live_bytes.cast_unsigned() })
    }

    /// The sequence of the last journal record of which no sample is missing in chunks; 0 before the first.
    ///
    /// # Errors
    /// The file failed.
    pub fn position(&self) -> Result<u64, StoreError> {
        Ok(state(&self.db, "journal")?.unwrap_or(0).cast_unsigned())
    }

    /// The files of chunks, with the bytes that are chunks.
    ///
    /// # Errors
    /// The file failed.
    pub fn files(&self) -> Result<Vec<FileRow>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT id, bytes, day FROM files ORDER BY id")?;
        let files = statement.query_map([], |row| {
            Ok(FileRow { number: row.get(0)?, bytes: row.get::<_, i64>(1)?.cast_unsigned(), day: row.get(2)? })
        })?;
        Ok(files.collect::<Result<_, _>>()?)
    }

    /// A topic that has been given its number, by its name: to be used again, for [`Index::numbers`] to find it at once.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.topic(name)
    }

    /// The numbers of topics; new ones get one, durably.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn numbers<'t>(
        &mut self,
        topics: impl Iterator<Item = &'t Topic>,
        out: &mut Vec<u32>,
    ) -> Result<(), StoreError> {
        self.topics.limit();
        let done = numbers(&self.db, &mut self.topics, topics, out);
        if done.is_err() {
            // Numbers given in the transaction are not in the file.
            self.topics.clear();
        }
        done
    }

    /// Enters chunks that are durable, in the order in which they came, and the journal record up to which no sample is missing
    /// then; all or nothing.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn commit(&mut self, chunks: &[ChunkRow], position: u64, moved: Option<Moved>) -> Result<(), StoreError> {
        let batch = self.db.transaction()?;
        let (mut id, mut live_bytes) = (self.next_chunk, self.live_bytes);
        let mut last_day = None;
        for chunk in chunks {
            let day = chunk.first.micros().div_euclid(DAY_US);
            if last_day.replace(day) != Some(day) {
                open_day(&batch, day)?;
            }
            insert(&batch, chunk, id)?;
            grow(&batch, chunk.extent)?;
            id += 1;
            live_bytes += u64::from(chunk.extent.bytes);
        }
        set_state(&batch, "journal", position.cast_signed())?;
        set_state(&batch, "chunk", id)?;
        if let Some((topic, time, seq)) = moved {
            set_state(&batch, "migrated_topic", topic)?;
            set_state(&batch, "migrated_time", time)?;
            set_state(&batch, "migrated_seq", seq)?;
        }
        batch.commit()?;
        (self.next_chunk, self.live_bytes) = (id, live_bytes);
        Ok(())
    }

    /// Up to where an older store was moved into this one.
    ///
    /// # Errors
    /// The file failed.
    pub fn moved(&self) -> Result<Option<Moved>, StoreError> {
        let part = |key| state(&self.db, key);
        let parts = (part("migrated_topic")?, part("migrated_time")?, part("migrated_seq")?);
        Ok(match parts {
            (Some(topic), Some(time), Some(seq)) => Some((topic, time, seq)),
            _ => None,
        })
    }

    /// A time behind all samples of chunks: the end of the last day that has some.
    ///
    /// # Errors
    /// The file failed.
    pub fn end_of_days(&self) -> Result<Timestamp, StoreError> {
        let last: Option<i64> = self.db.query_row("SELECT max(day) FROM days", [], |row| row.get(0))?;
        let end = last.map(|day| day.saturating_add(1).saturating_mul(DAY_US));
        Ok(Timestamp::from_micros(end.unwrap_or(i64::MIN)))
    }

    /// The times of the first and the last sample of the chunk with the earliest sample of all.
    ///
    /// # Errors
    /// The file failed.
    pub fn oldest(&self) -> Result<Option<(Timestamp, Timestamp)>, StoreError> {
        let oldest: (Option<i64>, Option<i64>) = self.db.query_row(
            "SELECT min(first_us), last_us FROM topics JOIN chunks ON chunks.topic_id = topics.id
             AND first_us = (SELECT min(first_us) FROM chunks WHERE topic_id = topics.id)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let (first, last) = oldest;
        Ok(first.zip(last).map(|(first, last)| (Timestamp::from_micros(first), Timestamp::from_micros(last))))
    }

    /// The number that the next chunk gets.
    #[must_use]
    pub const fn next_chunk(&self) -> i64 {
        self.next_chunk
    }

    /// The first day that has chunks which are in no day file, of those before a day and ready at a time.
    ///
    /// # Errors
    /// The file failed.
    pub fn open_day(&self, before: i32, now: Timestamp) -> Result<Option<i32>, StoreError> {
        let mut statement =
            self.db.prepare_cached("SELECT min(day) FROM days WHERE is_open = 1 AND day < ?1 AND ready_us <= ?2")?;
        Ok(statement.query_row(params![before, now.micros()], |row| row.get(0))?)
    }

    /// A number for a file that is to be written.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn new_file(&self) -> Result<u32, StoreError> {
        let next = self.last_file()? + 1;
        set_state(&self.db, "file", next.into())?;
        Ok(next)
    }

    /// The last number that a file got; 0 before the first.
    ///
    /// # Errors
    /// The file failed.
    pub fn last_file(&self) -> Result<u32, StoreError> {
        Ok(state(&self.db, "file")?.and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
    }

    /// The names of topics, by number.
    ///
    /// # Errors
    /// The file failed, or a number is of no topic.
    pub fn names(&self, numbers: &[u32]) -> Result<HashMap<u32, Topic>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT name FROM topics WHERE id = ?")?;
        let mut names = HashMap::with_capacity(numbers.len());
        for number in numbers {
            if names.contains_key(number) {
                continue;
            }
            let name: String = statement.query_row([number], |row| row.get(0))?;
            names.insert(*number, Topic::new(&name).map_err(|error| StoreError::Damaged(error.to_string()))?);
        }
        Ok(names)
    }

    /// Forgets files of which no chunk is left.
    ///
    /// # Errors
    /// The file failed.
    pub fn forget(&mut self, files: &[FileRow]) -> Result<(), StoreError> {
        let step = self.db.transaction()?;
        for file in files {
            step.prepare_cached("DELETE FROM files WHERE id = ? AND live_bytes <= 0")?.execute([file.number])?;
            step.prepare_cached("DELETE FROM checks WHERE file_id NOT IN (SELECT id FROM files)")?.execute([])?;
        }
        Ok(step.commit()?)
    }

    /// What chunks and index take on the disk in bytes, without the write-ahead log and without what is free.
    ///
    /// # Errors
    /// The file failed.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let pragma = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let used = pragma("page_count")? - pragma("freelist_count")?;
        Ok((used * pragma("page_size")?).cast_unsigned() + self.live_bytes)
    }
}

/// Statements are planned once, not again for each value that is bound to them.
pub(crate) fn keep_plans(db: &Connection) -> Result<(), StoreError> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Enters a chunk under a number.
pub(crate) fn insert(batch: &Transaction<'_>, chunk: &ChunkRow, id: i64) -> Result<(), StoreError> {
    let Extent { file, offset, bytes } = chunk.extent;
    let (first, last) = (chunk.first.micros(), chunk.last.micros());
    let (samples, offset) = (chunk.samples.cast_signed(), offset.cast_signed());
    let mut insert = batch.prepare_cached("INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    insert.execute(params![chunk.topic, first, id, last, file, offset, bytes, samples, chunk.summary])?;
    Ok(())
}

/// A file of chunks has another chunk.
pub(crate) fn grow(batch: &Transaction<'_>, extent: Extent) -> Result<(), StoreError> {
    let Extent { file, offset, bytes } = extent;
    let mut grow = batch.prepare_cached(
        "INSERT INTO files VALUES (?1, ?2, ?3, NULL)
         ON CONFLICT (id) DO UPDATE SET bytes = max(bytes, ?2), live_bytes = live_bytes + ?3",
    )?;
    grow.execute(params![file, offset.cast_signed() + i64::from(bytes), bytes])?;
    Ok(())
}

/// A day has chunks that are in no day file.
fn open_day(batch: &Transaction<'_>, day: i64) -> Result<(), StoreError> {
    let mut days =
        batch.prepare_cached("INSERT INTO days VALUES (?1, 1, 0) ON CONFLICT (day) DO UPDATE SET is_open = 1")?;
    days.execute([day])?;
    Ok(())
}

/// A file has fewer bytes of chunks. Says which file, where none are left.
pub(crate) fn lighten(step: &Transaction<'_>, file: u32, bytes: i64) -> Result<Option<FileRow>, StoreError> {
    let (left, row): (i64, FileRow) = step
        .prepare_cached("UPDATE files SET live_bytes = live_bytes - ?2 WHERE id = ?1 RETURNING live_bytes, bytes, day")?
        .query_row(params![file, bytes], |row| {
            Ok((row.get(0)?, FileRow { number: file, bytes: row.get::<_, i64>(1)?.cast_unsigned(), day: row.get(2)? }))
        })?;
    Ok((left <= 0).then_some(row))
}

fn numbers<'t>(
    db: &Connection,
    known: &mut TopicNumbers,
    topics: impl Iterator<Item = &'t Topic>,
    out: &mut Vec<u32>,
) -> Result<(), StoreError> {
    let mut batch: Option<Transaction<'_>> = None;
    for topic in topics {
        let number = match known.get(topic) {
            Some(number) => number,
            None => {
                let batch = match &mut batch {
                    Some(batch) => batch,
                    none => none.insert(db.unchecked_transaction()?),
                };
                let number = topic_number(batch, topic)?;
                known.insert(topic, number);
                number
            }
        };
        out.push(number);
    }
    if let Some(batch) = batch {
        batch.commit()?;
        // Names are not read again: pages with them are not kept.
        db.release_memory()?;
    }
    Ok(())
}

#[cfg(test)]
impl Index {
    /// A file that is full beyond so many pages.
    pub(crate) fn limit_pages(&self, pages: i64) {
        self.db.pragma_update(None, "max_page_count", pages).expect("a limit");
    }
}

fn topic_number(batch: &Transaction<'_>, topic: &Topic) -> Result<u32, StoreError> {
    let known = batch
        .prepare_cached("SELECT id FROM topics WHERE name = ?")?
        .query_row([topic.as_str()], |row| row.get(0))
        .optional()?;
    Ok(match known {
        Some(number) => number,
        None => batch
            .prepare_cached("INSERT INTO topics (name) VALUES (?) RETURNING id")?
            .query_row([topic.as_str()], |row| row.get(0))?,
    })
}

pub(crate) fn state(db: &Connection, key: &str) -> Result<Option<i64>, StoreError> {
    let mut statement = db.prepare_cached("SELECT value FROM state WHERE key = ?")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

pub(crate) fn set_state(db: &Connection, key: &str, value: i64) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR REPLACE INTO state VALUES (?, ?)")?.execute(params![key, value])?;
    Ok(())
}

/// Brings the file to the current version, each step a transaction.
fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    for (version, step) in (1i64..).zip(MIGRATIONS) {
        if check(db)? < version {
            let step_done = db.transaction()?;
            step_done.execute_batch(step)?;
            step_done.pragma_update(None, "user_version", version)?;
            step_done.commit()?;
        }
    }
    check(db).map(drop)
}

/// The file's version, if this release knows it.
pub(crate) fn check(db: &Connection) -> Result<i64, StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known { Err(StoreError::Newer(found, known)) } else { Ok(found) }
}
