//! Random traces against a model: every event reaches the master until it is confirmed, in order within its class, and
//! never after its confirm, whatever the requests, losses and reconnects in between. And bytes of every kind.

use super::station::{MASTER, OUTSTATION, Station, binaries, bytes};
use crate::app::{Fragment, Function, Walk};
use crate::endpoint::{Endpoint, EndpointConfig, Role};
use crate::objects::Kind;
use crate::outstation::application::OUTBOX_MAX;
use crate::outstation::{AcceptAll, Database, EventLimits, OutstationConfig, PointConfig, UnsolicitedConfig};
use crate::{Classes, EventClass, Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::Machine;

#[derive(Clone, Debug)]
enum Step {
    /// The next number, as an event of the class of its point.
    Update(u16),
    /// A request of the master.
    Request(&'static str),
    /// The master confirms what it received last; whether the confirm arrives.
    Confirm(bool),
    Wait(u64),
    Reconnect,
}

const REQUESTS: [&str; 7] = [
    "01 3C 02 06 3C 03 06 3C 04 06",
    "01 3C 02 06",
    "01 3C 03 07 01",
    "01 16 00 07 02",
    "01 3C 02 06 3C 03 06 3C 04 06 3C 01 06",
    "17",
    "02 50 01 00 07 07 00",
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3u16).prop_map(Step::Update),
        5 => prop::sample::select(&REQUESTS[..]).prop_map(Step::Request),
        6 => prop::bool::weighted(0.8).prop_map(Step::Confirm),
        2 => prop_oneof![Just(10), Just(4_999), Just(5_000), Just(20_000)].prop_map(Step::Wait),
        1 => Just(Step::Reconnect),
    ]
}

/// Short ones too: a late event would hide what an early one was left waiting for.
fn trace() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![prop::collection::vec(step(), 0..8), prop::collection::vec(step(), 0..80)]
}

/// Three counters, one in each class.
fn counters() -> Database {
    let mut database = Database::new();
    for (index, class) in [(0, EventClass::Class1), (1, EventClass::Class2), (2, EventClass::Class3)] {
        let config = PointConfig::of(PointType::Counter).in_class(Some(class));
        database.add(PointType::Counter, index, config).unwrap();
    }
    database
}

/// What the master knows, and what is still owed to it.
#[derive(Default)]
struct Model {
    /// Numbers not yet confirmed, by counter.
    owed: [Vec<u32>; 3],
    /// The fragment that arrived last: its confirm, and how many of each counter's events it held.
    last: Option<(Vec<u8>, [Vec<u32>; 3])>,
    number: u32,
    sequence: u8,
}

impl Model {
    /// What a fragment holds must be the oldest that is owed, in order.
    fn receive(&mut self, fragment: &[u8]) -> Result<(), TestCaseError> {
        let parsed = Fragment::parse(fragment).unwrap();
        let mut held = <[Vec<u32>; 3]>::default();
        for (object, measurement) in Walk::new(parsed.objects).measurements() {
            if crate::objects::point_group(object.group).is_some_and(|(_, kind)| kind == Kind::Event) {
                let Measured::Count(number) = measurement.value else { unreachable!("only counters have events") };
                held[usize::from(measurement.index)].push(number);
            }
        }
        for (owed, held) in self.owed.iter().zip(&held) {
            prop_assert!(owed.starts_with(held), "owed {owed:?}, told {held:?}");
        }
        let uns = parsed.function == Function::UnsolicitedResponse;
        let confirm = [0xC0 | if uns { 0x10 } else { 0 } | parsed.control.sequence.number(), 0];
        prop_assert!(parsed.control.con || held.iter().all(Vec::is_empty));
        if parsed.control.con {
            self.last = Some((confirm.to_vec(), held));
        }
        Ok(())
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let config = OutstationConfig {
        // Two fragments are needed for many events.
        fragment_bytes_sent_max: 272,
        event_limits: EventLimits::all(1000),
        unsolicited: Some(UnsolicitedConfig {
            classes: Classes::EVENTS,
            retries_max: Some(1),
            events_max: 3,
            hold_time: core::time::Duration::from_secs(2),
            events_before_hold_ends: 2,
            ..UnsolicitedConfig::default()
        }),
        ..OutstationConfig::default()
    };
    let mut station = Station::with_database(config, counters(), Box::new(AcceptAll));
    let mut model = Model::default();
    for step in steps {
        act(&mut station, &mut model, step)?;
    }
    // Once the master behaves, all that is owed comes by itself.
    for _ in 0..model.number + 20 {
        act(&mut station, &mut model, Step::Confirm(true))?;
        act(&mut station, &mut model, Step::Wait(5_000))?;
        // A request, so that nothing stays given up.
        act(&mut station, &mut model, Step::Request("17"))?;
    }
    prop_assert_eq!(&model.owed, &<[Vec<u32>; 3]>::default());
    prop_assert_eq!(station.outstation.stats().events_waiting, 0);
    Ok(())
}

fn act(station: &mut Station, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Update(index) => {
            model.number += 1;
            model.owed[usize::from(index)].push(model.number);
            let (point_type, value) = (PointType::Counter, Measured::Count(model.number));
            station.update(Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None });
        }
        Step::Request(request) => {
            model.sequence = (model.sequence + 1) & 0x0F;
            let mut fragment = [0xC0 | model.sequence].to_vec();
            fragment.extend(bytes(request));
            station.send_to(OUTSTATION, &fragment);
        }
        Step::Confirm(arrives) => {
            let last = model.last.take().filter(|_| arrives);
            if let Some((confirm, held)) = last {
                let before = station.outstation.stats().confirms;
                station.send_to(OUTSTATION, &confirm);
                if station.outstation.stats().confirms > before {
                    for (owed, held) in model.owed.iter_mut().zip(held) {
                        owed.drain(..held.len());
                    }
                }
            }
        }
        Step::Wait(millis) => {
            station.wait(millis);
        }
        Step::Reconnect => {
            model.last = None;
            station.reconnect();
        }
    }
    station.tick();
    loop {
        let fragment = station.next();
        if fragment.is_empty() {
            return Ok(());
        }
        model.receive(&fragment)?;
    }
}

fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let objects = prop::collection::vec(any::<u8>(), 0..40);
    let known = (0..35u8, prop::sample::select(&[1u8, 2, 10, 12, 20, 30, 41, 50, 60, 80, 110][..]), 0..5u8, objects);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..60),
        known.prop_map(|(function, group, variation, rest)| {
            [[0xC0, function, group, variation].to_vec(), rest].concat()
        }),
    ]
}

proptest! {
    #[test]
    fn events_arrive_until_confirmed_in_order_and_never_again(steps in trace()) {
        run(steps)?;
    }

    #[test]
    fn no_fragment_harms(fragments in prop::collection::vec((fragment(), 0..3u16), 1..20)) {
        let config = OutstationConfig { unsolicited: Some(UnsolicitedConfig::default()), ..OutstationConfig::default() };
        let mut station = Station::new(config, Box::new(AcceptAll));
        for (fragment, address) in fragments {
            let address = if address == 0 { crate::link::LinkAddress::new(0xFFFE) } else { OUTSTATION };
            station.send_to(address, &fragment);
            while !station.next().is_empty() {}
        }
        // Whatever came, it answers.
        station.wait(20_000).tick();
        while !station.next().is_empty() {}
        station.send_to(OUTSTATION, &bytes("C7 17"));
        let answer = station.next();
        prop_assert_eq!(answer.get(..2), Some(&[0xC7, 0x81][..]).filter(|_| answer[0] == 0xC7).or(Some(&[0xE7, 0x81][..])));
    }
}

fn point() -> impl Strategy<Value = (PointType, u16, u8, u8)> {
    let index = prop_oneof![3 => 0..40u16, 1 => 250..260u16, 1 => any::<u16>()];
    (prop::sample::select(&PointType::ALL[..]), index, 1..3u8, any::<u8>())
}

fn measurement(point_type: PointType, index: u16, seed: u8) -> Measurement {
    let value = match point_type {
        PointType::Binary | PointType::BinaryOutput => Measured::Bit(seed % 2 == 1),
        PointType::DoubleBit => Measured::DoubleBit(crate::DoubleBit::from_bits(seed)),
        PointType::Counter | PointType::FrozenCounter => Measured::Count(u32::from(seed)),
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => {
            Measured::Analog(f64::from(seed) - 100.0)
        }
        PointType::OctetString => Measured::Bytes(alloc::vec![seed; usize::from(seed).max(1)].into()),
    };
    Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }
}

proptest! {
    #[test]
    fn a_class_0_read_tells_every_point_once(points in prop::collection::vec(point(), 0..150)) {
        let mut database = Database::new();
        for (point_type, index, static_variation, seed) in points {
            let static_variation = if point_type == PointType::OctetString { 0 } else { static_variation };
            let config = PointConfig { static_variation, ..PointConfig::of(point_type) };
            if database.add(point_type, index, config).is_ok() {
                database.set(measurement(point_type, index, seed)).unwrap();
            }
        }
        let expected: Vec<Measurement> = database.iter().map(|m| Measurement { stamp: None, ..m }).collect();
        let config =
            OutstationConfig { unsolicited: None, fragment_bytes_sent_max: 272, ..OutstationConfig::default() };
        let mut station = Station::with_database(config, database, Box::new(AcceptAll));
        let (mut told, mut sequence) = (Vec::new(), 0);
        station.send_to(OUTSTATION, &bytes("C0 01 3C 01 06"));
        loop {
            let fragment = station.next();
            prop_assert!(fragment.len() <= 272);
            let parsed = Fragment::parse(&fragment).unwrap();
            prop_assert_eq!(parsed.control.sequence.number(), sequence);
            told.extend(Walk::new(parsed.objects).measurements().map(|(_, m)| m));
            if parsed.control.fin {
                break;
            }
            station.send_to(OUTSTATION, &[0xC0 | sequence, 0]);
            sequence = (sequence + 1) & 0x0F;
        }
        prop_assert_eq!(told, expected);
    }
}

#[test]
fn a_flood_of_events_keeps_the_newest() {
    let config = OutstationConfig { unsolicited: None, ..OutstationConfig::default() };
    let mut station = Station::with_database(config, binaries(1, EventClass::Class1), Box::new(AcceptAll));
    for state in 0..10_000 {
        station.update(super::station::bit(0, state % 2 == 0));
    }
    let stats = station.outstation.stats();
    assert_eq!((stats.events_waiting, stats.events_dropped), (100, 9_900));
}

#[test]
fn an_owner_that_drains_late_loses_nothing() {
    let mut station = Station::quiet();
    let mut tester = Endpoint::new(EndpointConfig::new(Role::Master, MASTER));
    let mut input = Vec::new();
    for number in 0..200_u8 {
        let operate = [0xC0, 6, 12, 1, 0x17, 1, 0, 3, 1, number, 0, 0, 0, 0, 0, 0, 0, 0];
        tester.write_fragment(OUTSTATION, &operate, &mut input);
    }
    let (mut rest, mut told) = (input.as_slice(), Vec::new());
    while !rest.is_empty() {
        let used = station.outstation.handle_input(station.now, rest);
        rest = &rest[used..];
        if used == 0 {
            let waiting: Vec<_> = core::iter::from_fn(|| station.outstation.poll_event()).collect();
            assert_eq!(waiting.len(), OUTBOX_MAX);
            told.extend(waiting);
        }
    }
    told.extend(core::iter::from_fn(|| station.outstation.poll_event()));
    assert_eq!(told.len(), 200);
}
