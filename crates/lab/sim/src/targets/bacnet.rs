//! BACnet: any datagram, and the machines against datagrams, steps of time and calls.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tieline_bacnet::apdu::Apdu;
use tieline_bacnet::bvlc::Bvlc;
use tieline_bacnet::client::{Client, ClientConfig, Request, Target};
use tieline_bacnet::device::{Device, DeviceConfig};
use tieline_bacnet::dissect::{Dissector, Sender, peer_of};
use tieline_bacnet::npdu::{Body, Npdu};
use tieline_bacnet::sc::{Connector, ConnectorConfig, Directory, Hub, Message, Uuid, Vmac};
use tieline_bacnet::server::{Object, Server, ServerConfig};
use tieline_bacnet::service::{LoggedProperty, RangeAck, log_multiple_records, log_records};
use tieline_bacnet::{ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Value};
use tieline_core::{Instant, Now, Timestamp};

const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 47_808);
/// Datagrams and events that one step may cause at most.
const WORK_MAX: usize = 2000;
/// Bytes of a line of a trace, and lines of a message, at most.
const TEXT_BYTES_MAX: usize = 8192;
const TEXT_LINES_MAX: usize = 201;
/// The longest datagram: a message of 1476 bytes, headers of link and network with both addresses.
const DATAGRAM_BYTES_MAX: usize = 1540;

/// A datagram, as it is: what is read is written as what reads the same.
pub(super) fn datagram(bytes: &[u8]) {
    let Ok(Bvlc::Unicast(npdu) | Bvlc::Broadcast(npdu) | Bvlc::Forwarded(_, npdu)) = Bvlc::parse(bytes) else { return };
    let Ok(npdu) = Npdu::parse(npdu) else { return };
    let mut again = Vec::new();
    npdu.emit(&mut again);
    assert_eq!(Npdu::parse(&again), Ok(npdu));
    let Body::Apdu(apdu) = npdu.body else { return };
    let Ok(apdu) = Apdu::parse(apdu) else { return };
    let mut again = Vec::new();
    apdu.emit(&mut again);
    assert_eq!(Apdu::parse(&again), Ok(apdu));
    if let Apdu::ComplexAck { parameters, .. } = apdu
        && let Ok(ack) = RangeAck::parse(parameters)
    {
        for records in [log_records(ack.items), log_multiple_records(ack.items)].into_iter().flatten() {
            assert!(records.len() <= ack.items.len());
        }
    }
    if let Apdu::ComplexAck { parameters, .. } = apdu
        && let Ok(value) = Value::decode(parameters)
    {
        assert!(LoggedProperty::all_of(&value).len() <= parameters.len());
        let mut again = Vec::new();
        value.encode(&mut again);
        assert!(Value::decode(&again).is_ok());
    }
}

/// Steps: 0 and a length, a datagram; 1 and a number, time; another, a call.
fn steps(mut bytes: &[u8], mut step: impl FnMut(Now, Step<'_>)) {
    let mut now = START;
    while let Some(([kind, number], rest)) = bytes.split_first_chunk() {
        bytes = rest;
        match kind % 4 {
            0 | 2 => {
                let (datagram, rest) = bytes.split_at(usize::from(*number).min(bytes.len()));
                bytes = rest;
                step(now, Step::Datagram(datagram));
            }
            1 => {
                now = now.later(Duration::from_millis(u64::from(*number) * 100));
                step(now, Step::Time);
            }
            _ => step(now, Step::Call(*number)),
        }
    }
}

enum Step<'a> {
    Datagram(&'a [u8]),
    Time,
    Call(u8),
}

/// A trace of both directions: a call changes who sends.
pub(super) fn dissect(bytes: &[u8]) {
    let (mut dissector, mut sender) = (Dissector::new(), Sender::Client);
    steps(bytes, |_, step| match step {
        Step::Datagram(datagram) => {
            let entry = dissector.datagram(sender, datagram);
            assert!(!entry.summary.is_empty() && entry.summary.len() <= TEXT_BYTES_MAX);
            assert!(entry.details.len() <= TEXT_LINES_MAX);
            let _ = peer_of(sender, PEER, datagram);
        }
        Step::Time => dissector.restart(),
        Step::Call(_) => sender = if sender == Sender::Client { Sender::Device } else { Sender::Client },
    });
}

/// A client that reads, writes and subscribes.
pub(super) fn client(bytes: &[u8]) {
    let mut client = Client::new(ClientConfig { answer_bytes_max: 4096, events_max: 64, ..ClientConfig::default() });
    let peer = Peer::direct(PEER);
    let mut device = Device::new(peer, None, DeviceConfig::default());
    let object = ObjectId::new(ObjectType::ANALOG_VALUE, 0);
    let reference = PropertyRef::new(object, PropertyId::PRESENT_VALUE);
    let _ = client.request(START, peer, Request::Read(reference));
    steps(bytes, |now, step| {
        match step {
            Step::Datagram(datagram) => client.handle_datagram(now, PEER, datagram),
            Step::Time => client.handle_timeout(now),
            Step::Call(number) => match number % 6 {
                0 => _ = device.learn(now, &mut client),
                1 => _ = device.read(now, &mut client, vec![reference; usize::from(number)]),
                2 => _ = device.read_object_list(now, &mut client),
                3 => _ = device.subscribe(now, object),
                4 => _ = client.discover(Target::Peer(peer), 0, 10, 5),
                _ => client.forget(now, &peer),
            },
        }
        device.handle_timeout(now, &mut client);
        let mut work = 0;
        while let Some(event) = client.poll_event() {
            device.handle_event(now, &mut client, event);
            work += 1;
        }
        while device.poll_event().is_some() {
            work += 1;
        }
        let mut out = Vec::new();
        while client.poll_transmit(now, &mut out).is_some() {
            assert!(out.len() <= DATAGRAM_BYTES_MAX, "{} bytes", out.len());
            out.clear();
            work += 1;
        }
        assert!(work <= WORK_MAX, "{work} messages and events of one step");
    });
}

/// A server with an object of each kind.
pub(super) fn server(bytes: &[u8]) {
    let mut server = Server::new(ServerConfig { message_bytes_max: 8192, ..ServerConfig::default() });
    server.add(Object::new(ObjectType::ANALOG_VALUE, 0, "analog", Value::Real(1.0)).writable());
    server.add(Object::new(ObjectType::ANALOG_OUTPUT, 1, "output", Value::Real(1.0)));
    server.add(Object::new(ObjectType::BINARY_VALUE, 1, "binary", Value::Enumerated(0)).commandable());
    server.add(Object::new(ObjectType::MULTI_STATE_VALUE, 1, "state", Value::Unsigned(1)).with_states(&["a", "b"]));
    server.add(Object::trend_log(1, "log", 10));
    let output = ObjectId::new(ObjectType::ANALOG_OUTPUT, 1);
    steps(bytes, |now, step| {
        match step {
            Step::Datagram(datagram) => server.handle_datagram(now, PEER, datagram),
            Step::Time => server.handle_timeout(now),
            Step::Call(number) => _ = server.set_value(now, output, Value::Real(f32::from(number))),
        }
        let mut work = 0;
        while server.poll_event().is_some() {
            work += 1;
        }
        let mut out = Vec::new();
        while server.poll_transmit(now, &mut out).is_some() {
            assert!(out.len() <= DATAGRAM_BYTES_MAX, "{} bytes", out.len());
            out.clear();
            work += 1;
        }
        assert!(work <= WORK_MAX, "{work} messages and events of one step");
    });
}

/// A node of BACnet/SC and its directory: messages of a hub, and what else may happen to the connection.
pub(super) fn secure(bytes: &[u8]) {
    let config = ConnectorConfig { has_failover: true, events_max: 64, ..ConnectorConfig::new(Uuid([7; 16]), NODE) };
    let (mut connector, mut directory, mut dissector) =
        (Connector::new(config), Directory::default(), Dissector::new());
    connector.opened(START, Hub::Primary);
    let _ = directory.find(START, Directory::alias(1001), &[1, 0]);
    steps(bytes, |now, step| {
        match step {
            Step::Datagram(message) => {
                if let Ok(read) = Message::parse(message) {
                    let mut again = Vec::new();
                    read.emit(&mut again);
                    assert_eq!(again, message);
                }
                connector.handle_message(now, message);
                let entry = dissector.secure_message(Sender::Device, message);
                assert!(!entry.summary.is_empty() && entry.summary.len() <= TEXT_BYTES_MAX);
                assert!(entry.details.len() <= TEXT_LINES_MAX + 32);
            }
            Step::Time => connector.handle_timeout(now),
            Step::Call(number) => match number % 6 {
                0 => connector.closed(now),
                1 => connector.leave(now),
                2 => connector.handle_too_long(),
                3 => _ = connector.send(Vmac::BROADCAST, &[1, 0]),
                4 => connector.dial_failed(now, Hub::Primary),
                _ => {
                    connector.closed(now);
                    connector.opened(now, Hub::Failover);
                }
            },
        }
        let mut work = 0;
        while let Some(event) = connector.poll_event() {
            if let tieline_bacnet::sc::connector::Event::Npdu { from, npdu, .. } = event {
                let _ = directory.heard(from, &npdu);
            }
            work += 1;
        }
        let mut out = Vec::new();
        while connector.poll_transmit(&mut out) || directory.poll(now).is_some() {
            work += 1;
        }
        assert!(work <= 20, "{work} messages and events of one step");
    });
}

const NODE: Vmac = Vmac([0x02, 0, 0, 0, 0, 1]);
