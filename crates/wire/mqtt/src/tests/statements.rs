//! Normative statements of MQTT 5.0 that no other test of a session shows, by their numbers.

use super::{decode, emit, hex};
use crate::*;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Machine, Now, Topic};

/// CONNECT of client "c" with these properties, as hexadecimal digits.
fn connect(properties: &str) -> Vec<u8> {
    let properties = hex(properties);
    let mut body = hex("0004 4d515454 05 02 000a");
    body.push(u8::try_from(properties.len()).unwrap());
    body.extend(properties);
    body.extend(hex("0001 63"));
    [vec![0x10, u8::try_from(body.len()).unwrap()], body].concat()
}

pub(super) struct Bench {
    pub(super) session: ServerSession,
    now: Now,
}

impl Bench {
    fn new() -> Self {
        let mut session = ServerSession::new(Arc::default(), 1);
        session.handle_connected(Now::default());
        Self { session, now: Now::default() }
    }

    /// A session of a client with these properties that was let in; what it was sent.
    pub(super) fn open(properties: &str, accept: Accept) -> (Self, Vec<Packet>) {
        let mut bench = Self::new();
        assert!(matches!(bench.give(&connect(properties)), Some(ServerEvent::Connect(_))));
        bench.session.accept(bench.now, accept);
        let sent = bench.sent();
        (bench, sent)
    }

    pub(super) fn give(&mut self, bytes: &[u8]) -> Option<ServerEvent> {
        assert_eq!(self.session.handle_input(self.now, bytes), bytes.len());
        self.session.poll_event()
    }

    pub(super) fn sent(&mut self) -> Vec<Packet> {
        let mut out = Vec::new();
        while self.session.poll_transmit(self.now, &mut out) {}
        decode(Version::V5, u32::MAX, &[&out]).unwrap()
    }

    fn deliver(&mut self, qos: Qos) {
        let message = Arc::new(Message::new(Topic::new("t").unwrap(), b"x".as_slice(), self.now.mono));
        self.session.deliver(Delivery { message, qos, retain: false, subscription_ids: Vec::new() }).unwrap();
    }
}

fn method(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("15 {:04x} {digits}", name.len())
}

/// AUTH with this reason, method and data.
fn auth(reason: u8, name: &str, data: &str) -> Vec<u8> {
    let properties = hex(&format!("{} 16 {:04x} {data}", method(name), hex(data).len()));
    let mut packet = vec![0xF0, u8::try_from(properties.len() + 2).unwrap(), reason];
    packet.push(u8::try_from(properties.len()).unwrap());
    packet.extend(properties);
    packet
}

fn data(bytes: &[u8]) -> Option<Binary> {
    Binary::new(bytes.to_vec()).ok()
}

#[track_caller]
fn check_auth(packet: &Packet, reason: ReasonCode, bytes: &[u8]) {
    let Packet::Auth(auth) = packet else { panic!("{packet:?}") };
    assert_eq!(auth.reason, reason);
    assert_eq!(auth.properties.authentication_method().as_deref(), Some("M"));
    assert_eq!(auth.properties.authentication_data(), data(bytes));
}

#[test]
fn an_authentication_goes_back_and_forth() {
    let mut bench = Bench::new();
    let Some(ServerEvent::Connect(request)) = bench.give(&connect(&(method("M") + "16 0001 01"))) else { panic!() };
    assert_eq!(request.properties.authentication_data(), data(&[1]));
    for step in 2..4 {
        // [MQTT-4.12.0-2], [MQTT-4.12.0-3], [MQTT-4.12.0-5], [MQTT-3.2.0-1]: AUTH alone goes before CONNACK.
        bench.session.challenge(bench.now, data(&[step]));
        let sent = bench.sent();
        check_auth(&sent[0], ReasonCode::ContinueAuthentication, &[step]);
        assert_eq!(sent.len(), 1);
        let Some(ServerEvent::Auth(answer)) = bench.give(&auth(0x18, "M", "aa")) else { panic!() };
        assert_eq!((answer.reason, answer.data), (ReasonCode::ContinueAuthentication, data(&[0xAA])));
    }
    let last = Accept { authentication_data: data(&[9]), ..Accept::default() };
    assert!(bench.session.accept(bench.now, last));
    let [Packet::Connack(connack)] = &bench.sent()[..] else { panic!() };
    assert_eq!(connack.properties.authentication_method().as_deref(), Some("M"));
    assert_eq!(connack.properties.authentication_data(), data(&[9]));
    // [MQTT-4.12.1-1]: once more, on the open connection, while messages go on.
    let Some(ServerEvent::Auth(again)) = bench.give(&auth(0x19, "M", "01")) else { panic!() };
    assert_eq!(again.reason, ReasonCode::ReAuthenticate);
    bench.session.challenge(bench.now, data(&[5]));
    check_auth(&bench.sent()[0], ReasonCode::ContinueAuthentication, &[5]);
    assert!(bench.give(&hex("c0 00")).is_none());
    assert_eq!(bench.sent(), [Packet::Pingresp]);
    assert!(matches!(bench.give(&auth(0x18, "M", "02")), Some(ServerEvent::Auth(_))));
    bench.session.authenticated(data(&[6]));
    check_auth(&bench.sent()[0], ReasonCode::Success, &[6]);
    bench.session.authenticated(None);
    bench.session.challenge(bench.now, None);
    assert!(bench.sent().is_empty(), "nobody asked");
}

#[test]
fn an_authentication_that_breaks_a_rule_ends() {
    // What comes before CONNACK, after a challenge: [MQTT-3.1.2-30], [MQTT-4.12.0-3], [MQTT-4.12.0-5],
    // [MQTT-3.15.1-1], [MQTT-3.15.2-1].
    for (bytes, expect) in [
        (hex("c0 00"), Some(ReasonCode::ProtocolError)),
        (auth(0x18, "N", "01"), Some(ReasonCode::ProtocolError)),
        (auth(0x19, "M", "01"), Some(ReasonCode::ProtocolError)),
        (auth(0x97, "M", "01"), Some(ReasonCode::MalformedPacket)),
        (hex("f1 00"), Some(ReasonCode::MalformedPacket)),
        (hex("f0 00"), Some(ReasonCode::ProtocolError)),
        (hex("e0 00"), None),
    ] {
        let mut bench = Bench::new();
        bench.give(&connect(&method("M")));
        bench.session.challenge(bench.now, None);
        bench.sent();
        assert!(bench.give(&bytes).is_none());
        let told = bench.sent().first().map(|packet| {
            let Packet::Connack(connack) = packet else { panic!("{packet:?}") };
            connack.reason
        });
        assert_eq!((told, bench.session.is_closed()), (expect, true), "{bytes:02x?}");
    }
    // On an open connection: [MQTT-4.12.0-7], [MQTT-4.12.1-1].
    for (properties, bytes) in
        [("", auth(0x19, "M", "01")), (&*method("M"), auth(0x19, "N", "01")), (&*method("M"), auth(0x18, "M", "01"))]
    {
        let (mut bench, _) = Bench::open(properties, Accept::default());
        let Some(ServerEvent::Ended(ended)) = bench.give(&bytes) else { panic!() };
        assert!(matches!(ended.cause, EndCause::Broken { reason: ReasonCode::ProtocolError, .. }));
    }
}

#[test]
fn an_authentication_can_be_refused_at_any_point() {
    for steps in 0..2 {
        let mut bench = Bench::new();
        bench.give(&connect(&method("M")));
        for _ in 0..steps {
            bench.session.challenge(bench.now, None);
            bench.give(&auth(0x18, "M", "01"));
            bench.sent();
        }
        // [MQTT-4.12.0-4]
        bench.session.refuse(ReasonCode::NotAuthorized, "");
        assert!(matches!(&bench.sent()[..], [Packet::Connack(c)] if c.reason == ReasonCode::NotAuthorized));
        assert!(bench.session.is_closed());
    }
    // Silence after a challenge.
    let mut bench = Bench::new();
    bench.give(&connect(&method("M")));
    bench.session.challenge(bench.now, None);
    assert_eq!(bench.session.timeout(), Some(bench.now.later(Duration::from_secs(10)).mono));
    bench.session.handle_timeout(bench.now.later(Duration::from_secs(10)));
    assert!(bench.session.is_closed());
}

#[test]
fn who_names_no_method_hears_of_none() {
    // [MQTT-4.12.0-6], [MQTT-3.1.2-28]
    let mut bench = Bench::new();
    bench.give(&connect(""));
    bench.session.challenge(bench.now, data(&[1]));
    assert!(bench.sent().is_empty());
    let options =
        Accept { authentication_data: data(&[1]), response_information: Text::new("reply").ok(), ..Accept::default() };
    bench.session.accept(bench.now, options);
    let [Packet::Connack(connack)] = &bench.sent()[..] else { panic!() };
    let told = &connack.properties;
    assert!(told.authentication_method().is_none() && told.authentication_data().is_none());
    assert!(told.response_information().is_none());
}

#[test]
fn reasons_in_words_go_where_they_are_wanted_and_fit() {
    // Properties of CONNECT, and whether SUBACK has words: [MQTT-3.1.2-29], [MQTT-3.9.2-1].
    for (properties, words) in
        [("", true), ("17 01", true), ("17 00", false), ("27 00000050", true), ("27 0000003c", false)]
    {
        let (mut bench, _) = Bench::open(properties, Accept::default());
        let text = "x".repeat(50);
        bench.session.suback_because(PacketId::MIN, &[ReasonCode::QuotaExceeded], &text);
        let [Packet::Suback(suback)] = &bench.sent()[..] else { panic!("{properties}") };
        assert_eq!(suback.properties.reason_string().is_some(), words, "{properties}");
    }
}

#[test]
fn no_packet_is_longer_than_the_client_takes() {
    // [MQTT-3.1.2-24], [MQTT-3.2.2-19]: a client that takes no CONNACK gets none.
    let mut bench = Bench::new();
    bench.give(&connect("27 00000014"));
    let state = SessionState::default();
    assert!(!bench.session.accept(bench.now, Accept { resume: Some(state), session_expiry_s: 9, ..Accept::default() }));
    assert!(bench.session.is_closed() && bench.sent().is_empty());
    // One that asks for more filters than it takes reasons for.
    let (mut bench, _) = Bench::open("27 00000028", Accept::default());
    bench.session.suback(PacketId::MIN, &[ReasonCode::Success; 40]);
    let sent = bench.sent();
    assert!(matches!(&sent[..], [Packet::Disconnect(d)] if d.reason == ReasonCode::PacketTooLarge), "{sent:?}");
    assert!(emit(Version::V5, &sent[0]).len() <= 40);
}

#[test]
fn a_user_property_of_connack_is_left_out_where_it_does_not_fit() {
    // [MQTT-3.2.2-20]
    for (properties, told) in [("", true), ("27 00000060", true), ("27 00000030", false)] {
        let pair = (Text::new(&"k".repeat(20)).unwrap(), Text::new(&"v".repeat(20)).unwrap());
        let (_, sent) = Bench::open(properties, Accept { agreed: Some(pair), ..Accept::default() });
        let [Packet::Connack(connack)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(connack.properties.user_properties().count(), usize::from(told), "{properties}");
    }
}

#[test]
fn qos_0_and_answers_do_not_wait_for_the_window() {
    // Receive maximum 1: [MQTT-3.3.4-9], [MQTT-3.3.4-10], [MQTT-4.9.0-1] to [MQTT-4.9.0-3].
    let (mut bench, _) = Bench::open("21 0001", Accept::default());
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce, Qos::AtMostOnce, Qos::AtLeastOnce, Qos::AtMostOnce] {
        bench.deliver(qos);
    }
    let levels = |packets: &[Packet]| -> Vec<u8> {
        let level = |packet: &Packet| match packet {
            Packet::Publish(publish) => publish.guarantee.qos().bits(),
            packet => panic!("{packet:?}"),
        };
        packets.iter().map(level).collect()
    };
    assert_eq!(levels(&bench.sent()), [1, 0, 0]);
    bench.give(&hex("c0 00"));
    bench.give(&hex("82 07 0009 00 0001 61 00"));
    bench.session.suback(PacketId::MIN, &[ReasonCode::Success]);
    assert!(matches!(bench.sent()[..], [Packet::Pingresp, Packet::Suback(_)]));
    bench.give(&hex("40 02 0001"));
    assert_eq!(levels(&bench.sent()), [2]);
    // An error ends the exchange and frees its place: [MQTT-4.4.0-2], [MQTT-4.8.2-6].
    bench.give(&hex("50 03 0002 97"));
    assert_eq!(levels(&bench.sent()), [1]);
}

#[test]
fn refused_messages_may_be_sent_anew() {
    let (mut bench, _) = Bench::open("", Accept::default());
    let publish = hex("34 06 0001 61 0001 00");
    for _ in 0..2 {
        // [MQTT-4.3.3-9]: after an error the same identifier is another message.
        assert!(matches!(bench.give(&publish), Some(ServerEvent::Publish(_))));
        bench.session.acknowledge(PacketId::MIN, ReasonCode::QuotaExceeded);
        assert!(matches!(&bench.sent()[..], [Packet::Pubrec(ack)] if ack.reason == ReasonCode::QuotaExceeded));
    }
    for _ in 0..2 {
        // [MQTT-4.3.2-5]: so it is after PUBACK, whatever DUP says.
        assert!(matches!(bench.give(&hex("3a 06 0001 61 0001 00")), Some(ServerEvent::Publish(_))));
        bench.session.acknowledge(PacketId::MIN, ReasonCode::Success);
        assert!(matches!(&bench.sent()[..], [Packet::Puback(_)]));
    }
}

#[test]
fn nothing_follows_a_disconnect() {
    let (mut bench, _) = Bench::open("", Accept::default());
    bench.deliver(Qos::AtLeastOnce);
    bench.session.disconnect(ReasonCode::ServerShuttingDown, "");
    bench.session.suback(PacketId::MIN, &[ReasonCode::Success]);
    // [MQTT-3.14.4-1], [MQTT-3.14.4-2], [MQTT-3.14.2-2]
    let [Packet::Disconnect(told)] = &bench.sent()[..] else { panic!() };
    assert!(told.properties.session_expiry_s().is_none() && bench.session.is_closed());
    // [MQTT-3.14.0-1]: before CONNACK there is none.
    let mut bench = Bench::new();
    bench.give(&connect(""));
    bench.session.disconnect(ReasonCode::ServerShuttingDown, "");
    assert!(bench.sent().is_empty() && bench.session.is_closed());
}

#[test]
fn a_client_is_sent_elsewhere() {
    let other = Text::new("other.example:1883").unwrap();
    for (for_good, expect) in [(true, ReasonCode::ServerMoved), (false, ReasonCode::UseAnotherServer)] {
        let mut bench = Bench::new();
        bench.give(&connect(""));
        bench.session.redirect(&other, for_good);
        let [Packet::Connack(connack)] = &bench.sent()[..] else { panic!() };
        assert_eq!((connack.reason, connack.properties.server_reference()), (expect, Some(other.clone())));
        let (mut bench, _) = Bench::open("", Accept::default());
        bench.session.redirect(&other, for_good);
        let [Packet::Disconnect(told)] = &bench.sent()[..] else { panic!() };
        assert_eq!((told.reason, told.properties.server_reference()), (expect, Some(other.clone())));
        assert!(bench.session.is_closed());
    }
}

#[test]
fn what_the_owner_does_not_get_another_may() {
    let state = |acknowledge: &str| {
        let (mut bench, _) = Bench::open("21 0002", Accept::default());
        for (tag, qos) in [(1, Qos::AtLeastOnce), (2, Qos::ExactlyOnce), (3, Qos::AtLeastOnce), (4, Qos::ExactlyOnce)] {
            let message = Arc::new(Message::new(Topic::new("t").unwrap(), b"x".as_slice(), bench.now.mono));
            let delivery = Delivery { message, qos, retain: false, subscription_ids: Vec::new() };
            bench.session.deliver_tagged(delivery, tag).unwrap();
        }
        bench.sent();
        bench.give(&hex(acknowledge));
        bench.session.take_state()
    };
    // [MQTT-4.8.2-5]: what was sent with QoS 2 goes to nobody else.
    let tags = |state: SessionState| state.undelivered().map(|(tag, _)| tag).collect::<Vec<_>>();
    assert_eq!(tags(state("c0 00")), [1, 3, 4]);
    assert_eq!(tags(state("40 02 0001")), [3, 4]);
}

#[test]
fn a_queue_without_its_client_drops_the_oldest() {
    let limits = AwayLimits { messages: 2, bytes: 1000 };
    let mut state = SessionState::default();
    let mut dropped = Vec::new();
    for bytes in [1, 1, 1, 900] {
        let payload = vec![0; bytes];
        let message = Arc::new(Message::new(Topic::new("t").unwrap(), payload, tieline_core::Instant::ZERO));
        let delivery = Delivery { message, qos: Qos::AtLeastOnce, retain: false, subscription_ids: Vec::new() };
        dropped.push(state.deliver(delivery, 0, limits));
    }
    assert_eq!((dropped, state.backlog(), state.bytes()), (vec![0, 0, 1, 2], (1, 0), 965));
}

#[test]
fn texts_are_checked_wherever_they_stand() {
    // [MQTT-1.5.4-1], [MQTT-1.5.7-1], [MQTT-3.1.3-4], [MQTT-3.1.3-11], [MQTT-3.1.3-12], [MQTT-3.3.2-1], [MQTT-3.3.2-13],
    // [MQTT-3.3.2-19], [MQTT-3.8.3-1], [MQTT-3.10.3-1]: half a surrogate pair in each text.
    for bytes in [
        "10 10 0004 4d515454 05 02 000a 00 0003 eda080",
        "10 14 0004 4d515454 05 06 000a 00 0000 00 0003 eda080 0000",
        "10 12 0004 4d515454 05 82 000a 00 0000 0003 eda080",
        "30 06 0003 eda080 00",
        "30 0a 0001 61 06 08 0003 eda080",
        "30 0a 0001 61 06 03 0003 eda080",
        "30 0c 0001 61 08 26 0003 eda080 0000",
        "30 0c 0001 61 08 26 0000 0003 eda080",
        "82 09 0001 00 0003 eda080 00",
        "a2 08 0001 00 0003 eda080",
    ] {
        let found = decode(Version::V5, 1000, &[&hex(bytes)]);
        assert_eq!(found, Err(DecodeError::Text(FieldError::Utf8)), "{bytes}");
    }
    // [MQTT-1.5.4-3]: a byte order mark is a character like others.
    let mark = hex("30 07 0004 efbbbf61 00");
    let found = decode(Version::V5, 1000, &[&mark]);
    let Ok([Packet::Publish(publish)]) = found.as_deref() else { panic!() };
    assert_eq!((&*publish.topic, emit(Version::V5, &Packet::Publish(publish.clone()))), ("\u{FEFF}a", mark));
}

#[test]
fn what_flags_announce_is_there_and_nothing_else() {
    // [MQTT-3.1.2-9], [MQTT-3.1.2-16] to [MQTT-3.1.2-19], [MQTT-3.1.3-1], [MQTT-3.1.3-3]: flags and the fields after "c".
    let with = |flags: u8, fields: &str| {
        let mut body = hex("0004 4d515454 05");
        body.extend([flags, 0, 10, 0, 0, 1, b'c']);
        body.extend(hex(fields));
        let bytes = [vec![0x10, u8::try_from(body.len()).unwrap()], body].concat();
        decode(Version::V5, 1000, &[&bytes]).err()
    };
    for (flags, fields, expect) in [
        (0x02, "", None),
        (0x06, "00 0001 77 0000", None),
        (0x06, "", Some(DecodeError::Truncated)),
        (0x02, "00 0001 77 0000", Some(DecodeError::Trailing)),
        (0x82, "0001 75", None),
        (0x82, "", Some(DecodeError::Truncated)),
        (0x02, "0001 75", Some(DecodeError::Trailing)),
        (0x42, "0001 70", None),
        (0x42, "", Some(DecodeError::Truncated)),
        (0xc2, "0001 75", Some(DecodeError::Truncated)),
        (0xc6, "00 0001 77 0000 0001 75 0001 70", None),
    ] {
        assert_eq!(with(flags, fields), expect, "{flags:02x} {fields}");
    }
    assert_eq!(decode(Version::V5, 1000, &[&hex("10 0b 0004 4d515454 05 02 000a 00")]), Err(DecodeError::Truncated));
}

#[test]
fn identifiers_are_one_to_all_ones_and_not_in_use() {
    // [MQTT-2.2.1-4], [MQTT-4.3.2-1], [MQTT-4.3.3-1]: more messages than there are numbers, one unanswered all the time.
    let (mut bench, _) = Bench::open("", Accept::default());
    bench.deliver(Qos::AtLeastOnce);
    let id_of = |packets: Vec<Packet>| match &packets[..] {
        [Packet::Publish(publish)] => publish.guarantee.packet_id().unwrap(),
        other => panic!("{other:?}"),
    };
    let held = id_of(bench.sent());
    for _ in 0..70_000 {
        bench.deliver(Qos::AtLeastOnce);
        let id = id_of(bench.sent());
        assert_ne!(id, held);
        bench.give(&[&[0x40, 2], &id.get().to_be_bytes()[..]].concat());
    }
}

#[test]
fn aliases_end_with_their_connection() {
    // [MQTT-3.3.2-7]: in both directions, over a session that goes on.
    let (mut bench, _) = Bench::open("22 0005", Accept::default());
    assert!(matches!(bench.give(&hex("30 07 0001 61 03 23 0001")), Some(ServerEvent::Publish(_))));
    let number = |bench: &mut Bench| {
        bench.deliver(Qos::AtMostOnce);
        let sent = bench.sent();
        let [Packet::Publish(publish)] = &sent[..] else { panic!("{sent:?}") };
        (publish.topic.len(), publish.properties.topic_alias().map(|alias| alias.get()))
    };
    assert_eq!([number(&mut bench), number(&mut bench)], [(1, Some(1)), (0, Some(1))]);
    bench.session.handle_disconnected(bench.now);
    let resume = Some(bench.session.take_state());
    let (mut bench, _) = Bench::open("22 0005", Accept { resume, ..Accept::default() });
    assert_eq!(number(&mut bench), (1, Some(1)));
    let Some(ServerEvent::Ended(ended)) = bench.give(&hex("30 06 0000 03 23 0001")) else { panic!() };
    assert!(matches!(ended.cause, EndCause::Broken { reason: ReasonCode::ProtocolError, .. }));
}

#[test]
fn what_was_sent_is_completed_after_its_expiry() {
    // [MQTT-4.3.3-7], [MQTT-4.3.3-13]: a message that lives a second, over two connections.
    let (mut bench, _) = Bench::open("", Accept::default());
    let properties = [Property::MessageExpiry(1)].into_iter().collect();
    let plain = Message::new(Topic::new("t").unwrap(), b"x".as_slice(), bench.now.mono);
    let message = Arc::new(Message { properties, ..plain });
    let delivery = Delivery { message, qos: Qos::ExactlyOnce, retain: false, subscription_ids: Vec::new() };
    bench.session.deliver(delivery).unwrap();
    bench.sent();
    let resume = Some(bench.session.take_state());
    let mut next = Bench::new();
    next.now = next.now.later(Duration::from_secs(5));
    next.give(&connect(""));
    next.session.accept(next.now, Accept { resume, ..Accept::default() });
    assert!(matches!(&next.sent()[..], [Packet::Connack(_), Packet::Publish(p)] if p.guarantee.dup()));
    next.give(&hex("50 02 0001"));
    assert!(matches!(&next.sent()[..], [Packet::Pubrel(_)]));
    // The same of a message that arrives and is held for longer than it lives.
    assert!(matches!(next.give(&hex("34 0b 0001 61 0001 05 02 00000001")), Some(ServerEvent::Publish(_))));
    next.now = next.now.later(Duration::from_secs(5));
    next.session.acknowledge(PacketId::MIN, ReasonCode::Success);
    next.give(&hex("62 02 0001"));
    assert!(matches!(&next.sent()[..], [Packet::Pubrec(_), Packet::Pubcomp(_)]));
}

#[test]
fn texts_have_65535_bytes_at_most() {
    // [MQTT-4.7.3-3]
    for (bytes, taken) in [(65_535, true), (65_536, false)] {
        assert_eq!(Text::new(&"x".repeat(bytes)).is_ok(), taken);
        assert_eq!(Topic::new(&"x".repeat(bytes)).is_ok(), taken);
        assert_eq!(tieline_core::Filter::new(&"x".repeat(bytes)).is_ok(), taken);
    }
}

#[test]
fn shares_need_a_name_and_a_filter() {
    // [MQTT-4.8.2-1], [MQTT-4.8.2-2]: filters, and the name and filter that they are.
    for (filter, expect) in [
        ("$share/g/a", Some((Some("g"), "a"))),
        ("$share/g//a", Some((Some("g"), "/a"))),
        ("$share/g/#", Some((Some("g"), "#"))),
        ("$share", Some((None, "$share"))),
        ("$shared/g/a", Some((None, "$shared/g/a"))),
        ("$share/g", None),
        ("$share/g/", None),
        ("$share//a", None),
        ("$share/g+/a", None),
        ("$share/#/a", None),
    ] {
        let (mut bench, _) = Bench::open("", Accept::default());
        let mut bytes = vec![0x82, u8::try_from(filter.len() + 6).unwrap(), 0, 1, 0, 0];
        bytes.push(u8::try_from(filter.len()).unwrap());
        bytes.extend(filter.bytes());
        bytes.push(0);
        match (bench.give(&bytes), expect) {
            (Some(ServerEvent::Subscribe(request)), Some((share, inner))) => {
                let found = &request.subscriptions[0].0;
                assert_eq!((found.share.as_deref(), found.filter.as_str()), (share, inner), "{filter}");
            }
            (Some(ServerEvent::Ended(ended)), None) => {
                assert!(matches!(ended.cause, EndCause::Broken { reason: ReasonCode::TopicFilterInvalid, .. }));
            }
            (other, _) => panic!("{filter}: {other:?}"),
        }
    }
}
