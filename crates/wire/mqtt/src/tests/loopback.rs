//! A client and a server of ours over a line that cuts bytes anywhere, in virtual time.

use crate::*;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{Filter, Machine, Now, Topic};

/// Bytes under way in one direction.
#[derive(Default)]
struct Line(Vec<u8>);

impl Line {
    /// Hands over a chunk of what is under way; what was not taken stays.
    fn give<M: Machine>(&mut self, machine: &mut M, now: Now, chunk: usize) -> usize {
        let bytes = &self.0[..chunk.min(self.0.len())];
        let used = machine.handle_input(now, bytes);
        self.0.drain(..used);
        used
    }
}

/// An owner of the server that sends every message back to the client at the QoS at which it came.
struct Echo {
    client: ClientSession,
    server: ServerSession,
    up: Line,
    down: Line,
    now: Now,
    /// Acknowledged late, out of order.
    unacknowledged: Vec<PacketId>,
    received: Vec<(Qos, String)>,
    completed: BTreeMap<u64, PublishOutcome>,
    connected: usize,
}

impl Echo {
    fn new(version: Version) -> Self {
        let client = ClientSession::new(ClientConfig { version, in_flight_max: 5, ..ClientConfig::default() });
        let config = ServerConfig { receive_max: 4, in_flight_max: 3, ..ServerConfig::default() };
        Self {
            client,
            server: ServerSession::new(Arc::new(config), 1),
            up: Line::default(),
            down: Line::default(),
            now: Now::default(),
            unacknowledged: Vec::new(),
            received: Vec::new(),
            completed: BTreeMap::new(),
            connected: 0,
        }
    }

    fn connect(&mut self) {
        self.client.handle_connected(self.now);
        self.server.handle_connected(self.now);
    }

    fn cut(&mut self) {
        (self.up, self.down) = (Line::default(), Line::default());
        self.client.handle_disconnected(self.now);
        self.server.handle_disconnected(self.now);
        self.unacknowledged.clear();
    }

    fn serve(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Connect(_) => assert!(self.server.accept(self.now, Accept::default())),
            ServerEvent::Publish(publish) => {
                self.unacknowledged.extend(publish.packet_id);
                let (message, subscription_ids) = (Arc::new(publish.message), Vec::new());
                self.server.deliver(Delivery { message, qos: publish.qos, retain: false, subscription_ids }).unwrap();
            }
            ServerEvent::Subscribe(s) => {
                self.server.suback(s.packet_id, &vec![ReasonCode::GrantedQos2; s.subscriptions.len()])
            }
            ServerEvent::Unsubscribe(u) => {
                self.server.unsuback(u.packet_id, &vec![ReasonCode::Success; u.filters.len()])
            }
            ServerEvent::Auth(_) => unreachable!("no method was named"),
            ServerEvent::Ended(ended) => assert_eq!(ended.cause, EndCause::Lost),
        }
    }

    fn learn(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Connected(connected) => {
                assert!(!connected.session_present);
                self.connected += 1;
                self.client.subscribe(&[(Filter::new("#").unwrap(), SubscriptionOptions::default())], None).unwrap();
            }
            ClientEvent::Message(m) => {
                self.received.push((m.qos, String::from_utf8(m.message.payload.to_vec()).unwrap()))
            }
            ClientEvent::Published { token, outcome } => assert_eq!(self.completed.insert(token, outcome), None),
            ClientEvent::Subscribed { reasons, .. } => assert_eq!(reasons, [ReasonCode::GrantedQos2]),
            ClientEvent::Ended(end) => assert_eq!(end, ClientEnd::Lost),
            ClientEvent::Unsubscribed { .. } | ClientEvent::Refused { .. } => panic!("{event:?}"),
        }
    }

    /// One round over the line; whether anything moved.
    fn step(&mut self, chunk: usize) -> bool {
        let mut moved = self.client.poll_transmit(self.now, &mut self.up.0);
        moved |= self.server.poll_transmit(self.now, &mut self.down.0);
        moved |= self.up.give(&mut self.server, self.now, chunk) > 0;
        moved |= self.down.give(&mut self.client, self.now, chunk) > 0;
        while let Some(event) = self.server.poll_event() {
            self.serve(event);
            moved = true;
        }
        while let Some(event) = self.client.poll_event() {
            self.learn(event);
            moved = true;
        }
        if chunk.is_multiple_of(2)
            && let Some(packet_id) = self.unacknowledged.pop()
        {
            self.server.acknowledge(packet_id, ReasonCode::Success);
            moved = true;
        }
        moved
    }

    fn settle(&mut self, chunks: &[usize]) {
        let mut still = 0;
        for (round, chunk) in chunks.iter().cycle().enumerate() {
            still = if self.step(*chunk) { 0 } else { still + 1 };
            if still > 2 * chunks.len() {
                return;
            }
            assert!(round < 1_000_000, "no end");
        }
    }
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V311), Just(Version::V5)]
}

proptest! {
    /// Every message comes back once, in order within its QoS, and is answered once, however the bytes are cut.
    #[test]
    fn everything_arrives_once(
        version in version(),
        qos in prop::collection::vec(0..3_u8, 1..40),
        mut chunks in prop::collection::vec(1..64_usize, 1..20),
    ) {
        chunks.push(2);
        let mut echo = Echo::new(version);
        echo.connect();
        let mut sent = Vec::new();
        for (number, bits) in qos.iter().enumerate() {
            let (qos, payload) = (Qos::from_bits(*bits).unwrap(), format!("{number}"));
            let message = Message::new(Topic::new("t").unwrap(), payload.clone().into_bytes(), echo.now.mono);
            echo.client.publish(message, qos, false).unwrap();
            sent.push((qos, payload));
            echo.step(chunks[number % chunks.len()]);
        }
        echo.settle(&chunks);
        prop_assert_eq!(echo.completed.len(), sent.len());
        prop_assert!(echo.completed.values().all(|outcome| *outcome == PublishOutcome::Answered(ReasonCode::Success)));
        for level in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let of = |all: &[(Qos, String)]| all.iter().filter(|m| m.0 == level).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&echo.received), of(&sent));
        }
        prop_assert_eq!((echo.client.backlog(), echo.server.backlog()), ((0, 0), (0, 0)));
    }

    /// Whatever the moment of a cut, each publish is answered once or said to be unknown, and the next connection works.
    #[test]
    fn a_cut_line_leaves_nothing_behind(
        version in version(),
        before in 0..60_usize,
        chunk in 1..40_usize,
        count in 1..20_u8,
    ) {
        let mut echo = Echo::new(version);
        echo.connect();
        for number in 0..count {
            let message = Message::new(Topic::new("t").unwrap(), vec![b'0' + number], echo.now.mono);
            echo.client.publish(message, Qos::from_bits(number % 3).unwrap(), false).unwrap();
        }
        (0..before).for_each(|_| { echo.step(chunk); });
        echo.cut();
        echo.step(2);
        echo.connect();
        echo.settle(&[chunk, 2]);
        prop_assert_eq!(echo.completed.len(), usize::from(count));
        prop_assert!(echo.connected >= 1);
        prop_assert_eq!(echo.client.backlog(), (0, 0));
    }

    /// Any bytes after CONNECT: no panic, and an end at most once.
    #[test]
    fn hostile_bytes_end_or_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400), v5: bool, early in 0..3_usize) {
        let connect = super::hex(if v5 { "10 0e 0004 4d515454 05 02 000a 00 0001 63" } else { "10 0d 0004 4d515454 04 02 000a 0001 63" });
        let mut stream = if early == 0 { Vec::new() } else { connect };
        stream.extend(&bytes);
        let mut server = ServerSession::new(Arc::default(), 0);
        server.handle_connected(Now::default());
        let (mut rest, mut ends, mut out) = (stream.as_slice(), 0, Vec::new());
        while !rest.is_empty() {
            let used = server.handle_input(Now::default(), rest);
            rest = &rest[used..];
            let mut events = 0;
            while let Some(event) = server.poll_event() {
                events += 1;
                match event {
                    ServerEvent::Connect(_) => { server.accept(Now::default(), Accept::default()); }
                    ServerEvent::Publish(p) => if let Some(id) = p.packet_id { server.acknowledge(id, ReasonCode::Success) },
                    ServerEvent::Subscribe(s) => server.suback(s.packet_id, &[ReasonCode::Success]),
                    ServerEvent::Unsubscribe(u) => server.unsuback(u.packet_id, &[ReasonCode::Success]),
                    ServerEvent::Auth(_) => { server.challenge(Now::default(), None); server.authenticated(None); }
                    ServerEvent::Ended(_) => ends += 1,
                }
            }
            let sent = server.poll_transmit(Now::default(), &mut out);
            prop_assert!(used > 0 || events > 0 || sent);
        }
        prop_assert!(ends <= 1);
    }

    #[test]
    fn a_client_survives_any_server(bytes in prop::collection::vec(any::<u8>(), 0..400), greeted: bool) {
        let mut client = ClientSession::new(ClientConfig::default());
        client.handle_connected(Now::default());
        let mut stream = if greeted { super::hex("20 03 00 00 00") } else { Vec::new() };
        stream.extend(&bytes);
        let mut rest = stream.as_slice();
        while !rest.is_empty() {
            let used = client.handle_input(Now::default(), rest);
            rest = &rest[used..];
            let events = core::iter::from_fn(|| client.poll_event()).count();
            prop_assert!(used > 0 || events > 0);
        }
    }
}

#[test]
fn an_idle_client_pings_and_notices_silence() {
    let mut echo = Echo::new(Version::V5);
    echo.connect();
    echo.settle(&[10]);
    for _ in 0..10 {
        echo.now = Now { mono: echo.client.timeout().unwrap(), ..echo.now };
        echo.client.handle_timeout(echo.now);
        echo.server.handle_timeout(echo.now);
        echo.settle(&[10]);
        assert!(echo.client.is_open() && echo.server.is_open());
    }
    for _ in 0..2 {
        echo.now = Now { mono: echo.client.timeout().unwrap(), ..echo.now };
        echo.client.handle_timeout(echo.now);
    }
    assert!(echo.client.is_closed());
    assert_eq!(echo.client.poll_event(), Some(ClientEvent::Ended(ClientEnd::Silent)));
    echo.now = echo.now.later(Duration::from_secs(46));
    echo.server.handle_timeout(echo.now);
    assert!(matches!(echo.server.poll_event(), Some(ServerEvent::Ended(Ended { cause: EndCause::Silent, .. }))));
}
