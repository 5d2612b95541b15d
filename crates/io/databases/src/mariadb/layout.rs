//! Tables, views and partitions.
//!
//! `topics` numbers the topics, `samples` has the samples, `positions` up to which record of which journal they are there. The key of
//! `samples` is topic, time and a hash of the rest: the rows of a topic are together, and a row that is there is not written again.
//! Each day (UTC) has a partition, made some days before; earlier days are in `before`, later ones in `later`.

use super::rows::COLUMNS;
use crate::sql::{midnight, reasons};
use tieline_core::Validity;

/// Days before today that have partitions when the table is made.
const DAYS_BACK: i64 = 7;
/// Days after today that have partitions.
const DAYS_AHEAD: i64 = 7;
/// Partitions that a table may have are 8192 (MariaDB, MySQL): above these, the oldest are the owner's to remove.
const PARTITIONS_MAX: usize = 8000;

/// The statements that make what is not there.
pub(super) fn create(today: i64) -> Vec<String> {
    let before = format!("partition `before` values less than ('{}')", date(today - DAYS_BACK));
    let days = partitions(today - DAYS_BACK, today + DAYS_AHEAD);
    let (uncertain, bad) = (reasons(Validity::Uncertain), reasons(Validity::Bad));
    let numbers = bad | uncertain | (3 << 13);
    // Bits 13 and 14 are the validity that the sender stated: 1 good, 2 uncertain, 3 bad, 0 that of the reasons.
    vec![
        "create table if not exists topics (
            id int unsigned not null auto_increment primary key,
            digest binary(32) not null unique,
            name mediumtext not null,
            key name (name(190))
        ) engine=InnoDB character set utf8mb4 collate utf8mb4_bin"
            .to_owned(),
        format!(
            "create table if not exists samples (
                topic int unsigned not null,
                time datetime(6) not null,
                hash bigint unsigned not null,
                value double,
                quality smallint unsigned not null,
                text longtext character set utf8mb4 collate utf8mb4_bin,
                bytes longblob,
                primary key (topic, time, hash)
            ) engine=InnoDB partition by range columns(time) ({before},{days},{LATER})"
        ),
        "create table if not exists positions (
            journal varchar(64) character set ascii collate ascii_bin not null primary key,
            seq bigint unsigned not null,
            written datetime(6) not null
        ) engine=InnoDB"
            .to_owned(),
        format!(
            "create or replace view history as
            select s.time, t.name as topic, s.value, s.text, s.bytes,
                case (s.quality >> 13) & 3 when 1 then 'good' when 2 then 'uncertain' when 3 then 'bad'
                else case when s.quality & {bad} <> 0 then 'bad' when s.quality & {uncertain} <> 0 then 'uncertain'
                else 'good' end end as quality, s.quality as reasons
            from samples s join topics t on t.id = s.topic"
        ),
        format!(
            "create or replace view numbers as
            select s.time, t.name as topic, s.value
            from samples s join topics t on t.id = s.topic
            where s.value is not null and ((s.quality >> 13) & 3 = 1 or s.quality & {numbers} = 0)"
        ),
    ]
}

const LATER: &str = "partition `later` values less than (maxvalue)";

/// The statement that makes the partitions of the next days, where there are less than a few: `names` are those that are there.
/// None where the table is not partitioned, or not by us.
pub(super) fn next_days(names: &[String], today: i64) -> Option<String> {
    if names.len() > PARTITIONS_MAX || !names.iter().any(|name| name == "later") {
        return None;
    }
    let is_there = |day: &i64| names.iter().any(|name| *name == name_of_day(*day));
    let last = (today..=today + DAYS_AHEAD).rev().find(is_there);
    let first = match last {
        Some(last) => last + 1,
        // The newest partition is of a day before today: those between it and today are one.
        None => today,
    };
    (first <= today + DAYS_AHEAD).then(|| {
        let days = partitions(first, today + DAYS_AHEAD);
        format!("alter table samples reorganize partition `later` into ({days},{LATER})")
    })
}

fn partitions(first: i64, last: i64) -> String {
    let one = |day| format!("partition `{}` values less than ('{}')", name_of_day(day), date(day + 1));
    (first..=last).map(one).collect::<Vec<_>>().join(",")
}

fn name_of_day(day: i64) -> String {
    let (year, month, date, _) = midnight(day).day();
    format!("d{year:04}{month:02}{date:02}")
}

fn date(day: i64) -> String {
    let (year, month, date, _) = midnight(day).day();
    format!("{year:04}-{month:02}-{date:02}")
}

/// The statement that takes the lines of a batch; the client gives them when the server asks for the file.
pub(super) fn load() -> String {
    format!("load data local infile 'tieline' into table samples character set binary ({COLUMNS})")
}

/// How an INSERT begins; rows follow.
pub(super) fn insert() -> String {
    format!("insert ignore into samples ({COLUMNS}) values ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::day_of;
    use tieline_core::Timestamp;

    #[test]
    fn days_have_partitions_before_they_begin() {
        let today = day_of(Timestamp::from_micros(1_795_651_199_999_999));
        let names = |days: std::ops::RangeInclusive<i64>| {
            let days = days.map(|by| name_of_day(today + by));
            ["before".to_owned()].into_iter().chain(days).chain(["later".to_owned()]).collect::<Vec<_>>()
        };
        assert_eq!(next_days(&names(-7..=7), today), None);
        let made = next_days(&names(-7..=5), today).unwrap();
        let expect = "into (partition `d20261201` values less than ('2026-12-02'),partition `d20261202` values less than \
            ('2026-12-03'),partition `later`";
        assert!(made.contains(expect), "{made}");
        // The node was off for some days: the first partition has all of them.
        assert!(next_days(&names(-7..=-3), today).unwrap().contains("into (partition `d20261125` values less"));
        assert_eq!(next_days(&[], today), None);
        assert_eq!(next_days(&["p1".to_owned()], today), None);
    }
}
