//! What a request of Grafana asks for: targets, times, and how many points.

use super::names::Pattern;
use std::time::Duration;
use tieline_core::{Timestamp, Words as _};
use tieline_history::Aggregate;

/// Points of a series at most.
const POINTS_MAX: u64 = 20_000;
/// The same where a request says nothing.
const POINTS: u64 = 1000;

/// What is asked for by a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A line, which Grafana asks for to test a data source.
    Constant(f64),
    /// Series whose names a pattern selects, and what stands for the samples of an interval.
    Series(Pattern, Aggregate),
}

impl Target {
    /// Reads one.
    ///
    /// # Errors
    /// It is none, or has a function that there is not; in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((function, rest)) = text.trim().split_once('(') else {
            return Ok(Self::Series(Pattern::parse(text.trim())?, Aggregate::Mean));
        };
        let arguments = rest.strip_suffix(')').ok_or_else(|| format!("is {text:?}, expected a ) for each ("))?;
        match function.trim() {
            "constantLine" => match arguments.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Self::Constant(number)),
                Ok(_) | Err(_) => Err(format!("is {text:?}, expected constantLine(NUMBER)")),
            },
            "consolidateBy" => {
                // A pattern has commas in its braces alone, and the word behind it has no brace.
                let (pattern, word) = arguments.rsplit_once(',').unwrap_or((arguments, ""));
                let word = word.trim().trim_matches(['\'', '"']);
                let aggregate = if word == "average" { Some(Aggregate::Mean) } else { Aggregate::of_word(word) };
                let expected = || {
                    format!("is {text:?}, expected consolidateBy(NAME, 'average'), or another of {CONSOLIDATIONS:?}")
                };
                let aggregate = aggregate.filter(|_| CONSOLIDATIONS.contains(&word)).ok_or_else(expected)?;
                Ok(Self::Series(Pattern::parse(pattern.trim())?, aggregate))
            }
            other => Err(format!("has the function {other:?}, expected a name, a pattern, or consolidateBy")),
        }
    }
}

/// What may stand for the samples of an interval.
pub const CONSOLIDATIONS: [&str; 6] = ["average", "sum", "min", "max", "first", "last"];

/// Reads a time: seconds since 1970, `now`, or a time before it, as `-6h` or `now-30min`.
pub fn time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Timestamp::from_micros(i64::from(seconds) * 1_000_000));
    }
    let back = text.strip_prefix("now").unwrap_or(text);
    if back.is_empty() {
        return (!text.is_empty()).then_some(now);
    }
    let back = back.strip_prefix('-')?;
    let at = back.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = back.split_at(at);
    let seconds: i64 = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "mon" => 30 * 86_400,
        "y" => 365 * 86_400,
        _ => return None,
    };
    let micros = i64::from(number.parse::<u32>().ok()?).checked_mul(seconds)?.checked_mul(1_000_000)?;
    now.micros().checked_sub(micros).filter(|micros| *micros >= 0).map(Timestamp::from_micros)
}

/// Reads how many points a series may have.
pub fn points(text: Option<&str>) -> Option<u64> {
    text.map_or(Some(POINTS), |text| text.parse().ok().filter(|points| *points > 0))
        .map(|points: u64| points.min(POINTS_MAX))
}

/// The width of an interval, in whole seconds, so that there are not more points than asked for.
pub fn width(from: Timestamp, until: Timestamp, points: u64) -> Duration {
    let span = until.micros().saturating_sub(from.micros()).max(0).unsigned_abs();
    // Intervals begin at whole multiples of their width: one more than fits may be met.
    let seconds = span.div_ceil(1_000_000).div_ceil(points.saturating_sub(1).max(1));
    Duration::from_secs(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_names_patterns_and_two_functions() {
        let pattern = |text: &str| Pattern::parse(text).unwrap();
        let check = |text: &str, expect: Target| assert_eq!(Target::parse(text), Ok(expect), "{text}");
        check("constantLine(100)", Target::Constant(100.0));
        check("a.b", Target::Series(pattern("a.b"), Aggregate::Mean));
        check(" a.{b,c} ", Target::Series(pattern("a.{b,c}"), Aggregate::Mean));
        check("consolidateBy(a.{b,c}, 'max')", Target::Series(pattern("a.{b,c}"), Aggregate::Max));
        check("consolidateBy(a.b,\"last\")", Target::Series(pattern("a.b"), Aggregate::Last));
        check("consolidateBy(a.b, 'average')", Target::Series(pattern("a.b"), Aggregate::Mean));
        for text in [
            "",
            "(",
            "a(",
            "alias(a.b, 'x')",
            "constantLine(x)",
            "constantLine(inf)",
            "consolidateBy(a.b)",
            "consolidateBy(a.b, 'median')",
            "consolidateBy(, 'max')",
            "consolidateBy(consolidateBy(a, 'max'), 'max')x",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_seconds_or_before_now() {
        let now = Timestamp::from_micros(1_000_000_000_000_000);
        let check = |text: &str, expect: Option<i64>| {
            assert_eq!(time(text, now).map(|time| time.micros() / 1_000_000), expect, "{text}");
        };
        check("999999999", Some(999_999_999));
        check("now", Some(1_000_000_000));
        check("-6h", Some(1_000_000_000 - 21_600));
        check("now-30min", Some(1_000_000_000 - 1800));
        check("-1mon", Some(1_000_000_000 - 2_592_000));
        for text in ["", "-", "6h", "-h", "-6", "-6x", "now-", "nowx", "-4000000000y", "99999999999", "1e9"] {
            check(text, None);
        }
    }

    #[test]
    fn there_are_not_more_points_than_asked_for() {
        let at = |s: i64| Timestamp::from_micros(s * 1_000_000);
        let check = |span: i64, points: u64, expect: u64| {
            assert_eq!(width(at(1000), at(1000 + span), points), Duration::from_secs(expect), "{span} {points}");
        };
        check(3600, 100, 37);
        check(10, 1000, 1);
        check(0, 1, 1);
        check(86_400, 1, 86_400);
        assert_eq!(
            (points(None), points(Some("7")), points(Some("0")), points(Some("x"))),
            (Some(1000), Some(7), None, None)
        );
        assert_eq!(points(Some("99999999")), Some(POINTS_MAX));
    }
}
