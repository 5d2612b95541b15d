//! Calendars of programs, faults, recurrences, hostile bytes.

extern crate std;

mod recurrences;

use crate::{EVENTS_MAX, Fault, NAME_BYTES_MAX, ROTA_BYTES_MAX, Rota, Shift, Span, Zones};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;
use proptest::prelude::*;
use std::path::Path;
use std::{env, fs};
use tieline_core::Timestamp;

/// The zones of the vectors: those of Madrid and Berlin, from the rules of the European Union, and UTC.
pub(crate) struct Europe;

impl Zones for Europe {
    fn has(&self, zone: &str) -> bool {
        ["Europe/Madrid", "Europe/Berlin", "Etc/UTC"].contains(&zone)
    }

    fn utc(&self, zone: &str, local: i64) -> i64 {
        if zone == "Etc/UTC" {
            return local;
        }
        let (summer, winter) = (local - 7200, local - 3600);
        if is_summer(summer) { summer } else { winter }
    }
}

/// From 01:00 UTC on the last Sunday of March until the same of October.
fn is_summer(utc: i64) -> bool {
    let (year, ..) = Timestamp::from_millis(utc * 1000).day();
    let change = |month| {
        let last = Timestamp::of_day(year, month, 31).unwrap().millis() / 1000;
        let of_week = (last / 86_400 + 4).rem_euclid(7);
        last - of_week * 86_400 + 3600
    };
    (change(3)..change(10)).contains(&utc)
}

pub(crate) fn vectors() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors/rota")
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn told(Shift { from, to, title, who }: &Shift) -> String {
    format!("{from} {to} {title}: {}", who.join(", "))
}

fn told_span(word: &str, Span { from, to, who }: &Span) -> String {
    format!("{word} {from} {to} {}", who.join(", ")).trim_end().to_string()
}

#[test]
fn calendars_of_programs_mean_what_the_programs_show() {
    for name in ["google", "outlook", "nextcloud"] {
        let expect = fs::read_to_string(vectors().join(format!("{name}.txt"))).unwrap();
        let mut expect = expect.lines().filter(|line| !line.starts_with('#'));
        let span: Vec<&str> = expect.next().unwrap().split(' ').collect();
        let (from, to) = (at(span[1]), at(span[2]));
        let rota = Rota::parse(&fs::read(vectors().join(format!("{name}.ics"))).unwrap(), &Europe).unwrap();
        let mut lines: Vec<String> = rota.shifts(from, to, &Europe).iter().map(told).collect();
        let within = Duration::from_micros(u64::try_from(to.micros() - from.micros()).unwrap());
        let outlook = rota.outlook(from, within, &Europe);
        lines.extend(outlook.holes.iter().map(|span| told_span("hole", span)));
        lines.extend(outlook.overlaps.iter().map(|span| told_span("overlap", span)));
        assert_eq!(lines, expect.collect::<Vec<_>>(), "{name}");
    }
}

/// A calendar of events, each of some lines.
fn calendar(events: &[&str]) -> String {
    let events: String = events.iter().map(|lines| format!("BEGIN:VEVENT\n{lines}\nEND:VEVENT\n")).collect();
    format!("BEGIN:VCALENDAR\nVERSION:2.0\n{events}END:VCALENDAR\n")
}

fn rota(events: &[&str]) -> Rota {
    Rota::parse(calendar(events).as_bytes(), &Europe).unwrap()
}

const WEEKS: &str = "SUMMARY:anna\nDTSTART;TZID=Europe/Madrid:20260105T090000\nDTEND;TZID=Europe/Madrid:20260112T090000\nRRULE:FREQ=WEEKLY";

#[test]
fn weeks_meet_where_clocks_change() {
    let rota = rota(&[WEEKS]);
    let outlook = rota.outlook(at("2026-01-05T08:00:00Z"), Duration::from_hours(365 * 24), &Europe);
    assert_eq!((outlook.holes, outlook.overlaps), (vec![], vec![]));
    assert_eq!(told(&outlook.now[0]), "2026-01-05T08:00:00.000Z 2026-01-12T08:00:00.000Z anna: anna");
    assert_eq!(outlook.next.unwrap().from, at("2026-01-12T08:00:00Z"));
}

#[test]
fn a_shift_is_over_when_the_next_begins() {
    let day = |who: &str, day: u32| format!("SUMMARY:{who}\nDTSTART;VALUE=DATE:202611{day}");
    let rota = rota(&[&day("anna", 28), &day("bo", 29), "SUMMARY:bo\nDTSTART:20261129T120000Z\nDURATION:PT1H"]);
    let check = |time: &str, expect: &[&str]| assert_eq!(rota.on_call(at(time), &Europe), expect, "{time}");
    check("2026-11-27T23:59:59.999999Z", &[]);
    check("2026-11-28T00:00:00Z", &["anna"]);
    check("2026-11-28T23:59:59.999999Z", &["anna"]);
    check("2026-11-29T00:00:00Z", &["bo"]);
    check("2026-11-29T12:30:00Z", &["bo"]);
    check("2026-11-30T00:00:00Z", &[]);
    let outlook = rota.outlook(at("2026-11-29T12:30:00Z"), Duration::from_hours(24), &Europe);
    assert_eq!((outlook.now.len(), outlook.next), (2, None));
}

#[test]
fn a_person_who_declined_leaves_a_hole() {
    let declined = "SUMMARY:duty\nDTSTART;VALUE=DATE:20261128\nATTENDEE;PARTSTAT=DECLINED:mailto:a@plant.example";
    let rota = rota(&[declined]);
    assert_eq!(rota.on_call(at("2026-11-28T12:00:00Z"), &Europe), [""; 0]);
    let outlook = rota.outlook(at("2026-11-28T00:00:00Z"), Duration::from_hours(24), &Europe);
    assert_eq!(outlook.holes.len(), 1);
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    let check = |text: &str, line: usize, words: &[&str]| {
        let fault = Rota::parse(text.as_bytes(), &Europe).expect_err(text);
        assert_eq!(fault.line, line, "{fault} of\n{text}");
        for word in words {
            assert!(fault.to_string().contains(word), "{word} is not in: {fault}");
        }
    };
    // Lines of an event begin with the fourth of the file.
    let event = |lines: &str, line: usize, words: &[&str]| check(&calendar(&[lines]), line, words);
    let more = |lines: &str, words: &[&str]| event(&format!("{WEEKS}\n{lines}"), 8, words);
    let rule = |rule: &str, words: &[&str]| {
        event(&format!("SUMMARY:a\nDTSTART:20261130T080000Z\nDURATION:PT8H\nRRULE:{rule}"), 7, words);
    };
    check("", 1, &["nothing", "BEGIN:VCALENDAR"]);
    check("BEGIN:VCARD\n", 1, &["BEGIN:VCARD"]);
    check("BEGIN:VCALENDAR\nVERSION:1.0\n", 2, &["VERSION:2.0"]);
    check("BEGIN:VCALENDAR\nBEGIN:VTODO\n", 2, &["BEGIN:VTODO", "VEVENT"]);
    check("BEGIN:VCALENDAR\n\n", 1, &["END:VCALENDAR"]);
    check(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20261130\nEND:VCALENDAR\n",
        4,
        &["END:VCALENDAR", "a property of a shift"],
    );
    check("BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nBEGIN:STANDARD\nEND:VTIMEZONE\n", 2, &["END:VTIMEZONE"]);
    check("BEGIN:VCALENDAR\nX-WR-TIMEZONE:Mars/Olympus\nEND:VCALENDAR\n", 2, &["Mars/Olympus", "Europe/Madrid"]);
    check("BEGIN:VCALENDAR\nDTSTART\n", 2, &["a line of iCalendar"]);
    check("BEGIN:VCALENDAR\nX-A;B=\"c:d\n", 2, &["a line of iCalendar"]);
    event("DTSTART;VALUE=DATE:20261130", 3, &["SUMMARY or ATTENDEE"]);
    event("SUMMARY:anna", 3, &["DTSTART"]);
    event("SUMMARY:anna\nDTSTART:20261130T080000Z", 5, &["DTEND or DURATION"]);
    event("SUMMARY:anna\nDTSTART:20261330T080000Z", 5, &["20261330T080000Z", "a time"]);
    event("SUMMARY:anna\nDTSTART;TZID=Mars/Olympus:20261130T080000\nDURATION:PT1H", 5, &["Mars/Olympus"]);
    event("SUMMARY:anna\nDTSTART:20261130T080000Z\nDTEND:20261130T080000Z", 6, &["an end after the beginning"]);
    event("SUMMARY:anna\nDTSTART:20261130T080000Z\nDURATION:P32D", 6, &["31 days at most"]);
    event("SUMMARY:anna\nDTSTART:20261130T080000Z\nDURATION:PT1M1H", 6, &["a duration"]);
    event("SUMMARY:anna\nDTSTART:20261130T080000Z\nDTEND;VALUE=DATE:20261201", 6, &["the type and the zone"]);
    event("SUMMARY:a\\nb\nDTSTART;VALUE=DATE:20261130", 4, &["one line of"]);
    event("ATTENDEE:urn:uuid:7\nDTSTART;VALUE=DATE:20261130", 4, &["mailto:"]);
    more("RRULE:FREQ=DAILY", &["one RRULE"]);
    more("RDATE:20261130T080000Z", &["RDATE", "a property of a shift"]);
    more("EXDATE;VALUE=DATE:20261130", &["times where it is one"]);
    more("BEGIN:VEVENT", &["BEGIN:VEVENT"]);
    more("DURATION:P7D", &["not both"]);
    more("RECURRENCE-ID;RANGE=THISANDFUTURE:20261130T080000Z", &["without RANGE"]);
    more("RECURRENCE-ID:20261130T080000Z", &["without RRULE"]);
    event("SUMMARY:a\nDTSTART:20261130\nRECURRENCE-ID:20261130", 6, &["UID in the event"]);
    rule("FREQ=MONTHLY", &["FREQ=WEEKLY or DAILY"]);
    rule("FREQ=WEEKLY;BYMONTH=3", &["FREQ=WEEKLY or DAILY"]);
    rule("FREQ=WEEKLY;BYDAY=1MO", &["without numbers"]);
    rule("FREQ=WEEKLY;BYDAY=TU", &["begins on one of the days"]);
    rule("FREQ=WEEKLY;INTERVAL=0", &["INTERVAL"]);
    rule("FREQ=DAILY;INTERVAL=2;BYDAY=MO", &["no BYDAY"]);
    rule("FREQ=WEEKLY;COUNT=0", &["COUNT from 1"]);
    rule("FREQ=WEEKLY;COUNT=3;UNTIL=20261231T080000Z", &["not both"]);
    rule("FREQ=WEEKLY;UNTIL=20261231", &["UNTIL in UTC"]);
}

#[test]
fn there_are_limits() {
    let refused = |text: &[u8], word: &str| {
        let fault = Rota::parse(text, &Europe).unwrap_err();
        assert!(fault.to_string().contains(word), "{fault}");
    };
    refused(&vec![b' '; ROTA_BYTES_MAX + 1], "at most");
    refused(calendar(&vec!["SUMMARY:a\nDTSTART:20261130"; EVENTS_MAX + 1]).as_bytes(), "events at most");
    let long = "a".repeat(NAME_BYTES_MAX + 1);
    refused(calendar(&[&format!("SUMMARY:{long}\nDTSTART:20261130")]).as_bytes(), "bytes at most");
    let many = "ATTENDEE:mailto:a@b\n".repeat(21);
    refused(calendar(&[&format!("{many}DTSTART:20261130")]).as_bytes(), "persons at most");
    let dates = "20261130,".repeat(1000);
    refused(calendar(&[&format!("SUMMARY:a\nDTSTART:20261130\nEXDATE:{dates}20261130")]).as_bytes(), "exceptions");
    refused(b"BEGIN:VCALENDAR\nX-A:\xff\n", "UTF-8");
    assert_eq!(Rota::parse(b"BEGIN:VCALENDAR\r\nX-A:\xc3\r\n \xbc\r\nEND:VCALENDAR", &Europe), Ok(Rota::default()));
}

/// Any bytes: a rota or a fault of a line that is there, and shifts that have some of the span that was asked for.
pub(crate) fn take(bytes: &[u8]) -> Result<(), Fault> {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let rota =
        Rota::parse(bytes, &Europe).inspect_err(|fault| assert!((1..=lines).contains(&fault.line), "{fault}"))?;
    let (from, to) = (at("2026-11-22T00:00:00Z"), at("2026-11-29T00:00:00Z"));
    for shift in rota.shifts(from, to, &Europe) {
        assert!(shift.from < to && shift.to > from && shift.from < shift.to, "{shift:?}");
        assert!(!shift.who.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_a_rota_or_have_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = take(&bytes);
    }

    #[test]
    fn a_damaged_calendar_is_a_rota_or_has_a_fault(
        name in prop::sample::select(vec!["google", "outlook", "nextcloud"]),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..6),
    ) {
        let mut bytes = fs::read(vectors().join(format!("{name}.ics"))).unwrap();
        for (place, byte, how) in changes {
            let place = place.index(bytes.len());
            match how {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ => drop(bytes.remove(place)),
            }
        }
        let _ = take(&bytes);
    }
}
