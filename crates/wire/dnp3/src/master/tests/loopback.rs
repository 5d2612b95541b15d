//! A master and an outstation of ours, joined by two pipes in virtual time.

use super::script::{START, latch_on, word};
use crate::app::Found;
use crate::endpoint::LinkService;
use crate::lean::{Carrier, LeanConfig, Side};
use crate::master::{Master, MasterConfig, MasterEvent, TaskOutcome};
use crate::outstation::{AcceptAll, Database, Outstation, OutstationConfig, PointConfig, UnsolicitedConfig};
use crate::{Classes, EventClass, Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{CommandMode, Machine, Now};

/// Points of the outstation; each has a class of its own.
const POINTS: u16 = 3;
const CLASSES: [EventClass; 3] = [EventClass::Class1, EventClass::Class2, EventClass::Class3];

struct World {
    now: Now,
    master: Master,
    outstation: Outstation,
    to_master: Vec<u8>,
    to_outstation: Vec<u8>,
    connected: bool,
    /// Values of events: each update has the number of those before it.
    updates: u32,
    /// Numbers of events that the master gave, and not yet stored where confirms are held.
    given: Vec<u32>,
    stored: Vec<u32>,
    said: Vec<String>,
    outcomes: Vec<TaskOutcome>,
    /// Events given although the outstation had a confirm of them.
    after_confirm: usize,
    link: Option<LinkService>,
}

fn station(unsolicited: Option<UnsolicitedConfig>, lean: Option<LeanConfig>) -> Outstation {
    let mut database = Database::new();
    for (index, class) in (0..POINTS).zip(CLASSES) {
        let analog = PointConfig::of(PointType::Analog).in_class(Some(class));
        database.add(PointType::Analog, index, analog).unwrap();
    }
    let output = PointConfig::of(PointType::BinaryOutput).in_class(None);
    database.add(PointType::BinaryOutput, 3, output).unwrap();
    let config = OutstationConfig { unsolicited, lean, ..OutstationConfig::default() };
    Outstation::new(config, database, Box::new(AcceptAll))
}

impl World {
    fn new(config: MasterConfig, unsolicited: Option<UnsolicitedConfig>) -> Self {
        let accepts = config.lean.map(|lean| LeanConfig { side: Side::Accepts, ..lean });
        Self {
            now: START,
            master: Master::new(config),
            outstation: station(unsolicited, accepts),
            to_master: Vec::new(),
            to_outstation: Vec::new(),
            connected: false,
            updates: 0,
            given: Vec::new(),
            stored: Vec::new(),
            said: Vec::new(),
            outcomes: Vec::new(),
            after_confirm: 0,
            link: None,
        }
    }

    /// The same where both links confirm and are watched.
    fn confirming(mut self) -> Self {
        let link = LinkService { confirms: true, keep_alive: Some(Duration::from_secs(20)), ..LinkService::default() };
        self.link = Some(link);
        self.master.set_link_service(self.link);
        self.outstation.set_link_service(self.link);
        self
    }

    fn update(&mut self, index: u16) {
        let value = Measured::Analog(f64::from(self.updates + 1));
        let measurement =
            Measurement { point_type: PointType::Analog, index, value, flags: Flags::ONLINE, stamp: None };
        self.outstation.update(self.now, measurement).unwrap();
        self.updates += 1;
        self.work(0, 0);
    }

    fn connect(&mut self) {
        if !self.connected {
            self.connected = true;
            self.master.handle_connected(self.now);
            self.outstation.handle_connected(self.now);
        }
        self.work(0, 0);
    }

    fn cut(&mut self) {
        if self.connected {
            self.connected = false;
            self.master.handle_disconnected(self.now);
            self.outstation.handle_disconnected(self.now);
            self.to_master.clear();
            self.to_outstation.clear();
        }
        self.drain();
    }

    /// What was given is safe: the outstation may forget it.
    fn store(&mut self) {
        self.stored.append(&mut self.given);
        self.master.release_confirm(self.now);
        self.work(0, 0);
    }

    /// The node of the master dies, and starts again with what it had stored.
    fn crash(&mut self) {
        self.cut();
        self.given.clear();
        self.master = Master::new(*self.master.config());
        if let Some(link) = self.link {
            self.master.set_link_service(Some(link));
        }
    }

    fn corrupt(&mut self, to_master: bool, at: prop::sample::Index) {
        let pipe = if to_master { &mut self.to_master } else { &mut self.to_outstation };
        if !pipe.is_empty() {
            *at.get_mut(pipe) ^= 0x55;
        }
    }

    /// Moves so many bytes each way; both ends act on them.
    fn work(&mut self, to_master: usize, to_outstation: usize) {
        let count = to_master.min(self.to_master.len());
        let arrived: Vec<u8> = self.to_master.drain(..count).collect();
        let mut rest = arrived.as_slice();
        loop {
            let used = self.master.handle_input(self.now, rest);
            rest = &rest[used..];
            self.drain();
            while self.connected && self.master.poll_transmit(self.now, &mut self.to_outstation) {}
            if rest.is_empty() {
                break;
            }
        }
        let count = to_outstation.min(self.to_outstation.len());
        let arrived: Vec<u8> = self.to_outstation.drain(..count).collect();
        let mut rest = arrived.as_slice();
        loop {
            let used = self.outstation.handle_input(self.now, rest);
            rest = &rest[used..];
            while self.outstation.poll_event().is_some() {}
            while self.connected && self.outstation.poll_transmit(self.now, &mut self.to_master) {}
            if rest.is_empty() {
                break;
            }
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.master.poll_event() {
            self.handle(&event);
        }
    }

    fn handle(&mut self, event: &MasterEvent) {
        match event {
            MasterEvent::Values { values, .. } => values.iter().for_each(|found| self.learn(found)),
            MasterEvent::FragmentEnd { .. } if self.master.config().hold_confirm => {}
            // Not held: there is nothing to release.
            MasterEvent::FragmentEnd { .. } => self.stored.append(&mut self.given),
            MasterEvent::TaskDone { outcome, .. } => self.outcomes.push(*outcome),
            MasterEvent::Files(_) => {}
            MasterEvent::Online
            | MasterEvent::Offline(_)
            | MasterEvent::Restarted
            | MasterEvent::EventsLost
            | MasterEvent::Ready
            | MasterEvent::LinkAlive
            | MasterEvent::Indications(_)
            | MasterEvent::Answer { .. }
            | MasterEvent::Security(_) => self.said.push(word(event)),
        }
    }

    fn learn(&mut self, found: Found) {
        let Found::Measurement { measurement, event: true, .. } = found else { return };
        let Measured::Analog(value) = measurement.value else { panic!("{measurement:?}") };
        let number = format_number(value);
        let confirmed = u64::from(self.updates) - self.outstation.stats().events_waiting;
        // Events leave the outstation in order within a class only, so this counts what is surely wrong.
        if confirmed == u64::from(self.updates) {
            self.after_confirm += 1;
        }
        self.given.push(number);
    }

    fn pass(&mut self, by: Duration) {
        self.now = self.now.later(by);
        self.master.handle_timeout(self.now);
        self.outstation.handle_timeout(self.now);
        self.work(0, 0);
        if self.master.is_closed() {
            self.cut();
        }
    }

    /// Lets the bytes flow, and time pass where nothing else happens, until the outstation has no event left.
    fn heal(&mut self) {
        self.connect();
        for _ in 0..2000 {
            while !self.to_master.is_empty() || !self.to_outstation.is_empty() {
                self.work(usize::MAX, usize::MAX);
            }
            // That the link is alive may be said at any time.
            let last = self.said.iter().rfind(|word| *word != "link alive");
            let is_ready = last.is_some_and(|word| word == "ready" || word.starts_with("iin"));
            if self.outstation.stats().events_waiting == 0 && is_ready {
                return;
            }
            self.store();
            self.pass(Duration::from_millis(500));
            self.connect();
        }
        panic!("events remain: {:?}, {:?}", self.outstation.stats(), self.said);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers from 1 on")]
fn format_number(value: f64) -> u32 {
    value as u32 - 1
}

/// The first time each event was given, in order.
fn firsts(stored: &[u32]) -> Vec<u32> {
    let mut seen = Vec::new();
    for number in stored {
        if !seen.contains(number) {
            seen.push(*number);
        }
    }
    seen
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Update(u16),
    Move(usize, usize),
    Pass(u64),
    Cut,
    Crash,
    Connect,
    Store,
    /// A byte on its way is changed: to the master, or to the outstation.
    Corrupt(bool, prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0..POINTS).prop_map(Act::Update),
        12 => (0..400_usize, 0..100_usize).prop_map(|(a, b)| Act::Move(a, b)),
        2 => (0..7000_u64).prop_map(Act::Pass),
        1 => Just(Act::Cut),
        1 => Just(Act::Crash),
        3 => Just(Act::Connect),
        3 => Just(Act::Store),
        1 => any::<(bool, prop::sample::Index)>().prop_map(|(to_master, at)| Act::Corrupt(to_master, at)),
    ];
    prop::collection::vec(act, 0..80)
}

fn play(world: &mut World, acts: &[Act]) {
    acts.iter().for_each(|act| play_one(world, *act));
    world.heal();
}

fn by_class(numbers: &[u32], indices: &[u16], class: u16) -> Vec<u32> {
    let of_class = |number: &&u32| indices.get(usize::try_from(**number).unwrap()) == Some(&class);
    numbers.iter().filter(of_class).copied().collect()
}

fn check_events(
    config: MasterConfig,
    unsolicited: Option<UnsolicitedConfig>,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    check_world(World::new(config, unsolicited), acts)
}

fn check_world(mut world: World, acts: &[Act]) -> Result<(), TestCaseError> {
    let config = *world.master.config();
    play(&mut world, acts);
    let indices: Vec<u16> =
        acts.iter().filter_map(|act| if let Act::Update(index) = act { Some(*index) } else { None }).collect();
    let given = firsts(&world.stored);
    for class in 0..POINTS {
        let expect: Vec<u32> = (0..world.updates).filter(|n| indices[usize::try_from(*n).unwrap()] == class).collect();
        prop_assert_eq!(by_class(&given, &indices, class), expect, "class of point {}", class);
    }
    prop_assert_eq!(world.after_confirm, 0);
    let slow = |act: &Act| matches!(act, Act::Cut | Act::Crash | Act::Pass(_) | Act::Corrupt(..));
    let disturbed = config.hold_confirm || acts.iter().any(slow);
    if !disturbed {
        prop_assert_eq!(world.stored.len(), given.len(), "an event was given twice without need");
    }
    Ok(())
}

proptest! {
    #[test]
    fn unsolicited_events_arrive_in_order_over_any_trouble(acts in acts()) {
        check_events(MasterConfig::default(), Some(UnsolicitedConfig::default()), &acts)?;
    }

    #[test]
    fn events_are_stored_before_they_are_confirmed(acts in acts()) {
        let config = MasterConfig { hold_confirm: true, ..MasterConfig::default() };
        check_events(config, Some(UnsolicitedConfig::default()), &acts)?;
    }

    #[test]
    fn events_arrive_over_lean_messages_too(acts in acts()) {
        // What carries lean messages answers for their bytes.
        let acts: Vec<Act> = acts.into_iter().filter(|act| !matches!(act, Act::Corrupt(..))).collect();
        let lean = Some(LeanConfig { side: Side::Offers, carrier: Carrier::Stream });
        let config = MasterConfig { hold_confirm: true, lean, ..MasterConfig::default() };
        check_events(config, Some(UnsolicitedConfig::default()), &acts)?;
    }

    #[test]
    fn events_arrive_over_confirmed_links_too(acts in acts()) {
        let world = World::new(MasterConfig::default(), Some(UnsolicitedConfig::default())).confirming();
        check_world(world, &acts)?;
    }

    #[test]
    fn polled_events_arrive_in_order_over_any_trouble(acts in acts()) {
        let config = MasterConfig {
            event_poll: Classes::EVENTS,
            disable_unsolicited: Classes::NONE,
            enable_unsolicited: Classes::NONE,
            keep_alive: Some(Duration::from_secs(2)),
            ..MasterConfig::default()
        };
        let mut world = World::new(config, None);
        acts.iter().for_each(|act| play_one(&mut world, *act));
        world.connect();
        // Somebody must ask: the class bits come with answers.
        for round in 0..2000 {
            while !world.to_master.is_empty() || !world.to_outstation.is_empty() {
                world.work(usize::MAX, usize::MAX);
            }
            let _ = world.master.poll(world.now, Classes::EVENTS, round);
            world.pass(Duration::from_millis(500));
            world.connect();
            if world.outstation.stats().events_waiting == 0 {
                break;
            }
        }
        prop_assert_eq!(firsts(&world.stored).len(), usize::try_from(world.updates).unwrap());
    }
}

fn play_one(world: &mut World, act: Act) {
    match act {
        Act::Update(index) => world.update(index),
        Act::Move(to_master, to_outstation) => world.work(to_master, to_outstation),
        Act::Pass(millis) => world.pass(Duration::from_millis(millis)),
        Act::Cut => world.cut(),
        Act::Crash => world.crash(),
        Act::Connect => world.connect(),
        Act::Store => world.store(),
        Act::Corrupt(to_master, at) => world.corrupt(to_master, at),
    }
}

#[test]
fn starts_up_and_reports_and_survives_a_restart() {
    let mut world = World::new(MasterConfig::default(), Some(UnsolicitedConfig::default()));
    world.heal();
    assert_eq!(world.said, ["online", "restarted", "iin 0080", "iin 0000", "ready"]);
    world.update(0);
    world.update(1);
    world.heal();
    assert_eq!(world.stored, vec![0, 1]);
    world.said.clear();
    world.cut();
    world.outstation.restart(world.now);
    world.heal();
    assert_eq!(world.said, ["offline disconnected", "online", "restarted", "iin 0080", "iin 0000", "ready"]);
}

#[test]
fn commands_reach_the_outstation() {
    let mut world = World::new(MasterConfig::default(), Some(UnsolicitedConfig::default()));
    world.heal();
    let mut command = |index, mode, is_local| {
        world.outstation.set_local(is_local);
        let until = world.now.mono + Duration::from_secs(10);
        world.master.command(world.now, latch_on(), index, mode, until, 1).unwrap();
        world.work(0, 0);
        while !world.to_master.is_empty() || !world.to_outstation.is_empty() {
            world.work(usize::MAX, usize::MAX);
        }
        world.outcomes.pop().map(TaskOutcome::name)
    };
    assert_eq!(command(3, CommandMode::SelectBeforeOperate, false), Some("done"));
    assert_eq!(command(3, CommandMode::DirectOperate, false), Some("done"));
    assert_eq!(command(3, CommandMode::SelectBeforeOperate, true), Some("local"));
    assert_eq!(command(9, CommandMode::DirectOperate, false), Some("not_supported"));
}

#[test]
fn stations_that_differ_in_lean_messages_understand_each_other() {
    let check = |master: Option<Side>, outstation: Option<Side>, is_lean: bool| {
        let lean = |side: Option<Side>| side.map(|side| LeanConfig { side, carrier: Carrier::Stream });
        let config = MasterConfig { lean: lean(master), ..MasterConfig::default() };
        let mut world = World::new(config, Some(UnsolicitedConfig::default()));
        world.outstation = station(Some(UnsolicitedConfig::default()), lean(outstation));
        world.heal();
        world.update(0);
        world.heal();
        assert_eq!((world.stored.as_slice(), world.master.is_lean()), ([0].as_slice(), is_lean));
        assert_eq!(world.outstation.is_lean(), is_lean);
        assert!(world.now.mono.since(START.mono) < Duration::from_secs(2), "an offer was waited for");
    };
    let (offers, accepts) = (Some(Side::Offers), Some(Side::Accepts));
    check(None, None, false);
    check(offers, accepts, true);
    check(accepts, offers, true);
    check(offers, None, false);
    check(None, offers, false);
    check(accepts, None, false);
    check(None, accepts, false);
    check(accepts, accepts, false);
    check(offers, offers, false);
}
