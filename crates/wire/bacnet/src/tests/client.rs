//! The client against servers: answers, segments, silence, strangers, limits.

use super::hex;
use super::network::{CLIENT, Faults, Network, address, real};
use crate::apdu::{Apdu, Segment};
use crate::bvlc::Bvlc;
use crate::client::{ClientConfig, Event, Failure, ForeignConfig, PeerLimits, Request, RequestError, Target};
use crate::names::{AbortReason, ConfirmedService, Segmentation};
use crate::npdu::Npdu;
use crate::server::ServerConfig;
use crate::service::{ReadAck, ReadMultipleAck, WhoHas, WhoHasWhat, Write};
use crate::{Mac, ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Station, Value};
use core::time::Duration;
use std::vec::Vec;
use tieline_core::Now;

const LONG: Duration = Duration::from_secs(120);

fn present(instance: u32) -> PropertyRef {
    PropertyRef::new(ObjectId::new(ObjectType::ANALOG_VALUE, instance), PropertyId::PRESENT_VALUE)
}

fn large() -> PeerLimits {
    PeerLimits { max_apdu: 1476, segmentation: Segmentation::BOTH, ..PeerLimits::default() }
}

fn only_answer(events: Vec<Event>) -> Result<Vec<u8>, Failure> {
    let [Event::Answer { result, .. }] = <[Event; 1]>::try_from(events).unwrap() else { panic!("no answer") };
    result
}

/// The datagram of a message to the client.
fn unicast(apdu: &Apdu<'_>) -> Vec<u8> {
    let (mut bytes, mut npdu, mut out) = (Vec::new(), Vec::new(), Vec::new());
    apdu.emit(&mut bytes);
    Npdu::local(&bytes, false).emit(&mut npdu);
    Bvlc::Unicast(&npdu).emit(&mut out);
    out
}

#[test]
fn a_value_is_read() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = network.serve(1, ServerConfig::default(), 10);
    network.client.request(network.now, peer, Request::Read(present(8))).unwrap();
    let answer = only_answer(network.run(LONG)).unwrap();
    assert_eq!(Value::decode(ReadAck::parse(&answer).unwrap().value), Ok(real(8)));
}

#[test]
fn eight_hundred_values_come_in_one_answer_and_go_in_one_request() {
    for seed in 0..40 {
        let mut network = Network::new(ClientConfig::default(), seed);
        network.faults = Faults { lost: seed % 4 * 4, repeated: seed % 3 * 10, late: seed % 5 * 10 };
        let peer = network.serve(1, ServerConfig::default(), 800);
        network.client.set_limits(peer, large());
        let references: Vec<_> = (0..800).map(present).collect();
        network.client.request(network.now, peer, Request::ReadMultiple(&references)).unwrap();
        let events = network.run(LONG);
        let answer = only_answer(events).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let mut results = ReadMultipleAck::new(&answer);
        let values: Vec<_> = core::iter::from_fn(|| results.next_value()).map(|r| r.unwrap().1.unwrap()).collect();
        assert_eq!(values, (0..800).map(real).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn every_request_has_one_answer_whatever_the_network_does() {
    for seed in 0..60 {
        let config = ClientConfig { in_flight_by_peer: 8, retries: 12, ..ClientConfig::default() };
        let mut network = Network::new(config, seed);
        network.faults = Faults { lost: 15, repeated: 20, late: 40 };
        let peers: Vec<_> = (1..=3).map(|place| network.serve(place, ServerConfig::default(), 60)).collect();
        let mut expect = std::collections::BTreeMap::new();
        for instance in 0..60 {
            for peer in &peers {
                let id = network.client.request(network.now, *peer, Request::Read(present(instance))).unwrap();
                expect.insert(id, real(instance));
            }
        }
        for event in network.run(LONG * 10) {
            let Event::Answer { id, result, .. } = event else { panic!("{event:?}") };
            let answer = result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
            let value = Value::decode(ReadAck::parse(&answer).unwrap().value).unwrap();
            assert_eq!(expect.remove(&id), Some(value), "seed {seed}");
        }
        assert!(expect.is_empty(), "seed {seed}: {} without an answer", expect.len());
        assert_eq!(network.client.outstanding(), 0);
    }
}

#[test]
fn a_write_that_is_repeated_is_carried_out_once() {
    for seed in 0..40 {
        let mut network =
            Network::new(ClientConfig { retries: 12, write_retries: 12, ..ClientConfig::default() }, seed);
        network.faults = Faults { lost: 30, repeated: 30, late: 30 };
        let peer = network.serve(1, ServerConfig::default(), 1);
        let write = Write { reference: present(0), value: Value::Real(42.5), priority: None };
        network.client.request(network.now, peer, Request::Write(&write)).unwrap();
        assert_eq!(only_answer(network.run(LONG)), Ok(Vec::new()), "seed {seed}");
        let server = network.servers.get_mut(&peer.address).unwrap();
        assert_eq!(core::iter::from_fn(|| server.poll_event()).count(), 1, "seed {seed}");
    }
}

#[test]
fn a_silent_peer_is_asked_four_times_and_given_up() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = Peer::direct(address(9));
    let start = network.now.mono;
    network.client.request(network.now, peer, Request::Read(present(0))).unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        network.step(start + LONG, None);
        events.extend(network.client.poll_event());
    }
    assert_eq!(only_answer(events), Err(Failure::TimedOut));
    assert_eq!(network.now.mono.since(start), Duration::from_secs(12));
    assert_eq!(network.trace.len(), 4);
    let counters = network.client.counters();
    assert_eq!((counters.requests, counters.retries, counters.timeouts), (1, 3, 1));
    assert_eq!(network.client.timeout(), None);
}

#[test]
fn only_peer_invoke_identifier_and_service_together_make_an_answer() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = Peer::direct(address(1));
    network.client.request(network.now, peer, Request::Read(present(0))).unwrap();
    let mut tell = |from: u8, apdu: Apdu<'_>| {
        network.client.handle_datagram(network.now, address(from), &unicast(&apdu));
        network.client.poll_event()
    };
    let ack = |invoke_id, service| Apdu::ComplexAck { segment: None, invoke_id, service, parameters: &[] };
    let service = ConfirmedService::READ_PROPERTY;
    assert_eq!(tell(2, ack(0, service)), None);
    assert_eq!(tell(1, ack(1, service)), None);
    assert_eq!(tell(1, ack(0, ConfirmedService::READ_PROPERTY_MULTIPLE)), None);
    assert_eq!(tell(1, Apdu::Abort { from_server: false, invoke_id: 0, reason: AbortReason::OTHER }), None);
    assert!(tell(1, ack(0, service)).is_some());
    assert_eq!(tell(1, ack(0, service)), None);
    assert_eq!(network.client.counters().unexpected, 5);
}

#[test]
fn an_answer_that_is_too_long_is_aborted() {
    let mut network = Network::new(ClientConfig { answer_bytes_max: 4000, ..ClientConfig::default() }, 1);
    let peer = network.serve(1, ServerConfig::default(), 2000);
    let list = PropertyRef::new(ObjectId::device(1), PropertyId::OBJECT_LIST);
    network.client.request(network.now, peer, Request::Read(list)).unwrap();
    assert_eq!(only_answer(network.run(LONG)), Err(Failure::AnswerTooLong));
    assert_eq!(network.servers[&peer.address].timeout(), None, "the server has stopped sending");
}

#[test]
fn a_late_segment_is_told_to_stop() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let segment = Some(Segment { sequence: 3, window: 4, more_follows: true });
    let service = ConfirmedService::READ_PROPERTY;
    let late = Apdu::ComplexAck { segment, invoke_id: 9, service, parameters: &[1, 2] };
    network.client.handle_datagram(network.now, address(1), &unicast(&late));
    let mut out = Vec::new();
    network.client.poll_transmit(network.now, &mut out).unwrap();
    assert_eq!(out, hex("81 0A 00 09 01 00 70 09 02"));
}

#[test]
fn requests_are_cut_to_limits() {
    let config = ClientConfig { queue_by_peer: 3, in_flight_by_peer: 1, peers_max: 2, ..ClientConfig::default() };
    let mut network = Network::new(config, 1);
    let peer = Peer::direct(address(1));
    let references: Vec<_> = (0..800).map(present).collect();
    let too_long = network.client.request(network.now, peer, Request::ReadMultiple(&references));
    assert!(matches!(too_long, Err(RequestError::TooLong { limit: 476, .. })), "{too_long:?}");
    let mut ask = |place| network.client.request(network.now, Peer::direct(address(place)), Request::Read(present(0)));
    let results: Vec<_> = (0..5).map(|_| ask(1).map(|_| ())).collect();
    assert_eq!(results, [Ok(()), Ok(()), Ok(()), Ok(()), Err(RequestError::QueueFull)]);
    assert!(ask(2).is_ok());
    assert_eq!(ask(3), Err(RequestError::TooManyPeers));
    network.client.forget(network.now, &peer);
    let cancelled = core::iter::from_fn(|| network.client.poll_event())
        .filter(|event| matches!(event, Event::Answer { result: Err(Failure::Cancelled), .. }));
    assert_eq!(cancelled.count(), 4);
    assert_eq!(network.client.outstanding(), 1);
}

#[test]
fn a_discovery_keeps_its_pace() {
    let config =
        ClientConfig { broadcast: Some(address(255)), who_is_interval: Duration::ZERO, ..ClientConfig::default() };
    let mut network = Network::new(config, 1);
    network.client.discover(Target::Local, 0, 99_999, 1000).unwrap();
    network.client.discover(Target::Global, 5, 5, 1000).unwrap();
    let events = network.run(LONG);
    assert_eq!(events, [Event::DiscoverySent(Target::Local), Event::DiscoverySent(Target::Global)]);
    let times: Vec<_> = network.trace.iter().map(|(at, ..)| *at).collect();
    assert_eq!(times.len(), 101);
    assert!(times.windows(11).all(|eleven| eleven[10].since(eleven[0]) >= Duration::from_secs(1)));
    assert_eq!(network.trace[1].3, hex("81 0B 00 0E 01 00 10 08 0A 03 E8 1A 07 CF"));
    assert_eq!(network.trace[100].3, hex("81 0B 00 10 01 20 FF FF 00 FF 10 08 09 05 19 05"));
    let mut nowhere = Network::new(ClientConfig::default(), 1);
    assert_eq!(nowhere.client.discover(Target::Local, 0, 1, 1), Err(RequestError::NoBroadcast));
}

#[test]
fn devices_say_who_they_are_and_what_they_have() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = network.serve(1, ServerConfig { instance: 77, ..ServerConfig::default() }, 3);
    network.client.discover(Target::Peer(peer), 0, 76, 100).unwrap();
    assert_eq!(network.run(LONG), [Event::DiscoverySent(Target::Peer(peer))]);
    network.client.discover(Target::Peer(peer), 77, 77, 100).unwrap();
    network
        .client
        .who_has(Target::Peer(peer), &WhoHas { range: None, what: WhoHasWhat::Name("value 2".into()) })
        .unwrap();
    let events = network.run(LONG);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::IAm(from, i_am) if *from == peer && i_am.device.instance() == 77))
    );
    assert!(events.iter().any(|event| matches!(event, Event::IHave(_, i_have) if i_have.object == present(2).object)));
}

#[test]
fn a_foreign_device_registers_and_renews() {
    let bbmd = address(200);
    let config = ClientConfig { foreign: Some(ForeignConfig { bbmd, lifetime_s: 60 }), ..ClientConfig::default() };
    let mut network = Network::new(config, 1);
    let register = |network: &mut Network, result: &str, wait: u64| {
        let before = network.trace.len();
        let mut events = network.run(Duration::from_secs(1));
        let sent: Vec<_> = network.trace[before..].iter().map(|sent| sent.3.clone()).collect();
        network.client.handle_datagram(network.now, bbmd, &hex(result));
        events.extend(network.run(Duration::from_secs(wait)));
        (sent, events)
    };
    let registration = hex("81 05 00 06 00 3C");
    let accepted = "81 00 00 06 00 00";
    assert_eq!(register(&mut network, accepted, 29), (std::vec![registration.clone()], std::vec![Event::Registered]));
    assert_eq!(register(&mut network, accepted, 29), (std::vec![registration.clone()], Vec::new()));
    let refused = register(&mut network, "81 00 00 06 00 30", 1);
    assert_eq!(refused.1, [Event::NotRegistered(Some(0x30))]);
    network.client.discover(Target::Local, 1, 1, 1).unwrap();
    network.run(Duration::from_secs(1));
    let last = network.trace.last().unwrap();
    assert_eq!((last.2, last.3.clone()), (bbmd, hex("81 09 00 0C 01 00 10 08 09 01 19 01")));
    let forwarded = hex("81 04 00 18 0A 00 00 09 BA C0 01 00 10 00 C4 02 00 00 01 22 01 E0 91 01 21 63");
    assert_eq!(forwarded.len(), 26);
    let mut forwarded = forwarded;
    forwarded[3] = 26;
    network.client.handle_datagram(network.now, bbmd, &forwarded);
    let Some(Event::IAm(peer, _)) = network.client.poll_event() else { panic!("no I-Am") };
    assert_eq!(peer.address, "10.0.0.9:47808".parse().unwrap());
}

#[test]
fn a_silent_broadcast_management_device_is_told_once() {
    let foreign = Some(ForeignConfig { bbmd: address(200), lifetime_s: 60 });
    let mut network = Network::new(ClientConfig { foreign, ..ClientConfig::default() }, 1);
    assert_eq!(network.run(LONG), [Event::NotRegistered(None)]);
    assert!(network.trace.len() >= 20);
}

#[test]
fn devices_behind_a_router_are_reached() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let station = Station { network: 100, mac: Mac::new(&[0x0C]).unwrap() };
    network.serve(1, ServerConfig { station: Some(station), ..ServerConfig::default() }, 500);
    let direct = Peer::direct(address(1));
    let peer = Peer::routed(address(1), station);
    network.client.request(network.now, peer, Request::Read(present(4))).unwrap();
    let answer = only_answer(network.run(LONG)).unwrap();
    assert_eq!(Value::decode(ReadAck::parse(&answer).unwrap().value), Ok(real(4)));
    let list = PropertyRef::new(ObjectId::device(1), PropertyId::OBJECT_LIST);
    network.client.request(network.now, peer, Request::Read(list)).unwrap();
    assert!(only_answer(network.run(LONG)).is_ok());
    network.client.request(network.now, direct, Request::Read(present(4))).unwrap();
    assert_eq!(only_answer(network.run(LONG)), Err(Failure::TimedOut));
    network.client.discover(Target::Peer(peer), 1, 1, 1).unwrap();
    let events = network.run(LONG);
    assert!(events.iter().any(|event| matches!(event, Event::IAm(from, _) if *from == peer)), "{events:?}");
}

#[test]
fn a_router_without_a_way_ends_requests_at_once() {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = Peer::routed(address(1), Station { network: 100, mac: Mac::new(&[1]).unwrap() });
    for _ in 0..10 {
        network.client.request(network.now, peer, Request::Read(present(4))).unwrap();
    }
    network.client.handle_datagram(network.now, address(1), &hex("81 0A 00 0A 01 80 03 01 00 64"));
    let events: Vec<_> = core::iter::from_fn(|| network.client.poll_event()).collect();
    assert_eq!(events.len(), 10);
    assert!(events.iter().all(|event| matches!(event, Event::Answer { result: Err(Failure::Unreachable(1)), .. })));
    network.client.handle_datagram(network.now, address(1), &hex("81 0A 00 0B 01 80 01 00 64 00 C8"));
    assert_eq!(network.client.poll_event(), Some(Event::Router(address(1), std::vec![100, 200])));
}

#[test]
fn a_confirmed_change_without_a_place_is_not_acknowledged() {
    let mut network = Network::new(ClientConfig { events_max: 1, ..ClientConfig::default() }, 1);
    let told = hex(
        "81 0A 00 2C 01 04 00 02 0F 01 09 12 1C 02 00 00 04 2C 00 00 00 0A 39 00 4E 09 55 2E 44 42 82 00 00 2F 09 6F 2E 82 04 00 2F 4F",
    );
    let mut told = told;
    told[3] = u8::try_from(told.len()).unwrap();
    let now: Now = network.now;
    let mut out = Vec::new();
    network.client.handle_datagram(now, address(1), &told);
    assert_eq!(network.client.poll_transmit(now, &mut out), Some(address(1)));
    assert_eq!(out, hex("81 0A 00 09 01 00 20 0F 01"));
    network.client.handle_datagram(now, address(1), &told);
    assert_eq!(network.client.poll_transmit(now, &mut out), None);
    assert!(matches!(network.client.poll_event(), Some(Event::Changed(_, change)) if change.confirmed));
    assert_eq!(network.client.counters().events_dropped, 1);
    network.client.handle_datagram(now, address(1), &told);
    assert_eq!(network.client.poll_transmit(now, &mut out), Some(address(1)));
    assert_ne!(CLIENT, address(1));
}
