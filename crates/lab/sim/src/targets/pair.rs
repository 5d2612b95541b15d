//! Both machines against each other.

use super::machines::Bench;
use crate::model::Outputs;
use crate::{Choices, World};
use std::time::Duration;
use tieline_core::Machine as _;
use tieline_dnp3::Classes;
use tieline_dnp3::endpoint::Role;
use tieline_dnp3::master::{Master, MasterConfig};
use tieline_dnp3::outstation::{Database, Outstation, OutstationConfig, PointConfig};
use tieline_dnp3::{Flags, Measured, Measurement, PointType};

/// A run of the simulation whose decisions are the bytes: everything that a seed must keep holds.
pub(super) fn pair(bytes: &[u8]) {
    if let Err(why) = World::new(Choices::of_bytes(bytes), false).run() {
        panic!("{why}");
    }
}

/// Fragments that go astray at most.
const ROUNDS_MAX: usize = 200;

/// A master and an outstation, and between them somebody who changes bytes of fragments and makes their frames again: no
/// panic, no endless exchange, no limit passed.
pub(super) fn mutated(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let mut database = Database::new();
    for point_type in PointType::ALL {
        for index in 0..3 {
            let _ = database.add(point_type, index, PointConfig::of(point_type));
        }
    }
    let station = Outstation::new(OutstationConfig::default(), database, Box::new(Outputs::default()));
    let config = MasterConfig { event_poll: Classes::EVENTS, ..MasterConfig::default() };
    let mut master = Bench::new(Master::new(config), Role::Master);
    let mut outstation = Bench::new(station, Role::Outstation);
    master.machine.handle_connected(master.now);
    outstation.machine.handle_connected(outstation.now);
    for round in 0..ROUNDS_MAX {
        master.drain();
        outstation.drain();
        for fragment in std::mem::take(&mut master.sent) {
            outstation.feed_fragment(&changed(fragment, &mut choices));
        }
        for fragment in std::mem::take(&mut outstation.sent) {
            master.feed_fragment(&changed(fragment, &mut choices));
        }
        (master.events, outstation.events) = (Vec::new(), Vec::new());
        if choices.chance(40) {
            let value = Measured::Analog(f64::from(u32::try_from(round).unwrap_or(0)));
            let measurement =
                Measurement { point_type: PointType::Analog, index: 1, value, flags: Flags::ONLINE, stamp: None };
            outstation.machine.update(outstation.now, measurement).expect("a point that is there");
        }
        if choices.chance(30) {
            let time = choices.millis(0, 9000);
            master.pass(time);
            outstation.pass(time);
        }
        if choices.is_spent() {
            break;
        }
    }
    master.pass(Duration::from_secs(30));
    outstation.pass(Duration::from_secs(30));
    assert!(outstation.machine.stats().events_waiting <= 800);
}

fn changed(mut fragment: Vec<u8>, choices: &mut Choices) -> Vec<u8> {
    for _ in 0..choices.below(4) {
        let at = usize::try_from(choices.below(fragment.len() as u64 + 1)).unwrap_or(0);
        let byte = choices.bytes(1).first().copied().unwrap_or(0);
        match (fragment.get_mut(at), choices.below(4)) {
            (Some(place), 0..=1) => *place = byte,
            (Some(_), 2) => fragment.insert(at, byte),
            (Some(_), _) => {
                fragment.truncate(at.max(1));
            }
            (None, _) => fragment.push(byte),
        }
    }
    fragment
}
