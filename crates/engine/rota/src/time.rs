//! Days, times and durations of iCalendar (RFC 5545 3.3.4 to 3.3.6), in seconds by the clock of their zone.

use crate::lines::Line;
use crate::{Fault, Zones};
use alloc::sync::Arc;
use tieline_core::Timestamp;

pub(crate) const DAY: i64 = 86_400;

/// Days of the longest shift.
pub const SHIFT_DAYS_MAX: i64 = 31;

const TIME: &str = "a time, as in 20261130T080000Z, or a day, as in 20261130";

/// Where the clock is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Utc,
    /// A name of the IANA data, once it was looked up.
    Zone(Arc<str>),
    /// Not said.
    Floating,
}

/// A time by the clock of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Seconds since 1970, as if the clock were in UTC.
    pub local: i64,
    pub place: Place,
    /// It is a whole day.
    pub is_day: bool,
}

impl Moment {
    /// One value of a line that has times.
    pub fn parse(line: &Line, value: &str) -> Result<Self, Fault> {
        let wrong = || line.fault(TIME);
        let (local, is_utc, is_day) = read(value).ok_or_else(wrong)?;
        match line.parameter("VALUE") {
            Some("DATE") if !is_day => return Err(line.fault("a day, as in 20261130, with VALUE=DATE")),
            // Outlook leaves VALUE=DATE out now and then: a day cannot be taken for a time.
            None | Some("DATE") => {}
            Some("DATE-TIME") if !is_day => {}
            Some(_) => return Err(wrong()),
        }
        let place = match line.parameter("TZID") {
            _ if is_utc => Place::Utc,
            Some(zone) if !is_day => Place::Zone(zone.into()),
            Some(_) | None => Place::Floating,
        };
        Ok(Self { local, place, is_day })
    }

    pub fn utc(&self, zones: &dyn Zones) -> i64 {
        match &self.place {
            Place::Utc | Place::Floating => self.local,
            Place::Zone(zone) => zones.utc(zone, self.local),
        }
    }
}

/// Seconds since 1970, whether they are of UTC, and whether they are of a day.
pub(crate) fn read(text: &str) -> Option<(i64, bool, bool)> {
    let (day, rest) = text.split_at_checked(8)?;
    let (year, day) = day.split_at_checked(4)?;
    let (month, day) = day.split_at_checked(2)?;
    let of_day = Timestamp::of_day(number(year)?, number(month)?, number(day)?)?.micros() / 1_000_000;
    if rest.is_empty() {
        return Some((of_day, false, true));
    }
    let (clock, end) = rest.strip_prefix('T')?.split_at_checked(6)?;
    let (hour, clock) = clock.split_at_checked(2)?;
    let (minute, second) = clock.split_at_checked(2)?;
    let (hour, minute, second) = (number(hour)?, number(minute)?, number(second)?);
    let is_utc = match end {
        "" => false,
        "Z" => true,
        _ => return None,
    };
    // A leap second is the second before it (3.3.12).
    let is_time = hour <= 23 && minute <= 59 && second <= 60;
    is_time.then(|| (of_day + hour * 3600 + minute * 60 + second.min(59), is_utc, false))
}

/// Figures alone.
pub(crate) fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// How long a shift is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    /// Seconds by the clock on the wall.
    pub wall: i64,
    /// Seconds that pass besides.
    pub exact: i64,
}

impl Length {
    pub const fn of_wall(wall: i64) -> Self {
        Self { wall, exact: 0 }
    }

    /// Whether a shift can be so long.
    pub const fn is_legal(self) -> bool {
        let whole = self.wall + self.exact;
        whole > 0 && whole <= SHIFT_DAYS_MAX * DAY
    }

    /// A duration as `P1W`, `P7D`, `P1DT12H` or `PT90M`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text).strip_prefix('P')?;
        let (days, time) = match text.split_once('T') {
            Some((days, time)) if !time.is_empty() => (days, time),
            Some(_) => return None,
            None if text.is_empty() => return None,
            None => (text, ""),
        };
        let wall = sum(days, &[('W', 7 * DAY), ('D', DAY)])?;
        Some(Self { wall, exact: sum(time, &[('H', 3600), ('M', 60), ('S', 1)])? })
    }
}

/// Numbers with their units, each once at most and in this order.
fn sum(mut text: &str, units: &[(char, i64)]) -> Option<i64> {
    let mut whole = 0;
    let mut units = units.iter();
    while !text.is_empty() {
        let (count, rest) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
        let mut chars = rest.chars();
        let unit = chars.next()?;
        let (_, seconds) = units.find(|(known, _)| *known == unit)?;
        whole += number(count)? * seconds;
        text = chars.as_str();
    }
    Some(whole)
}
