//! Times (IEC 60870-5-101 7.2.6.18 and 7.2.6.19). They have no time zone: the station and the node agree on one.
//!
//! ```text
//! CP24: milliseconds 2   IV . minute 6
//! CP56: milliseconds 2   IV . minute 6   SU .. hour 5   weekday 3, day 5   .... month 4   . year 7
//! ```
//!
//! The bytes are kept as they came, so that what is reserved is lost nowhere.

use super::TimeForm;
use alloc::vec::Vec;
use tieline_core::{Cursor, Timestamp, Truncated};

const INVALID: u8 = 0x80;
const SUMMER: u8 = 0x80;
const MICROS_PER_MINUTE: i64 = 60_000_000;
const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;
/// Years have two digits; 70 to 99 are of the century before.
const PIVOT: i64 = 70;

/// CP56Time2a: a date and a time with milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cp56(pub [u8; 7]);

impl Cp56 {
    /// A moment as clocks show it that are `offset_minutes` ahead of UTC.
    #[must_use]
    pub fn new(at: Timestamp, offset_minutes: i16) -> Self {
        let local = Timestamp::from_micros(at.micros() + i64::from(offset_minutes) * MICROS_PER_MINUTE);
        let (year, month, day, in_day) = local.day();
        // Monday is 1; 1970-01-01 was a Thursday.
        let weekday = (local.micros().div_euclid(MICROS_PER_DAY) + 3).rem_euclid(7) + 1;
        let byte = |number: i64| u8::try_from(number).unwrap_or_default();
        let ms = u16::try_from(in_day / 1000 % 60_000).unwrap_or_default();
        let [low, high] = ms.to_le_bytes();
        let (minute, hour) = (byte(in_day / MICROS_PER_MINUTE % 60), byte(in_day / MICROS_PER_HOUR));
        Self([low, high, minute, hour, byte(weekday) << 5 | byte(day), byte(month), byte(year.rem_euclid(100))])
    }

    /// The moment, where the station's clock is `offset_minutes` ahead of UTC, and one hour more where it says that it
    /// shows summer time; none where there is no such time.
    #[must_use]
    pub fn timestamp(self, offset_minutes: i16) -> Option<Timestamp> {
        let Self([low, high, minute, hour, day, month, year]) = self;
        let (ms, year) = (u16::from_le_bytes([low, high]), i64::from(year & 0x7F));
        let (minute, hour, is_summer) = (minute & 0x3F, hour & 0x1F, hour & SUMMER != 0);
        if ms > 59_999 || minute > 59 || hour > 23 || year > 99 {
            return None;
        }
        let year = if year < PIVOT { 2000 + year } else { 1900 + year };
        let midnight = Timestamp::of_day(year, i64::from(month & 0x0F), i64::from(day & 0x1F))?;
        let minutes =
            i64::from(hour) * 60 + i64::from(minute) - i64::from(offset_minutes) - if is_summer { 60 } else { 0 };
        Some(Timestamp::from_micros(midnight.micros() + minutes * MICROS_PER_MINUTE + i64::from(ms) * 1000))
    }

    /// IV: the station says that the time is not to be trusted.
    #[must_use]
    pub const fn is_invalid(self) -> bool {
        let Self([_, _, minute, ..]) = self;
        minute & INVALID != 0
    }

    /// The same time, not to be trusted.
    #[must_use]
    pub const fn invalid(self) -> Self {
        let Self([low, high, minute, hour, day, month, year]) = self;
        Self([low, high, minute | INVALID, hour, day, month, year])
    }
}

/// CP24Time2a: minutes and milliseconds within an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cp24(pub [u8; 3]);

impl Cp24 {
    /// The moment nearest to `received` at which clocks show this; none where there is no such time. An hour that is told
    /// in no other way is taken as the one around the moment when it was received.
    #[must_use]
    pub fn timestamp(self, received: Timestamp) -> Option<Timestamp> {
        let Self([low, high, minute]) = self;
        let (ms, minute) = (u16::from_le_bytes([low, high]), minute & 0x3F);
        if ms > 59_999 || minute > 59 {
            return None;
        }
        let in_hour = i64::from(minute) * MICROS_PER_MINUTE + i64::from(ms) * 1000;
        let hour = received.micros() - received.micros().rem_euclid(MICROS_PER_HOUR);
        let half = MICROS_PER_HOUR / 2;
        let away = hour + in_hour - received.micros();
        let shift = if away > half {
            -MICROS_PER_HOUR
        } else if away < -half {
            MICROS_PER_HOUR
        } else {
            0
        };
        Some(Timestamp::from_micros(hour + in_hour + shift))
    }

    /// IV: the station says that the time is not to be trusted.
    #[must_use]
    pub const fn is_invalid(self) -> bool {
        let Self([_, _, minute]) = self;
        minute & INVALID != 0
    }
}

/// The time of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeTag {
    /// None.
    #[default]
    None,
    /// Within an hour.
    Cp24(Cp24),
    /// With its date.
    Cp56(Cp56),
}

impl TimeTag {
    pub(crate) const fn form(self) -> TimeForm {
        match self {
            Self::None => TimeForm::None,
            Self::Cp24(_) => TimeForm::Cp24,
            Self::Cp56(_) => TimeForm::Cp56,
        }
    }

    pub(super) fn read(form: TimeForm, cursor: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(match form {
            TimeForm::None => Self::None,
            TimeForm::Cp24 => Self::Cp24(Cp24(cursor.array()?)),
            TimeForm::Cp56 => Self::Cp56(Cp56(cursor.array()?)),
        })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Cp24(Cp24(bytes)) => out.extend_from_slice(&bytes),
            Self::Cp56(Cp56(bytes)) => out.extend_from_slice(&bytes),
        }
    }
}
