use super::{U1, U2, at_ms, events, hex, read, sent, vectors, write};
use crate::{
    Bank, ExceptionCode, Framing, Response, SerialTiming, Server, ServerConfig, ServerEvent, Unit, UnitSet, rtu_frame,
    tcp_frame,
};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Machine, Now};

fn connected(config: ServerConfig) -> Server {
    let mut server = Server::new(config);
    server.handle_connected(at_ms(0));
    server
}

fn serial() -> Server {
    let timing = SerialTiming::new(NonZeroU32::new(9600).unwrap());
    connected(ServerConfig::new(Framing::Rtu(timing), U1))
}

fn frame(rtu: bool, number: u16, unit: Unit, pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>| out.extend_from_slice(pdu);
    if rtu {
        rtu_frame(unit, &mut out, put)
    } else {
        tcp_frame(number, unit, &mut out, put)
    }
    out
}

fn give(server: &mut Server, now: Now, bytes: &[u8]) -> Vec<ServerEvent> {
    assert_eq!(server.handle_input(now, bytes), bytes.len());
    events(server)
}

#[test]
fn requests_come_out_and_answers_go_back() {
    let mut server = connected(ServerConfig::new(Framing::Tcp, U1));
    let asked = give(&mut server, at_ms(0), &frame(false, 7, Unit(255), &hex("03 0000 0001")));
    assert_eq!(asked, [ServerEvent::Request { id: 0, unit: Unit(255), request: read(0, 1) }]);
    let asked = give(&mut server, at_ms(0), &frame(false, 8, U1, &hex("06 0001 0002")));
    assert_eq!(asked, [ServerEvent::Request { id: 1, unit: U1, request: write(1, 2) }]);
    server.answer(1, Ok(Response::Written));
    server.answer(0, Err(ExceptionCode::SERVER_DEVICE_BUSY));
    server.answer(0, Ok(Response::Written));
    let answers = [frame(false, 8, U1, &hex("06 0001 0002")), frame(false, 7, Unit(255), &hex("83 06"))];
    assert_eq!(sent(&mut server, at_ms(0)), answers);
    give(&mut server, at_ms(0), &frame(false, 9, U1, &hex("03 0000 0001")));
    server.answer(2, Ok(Response::Registers([1, 2].into())));
    assert_eq!((sent(&mut server, at_ms(0))[0][7], server.counters().misfits), (0x83, 1));
}

#[test]
fn a_device_that_fails_gives_bytes_or_nothing_in_place_of_an_answer() {
    let mut server = connected(ServerConfig { requests_max: 1, ..ServerConfig::new(Framing::Tcp, U1) });
    let ask = |server: &mut Server, number| give(server, at_ms(0), &frame(false, number, U1, &hex("03 0000 0001")));
    for (id, bytes) in [(0, hex("")), (1, hex("ff fe"))] {
        assert_eq!(ask(&mut server, 7).len(), 1);
        server.fail(id, &bytes);
        server.fail(id, &bytes);
        let expect: Vec<Vec<u8>> = if bytes.is_empty() { Vec::new() } else { [bytes].into() };
        assert_eq!(sent(&mut server, at_ms(0)), expect);
    }
    // What had no answer holds no place.
    assert_eq!(ask(&mut server, 8).len(), 1);
}

#[test]
fn illegal_requests_are_refused() {
    for (pdu, code) in vectors(include_str!("../../tests/vectors/illegal.txt")) {
        let mut server = connected(ServerConfig::new(Framing::Tcp, U1));
        assert_eq!(give(&mut server, at_ms(0), &frame(false, 1, U1, &hex(pdu))), []);
        let expect = frame(false, 1, U1, &[hex(pdu)[0] | 0x80, hex(code)[0]]);
        assert_eq!(sent(&mut server, at_ms(0)), [expect], "{pdu}");
    }
}

#[test]
fn other_units_are_silent_or_refused() {
    let units: UnitSet = [U1, U2].into_iter().collect();
    let mut server = connected(ServerConfig::gateway(Framing::Tcp, units));
    assert_eq!(give(&mut server, at_ms(0), &frame(false, 1, Unit(3), &hex("03 0000 0001"))), []);
    assert_eq!(sent(&mut server, at_ms(0)), [frame(false, 1, Unit(3), &hex("83 0A"))]);
    let mut server = connected(ServerConfig { other_units: None, ..ServerConfig::gateway(Framing::Tcp, units) });
    assert_eq!(give(&mut server, at_ms(0), &frame(false, 1, Unit(3), &hex("03 0000 0001"))), []);
    assert!(sent(&mut server, at_ms(0)).is_empty());
}

#[test]
fn a_serial_line_has_other_devices_pauses_and_broadcasts() {
    let mut server = serial();
    // A request to another device, and its answer, as long as one to us would be.
    let mut line = frame(true, 0, U2, &hex("03 0000 0002"));
    line.extend(frame(true, 0, U2, &hex("03 04 0103 0000")));
    line.extend(frame(true, 0, U1, &hex("03 0000 0001")));
    assert_eq!(give(&mut server, at_ms(10), &line).len(), 1);
    server.answer(0, Ok(Response::Registers([5].into())));
    assert!(sent(&mut server, at_ms(12)).is_empty());
    assert_eq!(server.timeout(), Some(at_ms(10).mono + Duration::from_nanos(4_010_415)));
    assert_eq!(sent(&mut server, at_ms(15)), [frame(true, 0, U1, &hex("03 02 0005"))]);
    let asked = give(&mut server, at_ms(30), &frame(true, 0, Unit::BROADCAST, &hex("06 0001 0002")));
    assert_eq!(asked, [ServerEvent::Broadcast { request: write(1, 2) }]);
    assert_eq!(give(&mut server, at_ms(40), &frame(true, 0, Unit::BROADCAST, &hex("03 0001 0002"))), []);
    assert!(sent(&mut server, at_ms(60)).is_empty());
}

#[test]
fn a_pause_ends_what_has_no_length() {
    let mut server = serial();
    assert_eq!(give(&mut server, at_ms(0), &frame(true, 0, U1, &hex("08 0000 1234"))), []);
    let deadline = server.timeout().unwrap();
    assert_eq!(deadline, at_ms(20).mono + Duration::from_nanos(4_010_415));
    server.handle_timeout(at_ms(25));
    assert_eq!(sent(&mut server, at_ms(25)), [frame(true, 0, U1, &hex("88 01"))]);
    // Half a frame does not reach into the next.
    give(&mut server, at_ms(30), &hex("01 10 0000 0064 C8"));
    server.handle_timeout(at_ms(55));
    assert_eq!((server.counters().noise_bytes, server.timeout()), (7, None));
}

#[test]
fn requests_without_answers_are_bounded() {
    let mut server = connected(ServerConfig { requests_max: 2, ..ServerConfig::new(Framing::Tcp, U1) });
    let one = frame(false, 1, U1, &hex("03 0000 0001"));
    let three = [one.clone(), one.clone(), one.clone()].concat();
    assert_eq!(server.handle_input(at_ms(0), &three), 24);
    assert_eq!(events(&mut server).len(), 2);
    assert!(server.is_waiting() && server.handle_input(at_ms(0), &one) == 0);
    server.answer(0, Err(ExceptionCode::SERVER_DEVICE_BUSY));
    assert!(server.is_waiting(), "its answer is not sent");
    assert_eq!(sent(&mut server, at_ms(0)).len(), 1);
    assert_eq!(give(&mut server, at_ms(0), &one).len(), 1);
}

#[test]
fn a_bank_does_what_it_is_asked() {
    let mut bank = Bank::new(20);
    let mut ask = |pdu: &str| bank.handle(&crate::Request::parse(&hex(pdu)).unwrap());
    assert_eq!(ask("10 0004 0002 04 0012 0013"), Ok(Response::Written));
    assert_eq!(ask("16 0004 00F2 0025"), Ok(Response::Written));
    assert_eq!(ask("03 0004 0002"), Ok(Response::Registers([0x17, 0x13].into())));
    assert_eq!(ask("17 0004 0001 0004 0001 02 0009"), Ok(Response::Registers([9].into())));
    assert_eq!(ask("0F 0000 0003 01 05"), Ok(Response::Written));
    assert_eq!(ask("05 0001 FF00"), Ok(Response::Written));
    assert_eq!(ask("01 0000 0004"), Ok(Response::Bits([true, true, true, false].into_iter().collect())));
    assert_eq!(ask("02 0000 0001"), Ok(Response::Bits([false].into_iter().collect())));
    assert_eq!(ask("04 0000 0001"), Ok(Response::Registers([0].into())));
    assert_eq!(ask("04 0013 0002"), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    // Nothing is written where the read is refused.
    assert_eq!(ask("17 0013 0002 0004 0001 02 0001"), Err(ExceptionCode::ILLEGAL_DATA_ADDRESS));
    assert_eq!(ask("03 0004 0001"), Ok(Response::Registers([9].into())));
}

/// The events of a server, given a stream in pieces, and its answers: refusals of illegal requests may overtake others.
fn outcome(rtu: bool, stream: &[u8], cuts: &[usize]) -> (Vec<ServerEvent>, Vec<Vec<u8>>) {
    let framing = if rtu { Framing::RtuOverTcp } else { Framing::Tcp };
    let mut server = connected(ServerConfig { requests_max: 3, ..ServerConfig::new(framing, U1) });
    let (mut rest, mut all, mut out) = (stream, Vec::new(), Vec::new());
    let mut bank = Bank::new(100);
    let mut cuts = cuts.iter().copied();
    while !rest.is_empty() && !server.is_closed() {
        let piece = &rest[..cuts.next().unwrap_or(usize::MAX).clamp(1, rest.len())];
        let used = server.handle_input(at_ms(1), piece);
        rest = &rest[used..];
        let mut moved = used;
        for event in events(&mut server) {
            if let ServerEvent::Request { id, request, .. } = &event {
                server.answer(*id, bank.handle(request));
            }
            all.push(event);
            moved += 1;
        }
        let answers = sent(&mut server, at_ms(1));
        moved += answers.len();
        out.extend(answers);
        assert!(moved > 0, "no progress");
    }
    out.sort();
    (all, out)
}

proptest! {
    #[test]
    fn any_cut_of_a_stream_gives_the_same_answers(
        rtu in any::<bool>(),
        pieces in prop::collection::vec(
            prop_oneof![
                3 => (super::codec::requests(), 0..4_u8).prop_map(|(request, unit)| {
                    let mut pdu = Vec::new();
                    request.emit(&mut pdu);
                    (Some(unit), pdu)
                }),
                1 => (0..4_u8, prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(unit, pdu)| (Some(unit), pdu)),
                1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|noise| (None, noise)),
                1 => prop::collection::vec(0..17_u8, 0..300).prop_map(|noise| (None, noise)),
            ],
            0..10,
        ),
        cuts in prop::collection::vec(1..50_usize, 0..100),
    ) {
        let stream: Vec<u8> = pieces.into_iter().flat_map(|(unit, bytes)| match unit {
            Some(unit) => frame(rtu, 1, Unit(unit), &bytes),
            None => bytes,
        }).collect();
        prop_assert_eq!(outcome(rtu, &stream, &[]), outcome(rtu, &stream, &cuts));
    }
}
