//! What an outstation answers, by function.

use super::station::{MASTER, OUTSTATION, Station, analog, binaries, bit, bytes, count};
use crate::app::CommandStatus;
use crate::link::LinkAddress;
use crate::outstation::{AcceptAll, ControlHandler, Operate, OutstationConfig, OutstationEvent, RefuseAll};
use crate::{Control, DnpTime, EventClass, Flags, Iin, Measured, Measurement, PointType, Stamp};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

#[test]
fn a_restart_is_told_until_the_master_clears_it() {
    let mut station = Station::quiet();
    station
        .ask("C0 01 3C 02 06", "C0 81 80 00")
        .ask("C1 02 50 01 00 07 07 00", "C1 81 00 00")
        .ask("C2 01 3C 02 06", "C2 81 00 00")
        // Only this bit, and only to zero.
        .ask("C3 02 50 01 00 07 07 01", "C3 81 00 04")
        .ask("C4 02 50 01 00 04 04 00", "C4 81 00 04");
    assert_eq!(station.told, [OutstationEvent::RestartCleared]);
    station.outstation.restart(station.now);
    station.ask("C5 01 3C 02 06", "C5 81 80 00");
}

#[test]
fn reads_name_points_in_every_way() {
    let mut station = Station::quiet();
    station.update(bit(1, true)).update(analog(1, -2.0));
    station
        // All; by range in one and two bytes; the first of them; by index.
        .ask("C0 01 01 00 06", "C0 81 86 00 01 02 00 00 01 02 81")
        .ask("C0 01 01 02 00 01 01", "C0 81 86 00 01 02 00 01 01 81")
        .ask("C0 01 01 00 01 00 00 01 00", "C0 81 86 00 01 02 00 00 01 02 81")
        .ask("C0 01 01 02 07 01", "C0 81 86 00 01 02 00 00 00 02")
        .ask("C0 01 01 02 08 02 00", "C0 81 86 00 01 02 00 00 01 02 81")
        .ask("C0 01 01 02 17 01 01", "C0 81 86 00 01 02 00 01 01 81")
        .ask("C0 01 1E 00 28 01 00 01 00", "C0 81 86 00 1E 02 00 01 01 01 FE FF")
        // A packed variation cannot tell the flags of point 0, and tells those of point 1.
        .ask("C0 01 01 01 00 00 00", "C0 81 86 00 01 02 00 00 00 02")
        .ask("C0 01 01 01 00 01 01", "C0 81 86 00 01 01 00 01 01 01")
        // Other widths.
        .ask("C0 01 1E 01 00 01 01", "C0 81 86 00 1E 01 00 01 01 01 FE FF FF FF")
        .ask("C0 01 1E 04 00 01 01", "C0 81 86 00 1E 04 00 01 01 FE FF")
        .ask("C0 01 1E 05 00 01 01", "C0 81 86 00 1E 05 00 01 01 01 00 00 00 C0");
}

#[test]
fn every_variation_is_told_as_it_was_asked_for() {
    use crate::outstation::database::{event_variations, static_variations};
    for point_type in PointType::ALL {
        let mut station = Station::quiet();
        let value = crate::outstation::point::measured(point_type, 1);
        let value = value.unwrap_or_else(|| Measured::Bytes([7][..].into()));
        let told = Measurement { point_type, index: 1, value, flags: Flags::ONLINE, stamp: None };
        station.outstation.database_mut().assign_class(0..16, Some(EventClass::Class1));
        station.update(told.clone());
        let asked = static_variations(point_type).iter().map(|v| (point_type.static_group(), *v));
        let asked = asked.chain(event_variations(point_type).iter().map(|v| (point_type.event_group(), *v)));
        for (group, variation) in asked {
            station.send_to(OUTSTATION, &[0xC0, 1, group, variation, 0x06]);
            let answer = station.next();
            let walk = crate::app::Walk::new(&answer[4..]);
            let found: Vec<_> = walk.measurements().filter(|(_, m)| m.index == 1).collect();
            let [(object, found)] = found.as_slice() else { panic!("{group} {variation}: {found:?}") };
            // The variation of a string is its length.
            let variation = if variation == 0 { 1 } else { variation };
            assert_eq!((object.group, object.variation), (group, variation));
            // Bit pattern 1 is a very small double, which most variations round.
            if point_type.static_group() < 30 || variation == 0 {
                assert_eq!((&found.value, found.flags), (&told.value, told.flags), "{object}");
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_answered() {
    let mut station = Station::quiet();
    station
        .ask("C0 01 00 F0 06", "C0 81 80 02")
        .ask("C0 01 0A 03 06", "C0 81 80 02")
        .ask("C0 01 01 02 00 01 02", "C0 81 80 04 01 02 00 01 01 02")
        .ask("C0 01 01 02 00 05 06", "C0 81 80 04")
        .ask("C0 01 01 02 00 02 01", "C0 81 80 04")
        .ask("C0 01 3C 05 06", "C0 81 80 02")
        .ask("C0 01 01 02 00 00 00 63 01 06", "C0 81 80 02 01 02 00 00 00 02")
        .ask("C0 70", "C0 81 80 01")
        .ask("C0 19 46 03 5B 01", "C0 81 80 01");
    assert_eq!(station.outstation.stats().requests_refused, 9);
}

#[test]
fn events_leave_only_by_their_confirm() {
    let mut station = Station::quiet();
    station.update(bit(0, true)).update(analog(0, 7.0)).update(bit(0, false));
    station
        // One, then the rest of the class; the analog waits in class 2.
        .ask("C0 01 3C 02 07 01", "E0 81 86 00 02 01 17 01 00 81")
        .ask("C1 01 3C 02 06", "E1 81 84 00 02 01 17 02 00 81 00 01")
        .ask("C0 00", "")
        .ask("C1 00", "")
        .ask("C2 01 3C 02 06", "C2 81 84 00")
        .ask("C3 01 20 00 06", "E3 81 80 00 20 02 17 01 00 01 07 00")
        // No confirm within its time: the event waits again.
        .wait(5_000)
        .hear("")
        .ask("C3 00", "")
        .ask("C4 01 20 04 06", "E4 81 80 00 20 04 17 01 00 01 07 00 E8 03 00 00 00 00")
        .ask("C4 00", "")
        .ask("C5 01 3C 02 06 3C 03 06 3C 04 06", "C5 81 80 00");
    let stats = station.outstation.stats();
    assert_eq!((stats.confirms, stats.confirms_missed, stats.confirms_unexpected, stats.events_waiting), (2, 1, 2, 0));
}

#[test]
fn a_long_answer_goes_fragment_by_fragment() {
    let config = OutstationConfig { unsolicited: None, fragment_bytes_sent_max: 272, ..OutstationConfig::default() };
    let database = binaries(400, EventClass::Class1);
    let mut station = Station::with_database(config, database, Box::new(AcceptAll));
    station.send_to(OUTSTATION, &bytes("C5 01 3C 01 06"));
    let first = station.next();
    assert_eq!((first.first(), first.len()), (Some(&0xA5), 265));
    // 256 points, and no room for the header of those with longer indices.
    station.ask("C4 00", "");
    station.send_to(OUTSTATION, &bytes("C5 00"));
    assert_eq!(station.next().first(), Some(&0x46));
}

struct Even;

impl ControlHandler for Even {
    fn select(&mut self, index: u16, _: &Control) -> CommandStatus {
        if index.is_multiple_of(2) { CommandStatus::Success } else { CommandStatus::Blocked }
    }

    fn operate(&mut self, index: u16, control: &Control, _: Operate) -> CommandStatus {
        self.select(index, control)
    }
}

const CROB: &str = "03 01 64 00 00 00 C8 00 00 00";

fn crob(request: &str, index: u8, status: u8) -> alloc::string::String {
    std::format!("{request} 0C 01 17 01 {index:02X} {CROB} {status:02X}")
}

#[test]
fn an_operate_needs_its_selection() {
    let config = OutstationConfig { unsolicited: None, ..OutstationConfig::default() };
    let mut station = Station::new(config, Box::new(Even));
    let (select, operate) = (crob("C0 03", 0, 0), crob("C1 04", 0, 0));
    station
        .ask(&operate, &crob("C1 81 80 00", 0, 2))
        .ask(&select, &crob("C0 81 80 00", 0, 0))
        .ask(&operate, &crob("C1 81 80 00", 0, 0))
        // Repeated: the same answer, not operated again.
        .ask(&operate, &crob("C1 81 80 00", 0, 0))
        // Repeated after something else: a request of its own, and the answer is not that of the other.
        .ask("C1 70", "C1 81 80 01")
        .ask(&operate, &crob("C1 81 80 00", 0, 2))
        // Other bytes, another number, another request in between, and too late.
        .ask(&crob("C2 03", 0, 0), &crob("C2 81 80 00", 0, 0))
        .ask(
            "C3 04 0C 01 17 01 00 04 01 64 00 00 00 C8 00 00 00 00",
            "C3 81 80 00 0C 01 17 01 00 04 01 64 00 00 00 C8 00 00 00 02",
        )
        .ask(&crob("C4 03", 0, 0), &crob("C4 81 80 00", 0, 0))
        .ask(&crob("C6 04", 0, 0), &crob("C6 81 80 00", 0, 2))
        .ask(&select, &crob("C0 81 80 00", 0, 0))
        .ask("C1 17", "C1 81 80 00 34 02 07 01 00 00")
        .ask(&crob("C1 04", 0, 0), &crob("C1 81 80 00", 0, 2))
        .ask(&crob("C2 03", 0, 0), &crob("C2 81 80 00", 0, 0))
        .wait(10_000)
        .ask(&crob("C3 04", 0, 0), &crob("C3 81 80 00", 0, 1))
        // Refused by the application: nothing is selected.
        .ask(&crob("C4 03", 1, 0), &crob("C4 81 80 00", 1, 15))
        .ask(&crob("C5 04", 1, 0), &crob("C5 81 80 00", 1, 2));
    let operated = |event: &&OutstationEvent| {
        matches!(event, OutstationEvent::Operated { status: CommandStatus::Success, how: Operate::Selected, .. })
    };
    assert_eq!(station.told.iter().filter(operated).count(), 1);
    let stats = station.outstation.stats();
    assert_eq!((stats.controls_operated, stats.requests_repeated), (1, 1));
}

#[test]
fn direct_operate_is_answered_point_by_point() {
    let config = OutstationConfig { unsolicited: None, controls_max: 3, ..OutstationConfig::default() };
    let mut station = Station::new(config, Box::new(Even));
    station
        // Analogs of every width; a point that is not there is a parameter error, and blocks no other.
        .ask(
            "C0 05 29 02 28 02 00 00 00 07 00 00 09 00 07 00 00",
            "C0 81 80 04 29 02 28 02 00 00 00 07 00 00 09 00 07 00 04",
        )
        .ask("C1 05 29 03 17 01 01 00 00 80 3F 00", "C1 81 80 00 29 03 17 01 01 00 00 80 3F 0F")
        .ask(
            "C2 05 29 01 17 04 00 01 00 00 00 00 00 01 00 00 00 00 00 01 00 00 00 00 00 01 00 00 00 00",
            "C2 81 80 00 29 01 17 04 00 01 00 00 00 00 00 01 00 00 00 00 00 01 00 00 00 00 00 01 00 00 00 08",
        )
        // Without an answer.
        .ask(&crob("C3 06", 0, 0), "")
        // Nothing of a request that holds something else is operated.
        .ask(&std::format!("{} 3C 02 06", crob("C4 05", 0, 0)), "C4 81 80 02")
        .ask("C5 05 0C 01 17 01 00 03", "C5 81 80 04")
        .ask("C6 05", "C6 81 80 04");
    station.outstation.set_local(true);
    station
        .ask(&crob("C7 05", 0, 0), &crob("C7 81 A0 00", 0, 7))
        .ask("C8 01 0A 02 06 01 02 00 00 00", "C8 81 A0 00 0A 02 00 00 01 12 12 01 02 00 00 00 02");
    station.outstation.set_local(false);
    // Operation 5 and trip with close are reserved.
    for code in ["05", "C1"] {
        let control = std::format!("0C 01 17 01 00 {code} 01 64 00 00 00 C8 00 00 00");
        station.ask(&std::format!("C9 05 {control} 00"), &std::format!("C9 81 80 04 {control} 04"));
    }
    let success =
        |event: &&OutstationEvent| matches!(event, OutstationEvent::Operated { status: CommandStatus::Success, .. });
    assert_eq!(station.told.iter().filter(success).count(), 1 + 3 + 1);
}

#[test]
fn time_is_set_by_both_procedures() {
    let config = OutstationConfig {
        unsolicited: None,
        need_time_every: Some(Duration::from_secs(60)),
        ..OutstationConfig::default()
    };
    let mut station = Station::new(config, Box::new(RefuseAll));
    station
        .ask("C0 01 3C 02 06", "C0 81 90 00")
        .ask("C1 17", "C1 81 90 00 34 02 07 01 00 00")
        .ask("C2 02 32 01 07 01 00 00 01 00 00 00", "C2 81 80 00")
        .update(bit(0, true))
        .ask("C3 01 02 02 06", "E3 81 80 00 02 02 17 01 00 81 00 00 01 00 00 00")
        .wait(60_000)
        .hear("")
        .ask("C4 01 32 01 07 01", "C4 81 92 00 32 01 07 01 60 EA 01 00 00 00")
        // Over a network: the time counts from the request before.
        .ask("C5 02 32 03 07 01 00 00 00 00 00 00", "C5 81 92 04")
        .ask("C6 18", "C6 81 92 00")
        .wait(256)
        .ask("C7 02 32 03 07 01 00 00 02 00 00 00", "C7 81 82 00");
    let expect = |millis| OutstationEvent::ClockSet { time: DnpTime::from_millis(millis) };
    assert_eq!(station.told, [expect(0x1_0000), expect(0x2_0100)]);
}

#[test]
fn counters_freeze_classes_change_bytes_are_written() {
    let mut station = Station::quiet();
    station
        .update(count(1, 9))
        .ask("C0 09 14 00 00 01 01", "C0 81 88 00")
        .ask("C1 01 15 01 00 01 01 14 02 00 01 01", "C1 81 88 00 15 01 00 01 01 01 09 00 00 00 14 02 00 01 01 01 00 00")
        .ask("C2 08 14 00 06", "")
        .ask("C3 07 01 00 06", "C3 81 88 02")
        // Binary 1 to class 3, binary 0 to none.
        .ask("C4 16 3C 04 06 01 00 00 01 01 3C 01 06 01 00 00 00 00", "C4 81 88 00")
        .update(bit(0, true))
        .update(bit(1, true))
        .ask("C5 01 02 01 06", "E5 81 88 00 02 01 17 01 01 81")
        .ask("C6 02 6E 02 17 01 01 68 69", "C6 81 88 00")
        .ask("C7 01 6E 00 00 01 01", "C7 81 88 00 6E 02 00 01 01 68 69")
        .ask("C8 01 6F 00 06", "E8 81 88 00 6F 02 17 01 01 68 69")
        .ask("C9 02 6E 02 17 01 07 68 69", "C9 81 88 04")
        .ask("CA 0D", "CA 81 88 00 34 02 07 01 88 13");
    let written = Measurement {
        point_type: PointType::OctetString,
        index: 1,
        value: Measured::Bytes(b"hi"[..].into()),
        flags: Flags::ONLINE,
        stamp: None,
    };
    assert_eq!(
        station.told,
        [
            OutstationEvent::Frozen { cleared: true },
            OutstationEvent::Frozen { cleared: false },
            OutstationEvent::ClassAssigned,
            OutstationEvent::Written(written),
            OutstationEvent::RestartRequested { cold: true },
        ]
    );
}

#[test]
fn a_broadcast_is_obeyed_and_told_but_not_answered() {
    let mut station = Station::quiet();
    let clear = bytes("C0 02 50 01 00 07 07 00");
    for (address, answer, then) in [
        (0xFFFF, "C1 81 01 00", "C1 81 00 00"),
        (0xFFFD, "C1 81 01 00", "C1 81 00 00"),
        (0xFFFE, "E1 81 01 00", "E1 81 01 00"),
    ] {
        station.send_to(LinkAddress::new(address), &clear);
        assert!(station.next().is_empty());
        station.ask("C1 17 ", &std::format!("{answer} 34 02 07 01 00 00"));
        station.ask("C2 17 ", &std::format!("{} 34 02 07 01 00 00", then.replace("1 81", "2 81")));
    }
    station.ask("C2 00", "").ask("C3 01 3C 02 06", "C3 81 00 00");
    // A read to all is nothing that anyone could answer.
    station.send_to(LinkAddress::new(0xFFFF), &bytes("C0 01 3C 02 06"));
    station.ask("C4 01 3C 02 06", "C4 81 00 00");
}

/// Under g51v2 until a master has set the clock, no matter which clock the event has its time from; under g51v1 from then on.
#[test]
fn times_of_events_are_unsynchronised_until_the_clock_is_set() {
    let config = OutstationConfig { clock_synchronized: false, unsolicited: None, ..OutstationConfig::default() };
    let mut station = Station::new(config, Box::new(AcceptAll));
    let stamped = |millis, state| {
        let stamp = Stamp { time: DnpTime::from_millis(millis), synchronized: true };
        Measurement { stamp: Some(stamp), ..bit(0, state) }
    };
    let read = |sequence: u8| std::format!("C{sequence} 01 02 03 06");
    let events = |sequence: u8, common: &str, state: &str| {
        std::format!("E{sequence} 81 80 00 33 {common} 00 00 00 00 02 03 17 01 00 {state} 00 00")
    };
    station.update(bit(0, true)).ask(&read(0), &events(0, "02 07 01 E8 03", "81")).ask("C0 00", "");
    station.update(stamped(2000, false)).ask(&read(1), &events(1, "02 07 01 D0 07", "01")).ask("C1 00", "");
    station.ask("C2 02 32 01 07 01 88 13 00 00 00 00", "C2 81 80 00");
    station.update(bit(0, true)).ask(&read(3), &events(3, "01 07 01 88 13", "81")).ask("C3 00", "");
    station.update(stamped(2000, false)).ask(&read(4), &events(4, "01 07 01 D0 07", "01")).ask("C4 00", "");
    // After a restart nobody has.
    let now = station.now;
    station.outstation.restart(now);
    station.update(bit(0, true)).ask(&read(5), &events(5, "02 07 01 E8 03", "81"));
}

#[test]
fn the_application_gives_indications() {
    let mut station = Station::quiet();
    station.outstation.set_indications(Iin(0xFFFF), true);
    station.ask("C0 01 3C 02 06", "C0 81 FE 28");
    station.outstation.set_indications(Iin::DEVICE_TROUBLE.with(Iin::NEED_TIME), false);
    station.ask("C0 01 3C 02 06", "C0 81 AE 28");
}

#[test]
fn only_its_master_is_heard() {
    let mut station = Station::quiet();
    station.send_to(LinkAddress::new(11), &bytes("C0 01 3C 02 06"));
    station.send_to(MASTER, &bytes("C0 01 3C 02 06"));
    assert!(station.next().is_empty());
    assert_eq!(station.outstation.stats().requests, 0);
}
