//! A client and a server that keep their session over connections that break at any moment, in virtual time.

use super::server::{Bench, delivery, message};
use crate::*;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::{Machine, Now, Topic};

#[derive(Clone, Debug)]
enum Step {
    /// The client publishes.
    Up(u8),
    /// The server has a message for the client.
    Down(u8),
    /// So many bytes move, and who looks at events of theirs: client, server.
    Move(usize, bool, bool),
    /// The server's owner answers the oldest message that it has.
    Answer,
    /// The server ends the connection, and its owner looks at that when it breaks.
    End,
    /// The connection breaks; whether the server's owner looks at its events before the session waits for another.
    Cut(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3_u8).prop_map(Step::Up),
        2 => (0..3_u8).prop_map(Step::Down),
        8 => (1..64_usize, any::<bool>(), any::<bool>()).prop_map(|(chunk, client, server)| Step::Move(chunk, client, server)),
        2 => Just(Step::Answer),
        1 => Just(Step::End),
        1 => any::<bool>().prop_map(Step::Cut),
    ]
}

struct World {
    version: Version,
    client: ClientSession,
    server: ServerSession,
    /// The session while its client is away.
    away: Option<SessionState>,
    up: Vec<u8>,
    down: Vec<u8>,
    now: Now,
    next: u32,
    /// Messages that the server's owner has and has not answered.
    asked: Vec<PacketId>,
    sent_up: Vec<(Qos, String)>,
    sent_down: Vec<(Qos, String)>,
    taken: Vec<(Qos, String)>,
    received: Vec<(Qos, String)>,
}

impl World {
    fn new(version: Version) -> Self {
        Self::with(version, ServerConfig { in_flight_max: 3, ..ServerConfig::default() })
    }

    fn with(version: Version, server: ServerConfig) -> Self {
        let config = ClientConfig {
            version,
            client_id: Text::new("c").unwrap(),
            clean_start: false,
            session_expiry_s: 60,
            ..ClientConfig::default()
        };
        let mut world = Self {
            version,
            client: ClientSession::new(config),
            server: ServerSession::new(Arc::new(server), 1),
            away: Some(SessionState::default()),
            up: Vec::new(),
            down: Vec::new(),
            now: Now::default(),
            next: 0,
            asked: Vec::new(),
            sent_up: Vec::new(),
            sent_down: Vec::new(),
            taken: Vec::new(),
            received: Vec::new(),
        };
        world.connect();
        world
    }

    fn connect(&mut self) {
        self.client.handle_connected(self.now);
        self.server.handle_connected(self.now);
    }

    fn message(&mut self) -> (String, Message) {
        self.next += 1;
        let text = format!("{}", self.next);
        (text.clone(), Message::new(Topic::new("t").unwrap(), text.into_bytes(), self.now.mono))
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Up(bits) => {
                let (qos, (text, message)) = (Qos::from_bits(*bits).unwrap(), self.message());
                self.client.publish(message, qos, false).unwrap();
                self.sent_up.push((qos, text));
            }
            Step::Down(bits) => {
                let (qos, (text, message)) = (Qos::from_bits(*bits).unwrap(), self.message());
                let delivery =
                    Delivery { message: Arc::new(message), qos, retain: false, subscription_ids: Vec::new() };
                let limits = AwayLimits { messages: 10_000, bytes: 1 << 20 };
                match &mut self.away {
                    Some(away) => drop(away.deliver(delivery, 0, limits)),
                    None => match self.server.deliver(delivery.clone()) {
                        Err(DeliverError::Closed) => {
                            assert_eq!(self.server.deliver_closed(delivery, 0, false, limits), 0);
                        }
                        sent => sent.unwrap(),
                    },
                }
                self.sent_down.push((qos, text));
            }
            Step::Move(chunk, client, server) => drop(self.step(*chunk, *client, *server)),
            Step::Answer => drop(self.answer()),
            Step::End if self.server.is_open() => self.server.disconnect(ReasonCode::QuotaExceeded, ""),
            Step::End => {}
            Step::Cut(looks) => self.cut(*looks),
        }
    }

    fn answer(&mut self) -> bool {
        if self.asked.is_empty() {
            return false;
        }
        let packet_id = self.asked.remove(0);
        match &mut self.away {
            Some(away) => away.answer(self.version, packet_id, ReasonCode::Success),
            None => self.server.acknowledge(packet_id, ReasonCode::Success),
        }
        true
    }

    fn cut(&mut self, looks: bool) {
        (self.up, self.down) = (Vec::new(), Vec::new());
        self.client.handle_disconnected(self.now);
        self.server.handle_disconnected(self.now);
        if looks {
            self.look_server();
        }
        if self.away.is_none() {
            self.away = Some(self.server.take_state());
        }
        self.connect();
    }

    fn look_server(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.server.poll_event() {
            any = true;
            match event {
                ServerEvent::Connect(_) => {
                    let accept = Accept { resume: self.away.take(), session_expiry_s: 60, ..Accept::default() };
                    assert!(self.server.accept(self.now, accept));
                }
                ServerEvent::Publish(PublishRequest { message, qos, packet_id, .. }) => {
                    self.taken.push((qos, String::from_utf8(message.payload.to_vec()).unwrap()));
                    self.asked.extend(packet_id);
                }
                ServerEvent::Ended(_) => {}
                other => panic!("{other:?}"),
            }
        }
        any
    }

    fn look_client(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.client.poll_event() {
            any = true;
            match event {
                ClientEvent::Message(m) => {
                    self.received.push((m.qos, String::from_utf8(m.message.payload.to_vec()).unwrap()));
                }
                ClientEvent::Published { outcome, .. } => {
                    assert_eq!(outcome, PublishOutcome::Answered(ReasonCode::Success));
                }
                ClientEvent::Connected(_) | ClientEvent::Ended(_) => {}
                other => panic!("{other:?}"),
            }
        }
        any
    }

    fn step(&mut self, chunk: usize, client: bool, server: bool) -> bool {
        let mut moved = self.client.poll_transmit(self.now, &mut self.up);
        moved |= self.server.poll_transmit(self.now, &mut self.down);
        let bytes = chunk.min(self.up.len());
        let used = self.server.handle_input(self.now, &self.up[..bytes]);
        self.up.drain(..used);
        moved |= used > 0;
        let bytes = chunk.min(self.down.len());
        let used = self.client.handle_input(self.now, &self.down[..bytes]);
        self.down.drain(..used);
        moved |= used > 0;
        moved |= server && self.look_server();
        moved |= client && self.look_client();
        moved
    }

    fn settle(&mut self) {
        if self.server.is_closed() {
            self.cut(true);
        }
        let mut still = 0;
        while still < 3 {
            let moved = self.step(50, true, true) | self.answer();
            still = if moved { 0 } else { still + 1 };
        }
    }
}

fn of(all: &[(Qos, String)], qos: Qos) -> Vec<String> {
    all.iter().filter(|(level, _)| *level == qos).map(|(_, text)| text.clone()).collect()
}

proptest! {
    /// QoS 2 comes once and in order, QoS 1 at least once, both ways, wherever connections break.
    #[test]
    fn a_kept_session_loses_nothing_and_doubles_nothing(
        v5: bool,
        steps in prop::collection::vec(any_step(), 0..150),
    ) {
        let mut world = World::new(if v5 { Version::V5 } else { Version::V311 });
        for step in &steps {
            world.take(step);
        }
        world.settle();
        for (sent, came) in [(&world.sent_up, &world.taken), (&world.sent_down, &world.received)] {
            prop_assert_eq!(of(sent, Qos::ExactlyOnce), of(came, Qos::ExactlyOnce));
            let mut at_least = of(came, Qos::AtLeastOnce);
            at_least.dedup();
            for text in of(sent, Qos::AtLeastOnce) {
                prop_assert!(at_least.contains(&text), "{} did not come", text);
            }
            prop_assert!(of(came, Qos::AtMostOnce).len() <= of(sent, Qos::AtMostOnce).len());
        }
        prop_assert_eq!((world.client.backlog(), world.server.backlog()), ((0, 0), (0, 0)));
    }
}

/// [MQTT-4.3.3-10]: the answer of an owner that gives it after the connection broke is the answer of the next one.
#[test]
fn an_answer_that_comes_late_is_that_of_the_next_connection() {
    for (reason, again) in [(ReasonCode::Success, 1), (ReasonCode::QuotaExceeded, 2)] {
        let mut world = World::new(Version::V5);
        world.take(&Step::Up(2));
        while world.asked.is_empty() {
            world.step(50, true, true);
        }
        let asked = world.asked.remove(0);
        world.cut(true);
        if let Some(away) = &mut world.away {
            away.answer(Version::V5, asked, reason);
        }
        world.settle();
        assert_eq!(of(&world.taken, Qos::ExactlyOnce).len(), again, "{reason:?}");
    }
}

/// Who comes back to a queue that is as long as it may be is not ended with the next message: as many more have room as
/// before, until what it came back to is gone.
#[test]
fn who_comes_back_to_a_long_queue_may_drain_it() {
    let config = ServerConfig { in_flight_max: 1, pending_max: 2, ..ServerConfig::default() };
    let mut world = World::with(Version::V5, config);
    for _ in 0..5 {
        world.take(&Step::Down(1));
    }
    let is_full = |world: &mut World| {
        let (_, message) = world.message();
        let message = Arc::new(message);
        let delivery = Delivery { message, qos: Qos::AtLeastOnce, retain: false, subscription_ids: Vec::new() };
        world.server.deliver(delivery) == Err(DeliverError::Full)
    };
    while !world.server.is_open() {
        world.step(50, true, true);
    }
    world.server.poll_transmit(world.now, &mut world.down);
    assert_eq!(world.server.backlog(), (4, 1));
    assert_eq!([0, 1, 2].map(|_| is_full(&mut world)), [false, false, true]);
    world.settle();
    assert_eq!((world.received.len(), world.server.backlog()), (7, (0, 0)));
    assert_eq!([0, 1, 2].map(|_| is_full(&mut world)), [false, false, true]);
}

/// A client that reconnects again and again and reads nothing has room for what may wait for one that is away, and
/// for one queue
/// besides: no more with each connection.
#[test]
fn who_comes_back_again_and_again_gets_no_more_room() {
    let m = message("t", b"1234");
    let weight = m.topic.len() + m.payload.len() + 64;
    // Where the messages are the limit, and where their bytes are.
    for (messages, bytes) in [(5, 1 << 20), (10_000, 5 * weight)] {
        let (away, one) = (AwayLimits { messages, bytes }, delivery(&m, Qos::AtLeastOnce));
        let config = || ServerConfig { pending_max: 3, pending_bytes_max: 3 * weight, away, ..ServerConfig::default() };
        let mut state = SessionState::default();
        let mut longest = Vec::new();
        for _ in 0..6 {
            let mut bench = Bench::resumed(config(), state);
            while bench.session.deliver(one.clone()).is_ok() {}
            assert_eq!(bench.session.counters().refused_full, 1);
            longest.push(bench.session.backlog().0);
            state = bench.session.take_state();
        }
        assert_eq!(longest, [3, 6, 8, 8, 8, 8]);
        // What goes is counted, the oldest first.
        assert_eq!((state.deliver(one, 0, away), state.backlog().0, state.lost()), (4, 5, 4));
    }
}

#[test]
fn what_its_client_never_gets_is_counted() {
    let mut world = World::new(Version::V5);
    let mut away = world.away.take().unwrap();
    let limits = AwayLimits { messages: 2, bytes: 1 << 20 };
    for _ in 0..3 {
        let (_, message) = world.message();
        let message = Arc::new(message);
        let delivery = Delivery { message, qos: Qos::AtLeastOnce, retain: false, subscription_ids: Vec::new() };
        away.deliver(delivery, 0, limits);
    }
    away.lose();
    world.away = Some(away);
    world.settle();
    assert_eq!((world.received.len(), world.server.lost()), (2, 2));
    world.cut(true);
    world.settle();
    assert_eq!(world.server.lost(), 2, "a session knows it over its connections");
}
