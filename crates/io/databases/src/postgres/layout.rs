//! Tables, views and partitions.
//!
//! `topics` numbers the topics, `samples` has the samples, `positions` up to which record of which journal they are there. A sample is
//! 52 bytes: the columns are in the order in which nothing is lost to alignment, and a null takes none. `samples` has a
//! partition for each day (UTC), made before its first row, or is a hypertable where the database has TimescaleDB. Days
//! far from today are in one partition, so that wrong clocks make no tables.

use super::copy::COLUMNS;
use crate::Index;
use crate::sql::{midnight, reasons};
use tieline_core::Validity;

/// Days before today, and after it, that have partitions of their own.
const DAYS_BACK: i64 = 3653;
const DAYS_AHEAD: i64 = 1;

/// The statements that make what is not there. `schema` is quoted. The caller has a transaction.
pub(super) fn create(schema: &str, index: Index, timescale: bool) -> String {
    let partition = if timescale { "" } else { " partition by range (time)" };
    let index = match index {
        Index::Btree => format!("create index if not exists samples_by_topic on {schema}.samples (topic, time);"),
        Index::Brin => format!("create index if not exists samples_by_time on {schema}.samples using brin (time);"),
        Index::None => String::new(),
    };
    let days = if timescale {
        format!(
            "select create_hypertable('{}.samples', 'time', chunk_time_interval => interval '1 day', \
             create_default_indexes => false, if_not_exists => true);",
            schema.replace('\'', "''")
        )
    } else {
        format!("create table if not exists {schema}.samples_other partition of {schema}.samples default;")
    };
    let (uncertain, bad) = (reasons(Validity::Uncertain), reasons(Validity::Bad));
    // Bits 13 and 14 are the validity that the sender stated: 1 good, 2 uncertain, 3 bad, 0 that of the reasons.
    format!(
        "create table if not exists {schema}.topics (
            id integer generated always as identity primary key,
            name text not null unique);
        create table if not exists {schema}.samples (
            time timestamptz not null,
            value double precision,
            topic integer not null,
            quality integer not null,
            text text,
            bytes bytea){partition};
        create table if not exists {schema}.positions (
            journal text primary key,
            seq bigint not null,
            written timestamptz not null default now());
        {days}
        {index}
        create or replace view {schema}.history as
            select s.time, t.name as topic, s.value, s.text, s.bytes,
                case (s.quality >> 13) & 3 when 1 then 'good' when 2 then 'uncertain' when 3 then 'bad'
                else case when s.quality & {bad} <> 0 then 'bad' when s.quality & {uncertain} <> 0 then 'uncertain'
                else 'good' end end as quality, s.quality as reasons
            from {schema}.samples s join {schema}.topics t on t.id = s.topic;
        create or replace view {schema}.numbers as
            select s.time, t.name as topic, s.value
            from {schema}.samples s join {schema}.topics t on t.id = s.topic
            where s.value is not null and ((s.quality >> 13) & 3 = 1
                or (s.quality & {} = 0));",
        bad | uncertain | (3 << 13)
    )
}

/// The table in which samples stand that may be there already, and what moves those that are not.
pub(super) const AGAIN_TABLE: &str = "create temporary table if not exists tieline_again (time timestamptz, \
    value double precision, topic integer, quality integer, text text, bytes bytea) on commit delete rows";

pub(super) fn move_again(schema: &str) -> String {
    format!(
        "insert into {schema}.samples ({COLUMNS}) select distinct {COLUMNS} from pg_temp.tieline_again a
        where not exists (select from {schema}.samples s where s.topic = a.topic and s.time = a.time
            and s.quality = a.quality and s.value is not distinct from a.value
            and s.text is not distinct from a.text and s.bytes is not distinct from a.bytes)"
    )
}

/// Whether a day has a partition of its own.
pub(super) const fn has_partition(day: i64, today: i64) -> bool {
    day >= today - DAYS_BACK && day <= today + DAYS_AHEAD
}

/// The name of a day's partition, and the statements that make it: attached after it was made, so that readers of other days need
/// not wait.
pub(super) fn partition(schema: &str, day: i64) -> (String, String) {
    let begin = midnight(day);
    let (year, month, date, _) = begin.day();
    let name = format!("samples_{year:04}{month:02}{date:02}");
    let end = midnight(day + 1);
    let make = format!(
        "create table {schema}.{name} (like {schema}.samples including defaults);
        alter table {schema}.samples attach partition {schema}.{name} for values from ('{begin}') to ('{end}');"
    );
    (name, make)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::day_of;
    use tieline_core::Timestamp;

    #[test]
    fn days_have_partitions_but_for_wrong_clocks() {
        let time = Timestamp::from_micros(1_795_651_199_999_999);
        let today = day_of(time);
        let (name, make) = partition("\"s\"", today);
        assert_eq!(name, "samples_20261125");
        assert!(make.contains("from ('2026-11-25T00:00:00.000Z') to ('2026-11-26T00:00:00.000Z')"), "{make}");
        assert!([0, -100, 1].iter().all(|by| has_partition(today + by, today)));
        assert!(![2, -4000].iter().any(|by| has_partition(today + by, today)));
    }
}
