//! Unsolicited responses: when, how often, and what they do to requests.

use super::station::{OUTSTATION, Station, analog, bit, count};
use crate::outstation::{AcceptAll, DatabaseError, OutstationConfig, OutstationEvent, PointConfig, UnsolicitedConfig};
use crate::{Classes, EventClass, Measured, PointType};
use alloc::boxed::Box;
use core::time::Duration;

/// Classes 1 and 2 are enabled from the start.
fn station(unsolicited: UnsolicitedConfig) -> Station {
    let classes = Classes::CLASS_1.with(Classes::CLASS_2);
    let unsolicited = Some(UnsolicitedConfig { classes, ..unsolicited });
    Station::new(OutstationConfig { unsolicited, ..OutstationConfig::default() }, Box::new(AcceptAll))
}

/// The same, with the null response confirmed.
fn ready(unsolicited: UnsolicitedConfig) -> Station {
    let mut station = station(unsolicited);
    station.hear("F0 82 80 00").ask("D0 00", "");
    station
}

#[test]
fn values_given_together_are_events_as_if_given_one_by_one() {
    let values = [bit(0, true), analog(0, 7.0), bit(1, true), analog(0, 7.0), analog(1, -3.0), count(0, 9)];
    let (mut together, mut apart) = (ready(UnsolicitedConfig::default()), ready(UnsolicitedConfig::default()));
    together.outstation.update_all(together.now, values.clone()).unwrap();
    values.into_iter().for_each(|value| apart.outstation.update(apart.now, value).unwrap());
    assert_eq!(together.outstation.stats(), apart.outstation.stats());
    assert_eq!(together.next(), apart.next());
    let now = together.now;
    assert_eq!(
        together.outstation.update_all(now, [bit(0, false), bit(9, true), bit(1, false)]),
        Err(DatabaseError::Unknown)
    );
    let state = |index| together.outstation.database().get(PointType::Binary, index).unwrap().value;
    assert_eq!((state(0), state(1)), (Measured::Bit(false), Measured::Bit(true)));
    assert_eq!(together.outstation.stats().events_waiting, apart.outstation.stats().events_waiting + 1);
}

#[test]
fn values_given_together_wait_for_others_together() {
    let hold = UnsolicitedConfig {
        hold_time: Duration::from_millis(500),
        events_before_hold_ends: 3,
        ..UnsolicitedConfig::default()
    };
    let mut station = ready(hold);
    let now = station.now;
    station.outstation.update_all(now, [bit(0, true), analog(0, 7.0)]).unwrap();
    station.hear("").wait(499).hear("");
    let now = station.now;
    station.outstation.update_all(now, [bit(1, true)]).unwrap();
    station.hear("F1 82 80 00 02 01 17 02 00 81 01 81 20 02 17 01 00 01 07 00").ask("D1 00", "");
    let now = station.now;
    station.outstation.update_all(now, [bit(1, false), analog(0, 8.0)]).unwrap();
    station.wait(499).hear("").wait(1).hear("F2 82 80 00 02 01 17 01 01 01 20 02 17 01 00 01 08 00");
}

#[test]
fn a_start_is_announced_until_someone_confirms() {
    let mut station = station(UnsolicitedConfig::default());
    station
        .update(bit(0, true))
        .hear("F0 82 82 00")
        .hear("")
        .wait(5_000)
        .hear("F1 82 82 00")
        // Late, and for the wrong kind.
        .ask("D0 00", "")
        .ask("C1 00", "")
        .reconnect()
        .hear("F2 82 82 00")
        .ask("D2 00", "F3 82 80 00 02 01 17 01 00 81")
        .ask("D3 00", "")
        .reconnect()
        .hear("");
}

#[test]
fn events_go_out_by_class_and_are_repeated_as_they_were() {
    let mut station = ready(UnsolicitedConfig { retries_max: Some(2), ..UnsolicitedConfig::default() });
    station
        .update(analog(1, 5.0))
        .update(bit(1, true))
        .update(count(0, 1))
        .hear("F1 82 88 00 02 01 17 01 01 81 20 02 17 01 01 01 05 00")
        .ask("C0 02 50 01 00 07 07 00", "C0 81 08 00")
        .update(bit(1, false))
        .wait(5_000)
        .hear("F1 82 88 00 02 01 17 01 01 81 20 02 17 01 01 01 05 00")
        .wait(5_000)
        .hear("F1 82 88 00 02 01 17 01 01 81 20 02 17 01 01 01 05 00")
        .wait(5_000)
        .hear("")
        .wait(60_000)
        .hear("");
    assert_eq!(station.told.last(), Some(&OutstationEvent::UnsolicitedGivenUp));
    // A request shows that the master is there: all that waits is reported again.
    station
        .ask("C1 17", "C1 81 0E 00 34 02 07 01 00 00")
        .hear("F2 82 08 00 02 01 17 02 01 81 01 01 20 02 17 01 01 01 05 00")
        .ask("D2 00", "")
        .ask("C2 01 3C 04 06", "E2 81 00 00 16 02 17 01 00 01 01 00")
        .ask("C2 00", "");
}

#[test]
fn a_repetition_that_cannot_be_the_same_has_a_number_of_its_own() {
    let mut station = Station::new(
        OutstationConfig {
            event_limits: crate::outstation::EventLimits::all(1),
            unsolicited: Some(UnsolicitedConfig { classes: Classes::CLASS_1, ..UnsolicitedConfig::default() }),
            ..OutstationConfig::default()
        },
        Box::new(AcceptAll),
    );
    station
        .hear("F0 82 80 00")
        .ask("D0 00", "")
        .update(bit(0, true))
        .hear("F1 82 80 00 02 01 17 01 00 81")
        .update(bit(1, true))
        .wait(5_000)
        .hear("F2 82 80 08 02 01 17 01 01 81")
        .ask("D1 00", "")
        .ask("D2 00", "")
        .ask("C0 17", "C0 81 80 00 34 02 07 01 00 00");
}

#[test]
fn the_master_chooses_the_classes() {
    let mut station = ready(UnsolicitedConfig::default());
    station
        .ask("C0 15 3C 02 06 3C 03 06 3C 04 06", "C0 81 80 00")
        .update(bit(0, true))
        .hear("")
        .ask("C1 14 3C 03 06 3C 04 06", "C1 81 82 00")
        .hear("")
        .update(count(1, 3))
        .hear("F1 82 82 00 16 02 17 01 01 01 03 00")
        .ask("D1 00", "")
        .ask("C2 14 3C 02 06", "C2 81 82 00")
        .hear("F2 82 80 00 02 01 17 01 00 81")
        .ask("D2 00", "")
        .ask("C3 14 3C 01 06", "C3 81 80 04")
        .ask("C4 14 01 00 06", "C4 81 80 02");
    let none = OutstationEvent::UnsolicitedEnabled(Classes::NONE);
    let later = OutstationEvent::UnsolicitedEnabled(Classes::CLASS_2.with(Classes::CLASS_3));
    assert_eq!(station.told, [none, later, OutstationEvent::UnsolicitedEnabled(Classes::EVENTS)]);
    Station::quiet().ask("C0 14 3C 02 06", "C0 81 80 01");
}

#[test]
fn events_wait_for_others() {
    let mut station = ready(UnsolicitedConfig {
        hold_time: Duration::from_secs(2),
        events_before_hold_ends: 3,
        events_max: 2,
        ..UnsolicitedConfig::default()
    });
    station
        .update(bit(0, true))
        .hear("")
        .wait(1_999)
        .hear("")
        .wait(1)
        .hear("F1 82 80 00 02 01 17 01 00 81")
        .ask("D1 00", "")
        .wait(60_000)
        .update(bit(0, false))
        .update(bit(0, true))
        .hear("")
        .update(bit(1, true))
        // Three end the hold; two fit, and the third has waited long enough.
        .hear("F2 82 82 00 02 01 17 02 00 01 00 81")
        .ask("D2 00", "F3 82 80 00 02 01 17 01 01 81")
        .ask("D3 00", "");
}

#[test]
fn a_read_that_is_not_confirmed_leaves_its_events_to_be_reported() {
    let mut station = ready(UnsolicitedConfig { hold_time: Duration::from_secs(2), ..UnsolicitedConfig::default() });
    station
        .update(bit(0, true))
        .ask("C0 01 3C 02 06", "E0 81 80 00 02 01 17 01 00 81")
        .wait(3_000)
        .hear("")
        .wait(2_000)
        .hear("F1 82 80 00 02 01 17 01 00 81")
        .ask("D1 00", "");
}

#[test]
fn reads_wait_for_the_confirm_and_other_requests_do_not() {
    let mut station = ready(UnsolicitedConfig::default());
    station
        .update(bit(0, true))
        .hear("F1 82 80 00 02 01 17 01 00 81")
        // The second read replaces the first.
        .ask("C0 01 01 02 00 00 00", "")
        .ask("C1 01 01 02 00 01 01", "")
        .ask("D1 00", "C1 81 80 00 01 02 00 01 01 02")
        // A request that is not a read takes the place of a read that waits.
        .update(bit(0, false))
        .hear("F2 82 80 00 02 01 17 01 00 01")
        .ask("C2 01 01 02 00 01 01", "")
        .ask("C3 17", "C3 81 80 00 34 02 07 01 00 00")
        .ask("D2 00", "")
        // Without the confirm the read is answered when its time is over, with the event.
        .update(bit(0, true))
        .hear("F3 82 80 00 02 01 17 01 00 81")
        .ask("C4 01 3C 02 06", "")
        .wait(5_000)
        .hear("E4 81 80 00 02 01 17 01 00 81")
        .ask("D3 00", "")
        // While an answer awaits its confirm nothing is reported.
        .update(bit(1, true))
        .hear("")
        .ask("C4 00", "F4 82 80 00 02 01 17 01 01 81")
        .ask("D4 00", "");
}

/// A station whose class 1 goes first, in the middle of a read of many fragments: the first is confirmed.
fn reading(protection: Classes) -> Station {
    let unsolicited = Some(UnsolicitedConfig {
        classes: Classes::CLASS_1.with(Classes::CLASS_2),
        protection,
        ..UnsolicitedConfig::default()
    });
    let mut database = crate::outstation::Database::new();
    for index in 0..120 {
        let config = PointConfig { static_variation: 1, ..PointConfig::of(PointType::Analog) };
        database.add(PointType::Analog, index, config.in_class(Some(EventClass::Class2))).unwrap();
    }
    let bit = PointConfig { event_variation: 1, ..PointConfig::of(PointType::Binary) };
    database.add(PointType::Binary, 0, bit.in_class(Some(EventClass::Class1))).unwrap();
    let config = OutstationConfig { unsolicited, fragment_bytes_sent_max: 272, ..OutstationConfig::default() };
    let mut station = Station::with_database(config, database, Box::new(AcceptAll));
    station.hear("F0 82 80 00").ask("D0 00", "");
    station.send_to(OUTSTATION, &[0xC0, 1, 30, 1, 6]);
    assert!(station.next().starts_with(&[0xA0, 0x81]));
    station
}

#[test]
fn protection_goes_between_the_fragments_of_a_read() {
    let mut station = reading(Classes::CLASS_1);
    station.update(bit(0, true)).hear("");
    // The confirm of the first fragment is followed by the report, and its confirm by the second fragment.
    station.ask("C0 00", "F1 82 80 00 02 01 17 01 00 81").hear("");
    station.send_to(OUTSTATION, &[0xD1, 0]);
    assert!(station.next().starts_with(&[0x21, 0x81]));
    station.update(bit(0, false)).ask("C1 00", "F2 82 80 00 02 01 17 01 00 01");
    // A master that does not confirm it gets the read to its end, and the report again after that.
    station.wait(5_000).tick();
    assert!(station.next().starts_with(&[0x42, 0x81]));
    station.hear("F3 82 80 00 02 01 17 01 00 01").ask("D3 00", "").hear("");
}

#[test]
fn without_protection_classes_events_wait_for_the_end_of_a_read() {
    for protection in [Classes::NONE, Classes::CLASS_2] {
        let mut station = reading(protection);
        station.update(bit(0, true)).hear("");
        for (confirm, next) in [(0xC0, 0x21), (0xC1, 0x42)] {
            station.send_to(OUTSTATION, &[confirm, 0]);
            assert!(station.next().starts_with(&[next, 0x81]), "{protection:?}");
        }
        station.hear("F1 82 80 00 02 01 17 01 00 81");
    }
}

#[test]
fn a_command_between_fragments_is_answered_and_costs_no_event() {
    let mut station = reading(Classes::CLASS_1);
    station.update(bit(0, true)).ask("C0 00", "F1 82 80 00 02 01 17 01 00 81");
    station.ask("C1 02 50 01 00 07 07 00", "C1 81 00 00").ask("D1 00", "").hear("");
    assert_eq!(station.outstation.stats().events_waiting, 0);
}
