//! Floods: what a machine keeps does not grow with what it is sent.

use crate::targets::machines::Bench;
use crate::{Choices, Outputs};
use std::fmt::Debug;
use tieline_core::Machine;
use tieline_dnp3::endpoint::Role;
use tieline_dnp3::master::{Master, MasterConfig};
use tieline_dnp3::outstation::{Database, EventLimits, Outstation, OutstationConfig, PointConfig};
use tieline_dnp3::{Flags, Measured, Measurement, PointType};

/// Fragments or runs of bytes of one flood.
const FLOOD: u64 = 20_000;
/// Letters of a machine's whole state, told in full: what grows would grow it.
const STATE_MAX: usize = 20_000;

fn flood<M: Machine + Debug>(machine: M, role: Role, fragment: impl Fn(u64) -> Vec<u8>) -> usize {
    let mut bench = Bench::new(machine, role);
    bench.machine.handle_connected(bench.now);
    bench.drain();
    let (mut choices, mut sent) = (Choices::seeded(FLOOD), 0);
    for number in 0..FLOOD {
        bench.feed_fragment(&fragment(number));
        if number % 3 == 0 {
            let bytes = choices.bytes(90);
            bench.feed(&bytes);
        }
        sent += bench.sent.len();
        (bench.sent, bench.events) = (Vec::new(), Vec::new());
        if number % 1000 == 0 {
            let state = format!("{:?}", bench.machine).len();
            assert!(state < STATE_MAX, "{state} letters of state after {number} fragments");
        }
    }
    sent
}

fn outstation(limit: u16) -> Outstation {
    let mut database = Database::new();
    for index in 0..20 {
        database.add(PointType::Analog, index, PointConfig::of(PointType::Analog)).expect("a fresh point");
    }
    let config = OutstationConfig { event_limits: EventLimits::all(limit), ..OutstationConfig::default() };
    Outstation::new(config, database, Box::new(Outputs::default()))
}

#[test]
fn a_flood_grows_nothing() {
    let report = |number: u64| {
        let [low, high, ..] = number.to_le_bytes();
        vec![0xF0 | low & 0x0F, 130, 0, 0, 30, 2, 0, 0, 0, 1, low, high]
    };
    // One confirm for each report at most, and the duties of start-up.
    let sent = flood(Master::new(MasterConfig::default()), Role::Master, report);
    assert!(sent as u64 <= FLOOD + 10, "{sent} fragments");
    let request = |number: u64| vec![0xC0 | number.to_le_bytes()[0] & 0x0F, 1, 60, 2, 6, 60, 3, 6, 60, 4, 6, 60, 1, 6];
    let sent = flood(outstation(10), Role::Outstation, request);
    assert!(sent as u64 <= FLOOD + 10, "{sent} fragments");
}

#[test]
fn a_flood_of_events_stays_within_its_limit_and_is_counted() {
    let mut outstation = outstation(50);
    let now = Bench::new(Master::new(MasterConfig::default()), Role::Master).now;
    for number in 0..FLOOD {
        let value = Measured::Analog(f64::from(u32::try_from(number).expect("small")));
        let index = u16::try_from(number % 20).expect("small");
        let flags = Flags::ONLINE;
        let measurement = Measurement { point_type: PointType::Analog, index, value, flags, stamp: None };
        outstation.update(now, measurement).expect("a point that is there");
    }
    let stats = outstation.stats();
    assert_eq!((stats.events_waiting, stats.events_waiting + stats.events_dropped), (50, FLOOD));
}
