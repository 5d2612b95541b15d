//! Figures against ones that were computed by hand.

use super::{Rating, Report, ReportRow};
use crate::{AlarmId, Kind, Priority, Transition};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::{Timestamp, Topic, Words};

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn row(seconds: i64, topic: &str, transition: Transition, is_annunciated: bool) -> ReportRow {
    let topic = Topic::new(topic).unwrap();
    let (kind, priority) = (Kind::High, if &*topic == "a" { Priority::Critical } else { Priority::Low });
    ReportRow { time: at(seconds), topic, kind, priority, transition, is_annunciated }
}

fn id(topic: &str) -> AlarmId {
    AlarmId { topic: Topic::new(topic).unwrap(), kind: Kind::High }
}

fn values(report: Report) -> Vec<(&'static str, f64)> {
    report.finish().measures.into_iter().map(|measure| (measure.name, measure.value)).collect()
}

fn value(report: Report, name: &str) -> f64 {
    values(report).into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// A day with 36 annunciations: 12 in the first ten minutes, 5 in the next, 4 in the one after, 15 an hour later.
fn day(operators: u32) -> Report {
    let mut report = Report::new(at(0), at(DAY_S), operators);
    let times = (0..12).map(|n| n * 10).chain((0..5).map(|n| 600 + n)).chain((0..4).map(|n| 1200 + n));
    for (n, seconds) in times.chain((0..15).map(|n| HOUR_S + n)).enumerate() {
        let topic = if n % 2 == 0 { "a" } else { "b" };
        report.add(&row(seconds, topic, Transition::Raised, true));
    }
    report
}

#[test]
fn annunciations_of_a_day_are_rated() {
    let close = |(name, value): (&str, f64), expect: (&str, f64)| {
        assert_eq!(name, expect.0);
        assert!((value - expect.1).abs() < 1e-9, "{name}: {value}, expected {}", expect.1);
    };
    let expect = [
        ("annunciated_per_day", 36.0),
        ("annunciated_per_hour", 1.5),
        ("annunciated_per_10min", 0.25),
        ("most_in_10min", 15.0),
        // 21 in the first hour, 15 in the second.
        ("hours_over_30_percent", 0.0),
        ("windows_over_10_percent", 100.0 * 2.0 / 144.0),
        // 12 begin a flood, 5 keep it, 4 end it; 15 begin one, and the empty ten minutes after end it.
        ("flood_percent", 100.0 * 3.0 / 144.0),
        ("ten_most_frequent_percent", 100.0),
        ("chattering", 0.0),
        ("fleeting", 0.0),
        ("stale_per_day", 0.0),
    ];
    let found = values(day(1));
    assert_eq!(found.len(), expect.len());
    found.into_iter().zip(expect).for_each(|(found, expect)| close(found, expect));
    close(("annunciated_per_day", value(day(2), "annunciated_per_day")), ("annunciated_per_day", 18.0));
    close(("flood_percent", value(day(2), "flood_percent")), ("flood_percent", 0.0));
    let figures = day(1).finish();
    assert_eq!(
        (figures.annunciated, figures.priorities[0], figures.priorities[3]),
        (36, (Priority::Critical, 18), (Priority::Low, 18))
    );
    let ratings: Vec<_> = figures.measures.iter().map(super::Measure::rating).collect();
    assert_eq!((ratings[0], ratings[3], ratings[7]), (Rating::Good, Rating::Exceeded, Rating::Exceeded));
}

#[test]
fn an_hour_with_more_than_30_counts() {
    let mut report = Report::new(at(0), at(4 * HOUR_S), 1);
    (0..31).for_each(|n| report.add(&row(HOUR_S + n * 100, "a", Transition::Raised, true)));
    (0..30).for_each(|n| report.add(&row(2 * HOUR_S + n * 100, "a", Transition::Raised, true)));
    assert!((value(report, "hours_over_30_percent") - 25.0).abs() < 1e-9);
}

#[test]
fn what_lies_outside_the_span_is_not_counted() {
    let mut report = Report::new(at(DAY_S), at(2 * DAY_S), 1);
    for seconds in [0, DAY_S - 1, DAY_S, 2 * DAY_S - 1, 2 * DAY_S, 9 * DAY_S] {
        report.add(&row(seconds, "a", Transition::Raised, true));
    }
    assert_eq!(report.finish().annunciated, 2);
    assert_eq!(Report::new(at(5), at(5), 0).finish().annunciated, 0);
    assert_eq!(Report::new(at(5), at(1), 1).finish().to, at(5));
}

#[test]
fn alarms_are_stale_after_a_day() {
    let check = |rows: &[(i64, &str, Transition)], active: &[(&str, i64)], expect: f64| {
        let mut report = Report::new(at(2 * DAY_S), at(4 * DAY_S), 1);
        active.iter().for_each(|(topic, since)| report.add_active(id(topic), at(*since)));
        rows.iter().for_each(|(seconds, topic, transition)| report.add(&row(*seconds, topic, *transition, false)));
        let found = value(report, "stale_per_day");
        assert!((found - expect).abs() < 1e-9, "{rows:?} {active:?}: {found}, expected {expect}");
    };
    use Transition::{Raised, Returned};
    check(&[(2 * DAY_S, "a", Raised), (3 * DAY_S, "a", Returned)], &[], 0.0);
    // A second too long: stale in the second of two days.
    check(&[(2 * DAY_S, "a", Raised), (3 * DAY_S + 1, "a", Returned)], &[], 0.5);
    check(&[(2 * DAY_S, "a", Raised)], &[], 0.5);
    // Raised before all rows.
    check(&[(2 * DAY_S + 1, "a", Returned)], &[], 0.5);
    check(&[], &[("a", 0)], 1.0);
    check(&[(3 * DAY_S + 5, "a", Returned)], &[("a", 0), ("b", 5)], 2.0);
    check(&[(DAY_S + 9, "a", Raised), (2 * DAY_S, "a", Returned)], &[], 0.0);
    check(&[(DAY_S + 9, "a", Returned)], &[], 0.0);
}

#[test]
fn chattering_fleeting_and_responses() {
    let mut report = Report::new(at(0), at(DAY_S), 1);
    report.add(&row(10, "a", Transition::Raised, true));
    report.add(&row(40, "a", Transition::Acknowledged, false));
    report.add(&row(69, "a", Transition::Returned, false));
    report.add(&row(100, "b", Transition::Raised, true));
    report.add(&row(160, "b", Transition::Returned, false));
    report.add(&row(220, "b", Transition::Acknowledged, false));
    report.add(&row(300, "c", Transition::Chattering, false));
    report.add(&row(400, "d", Transition::Raised, true));
    report.add(&row(500, "d", Transition::Acknowledged, false));
    let figures = report.finish();
    let value = |name| figures.measures.iter().find(|measure| measure.name == name).unwrap().value;
    assert!((value("fleeting") - 1.0).abs() < 1e-9, "a was active for 59 s, b for 60 s");
    assert!((value("chattering") - 1.0).abs() < 1e-9);
    let responses = figures.responses;
    assert_eq!((responses.count, responses.median_s, responses.longest_s), (3, 100, 120));
}

#[test]
fn the_most_frequent_alarms_are_named() {
    let mut report = Report::new(at(0), at(DAY_S), 1);
    for n in 0..12_i64 {
        let topic: String = alloc::format!("t{n:02}");
        (0..=n.min(2)).for_each(|k| report.add(&row(n * 600 + k, &topic, Transition::Raised, true)));
    }
    let figures = report.finish();
    let named: Vec<_> = figures.frequent.iter().map(|one| (&*one.id.topic, one.annunciated)).collect();
    let mut expect: Vec<(String, u32)> = (2..12).map(|n| (alloc::format!("t{n:02}"), 3)).collect();
    expect.truncate(10);
    assert_eq!(named, expect.iter().map(|(topic, count)| (topic.as_str(), *count)).collect::<Vec<_>>());
    let share = figures.measures.iter().find(|measure| measure.name == "ten_most_frequent_percent").unwrap().value;
    assert!((share - 100.0 * 30.0 / 33.0).abs() < 1e-9);
}

proptest! {
    #[test]
    fn no_rows_panic_and_sums_agree(
        rows in prop::collection::vec((any::<i64>(), 0..3_usize, 0..Transition::WORDS.len(), any::<bool>()), 0..50),
        from in any::<i64>(),
        to in any::<i64>(),
    ) {
        let (from, to) = (Timestamp::from_micros(from), Timestamp::from_micros(to));
        let mut report = Report::new(from, to, 1);
        let mut rows: Vec<_> = rows.into_iter().map(|(micros, topic, at, is_annunciated)| {
            let transition = Transition::WORDS[at].1;
            ReportRow { time: Timestamp::from_micros(micros), ..row(0, ["a", "b", "c"][topic], transition, is_annunciated) }
        }).collect();
        rows.sort_by_key(|row| row.time);
        rows.iter().for_each(|row| report.add(row));
        let figures = report.finish();
        let within = rows.iter().filter(|row| row.is_annunciated && row.time >= from && row.time < figures.to);
        prop_assert_eq!(figures.annunciated, within.count() as u64);
        prop_assert_eq!(figures.priorities.iter().map(|(_, count)| count).sum::<u64>(), figures.annunciated);
        prop_assert!(figures.measures.iter().all(|measure| measure.value.is_finite() && measure.value >= 0.0));
    }
}
