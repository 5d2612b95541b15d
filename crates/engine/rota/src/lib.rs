//! On-call calendars: who is on call at a time, by the events of an iCalendar file (RFC 5545).
//!
//! In: the bytes of a file ([`Rota::parse`]), times, and what a local time is in UTC ([`Zones`]).
//! Out: shifts ([`Rota::shifts`]), who is on call ([`Rota::on_call`]), and what is missing or double ([`Rota::outlook`]); or the
//! line that cannot be taken, with what was expected ([`Fault`]).
//!
//! Never: a file, a clock, the rules of time zones; a guess: what would change a shift and is not understood is refused.
//!
//! # What an event means
//!
//! ```text
//! DTSTART, DTEND or DURATION     from and to; both are times of one zone, or days. A day lasts from midnight to midnight
//! RRULE                          FREQ=WEEKLY or DAILY with INTERVAL, BYDAY, UNTIL, COUNT, WKST
//! EXDATE, RECURRENCE-ID          without these occurrences; in place of this one
//! ATTENDEE                       mailto: of those on call, without PARTSTAT=DECLINED, rooms and resources
//! SUMMARY                        who is on call, where there is no ATTENDEE
//! STATUS:CANCELLED               no event, or without the occurrence
//! ```
//!
//! An occurrence ends as long after its beginning as the first one by the clock on the wall (DTEND, and the days of a DURATION), so
//! that shifts from Monday to Monday meet when clocks change. Hours, minutes and seconds of a DURATION are exact.
//!
//! Zones are names of the IANA data; names of Windows, and of a VTIMEZONE with X-LIC-LOCATION, are translated. Times without a zone
//! and days are in that of X-WR-TIMEZONE, or UTC.
//!
//! Read first: `shifts.rs`, then `calendar/mod.rs`, `calendar/event.rs`, `rule.rs`.
#![no_std]
extern crate alloc;

mod calendar;
mod lines;
mod rule;
mod shifts;
mod time;
mod windows;

pub use calendar::{ATTENDEES_MAX, EVENTS_MAX, EXCEPTIONS_MAX, NAME_BYTES_MAX, ROTA_BYTES_MAX, Rota};
pub use shifts::{Outlook, Shift, Span};
pub use time::SHIFT_DAYS_MAX;

use alloc::string::String;
use core::fmt;

/// What is known of time zones.
pub trait Zones {
    /// Whether there is a zone of this name.
    fn has(&self, zone: &str) -> bool;

    /// Seconds since 1970 in UTC, where a clock in the zone shows these seconds since 1970 as if it were in UTC. Of a time that
    /// comes twice, the first; a time that is skipped is as long after the gap began as it is in it (RFC 5545 3.3.5).
    fn utc(&self, zone: &str, local: i64) -> i64;
}

/// Why a file is no calendar of shifts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is there.
    pub found: String,
    /// What can be there, in words that end the sentence "expected …".
    pub expected: String,
}

impl Fault {
    pub(crate) fn new(line: usize, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { line, found: found.into(), expected: expected.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, found, expected } = self;
        write!(f, "line {line}: {found}, expected {expected}")
    }
}

impl core::error::Error for Fault {}

#[cfg(test)]
mod tests;
