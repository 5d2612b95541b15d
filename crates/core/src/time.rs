//! Time as an argument: nothing below `io` can read a clock, so every call that needs one is given [`Now`].

use core::fmt;
use core::ops::{Add, Sub};
use core::str::FromStr;
use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// Time passed since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        let nanos = u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        let nanos = u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

/// Both clocks, read once by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic: the only clock that deadlines are measured on.
    pub mono: Instant,
    /// Wall clock in UTC: the only clock that is written down.
    pub utc: Timestamp,
}

impl Now {
    /// The same moment, `by` later on both clocks.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self { mono: self.mono + by, utc: self.utc.later(by) }
    }
}

/// A moment in UTC: microseconds since 1970-01-01T00:00:00Z, leap seconds not counted (POSIX time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Bytes of the longest text of a moment.
pub(crate) const TIMESTAMP_BYTES_MAX: usize = "2026-11-20T09:36:00.123456Z".len();
/// 0001-01-01T00:00:00Z.
const MIN_MICROS: i64 = -719_162 * MICROS_PER_DAY;
/// 9999-12-31T23:59:59.999999Z.
const MAX_MICROS: i64 = 2_932_897 * MICROS_PER_DAY - 1;

impl Timestamp {
    /// From microseconds since 1970, clamped to the years 1 to 9999.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        if micros < MIN_MICROS {
            Self(MIN_MICROS)
        } else if micros > MAX_MICROS {
            Self(MAX_MICROS)
        } else {
            Self(micros)
        }
    }

    /// From milliseconds since 1970, clamped to the years 1 to 9999.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis.saturating_mul(1000))
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since 1970, rounded down.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The beginning of a day of the Gregorian calendar; none where there is no such day in the years 1 to 9999.
    #[must_use]
    pub const fn of_day(year: i64, month: i64, day: i64) -> Option<Self> {
        let is_date = year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1;
        if is_date && day <= days_in_month(year, month) {
            return Some(Self(days_from_civil(year, month, day) * MICROS_PER_DAY));
        }
        None
    }

    /// Year, month and day of the Gregorian calendar, and the microseconds since that day began.
    #[must_use]
    pub const fn day(self) -> (i64, i64, i64, i64) {
        let (year, month, day) = civil_from_days(self.0.div_euclid(MICROS_PER_DAY));
        (year, month, day, self.0.rem_euclid(MICROS_PER_DAY))
    }

    /// The moment `by` later, clamped to the year 9999.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, with milliseconds, or microseconds where they are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; TIMESTAMP_BYTES_MAX]))
    }
}

impl Timestamp {
    /// What [`fmt::Display`] writes, in `buffer`: pair of figures by pair, because every point has a time, and the fields of a
    /// format would cost five times as much.
    pub(crate) fn text(self, buffer: &mut [u8; TIMESTAMP_BYTES_MAX]) -> &str {
        let (year, month, day, in_day) = self.day();
        let (second, micro) = (in_day / 1_000_000, in_day % 1_000_000);
        let ([y1, y2], [y3, y4]) = (pair(year / 100), pair(year % 100));
        let ([m1, m2], [d1, d2]) = (pair(month), pair(day));
        let ([h1, h2], [n1, n2], [s1, s2]) = (pair(second / 3600), pair(second / 60 % 60), pair(second % 60));
        let ([f1, f2], [f3, f4], [f5, f6]) = (pair(micro / 10_000), pair(micro / 100 % 100), pair(micro % 100));
        *buffer = [
            y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2, b'.', f1, f2, f3, f4,
            f5, f6, b'Z',
        ];
        let length = if micro % 1000 == 0 {
            buffer[TIMESTAMP_BYTES_MAX - 4] = b'Z';
            TIMESTAMP_BYTES_MAX - 3
        } else {
            TIMESTAMP_BYTES_MAX
        };
        buffer.get(..length).and_then(|text| core::str::from_utf8(text).ok()).unwrap_or_default()
    }
}

/// The two figures of a number below 100.
fn pair(number: i64) -> [u8; 2] {
    let number = u8::try_from(number).unwrap_or(0);
    [b'0' + number / 10, b'0' + number % 10]
}

/// A text that is not a moment in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampError;

impl fmt::Display for TimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a time like 2026-11-20T09:36:00.123Z (RFC 3339, years 1 to 9999)")
    }
}

impl core::error::Error for TimestampError {}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Reads RFC 3339 with `Z` or an offset. Digits beyond microseconds are dropped; a leap second counts as
    /// the last microsecond before it ends.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        parse_rfc3339(text.as_bytes()).ok_or(TimestampError)
    }
}

fn parse_rfc3339(text: &[u8]) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *date else { return None };
    let year = digits(&[y1, y2, y3, y4])?;
    let (month, day) = (digits(&[m1, m2])?, digits(&[d1, d2])?);
    let (clock, rest) = rest.split_at_checked(9)?;
    let [b'T' | b't' | b' ', h1, h2, b':', n1, n2, b':', s1, s2] = *clock else { return None };
    let (hour, minute, second) = (digits(&[h1, h2])?, digits(&[n1, n2])?, digits(&[s1, s2])?);
    let legal = year >= 1 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    if !legal || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (mut micro, rest) = fraction(rest)?;
    let mut seconds = hour * 3600 + minute * 60 + second;
    if second == 60 {
        (seconds, micro) = (seconds - 1, 999_999);
    }
    let offset = offset_seconds(rest)?;
    let days = days_from_civil(year, month, day);
    let micros = days * MICROS_PER_DAY + (seconds - offset) * 1_000_000 + micro;
    (MIN_MICROS..=MAX_MICROS).contains(&micros).then_some(Timestamp(micros))
}

fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', rest)) = text.split_first() else { return Some((0, text)) };
    let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (figures, rest) = rest.split_at(count);
    if figures.is_empty() {
        return None;
    }
    let padded = figures.iter().copied().chain(core::iter::repeat(b'0')).take(6);
    Some((padded.fold(0, |sum, b| sum * 10 + i64::from(b - b'0')), rest))
}

fn offset_seconds(text: &[u8]) -> Option<i64> {
    match *text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hour, minute) = (digits(&[h1, h2])?, digits(&[m1, m2])?);
            let seconds = (hour <= 23 && minute <= 59).then_some(hour * 3600 + minute * 60)?;
            Some(if sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar. Source: H. Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms", `days_from_civil`.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`]; same source.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day_of_year - (153 * mp + 2) / 5 + 1)
}

/// A duration as people write it: a whole number and one of `ms`, `s`, `m`, `h`, `d`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(unit_at)?;
    let count: u64 = digits.parse().ok()?;
    let millis_each = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    count.checked_mul(millis_each).map(Duration::from_millis)
}

/// A short duration: as [`parse_duration`] reads it, or a whole number of `us`.
#[must_use]
pub fn parse_short_duration(text: &str) -> Option<Duration> {
    let micros = text.strip_suffix("us").and_then(|digits| digits.parse().ok());
    micros.map(Duration::from_micros).or_else(|| parse_duration(text))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    fn check(text: &str, expect: Option<&str>) {
        let shown = text.parse::<Timestamp>().ok().map(|t| t.to_string());
        assert_eq!(shown.as_deref(), expect, "{text}");
    }

    #[test]
    fn reads_durations() {
        for (text, millis) in [
            ("500ms", Some(500)),
            ("2s", Some(2000)),
            ("15m", Some(900_000)),
            ("1h", Some(3_600_000)),
            ("7d", Some(604_800_000)),
            ("2 s", None),
            ("1.5s", None),
            ("-1s", None),
            ("10", None),
            ("s", None),
            ("", None),
            ("99999999999999999999s", None),
            ("300000000000d", None),
        ] {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn reads_short_durations() {
        for (text, micros) in
            [("1500us", Some(1500)), ("2ms", Some(2000)), ("us", None), ("1.5us", None), ("-1us", None)]
        {
            assert_eq!(parse_short_duration(text), micros.map(Duration::from_micros), "{text}");
        }
    }

    #[test]
    fn reads_and_writes_rfc3339() {
        check("2026-11-20T09:36:00.123Z", Some("2026-11-20T09:36:00.123Z"));
        check("2026-11-20T09:36:00Z", Some("2026-11-20T09:36:00.000Z"));
        check("2026-11-20 09:36:00.1234567+01:30", Some("2026-11-20T08:06:00.123456Z"));
        check("1969-12-31T23:59:59.999999Z", Some("1969-12-31T23:59:59.999999Z"));
        check("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00.000Z"));
        check("2016-12-31T23:59:60Z", Some("2016-12-31T23:59:59.999999Z"));
        check("2023-02-29T00:00:00Z", None);
        check("2026-11-20T24:00:00Z", None);
        check("2026-11-20T09:36:00", None);
        check("2026-11-20T09:36:00.Z", None);
        check("0000-01-01T00:00:00Z", None);
        check("0001-01-01T00:00:00+23:59", None);
        check("", None);
    }

    #[test]
    fn days_begin_at_midnight() {
        let text = |year, month, day| Timestamp::of_day(year, month, day).map(|at| at.to_string());
        assert_eq!(text(2024, 2, 29).as_deref(), Some("2024-02-29T00:00:00.000Z"));
        assert_eq!((text(2023, 2, 29), text(2026, 13, 1), text(2026, 1, 0), text(0, 1, 1)), (None, None, None, None));
        let at: Timestamp = "2026-11-20T00:00:01.5Z".parse().unwrap();
        assert_eq!(at.day(), (2026, 11, 20, 1_500_000));
    }

    proptest::proptest! {
        #[test]
        fn text_round_trips(micros in MIN_MICROS..=MAX_MICROS) {
            let t = Timestamp::from_micros(micros);
            assert_eq!(t.to_string().parse(), Ok(t));
        }
    }
}
