//! Counts of a report as figures, each beside what is good and what is acceptable.

use super::{DAY, Report, SECOND, WINDOW};
use crate::{AlarmId, Priority};
use alloc::vec::Vec;
use core::cmp::Reverse;
use tieline_core::{Timestamp, Words};

/// The most frequent alarms that are named.
const FREQUENT: usize = 10;
/// Annunciations of an hour, for one operator, that are too many.
const HOUR_MAX: u64 = 30;
/// Annunciations of ten minutes, for one operator, with which a flood begins, and below which it ends.
const FLOOD_IN: u64 = 10;
const FLOOD_OUT: u64 = 5;

/// Figures of a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Start, inclusive.
    pub from: Timestamp,
    /// End, exclusive.
    pub to: Timestamp,
    /// How many people share the annunciations.
    pub operators: u32,
    /// Annunciations.
    pub annunciated: u64,
    /// Annunciations of each priority.
    pub priorities: Vec<(Priority, u64)>,
    /// The most frequent alarms, the most frequent first.
    pub frequent: Vec<Frequent>,
    /// How operators responded.
    pub responses: Responses,
    /// Figures that are rated.
    pub measures: Vec<Measure>,
}

/// An alarm that was annunciated often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frequent {
    /// Which.
    pub id: AlarmId,
    /// How often.
    pub annunciated: u32,
}

/// Times from an annunciation to its acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Responses {
    /// Acknowledgements.
    pub count: usize,
    /// The median, in seconds.
    pub median_s: u32,
    /// The longest, in seconds.
    pub longest_s: u32,
}

/// A figure that is rated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// What it is.
    pub name: &'static str,
    /// The figure; for each operator, where it is a number of annunciations.
    pub value: f64,
    /// Good up to this.
    pub good: f64,
    /// Acceptable up to this.
    pub at_most: f64,
}

/// How good a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rating {
    /// As it should be.
    Good,
    /// More than it should be, and manageable.
    Acceptable,
    /// Too much.
    Exceeded,
}

impl Words for Rating {
    const WORDS: &'static [(&'static str, Self)] =
        &[("good", Self::Good), ("acceptable", Self::Acceptable), ("exceeded", Self::Exceeded)];
}

impl Measure {
    /// How good it is.
    #[must_use]
    pub fn rating(&self) -> Rating {
        match () {
            () if self.value <= self.good => Rating::Good,
            () if self.value <= self.at_most => Rating::Acceptable,
            () => Rating::Exceeded,
        }
    }
}

pub(super) fn of(mut report: Report) -> Figures {
    let annunciated: u64 = report.windows.iter().map(|count| u64::from(*count)).sum();
    let frequent = frequent(&report);
    let measures = measures(&report, annunciated, &frequent);
    let words = Priority::WORDS.iter().zip(report.priorities);
    let priorities = words.filter(|((_, priority), _)| *priority != Priority::Off);
    let priorities = priorities.map(|((_, priority), count)| (*priority, count)).collect();
    report.responses.sort_unstable();
    let responses = Responses {
        count: report.responses.len(),
        median_s: report.responses.get(report.responses.len() / 2).copied().unwrap_or_default(),
        longest_s: report.responses.last().copied().unwrap_or_default(),
    };
    let Report { from, to, operators, .. } = report;
    Figures { from, to, operators, annunciated, priorities, frequent, responses, measures }
}

fn frequent(report: &Report) -> Vec<Frequent> {
    let called = report.alarms.iter().filter(|(_, past)| past.annunciated > 0);
    let mut frequent: Vec<_> = called.map(|(id, past)| (Reverse(past.annunciated), id)).collect();
    frequent.sort_unstable();
    let named = frequent.into_iter().take(FREQUENT);
    named.map(|(Reverse(annunciated), id)| Frequent { id: id.clone(), annunciated }).collect()
}

fn measures(report: &Report, annunciated: u64, frequent: &[Frequent]) -> Vec<Measure> {
    let operators = u64::from(report.operators);
    let span = float(report.to.micros() - report.from.micros());
    let each = |micros: i64| match span > 0.0 {
        true => real(annunciated) / float(operators.cast_signed()) * float(micros) / span,
        false => 0.0,
    };
    let window = |count: &u32| u64::from(*count);
    let most = report.windows.iter().map(window).max().unwrap_or_default();
    let hours = report.windows.chunks(6).map(|hour| hour.iter().map(window).sum::<u64>());
    let over_hours = hours.clone().filter(|count| *count > HOUR_MAX * operators).count();
    let over_windows = report.windows.iter().map(window).filter(|count| *count > FLOOD_IN * operators).count();
    let named: u64 = frequent.iter().map(|one| u64::from(one.annunciated)).sum();
    let chattering = report.alarms.values().filter(|past| past.is_chattering).count();
    let fleeting = report.alarms.values().filter(|past| past.is_fleeting).count();
    let measure = |name, value, good, at_most| Measure { name, value, good, at_most };
    alloc::vec![
        measure("annunciated_per_day", each(DAY), 150.0, 300.0),
        measure("annunciated_per_hour", each(3600 * SECOND), 6.0, 12.0),
        measure("annunciated_per_10min", each(WINDOW), 1.0, 2.0),
        measure("most_in_10min", real(most) / real(operators), 10.0, 10.0),
        measure("hours_over_30_percent", percent(over_hours as u64, hours.count() as u64), 1.0, 1.0),
        measure("windows_over_10_percent", percent(over_windows as u64, report.windows.len() as u64), 1.0, 1.0),
        measure("flood_percent", percent(flooded(report) as u64, report.windows.len() as u64), 1.0, 1.0),
        measure("ten_most_frequent_percent", percent(named, annunciated), 1.0, 5.0),
        measure("chattering", real(chattering as u64), 0.0, 0.0),
        measure("fleeting", real(fleeting as u64), 0.0, 0.0),
        measure("stale_per_day", stale_per_day(&report.stale), 5.0, 5.0),
    ]
}

/// How many of the ten minutes were in a flood.
fn flooded(report: &Report) -> usize {
    let operators = u64::from(report.operators);
    let mut is_flood = false;
    let goes_on = |count: &&u32| {
        let count = u64::from(**count);
        is_flood = count > FLOOD_IN * operators || is_flood && count >= FLOOD_OUT * operators;
        is_flood
    };
    report.windows.iter().filter(goes_on).count()
}

/// Alarms that are stale in a day, on average.
fn stale_per_day(changes: &[i32]) -> f64 {
    let days = changes.len().saturating_sub(1);
    let mut stale = 0_i64;
    let sum: i64 = changes.iter().take(days).map(|change| (stale += i64::from(*change), stale).1).sum();
    if days == 0 { 0.0 } else { float(sum) / real(days as u64) }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * real(part) / real(whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
const fn real(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "a span is far below 2^53 microseconds")]
const fn float(micros: i64) -> f64 {
    micros as f64
}
