//! The connection to a hub, in virtual time.

use crate::ServiceError;
use crate::names::{ErrorClass, ErrorCode};
use crate::sc::connector::{Counters, Event, Reason, SendError};
use crate::sc::{Body, Connect, Connector, ConnectorConfig, HeaderOption, Hub, Message, Nak, Options, Uuid, Vmac};
use core::time::Duration;
use proptest::prelude::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;
use tieline_core::{Instant, Now, Timestamp};

const NODE: Vmac = Vmac([0x02, 0, 0, 0, 0, 1]);
const OTHER: Vmac = Vmac([0x02, 0, 0, 0, 0, 9]);

/// A connector, and the time.
struct World {
    connector: Connector,
    now: Now,
}

impl World {
    fn new(has_failover: bool) -> Self {
        let config = ConnectorConfig { has_failover, ..ConnectorConfig::new(Uuid([7; 16]), NODE) };
        let now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(0) };
        Self { connector: Connector::new(config), now }
    }

    fn up(has_failover: bool) -> Self {
        let mut world = Self::new(has_failover);
        world.open(Hub::Primary);
        world.accept();
        world
    }

    fn later(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.later(Duration::from_secs(seconds));
        self.connector.handle_timeout(self.now);
        self
    }

    /// Waits for the next attempt; which hub, after how many milliseconds.
    fn next_dial(&mut self) -> (Hub, u128) {
        let (hub, at) = self.connector.next_dial().unwrap();
        let wait = at.since(self.now.mono);
        self.now = self.now.later(wait);
        (hub, wait.as_millis())
    }

    fn open(&mut self, hub: Hub) {
        self.connector.opened(self.now, hub);
    }

    fn give(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.emit(&mut bytes);
        self.connector.handle_message(self.now, &bytes);
    }

    /// Accepts the node as a hub does that takes 1000 bytes of the network layer.
    fn accept(&mut self) {
        let request = self.sent();
        let [request] = request.as_slice() else { panic!("{request:02x?}") };
        let Ok(Message { id, body: Body::ConnectRequest(_), .. }) = Message::parse(request) else { panic!() };
        let connect = Connect { vmac: OTHER, uuid: Uuid([9; 16]), bvlc_bytes_max: 1600, npdu_bytes_max: 1000 };
        self.give(&Message::new(id, Body::ConnectAccept(connect)));
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| {
            let mut out = Vec::new();
            self.connector.poll_transmit(&mut out).then_some(out)
        })
        .collect()
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.connector.poll_event()).collect()
    }

    fn counters(&self) -> Counters {
        self.connector.counters()
    }
}

fn error(code: ErrorCode) -> ServiceError {
    ServiceError::new(ErrorClass::COMMUNICATION, code)
}

#[test]
fn a_hub_is_asked_and_accepts() {
    let mut world = World::new(false);
    assert_eq!(world.connector.next_dial(), Some((Hub::Primary, Instant::ZERO)));
    assert_eq!(world.connector.send(OTHER, b"early"), Err(SendError::NoHub));
    world.open(Hub::Primary);
    let request = &world.sent()[0];
    let Ok(Message { id, body: Body::ConnectRequest(connect), destination: None, .. }) = Message::parse(request) else {
        panic!()
    };
    assert_eq!((connect.vmac, connect.uuid, connect.npdu_bytes_max), (NODE, Uuid([7; 16]), 1497));
    let hub = Connect { vmac: OTHER, npdu_bytes_max: 1000, ..connect };
    // An answer to another request is none.
    world.give(&Message::new(id.wrapping_add(1), Body::ConnectAccept(hub)));
    assert_eq!(world.connector.hub(), None);
    world.give(&Message::new(id, Body::ConnectAccept(hub)));
    assert_eq!(world.events(), [Event::Up(Hub::Primary, hub)]);
    assert_eq!((world.connector.hub(), world.connector.next_dial()), (Some(Hub::Primary), None));
    assert_eq!(world.connector.send(OTHER, &[1; 1000]), Ok(()));
    assert_eq!(world.connector.send(OTHER, &[1; 1001]), Err(SendError::TooLong));
    let sent = world.sent();
    let Ok(Message { destination: Some(OTHER), origin: None, body: Body::Npdu(npdu), .. }) = Message::parse(&sent[0])
    else {
        panic!()
    };
    assert_eq!((npdu, world.counters().connects, world.counters().dropped), (&[1; 1000][..], 1, 2));
}

#[test]
fn a_hub_that_does_not_accept_is_left() {
    let mut world = World::new(false);
    world.open(Hub::Primary);
    assert_eq!(world.connector.timeout(), Some(world.now.mono + Duration::from_secs(10)));
    world.later(9);
    assert!(!world.connector.is_closing());
    world.later(1);
    assert!(world.connector.is_closing());
    assert_eq!(world.events(), [Event::Down(Hub::Primary, Reason::NotAccepted)]);
    world.connector.closed(world.now);
    assert_eq!((world.events(), world.counters().failures), (vec![], 1));
    for code in [ErrorCode::NOT_A_BACNET_SC_HUB, ErrorCode::OTHER] {
        world.next_dial();
        world.open(Hub::Primary);
        let id = Message::parse(&world.sent()[0]).unwrap().id;
        world.give(&Message::new(id, Body::Result(6, Err(Nak { marker: 0, error: error(code), details: "no" }))));
        let reason = Reason::Refused(error(code));
        assert_eq!(world.events(), [Event::Down(Hub::Primary, reason)]);
        assert!(world.connector.is_closing() && reason.to_string().contains("the hub refuses the node"));
        world.connector.closed(world.now);
    }
}

#[test]
fn attempts_wait_longer_and_longer() {
    let mut world = World::new(false);
    world.next_dial();
    let mut waits = Vec::new();
    for _ in 0..9 {
        world.connector.dial_failed(world.now, Hub::Primary);
        waits.push(world.next_dial().1);
    }
    for (wait, full) in waits.iter().zip([2, 4, 8, 16, 32, 60, 60, 60, 60_u128]) {
        assert!((full * 750..=full * 1000).contains(wait), "{waits:?}");
    }
    // A connection that lasted is made again at once, and later attempts begin with the first wait.
    world.open(Hub::Primary);
    world.accept();
    world.later(61);
    world.connector.closed(world.now);
    let (hub, wait) = world.next_dial();
    assert_eq!((hub, wait), (Hub::Primary, 0));
    world.connector.dial_failed(world.now, Hub::Primary);
    assert!(world.next_dial().1 <= 2000);
    // One that ends at once is not.
    world.open(Hub::Primary);
    world.accept();
    world.connector.closed(world.now);
    assert!(world.next_dial().1 > 2000);
}

#[test]
fn the_failover_hub_is_used_until_the_primary_is_back() {
    let mut world = World::new(true);
    assert_eq!(world.next_dial().0, Hub::Primary);
    world.connector.dial_failed(world.now, Hub::Primary);
    assert_eq!(world.next_dial(), (Hub::Failover, 0));
    world.connector.dial_failed(world.now, Hub::Failover);
    let (hub, wait) = world.next_dial();
    assert!(hub == Hub::Primary && (1500..=2000).contains(&wait));
    world.connector.dial_failed(world.now, Hub::Primary);
    assert_eq!(world.next_dial(), (Hub::Failover, 0));
    world.open(Hub::Failover);
    world.accept();
    assert_eq!(world.connector.hub(), Some(Hub::Failover));
    // The primary hub is dialled meanwhile, less and less often.
    let mut waits = Vec::new();
    for _ in 0..7 {
        let (hub, wait) = world.next_dial();
        assert_eq!(hub, Hub::Primary);
        waits.push(wait);
        world.connector.dial_failed(world.now, Hub::Primary);
        assert_eq!(world.connector.hub(), Some(Hub::Failover));
    }
    assert!(waits.windows(2).all(|pair| pair[1] * 4 >= pair[0] * 3) && waits[6] > 40_000, "{waits:?}");
    // It is back: the node leaves the failover hub in good order.
    world.events();
    world.connector.leave(world.now);
    let leaving = world.sent();
    let Ok(Message { id, body: Body::DisconnectRequest, .. }) = Message::parse(&leaving[0]) else { panic!() };
    world.give(&Message::new(id, Body::DisconnectAck));
    assert!(world.connector.is_closing());
    assert_eq!(world.events(), [Event::Down(Hub::Failover, Reason::Left)]);
    world.connector.closed(world.now);
    assert_eq!(world.next_dial(), (Hub::Primary, 0));
    world.open(Hub::Primary);
    world.accept();
    assert_eq!(world.connector.hub(), Some(Hub::Primary));
    // And it goes again.
    world.connector.closed(world.now);
    assert_eq!(world.next_dial(), (Hub::Failover, 0));
}

#[test]
fn an_address_that_another_node_has_is_changed() {
    let mut world = World::new(true);
    let mut known = vec![NODE];
    for _ in 0..3 {
        world.open(Hub::Primary);
        let id = Message::parse(&world.sent()[0]).unwrap().id;
        let nak = Nak { marker: 0, error: error(ErrorCode::NODE_DUPLICATE_VMAC), details: "" };
        world.give(&Message::new(id, Body::Result(6, Err(nak))));
        let renamed = world.connector.vmac();
        assert!(renamed.is_node() && !known.contains(&renamed));
        known.push(renamed);
        assert_eq!(world.events(), [Event::Down(Hub::Primary, Reason::DuplicateVmac), Event::Renamed(renamed)]);
        world.connector.closed(world.now);
        assert_eq!(world.next_dial().0, Hub::Primary, "the same hub is asked again");
    }
    world.open(Hub::Primary);
    let request = &world.sent()[0];
    let Ok(Message { body: Body::ConnectRequest(connect), .. }) = Message::parse(request) else { panic!() };
    assert_eq!((connect.vmac, connect.uuid), (known[3], Uuid([7; 16])));
}

#[test]
fn a_silent_hub_is_asked_and_left() {
    let mut world = World::up(false);
    world.later(299);
    assert!(world.sent().is_empty());
    world.later(1);
    let asked = world.sent();
    let Ok(Message { id, body: Body::HeartbeatRequest, .. }) = Message::parse(&asked[0]) else { panic!() };
    world.later(9).give(&Message::new(id, Body::HeartbeatAck));
    world.later(299);
    assert!(world.sent().is_empty(), "any message shows that it is there");
    world.later(1);
    assert_eq!(world.sent().len(), 1);
    world.events();
    world.later(10);
    assert_eq!(world.events(), [Event::Down(Hub::Primary, Reason::Silent)]);
    assert!(world.connector.is_closing());
}

#[test]
fn a_hub_may_let_the_node_go_and_ask_whether_it_is_there() {
    let mut world = World::up(true);
    world.give(&Message::new(44, Body::HeartbeatRequest));
    world.give(&Message::new(45, Body::DisconnectRequest));
    let expect: Vec<Vec<u8>> = vec![vec![0x0B, 0, 0, 44], vec![0x09, 0, 0, 45]];
    assert_eq!(world.sent(), expect);
    assert_eq!(world.events()[1], Event::Down(Hub::Primary, Reason::Disconnected));
    // Nothing more is taken, and the failover hub is next.
    world.give(&Message::new(46, Body::HeartbeatRequest));
    assert!(world.sent().is_empty());
    world.connector.closed(world.now);
    assert_eq!(world.next_dial(), (Hub::Failover, 0));
}

#[test]
fn messages_are_for_the_node_or_are_not() {
    let mut world = World::up(false);
    world.events();
    let npdu = Message::new(1, Body::Npdu(&[1, 0, 2]));
    let of_other = Message { origin: Some(OTHER), ..npdu };
    for (message, expect) in [
        (of_other, Some(true)),
        (of_other.to(Some(NODE)), Some(true)),
        (of_other.to(Some(Vmac::BROADCAST)), Some(false)),
        // Without an origin, of the node itself, for another node.
        (npdu, None),
        (Message { origin: Some(NODE), ..npdu }, None),
        (of_other.to(Some(OTHER)), None),
    ] {
        world.give(&message);
        let expect = expect.map(|is_unicast| Event::Npdu { from: OTHER, is_unicast, npdu: vec![1, 0, 2] });
        assert_eq!(world.events(), expect.into_iter().collect::<Vec<_>>(), "{message:?}");
    }
    assert_eq!(world.counters().unexpected, 3);
    assert!(world.sent().is_empty());
}

#[test]
fn what_is_not_understood_is_refused_once() {
    let mut world = World::up(false);
    let mut bytes = Vec::new();
    let unknown = HeaderOption { kind: 9, must_understand: true, data: None };
    let options = Options::write(&[unknown], &mut bytes);
    let from_other = |body| Message { origin: Some(OTHER), ..Message::new(5, body) };
    for (message, marker, code) in [
        (from_other(Body::AddressResolution), 0, Some(ErrorCode::OPTIONAL_FUNCTIONALITY_NOT_SUPPORTED)),
        (from_other(Body::Other(0xC8, &[])), 0, Some(ErrorCode::BVLC_FUNCTION_UNKNOWN)),
        (
            from_other(Body::Proprietary { vendor: 1, function: 2, data: &[] }),
            0,
            Some(ErrorCode::BVLC_PROPRIETARY_FUNCTION_UNKNOWN),
        ),
        (
            Message { destination_options: options, ..from_other(Body::Npdu(&[1])) },
            0x49,
            Some(ErrorCode::HEADER_NOT_UNDERSTOOD),
        ),
        (
            Message { data_options: options, ..from_other(Body::Npdu(&[1])) },
            0x49,
            Some(ErrorCode::HEADER_NOT_UNDERSTOOD),
        ),
        (from_other(Body::Npdu(&[])), 0, Some(ErrorCode::PAYLOAD_EXPECTED)),
        // A broadcast is not answered, nor is an answer.
        (from_other(Body::Other(0xC8, &[])).to(Some(Vmac::BROADCAST)), 0, None),
        (Message { destination_options: options, ..from_other(Body::Npdu(&[1])) }.to(Some(Vmac::BROADCAST)), 0, None),
        (Message { destination_options: options, ..from_other(Body::Result(1, Ok(()))) }, 0, None),
    ] {
        world.give(&message);
        let sent = world.sent();
        let Some(code) = code else {
            assert!(sent.is_empty(), "{message:?}");
            continue;
        };
        let nak = Nak { marker, error: error(code), details: "" };
        let expect = Message::new(5, Body::Result(message.body.function(), Err(nak))).to(Some(OTHER));
        assert_eq!(Message::parse(&sent[0]), Ok(expect), "{message:?}");
    }
    // A node may refuse, too: it is told.
    world.events();
    let nak = Nak { marker: 0, error: error(ErrorCode::BVLC_FUNCTION_UNKNOWN), details: "" };
    world.give(&from_other(Body::Result(1, Err(nak))));
    assert_eq!(world.events(), [Event::Refused(Some(OTHER), 1, nak.error)]);
}

#[test]
fn a_node_says_what_it_is() {
    let mut world = World::up(false);
    world.give(&Message { origin: Some(OTHER), ..Message::new(6, Body::AdvertisementSolicitation) });
    assert_eq!(world.sent(), [[&[4, 4, 0, 6][..], &OTHER.0, &[1, 0, 0x20, 0, 5, 0xD9]].concat()]);
}

#[test]
fn queues_are_bounded() {
    let config = ConnectorConfig { transmits_max: 10, events_max: 10, ..ConnectorConfig::new(Uuid([7; 16]), NODE) };
    let mut world = World { connector: Connector::new(config), ..World::new(false) };
    world.open(Hub::Primary);
    world.accept();
    let sent = (0..20).filter(|_| world.connector.send(OTHER, b"x").is_ok()).count();
    assert_eq!(sent, 10);
    for _ in 0..100 {
        world.give(&Message { origin: Some(OTHER), ..Message::new(1, Body::Npdu(&[1])) });
        world.give(&Message { origin: Some(OTHER), ..Message::new(1, Body::AddressResolution) });
    }
    assert!(world.sent().len() <= 11 && world.events().len() <= 10);
    assert!(world.counters().dropped > 190);
}

proptest! {
    /// Whatever comes and whenever: no panic, work is bounded, a connector that is down dials.
    #[test]
    fn any_steps_are_survived(
        has_failover: bool,
        steps in prop::collection::vec((0..8_u8, 0..16_u8, 0..16_u8, prop::collection::vec(any::<u8>(), 0..40)), 0..60),
    ) {
        let mut world = World::new(has_failover);
        for (step, function, flags, rest) in steps {
            match step {
                0 => world.connector.closed(world.now),
                1 => {
                    if let Some((hub, _)) = world.connector.next_dial() {
                        world.connector.dial_failed(world.now, hub);
                    }
                }
                2 => {
                    if let Some((hub, at)) = world.connector.next_dial() {
                        prop_assert!(at.since(world.now.mono) <= Duration::from_secs(60));
                        world.connector.closed(world.now);
                        world.open(hub);
                        if flags & 1 == 0 {
                            world.accept();
                        }
                    }
                }
                3 => _ = world.later(u64::from(function) * 10),
                4 => world.connector.leave(world.now),
                5 => _ = world.connector.send(OTHER, &rest),
                _ => {
                    let bytes: Vec<u8> = [function, flags].into_iter().chain(rest).collect();
                    world.connector.handle_message(world.now, &bytes);
                }
            }
            prop_assert!(world.sent().len() <= 2);
            prop_assert!(world.events().len() <= 3);
            if world.connector.hub().is_none() && !world.connector.is_closing() {
                prop_assert!(world.connector.next_dial().is_some() || world.connector.timeout().is_some());
            }
        }
    }
}
