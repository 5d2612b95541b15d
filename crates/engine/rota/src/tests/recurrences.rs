//! Occurrences, compared with those of python-dateutil and with a second implementation that goes day by day.

use super::{Europe, Vec, fs, rota, vectors};
use crate::time::{self, DAY};
use alloc::format;
use alloc::string::{String, ToString};
use proptest::prelude::*;
use tieline_core::Timestamp;

/// The beginnings of an event of an hour by the clock of UTC, from a time of its own zone on.
fn beginnings(start: &str, rule: &str, (from, to): (i64, i64)) -> Vec<i64> {
    let rota = rota(&[&format!("SUMMARY:a\nDTSTART:{start}\nDURATION:PT1H\nRRULE:{rule}")]);
    let [from, to] = [from, to].map(|seconds| Timestamp::from_millis(seconds * 1000));
    rota.shifts(from, to, &Europe).iter().map(|shift| shift.from.millis() / 1000).collect()
}

fn seconds(text: &str) -> i64 {
    time::read(text).unwrap().0
}

#[test]
fn occurrences_are_those_of_dateutil() {
    let text = fs::read_to_string(vectors().join("rules.txt")).unwrap();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(" | ").collect();
        let expect: Vec<i64> = fields[2].split(' ').map(seconds).collect();
        let (first, last) = (expect[0], *expect.last().unwrap());
        assert_eq!(beginnings(fields[0], fields[1], (first - 40 * DAY, last + 1)), expect, "{line}");
        // Any later part of it is the same without what was before.
        let some = &expect[expect.len() / 2..];
        assert_eq!(beginnings(fields[0], fields[1], (some[0], last + 1)), some, "{line}");
        count += 1;
    }
    assert!(count >= 400, "{count}");
}

const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/// All occurrences, the slow way: each day is looked at.
fn walk(
    start: i64,
    (is_weekly, interval, days, week_start): (bool, i64, &[usize], usize),
    end: (i64, i64),
) -> Vec<i64> {
    let of_week = |day: i64| usize::try_from((day + 3).rem_euclid(7)).unwrap();
    let first = start.div_euclid(DAY);
    let mut week = 0;
    let mut found = Vec::new();
    for day in first..first + 800 {
        if day > first && of_week(day) == week_start {
            week += 1;
        }
        let is_period = if is_weekly { week % interval == 0 } else { (day - first) % interval == 0 };
        let local = day * DAY + start.rem_euclid(DAY);
        let (count, until) = end;
        if local > until || i64::try_from(found.len()).unwrap() >= count {
            break;
        }
        if is_period && (days.contains(&of_week(day)) || (!is_weekly && days.is_empty())) {
            found.push(local);
        }
    }
    found
}

proptest! {
    #[test]
    fn occurrences_are_those_that_are_found_day_by_day(
        hours in 470_000_i64..520_000,
        is_weekly: bool,
        interval in 1_i64..5,
        more in proptest::collection::btree_set(0_usize..7, 0..5),
        week_start in 0_usize..7,
        ends in (0_u8..3, 1_i64..30, 0_i64..300),
        span in (0_i64..500, 1_i64..60),
    ) {
        let start = hours * 3600;
        let today = usize::try_from((start.div_euclid(DAY) + 3).rem_euclid(7)).unwrap();
        let has_days = is_weekly || (interval == 1 && !more.is_empty());
        let mut days: Vec<usize> = if has_days { more.into_iter().collect() } else { Vec::new() };
        if has_days && !days.contains(&today) {
            days.push(today);
        }
        let shown = |seconds: i64| {
            let text = Timestamp::from_millis(seconds * 1000).to_string().replace(['-', ':'], "");
            format!("{}Z", text.split_once('.').unwrap().0)
        };
        let (kind, count, until_days) = ends;
        let until = start + until_days * DAY;
        let (end, word) = match kind {
            0 => ((i64::MAX, i64::MAX), String::new()),
            1 => ((count, i64::MAX), format!(";COUNT={count}")),
            _ => ((i64::MAX, until), format!(";UNTIL={}", shown(until))),
        };
        let frequency = if is_weekly { "WEEKLY" } else { "DAILY" };
        let by: Vec<&str> = days.iter().map(|day| DAYS[*day]).collect();
        let by = if by.is_empty() { String::new() } else { format!(";BYDAY={}", by.join(",")) };
        let rule = format!("FREQ={frequency};INTERVAL={interval};WKST={}{by}{word}", DAYS[week_start]);
        let (from, to) = (start + span.0 * DAY, start + (span.0 + span.1) * DAY);
        let all = walk(start, (is_weekly, interval, &days, week_start), end);
        let expect: Vec<i64> = all.into_iter().filter(|local| local + 3600 > from && *local < to).collect();
        prop_assert_eq!(beginnings(&shown(start), &rule, (from, to)), expect, "{}", rule);
    }
}
