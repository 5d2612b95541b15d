//! Changes of an index that a repair or a deletion makes.

use crate::StoreError;
use crate::chunk_files::Extent;
use crate::index::{ChunkRow, Index, Removed, insert, set_state, take_from_files};
use rusqlite::params;
use std::collections::HashMap;
use tieline_core::{Timestamp, Topic};

impl Index {
    /// Removes chunks, each of which is there.
    ///
    /// # Errors
    /// The file failed; nothing is removed then.
    pub fn remove(&mut self, chunks: &[ChunkRow]) -> Result<Removed, StoreError> {
        let step = self.db.transaction()?;
        let (mut removed, mut bytes_of) = (Removed::default(), HashMap::<u32, i64>::new());
        for chunk in chunks {
            let gone = step
                .prepare_cached(
                    "DELETE FROM chunks WHERE topic_id = ? AND first_us = ? AND file_id = ? AND offset = ?",
                )?
                .execute(params![
                    chunk.topic,
                    chunk.first.micros(),
                    chunk.extent.file,
                    chunk.extent.offset.cast_signed()
                ])?;
            if gone > 0 {
                *bytes_of.entry(chunk.extent.file).or_default() += i64::from(chunk.extent.bytes);
                removed.samples += chunk.samples;
            }
        }
        removed.files = take_from_files(&step, &bytes_of)?;
        step.commit()?;
        self.live_bytes = self.live_bytes.saturating_sub(bytes_of.values().sum::<i64>().cast_unsigned());
        Ok(removed)
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

    /// Hides samples before a time, as [`Index::remove_before`] does.
    ///
    /// # Errors
    /// The file failed.
    pub fn restore_cutoff(&mut self, cutoff: Timestamp) -> Result<(), StoreError> {
        set_state(&self.db, "cutoff", cutoff.micros())
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
            let id: i64 = step
                .prepare_cached(
                    "DELETE FROM chunks WHERE topic_id = ? AND first_us = ? AND file_id = ? AND offset = ? RETURNING id",
                )?
                .query_row(params![old.topic, old.first.micros(), old.extent.file, old.extent.offset.cast_signed()], |row| {
                    row.get(0)
                })?;
            *bytes_of.entry(old.extent.file).or_default() += i64::from(old.extent.bytes);
            removed.samples += old.samples;
            let Extent { file, offset, bytes } = old.extent;
            step.prepare_cached("INSERT INTO erased VALUES (?, ?, ?)")?.execute(params![
                file,
                offset.cast_signed(),
                bytes
            ])?;
            if let Some(new) = new {
                insert(&step, new, id)?;
                added += u64::from(new.extent.bytes);
                removed.samples -= new.samples;
            }
        }
        removed.files = take_from_files(&step, &bytes_of)?;
        step.commit()?;
        self.db.pragma_update(None, "secure_delete", false)?;
        self.live_bytes = (self.live_bytes + added).saturating_sub(bytes_of.values().sum::<i64>().cast_unsigned());
        Ok(removed)
    }

    /// What is to be overwritten.
    ///
    /// # Errors
    /// The file failed.
    pub fn to_erase(&self) -> Result<Vec<Extent>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT file_id, offset, bytes FROM erased")?;
        let found = statement.query_map([], |row| {
            Ok(Extent { file: row.get(0)?, offset: row.get::<_, i64>(1)?.cast_unsigned(), bytes: row.get(2)? })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// All of it was overwritten; and so are the traces of deleted rows in the write-ahead log.
    ///
    /// # Errors
    /// The file failed.
    pub fn forget_erased(&mut self) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM erased", [])?;
        Ok(self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }
}
