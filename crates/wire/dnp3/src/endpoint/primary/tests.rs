use super::super::{EndpointConfig, Received};
use super::*;
use crate::link::Decoder;
use alloc::string::String;
use core::fmt::Write;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const PEER: LinkAddress = LinkAddress::new(10);

/// A master whose link confirms, and its outstation.
struct Pair {
    now: Instant,
    master: Endpoint,
    station: Endpoint,
}

impl Pair {
    fn new(service: LinkService) -> Self {
        let config = EndpointConfig { remote: Some(PEER), ..EndpointConfig::new(Role::Master, LinkAddress::new(1)) };
        let mut master = Endpoint::new(config);
        master.set_link_service(Some(service));
        let now = Instant(1_000_000_000);
        master.handle_connected(now);
        Self { now, master, station: Endpoint::new(EndpointConfig::new(Role::Outstation, PEER)) }
    }

    fn write(&mut self, bytes: usize) -> Vec<u8> {
        assert!(!self.master.holds_back(self.now));
        let mut out = Vec::new();
        self.master.write_fragment(PEER, &alloc::vec![7; bytes], &mut out);
        out
    }

    fn said(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.master.holds_back(self.now);
        self.master.poll_transmit(&mut out);
        out
    }

    fn wait(&mut self, by: Duration) {
        self.now = self.now + by;
        self.master.handle_timeout(self.now);
    }

    fn answer(&mut self, function: Function, busy: bool) {
        let mut control = Control::new(false, function);
        control.0 |= if busy { 0x10 } else { 0 };
        let mut out = Vec::new();
        Header { control, destination: LinkAddress::new(1), source: PEER }.emit(&[], &mut out);
        self.master.handle_input(&out);
    }

    /// Lets the outstation take frames and answer them; whether a fragment is complete.
    fn pass(&mut self, bytes: &[u8]) -> bool {
        let (_, received) = self.station.handle_input(bytes);
        if received.is_some() {
            self.station.release();
        }
        let mut back = Vec::new();
        self.station.poll_transmit(&mut back);
        self.master.handle_input(&back);
        matches!(received, Some(Received::Fragment { .. }))
    }
}

/// Functions of frames, with the frame count where it counts.
fn frames(bytes: &[u8]) -> String {
    let (mut decoder, mut rest, mut told) = (Decoder::new(), bytes, String::new());
    while let Some(Ok(frame)) = decoder.decode(&mut rest) {
        let control = frame.header().control;
        let count = if control.fcv() { if control.fcb() { " 1" } else { " 0" } } else { "" };
        let comma = if told.is_empty() { "" } else { ", " };
        let _ = write!(told, "{comma}{}{count}", control.function().map_or("?", Function::name));
    }
    told
}

#[track_caller]
fn check(found: &[u8], expect: &str) {
    assert_eq!(frames(found), expect);
}

fn confirming() -> LinkService {
    LinkService { confirms: true, ..LinkService::default() }
}

#[test]
fn frames_go_one_by_one_after_a_reset() {
    let mut pair = Pair::new(confirming());
    let out = pair.write(600);
    check(&out, "reset-link");
    assert!(pair.master.holds_back(pair.now));
    check(&pair.said(), "");
    pair.pass(&out);
    for (expect, complete) in
        [("confirmed-user-data 1", false), ("confirmed-user-data 0", false), ("confirmed-user-data 1", true)]
    {
        let out = pair.said();
        check(&out, expect);
        assert_eq!(pair.pass(&out), complete);
    }
    assert!(!pair.master.holds_back(pair.now));
    let out = pair.write(3);
    check(&out, "confirmed-user-data 0");
    assert!(pair.pass(&out));
    assert_eq!(pair.master.primary_counters(), PrimaryCounters { confirmed: 4, ..PrimaryCounters::default() });
    assert_eq!(pair.master.timeout(), None);
}

#[test]
fn silence_repeats_the_same_frame_and_gives_up() {
    let mut pair = Pair::new(confirming());
    let out = pair.write(3);
    pair.pass(&out);
    let first = pair.said();
    // The answer is lost: the outstation has it, and does not take it twice.
    assert!(pair.station.handle_input(&first).1.is_some());
    pair.station.release();
    pair.wait(SECOND);
    let again = pair.said();
    assert_eq!(again, first);
    pair.wait(SECOND);
    check(&pair.said(), "confirmed-user-data 1");
    pair.wait(SECOND);
    check(&pair.said(), "");
    assert!(!pair.master.holds_back(pair.now));
    check(&pair.write(3), "reset-link");
    let counters = pair.master.primary_counters();
    assert_eq!((counters.retries, counters.given_up), (2, 1));
}

#[test]
fn a_refusal_resets_the_link_and_full_buffers_wait() {
    let mut pair = Pair::new(confirming());
    let out = pair.write(3);
    pair.pass(&out);
    check(&pair.said(), "confirmed-user-data 1");
    pair.answer(Function::Nack, false);
    check(&pair.said(), "reset-link");
    pair.answer(Function::Ack, false);
    check(&pair.said(), "confirmed-user-data 1");
    pair.answer(Function::Nack, true);
    check(&pair.said(), "");
    pair.wait(SECOND);
    check(&pair.said(), "request-link-status");
    pair.answer(Function::Status, true);
    check(&pair.said(), "");
    pair.wait(SECOND);
    check(&pair.said(), "request-link-status");
    pair.answer(Function::Status, false);
    check(&pair.said(), "confirmed-user-data 1");
    pair.answer(Function::Ack, true);
    assert_eq!((pair.master.primary_counters().confirmed, pair.master.primary_counters().busy), (1, 3));
    pair.wait(SECOND);
    check(&pair.write(3), "confirmed-user-data 0");
    pair.answer(Function::NotSupported, false);
    assert!(!pair.master.holds_back(pair.now));
}

#[test]
fn broadcasts_are_not_confirmed() {
    let mut pair = Pair::new(confirming());
    let mut out = Vec::new();
    pair.master.write_fragment(LinkAddress::new(0xFFFF), &[1, 2, 3], &mut out);
    check(&out, "unconfirmed-user-data");
}

#[test]
fn a_silent_link_is_asked_and_lost() {
    let mut pair = Pair::new(LinkService { keep_alive: Some(10 * SECOND), ..LinkService::default() });
    check(&pair.write(3), "unconfirmed-user-data");
    assert_eq!(pair.master.timeout(), Some(pair.now + 10 * SECOND));
    pair.wait(10 * SECOND);
    check(&pair.said(), "request-link-status");
    pair.answer(Function::Status, false);
    check(&pair.said(), "");
    assert_eq!(pair.master.timeout(), Some(pair.now + 10 * SECOND));
    pair.wait(10 * SECOND);
    check(&pair.said(), "request-link-status");
    pair.wait(SECOND);
    assert!(pair.master.is_broken());
    pair.master.reset();
    assert!(!pair.master.is_broken() && pair.master.timeout().is_none());
}

proptest! {
    /// Over a line that loses frames either way every fragment arrives at most once and in order, and none is stuck.
    #[test]
    fn lost_frames_lose_no_order(losses in prop::collection::vec(any::<(bool, bool)>(), 1..200)) {
        let mut pair = Pair::new(LinkService { retries: 5, ..confirming() });
        let (mut given, mut next) = (Vec::new(), 0_u8);
        for (there, back) in losses {
            let mut out = Vec::new();
            if pair.master.holds_back(pair.now) {
                pair.master.poll_transmit(&mut out);
            } else {
                next = next.wrapping_add(1);
                pair.master.write_fragment(PEER, &[next; 300], &mut out);
            }
            if !there {
                if let (_, Some(Received::Fragment { .. })) = pair.station.handle_input(&out) {
                    given.push(pair.station.fragment().first().copied());
                    pair.station.release();
                }
                let mut answers = Vec::new();
                pair.station.poll_transmit(&mut answers);
                if !back {
                    pair.master.handle_input(&answers);
                }
            }
            pair.wait(SECOND);
        }
        prop_assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
    }
}
