//! A site and its hub, in virtual time: the hub is a WebSocket of ours and a device behind it.

use super::*;
use crate::config::HubUrl;
use crate::field::bacnet::site::Member;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tieline_bacnet::device::{DeviceConfig, DeviceEvent};
use tieline_bacnet::sc::{Connect, HUB_PROTOCOL, Uuid};
use tieline_bacnet::server::{Object, Server, ServerConfig};
use tieline_bacnet::service::Write;
use tieline_bacnet::{ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Value};
use tieline_core::Timestamp;
use tieline_net::{Closed, Tap};
use tieline_transport::Transport;
use tieline_websocket::Offer;

const NODE: Vmac = Vmac([0x02, 0, 0, 0, 0, 1]);
const DEVICE: Vmac = Vmac([0x12, 0, 0, 0, 0, 9]);
const INSTANCE: u32 = 1001;
const SECOND: Duration = Duration::from_secs(1);

/// Both ends of a connection, and the device behind the hub.
struct World {
    now: Now,
    site: HubSite,
    hub: Option<WebSocket>,
    accepts: bool,
    device: Server,
    /// Messages of the network layer that reached the device.
    arrived: usize,
    events: Vec<HubEvent>,
}

impl World {
    fn new() -> Self {
        let url =
            |host: &str| HubUrl { host: host.to_owned(), path: "/sc".to_owned(), transport: Transport::connect(host) };
        let config = BacnetHub {
            network: "campus".to_owned(),
            primary: url("hub1:443"),
            failover: Some(url("hub2:443")),
            uuid: Uuid([7; 16]),
            vmac: NODE,
            connect_timeout: SECOND * 10,
            heartbeat: SECOND * 300,
            reconnect_max: SECOND * 60,
        };
        let now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };
        let client = ClientConfig { apdu_timeout: SECOND * 3, write_retries: 0, ..ClientConfig::default() };
        let mut site = HubSite::new(now, client, &config, 1);
        let peer = Peer::direct(Directory::alias(INSTANCE).to_address());
        site.call(now, |site, _| site.add(peer, Some(INSTANCE), DeviceConfig::default()));
        let mut device = Server::new(ServerConfig { instance: INSTANCE, ..ServerConfig::default() });
        device.add(Object::new(ObjectType::ANALOG_VALUE, 7, "level", Value::Real(2.5)).writable());
        Self { now, site, hub: None, accepts: true, device, arrived: 0, events: Vec::new() }
    }

    /// A connection to a hub begins.
    fn connect(&mut self, hub: Hub) {
        let request = Request {
            host: "hub1:443".to_owned(),
            path: "/sc".to_owned(),
            protocol: HUB_PROTOCOL.to_owned(),
            key: [1; 16],
            seed: [2; 16],
        };
        let offer = Offer { path: "/sc".to_owned(), protocol: HUB_PROTOCOL.to_owned(), ..Offer::default() };
        self.hub = Some(WebSocket::new(Arc::new(offer)));
        self.site.dialled(self.now, hub, request);
        self.site.handle_connected(self.now);
    }

    fn disconnect(&mut self) {
        self.hub = None;
        self.site.handle_disconnected(self.now);
    }

    /// Lets everything happen until nothing does, and time pass.
    fn run(&mut self, time: Duration) -> Vec<HubEvent> {
        let until = self.now.later(time);
        loop {
            while self.exchange() {}
            let next = self.site.timeout().filter(|next| *next <= until.mono);
            let Some(next) = next else { break };
            self.now = self.now.later(next.since(self.now.mono).max(Duration::from_millis(1)));
            self.site.handle_timeout(self.now);
        }
        self.now = until;
        std::mem::take(&mut self.events)
    }

    /// One round of bytes to the hub and back, byte by byte on the way back.
    fn exchange(&mut self) -> bool {
        let before = self.events.len();
        self.events.extend(std::iter::from_fn(|| self.site.poll_event()));
        let mut sent = Vec::new();
        while self.site.poll_transmit(self.now, &mut sent) {}
        let Some(mut hub) = self.hub.take() else { return self.events.len() > before };
        let (mut rest, mut message, mut answers) = (sent.as_slice(), Vec::new(), Vec::new());
        while !rest.is_empty() {
            let count = hub.messages();
            // In small steps: a server takes messages as one stream.
            let used = hub.handle_input(rest.get(..1).unwrap_or_default(), |plain| {
                message.extend_from_slice(plain);
                plain.len()
            });
            rest = &rest[used..];
            if hub.messages() != count {
                answers.extend(self.answer(&std::mem::take(&mut message)));
            }
        }
        let mut back = Vec::new();
        while hub.poll_transmit(&mut back, |_| false) {}
        for answer in answers {
            hub.poll_transmit(&mut back, |out| {
                out.extend_from_slice(&answer);
                true
            });
        }
        self.hub = Some(hub);
        for byte in &back {
            while self.site.handle_input(self.now, std::slice::from_ref(byte)) == 0 {}
        }
        !sent.is_empty() || !back.is_empty() || self.events.len() > before
    }

    /// What the hub, or the device behind it, answers.
    fn answer(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let message = Message::parse(message).unwrap();
        let emitted = |message: Message<'_>| {
            let mut out = Vec::new();
            message.emit(&mut out);
            out
        };
        match message.body {
            Body::ConnectRequest(connect) if self.accepts => {
                let connect = Connect { vmac: Vmac([2; 6]), ..connect };
                vec![emitted(Message::new(message.id, Body::ConnectAccept(connect)))]
            }
            Body::DisconnectRequest => vec![emitted(Message::new(message.id, Body::DisconnectAck))],
            Body::Npdu(npdu) if [Some(DEVICE), Some(Vmac::BROADCAST)].contains(&message.destination) => {
                self.arrived += 1;
                let (mut datagram, mut answers, mut out) = (Vec::new(), Vec::new(), Vec::new());
                Bvlc::Unicast(npdu).emit(&mut datagram);
                self.device.handle_datagram(self.now, NODE.to_address(), &datagram);
                while self.device.poll_transmit(self.now, &mut out).is_some() {
                    let Ok(Bvlc::Unicast(npdu) | Bvlc::Broadcast(npdu)) = Bvlc::parse(&out) else {
                        panic!("{out:02x?}")
                    };
                    answers.push(emitted(Message { origin: Some(DEVICE), ..Message::new(1, Body::Npdu(npdu)) }));
                    out.clear();
                }
                answers
            }
            _ => Vec::new(),
        }
    }

    fn read(&mut self) {
        let now = self.now;
        self.site.call(now, |site, now| {
            site.call(Member(0), |device, client| device.read(now, client, vec![present()]).unwrap())
        });
    }

    fn write(&mut self) {
        let now = self.now;
        let write = Write { reference: present(), value: Value::Real(9.0), priority: None };
        self.site.call(now, |site, now| {
            site.call(Member(0), |device, client| device.write(now, client, write, None).unwrap())
        });
    }
}

fn present() -> PropertyRef {
    PropertyRef::new(ObjectId::new(ObjectType::ANALOG_VALUE, 7), PropertyId::PRESENT_VALUE)
}

/// The value of the one read among events, and whether it came.
fn read_of(events: &[HubEvent]) -> Option<bool> {
    events.iter().find_map(|event| match event {
        HubEvent::Site(SiteEvent::Device(_, DeviceEvent::Read { results, .. })) => Some(results[0].1.is_ok()),
        _ => None,
    })
}

fn is_up(events: &[HubEvent], hub: Hub) -> bool {
    events.iter().any(|event| matches!(event, HubEvent::Link(Event::Up(found, _)) if *found == hub))
}

#[test]
fn a_device_is_found_and_read_through_a_hub() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    assert!(is_up(&world.run(SECOND), Hub::Primary));
    world.read();
    assert_eq!(read_of(&world.run(SECOND)), Some(true));
    // A Who-Is, and the request.
    assert_eq!(world.arrived, 2);
    world.read();
    assert_eq!(read_of(&world.run(SECOND)), Some(true));
    assert_eq!((world.arrived, world.site.hub(), world.site.trouble()), (3, Some(Hub::Primary), None));
}

#[test]
fn what_is_asked_without_a_hub_is_not_sent_to_the_next() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    world.run(SECOND);
    world.read();
    world.run(SECOND);
    world.disconnect();
    let arrived = world.arrived;
    world.write();
    world.run(SECOND);
    world.connect(Hub::Failover);
    // The handshake, and all that is asked after it.
    let events = world.run(SECOND * 20);
    assert!(is_up(&events, Hub::Failover));
    let written = events.iter().find_map(|event| match event {
        HubEvent::Site(SiteEvent::Device(_, DeviceEvent::Written { result, .. })) => Some(result.is_ok()),
        _ => None,
    });
    assert_eq!((written, world.arrived), (Some(false), arrived));
    world.read();
    assert_eq!(read_of(&world.run(SECOND)), Some(true));
}

#[test]
fn a_device_that_leaves_is_told_and_forgotten() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    world.run(SECOND);
    let now = world.now;
    world.site.call(now, |site, now| site.call(Member(0), |device, client| device.learn(now, client).unwrap()));
    world.run(SECOND);
    world.site.call(now, |site, now| {
        site.call(Member(0), |device, _| device.subscribe(now, present().object).unwrap());
    });
    world.run(SECOND);
    assert_eq!(world.device.subscriptions(), 1);
    let now = world.now;
    world.site.call(now, |site, now| site.remove(now, Member(0)));
    world.site.forget(now, Directory::alias(INSTANCE).to_address());
    world.run(SECOND);
    assert_eq!((world.device.subscriptions(), world.site.directory.vmac(INSTANCE)), (0, None));
}

#[test]
fn a_node_that_stops_sends_what_it_has_and_takes_leave() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    world.run(SECOND);
    world.read();
    world.run(SECOND);
    let arrived = world.arrived;
    world.write();
    world.site.stop(world.now);
    world.run(Duration::from_millis(100));
    assert!(world.site.is_closed() && world.site.is_stopping());
    assert_eq!(world.arrived, arrived + 1);
}

#[test]
fn a_hub_that_does_not_open_or_accept_is_left() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    world.site.handle_input(world.now, b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
    assert!(world.site.is_closed());
    world.disconnect();
    let events = world.run(Duration::ZERO);
    let fault = Some(ResponseFault::Status(503));
    assert!(matches!(events.as_slice(), [HubEvent::NotOpened(Hub::Primary, found)] if *found == fault), "{events:?}");
    assert_eq!(world.site.next_dial().unwrap().0, Hub::Failover);
    // One that says nothing.
    world.connect(Hub::Failover);
    let hub = world.hub.take();
    world.run(SECOND * 11);
    assert!(world.site.is_closed());
    world.disconnect();
    assert_eq!(world.site.next_dial().unwrap().0, Hub::Primary);
    // One that opens the WebSocket, and does not accept.
    world.run(Duration::ZERO);
    drop(hub);
    world.accepts = false;
    world.connect(Hub::Primary);
    let events = world.run(SECOND * 11);
    let down = events.iter().any(|event| matches!(event, HubEvent::Link(Event::Down(Hub::Primary, _))));
    assert!(down && world.site.is_closed(), "{events:?}");
}

#[test]
fn the_primary_hub_is_dialled_over_the_failover_hub_alone() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    assert_eq!(world.site.standby(), None);
    world.run(SECOND);
    assert_eq!(world.site.standby(), None);
    world.disconnect();
    world.connect(Hub::Failover);
    let (hub, at) = world.site.standby().unwrap();
    assert_eq!((hub, at.since(world.now.mono)), (Hub::Primary, STANDBY_MIN));
    world.run(SECOND);
    assert_eq!(world.site.standby().unwrap().0, Hub::Primary);
}

#[test]
fn a_message_that_is_too_long_ends_the_connection() {
    let mut world = World::new();
    world.connect(Hub::Primary);
    world.run(SECOND);
    let (head, count) = tieline_websocket::header(70_000);
    let frame = [&head[..count], &[0; 70_000]].concat();
    for piece in frame.chunks(1000) {
        world.site.handle_input(world.now, piece);
    }
    assert!(world.site.message.capacity() <= 16_384 && world.site.counters().malformed == 1);
    let mut out = Vec::new();
    while world.site.poll_transmit(world.now, &mut out) {}
    assert!(world.site.is_closed());
}

#[derive(Debug, Default)]
struct Seen(RefCell<Vec<(Direction, Vec<u8>)>>);

impl Tap for Seen {
    fn moved(&self, _now: Now, direction: Direction, bytes: &[u8]) {
        self.0.borrow_mut().push((direction, bytes.to_vec()));
    }

    fn connected(&self, _now: Now, _peer: &tieline_net::Peer) {}

    fn closed(&self, _now: Now, _why: Closed) {}
}

#[test]
fn a_trace_has_the_messages_of_the_device_and_of_the_hub() {
    let mut world = World::new();
    let (one, other) = (Rc::new(Seen::default()), Rc::new(Seen::default()));
    world.site.call(world.now, |site, _| {
        let address: SocketAddrV4 = Directory::alias(2).to_address();
        site.add(Peer::direct(address), Some(2), DeviceConfig::default());
        site.trace(Member(0), one.clone());
        site.trace(Member(1), other.clone());
    });
    world.connect(Hub::Primary);
    world.run(SECOND);
    world.read();
    world.run(SECOND);
    let told = |seen: &Seen| {
        let seen = seen.0.borrow();
        let told = |(direction, bytes): &(Direction, Vec<u8>)| {
            let message = Message::parse(bytes).unwrap();
            (*direction, message.body.function(), message.destination.or(message.origin))
        };
        seen.iter().map(told).collect::<Vec<_>>()
    };
    let (sent, received) = (Direction::Sent, Direction::Received);
    let of_all = [(sent, 6, None), (received, 7, None), (sent, 1, Some(Vmac::BROADCAST))];
    let of_one = [(received, 1, Some(DEVICE)), (sent, 1, Some(DEVICE)), (received, 1, Some(DEVICE))];
    assert_eq!(told(&one), [&of_all[..], &of_one[..]].concat());
    assert_eq!(told(&other), of_all);
}
