//! A server session, packet by packet.

use super::{decode, emit, hex};
use crate::*;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Machine, Now, Topic};

pub(super) struct Bench {
    pub(super) session: ServerSession,
    version: Version,
    now: Now,
}

impl Bench {
    pub(super) fn new(version: Version, config: ServerConfig) -> Self {
        let mut session = ServerSession::new(Arc::new(config), 0xAB);
        session.handle_connected(Now::default());
        Self { session, version, now: Now::default() }
    }

    /// A session whose client was let in by this CONNECT.
    fn open(config: ServerConfig, connect: &str) -> Self {
        let bytes = hex(connect);
        let version = if bytes[8] == 4 { Version::V311 } else { Version::V5 };
        let mut bench = Self::new(version, config);
        assert!(matches!(bench.give(connect), Some(ServerEvent::Connect(_))));
        assert!(bench.session.accept(bench.now, Accept::default()));
        bench
    }

    /// A session of before that goes on.
    pub(super) fn resumed(config: ServerConfig, state: SessionState) -> Self {
        let mut bench = Self::new(Version::V5, config);
        assert!(matches!(bench.give(CONNECT5), Some(ServerEvent::Connect(_))));
        assert!(bench.session.accept(bench.now, Accept { resume: Some(state), ..Accept::default() }));
        bench
    }

    pub(super) fn v5(config: ServerConfig) -> Self {
        let mut bench = Self::open(config, CONNECT5);
        assert!(matches!(bench.sent()[..], [Packet::Connack(_)]));
        bench
    }

    pub(super) fn v311() -> Self {
        let mut bench = Self::open(ServerConfig::default(), CONNECT311);
        assert_eq!(bench.sent(), [Packet::Connack(Connack::default())]);
        bench
    }

    pub(super) fn give(&mut self, bytes: &str) -> Option<ServerEvent> {
        let bytes = hex(bytes);
        assert_eq!(self.session.handle_input(self.now, &bytes), bytes.len());
        self.session.poll_event()
    }

    pub(super) fn sent(&mut self) -> Vec<Packet> {
        let mut out = Vec::new();
        while self.session.poll_transmit(self.now, &mut out) {}
        decode(self.version, u32::MAX, &[&out]).unwrap()
    }

    fn later(&mut self, ms: u64) {
        self.now = self.now.later(Duration::from_millis(ms));
        self.session.handle_timeout(self.now);
    }

    /// The reason with which the client was disconnected, and whether its will goes out.
    #[track_caller]
    pub(super) fn check_ended(&mut self, bytes: &str, expect: ReasonCode) {
        let Some(ServerEvent::Ended(ended)) = self.give(bytes) else { panic!("no end") };
        assert!(matches!(ended.cause, EndCause::Broken { reason, .. } if reason == expect), "{ended:?}");
        assert!(ended.publish_will && self.session.is_closed());
        match (self.version, &self.sent()[..]) {
            (Version::V311, []) => {}
            (Version::V5, [Packet::Disconnect(told)]) => assert_eq!(told.reason, expect),
            (_, other) => panic!("{other:?}"),
        }
    }
}

const CONNECT311: &str = "10 0d 0004 4d515454 04 02 000a 0001 63";
const CONNECT5: &str = "10 0e 0004 4d515454 05 02 000a 00 0001 63";

pub(super) fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

pub(super) fn message(topic: &str, payload: &'static [u8]) -> Arc<Message> {
    Arc::new(Message::new(Topic::new(topic).unwrap(), payload, tieline_core::Instant::ZERO))
}

pub(super) fn delivery(message: &Arc<Message>, qos: Qos) -> Delivery {
    Delivery { message: Arc::clone(message), qos, retain: false, subscription_ids: Vec::new() }
}

pub(super) fn publish_of(packet: &Packet) -> &Publish {
    let Packet::Publish(publish) = packet else { panic!("{packet:?}") };
    publish
}

#[test]
fn mqtt_3_1_0_1_the_first_packet_is_connect() {
    for bytes in ["c0", "30 03 0001 61", "00"] {
        let mut bench = Bench::new(Version::V5, ServerConfig::default());
        assert!(bench.give(bytes).is_none());
        assert!(bench.session.is_closed() && bench.sent().is_empty());
    }
}

#[test]
fn mqtt_3_1_0_2_a_second_connect() {
    Bench::v5(ServerConfig::default()).check_ended(CONNECT5, ReasonCode::ProtocolError);
    Bench::v311().check_ended(CONNECT311, ReasonCode::ProtocolError);
}

#[test]
fn silence_before_connect_closes() {
    let mut bench = Bench::new(Version::V5, ServerConfig::default());
    bench.give("10 0e");
    bench.later(9_999);
    assert!(!bench.session.is_closed());
    bench.later(1);
    assert!(bench.session.is_closed() && bench.session.poll_event().is_none());
}

#[test]
fn mqtt_3_1_2_2_other_versions_are_told() {
    let mut bench = Bench::new(Version::V311, ServerConfig::default());
    assert!(bench.give("10 0f 0006 4d5149736470 03 02 000a 0001 63").is_none());
    assert_eq!(
        bench.sent(),
        [Packet::Connack(Connack { reason: ReasonCode::UnsupportedProtocolVersion, ..Connack::default() })]
    );
    assert!(bench.session.is_closed());
    let mut bench = Bench::new(Version::V5, ServerConfig::default());
    bench.give("10 0e 0004 4d515454 07 02 000a 00 0001 63");
    assert!(matches!(&bench.sent()[..], [Packet::Connack(c)] if c.reason == ReasonCode::UnsupportedProtocolVersion));
}

#[test]
fn refusal_speaks_the_version() {
    for (connect, version) in [(CONNECT311, Version::V311), (CONNECT5, Version::V5)] {
        let mut bench = Bench::new(version, ServerConfig::default());
        bench.give(connect);
        bench.session.refuse(ReasonCode::BadUserNameOrPassword, "who?");
        let [Packet::Connack(connack)] = &bench.sent()[..] else { panic!() };
        assert_eq!(connack.reason, ReasonCode::BadUserNameOrPassword);
        let words = connack.properties.reason_string().map(|t| t.to_string());
        assert_eq!(words.as_deref(), (version == Version::V5).then_some("who?"));
        assert!(bench.session.is_closed() && bench.session.poll_event().is_none());
    }
}

#[test]
fn mqtt_3_1_3_7_names_are_made_up() {
    let mut bench = Bench::new(Version::V5, ServerConfig { keep_alive_s_max: 5, ..ServerConfig::default() });
    let Some(ServerEvent::Connect(request)) = bench.give("10 0d 0004 4d515454 05 02 000a 00 0000") else { panic!() };
    assert_eq!(&*request.client_id, "tieline-00000000000000ab");
    bench.session.accept(bench.now, Accept::default());
    let [Packet::Connack(connack)] = &bench.sent()[..] else { panic!() };
    assert_eq!(connack.properties.assigned_client_id(), Some(request.client_id));
    assert_eq!(connack.properties.server_keep_alive_s(), Some(5));
    assert_eq!(connack.properties.shared_available(), Some(false));
    // [MQTT-3.1.3-8] of 3.1.1.
    let mut bench = Bench::new(Version::V311, ServerConfig::default());
    bench.give("10 0c 0004 4d515454 04 00 000a 0000");
    let [Packet::Connack(connack)] = &bench.sent()[..] else { panic!() };
    assert_eq!(connack.reason, ReasonCode::ClientIdentifierNotValid);
}

#[test]
fn what_comes_ahead_of_the_answer_waits() {
    let mut bench = Bench::new(Version::V5, ServerConfig::default());
    let all = hex(&(CONNECT5.to_string() + "30 05 0001 61 00 31 c0 00"));
    let used = bench.session.handle_input(bench.now, &all);
    assert!(matches!(bench.session.poll_event(), Some(ServerEvent::Connect(_))));
    assert_eq!(bench.session.handle_input(bench.now, &all[used..]), all.len() - used);
    assert!(bench.session.poll_event().is_none());
    bench.session.accept(bench.now, Accept::default());
    assert!(matches!(bench.session.poll_event(), Some(ServerEvent::Publish(_))));
    assert!(bench.session.poll_event().is_none());
    assert!(matches!(bench.sent()[..], [Packet::Connack(_), Packet::Pingresp]));
}

#[test]
fn mqtt_3_1_2_22_keep_alive() {
    let mut bench = Bench::v5(ServerConfig::default());
    bench.later(14_000);
    assert!(bench.give("c0 00").is_none());
    assert_eq!(bench.sent(), [Packet::Pingresp]);
    bench.later(14_999);
    assert!(!bench.session.is_closed());
    bench.later(1);
    assert!(matches!(&bench.sent()[..], [Packet::Disconnect(d)] if d.reason == ReasonCode::KeepAliveTimeout));
    assert!(matches!(
        bench.session.poll_event(),
        Some(ServerEvent::Ended(Ended { cause: EndCause::Silent, publish_will: true, .. }))
    ));
}

#[test]
fn a_packet_that_trickles_ends_whatever_the_keep_alive() {
    // Keep alive 0, and a PUBLISH of 1280 bytes of which one comes at a time.
    let mut bench = Bench::open(ServerConfig::default(), "10 0e 0004 4d515454 05 02 0000 00 0001 63");
    bench.sent();
    bench.give("30 80 0a 00");
    for _ in 0..69 {
        bench.later(1000);
        assert!(bench.give("01").is_none() && !bench.session.is_closed());
    }
    bench.later(999);
    assert!(!bench.session.is_closed());
    bench.later(1);
    assert!(matches!(&bench.sent()[..], [Packet::Disconnect(d)] if d.reason == ReasonCode::KeepAliveTimeout));
    // One that comes to its end leaves the next its time.
    let mut bench = Bench::open(ServerConfig::default(), "10 0e 0004 4d515454 05 02 0000 00 0001 63");
    for _ in 0..3 {
        bench.give("c0");
        bench.later(59_000);
        bench.give("00");
        assert_eq!(bench.sent().last(), Some(&Packet::Pingresp));
    }
    bench.later(1_000_000);
    assert!(!bench.session.is_closed());
}

#[test]
fn mqtt_3_14_4_3_disconnect_and_the_will() {
    for (bytes, cause, publish_will) in [
        ("e0 00", ReasonCode::Success, false),
        ("e0 01 04", ReasonCode::DisconnectWithWill, true),
        ("e0 01 80", ReasonCode::UnspecifiedError, true),
    ] {
        let mut bench = Bench::v5(ServerConfig::default());
        let Some(ServerEvent::Ended(ended)) = bench.give(bytes) else { panic!() };
        assert_eq!(ended, Ended { cause: EndCause::Client(cause), publish_will, session_expiry_s: None });
        assert!(bench.sent().is_empty());
    }
    let mut bench = Bench::v5(ServerConfig::default());
    bench.session.handle_disconnected(bench.now);
    bench.session.handle_disconnected(bench.now);
    assert!(matches!(
        bench.session.poll_event(),
        Some(ServerEvent::Ended(Ended { cause: EndCause::Lost, publish_will: true, .. }))
    ));
    assert!(bench.session.poll_event().is_none());
    // Section 3.14.2.2.2.
    Bench::v5(ServerConfig::default()).check_ended("e0 07 00 05 11 00000001", ReasonCode::ProtocolError);
}

#[test]
fn broken_rules_of_an_open_session() {
    let check = |bytes: &str, reason| Bench::v5(ServerConfig::default()).check_ended(bytes, reason);
    check("20 03 00 00 00", ReasonCode::ProtocolError);
    check("d0 00", ReasonCode::ProtocolError);
    check("f0 00", ReasonCode::ProtocolError);
    check("c1 00", ReasonCode::MalformedPacket);
    check("30 ffffff7f", ReasonCode::PacketTooLarge);
    check("30 06 0001 61 02 0b 01", ReasonCode::ProtocolError); // [MQTT-3.3.4-6]
    check("30 07 0001 61 03 23 0011", ReasonCode::TopicAliasInvalid); // [MQTT-3.3.2-9]
    check("30 06 0000 03 23 0001", ReasonCode::ProtocolError);
    check("82 0c 0001 00 0006 612f232f62 00 00", ReasonCode::MalformedPacket); // U+0000
    check("82 0b 0001 00 0005 612f232f62 00", ReasonCode::TopicFilterInvalid); // [MQTT-4.7.1-1]
    check("82 08 0001 00 0002 612b 00", ReasonCode::TopicFilterInvalid); // [MQTT-4.7.1-2]
    check("82 0f 0001 00 0009 2473686172652f2b2f 00", ReasonCode::TopicFilterInvalid); // [MQTT-4.8.2-2]
    check("82 10 0001 00 000a 2473686172652f672f61 04", ReasonCode::ProtocolError); // [MQTT-3.8.3-4]
}

#[test]
fn topic_aliases_are_resolved() {
    let mut bench = Bench::v5(ServerConfig::default());
    for bytes in ["30 07 0001 61 03 23 0010", "30 06 0000 03 23 0010"] {
        let Some(ServerEvent::Publish(publish)) = bench.give(bytes) else { panic!() };
        assert_eq!(publish.message.topic.as_str(), "a");
        assert!(publish.message.properties.is_empty());
    }
}

#[test]
fn mqtt_4_6_0_2_answers_keep_the_order() {
    let mut bench = Bench::v5(ServerConfig::default());
    for bytes in ["32 06 0001 61 0001 00", "34 06 0001 61 0002 00", "32 06 0001 61 0003 00"] {
        assert!(matches!(bench.give(bytes), Some(ServerEvent::Publish(_))));
    }
    bench.session.acknowledge(id(3), ReasonCode::Success);
    bench.session.acknowledge(id(2), ReasonCode::Success);
    assert!(bench.sent().is_empty());
    bench.session.acknowledge(id(1), ReasonCode::NoMatchingSubscribers);
    let ack = |number, reason| Ack::new(id(number), reason);
    let expect = [
        Packet::Puback(ack(1, ReasonCode::NoMatchingSubscribers)),
        Packet::Pubrec(ack(2, ReasonCode::Success)),
        Packet::Puback(ack(3, ReasonCode::Success)),
    ];
    assert_eq!(bench.sent(), expect);
}

#[test]
fn mqtt_4_3_3_qos_2_arrives_once() {
    let mut bench = Bench::v311();
    assert!(matches!(bench.give("34 05 0001 61 0007"), Some(ServerEvent::Publish(_))));
    assert!(bench.give("3c 05 0001 61 0007").is_none());
    bench.session.acknowledge(id(7), ReasonCode::Success);
    assert!(bench.give("3c 05 0001 61 0007").is_none());
    assert!(bench.give("62 02 0007").is_none());
    let ack = Ack::new(id(7), ReasonCode::Success);
    assert_eq!(bench.sent(), [Packet::Pubrec(ack.clone()), Packet::Pubrec(ack.clone()), Packet::Pubcomp(ack)]);
    assert!(matches!(bench.give("34 05 0001 61 0007"), Some(ServerEvent::Publish(_))));
}

#[test]
fn mqtt_3_3_4_7_receive_maximum() {
    let mut bench = Bench::v5(ServerConfig { receive_max: 1, ..ServerConfig::default() });
    assert!(bench.give("32 06 0001 61 0001 00").is_some());
    bench.check_ended("32 06 0001 61 0002 00", ReasonCode::ReceiveMaximumExceeded);
}

#[test]
fn deliveries_keep_to_the_clients_window() {
    // Receive maximum 1.
    let mut bench = Bench::open(ServerConfig::default(), "10 11 0004 4d515454 05 02 000a 03 21 0001 0001 63");
    bench.sent();
    let m = message("t", b"x");
    bench.session.deliver(delivery(&m, Qos::AtLeastOnce)).unwrap();
    bench
        .session
        .deliver(Delivery { subscription_ids: vec![SubscriptionId::new(5).unwrap()], ..delivery(&m, Qos::ExactlyOnce) })
        .unwrap();
    let sent = bench.sent();
    assert_eq!(publish_of(&sent[0]).guarantee, Guarantee::AtLeastOnce { packet_id: id(1), dup: false });
    assert_eq!((sent.len(), bench.session.backlog()), (1, (1, 1)));
    bench.give("40 02 0001");
    let sent = bench.sent();
    assert_eq!(publish_of(&sent[0]).guarantee, Guarantee::ExactlyOnce { packet_id: id(2), dup: false });
    assert_eq!(publish_of(&sent[0]).properties.subscription_id(), SubscriptionId::new(5));
    bench.give("50 02 0002");
    bench.give("50 02 0002");
    let release = Packet::Pubrel(Ack::new(id(2), ReasonCode::Success));
    assert_eq!(bench.sent(), [release.clone(), release]);
    bench.give("70 02 0002");
    assert_eq!(bench.session.backlog(), (0, 0));
    bench.give("50 02 0002");
    assert_eq!(bench.sent(), [Packet::Pubrel(Ack::new(id(2), ReasonCode::PacketIdentifierNotFound))]);
}

#[test]
fn what_waits_may_be_withheld_and_what_was_sent_is_completed() {
    let mut bench = Bench::v5(ServerConfig { in_flight_max: 1, ..ServerConfig::default() });
    for (topic, qos) in [
        ("closed", Qos::AtLeastOnce),
        ("closed", Qos::ExactlyOnce),
        ("open", Qos::AtLeastOnce),
        ("closed", Qos::AtLeastOnce),
    ] {
        bench.session.deliver(delivery(&message(topic, b"x"), qos)).unwrap();
    }
    assert_eq!(bench.sent().len(), 1);
    let may_stay = |delivery: &Delivery| delivery.message.topic.as_str() == "open";
    assert_eq!(bench.session.keep_only(may_stay), 2);
    assert_eq!(bench.session.backlog(), (1, 1));
    bench.give("40 02 0001");
    assert_eq!(publish_of(&bench.sent()[0]).topic.as_str(), "open");
    let mut state = bench.session.take_state();
    assert_eq!((state.bytes(), state.keep_only(|_| false), state.backlog()), (0, 0, (0, 1)));
}

#[test]
fn a_full_queue_drops_qos_0_and_refuses_the_rest() {
    let config = ServerConfig { pending_max: 2, in_flight_max: 1, ..ServerConfig::default() };
    let mut bench = Bench::v5(config);
    let m = message("t", b"x");
    bench.session.deliver(delivery(&m, Qos::AtMostOnce)).unwrap();
    bench.session.deliver(delivery(&m, Qos::AtLeastOnce)).unwrap();
    bench.session.deliver(delivery(&m, Qos::AtLeastOnce)).unwrap();
    assert_eq!(bench.session.counters().dropped_full, 1);
    bench.session.deliver(delivery(&m, Qos::AtMostOnce)).unwrap();
    assert_eq!(bench.session.counters().dropped_full, 2);
    assert_eq!(bench.session.deliver(delivery(&m, Qos::AtLeastOnce)), Err(DeliverError::Full));
    assert_eq!(bench.session.counters().refused_full, 1);
}

#[test]
fn mqtt_3_1_2_25_large_messages_are_left_out() {
    // Maximum packet size 20.
    let mut bench = Bench::open(ServerConfig::default(), "10 13 0004 4d515454 05 02 000a 05 27 00000014 0001 63");
    bench.sent();
    bench.session.deliver(delivery(&message("t", &[0; 20]), Qos::AtLeastOnce)).unwrap();
    bench.session.deliver(delivery(&message("t", &[0; 2]), Qos::AtMostOnce)).unwrap();
    assert_eq!(publish_of(&bench.sent()[0]).payload.len(), 2);
    assert_eq!(bench.session.counters().dropped_too_large, 1);
    assert!(bench.session.can_take_shared_frame(20) && !bench.session.can_take_shared_frame(21));
    bench.session.disconnect(ReasonCode::ServerShuttingDown, "these words do not fit into a packet");
    assert_eq!(
        bench.sent(),
        [Packet::Disconnect(Disconnect { reason: ReasonCode::ServerShuttingDown, ..Disconnect::default() })]
    );
}

#[test]
fn mqtt_3_3_2_5_and_6_expiry_counts_down() {
    let mut bench = Bench::open(ServerConfig::default(), CONNECT5);
    assert!(!bench.session.can_take_shared_frame(1), "not before CONNACK");
    bench.sent();
    let plain = Message::new(Topic::new("t").unwrap(), b"x".as_slice(), bench.now.mono);
    let expiring =
        |s| Arc::new(Message { properties: [Property::MessageExpiry(s)].into_iter().collect(), ..plain.clone() });
    bench.session.deliver(delivery(&expiring(2), Qos::AtMostOnce)).unwrap();
    bench.session.deliver(delivery(&expiring(9), Qos::AtMostOnce)).unwrap();
    bench.later(2_500);
    let sent = bench.sent();
    assert_eq!((sent.len(), publish_of(&sent[0]).properties.message_expiry_s()), (1, Some(7)));
    assert_eq!(bench.session.counters().dropped_expired, 1);
    assert_eq!(encode_publish(Version::V5, &expiring(2), false, bench.now.mono), None);
}

#[test]
fn one_frame_for_all() {
    let m = message("a/b", b"hi");
    let frame = |version| encode_publish(version, &m, false, m.received).unwrap();
    assert_eq!(frame(Version::V311), hex("30 07 0003 612f62 6869"));
    assert_eq!(frame(Version::V5), hex("30 08 0003 612f62 00 6869"));
}

#[test]
fn mqtt_4_4_0_1_a_resumed_session_sends_again() {
    let mut bench = Bench::v5(ServerConfig::default());
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce, Qos::ExactlyOnce] {
        bench.session.deliver(delivery(&message("t", b"x"), qos)).unwrap();
    }
    bench.sent();
    bench.give("50 02 0003");
    bench.session.handle_disconnected(bench.now);
    let state = bench.session.take_state();
    let mut next = Bench::new(Version::V5, ServerConfig::default());
    next.give(CONNECT5);
    next.session.accept(next.now, Accept { resume: Some(state), session_expiry_s: 60, ..Accept::default() });
    let sent = next.sent();
    let [Packet::Connack(connack), first, second, third] = &sent[..] else { panic!("{sent:?}") };
    assert!(connack.session_present && connack.properties.session_expiry_s() == Some(60));
    assert_eq!(publish_of(first).guarantee, Guarantee::AtLeastOnce { packet_id: id(1), dup: true });
    assert_eq!(publish_of(second).guarantee, Guarantee::ExactlyOnce { packet_id: id(2), dup: true });
    assert_eq!(third, &Packet::Pubrel(Ack::new(id(3), ReasonCode::Success)));
}

/// The session of a client that was sent these and comes again with this CONNECT; what it is sent behind CONNACK.
fn comes_again(sent: &[Arc<Message>], connect: &str) -> (Bench, Vec<Packet>) {
    let mut bench = Bench::v5(ServerConfig::default());
    sent.iter().for_each(|message| bench.session.deliver(delivery(message, Qos::AtLeastOnce)).unwrap());
    bench.sent();
    let mut next = Bench::new(Version::V5, ServerConfig::default());
    next.give(connect);
    next.session.accept(next.now, Accept { resume: Some(bench.session.take_state()), ..Accept::default() });
    let sent = next.sent().split_off(1);
    (next, sent)
}

#[test]
fn mqtt_3_3_4_9_what_is_sent_again_keeps_to_the_window_of_its_connection() {
    let one_at_a_time = "10 11 0004 4d515454 05 02 000a 03 21 0001 0001 63";
    let (mut bench, sent) = comes_again(&[message("t", b"1"), message("t", b"2")], one_at_a_time);
    let [first] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(publish_of(first).guarantee, Guarantee::AtLeastOnce { packet_id: id(1), dup: true });
    bench.session.deliver(delivery(&message("t", b"3"), Qos::AtLeastOnce)).unwrap();
    bench.session.deliver(delivery(&message("t", b"0"), Qos::AtMostOnce)).unwrap();
    let payloads = |packets: &[Packet]| packets.iter().map(|p| publish_of(p).payload.clone()).collect::<Vec<_>>();
    assert_eq!(payloads(&bench.sent()), [&b"0"[..]], "QoS 0 needs no window");
    bench.give("40 02 0001");
    assert_eq!(payloads(&bench.sent()), [&b"2"[..]]);
    bench.give("40 02 0002");
    assert_eq!(payloads(&bench.sent()), [&b"3"[..]]);
}

#[test]
fn mqtt_3_1_2_24_what_is_sent_again_fits_the_client_that_comes() {
    let forty_bytes = "10 13 0004 4d515454 05 02 000a 05 27 00000028 0001 63";
    let (bench, sent) = comes_again(&[message("t", &[b'x'; 40]), message("t", b"2")], forty_bytes);
    let [second] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(publish_of(second).guarantee, Guarantee::AtLeastOnce { packet_id: id(2), dup: true });
    assert_eq!((bench.session.backlog(), bench.session.counters().dropped_too_large), ((0, 1), 1));
}

#[test]
fn subscribe_reaches_the_owner() {
    let mut bench = Bench::v5(ServerConfig::default());
    let Some(ServerEvent::Subscribe(request)) =
        bench.give("82 16 0001 02 0b 09 0001 23 01 000a 2473686172652f672f61 02")
    else {
        panic!()
    };
    assert_eq!(request.subscription_id, SubscriptionId::new(9));
    assert_eq!((request.subscriptions[0].0.filter.as_str(), &request.subscriptions[0].0.share), ("#", &None));
    assert_eq!(request.subscriptions[1].0.filter.as_str(), "a");
    assert_eq!(request.subscriptions[1].0.share.as_deref(), Some("g"));
    bench.session.suback(request.packet_id, &[Qos::AtLeastOnce.granted(), ReasonCode::SharedSubscriptionsNotSupported]);
    assert_eq!(emit(Version::V5, &bench.sent()[0]), hex("90 05 0001 00 01 9e"));
    let Some(ServerEvent::Unsubscribe(request)) = bench.give("a2 06 0002 00 0001 23") else { panic!() };
    bench.session.unsuback(request.packet_id, &[ReasonCode::Success]);
    assert_eq!(emit(Version::V5, &bench.sent()[0]), hex("b0 04 0002 00 00"));
}

#[test]
fn an_idle_session_is_small() {
    assert!(size_of::<ServerSession>() <= 1024, "{}", size_of::<ServerSession>());
}

/// A client that speaks HTTP is answered in HTTP and closed; any other that does not begin with a CONNECT gets nothing.
#[test]
fn http_is_answered_where_it_may_be() {
    let answered = |given: &[u8], http_answer: &[u8]| {
        let config = ServerConfig { http_answer: http_answer.into(), ..ServerConfig::default() };
        let mut bench = Bench::new(Version::V5, config);
        assert_eq!(bench.session.handle_input(bench.now, given), given.len());
        let mut out = Vec::new();
        bench.session.poll_transmit(bench.now, &mut out);
        assert!(bench.session.is_closed() && bench.session.poll_event().is_none());
        (out, bench.session.is_http())
    };
    for request in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"POST /v1/command HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        assert_eq!(answered(request, b"HTTP/1.1 421 "), (b"HTTP/1.1 421 ".to_vec(), true));
        assert_eq!(answered(request, b""), (Vec::new(), true));
    }
    for other in [&b"\xC0\x00"[..], b"SSH-2.0-x\r\n", b"GETTING"] {
        assert_eq!(answered(other, b"HTTP/1.1 421 "), (Vec::new(), false));
    }
}
