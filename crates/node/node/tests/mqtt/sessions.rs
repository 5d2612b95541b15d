//! Sessions over their connections (MQTT 5.0 sections 3.1.2.4, 3.1.2.11.2, 4.1 and 4.4).

use super::peer::{Peer, Server, at, hello, keep, message_of, one, payload_of};
use tieline_mqtt::{Connack, Connect, Guarantee, Packet, Properties, Property, Qos, ReasonCode, Version};

const ONCE: Qos = Qos::AtLeastOnce;
const TWICE: Qos = Qos::ExactlyOnce;

/// A CONNECT of 3.1.1.
fn old(name: &str, clean_start: bool) -> Connect {
    Connect { version: Version::V311, clean_start, ..hello(name) }
}

#[track_caller]
fn check_present(server: &Server, connect: Connect, expect: bool) -> Peer {
    let (peer, Connack { session_present, reason, .. }) = server.connect(connect);
    assert_eq!((session_present, reason), (expect, ReasonCode::Success));
    peer
}

#[test]
fn a_session_is_there_when_its_client_comes_again() {
    let server = Server::start();
    // What the session was begun with, what it is asked for with, and whether it is there: [MQTT-3.1.2-4] to
    // [MQTT-3.1.2-6], [MQTT-3.1.2-23], [MQTT-3.2.2-2], [MQTT-3.2.2-3], and clean session of 3.1.1.
    for (number, (first, second, present)) in [
        (keep("", 100), keep("", 100), true),
        (keep("", 0), keep("", 100), false),
        (keep("", 100), hello(""), false),
        (keep("", 100), old("", false), true),
        (old("", false), old("", false), true),
        (old("", true), old("", false), false),
        (old("", false), old("", true), false),
        (old("", false), keep("", 100), true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = |connect| Connect { client_id: super::peer::text(&format!("c{number}")), ..connect };
        let mut peer = check_present(&server, name(first), false);
        peer.subscribe(&[(&format!("s/{number}"), at(ONCE))]);
        peer.vanish();
        server.client("writer").publish(&format!("s/{number}"), "while away", ONCE, false);
        let mut peer = check_present(&server, name(second), present);
        let expect: &[&str] = if present { &["while away"] } else { &[] };
        assert_eq!(peer.payloads(), expect, "{number}");
        server.client("writer").publish(&format!("s/{number}"), "while here", ONCE, false);
        let expect: &[&str] = if present { &["while here"] } else { &[] };
        assert_eq!(peer.payloads(), expect, "{number}");
    }
}

#[test]
fn what_waits_is_of_qos_1_and_2_in_its_order() {
    let server = Server::start();
    let mut peer = check_present(&server, keep("c", 100), false);
    peer.subscribe(&[("#", at(TWICE))]);
    peer.leave(ReasonCode::Success, Properties::default());
    let mut writer = server.client("writer");
    for (payload, qos) in [("1", ONCE), ("2", Qos::AtMostOnce), ("3", TWICE), ("4", ONCE)] {
        writer.publish("t", payload, qos, false);
    }
    let mut peer = check_present(&server, keep("c", 100), true);
    // [MQTT-4.5.0-1]; section 4.1 leaves QoS 0 open.
    for expect in ["1", "3", "4"] {
        assert_eq!(payload_of(&peer.take()), expect);
    }
    assert_eq!(peer.payloads(), [""; 0]);
}

#[test]
fn what_was_not_acknowledged_is_sent_again() {
    let server = Server::start();
    let mut peer = check_present(&server, keep("c", 100), false);
    peer.subscribe(&[("#", at(TWICE))]);
    let mut writer = server.client("writer");
    for (topic, qos) in [("one", ONCE), ("two", TWICE), ("three", TWICE)] {
        writer.publish(topic, topic, qos, false);
    }
    let sent: Vec<_> = (0..3).map(|_| peer.message()).collect();
    let id = |at: usize| sent[at].guarantee.packet_id().unwrap();
    let ack = |at: usize| tieline_mqtt::Ack::new(id(at), ReasonCode::Success);
    peer.send(&Packet::Pubrec(ack(2)));
    assert_eq!(peer.next(), Some(Packet::Pubrel(ack(2))));
    peer.vanish();
    let mut peer = check_present(&server, keep("c", 100), true);
    let again = peer.flush();
    // [MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-4.6.0-1], [MQTT-4.3.3-6]: in order, with their numbers, as PUBREL where
    // that is due.
    assert_eq!(message_of(&again[0]).guarantee, Guarantee::AtLeastOnce { packet_id: id(0), dup: true });
    assert_eq!(message_of(&again[1]).guarantee, Guarantee::ExactlyOnce { packet_id: id(1), dup: true });
    assert_eq!(again[2..], [Packet::Pubrel(ack(2))]);
    // [MQTT-4.4.0-1]: at no other time.
    assert!(peer.flush().is_empty());
}

#[test]
fn a_session_ends_with_its_time() {
    let server = Server::start();
    let mut peer = check_present(&server, keep("c", 1), false);
    // Its will goes out when the session ends, and says when that was.
    let mut watch = server.client("watch");
    watch.subscribe(&[("w", at(ONCE))]);
    peer.subscribe(&[("t", at(ONCE))]);
    peer.leave(ReasonCode::Success, Properties::default());
    let will = super::peer::will("w", false, one(Property::WillDelay(3600)));
    let peer = check_present(&server, Connect { will, ..keep("d", 1) }, false);
    peer.vanish();
    watch.take();
    // [MQTT-4.1.0-2]
    check_present(&server, keep("d", 1), false);
    check_present(&server, keep("c", 1), false);
}

#[test]
fn the_last_word_on_expiry_is_the_disconnects() {
    let server = Server::with("session_expiry_max = '1h'\n");
    let (peer, connack) = server.connect(keep("c", u32::MAX));
    assert_eq!(connack.properties.session_expiry_s(), Some(3600), "the client is told what it gets");
    peer.leave(ReasonCode::Success, one(Property::SessionExpiry(0)));
    let peer = check_present(&server, keep("c", 100), false);
    peer.leave(ReasonCode::Success, one(Property::SessionExpiry(50)));
    check_present(&server, keep("c", 100), true);
}

#[test]
fn a_client_that_comes_again_takes_its_session_over() {
    let server = Server::start();
    let mut first = check_present(&server, keep("c", 100), false);
    first.subscribe(&[("t", at(ONCE))]);
    let mut writer = server.client("writer");
    writer.publish("t", "1", ONCE, false);
    assert_eq!(payload_of(&first.message()), "1");
    let mut second = check_present(&server, keep("c", 100), true);
    // [MQTT-3.1.4-3], [MQTT-3.14.4-2]
    let Some(Packet::Disconnect(told)) = first.next() else { panic!("no DISCONNECT") };
    assert_eq!((told.reason, first.next()), (ReasonCode::SessionTakenOver, None));
    let message = second.take();
    assert_eq!((payload_of(&message), message.guarantee.dup()), ("1".to_owned(), true));
    writer.publish("t", "2", ONCE, false);
    assert_eq!(payload_of(&second.take()), "2");
}

#[test]
fn queues_of_clients_that_are_away_are_bounded() {
    let server = Server::with("away_messages_max = 3\naway_sessions_max = 2\n");
    for name in ["a", "b", "c"] {
        let mut peer = check_present(&server, keep(name, 100 + u32::from(name.as_bytes()[0])), false);
        peer.subscribe(&[("t", at(ONCE))]);
        peer.vanish();
    }
    let mut writer = server.client("writer");
    for number in 0..5 {
        writer.publish("t", &number.to_string(), ONCE, false);
    }
    // The first to expire made room for the third; of five messages the last three are there.
    let mut peer = check_present(&server, keep("a", 100), false);
    assert_eq!(peer.payloads(), [""; 0]);
    for name in ["b", "c"] {
        assert_eq!(check_present(&server, keep(name, 100), true).payloads(), ["2", "3", "4"]);
    }
}

#[test]
fn a_message_that_expires_while_its_client_is_away_is_gone() {
    let server = Server::start();
    let mut peer = check_present(&server, keep("c", 100), false);
    peer.subscribe(&[("t/#", at(ONCE))]);
    peer.vanish();
    let mut writer = server.client("writer");
    writer.publish_with("t/short", "1", ONCE, false, one(Property::MessageExpiry(1)));
    writer.publish_with("t/long", "2", ONCE, false, one(Property::MessageExpiry(100)));
    // A will that waits a second says when the second is over.
    let mut watch = server.client("watch");
    watch.subscribe(&[("w", at(ONCE))]);
    let will = super::peer::will("w", false, one(Property::WillDelay(1)));
    check_present(&server, Connect { will, ..keep("d", 100) }, false).vanish();
    watch.take();
    // [MQTT-3.3.2-5], [MQTT-3.3.2-6]
    let mut peer = check_present(&server, keep("c", 100), true);
    let found = peer.flush();
    assert_eq!(found.len(), 1);
    let left_s = message_of(&found[0]).properties.message_expiry_s().unwrap();
    assert!((1..100).contains(&left_s), "{left_s}");
}

#[test]
fn response_information_is_told_where_it_is_asked_for() {
    let server = Server::start();
    // [MQTT-3.1.2-28]
    for (asked, expect) in [(None, None), (Some(false), None), (Some(true), Some("reply/c"))] {
        let properties: Properties = asked.map(Property::RequestResponseInformation).into_iter().collect();
        let (_, connack) = server.connect(Connect { properties, ..hello("c") });
        assert_eq!(connack.properties.response_information().as_deref(), expect);
    }
}

#[test]
fn an_unknown_authentication_method_is_turned_away() {
    let server = Server::start();
    let method = one(Property::AuthenticationMethod(super::peer::text("GS2-KRB5")));
    let (mut peer, connack) = server.connect(Connect { properties: method, ..hello("c") });
    // [MQTT-4.12.0-1], [MQTT-3.2.2-7]
    assert_eq!((connack.reason, peer.next()), (ReasonCode::BadAuthenticationMethod, None));
}

#[test]
fn the_servers_keep_alive_is_told_where_the_clients_is_longer() {
    let server = Server::with("keep_alive_max = '20s'");
    for (asked, told) in [(60, Some(20)), (0, Some(20)), (20, None), (5, None)] {
        let (_, connack) = server.connect(Connect { keep_alive_s: asked, ..hello("alive") });
        assert_eq!(connack.properties.server_keep_alive_s(), told, "{asked}");
    }
    let (_, connack) = Server::start().connect(hello("alive"));
    assert_eq!(connack.properties.server_keep_alive_s(), None);
}

/// Publishes more than waits for a client that acknowledges nothing, until that is ended; all that its session was to get
/// comes over the next connection, in order.
fn check_overflow(server: &Server, filter: &str, qos: Qos) -> Vec<usize> {
    const MESSAGES: usize = 1500;
    let mut peer = check_present(server, keep("slow", 100), false);
    assert_eq!(peer.subscribe(&[(filter, at(qos))]), [qos.granted()]);
    let mut writer = server.client("writer");
    for batch in 0..3 {
        let each = MESSAGES / 3;
        writer.publish_many("t", batch * each..(batch + 1) * each, qos);
    }
    let mut told = Vec::new();
    loop {
        match peer.next() {
            Some(Packet::Publish(_)) => {}
            Some(Packet::Disconnect(disconnect)) => told.push(disconnect.reason),
            None => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, [ReasonCode::QuotaExceeded]);
    let mut peer = check_present(server, keep("slow", 100), true);
    writer.publish_many("t", MESSAGES..MESSAGES + 1, qos);
    let mut found = Vec::new();
    while found.last() != Some(&MESSAGES) {
        found.push(payload_of(&peer.take()).parse().unwrap());
    }
    assert_eq!(peer.flush(), []);
    peer.leave(ReasonCode::Success, one(Property::SessionExpiry(0)));
    found
}

#[test]
fn a_session_that_is_ended_for_its_queue_keeps_what_it_is_to_deliver() {
    let server = Server::with("durability = 'memory'\n");
    for filter in ["t", "$share/g/t"] {
        for qos in [ONCE, Qos::ExactlyOnce] {
            assert_eq!(check_overflow(&server, filter, qos), (0..=1500).collect::<Vec<_>>(), "{filter} {qos:?}");
        }
    }
}

/// Of what waits while the client is away the oldest goes, and is counted.
#[test]
fn what_has_no_room_in_a_session_is_counted_by_its_cause() {
    let server = Server::with("durability = 'memory'\naway_messages_max = 1010\n");
    let found = check_overflow(&server, "t", ONCE);
    let lost = 1501 - found.len();
    // 64 were under way, and some of the oldest 1,010 that waited went for what came last.
    assert!((0..64).chain(64 + lost..1501).eq(found), "{lost}");
    assert!((426..=427).contains(&lost), "{lost}");
    let http = tieline_client::HttpClient::new(&server.node.http().to_string());
    let text = std::io::read_to_string(http.stream("/metrics", "text/plain").unwrap()).unwrap();
    let expect = format!("tieline_mqtt_dropped_total{{cause=\"away_queue_full\"}} {lost}");
    assert!(text.contains(&expect), "{expect}");
}

/// A client beyond the limit of clients is told so, however many come at once, and comes in later.
#[test]
fn beyond_sessions_max_each_is_told_why() {
    let server = Server::with("sessions_max = 1\n");
    let first = server.client("first");
    let (_, Connack { reason, properties, .. }) = server.connect(hello("c"));
    let words = properties.reason_string().map(|words| words.to_string());
    let expect = "as many clients as sessions_max lets in are connected";
    assert_eq!((reason, words.as_deref()), (ReasonCode::QuotaExceeded, Some(expect)));
    let old = Connect { version: Version::V311, ..hello("c") };
    assert_eq!(server.connect(old).1.reason, ReasonCode::ServerUnavailable);
    // More than are told at a time.
    let all: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(server.node.mqtt()).unwrap()).collect();
    for mut stream in all {
        let mut connect = Vec::new();
        Packet::Connect(Box::new(hello("c"))).emit(Version::V5, &mut connect).unwrap();
        std::io::Write::write_all(&mut stream, &connect).unwrap();
        let mut answer = [0; 4];
        std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
        assert_eq!((answer[0], answer[3]), (0x20, 0x97));
    }
    first.vanish();
    // Its place is free once its connection is closed.
    while server.connect(hello("c")).1.reason != ReasonCode::Success {}
}
