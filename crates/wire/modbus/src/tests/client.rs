use super::{U1, U2, at_ms, events, hex, read, sent, write};
use crate::{
    Client, ClientConfig, ClientEvent, ExceptionCode, Failure, Framing, Priority, Request, Response, SerialTiming,
    SubmitError, Transaction, Unit, rtu_frame, tcp_frame,
};
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Instant, Machine, Now};

fn connected(config: ClientConfig) -> Client {
    let mut client = Client::new(config);
    client.handle_connected(at_ms(0));
    client
}

fn tcp(in_flight: u8, retries: u8) -> Client {
    connected(ClientConfig { in_flight, retries, ..ClientConfig::new(Framing::Tcp) })
}

fn serial(retries: u8) -> Client {
    let timing = SerialTiming::new(NonZeroU32::new(9600).unwrap());
    connected(ClientConfig { retries, ..ClientConfig::new(Framing::Rtu(timing)) })
}

fn ask(client: &mut Client, id: u64, unit: Unit, request: Request) {
    let transaction = Transaction { id, unit, request, deadline: at_ms(100_000).mono, priority: Priority::Normal };
    client.submit(transaction).unwrap();
}

/// Gives bytes, all of which are taken.
fn give(client: &mut Client, now: Now, bytes: &[u8]) -> Vec<ClientEvent> {
    assert_eq!(client.handle_input(now, bytes), bytes.len());
    events(client)
}

fn tcp_answer(number: u16, unit: Unit, pdu: &str) -> Vec<u8> {
    let mut out = Vec::new();
    tcp_frame(number, unit, &mut out, |out| out.extend(hex(pdu)));
    out
}

fn rtu_answer(unit: Unit, pdu: &str) -> Vec<u8> {
    let mut out = Vec::new();
    rtu_frame(unit, &mut out, |out| out.extend(hex(pdu)));
    out
}

fn registers(id: u64, values: &[u16]) -> ClientEvent {
    ClientEvent::Answer { id, response: Response::Registers(values.into()) }
}

fn failed(id: u64, reason: Failure, sent: bool) -> ClientEvent {
    ClientEvent::Failed { id, reason, sent }
}

#[test]
fn a_read_and_its_answer() {
    let mut client = tcp(1, 0);
    ask(&mut client, 7, U1, read(4, 2));
    ask(&mut client, 8, U1, read(6, 1));
    assert_eq!(sent(&mut client, at_ms(0)), [hex("0000 0000 0006 01 03 0004 0002")]);
    assert_eq!(give(&mut client, at_ms(5), &tcp_answer(0, U1, "03 04 000A 000B")), [registers(7, &[10, 11])]);
    assert_eq!(sent(&mut client, at_ms(5)), [hex("0001 0000 0006 01 03 0006 0001")]);
    let exception = ClientEvent::Exception { id: 8, code: ExceptionCode::ILLEGAL_DATA_ADDRESS };
    assert_eq!(give(&mut client, at_ms(9), &tcp_answer(1, U1, "83 02")), [exception]);
    assert_eq!((client.timeout(), client.open()), (None, 0));
}

#[test]
fn a_refusal_with_the_wrong_function_is_a_refusal() {
    let exception = ClientEvent::Exception { id: 1, code: ExceptionCode(3) };
    let mut client = tcp(1, 0);
    ask(&mut client, 1, U1, read(0, 1));
    sent(&mut client, at_ms(0));
    assert_eq!(give(&mut client, at_ms(1), &tcp_answer(0, U1, "80 03")), std::slice::from_ref(&exception));
    ask(&mut client, 1, U2, read(0, 1));
    sent(&mut client, at_ms(1));
    assert_eq!(give(&mut client, at_ms(2), &tcp_answer(1, U1, "83 03")), std::slice::from_ref(&exception));
    let mut client = serial(0);
    ask(&mut client, 1, U1, read(0, 1));
    sent(&mut client, at_ms(10));
    // An earlier request's refusal is not this one's; function 0 is anybody's.
    assert_eq!(give(&mut client, at_ms(50), &rtu_answer(U1, "81 02")), []);
    assert_eq!(give(&mut client, at_ms(60), &rtu_answer(U1, "80 03")), [exception]);
}

#[test]
fn stale_answers_are_skipped_and_a_late_one_is_not_the_next() {
    let mut client = tcp(1, 0);
    ask(&mut client, 1, U1, read(0, 1));
    ask(&mut client, 2, U1, read(50, 1));
    sent(&mut client, at_ms(0));
    client.handle_timeout(at_ms(1000));
    assert_eq!(events(&mut client), [failed(1, Failure::Lost, true)]);
    assert_eq!(sent(&mut client, at_ms(1000)).len(), 1);
    assert_eq!(give(&mut client, at_ms(1001), &tcp_answer(0, U1, "03 02 0001")), []);
    assert_eq!(give(&mut client, at_ms(1002), &tcp_answer(1, U1, "03 02 0002")), [registers(2, &[2])]);
    assert_eq!(client.counters().stale, 1);
}

#[test]
fn a_lost_read_is_sent_again_and_a_lost_write_is_not() {
    let mut client = tcp(1, 1);
    ask(&mut client, 1, U1, read(0, 1));
    ask(&mut client, 2, U2, write(0, 1));
    assert_eq!(sent(&mut client, at_ms(0))[0][6], 1);
    client.handle_timeout(at_ms(1000));
    // The other unit has its turn first.
    assert_eq!(sent(&mut client, at_ms(1000))[0][6], 2);
    client.handle_timeout(at_ms(2000));
    assert_eq!(events(&mut client), [failed(2, Failure::Lost, true)]);
    assert_eq!(sent(&mut client, at_ms(2000))[0][6], 1);
    client.handle_timeout(at_ms(3000));
    assert_eq!(events(&mut client), [ClientEvent::Closing, failed(1, Failure::Lost, true)]);
    assert!(client.is_closed());
}

#[test]
fn one_silent_unit_does_not_close_the_connection() {
    let mut client = tcp(1, 0);
    ask(&mut client, 0, U2, read(0, 1));
    sent(&mut client, at_ms(0));
    give(&mut client, at_ms(0), &tcp_answer(0, U2, "03 02 0001"));
    for lost in 1..=10 {
        ask(&mut client, lost, U1, read(0, 1));
        sent(&mut client, at_ms(1000 * lost - 1000));
        client.handle_timeout(at_ms(1000 * lost));
        assert_eq!(events(&mut client), [failed(lost, Failure::Lost, true)]);
    }
    assert!(!client.is_closed());
    // The other one is silent too.
    ask(&mut client, 11, U2, read(0, 1));
    sent(&mut client, at_ms(10_000));
    client.handle_timeout(at_ms(11_000));
    assert_eq!(events(&mut client), [ClientEvent::Closing, failed(11, Failure::Lost, true)]);
}

#[test]
fn a_serial_line_is_never_closed() {
    let mut client = serial(0);
    for lost in 1..=40 {
        ask(&mut client, lost, U1, read(0, 1));
        sent(&mut client, at_ms(2000 * lost));
        client.handle_timeout(at_ms(2000 * lost + 1999));
        assert_eq!(events(&mut client), [failed(lost, Failure::Lost, true)]);
    }
    assert!(!client.is_closed());
}

#[test]
fn units_take_turns_and_commands_go_first() {
    let mut client = tcp(1, 0);
    for (id, unit) in [(1, U1), (2, U1), (3, U2), (4, Unit(9)), (5, U1)] {
        ask(&mut client, id, unit, read(0, 1));
    }
    let urgent =
        Transaction { id: 6, unit: U1, request: write(0, 1), deadline: at_ms(9000).mono, priority: Priority::Urgent };
    let mut order = Vec::new();
    for number in 0..6 {
        let frame = sent(&mut client, at_ms(0)).remove(0);
        order.push((frame[6], frame[7]));
        if number == 0 {
            client.submit(urgent.clone()).unwrap();
        }
        let answer = if frame[7] == 6 { "06 0000 0001" } else { "03 02 0000" };
        assert_eq!(give(&mut client, at_ms(0), &tcp_answer(number, Unit(frame[6]), answer)).len(), 1);
    }
    assert_eq!(order, [(1, 3), (1, 6), (2, 3), (9, 3), (1, 3), (1, 3)]);
}

#[test]
fn several_in_flight_fall_back_to_one_for_good() {
    let mut client = tcp(4, 1);
    for id in 0..6 {
        ask(&mut client, id, U1, read(0, 1));
    }
    assert_eq!(sent(&mut client, at_ms(0)).len(), 4);
    let answers: Vec<u8> = [3, 0, 1].into_iter().flat_map(|number| tcp_answer(number, U1, "03 02 0009")).collect();
    assert_eq!(give(&mut client, at_ms(1), &answers), [registers(3, &[9]), registers(0, &[9]), registers(1, &[9])]);
    assert_eq!(sent(&mut client, at_ms(1)).len(), 2);
    give(&mut client, at_ms(2), &tcp_answer(4, U1, "03 02 0009"));
    give(&mut client, at_ms(2), &tcp_answer(5, U1, "03 02 0009"));
    client.handle_timeout(at_ms(1000));
    assert_eq!(events(&mut client), [ClientEvent::WindowReduced { from: 4 }]);
    ask(&mut client, 9, U1, read(0, 1));
    assert_eq!((sent(&mut client, at_ms(1000)).len(), client.window()), (1, 1));
    client.handle_disconnected(at_ms(1001));
    client.handle_connected(at_ms(1002));
    assert_eq!(client.window(), 1);
}

#[test]
fn an_answer_that_is_lost_alone_says_nothing_about_several() {
    let mut client = tcp(4, 0);
    ask(&mut client, 1, U1, read(0, 1));
    sent(&mut client, at_ms(0));
    client.handle_timeout(at_ms(1000));
    assert_eq!((events(&mut client).len(), client.window()), (1, 4));
}

#[test]
fn a_write_is_alone_at_its_unit() {
    let mut client = tcp(8, 0);
    ask(&mut client, 1, U1, read(0, 1));
    ask(&mut client, 2, U1, write(0, 1));
    ask(&mut client, 3, U1, read(0, 1));
    ask(&mut client, 4, U2, read(0, 1));
    assert_eq!(sent(&mut client, at_ms(0)).iter().map(|frame| frame[6]).collect::<Vec<_>>(), [1, 2]);
    // Nothing to wait for but the answers.
    assert_eq!(client.timeout(), Some(at_ms(1000).mono));
    give(&mut client, at_ms(1), &tcp_answer(0, U1, "03 02 0000"));
    assert_eq!(sent(&mut client, at_ms(1))[0][7], 6);
    give(&mut client, at_ms(2), &tcp_answer(2, U1, "06 0000 0001"));
    assert_eq!(sent(&mut client, at_ms(2))[0][7], 3);
}

#[test]
fn answers_that_do_not_fit_are_garbage() {
    let check = |answer: Vec<u8>| {
        let mut client = tcp(1, 0);
        ask(&mut client, 1, U1, write(5, 6));
        sent(&mut client, at_ms(0));
        assert_eq!(give(&mut client, at_ms(1), &answer), [failed(1, Failure::Garbage, true)], "{answer:02X?}");
    };
    check(tcp_answer(0, U1, "06 0005 0007"));
    check(tcp_answer(0, U1, "03 02 0000"));
    check(tcp_answer(0, U2, "06 0005 0006"));
}

#[test]
fn deadlines_end_what_waits_and_what_flies() {
    let mut client = tcp(1, 3);
    let until = |id, ms| Transaction {
        id,
        unit: U1,
        request: read(0, 1),
        deadline: at_ms(ms).mono,
        priority: Priority::Normal,
    };
    client.submit(until(1, 300)).unwrap();
    client.submit(until(2, 200)).unwrap();
    sent(&mut client, at_ms(0));
    assert_eq!(client.timeout(), Some(at_ms(200).mono));
    client.handle_timeout(at_ms(200));
    assert_eq!(events(&mut client), [failed(2, Failure::TimedOut, false)]);
    client.handle_timeout(at_ms(300));
    assert_eq!(events(&mut client), [failed(1, Failure::TimedOut, true)]);
    // The device has its time all the same, and its answer is nobody's.
    client.submit(until(3, 5000)).unwrap();
    assert_eq!((sent(&mut client, at_ms(300)).len(), client.timeout()), (0, Some(at_ms(1000).mono)));
    assert_eq!(give(&mut client, at_ms(400), &tcp_answer(0, U1, "03 02 0000")), []);
    assert_eq!(sent(&mut client, at_ms(400)).len(), 1);
}

#[test]
fn a_connection_that_ends_fails_what_is_open() {
    let mut client = tcp(1, 3);
    ask(&mut client, 1, U1, write(0, 1));
    ask(&mut client, 2, U1, write(0, 1));
    sent(&mut client, at_ms(0));
    client.handle_disconnected(at_ms(1));
    assert_eq!(events(&mut client), [failed(1, Failure::Disconnected, true), failed(2, Failure::Disconnected, false)]);
    let transaction =
        Transaction { id: 3, unit: U1, request: read(0, 1), deadline: Instant(u64::MAX), priority: Priority::Normal };
    assert_eq!(client.submit(transaction), Err(SubmitError::Disconnected));
}

#[test]
fn what_is_not_taken() {
    let mut client = connected(ClientConfig { queue_max: 2, ..ClientConfig::new(Framing::RtuOverTcp) });
    let submit = |client: &mut Client, unit, request| {
        let deadline = at_ms(9000).mono;
        client.submit(Transaction { id: 0, unit, request, deadline, priority: Priority::Normal })
    };
    assert!(matches!(submit(&mut client, U1, read(0, 126)), Err(SubmitError::Request(_))));
    assert_eq!(submit(&mut client, Unit::BROADCAST, read(0, 1)), Err(SubmitError::Broadcast));
    assert_eq!(submit(&mut client, U1, read(0, 1)), Ok(()));
    assert_eq!(submit(&mut client, U1, read(0, 1)), Ok(()));
    assert_eq!(submit(&mut client, U1, read(0, 1)), Err(SubmitError::Full));
}

#[test]
fn a_serial_line_keeps_its_pauses() {
    let mut client = serial(0);
    ask(&mut client, 1, U1, read(0, 1));
    ask(&mut client, 2, U1, read(0, 1));
    assert_eq!(sent(&mut client, at_ms(1)).len(), 0);
    // 3.5 characters of 1.146 ms after the line was opened.
    let ready = at_ms(0).mono + Duration::from_nanos(4_010_415);
    assert_eq!(client.timeout(), Some(ready));
    let now = Now { mono: ready, ..at_ms(4) };
    client.handle_timeout(now);
    assert_eq!(sent(&mut client, now), [hex("01 03 0000 0001 840A")]);
    // Eight characters leave, and a second for the answer.
    assert_eq!(client.timeout(), Some(ready + Duration::from_nanos(8 * 1_145_833) + Duration::from_secs(1)));
    assert_eq!(give(&mut client, at_ms(30), &rtu_answer(U1, "03 02 0005")), [registers(1, &[5])]);
    assert_eq!(sent(&mut client, at_ms(33)).len(), 0);
    assert_eq!(client.timeout(), Some(at_ms(30).mono + Duration::from_nanos(4_010_415)));
    assert_eq!(sent(&mut client, at_ms(35)).len(), 1);
}

#[test]
fn after_a_lost_answer_a_line_is_drained() {
    let mut client = serial(0);
    ask(&mut client, 1, U1, read(0, 1));
    ask(&mut client, 2, U2, read(0, 1));
    sent(&mut client, at_ms(10));
    give(&mut client, at_ms(1017), &hex("01 03"));
    client.handle_timeout(at_ms(1020));
    assert_eq!(events(&mut client), [failed(1, Failure::Garbage, true)]);
    assert_eq!(sent(&mut client, at_ms(1020)).len(), 0, "its answer is on the line");
    assert_eq!(give(&mut client, at_ms(1021), &hex("02 0005")), []);
    assert_eq!(sent(&mut client, at_ms(1025)).len(), 0);
    assert_eq!(sent(&mut client, at_ms(1026)).len(), 1);
    assert_eq!(give(&mut client, at_ms(1030), &rtu_answer(U1, "03 02 0007")), []);
    assert_eq!(give(&mut client, at_ms(1050), &rtu_answer(U2, "03 02 0008")), [registers(2, &[8])]);
}

#[test]
fn an_rtu_answer_is_found_in_noise() {
    let mut client = connected(ClientConfig::new(Framing::RtuOverTcp));
    ask(&mut client, 1, U1, read(0, 2));
    assert_eq!(sent(&mut client, at_ms(0)).len(), 1);
    let mut line = hex("FF 01 03 C8 00 01 03 04");
    line.extend(rtu_answer(U2, "03 04 0001 0002"));
    line.extend(rtu_answer(U1, "03 02 0001"));
    line.extend(rtu_answer(U1, "03 04 0003 0004"));
    line.extend(rtu_answer(U1, "03 04 0005 0006"));
    assert_eq!(give(&mut client, at_ms(1), &line), [registers(1, &[3, 4])]);
}

#[test]
fn a_broadcast_waits_for_no_answer() {
    let mut client = serial(0);
    ask(&mut client, 1, Unit::BROADCAST, write(0, 1));
    assert_eq!(sent(&mut client, at_ms(10))[0][0], 0);
    ask(&mut client, 2, U1, read(0, 1));
    let turnaround = at_ms(10).mono + Duration::from_nanos(8 * 1_145_833) + Duration::from_millis(100);
    assert_eq!(client.timeout(), Some(turnaround));
    client.handle_timeout(at_ms(120));
    assert_eq!(events(&mut client), [ClientEvent::Sent { id: 1 }]);
    assert_eq!(sent(&mut client, at_ms(120))[0][0], 1);
    // On TCP, unit 0 is a device like others.
    let mut client = tcp(1, 0);
    ask(&mut client, 1, Unit(0), read(0, 1));
    sent(&mut client, at_ms(0));
    assert_eq!(give(&mut client, at_ms(1), &tcp_answer(0, Unit(0), "03 02 0001")), [registers(1, &[1])]);
}

#[test]
fn a_stream_out_of_step_is_found_again_or_closed() {
    let mut client = tcp(1, 0);
    ask(&mut client, 1, U1, read(0, 1));
    sent(&mut client, at_ms(0));
    let mut line = hex("FFFF FFFF FFFF");
    line.extend(tcp_answer(0, U1, "03 02 0001"));
    assert_eq!(give(&mut client, at_ms(1), &line), [registers(1, &[1])]);
    assert_eq!(client.counters().noise_bytes, 6);
    assert_eq!(give(&mut client, at_ms(1), &[0xFF; 400]), [ClientEvent::Closing]);
    assert!(client.is_closed());
}

#[test]
fn a_connection_is_small() {
    let mut client = tcp(1, 0);
    for id in 0..4 {
        ask(&mut client, id, U1, read(0, 18));
    }
    sent(&mut client, at_ms(0));
    // A queue of four, one in flight, a frame in parts.
    let heap = 4 * size_of::<Transaction>() + 64 + 4 * size_of::<ClientEvent>() + 260 + 4 * 120;
    assert!(size_of::<Client>() + heap <= 2048, "{} + {heap} bytes", size_of::<Client>());
}

/// The events of a client that has asked, given a stream in pieces.
fn events_of(framing: Framing, stream: &[u8], cuts: &[usize]) -> Vec<ClientEvent> {
    let mut client = connected(ClientConfig { in_flight: 3, ..ClientConfig::new(framing) });
    for id in 0..3 {
        ask(&mut client, id, U1, read(0, 2));
    }
    sent(&mut client, at_ms(0));
    let mut rest = stream;
    let mut all = Vec::new();
    for cut in cuts.iter().chain([&usize::MAX]) {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        all.extend(give(&mut client, at_ms(1), piece));
        rest = after;
    }
    all
}

/// Pieces of a stream: answers, good and bad, and noise.
fn streams(rtu: bool) -> impl Strategy<Value = Vec<u8>> {
    let answer = move |number: u16, unit: u8, pdu: Vec<u8>| {
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>| out.extend(pdu);
        if rtu {
            rtu_frame(Unit(unit), &mut out, put)
        } else {
            tcp_frame(number, Unit(unit), &mut out, put)
        }
        out
    };
    let piece = prop_oneof![
        3 => (0..4_u16, any::<u32>()).prop_map(move |(number, value)| {
            answer(number, 1, [&[3, 4][..], &value.to_be_bytes()].concat())
        }),
        1 => (0..4_u16, 0..3_u8).prop_map(move |(number, unit)| answer(number, unit, std::vec![0x83, 2])),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(prop::sample::select(std::vec![0_u8, 1, 3, 4]), 0..300),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_cut_of_a_stream_gives_the_same_events(
        (rtu, stream) in any::<bool>().prop_flat_map(|rtu| (Just(rtu), streams(rtu))),
        cuts in prop::collection::vec(0..30_usize, 0..60),
    ) {
        let framing = if rtu { Framing::RtuOverTcp } else { Framing::Tcp };
        prop_assert_eq!(events_of(framing, &stream, &[]), events_of(framing, &stream, &cuts));
    }
}

#[test]
fn a_pseudo_terminal_answers_before_the_request_can_have_left() {
    let mut client = serial(0);
    ask(&mut client, 1, U1, read(0, 1));
    ask(&mut client, 2, U1, read(0, 1));
    ask(&mut client, 3, U1, read(0, 1));
    sent(&mut client, at_ms(10));
    client.handle_timeout(at_ms(1020));
    assert_eq!(events(&mut client), [failed(1, Failure::Lost, true)]);
    // After a loss an early answer is not believed once, and then it is.
    assert_eq!(sent(&mut client, at_ms(2100)).len(), 1);
    assert_eq!(give(&mut client, at_ms(2101), &rtu_answer(U1, "03 02 0007")), []);
    client.handle_timeout(at_ms(3200));
    assert_eq!(events(&mut client), [failed(2, Failure::Lost, true)]);
    assert_eq!(sent(&mut client, at_ms(4300)).len(), 1);
    assert_eq!(give(&mut client, at_ms(4301), &rtu_answer(U1, "03 02 0008")), [registers(3, &[8])]);
}

#[test]
fn what_is_cancelled_ends_without_an_event_and_leaves_its_place_to_the_answer() {
    let mut client = tcp(1, 3);
    for (id, unit) in [(1, U1), (2, U2), (3, U1)] {
        ask(&mut client, id, unit, write(0, 1));
    }
    assert_eq!(sent(&mut client, at_ms(0)).len(), 1);
    assert_eq!(client.cancel(|id| id != 2), [(3, false), (1, true)]);
    assert_eq!(client.cancel(|id| id != 2), []);
    assert_eq!((client.open(), sent(&mut client, at_ms(1)).len()), (1, 0));
    assert_eq!(give(&mut client, at_ms(5), &tcp_answer(0, U1, "06 0000 0001")), []);
    assert_eq!(sent(&mut client, at_ms(5)).len(), 1);
    client.set_queue_max(1);
    let transaction =
        Transaction { id: 4, unit: U1, request: read(0, 1), deadline: at_ms(9000).mono, priority: Priority::Normal };
    assert_eq!(client.submit(transaction), Err(SubmitError::Full));
}
