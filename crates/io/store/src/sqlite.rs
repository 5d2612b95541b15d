//! The embedded store: SQLite with a write-ahead log, one writer, any number of readers.

use crate::row::{Sample, columns};
use crate::{StoreError, schema};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Transaction, params};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use tieline_core::Topic;

/// Topic numbers kept in memory; beyond it all are forgotten and looked up again.
const TOPICS_CACHED_MAX: usize = 200_000;
/// How long a call waits for a reader that holds the file.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The writing side of the store.
pub struct Store {
    pub(crate) db: Connection,
    topics: HashMap<Topic, i64>,
}

impl Store {
    /// Opens the file, makes it if need be, and brings it to the current schema.
    ///
    /// # Errors
    /// The file is no store, was written by a newer release, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY_WAIT)?;
        // Has effect in a new file only: freed pages go back to the system in small steps.
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // A commit is durable: the journal lets go of its records right after it.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "cache_size", -64 * 1024)?;
        db.pragma_update(None, "wal_autocheckpoint", 4000)?;
        db.pragma_update(None, "journal_size_limit", 64 << 20)?;
        schema::migrate(&mut db)?;
        Ok(Self { db, topics: HashMap::new() })
    }

    /// The sequence of the last journal record that is stored; 0 before the first.
    ///
    /// # Errors
    /// The file failed.
    pub fn position(&self) -> Result<u64, StoreError> {
        let found: i64 = self.db.query_row("SELECT value FROM state WHERE key = 'journal'", [], |row| row.get(0))?;
        Ok(found.cast_unsigned())
    }

    /// Stores samples and the journal position they bring the store to, all or nothing. A batch whose position is
    /// stored already adds nothing: says false then.
    ///
    /// # Errors
    /// `Full`, or the file failed; nothing of the batch is stored then.
    pub fn insert(&mut self, samples: &[Sample], position: u64) -> Result<bool, StoreError> {
        let Self { db, topics } = self;
        let done = insert(db, topics, samples, position);
        if done.is_err() {
            // Numbers given in the transaction are not in the file.
            self.topics.clear();
        }
        done
    }

    /// The store's size on disk in bytes, without its write-ahead log and without pages that are free.
    ///
    /// # Errors
    /// The file failed.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let pragma = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let used = pragma("page_count")? - pragma("freelist_count")?;
        Ok((used * pragma("page_size")?).cast_unsigned())
    }
}

fn insert(
    db: &mut Connection,
    topics: &mut HashMap<Topic, i64>,
    samples: &[Sample],
    position: u64,
) -> Result<bool, StoreError> {
    let batch = db.transaction()?;
    let moved = batch
        .prepare_cached("UPDATE state SET value = ?1 WHERE key = 'journal' AND value < ?1")?
        .execute([position.cast_signed()])?;
    if moved == 0 {
        return Ok(false);
    }
    if topics.len() > TOPICS_CACHED_MAX {
        topics.clear();
    }
    let mut order = Vec::with_capacity(samples.len());
    for sample in samples {
        order.push((topic_number(&batch, topics, &sample.topic)?, sample));
    }
    // In the order of the file, neighbours share pages. Samples of one topic and time keep theirs.
    order.sort_by_key(|(id, sample)| (*id, sample.time));
    let mut first = batch.prepare_cached("INSERT INTO samples VALUES (?, ?, 0, ?, ?, ?) ON CONFLICT DO NOTHING")?;
    for (id, sample) in order {
        if sample.again && is_there(&batch, id, sample)? {
            continue;
        }
        let (kind, value, quality) = columns(&sample.body);
        if first.execute(params![id, sample.time.micros(), kind, value, quality])? == 0 {
            insert_beside(&batch, id, sample)?;
        }
    }
    drop(first);
    batch.commit()?;
    Ok(true)
}

/// Whether a sample of the same topic and time is equal. `IS` finds what is null, too.
fn is_there(batch: &Transaction<'_>, id: i64, sample: &Sample) -> Result<bool, StoreError> {
    let (kind, value, quality) = columns(&sample.body);
    let mut same: CachedStatement<'_> = batch.prepare_cached(
        "SELECT 1 FROM samples WHERE topic_id = ? AND time_us = ? AND kind = ? AND value IS ? AND quality = ?",
    )?;
    Ok(same.exists(params![id, sample.time.micros(), kind, value, quality])?)
}

/// Another sample of the same topic and time: sequence-of-events inputs share a millisecond now and then.
fn insert_beside(batch: &Transaction<'_>, id: i64, sample: &Sample) -> Result<(), StoreError> {
    let (kind, value, quality) = columns(&sample.body);
    let mut further: CachedStatement<'_> = batch.prepare_cached(
        "INSERT INTO samples SELECT ?1, ?2, max(seq) + 1, ?3, ?4, ?5 FROM samples WHERE topic_id = ?1 AND time_us = ?2",
    )?;
    further.execute(params![id, sample.time.micros(), kind, value, quality])?;
    Ok(())
}

fn topic_number(batch: &Transaction<'_>, topics: &mut HashMap<Topic, i64>, topic: &Topic) -> Result<i64, StoreError> {
    if let Some(id) = topics.get(topic) {
        return Ok(*id);
    }
    let known = batch
        .prepare_cached("SELECT id FROM topics WHERE name = ?")?
        .query_row([topic.as_str()], |row| row.get(0))
        .optional()?;
    let id = match known {
        Some(id) => id,
        None => batch.prepare_cached("INSERT INTO topics (name) VALUES (?)")?.insert([topic.as_str()])?,
    };
    topics.insert(topic.clone(), id);
    Ok(id)
}
