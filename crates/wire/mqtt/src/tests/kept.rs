//! A client and a server that keep their session over connections that break at any moment, in virtual time.

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
    /// So many octets move, and who looks at events of theirs: client, server.
    Move(usize, bool, bool),
    /// The server's owner answers the oldest message that it has.
    Answer,
    /// The connection breaks; whether the server's owner looks at its events before the session waits for another.
    Cut(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3_u8).prop_map(Step::Up),
        2 => (0..3_u8).prop_map(Step::Down),
        8 => (1..64_usize, any::<bool>(), any::<bool>()).prop_map(|(chunk, client, server)| Step::Move(chunk, client, server)),
        2 => Just(Step::Answer),
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
            server: ServerSession::new(Arc::new(ServerConfig { in_flight_max: 3, ..ServerConfig::default() }), 1),
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
                match &mut self.away {
                    Some(away) => drop(away.deliver(delivery, 0, AwayLimits { messages: 10_000, octets: 1 << 20 })),
                    None => self.server.deliver(delivery).unwrap(),
                }
                self.sent_down.push((qos, text));
            }
            Step::Move(chunk, client, server) => drop(self.step(*chunk, *client, *server)),
            Step::Answer => drop(self.answer()),
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
        let octets = chunk.min(self.up.len());
        let used = self.server.handle_input(self.now, &self.up[..octets]);
        self.up.drain(..used);
        moved |= used > 0;
        let octets = chunk.min(self.down.len());
        let used = self.client.handle_input(self.now, &self.down[..octets]);
        self.down.drain(..used);
        moved |= used > 0;
        moved |= server && self.look_server();
        moved |= client && self.look_client();
        moved
    }

    fn settle(&mut self) {
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
