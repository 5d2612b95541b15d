//! Recurrences by the day and by the week (RFC 5545 3.3.10).
//!
//! An occurrence has a number: those of period `j` on day `i` of `k` in each are `j * k + i - skipped`, where the first period lacks
//! the days before the first occurrence. So the occurrences of a span of time are found without those before it.

use crate::lines::Line;
use crate::time::{self, DAY, Moment, Place};
use crate::{Fault, Zones};
use alloc::vec::Vec;

const RULE: &str = "FREQ=WEEKLY or DAILY with INTERVAL, BYDAY, UNTIL, COUNT and WKST";
const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
const INTERVAL_MAX: i64 = 1000;

/// When occurrences end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Never,
    Count(i64),
    /// The last possible beginning, by the clock.
    Local(i64),
    /// The same in UTC.
    Utc(i64),
}

/// How an event comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The day on which the first period begins, counted from 1970-01-01.
    base: i64,
    /// Days of a period.
    period: i64,
    /// Days of each period on which the event is, from its first day.
    offsets: Vec<i64>,
    /// Of the first period.
    skipped: i64,
    last: Last,
}

/// The parts of a rule.
#[derive(Default)]
struct Parts<'a> {
    frequency: Option<&'a str>,
    interval: Option<&'a str>,
    days: Option<&'a str>,
    until: Option<&'a str>,
    count: Option<&'a str>,
    week_start: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn read(line: &'a Line) -> Option<Self> {
        let mut parts = Self::default();
        for part in line.value.split(';').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            let place = match name {
                "FREQ" => &mut parts.frequency,
                "INTERVAL" => &mut parts.interval,
                "BYDAY" => &mut parts.days,
                "UNTIL" => &mut parts.until,
                "COUNT" => &mut parts.count,
                "WKST" => &mut parts.week_start,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(parts)
    }
}

impl Rule {
    /// The rule of a line, of an event that begins at `start`.
    pub fn parse(line: &Line, start: &Moment) -> Result<Self, Fault> {
        let wrong = || line.fault(RULE);
        let parts = Parts::read(line).ok_or_else(wrong)?;
        let interval = parts.interval.map_or(Some(1), time::number).filter(|count| (1..=INTERVAL_MAX).contains(count));
        let interval = interval.ok_or_else(|| line.fault("INTERVAL from 1 to 1000"))?;
        let week_start = parts.week_start.map_or(Some(0), weekday).ok_or_else(wrong)?;
        let days = match parts.days {
            Some(days) => Some(
                days.split(',')
                    .map(weekday)
                    .collect::<Option<Vec<_>>>()
                    .ok_or_else(|| line.fault("days of the week in BYDAY without numbers, as in BYDAY=MO,TH"))?,
            ),
            None => None,
        };
        let day = start.local.div_euclid(DAY);
        let of_week = |day: i64| (day + 3).rem_euclid(7);
        let (base, period, mut offsets) = match (parts.frequency, days) {
            (Some("DAILY"), None) => (day, interval, [0].into()),
            (Some("DAILY"), Some(_)) if interval > 1 => return Err(line.fault("no BYDAY in each so many days")),
            (Some("DAILY" | "WEEKLY"), days) => {
                let base = day - (of_week(day) - week_start).rem_euclid(7);
                let days = days.unwrap_or_else(|| [of_week(day)].into());
                let offsets: Vec<i64> = days.iter().map(|day| (day - week_start).rem_euclid(7)).collect();
                (base, 7 * interval, offsets)
            }
            _ => return Err(wrong()),
        };
        offsets.sort_unstable();
        offsets.dedup();
        if !offsets.contains(&(day - base)) {
            return Err(line.fault("an event that begins on one of the days of BYDAY"));
        }
        let skipped = offsets.iter().filter(|offset| base + **offset < day).map(|_| 1).sum();
        let last = last_of(line, &parts, start)?;
        Ok(Self { base, period, offsets, skipped, last })
    }

    /// Adds the beginnings, by the clock of `start`, of the occurrences from one such time to another.
    pub fn beginnings(&self, start: &Moment, (from, to): (i64, i64), zones: &dyn Zones, out: &mut Vec<i64>) {
        let in_day = start.local.rem_euclid(DAY);
        let days = i64::try_from(self.offsets.len()).unwrap_or(1);
        let first = (from.div_euclid(DAY) - self.base).div_euclid(self.period).max(0);
        for period in first.. {
            let day = self.base + period * self.period;
            if day * DAY > to {
                return;
            }
            for (index, offset) in (0_i64..).zip(&self.offsets) {
                let (number, local) = (period * days + index - self.skipped, (day + offset) * DAY + in_day);
                if number < 0 || local < from {
                    continue;
                }
                if local > to || self.is_over(number, local, start, zones) {
                    return;
                }
                out.push(local);
            }
        }
    }

    fn is_over(&self, number: i64, local: i64, start: &Moment, zones: &dyn Zones) -> bool {
        match self.last {
            Last::Never => false,
            Last::Count(count) => number >= count,
            Last::Local(last) => local > last,
            Last::Utc(last) => Moment { local, ..start.clone() }.utc(zones) > last,
        }
    }
}

fn weekday(text: &str) -> Option<i64> {
    (0..).zip(DAYS).find(|(_, day)| *day == text).map(|(number, _)| number)
}

fn last_of(line: &Line, parts: &Parts<'_>, start: &Moment) -> Result<Last, Fault> {
    match (parts.count, parts.until) {
        (None, None) => Ok(Last::Never),
        (Some(count), None) => {
            let count = time::number(count).filter(|count| *count > 0);
            count.map(Last::Count).ok_or_else(|| line.fault("COUNT from 1"))
        }
        (None, Some(until)) => match (time::read(until), start.is_day, &start.place) {
            (Some((last, false, true)), true, _) => Ok(Last::Local(last)),
            (Some((last, true, false)), false, Place::Utc | Place::Zone(_)) => Ok(Last::Utc(last)),
            (Some((last, false, false)), false, Place::Floating) => Ok(Last::Local(last)),
            _ if start.is_day => Err(line.fault("UNTIL with a day, as DTSTART has: UNTIL=20261231")),
            _ if start.place == Place::Floating => Err(line.fault("UNTIL without a zone, as DTSTART is")),
            _ => Err(line.fault("UNTIL in UTC, as in UNTIL=20261231T080000Z")),
        },
        (Some(_), Some(_)) => Err(line.fault("COUNT or UNTIL, not both")),
    }
}
