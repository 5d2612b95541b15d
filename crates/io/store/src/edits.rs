//! Edits and annotations of a history, and who made them: a SQLite database of its own beside the index, so that an index that is made
//! again loses none of them. One writer, any number of readers; there is no file before the first edit.
//!
//! | column of `edits` | holds |
//! |---|---|
//! | `id` | number, in the order in which edits were made; none is given twice |
//! | `topic` | path of the topic |
//! | `kind` | `value`, `quality`, `exclude`, `insert` or `annotation` |
//! | `from_us`, `to_us` | microseconds since 1970 UTC: from, and before |
//! | `value` | the value given, as JSON |
//! | `quality` | the bits of the quality given |
//! | `text` | what an annotation says |
//! | `who`, `made_us`, `why` | who made it, when, and why |
//! | `ended_us`, `ended_who`, `ended_why` | when it was undone, by whom, and why |
//! | `is_erased` | 1 where the value and the text were erased with the samples |
//!
//! Rows are never removed. The schema's version is SQLite's `user_version`.

mod row;

use self::row::{COLUMNS, json_of, record, row_text};
use crate::StoreError;
use crate::index::BUSY_WAIT;
use crate::index_reader::open_reading;
use rusqlite::{Connection, ToSql, named_params, params};
use std::path::Path;
use tieline_core::{Filter, Quality, Timestamp, Topic, Value, Words};

/// The database beside the index.
pub const EDITS_FILE: &str = "edits.db";
/// Edits and annotations that are ever made; more are refused.
pub const TRAIL_MAX: u64 = 1_000_000;

/// One step a version, oldest first; a step that was released never changes.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE edits (
        id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, kind TEXT NOT NULL,
        from_us INTEGER NOT NULL, to_us INTEGER NOT NULL, value TEXT, quality INTEGER, text TEXT,
        who TEXT NOT NULL, made_us INTEGER NOT NULL, why TEXT NOT NULL,
        ended_us INTEGER, ended_who TEXT, ended_why TEXT, is_erased INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX active ON edits (topic, id) WHERE ended_us IS NULL;
"];

/// What an edit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// Samples have another value.
    Value,
    /// Samples have another quality.
    Quality,
    /// Samples are left out.
    Exclude,
    /// A sample is added.
    Insert,
    /// A text that changes nothing.
    Annotation,
}

impl Words for EditKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("value", Self::Value),
        ("quality", Self::Quality),
        ("exclude", Self::Exclude),
        ("insert", Self::Insert),
        ("annotation", Self::Annotation),
    ];
}

/// An edit that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEdit {
    /// Of which topic.
    pub topic: Topic,
    /// What it is.
    pub kind: EditKind,
    /// Not before this.
    pub from: Timestamp,
    /// Before this.
    pub to: Timestamp,
    /// The value that it gives.
    pub value: Option<Value>,
    /// The quality that it gives.
    pub quality: Option<Quality>,
    /// What an annotation says.
    pub text: Option<String>,
    /// Who makes it.
    pub who: String,
    /// When it is made.
    pub made: Timestamp,
    /// Why.
    pub why: String,
}

/// An edit with its number, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EditRecord {
    /// Its number.
    pub id: u64,
    /// What was made.
    pub edit: NewEdit,
    /// When, by whom and why it was undone; none while it is active.
    pub ended: Option<Ended>,
    /// Whether its value and its text were erased with the samples.
    pub is_erased: bool,
}

/// The end of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Who ended it.
    pub who: String,
    /// When.
    pub time: Timestamp,
    /// Why.
    pub why: String,
}

/// Which edits are asked for. The newest come first.
#[derive(Clone, Debug)]
pub struct EditQuery {
    /// Of which topics.
    pub topics: Filter,
    /// Whose time ends behind this,
    pub from: Timestamp,
    /// and begins before this.
    pub to: Timestamp,
    /// Made by this one alone.
    pub who: Option<String>,
    /// Of this kind alone.
    pub kind: Option<EditKind>,
    /// Those alone that are not undone, or that are.
    pub active: Option<bool>,
    /// Before this number alone.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// How many edits there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditCounts {
    /// That are not undone, annotations among them.
    pub active: u64,
    /// That were ever made.
    pub all: u64,
    /// Bytes of the database.
    pub bytes: u64,
}

/// The database of edits.
pub struct EditFile {
    db: Connection,
}

impl EditFile {
    /// Opens the file, makes it if need be, and brings it to the current schema.
    ///
    /// # Errors
    /// The file is none of edits, was written by a newer release, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut db = Connection::open(path)?;
        db.busy_timeout(BUSY_WAIT)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        // What a deletion erases is overwritten.
        db.pragma_update(None, "secure_delete", true)?;
        for (version, step) in (1i64..).zip(MIGRATIONS) {
            if check(&db)? < version {
                let step_done = db.transaction()?;
                step_done.execute_batch(step)?;
                step_done.pragma_update(None, "user_version", version)?;
                step_done.commit()?;
            }
        }
        check(&db)?;
        Ok(Self { db })
    }

    /// Opens the file to read it, whether a node runs on it or not.
    ///
    /// # Errors
    /// There is none, or it was written by a newer release, or it cannot be opened.
    pub fn reading(path: &Path) -> Result<Self, StoreError> {
        let db = open_reading(path)?;
        check(&db)?;
        Ok(Self { db })
    }

    /// Makes an edit, durably, once `before` has taken its row. Returns its number.
    ///
    /// # Errors
    /// `Full`, or `before` or the file failed.
    pub fn make(
        &mut self,
        new: &NewEdit,
        before: impl FnOnce(&str) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let value = new.value.as_ref().map(json_of);
        let quality = new.quality.map(Quality::bits);
        let step = self.db.transaction()?;
        let mut insert = step.prepare_cached(
            "INSERT INTO edits (topic, kind, from_us, to_us, value, quality, text, who, made_us, why)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        )?;
        let NewEdit { topic, kind, from, to, text, who, made, why, .. } = new;
        let (from, to, made) = (from.micros(), to.micros(), made.micros());
        let row = params![topic.as_str(), kind.word(), from, to, value, quality, text, who, made, why];
        let id = insert.query_row(row, |row| row.get::<_, i64>(0))?.cast_unsigned();
        drop(insert);
        before(&row_text(&step, id)?)?;
        step.commit()?;
        Ok(id)
    }

    /// Ends an edit, durably, once `before` has taken its row; says whether it was active.
    ///
    /// # Errors
    /// `Full`, or `before` or the file failed.
    pub fn end(
        &mut self,
        id: u64,
        end: &Ended,
        before: impl FnOnce(&str) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE edits SET ended_us = ?, ended_who = ?, ended_why = ? WHERE id = ? AND ended_us IS NULL";
        let step = self.db.transaction()?;
        let changed = step.execute(sql, params![end.time.micros(), end.who, end.why, id.cast_signed()])? > 0;
        if changed {
            before(&row_text(&step, id)?)?;
        }
        step.commit()?;
        Ok(changed)
    }

    /// Enters the row of an edit that another file has, durably, in the place of the one with its number.
    ///
    /// # Errors
    /// It is none, `Full`, or the file failed; nothing is changed then.
    pub fn take(&mut self, row: &str) -> Result<(), StoreError> {
        let step = self.db.transaction()?;
        let columns: Vec<String> =
            (0..COLUMNS.split(',').count()).map(|n| format!("json_extract(?1, '$[{n}]')")).collect();
        let sql = format!("INSERT OR REPLACE INTO edits ({COLUMNS}) SELECT {} RETURNING {COLUMNS}", columns.join(", "));
        step.prepare_cached(&sql)?.query_row([row], |row| Ok(record(row)))??;
        Ok(step.commit()?)
    }

    /// Ends edits of topics whose time is wholly from `from` on and before `to`, and erases the values and texts of them and of those that
    /// were undone. Returns how many were active.
    ///
    /// # Errors
    /// `Full`, or the file failed; nothing is changed then.
    pub fn erase(&mut self, topics: &Filter, span: (Timestamp, Timestamp), end: &Ended) -> Result<u64, StoreError> {
        self.erase_of(span, |topic, _| topics.matches(topic), end)
    }

    /// The same of edits whose time is wholly before that which `cutoff` has for their topic, `latest` at most.
    ///
    /// # Errors
    /// `Full`, or the file failed; nothing is changed then.
    pub fn erase_before(
        &mut self,
        latest: Timestamp,
        cutoff: impl Fn(&str) -> Option<Timestamp>,
        end: &Ended,
    ) -> Result<u64, StoreError> {
        let is_meant = |topic: &str, to| cutoff(topic).is_some_and(|cutoff| to <= cutoff);
        self.erase_of((Timestamp::from_micros(i64::MIN), latest), is_meant, end)
    }

    /// Whether there are edits with a value or a text whose time is wholly before another.
    ///
    /// # Errors
    /// The file failed.
    pub fn has_before(&self, latest: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM edits WHERE to_us <= ? AND is_erased = 0)";
        Ok(self.db.query_row(sql, [latest.micros()], |row| row.get(0))?)
    }

    fn erase_of(
        &mut self,
        (from, to): (Timestamp, Timestamp),
        is_meant: impl Fn(&str, Timestamp) -> bool,
        end: &Ended,
    ) -> Result<u64, StoreError> {
        let step = self.db.transaction()?;
        let sql =
            "SELECT id, topic, to_us, ended_us IS NULL FROM edits WHERE from_us >= ? AND to_us <= ? AND is_erased = 0";
        let mut statement = step.prepare(sql)?;
        let mut found: Vec<(i64, bool)> = Vec::new();
        let mut rows = statement.query(params![from.micros(), to.micros()])?;
        while let Some(row) = rows.next()? {
            if is_meant(row.get_ref(1)?.as_str().unwrap_or_default(), Timestamp::from_micros(row.get(2)?)) {
                found.push((row.get(0)?, row.get(3)?));
            }
        }
        drop(rows);
        drop(statement);
        let sql = "UPDATE edits SET value = NULL, text = NULL, is_erased = 1, ended_us = coalesce(ended_us, ?1),
                   ended_who = coalesce(ended_who, ?2), ended_why = coalesce(ended_why, ?3) WHERE id = ?4";
        for (id, _) in &found {
            step.prepare_cached(sql)?.execute(params![end.time.micros(), end.who, end.why, id])?;
        }
        step.commit()?;
        if !found.is_empty() {
            // The log has what was erased.
            self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        Ok(found.iter().filter(|(_, is_active)| *is_active).count() as u64)
    }

    /// Enters an edit as it was.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn restore(&self, record: &EditRecord) -> Result<(), StoreError> {
        let EditRecord { id, edit, ended, is_erased } = record;
        let sql = format!("INSERT INTO edits ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        let (value, quality) = (edit.value.as_ref().map(json_of), edit.quality.map(Quality::bits));
        let ended = ended.as_ref();
        self.db.prepare_cached(&sql)?.execute(params![
            id.cast_signed(),
            edit.topic.as_str(),
            edit.kind.word(),
            edit.from.micros(),
            edit.to.micros(),
            value,
            quality,
            edit.text,
            edit.who,
            edit.made.micros(),
            edit.why,
            ended.map(|ended| ended.time.micros()),
            ended.map(|ended| &ended.who),
            ended.map(|ended| &ended.why),
            is_erased
        ])?;
        Ok(())
    }

    /// Gives the edits that are not undone, of a topic or of all, in the order in which they were made.
    ///
    /// # Errors
    /// The file failed, or has an edit that is none.
    pub fn each_active(&self, topic: Option<&Topic>, mut give: impl FnMut(EditRecord)) -> Result<(), StoreError> {
        let of_topic = if topic.is_some() { "topic = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT {COLUMNS} FROM edits WHERE ended_us IS NULL AND {of_topic} ORDER BY id");
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query([topic.map(|topic| topic.as_str())])?;
        while let Some(row) = rows.next()? {
            give(record(row)?);
        }
        Ok(())
    }

    /// An edit.
    ///
    /// # Errors
    /// The file failed.
    pub fn get(&self, id: u64) -> Result<Option<EditRecord>, StoreError> {
        let mut statement = self.db.prepare_cached(&format!("SELECT {COLUMNS} FROM edits WHERE id = ?"))?;
        let mut rows = statement.query([id.cast_signed()])?;
        rows.next()?.map(record).transpose()
    }

    /// A page of edits, the newest first, and the number to go on before; none where there are no more.
    ///
    /// # Errors
    /// The file failed.
    pub fn page(&self, query: &EditQuery) -> Result<(Vec<EditRecord>, Option<u64>), StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM edits WHERE id < :before AND to_us > :from AND from_us < :to
             AND (:who IS NULL OR who = :who) AND (:kind IS NULL OR kind = :kind)
             AND (:active IS NULL OR (ended_us IS NULL) = :active) ORDER BY id DESC"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let before = query.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
        let kind = query.kind.map(EditKind::word);
        let (from, to) = (query.from.micros(), query.to.micros());
        let asked: &[(&str, &dyn ToSql)] = named_params! {
            ":before": before, ":from": from, ":to": to, ":who": query.who, ":kind": kind, ":active": query.active
        };
        let mut rows = statement.query(asked)?;
        let mut found: Vec<EditRecord> = Vec::new();
        while let Some(row) = rows.next()? {
            if !query.topics.matches(row.get_ref(1)?.as_str().unwrap_or_default()) {
                continue;
            }
            if found.len() >= query.limit {
                let next = found.last().map(|record| record.id);
                return Ok((found, next));
            }
            found.push(record(row)?);
        }
        Ok((found, None))
    }

    /// How many there are.
    ///
    /// # Errors
    /// The file failed.
    pub fn counts(&self) -> Result<EditCounts, StoreError> {
        let number = |sql| self.db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned);
        let pragma = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map(i64::cast_unsigned);
        Ok(EditCounts {
            active: number("SELECT count(*) FROM edits WHERE ended_us IS NULL")?,
            all: number("SELECT count(*) FROM edits")?,
            bytes: pragma("page_count")? * pragma("page_size")?,
        })
    }

    /// What is wrong with the file; nothing where it is whole.
    ///
    /// # Errors
    /// The file is so damaged that it cannot be looked at.
    pub fn faults(&self) -> Result<Vec<String>, StoreError> {
        let mut statement = self.db.prepare("PRAGMA quick_check(20)")?;
        let found = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        let mut found: Vec<String> = found.into_iter().filter(|line| line != "ok").collect();
        if found.is_empty() {
            found.extend(self.readable().1);
        }
        Ok(found)
    }

    /// The edits that can be read, and why the next cannot; none where that is all.
    #[must_use]
    pub fn readable(&self) -> (Vec<EditRecord>, Option<String>) {
        let mut found = Vec::new();
        let read = || -> Result<(), StoreError> {
            let mut statement = self.db.prepare(&format!("SELECT {COLUMNS} FROM edits NOT INDEXED ORDER BY id"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.push(record(row)?);
            }
            Ok(())
        }();
        (found, read.err().map(|error| error.to_string()))
    }

    /// Moves the write-ahead log into the file, which has all then.
    ///
    /// # Errors
    /// The file failed.
    pub fn close(self) -> Result<(), StoreError> {
        self.db.pragma_update(None, "journal_mode", "DELETE")?;
        self.db.close().map_err(|(_, error)| error.into())
    }

    /// Writes the database to a new file, as it is at one moment.
    ///
    /// # Errors
    /// The file failed, or the new one cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        self.db.execute("VACUUM INTO ?", [path.to_string_lossy()])?;
        Ok(())
    }
}

/// The file's version, if this release knows it.
fn check(db: &Connection) -> Result<i64, StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known { Err(StoreError::Newer(found, known)) } else { Ok(found) }
}

#[cfg(test)]
mod tests;
