//! Times as people write them: RFC 3339, a date, or how long ago.

use crate::parse::parse_duration;
use std::time::Duration;
use tieline_core::Timestamp;

/// A time, absolute or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This time.
    At(Timestamp),
    /// So long before the present: `-1h`.
    Ago(Duration),
    /// So long before an end, which is the present where there is no other: `1h`.
    Before(Duration),
}

impl Moment {
    /// What is taken, in words that end the sentence "expected …".
    pub const EXPECTED: &str =
        "a time like 2026-11-20T09:36:00Z, a date like 2026-11-20 (from midnight, UTC), or how long ago like 5m or -1h";

    /// Reads RFC 3339, a date, `now`, or a duration with or without a minus sign.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("now") {
            return Some(Self::Ago(Duration::ZERO));
        }
        if let Some(ago) = text.strip_prefix('-') {
            return parse_duration(ago).map(Self::Ago);
        }
        let before = || parse_duration(text).map(Self::Before);
        let at = || text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok().map(Self::At);
        before().or_else(at)
    }

    /// The time that is meant, where `end` and the present are these.
    #[must_use]
    pub fn resolve(self, end: Timestamp, now: Timestamp) -> Timestamp {
        let earlier = |from: Timestamp, by: Duration| {
            Timestamp::from_micros(from.micros().saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
        };
        match self {
            Self::At(time) => time,
            Self::Ago(by) => earlier(now, by),
            Self::Before(by) => earlier(end, by),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_people_write() {
        let (end, now) = ("2026-11-20T10:00:00Z".parse().unwrap(), "2026-11-21T12:00:00Z".parse().unwrap());
        let check = |text: &str, expect: Option<&str>| {
            let found = Moment::parse(text).map(|moment| moment.resolve(end, now).to_string());
            assert_eq!(found.as_deref(), expect, "{text}");
        };
        check("2026-11-20T09:36:00Z", Some("2026-11-20T09:36:00.000Z"));
        check("2026-11-20T09:36:00.5+01:00", Some("2026-11-20T08:36:00.500Z"));
        check("2026-11-20", Some("2026-11-20T00:00:00.000Z"));
        check("2028-02-29", Some("2028-02-29T00:00:00.000Z"));
        check("5m", Some("2026-11-20T09:55:00.000Z"));
        check("-1h", Some("2026-11-21T11:00:00.000Z"));
        check("now", Some("2026-11-21T12:00:00.000Z"));
        for wrong in ["", "today", "5", "-", "-5", "--1h", "2026-11", "2026-02-30", "2026-11-20T09:36:00", "09:36"] {
            check(wrong, None);
        }
    }
}
