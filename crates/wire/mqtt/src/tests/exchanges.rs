//! Steps of an exchange that are not due, of both roles, and of versions that have no words for it.

use super::server::{Bench, delivery, id, message};
use super::{decode, hex};
use crate::*;
use alloc::vec::Vec;
use tieline_core::{Instant, Machine, Now, Topic};

/// What each message under way is, and an acknowledgement with its identifier that it does not have.
const WRONG: [(Qos, &str); 4] = [
    (Qos::ExactlyOnce, "40 02 0001"),
    (Qos::ExactlyOnce, "70 02 0001"),
    (Qos::AtLeastOnce, "50 02 0001"),
    (Qos::AtLeastOnce, "70 02 0001"),
];

#[test]
fn acknowledgements_of_the_wrong_kind_end_the_connection() {
    for (qos, bytes) in WRONG {
        for mut bench in [Bench::v5(ServerConfig::default()), Bench::v311()] {
            bench.session.deliver(delivery(&message("t", b"x"), qos)).unwrap();
            assert!(matches!(bench.sent()[..], [Packet::Publish(_)]));
            bench.check_ended(bytes, ReasonCode::ProtocolError);
        }
    }
    // PUBREL for a QoS 1 message, and for one of QoS 2 that was not answered.
    for publish in ["32 06 0001 61 0007 00", "34 06 0001 61 0007 00"] {
        let mut bench = Bench::v5(ServerConfig::default());
        assert!(bench.give(publish).is_some());
        bench.check_ended("62 02 0007", ReasonCode::ProtocolError);
    }
}

#[test]
fn acknowledgements_of_what_is_not_under_way_are_left_over() {
    let mut bench = Bench::v5(ServerConfig::default());
    for bytes in ["40 02 0007", "70 02 0007", "50 02 0007", "62 02 0007"] {
        assert!(bench.give(bytes).is_none() && bench.session.is_open(), "{bytes}");
    }
    let unknown = Ack::new(id(7), ReasonCode::PacketIdentifierNotFound);
    assert_eq!(bench.sent(), [Packet::Pubrel(unknown.clone()), Packet::Pubcomp(unknown)]);
}

/// [MQTT-4.3.3-4] asks for PUBREL after a PUBREC below 0x80 alone.
#[test]
fn an_error_in_pubrec_gets_no_pubrel() {
    let mut bench = Bench::v5(ServerConfig::default());
    bench.session.deliver(delivery(&message("t", b"x"), Qos::ExactlyOnce)).unwrap();
    assert!(matches!(bench.sent()[..], [Packet::Publish(_)]));
    // For the message, twice, and for none.
    for bytes in ["50 03 0001 97", "50 03 0001 97", "50 03 0009 80"] {
        assert!(bench.give(bytes).is_none());
        assert_eq!((bench.sent(), bench.session.backlog(), bench.session.is_open()), (Vec::new(), (0, 0), true));
    }
    let (mut client, token) = client(Qos::ExactlyOnce);
    let told = hex("50 03 0001 97 50 03 0001 97 50 03 0009 80");
    let (used, mut events) = (client.handle_input(Now::default(), &told[..5]), client_events(&mut client));
    let outcome = PublishOutcome::Answered(ReasonCode::QuotaExceeded);
    assert_eq!((used, events), (5, [ClientEvent::Published { token, outcome }].into()));
    assert_eq!(client.handle_input(Now::default(), &told[5..]), 10);
    events = client_events(&mut client);
    assert_eq!((events, client_sent(&mut client), client.is_open()), (Vec::new(), Vec::new(), true));
}

#[test]
fn a_server_that_acknowledges_in_the_wrong_way_is_left() {
    for (qos, bytes) in WRONG {
        let (mut client, _) = client(qos);
        check_left(&mut client, bytes);
    }
    // SUBACK for an UNSUBSCRIBE, UNSUBACK for a SUBSCRIBE.
    let filter = tieline_core::Filter::new("a").unwrap();
    let (mut subscribes, mut unsubscribes) = (open(), open());
    subscribes.subscribe(&[(filter.clone(), SubscriptionOptions::default())], None).unwrap();
    unsubscribes.unsubscribe(&[filter]).unwrap();
    for (mut client, bytes) in [(subscribes, "b0 04 0001 00 00"), (unsubscribes, "90 04 0001 00 00")] {
        client_sent(&mut client);
        check_left(&mut client, bytes);
    }
}

fn check_left(client: &mut ClientSession, bytes: &str) {
    let bytes = hex(bytes);
    assert_eq!(client.handle_input(Now::default(), &bytes), bytes.len());
    assert!(matches!(&client_events(client)[..], [ClientEvent::Ended(ClientEnd::Broken(_))]));
    assert!(matches!(&client_sent(client)[..], [Packet::Disconnect(d)] if d.reason == ReasonCode::ProtocolError));
}

fn open() -> ClientSession {
    let mut client = ClientSession::new(ClientConfig::default());
    client.handle_connected(Now::default());
    client_sent(&mut client);
    client.handle_input(Now::default(), &hex("20 03 00 00 00"));
    assert!(matches!(&client_events(&mut client)[..], [ClientEvent::Connected(_)]));
    client
}

/// A client with one message under way.
fn client(qos: Qos) -> (ClientSession, u64) {
    let mut client = open();
    let message = Message::new(Topic::new("t").unwrap(), b"x".as_slice(), Instant::ZERO);
    let token = client.publish(message, qos, false).unwrap();
    assert!(matches!(client_sent(&mut client)[..], [Packet::Publish(_)]));
    (client, token)
}

fn client_sent(client: &mut ClientSession) -> Vec<Packet> {
    let mut out = Vec::new();
    while client.poll_transmit(Now::default(), &mut out) {}
    decode(Version::V5, u32::MAX, &[&out]).unwrap()
}

fn client_events(client: &mut ClientSession) -> Vec<ClientEvent> {
    core::iter::from_fn(|| client.poll_event()).collect()
}

/// [MQTT-3.1.4-1] of 3.1.1 closes on it without CONNACK; 5.0 lets a server say why.
#[test]
fn a_malformed_connect_of_3_1_1_is_closed_without_a_word() {
    let of_3_1_1 = [
        "10 0d 0004 4d515454 04 03 000a 0001 63",         // the reserved flag
        "10 0d 0004 4d515454 04 0a 000a 0001 63",         // will QoS without a will
        "10 10 0004 4d515454 04 42 000a 0001 63 0001 70", // a password alone
        "10 0d 0004 4d515454 04 82 000a 0001 63",         // no user name where one is due
        "10 0e 0004 4d515454 04 02 000a 0001 63 00",      // something behind it
        "10 0d 0004 4d515454 04 02 000a 0001 ff",         // an identifier that is no text
        "10 0d 0004 4d515458 04 02 000a 0001 63",         // another protocol
        "10 03 0004 4d",                                  // cut off before the version
    ];
    for bytes in of_3_1_1 {
        let mut bench = Bench::new(Version::V311, ServerConfig::default());
        assert!(bench.give(bytes).is_none());
        assert!(bench.session.is_closed() && bench.sent().is_empty(), "{bytes}");
    }
    let mut bench = Bench::new(Version::V5, ServerConfig::default());
    bench.give("10 0e 0004 4d515454 05 03 000a 00 0001 63");
    assert!(matches!(&bench.sent()[..], [Packet::Connack(c)] if c.reason == ReasonCode::MalformedPacket));
    assert!(bench.session.is_closed());
}

/// Levels below 5 are told in the form of 3.1.1, those of bridges among them, which set the highest bit.
#[test]
fn versions_that_are_not_spoken_are_told_in_their_form() {
    for (level, expect) in [("00", "20 02 00 01"), ("03", "20 02 00 01"), ("83", "20 02 00 01"), ("84", "20 02 00 01")]
    {
        check_level(level, &hex(expect));
    }
    check_level("06", &hex("20 38 00 84 35"));
    check_level("85", &hex("20 3a 00 84 37"));
}

#[track_caller]
fn check_level(level: &str, begins: &[u8]) {
    let mut bench = Bench::new(Version::V5, ServerConfig::default());
    bench.give(&alloc::format!("10 0d 0004 4d515454 {level} 02 000a 0001 63"));
    let mut out = Vec::new();
    while bench.session.poll_transmit(Now::default(), &mut out) {}
    assert!(out.starts_with(begins), "{level}: {out:02x?}");
    assert!(bench.session.is_closed());
}
