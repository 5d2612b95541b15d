//! What subset level 4 adds: device attributes, dead-bands, frozen analogs, freezes at a time, command events.

use super::station::{OUTSTATION, Station, analog, bit, bytes, count, hex};
use crate::app::{Attribute, AttributeValue, CommandStatus, Fragment};
use crate::outstation::{
    AcceptAll, Activation, ApplicationStep, ConfigurationName, ControlHandler, Database, DeviceAttributes, Managed,
    ManagementHandler, Operate, OutstationConfig, OutstationEvent, PointConfig,
};
use crate::{Control, EventClass, Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

/// A station that says what it is.
fn described() -> Station {
    let mut station = Station::quiet();
    let mut attributes = DeviceAttributes::new()
        .with(252, AttributeValue::text("Tieline"))
        .with_writable(247, AttributeValue::text("feeder 3"));
    assert!(attributes.set(Attribute { set: 7, variation: 1, value: AttributeValue::Unsigned(9) }, false));
    assert!(!attributes.set(Attribute { set: 7, variation: 254, value: AttributeValue::Unsigned(9) }, false));
    station.outstation.set_attributes(attributes);
    station
}

#[test]
fn attributes_are_unknown_until_the_owner_gives_some() {
    Station::quiet().ask("C0 01 00 FE 06", "C0 81 80 02").ask("C1 02 00 F7 00 00 00 01 01 41", "C1 81 80 02");
}

#[test]
fn single_attributes_are_read() {
    described()
        .ask("C0 01 00 FC 00 00 00", "C0 81 80 00 00 FC 00 00 00 01 07 54 69 65 6C 69 6E 65")
        .ask("C1 01 00 01 00 07 07", "C1 81 80 00 00 01 00 07 07 02 01 09")
        // What follows from points and configuration: two analogs, the highest index 1, events of them.
        .ask("C2 01 00 E9 00 00 00", "C2 81 80 00 00 E9 00 00 00 02 01 02")
        .ask("C3 01 00 E8 00 00 00", "C3 81 80 00 00 E8 00 00 00 02 01 01")
        .ask("C4 01 00 E7 06", "C4 81 80 00 00 E7 00 00 00 03 01 01")
        .ask("C5 01 00 F0 06", "C5 81 80 00 00 F0 00 00 00 02 02 00 08")
        // An attribute that is not there, a set that is not there, a qualifier that names nothing.
        .ask("C6 01 00 F8 00 00 00", "C6 81 80 02")
        .ask("C7 01 00 FC 00 03 03", "C7 81 80 04")
        .ask("C8 01 00 FC 07 01", "C8 81 80 04")
        .ask("C9 01 00 00 06", "C9 81 80 02");
}

#[test]
fn all_attributes_and_their_list_are_read() {
    let mut station = described();
    station.ask("C0 01 00 FF 00 07 07", "C0 81 80 00 00 FF 00 07 07 FE 02 01 00");
    station.send_to(OUTSTATION, &bytes("C1 01 00 FF 06"));
    let answer = station.next();
    let listed = Fragment::parse(&answer).unwrap().headers().flatten().flat_map(|h| h.attributes()).next().unwrap();
    let AttributeValue::List(listed) = listed.value else { panic!("{listed:?}") };
    let writable: Vec<u8> = listed.iter().filter(|one| one.is_writable()).map(|one| one.variation).collect();
    assert_eq!(writable, [247]);
    station.send_to(OUTSTATION, &bytes("C2 01 00 FE 00 00 00"));
    let answer = station.next();
    let all: Vec<Attribute> =
        Fragment::parse(&answer).unwrap().headers().flatten().flat_map(|h| h.attributes()).collect();
    let variations: Vec<u8> = all.iter().map(|one| one.variation).collect();
    assert_eq!(variations, listed.iter().map(|one| one.variation).collect::<Vec<_>>());
    assert!(all.contains(&Attribute { set: 0, variation: 252, value: AttributeValue::text("Tieline") }));
}

#[test]
fn attributes_that_do_not_fit_follow_in_the_next_fragment() {
    let config = OutstationConfig { unsolicited: None, fragment_bytes_sent_max: 272, ..OutstationConfig::default() };
    let mut station = Station::new(config, Box::new(AcceptAll));
    let long = "x".repeat(200);
    let attributes =
        (1..4).fold(DeviceAttributes::new(), |all, variation| all.with(variation, AttributeValue::text(&long)));
    station.outstation.set_attributes(attributes);
    let (mut found, mut sequence) = (Vec::new(), 0);
    station.send_to(OUTSTATION, &bytes("C0 01 00 FE 06"));
    loop {
        let answer = station.next();
        let fragment = Fragment::parse(&answer).unwrap();
        found.extend(fragment.headers().flatten().flat_map(|h| h.attributes()).map(|one| one.variation));
        if fragment.control.fin {
            break;
        }
        station.send_to(OUTSTATION, &[0xC0 | sequence, 0]);
        sequence += 1;
    }
    assert_eq!(found.get(..4), Some([1, 2, 3, 216].as_slice()));
    assert!(sequence >= 2 && found.is_sorted() && found.last() == Some(&241), "{found:?}");
}

#[test]
fn attributes_are_written_if_they_may_be() {
    let mut station = described();
    station
        .ask("C0 02 00 F7 00 00 00 01 02 41 42", "C0 81 80 00")
        .ask("C1 01 00 F7 06", "C1 81 80 00 00 F7 00 00 00 01 02 41 42")
        // Not writable; another type; not there; no object; ends too early.
        .ask("C2 02 00 FC 00 00 00 01 01 41", "C2 81 80 04")
        .ask("C3 02 00 F7 00 00 00 02 01 41", "C3 81 80 04")
        .ask("C4 02 00 F6 00 00 00 01 01 41", "C4 81 80 04")
        .ask("C5 02 00 F7 06", "C5 81 80 04")
        .ask("C6 02 00 F7 00 00 00 01 03 41", "C6 81 80 04")
        .ask("C7 01 00 F7 06", "C7 81 80 00 00 F7 00 00 00 01 02 41 42");
    let written = Attribute { set: 0, variation: 247, value: AttributeValue::text("AB") };
    assert_eq!(station.told, [OutstationEvent::AttributeWritten(written)]);
    assert_eq!(station.outstation.attributes().unwrap().get(0, 247), Some(&AttributeValue::text("AB")));
}

#[test]
fn dead_bands_are_read_and_written() {
    let mut station = Station::quiet();
    station
        .ask("C0 01 22 00 06", "C0 81 80 00 22 03 00 00 01 00 00 00 00 00 00 00 00")
        .ask("C1 02 22 01 00 00 01 05 00 07 00", "C1 81 80 00")
        .ask("C2 02 22 02 17 01 01 00 00 01 00", "C2 81 80 00")
        .ask("C3 01 22 01 00 00 01", "C3 81 80 00 22 01 00 00 01 05 00 FF FF")
        .ask("C4 01 22 02 06", "C4 81 80 00 22 02 00 00 01 05 00 00 00 00 00 01 00")
        // Half a unit, in single precision: as a whole number it must not read as every change.
        .ask("C5 02 22 03 28 01 00 00 00 CD CC CC 3D", "C5 81 80 00")
        .ask("C6 01 22 01 17 01 00", "C6 81 80 00 22 01 00 00 00 01 00")
        // A point that is not there keeps no other from being written; bands that are no bands.
        .ask("C7 02 22 01 27 02 09 00 01 00 01 00 02 00", "C7 81 80 04")
        .ask("C8 01 22 01 00 01 01", "C8 81 80 00 22 01 00 01 01 02 00")
        .ask("C9 02 22 03 00 00 00 00 00 80 BF", "C9 81 80 04")
        .ask("CA 02 22 03 00 00 00 00 00 C0 7F", "CA 81 80 04")
        .ask("CB 02 22 01 06", "CB 81 80 04")
        .ask("CC 01 22 04 06", "CC 81 80 02")
        .ask("CD 01 22 01 00 05 06", "CD 81 80 04")
        // They are what events are made by.
        .ask("CE 02 22 01 00 00 00 0A 00", "CE 81 80 00")
        .update(analog(0, 10.0))
        .ask("CF 01 20 02 06", "EF 81 80 00 20 02 17 01 00 01 0A 00")
        .ask("CF 00", "")
        .update(analog(0, 20.0))
        .ask("C0 01 20 00 06", "C0 81 80 00")
        .update(analog(0, 21.0))
        .ask("C1 01 20 02 06", "E1 81 80 00 20 02 17 01 00 01 15 00");
    assert_eq!(station.outstation.database().dead_band(0), Some(10.0));
    assert!(station.told.iter().all(|event| *event == OutstationEvent::DeadBandsWritten));
    assert_eq!(station.told.len(), 5);
}

#[test]
fn analogs_freeze_as_counters_do() {
    let mut station = Station::quiet();
    station
        .update(analog(1, 300.0))
        .ask("C0 07 1E 00 06", "C0 81 8C 00")
        .ask(
            "C1 01 1F 02 00 01 01 1F 04 00 01 01",
            "C1 81 8C 00 1F 02 00 01 01 01 2C 01 1F 04 00 01 01 01 2C 01 E8 03 00 00 00 00",
        )
        .ask("C2 01 21 00 06", "E2 81 84 00 21 02 17 01 01 01 2C 01")
        .ask("C2 00", "")
        .ask("C3 09 1E 00 00 01 01", "C3 81 84 00")
        .ask("C4 01 1E 02 00 01 01", "C4 81 84 00 1E 02 00 01 01 01 00 00")
        // By index and by count, without an answer, and of points that are not there.
        .ask("C5 08 1E 00 27 01 01 00", "")
        .ask("C6 07 14 00 07 01 1E 00 08 01 00", "C6 81 8C 00")
        .ask("C7 07 1E 00 17 02 01 09", "C7 81 8C 04")
        .ask("C8 07 1E 00 00 05 06", "C8 81 8C 04");
    // Without frozen analogs there is nothing to freeze to.
    let mut database = Database::new();
    database.add(PointType::Analog, 0, PointConfig::of(PointType::Analog)).unwrap();
    let config = OutstationConfig { unsolicited: None, ..OutstationConfig::default() };
    Station::with_database(config, database, Box::new(AcceptAll)).ask("C0 07 1E 00 06", "C0 81 80 02");
}

/// Group 50 variation 2, then all counters.
fn at(request: &str, millis: u64, interval_ms: u32) -> alloc::string::String {
    let time = millis.to_le_bytes();
    std::format!("{request} 32 02 07 01 {}{}14 00 06", hex(&time[..6]), hex(&interval_ms.to_le_bytes()))
}

/// The frozen count of point 0 and the time of its freeze.
fn frozen(station: &Station) -> (Measured, u64) {
    let found = station.outstation.database().get(PointType::FrozenCounter, 0).unwrap();
    (found.value, found.stamp.unwrap().time.millis())
}

/// A station at half past some hour, on which counter 0 counts the seconds.
fn half_past() -> Station {
    let mut station = Station::quiet();
    station.ask("C0 02 32 01 07 01 40 77 1B 00 00 00", "C0 81 80 00");
    station.told.clear();
    station
}
const HALF_HOUR: u64 = 1_800_000;

/// Lets seconds pass, counting them, deadline by deadline.
fn count_on(station: &mut Station, seconds: core::ops::RangeInclusive<u32>) {
    for second in seconds {
        station.update(count(0, second));
        station.wait(1000).tick();
    }
}

#[test]
fn counters_freeze_at_a_time() {
    let mut station = half_past();
    station.ask(&at("C1 0B", HALF_HOUR + 3000, 0), "C1 81 80 00");
    count_on(&mut station, 1..=2);
    assert_eq!(frozen(&station), (Measured::Count(0), 0));
    count_on(&mut station, 3..=9);
    assert_eq!(frozen(&station), (Measured::Count(3), HALF_HOUR + 3000));
    assert_eq!(station.told, [OutstationEvent::Frozen { cleared: false }]);
    assert_eq!(tieline_core::Machine::timeout(&station.outstation), None);
}

#[test]
fn counters_freeze_again_and_again() {
    let mut station = half_past();
    // Every 5 s from a second from here; every 7 s of the hour: half an hour is 257 times 7 s and 1 s.
    station.ask(&at("C1 0C", HALF_HOUR + 1000, 5000), "");
    count_on(&mut station, 1..=12);
    assert_eq!(frozen(&station), (Measured::Count(11), HALF_HOUR + 11_000));
    station.ask(&at("C2 0B", 0, 7000), "C2 81 88 00");
    count_on(&mut station, 13..=22);
    assert_eq!(frozen(&station), (Measured::Count(20), HALF_HOUR + 20_000));
    // A night is slept through: one freeze makes up for it, and the beat is kept.
    station.wait(70_000).tick();
    assert_eq!(frozen(&station).1, HALF_HOUR + 92_000);
    count_on(&mut station, 23..=30);
    assert_eq!(frozen(&station).1, HALF_HOUR + 97_000);
    // All ones: no longer.
    station.ask(&at("C3 0B", (1 << 48) - 1, 0), "C3 81 88 00");
    count_on(&mut station, 31..=60);
    assert_eq!(frozen(&station).1, HALF_HOUR + 97_000);
}

#[test]
fn freezes_at_times_that_cannot_be_are_at_once_or_refused() {
    let mut station = half_past();
    station.update(count(0, 7)).ask(&at("C1 0B", 0, 0), "C1 81 88 00");
    assert_eq!(frozen(&station), (Measured::Count(7), HALF_HOUR));
    station.wait(1000).update(count(0, 8)).ask(&at("C2 0B", HALF_HOUR, 0), "C2 81 88 00");
    assert_eq!(frozen(&station), (Measured::Count(8), HALF_HOUR + 1000));
    station
        // No time, an interval that is too short, and points that do not freeze.
        .ask("C3 0B 14 00 06", "C3 81 88 04")
        .ask(&at("C4 0B", 0, 10), "C4 81 88 04")
        .ask("C5 0B 32 02 07 01 00 00 00 00 00 00 00 00 00 00 01 00 06", "C5 81 88 02");
    // A clock that is set takes the plans along.
    station
        .ask(&at("C6 0B", HALF_HOUR + 60_000, 0), "C6 81 88 00")
        .update(count(0, 9))
        .ask("C7 02 32 01 07 01 9F 61 1C 00 00 00", "C7 81 88 00")
        .wait(1)
        .tick();
    assert_eq!(frozen(&station), (Measured::Count(9), HALF_HOUR + 60_000));
    // A restart forgets them.
    station.ask(&at("C8 0B", HALF_HOUR + 90_000, 1000), "C8 81 88 00");
    station.outstation.restart(station.now);
    assert_eq!(tieline_core::Machine::timeout(&station.outstation), None);
    // As many plans as an outstation keeps, each for a point of its own.
    let mut database = Database::new();
    for index in 0..40 {
        database.add(PointType::Counter, index, PointConfig::of(PointType::Counter)).unwrap();
    }
    let config = OutstationConfig { unsolicited: None, ..OutstationConfig::default() };
    let mut station = Station::with_database(config, database, Box::new(AcceptAll));
    for index in 0..40 {
        let refused = if index < 32 { "00" } else { "04" };
        station.ask(
            &std::format!(
                "C{:X} 0B 32 02 07 01 00 00 00 00 00 00 00 10 00 00 14 00 00 {index:02X} {index:02X}",
                index % 16
            ),
            &std::format!("C{:X} 81 80 {refused}", index % 16),
        );
    }
}

#[test]
fn at_the_end_of_time_nothing_repeats() {
    let mut station = Station::quiet();
    station
        .ask("C0 02 32 01 07 01 FE FF FF FF FF FF", "C0 81 80 00")
        .ask(&at("C1 0B", (1 << 48) - 2, 1000), "C1 81 80 00")
        .wait(1000)
        .tick();
    station.wait(1000).tick();
    assert_eq!(tieline_core::Machine::timeout(&station.outstation), None);
}

/// Has an application called "tap", and one configuration.
struct Managing;

impl ManagementHandler for Managing {
    fn manage(&mut self, step: ApplicationStep, name: Option<&[u8]>) -> Managed {
        match (step, name) {
            (_, None) | (ApplicationStep::Start, Some(b"tap")) => Managed::Done,
            (ApplicationStep::Initialize, Some(_)) => Managed::Unsupported,
            (ApplicationStep::Stop, Some(b"tap")) => Managed::AlreadyExecuting,
            (ApplicationStep::Start | ApplicationStep::Stop, Some(_)) => Managed::Unknown,
        }
    }

    fn save_configuration(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }

    fn activate_configuration(&mut self, named: &[ConfigurationName<'_>]) -> Option<Activation> {
        let statuses = named.iter().map(|name| u8::from(*name != ConfigurationName::File(b"a"))).collect();
        Some(Activation { delay_ms: 500, statuses })
    }
}

#[test]
fn the_owner_lets_masters_manage_the_device() {
    let tap = "5A 01 5B 01 03 00 74 61 70";
    for function in ["10", "11", "12", "13", "1F"] {
        Station::quiet().ask(&std::format!("C0 {function}"), "C0 81 80 01");
    }
    let mut station = Station::quiet();
    station.outstation.set_management(Box::new(Managing));
    station
        .ask(&std::format!("C0 11 {tap}"), "C0 81 80 00")
        .ask("C1 10", "C1 81 80 00")
        .ask(&std::format!("C2 10 {tap}"), "C2 81 80 01")
        .ask(&std::format!("C3 12 {tap}"), "C3 81 80 10")
        .ask("C4 11 5A 01 5B 01 01 00 78", "C4 81 80 04")
        .ask("C5 11 01 02 06", "C5 81 80 02")
        .ask("C6 11 5A 01 5B 01 09 00 78", "C6 81 80 04")
        .ask("C7 13", "C7 81 80 00 34 02 07 01 D0 07")
        .ask("C8 1F", "C8 81 80 00 5B 01 5B 01 04 00 F4 01 00 00")
        .ask(
            "C9 1F 46 08 5B 02 01 00 61 01 00 62 6E 01 17 01 00 63",
            "C9 81 80 00 5B 01 5B 01 07 00 F4 01 00 00 00 01 01",
        )
        .ask("CA 1F 46 03 5B 01 01 00 61", "CA 81 80 02")
        .ask("CB 1F 46 08 5B 01 02 00 61", "CB 81 80 04");
}

struct Odd;

impl ControlHandler for Odd {
    fn select(&mut self, index: u16, _: &Control) -> CommandStatus {
        if index == 1 { CommandStatus::Success } else { CommandStatus::Blocked }
    }

    fn operate(&mut self, index: u16, control: &Control, _: Operate) -> CommandStatus {
        self.select(index, control)
    }
}

#[test]
fn controls_are_told_with_their_status() {
    let mut database = Database::new();
    for point_type in [PointType::BinaryOutput, PointType::AnalogOutput] {
        for index in 0..2 {
            let command_class = Some(EventClass::Class1);
            database.add(point_type, index, PointConfig { command_class, ..PointConfig::of(point_type) }).unwrap();
        }
    }
    let config = OutstationConfig { unsolicited: None, ..OutstationConfig::default() };
    let mut station = Station::with_database(config, database, Box::new(Odd));
    let close = "0C 01 17 01 01 41 01 64 00 00 00 64 00 00 00 00";
    station
        // A selection is no attempt.
        .ask(&std::format!("C0 03 {close}"), &std::format!("C0 81 80 00 {close}"))
        .ask("C1 01 0D 00 06", "C1 81 80 00")
        .ask(&std::format!("C2 05 {close}"), &std::format!("C2 81 82 00 {close}"))
        .ask("C3 05 29 02 17 01 00 D0 FF 00", "C3 81 82 00 29 02 17 01 00 D0 FF 0F")
        .ask("C4 05 29 04 17 01 01 00 00 00 00 65 CD CD 41 00", "C4 81 82 00 29 04 17 01 01 00 00 00 00 65 CD CD 41 00")
        // No such point: nothing to tell of.
        .ask("C5 05 29 02 17 01 09 D0 FF 00", "C5 81 82 04 29 02 17 01 09 D0 FF 04")
        .ask("C6 01 0D 01 06 2B 02 06", "E6 81 80 00 0D 01 17 01 01 80 2B 02 17 02 00 0F D0 FF 01 00 FF 7F")
        .wait(6000)
        .tick();
    station
        .ask("C7 01 3C 02 06", "E7 81 80 00 0D 02 17 01 01 80 E8 03 00 00 00 00 2B 03 17 02 00 0F D0 FF FF FF E8 03 00 00 00 00 01 00 00 CA 9A 3B E8 03 00 00 00 00")
        .ask("C7 00", "")
        // Changes and controls are told apart.
        .update(Measurement { point_type: PointType::BinaryOutput, ..bit(1, true) })
        .ask("C8 01 0D 00 06", "C8 81 84 00")
        .ask("C9 01 0B 01 06", "E9 81 80 00 0B 01 17 01 01 81");
}

#[test]
fn wrong_command_variations_are_the_owners_mistake() {
    let mut database = Database::new();
    let check = |database: &mut Database, point_type, command_variation, expect: bool| {
        let config = PointConfig { command_variation, ..PointConfig::of(point_type) };
        assert_eq!(database.add(point_type, u16::from(command_variation), config).is_ok(), expect);
    };
    check(&mut database, PointType::BinaryOutput, 1, true);
    check(&mut database, PointType::BinaryOutput, 3, false);
    check(&mut database, PointType::AnalogOutput, 8, true);
    check(&mut database, PointType::AnalogOutput, 0, false);
    check(&mut database, PointType::Binary, 1, false);
    assert_eq!(database.get(PointType::AnalogOutput, 8).unwrap().flags, Flags::RESTART);
}
