//! The store's tables, and how an older file becomes a current one.
//!
//! | table | column | holds |
//! |---|---|---|
//! | `topics` | `id` | number of the topic in this file |
//! | | `name` | its path |
//! | `samples` | `topic_id` | whose sample |
//! | | `time_us` | when: microseconds since 1970 UTC, the device's time where it gave one |
//! | | `seq` | 0; 1, 2, … for further samples of the same topic and time, as they came |
//! | | `kind` | 0 double, 1 integer, 2 two-state, 3 text, 4 bytes, 5 nothing, 6 a payload as published |
//! | | `value` | kind 0: REAL, or INTEGER where that is the same number and shorter, or NULL for not-a-number; 1, 2: INTEGER; 3: TEXT; 4, 6: BLOB; 5: NULL |
//! | | `quality` | the reasons against the value as bits (`tieline_core::Quality`); 0 is good |
//! | `state` | `key` = `journal` | the sequence of the last journal record that is stored; written in the same transaction as its samples |
//!
//! Zeros take no space in SQLite's rows, so the common kind, quality and `seq` are 0. `samples` is clustered by topic
//! and time: a chart reads one stretch of the file. The schema's version is SQLite's `user_version`.

use crate::StoreError;
use rusqlite::Connection;

/// One step a version, oldest first; a step that was released never changes.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE samples (
        topic_id INTEGER NOT NULL, time_us INTEGER NOT NULL, seq INTEGER NOT NULL,
        kind INTEGER NOT NULL, value, quality INTEGER NOT NULL,
        PRIMARY KEY (topic_id, time_us, seq)
    ) WITHOUT ROWID;
    CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO state VALUES ('journal', 0);
"];

/// Brings the file to the current version, each step a transaction.
pub(crate) fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    for (version, step) in (1i64..).zip(MIGRATIONS) {
        if check(db)? < version {
            let step_done = db.transaction()?;
            step_done.execute_batch(step)?;
            step_done.pragma_update(None, "user_version", version)?;
            step_done.commit()?;
        }
    }
    debug_assert_eq!(check(db)?, known);
    Ok(())
}

/// The file's version, if this release knows it.
pub(crate) fn check(db: &Connection) -> Result<i64, StoreError> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let found = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known { Err(StoreError::Newer(found, known)) } else { Ok(found) }
}
