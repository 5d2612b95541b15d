//! One packet of each kind in both versions, byte by byte; the first ones are the standard's own examples.

use super::{decode, emit, hex};
use crate::*;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

fn check(version: Version, bytes: &str, expect: Packet) {
    let bytes = hex(bytes);
    assert_eq!(decode(version, u32::MAX, &[&bytes]), Ok(vec![expect.clone()]));
    assert_eq!(emit(version, &expect), bytes, "{expect:?}");
}

fn check_both(bytes: &str, expect: &Packet) {
    check(Version::V311, bytes, expect.clone());
    check(Version::V5, bytes, expect.clone());
}

fn connect(version: Version) -> Connect {
    let (properties, client_id) = (Properties::default(), text("c"));
    let (will, user_name, password) = (None, None, None);
    Connect { version, clean_start: true, keep_alive_s: 10, properties, client_id, will, user_name, password }
}

#[test]
fn connect_and_connack() {
    let plain = Packet::Connect(Box::new(connect(Version::V311)));
    check(Version::V311, "10 0d 0004 4d515454 04 02 000a 0001 63", plain);
    let will = Will {
        topic: text("w"),
        payload: Binary::new(vec![1]).unwrap(),
        qos: Qos::AtLeastOnce,
        retain: true,
        properties: [Property::WillDelay(5)].into_iter().collect(),
    };
    let full = Connect {
        properties: [Property::SessionExpiry(10)].into_iter().collect(),
        will: Some(will),
        user_name: Some(text("u")),
        password: Some(Binary::new(vec![2]).unwrap()),
        ..connect(Version::V5)
    };
    let bytes = "10 25 0004 4d515454 05 ee 000a 05 11 0000000a 0001 63 05 18 00000005 0001 77 0001 01 0001 75 0001 02";
    check(Version::V5, bytes, Packet::Connect(Box::new(full)));
    check(Version::V311, "20 02 01 00", Packet::Connack(Connack { session_present: true, ..Connack::default() }));
    let refused = Connack { reason: ReasonCode::NotAuthorized, ..Connack::default() };
    check(Version::V311, "20 02 00 05", Packet::Connack(refused.clone()));
    check(Version::V5, "20 03 00 87 00", Packet::Connack(refused));
    let told = [Property::ReceiveMaximum(id(10)), Property::RetainAvailable(true)].into_iter().collect();
    check(
        Version::V5,
        "20 08 00 00 05 21 000a 25 01",
        Packet::Connack(Connack { properties: told, ..Connack::default() }),
    );
}

#[test]
fn publish_and_its_answers() {
    let publish = Publish { topic: text("a/b"), payload: bytes::Bytes::from_static(b"hi"), ..Publish::default() };
    check(Version::V311, "30 07 0003 612f62 6869", Packet::Publish(publish.clone()));
    check(Version::V5, "30 08 0003 612f62 00 6869", Packet::Publish(publish.clone()));
    let dup =
        Publish { guarantee: Guarantee::AtLeastOnce { packet_id: id(10), dup: true }, retain: true, ..publish.clone() };
    check(Version::V311, "3b 09 0003 612f62 000a 6869", Packet::Publish(dup));
    let properties = [
        Property::PayloadFormat(true),
        Property::MessageExpiry(60),
        Property::TopicAlias(id(3)),
        Property::ResponseTopic(text("r")),
        Property::CorrelationData(Binary::new(vec![9]).unwrap()),
        Property::SubscriptionIdentifier(SubscriptionId::new(200).unwrap()),
        Property::SubscriptionIdentifier(SubscriptionId::new(1).unwrap()),
        Property::ContentType(text("j")),
        Property::UserProperty((text("k"), text("v"))),
    ];
    let guarantee = Guarantee::ExactlyOnce { packet_id: id(1), dup: false };
    let full = Publish { guarantee, properties: properties.into_iter().collect(), topic: Text::default(), ..publish };
    let bytes = "34 29 0000 0001 22 01 01 02 0000003c 23 0003 08 0001 72 09 0001 09 0b c801 0b 01 03 0001 6a 26 0001 6b 0001 76 6869";
    check(Version::V5, bytes, Packet::Publish(full));
    for (byte, wrap) in [
        ("40", Packet::Puback as fn(Ack) -> Packet),
        ("50", Packet::Pubrec),
        ("62", Packet::Pubrel),
        ("70", Packet::Pubcomp),
    ] {
        check_both(&alloc::format!("{byte} 02 1234"), &wrap(Ack::new(id(0x1234), ReasonCode::Success)));
    }
    check(Version::V5, "40 03 0001 10", Packet::Puback(Ack::new(id(1), ReasonCode::NoMatchingSubscribers)));
    let words = [Property::ReasonString(text("no"))].into_iter().collect();
    let full = Ack { packet_id: id(1), reason: ReasonCode::QuotaExceeded, properties: words };
    check(Version::V5, "50 09 0001 97 05 1f 0002 6e6f", Packet::Pubrec(full));
}

#[test]
fn subscribe_and_its_answers() {
    let at = |filter, qos| SubscriptionFilter {
        filter: text(filter),
        options: SubscriptionOptions { qos, ..SubscriptionOptions::default() },
    };
    let filters = vec![at("a/b", Qos::AtLeastOnce), at("c/d", Qos::ExactlyOnce)];
    let subscribe = Subscribe { packet_id: id(10), properties: Properties::default(), filters };
    check(Version::V311, "82 0e 000a 0003 612f62 01 0003 632f64 02", Packet::Subscribe(subscribe.clone()));
    check(Version::V5, "82 0f 000a 00 0003 612f62 01 0003 632f64 02", Packet::Subscribe(subscribe.clone()));
    let options = SubscriptionOptions {
        qos: Qos::AtMostOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::Never,
    };
    let full = Subscribe {
        filters: vec![SubscriptionFilter { filter: text("#"), options }],
        properties: [Property::SubscriptionIdentifier(SubscriptionId::new(7).unwrap())].into_iter().collect(),
        ..subscribe
    };
    check(Version::V5, "82 09 000a 02 0b 07 0001 23 2c", Packet::Subscribe(full));
    let reasons = vec![ReasonCode::Success, ReasonCode::GrantedQos2, ReasonCode::UnspecifiedError];
    let suback = Suback { packet_id: id(10), properties: Properties::default(), reasons };
    check(Version::V311, "90 05 000a 00 02 80", Packet::Suback(suback.clone()));
    check(Version::V5, "90 06 000a 00 00 02 80", Packet::Suback(suback));
    let unsubscribe = Unsubscribe { packet_id: id(10), properties: Properties::default(), filters: vec![text("a/b")] };
    check(Version::V311, "a2 07 000a 0003 612f62", Packet::Unsubscribe(unsubscribe.clone()));
    check(Version::V5, "a2 08 000a 00 0003 612f62", Packet::Unsubscribe(unsubscribe));
    let unsuback =
        |reasons| Packet::Unsuback(Unsuback { packet_id: id(10), properties: Properties::default(), reasons });
    check(Version::V311, "b0 02 000a", unsuback(Vec::new()));
    check(Version::V5, "b0 04 000a 00 11", unsuback(vec![ReasonCode::NoSubscriptionExisted]));
}

#[test]
fn the_rest() {
    check_both("c0 00", &Packet::Pingreq);
    check_both("d0 00", &Packet::Pingresp);
    check_both("e0 00", &Packet::Disconnect(Disconnect::default()));
    let with_will = Disconnect { reason: ReasonCode::DisconnectWithWill, ..Disconnect::default() };
    check(Version::V5, "e0 01 04", Packet::Disconnect(with_will));
    let moved = [Property::ServerReference(text("b"))].into_iter().collect();
    check(
        Version::V5,
        "e0 06 9d 04 1c 0001 62",
        Packet::Disconnect(Disconnect { reason: ReasonCode::ServerMoved, properties: moved }),
    );
    let method = [Property::AuthenticationMethod(text("m"))].into_iter().collect();
    check(
        Version::V5,
        "f0 06 18 04 15 0001 6d",
        Packet::Auth(Auth { reason: ReasonCode::ContinueAuthentication, properties: method }),
    );
    check(Version::V5, "f0 00", Packet::Auth(Auth::default()));
}
