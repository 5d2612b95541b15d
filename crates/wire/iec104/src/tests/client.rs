use super::station::Pair;
use super::{at_ms, events, hex};
use crate::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Instant, Machine};

const FOREVER: Instant = Instant(u64::MAX);
const ON: Element = Element::SingleCommand { on: true, qualifier: Qualifier { is_select: false, number: 0 } };

fn address(raw: u32) -> Address {
    Address::new(raw).unwrap()
}

fn command(select: bool) -> CommandRequest {
    CommandRequest { common_address: 1, address: address(5000), element: ON, select, with_time: false }
}

fn asked(pair: &mut Pair, id: u64, request: Request) {
    pair.client.submit(id, request, FOREVER).unwrap();
    pair.exchange();
}

fn ended(id: u64, outcome: Outcome) -> Vec<ClientEvent> {
    std::vec![ClientEvent::Ended { origin: Origin::Owner(id), outcome }]
}

fn failed(reason: Failure, maybe_done: bool) -> Outcome {
    Outcome::Failed { reason, maybe_done }
}

fn own(procedure: Procedure, outcome: Outcome) -> ClientEvent {
    ClientEvent::Ended { origin: Origin::Own(procedure, 1), outcome }
}

fn header(type_id: TypeId, code: CauseCode) -> Header {
    Header { type_id, is_sequence: false, cause: Cause::of(code), common_address: 1 }
}

fn point(raw: u32) -> Object {
    let element = Element::SinglePoint { on: true, flags: Flags::GOOD };
    Object { address: address(raw), element, time: TimeTag::None }
}

fn object_of(element: Element) -> Object {
    Object { address: address(5000), element, time: TimeTag::None }
}

/// Answers what came first.
fn answer(pair: &mut Pair, code: CauseCode, is_negative: bool) -> (Header, Object) {
    let answered = pair.station.answer(code, is_negative);
    pair.exchange();
    answered
}

#[test]
fn at_the_start_clocks_are_set_and_everything_is_asked_for() {
    let at_start = std::vec![Procedure::Clock, Procedure::Interrogation, Procedure::Counters];
    let mut pair = Pair::connected(ClientConfig { at_start, originator: 9, ..ClientConfig::new(1) });
    pair.exchange();
    assert_eq!(pair.take(), [ClientEvent::Started]);
    // One after the other.
    assert_eq!(pair.station.heard.len(), 1);
    let (asked, object) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!((asked.type_id, asked.cause.originator), (TypeId::C_CS_NA_1, 9));
    assert_eq!(object.element, Element::ClockSynchronization { time: Cp56::new(at_ms(0).utc, 0) });
    assert_eq!(pair.take(), [own(Procedure::Clock, Outcome::Done)]);
    pair.station.heard.pop_front();
    let (asked, object) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!((asked.type_id, object.element), (TypeId::C_IC_NA_1, Element::Interrogation { qualifier: 20 }));
    let interrogated = header(TypeId::M_SP_NA_1, CauseCode::INTERROGATED);
    pair.station.send(interrogated, point(7));
    answer(&mut pair, CauseCode::TERMINATION, false);
    let objects = ClientEvent::Objects { header: interrogated, objects: std::vec![point(7)] };
    assert_eq!(pair.take(), [objects, own(Procedure::Interrogation, Outcome::Done)]);
    pair.station.heard.pop_front();
    let (_, object) = answer(&mut pair, CauseCode::UNKNOWN_TYPE, true);
    assert_eq!(object.element, Element::CounterInterrogation { qualifier: 5 });
    let refused = Outcome::Refused { cause: CauseCode::UNKNOWN_TYPE, at_select: false };
    assert_eq!(pair.take(), [own(Procedure::Counters, refused), ClientEvent::Ready]);
}

#[test]
fn a_connection_that_stands_by_is_tested_and_starts_when_it_is_told() {
    let mut pair = Pair::connected(ClientConfig { starts: false, ..ClientConfig::new(1) });
    pair.exchange();
    let test = Request::Test { common_address: 1 };
    assert_eq!((pair.take(), pair.client.submit(1, test, FOREVER)), (Vec::new(), Err(SubmitError::Disconnected)));
    pair.pass(25_000);
    assert_eq!((pair.take(), pair.client.link_counters().tests), (Vec::new(), 1));
    pair.client.start();
    pair.client.start();
    pair.exchange();
    assert_eq!((pair.take(), pair.client.is_online()), (std::vec![ClientEvent::Started], true));
    assert_eq!(pair.heard().iter().map(|(type_id, ..)| *type_id).collect::<Vec<_>>(), [TypeId::C_IC_NA_1]);
    // The next connection stands by again.
    pair.client.handle_disconnected(pair.now);
    pair.connect();
    pair.exchange();
    assert!(!pair.client.is_online() && pair.take().is_empty());
    // No station starts it.
    pair.give(&hex("680407000000"));
    assert_eq!(pair.take(), [ClientEvent::Closing(LinkError::NotStarted)]);
}

#[test]
fn groups_are_asked_for_one_after_the_other() {
    let at_start = std::vec![Procedure::Interrogation, Procedure::Counters];
    let (interrogations, counters) = (std::vec![21, 36], std::vec![1, 4]);
    let mut pair = Pair::connected(ClientConfig { at_start, interrogations, counters, ..ClientConfig::new(1) });
    pair.exchange();
    let mut asked = Vec::new();
    while !pair.station.heard.is_empty() {
        answer(&mut pair, CauseCode::ACTIVATION_CON, false);
        asked.push(answer(&mut pair, CauseCode::TERMINATION, false).1.element);
        pair.station.heard.pop_front();
    }
    let (states, counters) =
        (|qualifier| Element::Interrogation { qualifier }, |qualifier| Element::CounterInterrogation { qualifier });
    assert_eq!(asked, [states(21), states(36), counters(1), counters(4)]);
    let done = |procedure| own(procedure, Outcome::Done);
    let [states, counters] = [Procedure::Interrogation, Procedure::Counters].map(done);
    assert_eq!(
        pair.take(),
        [ClientEvent::Started, states.clone(), states, counters.clone(), counters, ClientEvent::Ready]
    );
}

#[test]
fn a_freeze_ends_with_its_confirmation_and_its_termination_ends_no_read() {
    let mut pair = Pair::new(ClientConfig::new(1));
    let freeze = Freeze::FreezeAndReset.qualifier(5);
    asked(&mut pair, 1, Request::Counters { common_address: 1, qualifier: freeze });
    asked(&mut pair, 2, Request::Counters { common_address: 1, qualifier: 5 });
    let (_, frozen) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!(frozen.element, Element::CounterInterrogation { qualifier: 0x85 });
    assert_eq!(pair.take(), ended(1, Outcome::Done));
    // The read was sent; the late termination of the freeze is none of it.
    answer(&mut pair, CauseCode::TERMINATION, false);
    assert_eq!((pair.take(), pair.client.counters().unexpected), (Vec::new(), 0));
    pair.station.heard.pop_front();
    let (_, read) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!(read.element, Element::CounterInterrogation { qualifier: 5 });
    answer(&mut pair, CauseCode::TERMINATION, false);
    assert_eq!(pair.take(), ended(2, Outcome::Done));
}

#[test]
fn a_silent_station_does_not_hold_up_the_start() {
    let mut pair = Pair::connected(ClientConfig::new(1));
    pair.exchange();
    pair.pass(10_000);
    let late = failed(Failure::NoConfirmation, false);
    assert_eq!(pair.take(), [ClientEvent::Started, own(Procedure::Interrogation, late), ClientEvent::Ready]);
}

#[test]
fn an_interrogation_is_not_late_while_it_brings_something() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Interrogation { common_address: 1, qualifier: 20 });
    answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    for _ in 0..3 {
        pair.pass(9_000);
        pair.station.send(header(TypeId::M_SP_NA_1, CauseCode::INTERROGATED), point(7));
        pair.exchange();
        assert!(matches!(pair.take()[..], [ClientEvent::Objects { .. }]));
    }
    // What comes by itself is no part of it.
    pair.pass(9_000);
    pair.station.send(header(TypeId::M_SP_NA_1, CauseCode::SPONTANEOUS), point(7));
    pair.exchange();
    pair.take();
    pair.pass(1_000);
    assert_eq!(pair.take(), ended(1, failed(Failure::NoTermination, false)));
    assert_eq!((pair.client.counters().objects, pair.client.counters().spontaneous), (4, 1));
}

#[test]
fn a_command_is_selected_and_executed() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Command(command(true)));
    let (_, object) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!(object.element, ON.with_select(true));
    pair.station.heard.pop_front();
    let (_, object) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!((object.element, object.address), (ON, address(5000)));
    assert_eq!(pair.take(), ended(1, Outcome::Done));
    // The termination changes nothing.
    answer(&mut pair, CauseCode::TERMINATION, false);
    assert_eq!((pair.take(), pair.client.counters().unexpected), (Vec::new(), 0));
}

#[test]
fn a_command_may_end_with_its_termination() {
    let config = || ClientConfig { command_end: CommandEnd::Termination, ..ClientConfig::new(1) };
    let mut pair = Pair::new(config());
    asked(&mut pair, 1, Request::Command(command(false)));
    answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!(pair.take(), []);
    answer(&mut pair, CauseCode::TERMINATION, false);
    assert_eq!(pair.take(), ended(1, Outcome::Done));
    let mut pair = Pair::new(config());
    asked(&mut pair, 2, Request::Command(command(false)));
    answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    pair.pass(10_000);
    assert_eq!(pair.take(), ended(2, failed(Failure::NoTermination, true)));
}

#[test]
fn refusals_say_their_cause() {
    let check = |select: bool, code: CauseCode, is_negative: bool| {
        let mut pair = Pair::new(ClientConfig::new(1));
        asked(&mut pair, 1, Request::Command(command(select)));
        answer(&mut pair, code, is_negative);
        assert_eq!(pair.take(), ended(1, Outcome::Refused { cause: code, at_select: select }));
        // Nothing more is sent.
        pair.station.heard.pop_front();
        pair.pass(20_000);
        assert_eq!((pair.heard(), pair.take()), (Vec::new(), Vec::new()));
    };
    check(true, CauseCode::ACTIVATION_CON, true);
    check(false, CauseCode::ACTIVATION_CON, true);
    check(false, CauseCode::UNKNOWN_ADDRESS, true);
    // Some stations forget P/N.
    check(true, CauseCode::UNKNOWN_COMMON_ADDRESS, false);
}

#[test]
fn a_command_without_an_answer_may_have_been_done() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Command(command(true)));
    pair.pass(10_000);
    assert_eq!(pair.take(), ended(1, failed(Failure::NoConfirmation, false)));
    asked(&mut pair, 2, Request::Command(command(false)));
    pair.pass(10_000);
    assert_eq!(pair.take(), ended(2, failed(Failure::NoConfirmation, true)));
    // It is not sent again.
    assert_eq!(pair.heard().len(), 2);
}

#[test]
fn nothing_is_sent_after_its_deadline() {
    let mut pair = Pair::new(ClientConfig::new(1));
    let until = at_ms(500).mono;
    pair.client.submit(1, Request::Command(command(true)), until).unwrap();
    pair.exchange();
    pair.pass(400);
    assert_eq!(pair.take(), []);
    // The select is confirmed too late.
    pair.pass(100);
    assert_eq!(pair.take(), ended(1, failed(Failure::TooLate, false)));
    answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!((pair.take(), pair.heard().len(), pair.client.counters().unexpected), (Vec::new(), 1, 1));
    pair.client.submit(2, Request::Command(command(false)), until).unwrap();
    pair.exchange();
    assert_eq!((pair.take(), pair.heard().len()), (ended(2, failed(Failure::TooLate, false)), 0));
}

#[test]
fn a_confirmation_of_something_else_is_none() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Command(command(true)));
    let (asked_for, object) = pair.station.heard[0];
    let confirm = |object: Object| (Header { cause: Cause::of(CauseCode::ACTIVATION_CON), ..asked_for }, object);
    // Of another object, or another station: it is left alone.
    for (header, object) in [
        confirm(Object { address: address(5001), ..object }),
        (Header { common_address: 2, ..confirm(object).0 }, object),
    ] {
        pair.station.send(header, object);
        pair.exchange();
        assert_eq!(pair.take(), []);
    }
    assert_eq!(pair.client.counters().unexpected, 2);
    // Of a select that was an execute.
    let (header, object) = confirm(Object { element: ON, ..object });
    pair.station.send(header, object);
    pair.exchange();
    assert_eq!(pair.take(), ended(1, failed(Failure::Mismatch, false)));
}

#[test]
fn commands_go_beside_interrogations_one_at_a_time_for_each_object() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Interrogation { common_address: 1, qualifier: 20 });
    asked(&mut pair, 2, Request::Clock { common_address: 1 });
    asked(&mut pair, 3, Request::Command(command(false)));
    asked(&mut pair, 4, Request::Command(command(false)));
    let element = Element::SetShort { value: f32::NAN, qualifier: Qualifier::default() };
    let other = CommandRequest { address: address(6000), element, with_time: true, ..command(true) };
    asked(&mut pair, 5, Request::Command(other));
    let types: Vec<_> = pair.heard().iter().map(|(type_id, ..)| *type_id).collect();
    assert_eq!(types, [TypeId::C_IC_NA_1, TypeId::C_SC_NA_1, TypeId::C_SE_TC_1]);
    // With an answer the next one for the object goes.
    pair.station.send(header(TypeId::C_SC_NA_1, CauseCode::ACTIVATION_CON), object_of(ON));
    pair.exchange();
    assert_eq!((pair.take(), pair.heard().len()), (ended(3, Outcome::Done), 1));
}

#[test]
fn a_read_ends_with_its_object() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Read { common_address: 1, address: address(7) });
    let requested = header(TypeId::M_SP_NA_1, CauseCode::REQUEST);
    pair.station.send(requested, point(8));
    pair.station.send(requested, point(7));
    pair.exchange();
    let objects = |raw| ClientEvent::Objects { header: requested, objects: std::vec![point(raw)] };
    let mut expect = std::vec![objects(8), objects(7)];
    expect.extend(ended(1, Outcome::Done));
    assert_eq!(pair.take(), expect);
    asked(&mut pair, 2, Request::Test { common_address: 1 });
    pair.station.heard.pop_front();
    let (_, object) = answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    assert_eq!(object.element, Element::TestCounter { count: 1 });
    assert_eq!(pair.take(), ended(2, Outcome::Done));
}

#[test]
fn a_station_that_restarts_is_asked_again() {
    let mut pair = Pair::connected(ClientConfig::new(1));
    pair.exchange();
    answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    answer(&mut pair, CauseCode::TERMINATION, false);
    pair.take();
    pair.station.heard.clear();
    let element = Element::EndOfInitialization { cause: 0 };
    let object = Object { address: address(0), element, time: TimeTag::None };
    // Three in a row: one interrogation is under way, one waits.
    for _ in 0..3 {
        pair.station.send(header(TypeId::M_EI_NA_1, CauseCode::INITIALIZED), object);
        pair.exchange();
    }
    let restarted = ClientEvent::Initialized { common_address: 1, cause: 0 };
    assert_eq!(pair.take(), [restarted.clone(), restarted.clone(), restarted]);
    for again in [false, true] {
        answer(&mut pair, CauseCode::ACTIVATION_CON, false);
        answer(&mut pair, CauseCode::TERMINATION, false);
        pair.station.heard.pop_front();
        let done = own(Procedure::Interrogation, Outcome::Done);
        let expect = if again { std::vec![done, ClientEvent::Ready] } else { std::vec![done] };
        assert_eq!((pair.take(), pair.station.heard.len()), (expect, usize::from(!again)));
    }
}

#[test]
fn clocks_are_set_again_and_again() {
    let config = ClientConfig { clock_every: Some(Duration::from_secs(15)), ..ClientConfig::new(1) };
    let mut pair = Pair::new(config);
    pair.pass(15_000);
    answer(&mut pair, CauseCode::ACTIVATION_CON, false);
    pair.pass(15_000);
    assert_eq!(pair.take()[0], own(Procedure::Clock, Outcome::Done));
    let times: Vec<_> = pair.heard().into_iter().map(|(_, _, object)| object.element).collect();
    let set = |ms| Element::ClockSynchronization { time: Cp56::new(at_ms(ms).utc, 0) };
    assert_eq!(times, [set(15_000), set(30_000)]);
}

#[test]
fn with_the_connection_everything_under_way_ends() {
    let mut pair = Pair::new(ClientConfig::new(1));
    asked(&mut pair, 1, Request::Command(command(false)));
    asked(&mut pair, 2, Request::Command(command(false)));
    let other = CommandRequest { address: address(6000), ..command(true) };
    asked(&mut pair, 3, Request::Command(other));
    pair.client.handle_disconnected(pair.now);
    let ends: Vec<_> = [(1, true), (3, false), (2, false)]
        .into_iter()
        .flat_map(|(id, maybe)| ended(id, failed(Failure::Disconnected, maybe)))
        .collect();
    assert_eq!(pair.take(), ends);
    assert_eq!(pair.client.submit(4, Request::Command(other), FOREVER), Err(SubmitError::Disconnected));
    assert_eq!(pair.client.timeout(), None);
    // Numbers begin at 0 again.
    pair.connect();
    pair.exchange();
    assert_eq!(pair.take(), [ClientEvent::Started, ClientEvent::Ready]);
}

#[test]
fn what_is_refused_at_once() {
    let mut pair = Pair::new(ClientConfig { queue_max: 1, ..ClientConfig::new(1) });
    let wrong = CommandRequest { element: Element::Read, ..command(false) };
    assert_eq!(pair.client.submit(1, Request::Command(wrong), FOREVER), Err(SubmitError::NoCommand));
    assert_eq!(pair.client.submit(2, Request::Command(command(false)), FOREVER), Ok(()));
    assert_eq!(pair.client.submit(3, Request::Command(command(false)), FOREVER), Err(SubmitError::Full));
}

#[test]
fn what_breaks_the_rules_closes_the_connection_by_name() {
    let check = |bytes: &str, name: &str| {
        let mut pair = Pair::new(ClientConfig::new(1));
        pair.give(&hex(bytes));
        let [ClientEvent::Closing(error)] = pair.take()[..] else { panic!("{bytes}") };
        assert_eq!((error.name(), pair.client.is_closed(), pair.client.counters().broken), (name, true, 1));
        assert!(!pair.client.poll_transmit(pair.now, &mut Vec::new()) && pair.client.timeout().is_none());
        // What comes after is dropped.
        assert_eq!((pair.client.handle_input(pair.now, &[0x68; 9]), events(&mut pair.client)), (9, Vec::new()));
    };
    check("47 45 54 20 2F", "frame");
    check("68 FF", "frame");
    check("68 04 0F 00 00 00", "frame");
    check("68 0E 02 00 00 00 01 01 03 00 01 00 01 00 00 01", "send_number");
    check("68 04 01 00 02 00", "receive_number");
    check("68 04 13 00 00 00", "not_started");
    // The rest of what came with it is not looked at.
    check("68 04 01 00 02 00 68 04 0F 00 00 00", "receive_number");
}

#[test]
fn asdus_that_cannot_be_used_are_counted() {
    let mut pair = Pair::new(ClientConfig::new(1));
    // A vendor's type, a value with the test bit, an object that is not whole, and a good one.
    pair.give(&hex("68 0D 0000 0000 8001 0300 0100 010000"));
    pair.give(&hex("68 0E 0200 0000 0101 8300 0100 010000 01"));
    pair.give(&hex("68 0D 0400 0000 0101 0300 0100 010000"));
    pair.give(&hex("68 05 0600 0000 01"));
    let malformed = |type_id, error| ClientEvent::Malformed { type_id, error };
    let length = AsduError::Length { needed: 4, found: 3 };
    assert_eq!(pair.take(), [malformed(Some(TypeId::M_SP_NA_1), length), malformed(None, AsduError::Header)]);
    let ClientCounters { unknown_types, tests, malformed, objects, .. } = *pair.client.counters();
    assert_eq!((unknown_types, tests, malformed, objects), (1, 1, 2, 0));
    assert_eq!(pair.client.link_counters().received, 4);
}

#[test]
fn a_full_client_takes_no_more_until_its_events_are_taken() {
    let mut pair = Pair::new(ClientConfig::new(1));
    let mut stream = Vec::new();
    for number in 0..300_u16 {
        let mut asdu = Vec::new();
        emit(&header(TypeId::M_SP_NA_1, CauseCode::SPONTANEOUS), &[point(number.into())], &mut asdu).unwrap();
        Apdu::I { send: number, receive: 0, asdu: &asdu }.emit(&mut stream);
    }
    let used = pair.client.handle_input(pair.now, &stream);
    assert_eq!((used, pair.client.handle_input(pair.now, &stream[used..])), (256 * 16, 0));
    assert_eq!(events(&mut pair.client).len(), 256);
    assert_eq!(pair.client.handle_input(pair.now, &stream[used..]), 44 * 16);
    assert_eq!(events(&mut pair.client).len(), 44);
}

/// What a station of chance does next.
#[derive(Clone, Debug)]
enum Act {
    Submit(u64, bool),
    Answer(u8, bool),
    Value(u32),
    Pass(u64),
    Reconnect,
    Noise(Vec<u8>),
}

fn acts() -> impl Strategy<Value = Act> {
    let code = prop::sample::select(std::vec![5_u8, 7, 7, 7, 10, 10, 44, 47]);
    prop_oneof![
        4 => (0..6_u64, any::<bool>()).prop_map(|(kind, select)| Act::Submit(kind, select)),
        6 => (code, prop::bool::weighted(0.1)).prop_map(|(code, negative)| Act::Answer(code, negative)),
        2 => (0..20_u32).prop_map(Act::Value),
        2 => (0..12_000_u64).prop_map(Act::Pass),
        1 => Just(Act::Reconnect),
        1 => vec(any::<u8>(), 1..30).prop_map(Act::Noise),
    ]
}

fn request(kind: u64, select: bool) -> Request {
    match kind {
        0 => Request::Interrogation { common_address: 1, qualifier: 20 },
        1 => Request::Counters { common_address: 1, qualifier: 5 },
        2 => Request::Clock { common_address: 1 },
        3 => Request::Read { common_address: 1, address: address(7) },
        _ => Request::Command(CommandRequest { address: address(u32::try_from(kind).unwrap()), ..command(select) }),
    }
}

proptest! {
    #[test]
    fn every_request_ends_once_whatever_the_station_does(acts in vec(acts(), 1..60)) {
        let mut pair = Pair::connected(ClientConfig { queue_max: 8, ..ClientConfig::new(1) });
        let (mut open, mut next) = (std::collections::BTreeSet::new(), 0);
        for act in acts {
            match act {
                Act::Submit(kind, select) => {
                    next += 1;
                    let until = pair.now.later(Duration::from_secs(kind * 4)).mono;
                    if pair.client.submit(next, request(kind, select), until).is_ok() {
                        open.insert(next);
                    }
                }
                Act::Answer(code, negative) => {
                    if !pair.station.heard.is_empty() {
                        pair.station.answer(CauseCode::new(code), negative);
                        if code != 7 {
                            pair.station.heard.pop_front();
                        }
                    }
                }
                Act::Value(raw) => pair.station.send(header(TypeId::M_SP_NA_1, CauseCode::REQUEST), point(raw)),
                Act::Pass(ms) => pair.pass(ms),
                Act::Reconnect => {
                    pair.client.handle_disconnected(pair.now);
                    pair.connect();
                }
                Act::Noise(bytes) => pair.give(&bytes),
            }
            if pair.client.is_closed() {
                pair.client.handle_disconnected(pair.now);
                pair.connect();
            }
            pair.exchange();
            for event in pair.take() {
                if let ClientEvent::Ended { origin: Origin::Owner(id), .. } = event {
                    prop_assert!(open.remove(&id), "{} ended twice", id);
                }
            }
        }
        pair.client.handle_disconnected(pair.now);
        for event in pair.take() {
            if let ClientEvent::Ended { origin: Origin::Owner(id), .. } = event {
                prop_assert!(open.remove(&id), "{} ended twice", id);
            }
        }
        prop_assert!(open.is_empty(), "{:?} never ended", open);
    }

    #[test]
    fn any_stream_gives_the_same_events_however_it_is_cut(
        asdus in vec(vec(any::<u8>(), 0..40), 0..10),
        noise in vec(any::<u8>(), 0..10),
        cuts in vec(1..50_usize, 1..10),
    ) {
        let mut stream = Vec::new();
        for (asdu, send) in asdus.iter().zip(0..) {
            Apdu::I { send, receive: 0, asdu }.emit(&mut stream);
        }
        stream.extend(&noise);
        let run = |cuts: &[usize]| {
            let mut pair = Pair::new(ClientConfig::new(1));
            let (mut rest, mut cuts) = (stream.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, left) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                pair.give(piece);
                rest = left;
            }
            std::format!("{:?} {:?}", pair.take(), pair.client.counters())
        };
        prop_assert_eq!(run(&[usize::MAX]), run(&cuts));
    }
}
