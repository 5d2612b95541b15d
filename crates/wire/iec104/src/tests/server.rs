//! A controlled station and what it answers, told by the dissector.

use super::{at_ms, events, hex};
use crate::dissect::{Dissector, Sender};
use crate::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::string::{String, ToString};
use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Machine, Now};

const STARTDT: &str = "68 04 07 00 00 00";

fn address(raw: u32) -> Address {
    Address::new(raw).unwrap()
}

fn single(on: bool) -> Element {
    Element::SinglePoint { on, flags: Flags::GOOD }
}

pub(super) fn database() -> Database {
    let mut database = Database::new(0);
    let totals =
        |count| Element::Totals { count, sequence: 0, is_carried: false, is_adjusted: false, is_invalid: false };
    let mut add = |station, raw, point| database.add(station, address(raw), point).unwrap();
    add(1, 100, Point { group: 1, ..Point::new(single(true)) });
    add(1, 101, Point::new(single(false)));
    add(1, 200, Point { group: 2, is_timed: false, ..Point::new(Element::Short { value: 50.0, flags: Flags::GOOD }) });
    add(1, 300, Point { group: 1, ..Point::new(totals(7)) });
    add(1, 301, Point { group: 2, ..Point::new(totals(9)) });
    add(1, 400, Point { is_cyclic: true, ..Point::new(Element::Scaled { value: 5, flags: Flags::GOOD }) });
    add(2, 100, Point::new(single(true)));
    let mut command = |raw, form, rule| database.add_command(1, address(raw), form, rule).unwrap();
    command(1000, Form::SingleCommand, SelectRule::Select);
    command(1001, Form::SingleCommand, SelectRule::Either);
    command(1002, Form::SetShort, SelectRule::Direct);
    command(1003, Form::DoubleCommand, SelectRule::Either);
    command(1004, Form::SetBits, SelectRule::Select);
    database
}

/// A server whose client is this test.
struct Line {
    server: Server,
    database: Rc<RefCell<Database>>,
    link: Link,
    now: Now,
    events: Vec<ServerEvent>,
}

impl Line {
    fn of(config: ServerConfig, database: &Rc<RefCell<Database>>) -> Self {
        let link = Link::new(config.link);
        let server = Server::new(config, Rc::clone(database));
        let mut line = Self { server, database: Rc::clone(database), link, now: at_ms(0), events: Vec::new() };
        line.server.handle_connected(line.now);
        line.link.connected(line.now.mono);
        line.link.start();
        assert_eq!(line.exchange(), ["U STARTDT con"]);
        assert_eq!(line.take(), [ServerEvent::Started]);
        line
    }

    fn new(config: ServerConfig) -> Self {
        Self::of(config, &Rc::new(RefCell::new(database())))
    }

    fn take(&mut self) -> Vec<ServerEvent> {
        std::mem::take(&mut self.events)
    }

    fn give(&mut self, bytes: &[u8]) {
        assert_eq!(self.server.handle_input(self.now, bytes), bytes.len());
        self.events.extend(events(&mut self.server));
    }

    /// Takes all that the server sends, and tells it without the numbers of I frames.
    fn exchange(&mut self) -> Vec<String> {
        let (mut dissector, mut told) = (Dissector::new(), Vec::new());
        loop {
            let mut out = Vec::new();
            while self.link.control(self.now.mono, &mut out) {}
            self.give(&out);
            let mut back = Vec::new();
            if !self.server.poll_transmit(self.now, &mut back) {
                break;
            }
            let received = self.link.receive(self.now.mono, Apdu::parse(&back).unwrap());
            assert!(!matches!(received, Received::Broken(_)), "{received:?}");
            let mut entries = Vec::new();
            dissector.push(Sender::Server, &back, &mut entries);
            told.extend(entries.iter().map(ToString::to_string));
        }
        let content = |line: String| match line.split_once(' ') {
            Some(("I", rest)) => rest.split_once(' ').unwrap().1.to_string(),
            _ => line,
        };
        told.into_iter().map(content).filter(|line| !line.starts_with("S ")).collect()
    }

    /// Sends an ASDU and tells what comes back.
    fn ask(&mut self, asdu: &str) -> Vec<String> {
        let mut out = Vec::new();
        while self.link.control(self.now.mono, &mut out) {}
        self.link.send(self.now.mono, &hex(asdu), &mut out);
        self.give(&out);
        self.exchange()
    }

    /// Sends an ASDU with a command; the owner takes it.
    fn command(&mut self, asdu: &str, answer: CommandAnswer) -> Vec<String> {
        let mut told = self.ask(asdu);
        for event in self.take() {
            let ServerEvent::Command { id, .. } = event else { panic!("{event:?}") };
            self.server.answer(id, answer);
            told.extend(self.exchange());
        }
        told
    }

    fn update(&mut self, raw: u32, element: Element) {
        let place = (1, address(raw));
        let change = self.database.borrow_mut().update(self.now, place, element, CauseCode::SPONTANEOUS);
        change.into_iter().for_each(|change| self.server.report(change));
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.later(Duration::from_millis(ms));
        self.server.handle_timeout(self.now);
        self.link.handle_timeout(self.now.mono).unwrap();
        self.events.extend(events(&mut self.server));
    }
}

fn line() -> Line {
    Line::new(ServerConfig::DEFAULT)
}

#[test]
fn a_station_is_interrogated() {
    let mut line = line();
    let check = |line: &mut Line, asdu: &str, expect: &[&str]| assert_eq!(line.ask(asdu), expect, "{asdu}");
    check(
        &mut line,
        "64 01 06 05 01 00 00 00 00 14",
        &[
            "C_IC_NA_1 activation_confirmation common 1 originator 5: station",
            "M_SP_NA_1 interrogated common 1 originator 5: 100 on; 101 off",
            "M_ME_NB_1 interrogated common 1 originator 5: 400 5",
            "M_ME_NC_1 interrogated common 1 originator 5: 200 50",
            "C_IC_NA_1 activation_termination common 1 originator 5: station",
        ],
    );
    check(
        &mut line,
        "64 01 06 00 01 00 00 00 00 16",
        &[
            "C_IC_NA_1 activation_confirmation common 1: group 2",
            "M_ME_NC_1 interrogated group 2 common 1: 200 50",
            "C_IC_NA_1 activation_termination common 1: group 2",
        ],
    );
    // Of all stations each answers for itself.
    let told = line.ask("64 01 06 00 FF FF 00 00 00 15");
    assert_eq!(told.iter().filter(|line| line.contains("confirmation common 1:")).count(), 1, "{told:?}");
    assert_eq!(told.last().unwrap(), "C_IC_NA_1 activation_termination common 2: group 1");
    check(
        &mut line,
        "64 01 06 00 01 00 00 00 00 25",
        &["C_IC_NA_1 activation_confirmation refused common 1: qualifier 37"],
    );
    check(
        &mut line,
        "64 01 08 00 01 00 00 00 00 14",
        &["C_IC_NA_1 deactivation_confirmation refused common 1: station"],
    );
    assert_eq!(line.take(), []);
}

#[test]
fn many_objects_go_together() {
    let database = Rc::new(RefCell::new(Database::new(0)));
    // 200 in a row, then 60 with gaps.
    for raw in (1..=200).chain((0..60).map(|at| 1000 + 2 * at)) {
        database.borrow_mut().add(1, address(raw), Point::new(single(raw % 2 == 0))).unwrap();
    }
    let mut line = Line::of(ServerConfig::DEFAULT, &database);
    let told = line.ask("64 01 06 00 01 00 00 00 00 14");
    let counts: Vec<usize> = told.iter().map(|line| line.matches(';').count() + 1).collect();
    assert_eq!(counts, [1, 127, 73, 60, 1], "{told:#?}");
}

#[test]
fn counters_are_frozen() {
    let mut line = line();
    let read = "65 01 06 00 01 00 00 00 00 05";
    let counts = |told: Vec<String>| told[1..told.len() - 1].to_vec();
    assert_eq!(counts(line.ask(read)), ["M_IT_NA_1 counters common 1: 300 7 reading 0; 301 9 reading 0"]);
    let told = line.ask("65 01 06 00 01 00 00 00 00 81");
    assert_eq!(told[0], "C_CI_NA_1 activation_confirmation common 1: freeze and reset group 1");
    assert_eq!(told[1], "C_CI_NA_1 activation_termination common 1: freeze and reset group 1");
    assert_eq!(line.take(), [ServerEvent::Frozen { common_address: 1, group: 1, freeze: Freeze::FreezeAndReset }]);
    // What is read is what was frozen, whatever is counted since.
    let count = Element::Totals { count: 3, sequence: 1, is_carried: false, is_adjusted: false, is_invalid: false };
    line.update(300, count);
    assert_eq!(line.exchange(), ["M_IT_TB_1 spontaneous common 1: 300 3 reading 1 2026-11-20T09:30:00.000"]);
    assert_eq!(counts(line.ask(read)), ["M_IT_NA_1 counters common 1: 300 7 reading 1; 301 9 reading 0"]);
    assert_eq!(
        counts(line.ask("65 01 06 00 01 00 00 00 00 01")),
        ["M_IT_NA_1 counters group 1 common 1: 300 7 reading 1"]
    );
    line.ask("65 01 06 00 01 00 00 00 00 41");
    assert_eq!(
        counts(line.ask("65 01 06 00 01 00 00 00 00 01")),
        ["M_IT_NA_1 counters group 1 common 1: 300 3 reading 2"]
    );
    line.ask("65 01 06 00 01 00 00 00 00 C5");
    let Some(Element::Totals { count, .. }) = line.database.borrow().element(1, address(301)) else { panic!() };
    assert_eq!(count, 0);
    let refused = line.ask("65 01 06 00 01 00 00 00 00 06");
    assert_eq!(refused, ["C_CI_NA_1 activation_confirmation refused common 1: read group 6"]);
}

#[test]
fn what_is_not_known_is_said() {
    let mut line = line();
    let mut check = |asdu: &str, expect: &str| assert_eq!(line.ask(asdu), [expect], "{asdu}");
    // Types: a file, parameters, the delay of a line, a type of stations.
    check("7A 01 0D 00 01 00 64 00 00 01", "type 122 unknown_type refused common 1: a type that is not known here");
    check("6A 01 06 00 01 00 00 00 00 64 00", "C_CD_NA_1 unknown_type refused common 1: 100 ms");
    check("01 01 03 00 01 00 64 00 00 01", "M_SP_NA_1 unknown_type refused common 1: 100 on");
    // Causes.
    check("64 01 05 00 01 00 00 00 00 14", "C_IC_NA_1 unknown_cause refused common 1: station");
    check("66 01 06 00 01 00 64 00 00", "C_RD_NA_1 unknown_cause refused common 1: 100");
    check("2D 01 03 00 01 00 E9 03 00 01", "C_SC_NA_1 unknown_cause refused common 1: 1001 on execute");
    // Common addresses; a command is to one station.
    check("64 01 06 00 07 00 00 00 00 14", "C_IC_NA_1 unknown_common_address refused common 7: station");
    check("2D 01 06 00 FF FF E9 03 00 01", "C_SC_NA_1 unknown_common_address refused common all: 1001 on execute");
    // Object addresses.
    check("64 01 06 00 01 00 01 00 00 14", "C_IC_NA_1 unknown_object_address refused common 1: 1 station");
    check("66 01 05 00 01 00 65 01 00", "C_RD_NA_1 unknown_object_address refused common 1: 357");
    check("2D 01 06 00 01 00 64 00 00 01", "C_SC_NA_1 unknown_object_address refused common 1: 100 on execute");
    check("2D 01 06 00 02 00 E9 03 00 01", "C_SC_NA_1 unknown_object_address refused common 2: 1001 on execute");
    assert_eq!((line.server.counters().unknown, line.server.counters().requests), (12, 12));
    // What cannot be read, and tests, have no answer.
    assert!(line.ask("64 01 06 00 01 00 00 00 00").is_empty() && line.ask("2D 01 86 00 01 00 E9 03 00 01").is_empty());
    assert_eq!((line.server.counters().malformed, line.server.counters().tests), (1, 1));
}

#[test]
fn objects_are_read_and_tests_confirmed() {
    let mut line = line();
    let mut check = |asdu: &str, expect: &str| assert_eq!(line.ask(asdu), [expect], "{asdu}");
    check("66 01 05 09 01 00 C8 00 00", "M_ME_NC_1 request common 1 originator 9: 200 50");
    check("68 01 06 00 01 00 00 00 00 AA 55", "C_TS_NA_1 activation_confirmation common 1: 0x55aa");
    check("68 01 06 00 01 00 00 00 00 AA 54", "C_TS_NA_1 activation_confirmation refused common 1: 0x54aa");
    check(
        "6B 01 06 00 01 00 00 00 00 07 00 10 27 1E 09 54 0B 1A",
        "C_TS_TA_1 activation_confirmation common 1: 7 2026-11-20T09:30:10.000",
    );
}

#[test]
fn the_clock_is_set_and_time_stamps_follow() {
    let mut line = line();
    let told = line.ask("67 01 06 00 01 00 00 00 00 10 27 1E 0A 54 0B 1A");
    assert_eq!(told, ["C_CS_NA_1 activation_confirmation common 1: 2026-11-20T10:30:10.000"]);
    let [ServerEvent::ClockSet { common_address: 1, .. }] = line.take()[..] else { panic!() };
    line.pass(500);
    line.update(101, single(true));
    assert_eq!(line.exchange(), ["M_SP_TB_1 spontaneous common 1: 101 on 2026-11-20T10:30:10.500"]);
    // A time that is none, and one that is not to be trusted.
    let refused = |line: &mut Line, asdu: &str| assert!(line.ask(asdu)[0].contains(" refused "), "{asdu}");
    refused(&mut line, "67 01 06 00 01 00 00 00 00 10 27 3D 0A 54 0B 1A");
    refused(&mut line, "67 01 06 00 01 00 00 00 00 10 27 9E 0A 54 0B 1A");
    let mut other = Line::new(ServerConfig { takes_clock: false, ..ServerConfig::DEFAULT });
    refused(&mut other, "67 01 06 00 01 00 00 00 00 10 27 1E 0A 54 0B 1A");
    assert_eq!(other.take(), []);
}

const SELECT: &str = "2D 01 06 00 01 00 E8 03 00 81";
const EXECUTE: &str = "2D 01 06 00 01 00 E8 03 00 01";
const SELECTED: &str = "C_SC_NA_1 activation_confirmation common 1: 1000 on select";
const EXECUTED: &str = "C_SC_NA_1 activation_confirmation common 1: 1000 on execute";
const TERMINATED: &str = "C_SC_NA_1 activation_termination common 1: 1000 on execute";
const REFUSED: &str = "C_SC_NA_1 activation_confirmation refused common 1: 1000 on execute";

#[test]
fn commands_are_selected_first() {
    let mut line = line();
    let done = |line: &mut Line, asdu: &str| line.command(asdu, CommandAnswer::Done);
    assert_eq!(done(&mut line, EXECUTE), [REFUSED]);
    assert_eq!(done(&mut line, SELECT), [SELECTED]);
    assert_eq!(done(&mut line, EXECUTE), [EXECUTED, TERMINATED]);
    // A selection is for one command.
    assert_eq!(done(&mut line, EXECUTE), [REFUSED]);
    // It ends with time,
    assert_eq!(done(&mut line, SELECT), [SELECTED]);
    line.pass(9_999);
    line.exchange();
    assert_eq!(done(&mut line, SELECT), [SELECTED]);
    line.pass(10_000);
    line.exchange();
    assert_eq!(done(&mut line, EXECUTE), [REFUSED]);
    // with a command that is another,
    assert_eq!(done(&mut line, SELECT), [SELECTED]);
    assert!(done(&mut line, "2D 01 06 00 01 00 E8 03 00 00")[0].contains("refused"));
    assert_eq!(done(&mut line, EXECUTE), [REFUSED]);
    // and with a deactivation.
    assert_eq!(done(&mut line, SELECT), [SELECTED]);
    let end = "2D 01 08 00 01 00 E8 03 00 81";
    assert_eq!(done(&mut line, end), ["C_SC_NA_1 deactivation_confirmation common 1: 1000 on select"]);
    assert_eq!(done(&mut line, end), ["C_SC_NA_1 deactivation_confirmation refused common 1: 1000 on select"]);
    assert_eq!(done(&mut line, EXECUTE), [REFUSED]);
}

#[test]
fn an_object_that_is_selected_refuses_other_clients() {
    let shared = Rc::new(RefCell::new(database()));
    let (mut one, mut other) = (Line::of(ServerConfig::DEFAULT, &shared), Line::of(ServerConfig::DEFAULT, &shared));
    assert_eq!(one.ask(SELECT), [SELECTED]);
    assert_eq!(other.ask(SELECT), ["C_SC_NA_1 activation_confirmation refused common 1: 1000 on select"]);
    assert_eq!(other.ask(EXECUTE), [REFUSED]);
    one.server.handle_disconnected(one.now);
    assert_eq!(other.ask(SELECT), [SELECTED]);
}

#[test]
fn commands_go_at_once_where_they_may() {
    let mut line = line();
    let (direct, select) = ("2D 01 06 00 01 00 E9 03 00 00", "2D 01 06 00 01 00 E9 03 00 80");
    let told = line.command(direct, CommandAnswer::Done);
    assert_eq!(told[0], "C_SC_NA_1 activation_confirmation common 1: 1001 off execute");
    assert_eq!(line.command(select, CommandAnswer::Done).len(), 1);
    assert_eq!(line.command(direct, CommandAnswer::Done).len(), 2);
    let told = line.command(direct, CommandAnswer::Refused);
    assert_eq!(told, ["C_SC_NA_1 activation_confirmation refused common 1: 1001 off execute"]);
    // With a time, direct only, of four states, and 32 bits.
    let refused = |line: &mut Line, asdu: &str| line.command(asdu, CommandAnswer::Done)[0].contains("refused");
    let taken = |line: &mut Line, asdu: &str| line.command(asdu, CommandAnswer::Done).len() == 2;
    assert!(taken(&mut line, "3A 01 06 00 01 00 E9 03 00 01 10 27 1E 09 54 0B 1A"));
    assert!(taken(&mut line, "32 01 06 00 01 00 EA 03 00 00 00 80 3F 00"));
    assert!(refused(&mut line, "32 01 06 00 01 00 EA 03 00 00 00 80 3F 80"));
    assert!(taken(&mut line, "2E 01 06 00 01 00 EB 03 00 02") && refused(&mut line, "2E 01 06 00 01 00 EB 03 00 03"));
    assert!(taken(&mut line, "33 01 06 00 01 00 EC 03 00 78 56 34 12"));
    // Another type than the object takes, and two objects at once.
    assert!(refused(&mut line, "2E 01 06 00 01 00 E9 03 00 02"));
    assert!(refused(&mut line, "2D 02 06 00 01 00 E9 03 00 01 E8 03 00 01"));
}

#[test]
fn a_command_that_takes_time_is_terminated_after_its_reports() {
    let mut line = line();
    let execute = "2D 01 06 00 01 00 E9 03 00 01";
    let accepted = "C_SC_NA_1 activation_confirmation common 1: 1001 on execute";
    assert_eq!(line.ask(execute), Vec::<String>::new());
    let [ServerEvent::Command { id, .. }] = line.take()[..] else { panic!() };
    line.server.answer(id, CommandAnswer::Accepted);
    assert_eq!(line.exchange(), [accepted]);
    line.update(101, single(true));
    line.server.terminate(id, true);
    line.server.terminate(id, true);
    let report = "M_SP_TB_1 spontaneous common 1: 101 on 2026-11-20T09:30:00.000";
    assert_eq!(line.exchange(), [report, "C_SC_NA_1 activation_termination common 1: 1001 on execute"]);
    line.ask(execute);
    let [ServerEvent::Command { id, .. }] = line.take()[..] else { panic!() };
    line.server.answer(id, CommandAnswer::Accepted);
    line.server.terminate(id, false);
    assert_eq!(line.exchange()[1], "C_SC_NA_1 activation_termination refused common 1: 1001 on execute");
    let mut silent = Line::new(ServerConfig { terminates_commands: false, ..ServerConfig::DEFAULT });
    assert_eq!(silent.command(execute, CommandAnswer::Accepted), [accepted]);
    assert_eq!(silent.command(execute, CommandAnswer::Done), [accepted]);
}

#[test]
fn commands_that_are_not_answered_are_limited() {
    let mut line = Line::new(ServerConfig { commands_max: 2, ..ServerConfig::DEFAULT });
    let execute = "2D 01 06 00 01 00 E9 03 00 01";
    assert!(line.ask(execute).is_empty() && line.ask(execute).is_empty());
    assert_eq!(line.ask(execute), ["C_SC_NA_1 activation_confirmation refused common 1: 1001 on execute"]);
    // A client that stops data transfer gets no answer any more.
    line.give(&hex("68 04 13 00 00 00"));
    line.server.answer(0, CommandAnswer::Done);
    let told = line.exchange();
    assert_eq!(told, ["U STOPDT con"]);
    assert_eq!(line.take().last(), Some(&ServerEvent::Stopped));
}

#[test]
fn changes_are_reported_together_and_in_order() {
    let mut line = line();
    line.update(100, single(false));
    line.update(101, single(true));
    line.update(100, single(true));
    line.update(100, single(true));
    line.update(200, Element::Short { value: 1.5, flags: Flags::INVALID });
    let time = "2026-11-20T09:30:00.000";
    let expect = [
        std::format!("M_SP_TB_1 spontaneous common 1: 100 off {time}; 101 on {time}"),
        std::format!("M_SP_TB_1 spontaneous common 1: 100 on {time}"),
        "M_ME_NC_1 spontaneous common 1: 200 1.5 invalid".to_string(),
    ];
    assert_eq!(line.exchange(), expect);
    assert_eq!(line.server.counters().reported, 4);
    assert_eq!(
        line.database.borrow_mut().update(line.now, (1, address(999)), single(true), CauseCode::SPONTANEOUS),
        None
    );
}

#[test]
fn the_oldest_report_is_dropped_and_the_value_of_its_point_follows() {
    let mut line = Line::new(ServerConfig { reports_max: 3, ..ServerConfig::DEFAULT });
    line.give(&hex("68 04 13 00 00 00"));
    line.exchange();
    line.update(200, Element::Short { value: 1.5, flags: Flags::GOOD });
    for at in 0..5 {
        line.pass(1);
        line.update(101, single(at % 2 == 0));
    }
    assert_eq!((line.server.waiting(), line.server.counters().reports_dropped), (3, 3));
    line.give(&hex(STARTDT));
    let told = line.exchange();
    let expect = [
        "U STARTDT con",
        "M_SP_TB_1 spontaneous common 1: 101 on 2026-11-20T09:30:00.003",
        "M_SP_TB_1 spontaneous common 1: 101 off 2026-11-20T09:30:00.004",
        "M_SP_TB_1 spontaneous common 1: 101 on 2026-11-20T09:30:00.005",
        "M_SP_NA_1 spontaneous common 1: 101 on",
        "M_ME_NC_1 spontaneous common 1: 200 1.5",
    ];
    assert_eq!(told, expect);
}

#[test]
fn cyclic_points_and_resets() {
    let mut line = Line::new(ServerConfig { cyclic_every: Some(Duration::from_secs(5)), ..ServerConfig::DEFAULT });
    assert_eq!(line.exchange(), Vec::<String>::new());
    line.pass(5_000);
    assert_eq!(line.exchange(), ["M_ME_NB_1 periodic common 1: 400 5"]);
    let told = line.ask("69 01 06 00 01 00 00 00 00 01");
    assert_eq!(
        told,
        ["C_RP_NA_1 activation_confirmation common 1: qualifier 1", "M_EI_NA_1 initialized common 1: cause 2"]
    );
    assert_eq!(line.take(), [ServerEvent::Reset { common_address: 1, qualifier: 1 }]);
    line.update(101, single(true));
    assert_eq!(line.ask("69 01 06 00 01 00 00 00 00 02").len(), 1);
    assert!(line.ask("69 01 06 00 01 00 00 00 00 03")[0].contains("refused"));
    line.server.initialized(0);
    assert_eq!(line.exchange(), ["M_EI_NA_1 initialized common 1: cause 0", "M_EI_NA_1 initialized common 2: cause 0"]);
}

#[test]
fn no_more_than_k_frames_go_without_an_acknowledgement() {
    let link = LinkConfig { k: 2, ..LinkConfig::DEFAULT };
    let mut server = Server::new(ServerConfig { link, ..ServerConfig::DEFAULT }, Rc::new(RefCell::new(database())));
    let mut now = at_ms(0);
    server.handle_connected(now);
    server.handle_input(now, &hex(STARTDT));
    let interrogation = hex("68 0E 00 00 00 00 64 01 06 00 01 00 00 00 00 14");
    server.handle_input(now, &interrogation);
    let sent = |server: &mut Server, now: Now| {
        std::iter::from_fn(|| server.poll_transmit(now, &mut Vec::new()).then_some(())).count()
    };
    assert_eq!(sent(&mut server, now), 3);
    server.handle_input(now, &hex("68 04 01 00 02 00"));
    assert_eq!(sent(&mut server, now), 1);
    // A client that acknowledges nothing is left after t1.
    now = now.later(LinkConfig::DEFAULT.t1);
    server.handle_timeout(now);
    let told = events(&mut server);
    assert_eq!(told.last(), Some(&ServerEvent::Closing(LinkError::NotAcknowledged)));
    assert!(server.is_closed() && server.timeout().is_none());
}

#[test]
fn an_asdu_before_the_start_ends_the_connection() {
    let mut server = Server::new(ServerConfig::DEFAULT, Rc::new(RefCell::new(database())));
    server.handle_connected(at_ms(0));
    server.handle_input(at_ms(0), &hex("68 0E 00 00 00 00 64 01 06 00 01 00 00 00 00 14"));
    assert_eq!(events(&mut server), [ServerEvent::Closing(LinkError::NotStarted)]);
    server.handle_disconnected(at_ms(0));
    server.handle_connected(at_ms(0));
    assert!(!server.is_closed() && !server.is_started());
}

#[test]
fn a_database_takes_what_a_station_can_have() {
    let mut database = database();
    let mut check = |station, raw, point, expect| assert_eq!(database.add(station, address(raw), point), Err(expect));
    check(1, 100, Point::new(single(true)), DatabaseError::Taken(address(100)));
    check(0, 1, Point::new(single(true)), DatabaseError::CommonAddress(0));
    check(65_535, 1, Point::new(single(true)), DatabaseError::CommonAddress(65_535));
    check(1, 1, Point { group: 17, ..Point::new(single(true)) }, DatabaseError::Group(17));
    check(1, 1, Point::new(Element::Read), DatabaseError::Form(Form::Read));
    let taken = database.add_command(1, address(1000), Form::SetBits, SelectRule::Either);
    assert_eq!(taken, Err(DatabaseError::Taken(address(1000))));
    let form = database.add_command(1, address(1), Form::SinglePoint, SelectRule::Either);
    assert_eq!(form.unwrap_err().to_string(), "an object of the kind SinglePoint at a place of another kind");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(asdus: Vec<(u8, u8, u8, Vec<u8>)>, noise: Vec<u8>) {
        let mut server = Server::new(ServerConfig::DEFAULT, Rc::new(RefCell::new(database())));
        let (now, mut link) = (at_ms(0), Link::new(LinkConfig::DEFAULT));
        server.handle_connected(now);
        link.connected(now.mono);
        server.handle_input(now, &hex(STARTDT));
        link.receive(now.mono, Apdu::U(Control::StartAct));
        for (type_id, count, cause, rest) in &asdus {
            let mut out = Vec::new();
            let asdu = [&[*type_id, *count, *cause, 0, 1, 0][..], rest].concat();
            link.send(now.mono, &asdu, &mut out);
            server.handle_input(now, &out);
            events(&mut server);
            let mut back = Vec::new();
            while server.poll_transmit(now, &mut back) {
                prop_assert!(Apdu::parse(&back).is_ok());
                back.clear();
            }
        }
        let counters = *server.counters();
        prop_assert!(server.is_closed() || counters.requests == asdus.len() as u64);
        server.handle_input(now, &noise);
    }
}

impl Line {
    /// A connection of a group, which is not started.
    fn of_group(group: &Group, database: &Rc<RefCell<Database>>, now: Now) -> Self {
        let (config, database) = (ServerConfig::DEFAULT, Rc::clone(database));
        let link = Link::new(config.link);
        let server = Server::new(config, Rc::clone(&database));
        let mut line = Self { server, database, link, now, events: Vec::new() };
        line.server.handle_connected(now);
        line.server.join(group);
        line.link.connected(now.mono);
        line
    }

    fn start(&mut self) -> Vec<String> {
        self.link.start();
        self.exchange()
    }

    /// Acknowledges what came.
    fn acknowledge(&mut self) {
        self.pass(10_000);
        assert_eq!(self.exchange(), Vec::<String>::new());
    }
}

#[test]
fn a_group_is_sent_again_what_was_not_acknowledged_on_the_connection_before() {
    let (database, group) = (Rc::new(RefCell::new(database())), Group::new(3));
    let update = |ms: u64, on: bool| {
        let place = (1, address(101));
        let change = database.borrow_mut().update(at_ms(ms), place, single(on), CauseCode::SPONTANEOUS);
        group.report(change.unwrap());
    };
    let report =
        |ms: u64, on: &str| std::format!("M_SP_TB_1 spontaneous common 1: 101 {on} 2026-11-20T09:30:00.{ms:03}");
    let started = || "U STARTDT con".to_string();
    update(1, true);
    let [mut one, mut other] = [(), ()].map(|()| Line::of_group(&group, &database, at_ms(0)));
    assert!(one.exchange().is_empty() && other.exchange().is_empty());
    assert_eq!(one.start(), [started(), report(1, "on")]);
    one.acknowledge();
    update(2, false);
    update(3, true);
    assert_eq!(one.exchange(), [report(2, "off"), report(3, "on")]);
    assert_eq!((other.exchange(), group.resent()), (Vec::new(), 0));
    // The client starts another one: the first is closed.
    assert_eq!(other.start(), [started(), report(2, "off"), report(3, "on")]);
    assert!(one.exchange().is_empty() && one.server.is_closed());
    one.give(&[]);
    assert_eq!(one.take().last(), Some(&ServerEvent::Closing(LinkError::Replaced)));
    assert_eq!((one.server.counters().broken, group.resent(), group.waiting()), (0, 2, 0));
    other.acknowledge();
    // A stop keeps what comes; the same connection goes on without a repetition.
    other.give(&hex("68 04 13 00 00 00"));
    assert_eq!(other.exchange(), ["U STOPDT con"]);
    update(4, false);
    other.give(&hex(STARTDT));
    assert_eq!(other.exchange(), [started(), report(4, "off")]);
    other.server.handle_disconnected(other.now);
    // Of more than may wait, the oldest are dropped, and the value of their point follows.
    (5..8).for_each(|ms| update(ms, ms % 2 == 1));
    assert_eq!((group.waiting(), group.dropped(), group.resent()), (3, 1, 3));
    let mut last = Line::of_group(&group, &database, at_ms(0));
    let lost = "M_SP_NA_1 spontaneous common 1: 101 on".to_string();
    assert_eq!(last.start(), [started(), report(5, "on"), report(6, "off"), report(7, "on"), lost]);
}

proptest! {
    /// Connections of a group come, are started and end at any time: the client gets every change, in order, some of them twice.
    #[test]
    fn a_group_loses_nothing(acts in proptest::collection::vec((0..7_u8, 0..2_usize), 1..120)) {
        let (database, group) = (Rc::new(RefCell::new(database())), Group::new(1000));
        let mut now = at_ms(0);
        let mut lines = [(), ()].map(|()| Line::of_group(&group, &database, now));
        let (mut reported, mut known) = (5, 5);
        let mut listen = |line: &mut Line| {
            for told in line.exchange() {
                let Some((_, objects)) = told.split_once("spontaneous common 1: ") else { continue };
                for object in objects.split("; ") {
                    let value: i16 = object.split(' ').nth(1).unwrap().parse().unwrap();
                    assert!(value <= known + 1, "{told} after {known}");
                    known = known.max(value);
                }
            }
            known
        };
        for (act, at) in acts.into_iter().chain([(0, 0), (3, 0), (2, 0)]) {
            let line = &mut lines[at];
            match act {
                0 | 1 => {
                    reported += 1;
                    let element = Element::Scaled { value: reported, flags: Flags::GOOD };
                    let place = (1, address(400));
                    let change = database.borrow_mut().update(now, place, element, CauseCode::SPONTANEOUS).unwrap();
                    group.report(change);
                }
                2 if !line.server.is_started() && !line.server.is_closed() => line.link.start(),
                3 => {
                    // What was sent on it is lost on the way.
                    while line.server.poll_transmit(now, &mut Vec::new()) {}
                    line.server.handle_disconnected(now);
                    *line = Line::of_group(&group, &database, now);
                }
                4 => {
                    now = now.later(Duration::from_secs(10));
                    for line in &mut lines {
                        line.now = now;
                        line.server.handle_timeout(now);
                        let _ = line.link.handle_timeout(now.mono);
                    }
                }
                _ => {}
            }
            for line in &mut lines {
                if line.server.is_closed() {
                    line.server.handle_disconnected(now);
                    *line = Line::of_group(&group, &database, now);
                }
                listen(line);
            }
        }
        prop_assert_eq!((listen(&mut lines[0]), group.dropped()), (reported, 0));
    }
}

/// Sends an ASDU whose request waits for its treatment.
fn treated(line: &mut Line, asdu: &str, treatment: Treatment<'_>) -> Vec<String> {
    assert_eq!(line.ask(asdu), Vec::<String>::new());
    let events = line.take();
    let [ServerEvent::Request { id }] = events[..] else { panic!("{events:?}") };
    line.server.treat(line.now, id, treatment);
    line.server.treat(line.now, id, treatment);
    line.exchange()
}

#[test]
fn requests_are_treated_as_the_owner_says() {
    let mut line = Line::new(ServerConfig { is_treated: true, ..ServerConfig::DEFAULT });
    let read = "66 01 05 00 01 00 64 00 00";
    assert_eq!(treated(&mut line, read, Treatment::Answer), ["M_SP_NA_1 request common 1: 100 on"]);
    assert_eq!(treated(&mut line, read, Treatment::Refuse), ["C_RD_NA_1 unknown_object_address refused common 1: 100"]);
    let interrogation = "64 01 06 00 01 00 00 00 00 14";
    assert_eq!(
        treated(&mut line, interrogation, Treatment::Refuse),
        ["C_IC_NA_1 activation_confirmation refused common 1: station"]
    );
    assert!(treated(&mut line, interrogation, Treatment::Ignore { is_done: true }).is_empty());
    let command = "2d 01 06 00 01 00 e9 03 00 01";
    assert!(treated(&mut line, command, Treatment::Ignore { is_done: false }).is_empty());
    line.give(&[]);
    assert_eq!(line.take(), []);
    // The owner carries it out, and nothing is said of it.
    assert!(treated(&mut line, command, Treatment::Ignore { is_done: true }).is_empty());
    line.give(&[]);
    let events = line.take();
    let [ServerEvent::Command { id, .. }] = events[..] else { panic!("{events:?}") };
    line.server.answer(id, CommandAnswer::Done);
    line.server.terminate(id, true);
    assert!(line.exchange().is_empty());
    // What comes in place of an answer is as it is.
    assert_eq!(line.ask(read), Vec::<String>::new());
    let events = line.take();
    let [ServerEvent::Request { id }] = events[..] else { panic!("{events:?}") };
    line.server.treat(line.now, id, Treatment::Noise(b"noise"));
    let mut out = Vec::new();
    assert!(line.server.poll_transmit(line.now, &mut out));
    assert_eq!(out, b"noise");
}

#[test]
fn a_station_that_hangs_says_nothing_and_keeps_its_connection() {
    let mut line = line();
    line.server.mute(true);
    line.update(101, single(true));
    assert!(line.ask("64 01 06 00 01 00 00 00 00 14").is_empty());
    line.now = line.now.later(Duration::from_secs(100));
    line.server.handle_timeout(line.now);
    assert_eq!((line.server.timeout(), line.server.is_closed(), line.exchange()), (None, false, Vec::new()));
    line.server.mute(false);
    assert_eq!(line.exchange().len(), 6);
}
