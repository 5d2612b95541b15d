//! Changes of an index that the closing of a day, a repair or a deletion makes.

use crate::StoreError;
use crate::chunk_files::{Extent, file_name};
use crate::index::{ChunkRow, ClosedDay, FileRow, Index, Removed, grow, insert, lighten, set_state};
use crate::index_reader::{chunks, topics};
use crate::index_rules;
use rusqlite::{Transaction, params};
use std::collections::{HashMap, HashSet};
use tieline_core::{Filter, Timestamp, Topic};

/// Bytes of a file that are to be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToErase {
    /// The name of the file.
    pub name: String,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl Index {
    /// The topics that a filter selects, with their numbers.
    ///
    /// # Errors
    /// The file failed.
    pub fn topics(&self, filter: &Filter) -> Result<Vec<(u32, Topic)>, StoreError> {
        topics(&self.db, filter, |_| true)
    }

    /// The chunks of a topic that may have samples from a time on and before another, in the order in which they came.
    ///
    /// # Errors
    /// The file failed.
    pub fn chunks(&self, topic: u32, from: Timestamp, to: Timestamp) -> Result<Vec<ChunkRow>, StoreError> {
        chunks(&self.db, topic, from, to)
    }

    /// Where chunks begin that the index has, by file.
    ///
    /// # Errors
    /// The file failed.
    pub fn offsets(&self) -> Result<HashMap<u32, HashSet<u64>>, StoreError> {
        let mut found = HashMap::<u32, HashSet<u64>>::new();
        let mut statement = self.db.prepare_cached("SELECT file_id, offset FROM chunks")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            found.entry(row.get(0)?).or_default().insert(row.get::<_, i64>(1)?.cast_unsigned());
        }
        Ok(found)
    }

    /// Enters a day file. Says which files no chunk is left of.
    ///
    /// # Errors
    /// `Full`, or the file failed; nothing is changed then.
    pub fn commit_day(&mut self, closed: &ClosedDay<'_>) -> Result<Vec<FileRow>, StoreError> {
        self.db.pragma_update(None, "secure_delete", closed.erases)?;
        let batch = self.db.transaction()?;
        let (mut id, mut bytes_of) = (self.next_chunk, HashMap::<u32, i64>::new());
        let (mut live_bytes, file) = (self.live_bytes, closed.file);
        for chunk in closed.replaced {
            // Retention may have removed it since.
            if delete(&batch, chunk)? {
                *bytes_of.entry(chunk.extent.file).or_default() += i64::from(chunk.extent.bytes);
                if closed.erases && chunk.day.is_none() {
                    note_erased(&batch, &chunk.extent)?;
                }
            }
        }
        let files = "INSERT INTO files VALUES (?, ?, 0, ?)";
        batch.prepare_cached(files)?.execute(params![file.number, file.bytes.cast_signed(), file.day])?;
        batch
            .prepare_cached("INSERT OR REPLACE INTO checks VALUES (?, ?)")?
            .execute(params![file.number, closed.check])?;
        for chunk in closed.rows {
            insert(&batch, chunk, id)?;
            *bytes_of.entry(chunk.extent.file).or_default() -= i64::from(chunk.extent.bytes);
            id += 1;
        }
        let mut empty: Vec<FileRow> = closed.rows.is_empty().then_some(file).into_iter().collect();
        for (file, bytes) in &bytes_of {
            empty.extend(lighten(&batch, *file, *bytes)?);
            live_bytes = live_bytes.saturating_add_signed(-bytes);
        }
        if closed.erases {
            for file in empty.iter().filter(|file| file.day.is_some()) {
                batch
                    .prepare_cached("INSERT INTO erased VALUES (?, 0, ?)")?
                    .execute(params![file.number, file.bytes.cast_signed()])?;
            }
        }
        let is_open =
            "EXISTS (SELECT 1 FROM topics JOIN chunks ON topic_id = topics.id JOIN files ON files.id = file_id
             WHERE first_us >= ?1 * 86400000000 AND first_us < (?1 + 1) * 86400000000 AND files.day IS NULL)";
        batch
            .prepare_cached(&format!("INSERT OR REPLACE INTO days VALUES (?1, {is_open}, ?2)"))?
            .execute(params![file.day, closed.ready.micros()])?;
        index_rules::count(&batch, closed.counts)?;
        if let (Some(day), Some(plan)) = (file.day, closed.plan) {
            index_rules::set_plan(&batch, day, plan)?;
        }
        set_state(&batch, "chunk", id)?;
        batch.commit()?;
        (self.next_chunk, self.live_bytes) = (id, live_bytes);
        Ok(empty)
    }

    /// Has the days be closed at once that have chunks which are in no day file.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn ready_days(&mut self) -> Result<(), StoreError> {
        self.db.execute("UPDATE days SET ready_us = 0 WHERE is_open = 1", [])?;
        Ok(())
    }

    /// Removes chunks, each of which is there.
    ///
    /// # Errors
    /// The file failed; nothing is removed then.
    pub fn remove(&mut self, chunks: &[ChunkRow]) -> Result<Removed, StoreError> {
        let step = self.db.transaction()?;
        let (mut removed, mut bytes_of) = (Removed::default(), HashMap::<u32, i64>::new());
        for chunk in chunks {
            if delete(&step, chunk)? {
                *bytes_of.entry(chunk.extent.file).or_default() += i64::from(chunk.extent.bytes);
                removed.samples += chunk.samples;
            }
        }
        for (file, bytes) in &bytes_of {
            removed.files.extend(lighten(&step, *file, *bytes)?);
        }
        step.commit()?;
        self.live_bytes = self.live_bytes.saturating_sub(bytes_of.values().sum::<i64>().cast_unsigned());
        Ok(removed)
    }

    /// Files of which no chunk is left, and that are not forgotten yet.
    ///
    /// # Errors
    /// The file failed.
    pub fn empty_files(&self) -> Result<Vec<FileRow>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT id, bytes, day FROM files WHERE live_bytes <= 0")?;
        let files = statement.query_map([], |row| {
            Ok(FileRow { number: row.get(0)?, bytes: row.get::<_, i64>(1)?.cast_unsigned(), day: row.get(2)? })
        })?;
        Ok(files.collect::<Result<_, _>>()?)
    }

    /// Enters topics with the numbers that they had.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn restore_topics<'t>(&mut self, topics: impl Iterator<Item = (u32, &'t Topic)>) -> Result<(), StoreError> {
        let step = self.db.transaction()?;
        for (number, topic) in topics {
            step.prepare_cached("INSERT OR IGNORE INTO topics VALUES (?, ?)")?
                .execute(params![number, topic.as_str()])?;
        }
        Ok(step.commit()?)
    }

    /// The last number that a file got is no less than this.
    ///
    /// # Errors
    /// The file failed.
    pub fn restore_last_file(&self, number: u32) -> Result<(), StoreError> {
        set_state(&self.db, "file", self.last_file()?.max(number).into())
    }

    /// Moves the write-ahead log into the file, which has all then.
    ///
    /// # Errors
    /// The file failed.
    pub fn close(self) -> Result<(), StoreError> {
        self.db.pragma_update(None, "journal_mode", "DELETE")?;
        self.db.close().map_err(|(_, error)| error.into())
    }

    /// Expects no more of a file than is there.
    ///
    /// # Errors
    /// The file failed.
    pub fn shorten(&mut self, file: u32, bytes: u64) -> Result<(), StoreError> {
        self.db.execute("UPDATE files SET bytes = ? WHERE id = ?", params![bytes.cast_signed(), file])?;
        Ok(())
    }

    /// A day file is taken as it is.
    ///
    /// # Errors
    /// The file failed.
    pub fn set_check(&mut self, file: u32, check: u32) -> Result<(), StoreError> {
        self.db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?)", params![file, check])?;
        Ok(())
    }

    /// Puts other chunks, which are durable, or none in the place of chunks, in the order of all. Bytes of the old ones are to be
    /// overwritten: [`Index::to_erase`] has them. What the index said of the old ones is overwritten at once.
    ///
    /// # Errors
    /// `Full`, or the file failed; nothing is replaced then.
    pub fn replace(&mut self, chunks: &[(ChunkRow, Option<ChunkRow>)]) -> Result<Removed, StoreError> {
        self.db.pragma_update(None, "secure_delete", true)?;
        let step = self.db.transaction()?;
        let (mut removed, mut bytes_of, mut added) = (Removed::default(), HashMap::<u32, i64>::new(), 0);
        for (old, new) in chunks {
            if !delete(&step, old)? {
                return Err(StoreError::Damaged(format!("{} is not in the index", old.extent)));
            }
            *bytes_of.entry(old.extent.file).or_default() += i64::from(old.extent.bytes);
            removed.samples += old.samples;
            note_erased(&step, &old.extent)?;
            if let Some(new) = new {
                insert(&step, new, old.number)?;
                grow(&step, new.extent)?;
                added += u64::from(new.extent.bytes);
                removed.samples -= new.samples;
            }
        }
        for (file, bytes) in &bytes_of {
            removed.files.extend(lighten(&step, *file, *bytes)?);
        }
        step.commit()?;
        self.live_bytes = (self.live_bytes + added).saturating_sub(bytes_of.values().sum::<i64>().cast_unsigned());
        Ok(removed)
    }

    /// What is to be overwritten.
    ///
    /// # Errors
    /// The file failed.
    pub fn to_erase(&self) -> Result<Vec<ToErase>, StoreError> {
        // A file that is forgotten is not there.
        let mut statement = self.db.prepare_cached(
            "SELECT file_id, day, offset, erased.bytes FROM erased JOIN files ON files.id = erased.file_id",
        )?;
        let found = statement.query_map([], |row| {
            let bytes = |place| row.get::<_, i64>(place).map(i64::cast_unsigned);
            Ok(ToErase { name: file_name(row.get(0)?, row.get(1)?), offset: bytes(2)?, bytes: bytes(3)? })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// All of it was overwritten; and so are the traces of deleted rows in the write-ahead log.
    ///
    /// # Errors
    /// The file failed.
    pub fn forget_erased(&mut self) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM erased", [])?;
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(self.db.pragma_update(None, "secure_delete", false)?)
    }
}

/// Deletes a chunk; says whether it was there.
fn delete(step: &Transaction<'_>, chunk: &ChunkRow) -> Result<bool, StoreError> {
    let mut delete = step.prepare_cached("DELETE FROM chunks WHERE topic_id = ? AND first_us = ? AND id = ?")?;
    Ok(delete.execute(params![chunk.topic, chunk.first.micros(), chunk.number])? > 0)
}

fn note_erased(step: &Transaction<'_>, extent: &Extent) -> Result<(), StoreError> {
    let Extent { file, offset, bytes } = extent;
    let mut note = step.prepare_cached("INSERT INTO erased VALUES (?, ?, ?)")?;
    note.execute(params![file, offset.cast_signed(), bytes])?;
    Ok(())
}
