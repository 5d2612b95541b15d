//! One outstation with two masters: each has its own events, and sees what the other does.

use super::station::{analog, bit, bytes, count, hex, small_database};
use crate::endpoint::{Endpoint, EndpointConfig, Received, Role};
use crate::link::LinkAddress;
use crate::outstation::{
    AcceptAll, DeviceAttributes, Group, GroupLine, Outstation, OutstationConfig, OutstationEvent, UnsolicitedConfig,
};
use crate::{Classes, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;
use proptest::prelude::*;
use std::string::String;
use tieline_core::{Instant, Machine, Now, Timestamp};

/// A group with masters 1 and 2, and a tester at the other end of its lines.
struct Device {
    group: Rc<RefCell<Group>>,
    lines: Vec<GroupLine>,
    testers: [Endpoint; 2],
    now: Now,
    told: Vec<(usize, OutstationEvent)>,
}

fn association(master: u16, unsolicited: Option<UnsolicitedConfig>) -> Outstation {
    let config = OutstationConfig { master, unsolicited, ..OutstationConfig::default() };
    let mut outstation = Outstation::new(config, small_database(), Box::new(AcceptAll));
    outstation.set_attributes(DeviceAttributes::new().with_writable(247, crate::app::AttributeValue::text("A")));
    outstation
}

impl Device {
    fn new(unsolicited: Option<UnsolicitedConfig>) -> Self {
        let group = Group::new([1, 2, 1].map(|master| association(master, unsolicited)));
        assert_eq!(group.outstations().count(), 2);
        let group = Rc::new(RefCell::new(group));
        let tester = |master| Endpoint::new(EndpointConfig::new(Role::Master, LinkAddress::new(master)));
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(1000) };
        Self { group, lines: Vec::new(), testers: [tester(1), tester(2)], now, told: Vec::new() }
    }

    fn line(&mut self) -> usize {
        let mut line = GroupLine::new(Rc::clone(&self.group));
        line.handle_connected(self.now);
        self.lines.push(line);
        self.lines.len() - 1
    }

    /// Master 1 or 2 sends a fragment over a line and expects that answer there.
    fn ask(&mut self, master: u16, line: usize, request: &str, answer: &str) -> &mut Self {
        let mut input = Vec::new();
        let tester = &mut self.testers[usize::from(master) - 1];
        tester.write_fragment(LinkAddress::new(10), &bytes(request), &mut input);
        let mut rest = input.as_slice();
        while !rest.is_empty() {
            let used = self.lines[line].handle_input(self.now, rest);
            rest = &rest[used..];
            self.told.extend(core::iter::from_fn(|| self.lines[line].poll_event()));
        }
        self.hear(master, line, answer);
        self
    }

    /// Master 1 or 2 hears that on a line.
    fn hear(&mut self, master: u16, line: usize, answer: &str) -> &mut Self {
        let mut output = Vec::new();
        self.lines[line].handle_timeout(self.now);
        self.told.extend(core::iter::from_fn(|| self.lines[line].poll_event()));
        self.lines[line].poll_transmit(self.now, &mut output);
        let tester = &mut self.testers[usize::from(master) - 1];
        let (mut rest, mut found) = (output.as_slice(), String::new());
        while !rest.is_empty() {
            let (used, received) = tester.handle_input(rest);
            rest = &rest[used..];
            if let Some(Received::Fragment { .. }) = received {
                found += &hex(tester.fragment());
                tester.release();
            }
        }
        assert_eq!(found.trim(), answer, "for master {master} on line {line}");
        self
    }

    fn update(&mut self, measurement: &Measurement) -> &mut Self {
        self.group.borrow_mut().update(self.now, measurement).unwrap();
        self
    }

    fn wait(&mut self, millis: u64) -> &mut Self {
        self.now = self.now.later(Duration::from_millis(millis));
        self
    }
}

/// Each takes the association from the other with every frame; from the third time on it stays for a while, and the owner
/// hears of it.
#[test]
fn two_masters_of_one_address_have_their_turns() {
    let mut device = Device::new(None);
    let (a, b) = (device.line(), device.line());
    let answer = "81 80 00 34 02 07 01 00 00";
    for (number, line) in [a, b, a, b].into_iter().enumerate() {
        device.ask(1, line, &std::format!("C{number} 17"), &std::format!("C{number} {answer}"));
    }
    // The other one waits, and is heard as soon as its turn comes.
    device.ask(1, a, "C4 17", "").wait(4999).ask(1, b, "C5 17", &std::format!("C5 {answer}")).ask(1, a, "C6 17", "");
    device.wait(1).ask(1, a, "C7 17", &std::format!("C7 {answer}")).ask(1, b, "C8 17", "");
    let kept = |seconds| (0, OutstationEvent::TwoMasters { kept: Duration::from_secs(seconds) });
    assert_eq!(device.told, [kept(5), kept(10)]);
    let counters = device.group.borrow().counters();
    assert_eq!((counters.moved, counters.refused), (4, 3));
    // One whose connection ends leaves its place at once.
    let now = device.now;
    device.lines[a].handle_disconnected(now);
    device.ask(1, b, "C9 17", &std::format!("C9 {answer}"));
    // Another master has a place of its own.
    device.ask(2, b, "C0 17", &std::format!("C0 {answer}"));
}

#[test]
fn each_master_has_its_own_events_and_indications() {
    let mut device = Device::new(None);
    let (a, b) = (device.line(), device.line());
    device
        .update(&bit(0, true))
        .ask(1, a, "C0 01 3C 02 06", "E0 81 80 00 02 01 17 01 00 81")
        .ask(1, a, "C0 00", "")
        .ask(1, a, "C1 02 50 01 00 07 07 00", "C1 81 00 00")
        .ask(1, a, "C2 01 3C 02 06", "C2 81 00 00")
        // The other has neither confirmed it nor cleared the restart.
        .ask(2, b, "C0 01 3C 02 06", "E0 81 80 00 02 01 17 01 00 81")
        .update(&bit(0, false))
        .ask(1, a, "C3 01 3C 02 06", "E3 81 00 00 02 01 17 01 00 01")
        .ask(2, b, "C0 00", "")
        .ask(2, b, "C1 01 3C 02 06", "E1 81 80 00 02 01 17 01 00 01");
    assert_eq!(device.told, [(0, OutstationEvent::RestartCleared)]);
    // A name that no master of it has.
    device.testers[1] = Endpoint::new(EndpointConfig::new(Role::Master, LinkAddress::new(3)));
    device.ask(2, b, "C0 01 3C 02 06", "");
    assert_eq!(device.group.borrow().counters().unknown_source, 1);
}

#[test]
fn both_may_share_a_line_or_move_to_another() {
    let mut device = Device::new(None);
    let (a, b) = (device.line(), device.line());
    device
        .ask(1, a, "C0 01 01 02 00 00 00", "C0 81 80 00 01 02 00 00 00 02")
        .ask(2, a, "C0 01 01 02 00 00 00", "C0 81 80 00 01 02 00 00 00 02")
        .update(&bit(0, true))
        .ask(1, a, "C1 01 3C 02 06", "E1 81 80 00 02 01 17 01 00 81")
        // Heard on the other line, it goes on there: what was not confirmed is told again.
        .ask(1, b, "C2 01 3C 02 06", "E2 81 80 00 02 01 17 01 00 81")
        .ask(1, b, "C2 00", "")
        .ask(2, a, "C1 01 3C 02 06", "E1 81 80 00 02 01 17 01 00 81");
    assert!(!device.lines[a].is_closed());
    device.ask(2, b, "C2 01 3C 02 06", "E2 81 80 00 02 01 17 01 00 81");
    assert!(device.lines[a].is_closed() && !device.lines[b].is_closed());
    assert_eq!(device.group.borrow().counters().moved, 2);
    let now = device.now;
    device.lines[a].handle_disconnected(now);
    let c = device.line();
    device.lines[b].handle_disconnected(now);
    device.ask(2, c, "C3 01 3C 02 06", "E3 81 80 00 02 01 17 01 00 81");
    assert_eq!((device.lines[c].number(), device.group.borrow().counters().moved), (Some(0), 2));
}

#[test]
fn what_one_master_does_the_other_sees() {
    let mut device = Device::new(None);
    let (a, b) = (device.line(), device.line());
    device
        .update(&count(0, 7))
        .update(&analog(0, 3.0))
        // Dead-bands, attributes, octet strings, the clock.
        .ask(1, a, "C0 02 22 01 00 00 00 09 00", "C0 81 8C 00")
        .ask(2, b, "C0 01 22 01 00 00 00", "C0 81 8C 00 22 01 00 00 00 09 00")
        .ask(1, a, "C1 02 00 F7 00 00 00 01 01 42", "C1 81 8C 00")
        .ask(2, b, "C1 01 00 F7 06", "C1 81 8C 00 00 F7 00 00 00 01 01 42")
        .ask(2, b, "C2 02 6E 02 17 01 01 68 69", "C2 81 8C 00")
        .ask(1, a, "C2 01 6F 00 06", "E2 81 8C 00 6F 02 17 01 01 68 69")
        .ask(2, b, "C3 02 32 01 07 01 00 00 01 00 00 00", "C3 81 8C 00")
        .ask(1, a, "C3 01 32 01 07 01", "C3 81 8C 00 32 01 07 01 00 00 01 00 00 00")
        // A freeze, and one at a time, which each association keeps.
        .ask(2, b, "C4 09 14 00 00 00 00", "C4 81 8C 00")
        .ask(1, a, "C4 01 15 02 00 00 00 14 02 00 00 00", "C4 81 8C 00 15 02 00 00 00 01 07 00 14 02 00 00 00 01 00 00")
        .ask(1, a, "C5 0B 32 02 07 01 E8 03 01 00 00 00 00 00 00 00 1E 00 06", "C5 81 8C 00")
        .wait(1000)
        .ask(2, b, "C5 01 1F 04 00 00 00", "C5 81 8C 00 1F 04 00 00 00 01 03 00 E8 03 01 00 00 00");
    // Each is told once, by whose master did it; the freeze at a time by both, which did it both.
    let by = |number: usize| device.told.iter().filter(move |(of, _)| *of == number);
    assert_eq!(by(0).count(), 3);
    assert_eq!(by(1).count(), 4);
    assert_eq!(device.group.borrow().outstations().map(|o| o.stats().requests).collect::<Vec<_>>(), [6, 6]);
}

#[test]
fn a_selected_output_is_the_selecting_masters() {
    let crob = |request: &str, index: u8, status: u8| {
        std::format!("{request} 0C 01 17 01 {index:02X} 03 01 64 00 00 00 C8 00 00 00 {status:02X}")
    };
    let mut device = Device::new(None);
    let (a, b) = (device.line(), device.line());
    device
        .ask(1, a, &crob("C0 03", 0, 0), &crob("C0 81 80 00", 0, 0))
        .ask(2, b, &crob("C0 03", 0, 0), &crob("C0 81 80 00", 0, 17))
        .ask(2, b, &crob("C1 05", 0, 0), &crob("C1 81 80 00", 0, 17))
        .ask(2, b, &crob("C2 05", 1, 0), &crob("C2 81 80 00", 1, 0))
        .ask(1, a, &crob("C1 04", 0, 0), &crob("C1 81 80 00", 0, 0))
        // It is operated: free again. A selection ends with another request, with its time, and with its connection.
        .ask(2, b, &crob("C3 03", 0, 0), &crob("C3 81 80 00", 0, 0))
        .ask(1, a, &crob("C2 05", 0, 0), &crob("C2 81 80 00", 0, 17))
        .ask(2, b, "C4 17", "C4 81 80 00 34 02 07 01 00 00")
        .ask(1, a, &crob("C3 03", 0, 0), &crob("C3 81 80 00", 0, 0))
        .wait(10_000)
        .ask(2, b, &crob("C5 05", 0, 0), &crob("C5 81 80 00", 0, 0))
        .ask(2, b, &crob("C6 03", 0, 0), &crob("C6 81 80 00", 0, 0));
    let now = device.now;
    device.lines[b].handle_disconnected(now);
    device.ask(1, a, &crob("C4 05", 0, 0), &crob("C4 81 80 00", 0, 0));
}

#[test]
fn each_master_has_its_own_unsolicited_responses() {
    let unsolicited = UnsolicitedConfig { classes: Classes::CLASS_1, ..UnsolicitedConfig::default() };
    let mut device = Device::new(Some(unsolicited));
    let (a, b) = (device.line(), device.line());
    // Nobody was heard: nobody is spoken to, unless the line tells who is there.
    device.hear(1, a, "").hear(2, b, "");
    device.group.borrow_mut().assign(device.now, b, 2);
    device
        .hear(2, b, "F0 82 80 00")
        .ask(1, a, "C0 17", "C0 81 80 00 34 02 07 01 00 00")
        .hear(1, a, "F0 82 80 00")
        .ask(1, a, "D0 00", "")
        .update(&bit(1, true))
        .hear(1, a, "F1 82 80 00 02 01 17 01 01 81")
        .hear(2, b, "")
        .ask(2, b, "D0 00", "F1 82 80 00 02 01 17 01 01 81")
        .ask(2, b, "D1 00", "")
        .wait(5000)
        .hear(2, b, "")
        .hear(1, a, "F1 82 80 00 02 01 17 01 01 81");
}

fn step() -> impl Strategy<Value = (u16, usize, Vec<u8>)> {
    let fragment = prop_oneof![
        prop::sample::select(
            &[
                "C0 01 3C 02 06 3C 03 06 3C 04 06",
                "C1 09 14 00 06",
                "C2 02 22 01 00 00 01 05 00 07 00",
                "C3 00",
                "C4 0C 32 02 07 01 00 00 00 00 00 00 64 00 00 00 14 00 06 1E 00 06",
                "C5 02 6E 02 17 01 01 68 69",
                "C6 03 0C 01 17 01 00 03 01 64 00 00 00 C8 00 00 00 00",
                "C7 04 0C 01 17 01 00 03 01 64 00 00 00 C8 00 00 00 00",
            ][..]
        )
        .prop_map(bytes),
        prop::collection::vec(any::<u8>(), 2..40),
    ];
    (1..4u16, 0..3usize, fragment)
}

proptest! {
    #[test]
    fn databases_stay_the_same_whatever_masters_do(steps in prop::collection::vec(step(), 1..40)) {
        let mut device = Device::new(Some(UnsolicitedConfig::default()));
        for _ in 0..3 {
            device.line();
        }
        for (number, (master, line, fragment)) in (0u32..).zip(steps) {
            let mut input = Vec::new();
            let mut tester = Endpoint::new(EndpointConfig::new(Role::Master, LinkAddress::new(master)));
            tester.write_fragment(LinkAddress::new(10), &fragment, &mut input);
            let (mut rest, mut turns) = (input.as_slice(), 0);
            while !rest.is_empty() {
                let used = device.lines[line].handle_input(device.now, rest);
                rest = &rest[used..];
                while device.lines[line].poll_event().is_some() {}
                let mut output = Vec::new();
                (0..3).for_each(|line| while device.lines[line].poll_transmit(device.now, &mut output) {});
                turns += 1;
                prop_assert!(turns < 1000);
            }
            device.update(&count(0, number)).wait(150);
            let now = device.now;
            device.lines[0].handle_timeout(now);
        }
        let group = device.group.borrow();
        let databases: Vec<Vec<Measurement>> = group.outstations().map(|o| o.database().iter().collect()).collect();
        prop_assert_eq!(&databases[0], &databases[1]);
        prop_assert!(matches!(group.outstations().next().unwrap().database().get(PointType::Counter, 0).unwrap().value, Measured::Count(_)));
    }
}
