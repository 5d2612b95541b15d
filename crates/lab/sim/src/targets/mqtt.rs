//! The server's session of MQTT against a client and a bus that do anything, and a model of what each was promised: every
//! message of QoS 1 and 2 once and in order, within the window, under an identifier that is free, again only over another
//! connection; of what arrives with QoS 2 each message once; answers in order; memory within its limits.

use crate::Choices;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now, Timestamp, Topic};
use tieline_mqtt::{
    Accept, Ack, AwayLimits, CONTROL_BYTES_MAX, Decoder, Delivery, Guarantee, Message, Packet, PacketId, PacketType,
    Publish, Qos, ReasonCode, ServerConfig, ServerEvent, ServerSession, SessionState, Text, Version,
};

const STEPS_MAX: usize = 400;
const START: Now = Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(1_800_000_000_000) };
/// Seconds.
const KEEP_ALIVE: u8 = 10;
const WINDOW: u16 = 4;
const RECEIVE_MAX: usize = 5;
const PENDING_MAX: usize = 12;
const PENDING_BYTES_MAX: usize = 4096;
/// What may wait for a client that comes, besides.
const AWAY: AwayLimits = AwayLimits { messages: 16, bytes: 4096 };
/// Of one message.
const PAYLOAD_BYTES_MAX: u64 = 300;

/// A message of QoS 1 or 2 that the client was sent.
#[derive(Clone, Copy, Debug)]
struct Flight {
    packet_id: PacketId,
    number: u32,
    qos: Qos,
    /// PUBREC came: PUBREL takes the message's place.
    released: bool,
    /// To be sent again on this connection.
    again: bool,
}

impl Flight {
    fn is(&self, packet_id: PacketId, qos: Qos) -> bool {
        (self.packet_id, self.qos) == (packet_id, qos)
    }
}

/// A message of the client's that the bus has not answered, or not in its turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet_id: PacketId,
    qos: Qos,
    answer: Option<ReasonCode>,
}

/// What both sides were promised.
#[derive(Debug, Default)]
struct Model {
    window: usize,
    /// Of QoS 1 and 2, in order: delivered, and not sent.
    queued: VecDeque<(u32, Qos)>,
    in_flight: VecDeque<Flight>,
    last_loose: u32,
    waiting: VecDeque<Waiting>,
    /// Answered with PUBREC; PUBREL to come.
    held: BTreeSet<PacketId>,
    /// Acknowledgements that have to come next, in order.
    answers: VecDeque<(PacketType, PacketId, ReasonCode)>,
    /// Bytes came that mean anything: what the client said is not known.
    wild: bool,
}

struct Run {
    session: ServerSession,
    config: Arc<ServerConfig>,
    decoder: Decoder,
    version: Version,
    now: Now,
    last_packet: Instant,
    model: Model,
    delivered: u32,
    /// Messages and bytes that waited when the client came: it has room for as many besides, up to [`AWAY`].
    inherited: (usize, usize),
    over: bool,
}

/// The first byte: the version, and the client's window. Then steps.
pub(super) fn session(bytes: &[u8]) {
    let mut choices = Choices::of_bytes(bytes);
    let mut run = Run::new(choices.pick(&[Version::V5, Version::V311]));
    run.connect(&mut choices, SessionState::default(), false);
    for _ in 0..STEPS_MAX {
        if choices.is_spent() {
            break;
        }
        run.step(&mut choices);
        run.check_limits();
    }
    run.transmit();
}

impl Run {
    fn new(version: Version) -> Self {
        let config = Arc::new(ServerConfig {
            receive_max: u16::try_from(RECEIVE_MAX).unwrap_or(u16::MAX),
            receive_max_v311: u16::try_from(RECEIVE_MAX).unwrap_or(u16::MAX),
            in_flight_max: WINDOW,
            pending_max: PENDING_MAX,
            pending_bytes_max: PENDING_BYTES_MAX,
            away: AWAY,
            ..ServerConfig::default()
        });
        Self {
            session: ServerSession::new(Arc::clone(&config), 1),
            config,
            decoder: Decoder::new(u32::MAX),
            version,
            now: START,
            last_packet: START.mono,
            model: Model::default(),
            delivered: 0,
            inherited: (0, 0),
            over: false,
        }
    }

    fn step(&mut self, choices: &mut Choices) {
        if self.over {
            return self.reconnect(choices);
        }
        match choices.below(16) {
            0 | 1 => self.publish(choices),
            2 => self.puback(choices),
            3 => self.pubrec(choices),
            4 => self.pubcomp(choices),
            5 => self.pubrel(choices),
            6 | 7 => self.answer(choices),
            8..=10 => self.deliver(choices),
            11..=13 => {
                self.transmit();
            }
            14 => self.wait(choices),
            _ if choices.chance(20) => self.noise(choices),
            _ => self.reconnect(choices),
        }
    }

    /// A CONNECT, and its answer. 5.0 clients have a window of 1 to 6.
    fn connect(&mut self, choices: &mut Choices, state: SessionState, present: bool) {
        self.session = ServerSession::new(Arc::clone(&self.config), 1);
        self.session.handle_connected(self.now);
        (self.decoder, self.over, self.last_packet) = (Decoder::new(u32::MAX), false, self.now.mono);
        let asked = u8::try_from(choices.between(1, 6)).unwrap_or(1);
        let connect = match self.version {
            Version::V5 => [&b"\x10\x11\0\x04MQTT\x05\0\0"[..], &[KEEP_ALIVE, 3, 0x21, 0, asked, 0, 1, b'c']].concat(),
            Version::V311 => [&b"\x10\x0d\0\x04MQTT\x04\0\0"[..], &[KEEP_ALIVE, 0, 1, b'c']].concat(),
        };
        self.model.window = usize::from(match self.version {
            Version::V5 => WINDOW.min(asked.into()),
            Version::V311 => WINDOW,
        });
        assert_eq!(self.session.handle_input(self.now, &connect), connect.len());
        assert!(matches!(self.session.poll_event(), Some(ServerEvent::Connect(_))));
        let options = Accept { resume: present.then_some(state), ..Accept::default() };
        assert!(self.session.accept(self.now, options));
        self.inherited = (self.session.backlog().0, self.session.queued_bytes());
        let mut out = Vec::new();
        self.session.poll_transmit(self.now, &mut out);
        assert_eq!(out.first(), Some(&0x20), "CONNACK comes first");
        self.read(&out);
    }

    fn identifier(choices: &mut Choices) -> PacketId {
        PacketId::MIN.saturating_add(u16::try_from(choices.below(7)).unwrap_or(0))
    }

    /// The client publishes.
    fn publish(&mut self, choices: &mut Choices) {
        let (packet_id, dup) = (Self::identifier(choices), choices.chance(30));
        let guarantee = choices.pick(&[
            Guarantee::ExactlyOnce { packet_id, dup },
            Guarantee::AtLeastOnce { packet_id, dup },
            Guarantee::AtMostOnce,
        ]);
        let topic = Text::truncated("a");
        let publish = Publish { guarantee, topic, payload: (&b"up"[..]).into(), ..Publish::default() };
        let model = &mut self.model;
        let qos = guarantee.qos();
        let is_again = qos == Qos::ExactlyOnce
            && (model.held.contains(&packet_id)
                || model.waiting.iter().any(|w| (w.packet_id, w.qos) == (packet_id, qos)));
        let is_too_many = qos != Qos::AtMostOnce && !is_again && model.waiting.len() + model.held.len() >= RECEIVE_MAX;
        if model.held.contains(&packet_id) && qos == Qos::ExactlyOnce {
            model.answers.push_back((PacketType::Pubrec, packet_id, ReasonCode::Success));
        }
        if qos != Qos::AtMostOnce && !is_again && !is_too_many && self.session.is_open() {
            model.waiting.push_back(Waiting { packet_id, qos, answer: None });
        }
        let given = self.say(&Packet::Publish(publish));
        if !self.model.wild && given.1 {
            assert_eq!(given.0, usize::from(!is_again && !is_too_many), "messages of {guarantee:?}");
            assert_eq!(self.over, is_too_many, "the receive maximum");
        }
    }

    /// An identifier that was seen, or any.
    fn known(choices: &mut Choices, known: &[PacketId]) -> PacketId {
        if known.is_empty() || choices.chance(20) { Self::identifier(choices) } else { choices.pick(known) }
    }

    fn under_way(&self) -> Vec<PacketId> {
        self.model.in_flight.iter().map(|flight| flight.packet_id).collect()
    }

    fn puback(&mut self, choices: &mut Choices) {
        let packet_id = Self::known(choices, &self.under_way());
        let is_wrong = self.model.in_flight.iter().any(|flight| flight.is(packet_id, Qos::ExactlyOnce));
        self.model.in_flight.retain(|flight| !flight.is(packet_id, Qos::AtLeastOnce));
        self.say_step(&Packet::Puback(Ack::new(packet_id, ReasonCode::Success)), is_wrong);
    }

    fn pubrec(&mut self, choices: &mut Choices) {
        let packet_id = Self::known(choices, &self.under_way());
        let refused = choices.chance(20) && self.version == Version::V5;
        let model = &mut self.model;
        let is_wrong = model.in_flight.iter().any(|flight| flight.is(packet_id, Qos::AtLeastOnce));
        match model.in_flight.iter_mut().find(|flight| flight.is(packet_id, Qos::ExactlyOnce)) {
            // An error gets no answer, whatever it is for.
            _ if is_wrong => {}
            None if refused => {}
            None => model.answers.push_back((PacketType::Pubrel, packet_id, ReasonCode::PacketIdentifierNotFound)),
            Some(_) if refused => model.in_flight.retain(|flight| !flight.is(packet_id, Qos::ExactlyOnce)),
            Some(flight) => {
                flight.released = true;
                model.answers.push_back((PacketType::Pubrel, packet_id, ReasonCode::Success));
            }
        }
        let reason = if refused { ReasonCode::UnspecifiedError } else { ReasonCode::Success };
        self.say_step(&Packet::Pubrec(Ack::new(packet_id, reason)), is_wrong);
    }

    fn pubcomp(&mut self, choices: &mut Choices) {
        let packet_id = Self::known(choices, &self.under_way());
        let is_wrong = self.model.in_flight.iter().any(|flight| flight.packet_id == packet_id && !flight.released);
        self.model.in_flight.retain(|flight| !(flight.is(packet_id, Qos::ExactlyOnce) && flight.released));
        self.say_step(&Packet::Pubcomp(Ack::new(packet_id, ReasonCode::Success)), is_wrong);
    }

    fn pubrel(&mut self, choices: &mut Choices) {
        let held: Vec<PacketId> = self.model.held.iter().copied().collect();
        let packet_id = Self::known(choices, &held);
        let known = self.model.held.remove(&packet_id);
        let is_wrong = !known && self.model.waiting.iter().any(|waiting| waiting.packet_id == packet_id);
        let reason = if known { ReasonCode::Success } else { ReasonCode::PacketIdentifierNotFound };
        if !is_wrong {
            self.model.answers.push_back((PacketType::Pubcomp, packet_id, reason));
        }
        self.say_step(&Packet::Pubrel(Ack::new(packet_id, ReasonCode::Success)), is_wrong);
    }

    /// Says a step of an exchange. One that is not of its kind, or not due yet, ends the connection.
    fn say_step(&mut self, packet: &Packet, is_wrong: bool) {
        let (_, was_open) = self.say(packet);
        if !self.model.wild && was_open {
            assert_eq!(self.over, is_wrong, "{packet:?}");
        }
    }

    /// The bus answers one of the messages that wait for it.
    fn answer(&mut self, choices: &mut Choices) {
        let model = &mut self.model;
        let unanswered: Vec<PacketId> =
            model.waiting.iter().filter(|w| w.answer.is_none()).map(|w| w.packet_id).collect();
        if unanswered.is_empty() || self.over {
            return;
        }
        let packet_id = choices.pick(&unanswered);
        let reason = if choices.chance(20) { ReasonCode::QuotaExceeded } else { ReasonCode::Success };
        let first = model.waiting.iter_mut().find(|w| w.packet_id == packet_id && w.answer.is_none());
        first.into_iter().for_each(|waiting| waiting.answer = Some(reason));
        while let Some(Waiting { packet_id, qos, answer: Some(reason) }) = model.waiting.front().copied() {
            model.waiting.pop_front();
            let kind = if qos == Qos::ExactlyOnce { PacketType::Pubrec } else { PacketType::Puback };
            model.answers.push_back((kind, packet_id, reason));
            if qos == Qos::ExactlyOnce && (reason == ReasonCode::Success || self.version == Version::V311) {
                model.held.insert(packet_id);
            }
        }
        self.session.acknowledge(packet_id, reason);
    }

    /// The bus has a message for the client.
    fn deliver(&mut self, choices: &mut Choices) {
        let (delivery, number) = self.message(choices);
        let qos = delivery.qos;
        if self.session.deliver(delivery).is_ok() && qos != Qos::AtMostOnce {
            self.model.queued.push_back((number, qos));
        }
    }

    fn message(&mut self, choices: &mut Choices) -> (Delivery, u32) {
        self.delivered += 1;
        let qos = choices.pick(&[Qos::ExactlyOnce, Qos::AtLeastOnce, Qos::AtMostOnce]);
        let mut payload = self.delivered.to_be_bytes().to_vec();
        payload.resize(4 + usize::try_from(choices.below(PAYLOAD_BYTES_MAX)).unwrap_or(0), 0);
        let message = Arc::new(Message::new(Topic::new("t").expect("a topic"), payload, self.now.mono));
        (Delivery { message, qos, retain: false, subscription_ids: Vec::new() }, self.delivered)
    }

    fn wait(&mut self, choices: &mut Choices) {
        self.now = self.now.later(Duration::from_secs(choices.below(12)));
        self.session.handle_timeout(self.now);
        let silent = self.now.mono.since(self.last_packet) >= Duration::from_millis(u64::from(KEEP_ALIVE) * 1500);
        if !self.model.wild {
            assert_eq!(self.session.is_closed(), self.over || silent, "one and a half keep alives");
        }
        self.drain();
    }

    /// Bytes that mean nothing, or what they please.
    fn noise(&mut self, choices: &mut Choices) {
        self.model.wild = true;
        let count = usize::try_from(choices.below(40)).unwrap_or(0);
        let bytes = choices.bytes(count);
        self.give(&bytes);
    }

    /// The connection is lost, and the client comes again. Messages come while it is away.
    fn reconnect(&mut self, choices: &mut Choices) {
        self.session.handle_disconnected(self.now);
        self.drain();
        assert!(self.over, "a session ends with its connection");
        let mut state = self.session.take_state();
        let model = &mut self.model;
        model.break_off();
        model.in_flight.iter_mut().for_each(|flight| flight.again = true);
        if choices.chance(30) {
            let (delivery, number) = self.message(choices);
            let limits = AwayLimits { messages: usize::MAX, bytes: usize::MAX };
            let qos = delivery.qos;
            assert_eq!(state.deliver(delivery, 0, limits), 0);
            if qos != Qos::AtMostOnce {
                self.model.queued.push_back((number, qos));
            }
        }
        self.connect(choices, state, true);
    }

    /// Gives a packet; the messages that the owner learned of, and whether it was read at all.
    fn say(&mut self, packet: &Packet) -> (usize, bool) {
        let mut bytes = Vec::new();
        packet.emit(self.version, &mut bytes).expect("a short packet");
        let was_open = !self.over && self.session.is_open();
        if was_open {
            self.last_packet = self.now.mono;
        }
        (self.give(&bytes), was_open)
    }

    /// Gives bytes until all are taken; how many messages the owner learned of.
    fn give(&mut self, bytes: &[u8]) -> usize {
        let (mut rest, mut messages) = (bytes, 0);
        while !rest.is_empty() {
            let used = self.session.handle_input(self.now, rest);
            rest = rest.get(used..).unwrap_or_default();
            let (told, published) = self.drain();
            messages += published;
            assert!(used > 0 || told > 0 || self.transmit(), "no progress");
        }
        messages + self.drain().1
    }

    /// Serves what the owner learns; how many events, and how many of them are messages.
    fn drain(&mut self) -> (usize, usize) {
        let (mut events, mut messages) = (0, 0);
        while let Some(event) = self.session.poll_event() {
            events += 1;
            match event {
                ServerEvent::Publish(_) => messages += 1,
                ServerEvent::Subscribe(s) => {
                    self.session.suback(s.packet_id, &vec![ReasonCode::Success; s.subscriptions.len()]);
                }
                ServerEvent::Unsubscribe(u) => {
                    self.session.unsuback(u.packet_id, &vec![ReasonCode::Success; u.filters.len()]);
                }
                ServerEvent::Auth(_) => self.session.authenticated(None),
                ServerEvent::Connect(_) => panic!("a second CONNECT"),
                ServerEvent::Ended(_) => assert!(!std::mem::replace(&mut self.over, true), "two ends"),
            }
        }
        (events, messages)
    }

    /// The socket takes all that there is; whether there was anything.
    fn transmit(&mut self) -> bool {
        let mut out = Vec::new();
        while self.session.poll_transmit(self.now, &mut out) {
            assert!(out.len() <= 2 * CONTROL_BYTES_MAX + PENDING_BYTES_MAX + 65_536, "{} bytes", out.len());
        }
        self.read(&out);
        !out.is_empty()
    }

    fn read(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (used, frame) = self.decoder.feed(rest).expect("a server's packet");
            rest = rest.get(used..).unwrap_or_default();
            let frame = frame.expect("packets go out whole");
            let packet = Packet::parse(self.version, &frame).expect("a server's packet");
            if !self.model.wild {
                self.model.take(packet, self.version);
            }
        }
    }

    fn check_limits(&self) {
        let (pending, in_flight) = self.session.backlog();
        let (messages, inherited_bytes) = self.inherited;
        // Away, the bus gave it whatever came.
        let pending_max = messages.max(PENDING_MAX + messages.min(AWAY.messages));
        assert!(pending <= pending_max && in_flight <= usize::from(WINDOW), "{pending} {in_flight}");
        // One alone may be longer than the queue.
        let longest = 64 + 1 + 4 + usize::try_from(PAYLOAD_BYTES_MAX).unwrap_or(0);
        let bytes_max = inherited_bytes.max(PENDING_BYTES_MAX + inherited_bytes.min(AWAY.bytes));
        assert!(self.session.queued_bytes() <= bytes_max + longest);
        if !self.model.wild && !self.over {
            assert_eq!(in_flight, self.model.in_flight.len(), "messages under way");
        }
    }
}

impl Model {
    /// The connection is lost. What the bus has of QoS 2 is the same message when it comes again, that of QoS 1 another.
    fn break_off(&mut self) {
        self.answers.clear();
        self.waiting.retain(|waiting| waiting.qos == Qos::ExactlyOnce);
        while let Some(Waiting { packet_id, answer: Some(reason), .. }) = self.waiting.front().copied() {
            self.waiting.pop_front();
            if reason == ReasonCode::Success {
                self.held.insert(packet_id);
            }
        }
    }

    /// A packet of the server's is what was promised.
    fn take(&mut self, packet: Packet, version: Version) {
        match packet {
            Packet::Publish(publish) => self.message(&publish),
            Packet::Puback(ack) => self.acknowledgement(PacketType::Puback, &ack, version),
            Packet::Pubrec(ack) => self.acknowledgement(PacketType::Pubrec, &ack, version),
            Packet::Pubcomp(ack) => self.acknowledgement(PacketType::Pubcomp, &ack, version),
            Packet::Pubrel(ack) => {
                // Over another connection it is sent again, behind the answers.
                let again = self.in_flight.iter_mut().find(|flight| flight.again && flight.released);
                match (self.answers.front(), again) {
                    (Some((PacketType::Pubrel, ..)), _) | (_, None) => {
                        self.acknowledgement(PacketType::Pubrel, &ack, version)
                    }
                    (_, Some(flight)) => {
                        assert_eq!(flight.packet_id, ack.packet_id);
                        flight.again = false;
                    }
                }
            }
            Packet::Connack(_) | Packet::Disconnect(_) => {}
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn acknowledgement(&mut self, kind: PacketType, ack: &Ack, version: Version) {
        let (expect_kind, packet_id, reason) = self.answers.pop_front().expect("an answer that is due");
        let reason = if version == Version::V5 { reason } else { ReasonCode::Success };
        assert_eq!((kind, ack.packet_id, ack.reason), (expect_kind, packet_id, reason));
    }

    fn message(&mut self, publish: &Publish) {
        let number = publish.payload.first_chunk().map_or(0, |head| u32::from_be_bytes(*head));
        let qos = publish.guarantee.qos();
        let Some(packet_id) = publish.guarantee.packet_id() else {
            assert!(number > self.last_loose, "QoS 0 in order and once");
            self.last_loose = number;
            return;
        };
        let sent = self.in_flight.iter().filter(|flight| !flight.again).count();
        assert!(sent < self.window, "the window");
        if publish.guarantee.dup() {
            let next = self.in_flight.iter_mut().find(|flight| flight.again).expect("one that is to be sent again");
            assert_eq!((next.packet_id, next.number, next.qos, next.released), (packet_id, number, qos, false));
            next.again = false;
            return;
        }
        assert_eq!(self.queued.pop_front(), Some((number, qos)), "in order and once");
        assert!(self.in_flight.iter().all(|flight| flight.packet_id != packet_id), "an identifier that is free");
        self.in_flight.push_back(Flight { packet_id, number, qos, released: false, again: false });
    }
}
