//! What the index knows of rules of retention: which rules there are and what came of them, and what each day went through.

use crate::StoreError;
use crate::index::{DAY_US, Index, Removed, lighten};
use crate::index_reader::IndexReader;
use rusqlite::{Connection, Transaction, params};
use std::collections::HashMap;
use tieline_core::{Timestamp, Topic};

/// A rule, in the words of who wrote it, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleRow {
    /// Its topics: what was counted stays while they are the same.
    pub topics: String,
    /// What it says of them.
    pub rule: String,
    /// What came of it.
    pub counts: RuleCounts,
}

/// What came of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Samples that were removed because of their age.
    pub removed: u64,
    /// Samples in the place of which others stand.
    pub downsampled: u64,
}

/// What a topic has of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaySums {
    /// The day, in days since 1970.
    pub day: i32,
    /// Whether it is in the day file.
    pub is_closed: bool,
    /// How many samples.
    pub samples: u64,
    /// How many bytes they take.
    pub bytes: u64,
}

/// Which chunks are removed.
pub struct Outdated<'o> {
    /// Those of a topic, by its number, that end before this; and the place of the rule that says so.
    pub cutoff: &'o dyn Fn(u32) -> (usize, Option<Timestamp>),
    /// Days that end before it have none left.
    pub days: Option<Timestamp>,
    /// The number of rules.
    pub rules: usize,
    /// About so many samples at most.
    pub samples_max: u64,
}

/// Tables beside the versions: earlier releases do not look at them, and can still open the file.
pub(crate) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS plans (day INTEGER PRIMARY KEY, plan TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS rules (place INTEGER PRIMARY KEY, topics TEXT NOT NULL, rule TEXT NOT NULL, removed INTEGER NOT NULL,
        downsampled INTEGER NOT NULL);";

impl Index {
    /// Removes chunks that are too old.
    ///
    /// # Errors
    /// The file failed; nothing is removed then.
    pub fn remove_outdated(&mut self, outdated: &Outdated<'_>) -> Result<Removed, StoreError> {
        let step = self.db.transaction()?;
        let (mut removed, mut bytes_of) = (Removed::default(), HashMap::<u32, i64>::new());
        let mut counts = vec![RuleCounts::default(); outdated.rules];
        let topics: Vec<u32> =
            step.prepare_cached("SELECT id FROM topics")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for topic in topics {
            if removed.samples >= outdated.samples_max {
                removed.more = true;
                break;
            }
            let (place, Some(cutoff)) = (outdated.cutoff)(topic) else { continue };
            let mut delete = step.prepare_cached(
                "DELETE FROM chunks WHERE topic_id = ?1 AND first_us < ?2 AND last_us < ?2 RETURNING file_id, bytes, samples",
            )?;
            let mut rows = delete.query(params![topic, cutoff.micros()])?;
            while let Some(row) = rows.next()? {
                *bytes_of.entry(row.get(0)?).or_default() += row.get::<_, i64>(1)?;
                let samples = row.get::<_, i64>(2)?.cast_unsigned();
                removed.samples += samples;
                if let Some(counts) = counts.get_mut(place) {
                    counts.removed += samples;
                }
            }
        }
        for (file, bytes) in &bytes_of {
            removed.files.extend(lighten(&step, *file, *bytes)?);
        }
        count(&step, &counts)?;
        if let Some(day) = outdated.days.map(|time| time.micros().div_euclid(DAY_US)) {
            step.prepare_cached("DELETE FROM days WHERE day < ?")?.execute([day])?;
            step.prepare_cached("DELETE FROM plans WHERE day < ?")?.execute([day])?;
        }
        step.commit()?;
        self.live_bytes -= bytes_of.values().sum::<i64>().cast_unsigned();
        if removed.samples > 0 {
            self.db.execute_batch("PRAGMA incremental_vacuum(2000)")?;
        }
        Ok(removed)
    }

    /// Notes the rules that there are, in their order.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn set_rules(&mut self, rules: &[(String, String)]) -> Result<(), StoreError> {
        let mut known = read_rules(&self.db)?;
        if known.iter().map(|row| (&row.topics, &row.rule)).eq(rules.iter().map(|(topics, rule)| (topics, rule))) {
            return Ok(());
        }
        let step = self.db.transaction()?;
        step.execute("DELETE FROM rules", [])?;
        for (place, (topics, rule)) in (0_i64..).zip(rules) {
            // Two of the same topics: the first counts, as it is the one that matches.
            let counted = known.iter().position(|row| row.topics == *topics).map(|at| known.swap_remove(at).counts);
            let RuleCounts { removed, downsampled } = counted.unwrap_or_default();
            step.prepare_cached("INSERT INTO rules VALUES (?, ?, ?, ?, ?)")?.execute(params![
                place,
                topics,
                rule,
                removed.cast_signed(),
                downsampled.cast_signed()
            ])?;
        }
        Ok(step.commit()?)
    }

    /// The rules that there are, in their order.
    ///
    /// # Errors
    /// The file failed.
    pub fn rules(&self) -> Result<Vec<RuleRow>, StoreError> {
        read_rules(&self.db)
    }

    /// The topics behind a number, in the order of their numbers.
    ///
    /// # Errors
    /// The file failed.
    pub fn topics_after(&self, number: u32) -> Result<Vec<(u32, Topic)>, StoreError> {
        let mut statement = self.db.prepare_cached("SELECT id, name FROM topics WHERE id > ? ORDER BY id")?;
        named(&mut statement, params![number])
    }

    /// The topics that have samples of a day, with their numbers.
    ///
    /// # Errors
    /// The file failed.
    pub fn topics_of_day(&self, day: i32) -> Result<Vec<(u32, Topic)>, StoreError> {
        let start = i64::from(day).saturating_mul(DAY_US);
        let mut statement = self.db.prepare_cached(
            "SELECT id, name FROM topics WHERE EXISTS
             (SELECT 1 FROM chunks WHERE topic_id = topics.id AND first_us >= ?1 AND first_us < ?2)",
        )?;
        named(&mut statement, params![start, start.saturating_add(DAY_US)])
    }

    /// Days before a day that have samples, with what they went through.
    ///
    /// # Errors
    /// The file failed.
    pub fn plans_before(&self, day: i32) -> Result<Vec<(i32, String)>, StoreError> {
        let sql =
            "SELECT days.day, coalesce(plan, '') FROM days LEFT JOIN plans ON plans.day = days.day WHERE days.day < ?
                   ORDER BY days.day";
        let mut statement = self.db.prepare_cached(sql)?;
        let found = statement.query_map([day], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// A day went through a plan, which left it as it is.
    ///
    /// # Errors
    /// `Full`, or the file failed.
    pub fn set_plan(&mut self, day: i32, plan: &str) -> Result<(), StoreError> {
        set_plan(&self.db, day, plan)
    }

    /// Bytes of a day's files, and those of them that are of no samples any more.
    ///
    /// # Errors
    /// The file failed.
    pub fn day_bytes(&self, day: i32) -> Result<(u64, u64), StoreError> {
        let sql =
            "SELECT coalesce(sum(bytes), 0), coalesce(sum(max(bytes - live_bytes, 0)), 0) FROM files WHERE day = ?";
        let mut statement = self.db.prepare_cached(sql)?;
        let bytes = |row: &rusqlite::Row<'_>, place| row.get::<_, i64>(place).map(i64::cast_unsigned);
        Ok(statement.query_row([day], |row| Ok((bytes(row, 0)?, bytes(row, 1)?)))?)
    }
}

impl IndexReader {
    /// The rules that there are, in their order; none where no rules were noted.
    ///
    /// # Errors
    /// The file failed.
    pub fn rules(&self) -> Result<Vec<RuleRow>, StoreError> {
        // An index that only an earlier release has opened has none.
        if self.has_table("rules")? { read_rules(&self.db) } else { Ok(Vec::new()) }
    }

    /// What days went through.
    ///
    /// # Errors
    /// The file failed.
    pub fn plans(&self) -> Result<HashMap<i32, String>, StoreError> {
        if !self.has_table("plans")? {
            return Ok(HashMap::new());
        }
        let mut statement = self.db.prepare_cached("SELECT day, plan FROM plans")?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// What a topic has of each day.
    ///
    /// # Errors
    /// The file failed.
    pub fn day_sums(&self, topic: u32) -> Result<Vec<DaySums>, StoreError> {
        let mut statement = self.db.prepare_cached(
            "SELECT (first_us - (first_us % ?2 + ?2) % ?2) / ?2 AS of_day, day IS NOT NULL, sum(samples), sum(chunks.bytes)
             FROM chunks JOIN files ON files.id = file_id WHERE topic_id = ?1 GROUP BY 1, 2",
        )?;
        let found = statement.query_map(params![topic, DAY_US], |row| {
            let number = |place| row.get::<_, i64>(place).map(i64::cast_unsigned);
            Ok(DaySums { day: row.get(0)?, is_closed: row.get(1)?, samples: number(2)?, bytes: number(3)? })
        })?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn has_table(&self, name: &str) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?";
        Ok(self.db.query_row(sql, [name], |row| row.get::<_, i64>(0))? > 0)
    }
}

/// Adds to what came of the rules, by their places.
pub(crate) fn count(step: &Transaction<'_>, counts: &[RuleCounts]) -> Result<(), StoreError> {
    for (place, counts) in (0_i64..).zip(counts).filter(|(_, counts)| **counts != RuleCounts::default()) {
        let sql = "UPDATE rules SET removed = removed + ?2, downsampled = downsampled + ?3 WHERE place = ?1";
        let added = params![place, counts.removed.cast_signed(), counts.downsampled.cast_signed()];
        step.prepare_cached(sql)?.execute(added)?;
    }
    Ok(())
}

pub(crate) fn set_plan(db: &Connection, day: i32, plan: &str) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR REPLACE INTO plans VALUES (?, ?)")?.execute(params![day, plan])?;
    Ok(())
}

fn read_rules(db: &Connection) -> Result<Vec<RuleRow>, StoreError> {
    let mut statement = db.prepare_cached("SELECT topics, rule, removed, downsampled FROM rules ORDER BY place")?;
    let found = statement.query_map([], |row| {
        let number = |place| row.get::<_, i64>(place).map(i64::cast_unsigned);
        let counts = RuleCounts { removed: number(2)?, downsampled: number(3)? };
        Ok(RuleRow { topics: row.get(0)?, rule: row.get(1)?, counts })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn named(
    statement: &mut rusqlite::Statement<'_>,
    asked: &[&dyn rusqlite::ToSql],
) -> Result<Vec<(u32, Topic)>, StoreError> {
    let (mut rows, mut found) = (statement.query(asked)?, Vec::new());
    while let Some(row) = rows.next()? {
        let topic = Topic::new(&row.get::<_, String>(1)?).map_err(|e| StoreError::Damaged(e.to_string()))?;
        found.push((row.get(0)?, topic));
    }
    Ok(found)
}
