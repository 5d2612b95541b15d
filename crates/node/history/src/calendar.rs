//! Buckets of a calendar: days, weeks, months and years of a time zone, and parts of its days.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};
use std::time::Duration;
use tieline_core::Timestamp;

/// Buckets of a question.
const STARTS_MAX: usize = 1_000_000;

/// What is counted of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Less than a day: each day begins with one.
    Within(Duration),
    /// So many days, counted from 1970-01-01.
    Days(i32),
    /// So many weeks, which begin on Monday, counted from 1970-01-05.
    Weeks(i32),
    /// So many months, counted from January 1970.
    Months(i32),
    /// So many years, counted from 1970.
    Years(i32),
}

impl Unit {
    /// Reads a count of days, weeks, months or years: `1d`, `2w`, `1mo`, `1y`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (count, word) = text.split_at(digits);
        let count = count.parse::<i32>().ok().filter(|count| (1..=1000).contains(count))?;
        match word {
            "d" => Some(Self::Days(count)),
            "w" => Some(Self::Weeks(count)),
            "mo" => Some(Self::Months(count)),
            "y" => Some(Self::Years(count)),
            _ => None,
        }
    }

    fn span(self) -> Span {
        match self {
            Self::Within(_) => 1.day(),
            Self::Days(count) => count.days(),
            Self::Weeks(count) => count.weeks(),
            Self::Months(count) => count.months(),
            Self::Years(count) => count.years(),
        }
    }

    /// The first day of the bucket that has a day.
    fn first_day(self, day: Date) -> Result<Date, jiff::Error> {
        let months = |month: i32| {
            let (year, month) = (month.div_euclid(12) + 1970, month.rem_euclid(12) + 1);
            Date::new(i16::try_from(year).unwrap_or(i16::MAX), i8::try_from(month).unwrap_or(1), 1)
        };
        let since = |epoch: Date| -> Result<i32, jiff::Error> { Ok((day - epoch).get_days()) };
        let back = |days: i32, count: i32| day.checked_sub(days.rem_euclid(count).days());
        let month = (i32::from(day.year()) - 1970) * 12 + i32::from(day.month()) - 1;
        match self {
            Self::Within(_) => Ok(day),
            Self::Days(count) => back(since(Date::constant(1970, 1, 1))?, count),
            Self::Weeks(count) => back(since(Date::constant(1970, 1, 5))?, count * 7),
            Self::Months(count) => months(month.div_euclid(count) * count),
            Self::Years(count) => months(month.div_euclid(12 * count) * 12 * count),
        }
    }
}

/// Where buckets begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// At the multiples of this width since 1970.
    Every(Duration),
    /// At these times.
    Starts(Vec<Timestamp>),
}

/// What a width may be, in words that end the sentence "expected …".
pub const EXPECTED: &str = "a duration like 1m, or 1d, 1w, 1mo or 1y of a calendar";

/// The buckets of a width: `duration` is what its text is as a duration, where it is one. Days are those of a time zone where one is
/// given; weeks, months and years are always those of a calendar.
///
/// # Errors
/// One sentence: what is wrong with the width or the zone.
pub fn buckets(
    text: &str,
    duration: Option<Duration>,
    zone: Option<&str>,
    from: Timestamp,
    to: Timestamp,
) -> Result<Buckets, String> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let duration = duration.filter(|duration| !duration.is_zero());
    let within = |duration: Option<Duration>| duration.filter(|width| *width < DAY).map(Unit::Within);
    let unit = match (duration, zone) {
        (Some(width), None) => return Ok(Buckets::Every(width)),
        (duration, _) => Unit::parse(text).or_else(|| within(duration)),
    };
    let unit = unit.ok_or_else(|| format!("every is {text:?}, expected {EXPECTED}"))?;
    starts(unit, zone, from, to).map(Buckets::Starts)
}

/// When the buckets of a span of time begin, the one that has `from` first. `zone` is a name like `Europe/Madrid`; without one it is
/// UTC. Zones are those of the system.
///
/// # Errors
/// One sentence: the zone is unknown, or there are too many buckets.
pub fn starts(unit: Unit, zone: Option<&str>, from: Timestamp, to: Timestamp) -> Result<Vec<Timestamp>, String> {
    let zone = match zone {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(name)
            .map_err(|_| format!("tz is {name:?}, expected a time zone of the system, as in Europe/Madrid"))?,
    };
    walk(unit, &zone, from, to).map_err(|error| format!("the buckets of a calendar cannot be counted: {error}"))?
}

fn walk(
    unit: Unit,
    zone: &TimeZone,
    from: Timestamp,
    to: Timestamp,
) -> Result<Result<Vec<Timestamp>, String>, jiff::Error> {
    let first = zone.to_datetime(jiff::Timestamp::from_microsecond(from.micros())?).date();
    let begin = |day: Date| -> Result<i64, jiff::Error> { Ok(zone.to_timestamp(day.at(0, 0, 0, 0))?.as_microsecond()) };
    let mut day = unit.first_day(first)?;
    let (mut starts, mut start) = (Vec::new(), begin(day)?);
    while start < to.micros() {
        let next = day.checked_add(unit.span())?;
        let end = begin(next)?;
        let step = match unit {
            Unit::Within(width) => i64::try_from(width.as_micros()).unwrap_or(i64::MAX).max(1),
            Unit::Days(_) | Unit::Weeks(_) | Unit::Months(_) | Unit::Years(_) => i64::MAX,
        };
        let mut part = start;
        while part < end.min(to.micros()) {
            if part.saturating_add(step).min(end) > from.micros() {
                starts.push(Timestamp::from_micros(part));
            }
            if starts.len() > STARTS_MAX {
                return Ok(Err(format!(
                    "there are more than {STARTS_MAX} buckets, expected wider ones, or a shorter time"
                )));
            }
            part = part.saturating_add(step);
        }
        (day, start) = (next, end);
    }
    Ok(Ok(starts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, zone: Option<&str>, from: &str, to: &str, expect: &[&str]) {
        let found = starts(Unit::parse(text).unwrap(), zone, from.parse().unwrap(), to.parse().unwrap()).unwrap();
        let shown: Vec<String> = found.iter().map(|start| start.to_string().replace(":00.000Z", "")).collect();
        assert_eq!(shown, expect, "{text} {zone:?}");
    }

    #[test]
    fn buckets_begin_where_the_calendar_says() {
        let madrid = Some("Europe/Madrid");
        // The day on which clocks go forward has 23 hours, the one on which they go back 25.
        let spring = ["2026-03-27T23:00", "2026-03-28T23:00", "2026-03-29T22:00"];
        check("1d", madrid, "2026-03-28T10:00:00Z", "2026-03-30T10:00:00Z", &spring);
        let autumn = ["2026-10-23T22:00", "2026-10-24T22:00", "2026-10-25T23:00"];
        check("1d", madrid, "2026-10-24T10:00:00Z", "2026-10-26T10:00:00Z", &autumn);
        check("1d", None, "2026-10-24T10:00:00Z", "2026-10-25T00:00:00Z", &["2026-10-24T00:00"]);
        let months = ["2026-02-28T23:00", "2026-03-31T22:00", "2026-04-30T22:00"];
        check("1mo", madrid, "2026-03-28T10:00:00Z", "2026-05-30T10:00:00Z", &months);
        check("3mo", None, "2026-02-28T10:00:00Z", "2026-05-30T10:00:00Z", &["2026-01-01T00:00", "2026-04-01T00:00"]);
        check("1w", None, "2026-11-20T10:00:00Z", "2026-11-24T00:00:00Z", &["2026-11-16T00:00", "2026-11-23T00:00"]);
        check("1y", None, "1969-06-01T00:00:00Z", "1970-06-01T00:00:00Z", &["1969-01-01T00:00", "1970-01-01T00:00"]);
        let unit = Unit::Within(Duration::from_secs(6 * 3600));
        let (from, to) = ("2026-03-28T23:00:00Z".parse().unwrap(), "2026-03-29T22:00:00Z".parse().unwrap());
        let found: Vec<String> = starts(unit, madrid, from, to).unwrap().iter().map(ToString::to_string).collect();
        let hours = ["2026-03-28T23", "2026-03-29T05", "2026-03-29T11", "2026-03-29T17"];
        assert_eq!(found, hours.map(|hour| format!("{hour}:00:00.000Z")));
    }

    #[test]
    fn what_is_no_calendar_is_refused() {
        for text in ["", "1", "d", "0d", "-1d", "1m", "1h", "1001d", "1 d", "99999999999d"] {
            assert_eq!(Unit::parse(text), None, "{text}");
        }
        let at = |text: &str| text.parse().unwrap();
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2026-02-01T00:00:00Z"));
        assert_eq!(
            buckets("0s", Some(Duration::ZERO), None, from, to),
            Err(format!("every is \"0s\", expected {EXPECTED}"))
        );
        let day_and_half = buckets("36h", Some(Duration::from_secs(36 * 3600)), Some("UTC"), from, to);
        assert_eq!(day_and_half, Err(format!("every is \"36h\", expected {EXPECTED}")));
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(buckets("1d", Some(day), None, from, to), Ok(Buckets::Every(day)));
        assert!(
            matches!(buckets("1d", Some(day), Some("Europe/Madrid"), from, to), Ok(Buckets::Starts(days)) if days.len() == 32)
        );
        let unknown = starts(Unit::Days(1), Some("Europe/Nowhere"), from, to).unwrap_err();
        assert_eq!(unknown, "tz is \"Europe/Nowhere\", expected a time zone of the system, as in Europe/Madrid");
        let narrow = starts(Unit::Within(Duration::from_millis(1)), None, from, to).unwrap_err();
        assert_eq!(narrow, "there are more than 1000000 buckets, expected wider ones, or a shorter time");
        for (from, to) in [(i64::MIN, 0), (i64::MAX - 1, i64::MAX)] {
            let far = starts(Unit::Days(1), None, Timestamp::from_micros(from), Timestamp::from_micros(to));
            assert!(far.unwrap_or_default().len() <= STARTS_MAX);
        }
    }
}
