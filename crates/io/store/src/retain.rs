//! What the store keeps: by age and by size, in small steps between the writes.

use crate::{Store, StoreError};
use rusqlite::{OptionalExtension as _, params};
use std::time::Duration;
use tieline_core::Timestamp;

/// How long and how much the store keeps. None: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Older samples are removed.
    pub age: Option<Duration>,
    /// The oldest samples are removed beyond this many bytes.
    pub bytes: Option<u64>,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Samples removed.
    pub removed: u64,
    /// Whether there is more to remove: another step is wanted soon.
    pub more: bool,
}

/// Samples that one step removes at most, of one topic in one statement.
const SLICE_ROWS: i64 = 5_000;
/// Free pages that one step gives back to the system.
const VACUUM_PAGES: i64 = 2_000;

impl Store {
    /// Removes up to `rows_max` samples (and up to one slice of 5,000 more) that are too old or too many, and gives
    /// space back. One step: call again soon while there is more.
    ///
    /// # Errors
    /// The file failed.
    pub fn retain(&mut self, retention: &Retention, now: Timestamp, rows_max: u64) -> Result<Retained, StoreError> {
        let by_age = retention.age.map(|age| {
            let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
            now.micros().saturating_sub(micros)
        });
        let by_size = self.size_cutoff(retention, now)?;
        let Some(cutoff) = by_age.max(by_size) else { return Ok(Retained::default()) };
        let mut retained = self.remove_before(cutoff, rows_max)?;
        self.db.execute_batch(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
        retained.more |= by_size.is_some() && retained.removed > 0;
        Ok(retained)
    }

    /// A time before which roughly enough lies to come below the size, a twentieth of the span at most.
    fn size_cutoff(&self, retention: &Retention, now: Timestamp) -> Result<Option<i64>, StoreError> {
        let bytes = self.bytes()?;
        if retention.bytes.is_none_or(|limit| bytes <= limit) {
            return Ok(None);
        }
        let oldest: Option<i64> = self.db.query_row(
            "SELECT min((SELECT min(time_us) FROM samples WHERE topic_id = topics.id)) FROM topics",
            [],
            |row| row.get(0),
        )?;
        Ok(oldest.map(|oldest| oldest + (now.micros() - oldest).max(0) / 20 + 1))
    }

    fn remove_before(&mut self, cutoff: i64, rows_max: u64) -> Result<Retained, StoreError> {
        let mut retained = Retained::default();
        let ids: Vec<i64> = self
            .db
            .prepare_cached("SELECT id FROM topics")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let step = self.db.transaction()?;
        for id in ids {
            loop {
                if retained.removed >= rows_max {
                    step.commit()?;
                    return Ok(Retained { more: true, ..retained });
                }
                let slice_end: Option<i64> = step
                    .prepare_cached(
                        "SELECT time_us FROM samples WHERE topic_id = ? AND time_us < ? ORDER BY time_us LIMIT 1 OFFSET ?",
                    )?
                    .query_row(params![id, cutoff, SLICE_ROWS], |row| row.get(0))
                    .optional()?;
                let end = slice_end.map_or(cutoff, |last| last.saturating_add(1));
                let removed = step
                    .prepare_cached("DELETE FROM samples WHERE topic_id = ? AND time_us < ?")?
                    .execute(params![id, end])?;
                retained.removed += removed as u64;
                if slice_end.is_none() {
                    break;
                }
            }
        }
        step.commit()?;
        Ok(retained)
    }
}
