//! Properties in any order and number: what they cost, and how many are taken.

use super::packets::{properties, text};
use super::server::{Bench, id};
use super::{emit, hex};
use crate::packet::place;
use crate::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use proptest::prelude::*;

fn pair(name: &str, value: &str) -> Property {
    Property::UserProperty((Text::new(name).unwrap(), Text::new(value).unwrap()))
}

fn many(count: usize) -> Properties {
    (0..count).map(|_| pair("", "")).collect()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The block of some properties in the order given.
fn block(properties: &[Property]) -> Bytes {
    let each = properties.iter().map(|property| core::iter::once(property.clone()).collect::<Properties>().bytes());
    each.flatten().collect::<Vec<u8>>().into()
}

#[test]
fn user_properties_stand_behind_and_keep_their_order() {
    let mixed =
        [pair("b", "1"), Property::MessageExpiry(7), pair("a", "2"), Property::PayloadFormat(true), pair("b", "3")];
    let read = Properties::of_message(block(&mixed)).unwrap();
    let expect = [1, 3, 0, 2, 4].map(|at: usize| mixed[at].clone());
    assert_eq!(read.iter().collect::<Vec<_>>(), expect);
    assert_eq!(read, mixed.iter().cloned().collect());
    assert_eq!((read.message_expiry_s(), read.payload_is_text(), read.content_type()), (Some(7), Some(true), None));
    let values = |pairs: Vec<UserProperty>| pairs.iter().map(|(_, value)| value.to_string()).collect::<String>();
    assert_eq!(values(read.user_properties().collect()), "123");
    assert_eq!(values(read.without_user_property("b").user_properties().collect()), "2");
    assert_eq!(read.without_user_property("b").message_expiry_s(), Some(7));
    assert_eq!(read.own_properties().count(), 0);
    let own = read.with(&pair("tieline-slow", "all")).with(&Property::ContentType(Text::new("x").unwrap()));
    assert_eq!((own.own_properties().count(), own.own_property("tieline-slow")), (1, Some("all")));
    assert_eq!(own.content_type().unwrap().to_string(), "x");
    assert_eq!(own.without_user_property("tieline-slow").own_properties().count(), 0);
}

proptest! {
    /// Whatever stands where: each is found as a look at all of them finds it.
    #[test]
    fn what_is_found_is_what_is_there(all in properties(place::PUBLISH), more in (text(), text()), seed: u64) {
        let mut all: Vec<Property> = all.iter().chain([Property::UserProperty(more)]).collect();
        // Any order.
        all.sort_by_key(|property| (property.bytes() as u64 ^ u64::from(property.id())).wrapping_mul(seed | 1));
        let read = Properties::of_message(block(&all)).unwrap();
        let find = |id: u8| all.iter().find(|property| property.id() == id).cloned();
        prop_assert_eq!(read.message_expiry_s().map(Property::MessageExpiry), find(0x02));
        prop_assert_eq!(read.response_topic().map(Property::ResponseTopic), find(0x08));
        prop_assert_eq!(read.topic_alias().map(Property::TopicAlias), find(0x23));
        prop_assert_eq!(read.user_property().map(Property::UserProperty), find(0x26));
        let travels = |p: &&Property| !matches!(p, Property::TopicAlias(_) | Property::SubscriptionIdentifier(_));
        prop_assert_eq!(read.travelling(), all.iter().filter(travels).cloned().collect::<Properties>());
        prop_assert_eq!(read.count(), all.len());
        prop_assert_eq!(read.travelling().count(), all.iter().filter(travels).count());
        prop_assert_eq!(read.len(), all.iter().map(Property::bytes).sum::<usize>());
    }
}

/// A packet of any type is refused beyond [`PROPERTIES_MAX`], and the limit is named.
#[test]
fn properties_a_packet_are_counted() {
    let packets = |properties: Properties| {
        let ack = Ack { properties: properties.clone(), ..Ack::new(id(1), ReasonCode::Success) };
        let filters = [SubscriptionFilter { filter: Text::new("a").unwrap(), options: SubscriptionOptions::default() }];
        [
            Packet::Publish(Publish {
                topic: Text::new("a").unwrap(),
                properties: properties.clone(),
                ..Publish::default()
            }),
            Packet::Subscribe(Subscribe { packet_id: id(1), properties, filters: filters.into() }),
            Packet::Puback(ack),
        ]
    };
    for packet in packets(many(PROPERTIES_MAX)) {
        let mut bench = Bench::v5(ServerConfig::default());
        bench.give(&hex_of(&emit(Version::V5, &packet)));
        assert!(bench.session.is_open(), "{:?}", packet.packet_type());
    }
    for packet in packets(many(PROPERTIES_MAX + 1)) {
        let mut bench = Bench::v5(ServerConfig::default());
        let Some(ServerEvent::Ended(Ended { cause, .. })) = bench.give(&hex_of(&emit(Version::V5, &packet))) else {
            panic!("{:?} is taken", packet.packet_type())
        };
        let detail = "1025 properties in one packet, at most 1024 are taken".to_string();
        assert_eq!(cause, EndCause::Broken { reason: ReasonCode::QuotaExceeded, detail });
    }
    // In CONNECT, of the connection and of the will.
    let connect = |properties, will: Properties| Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_s: 0,
        properties,
        client_id: Text::new("c").unwrap(),
        will: Some(Will {
            topic: Text::new("a").unwrap(),
            payload: Binary::default(),
            qos: Qos::AtMostOnce,
            retain: false,
            properties: will,
        }),
        user_name: None,
        password: None,
    };
    for connect in [connect(many(1025), many(0)), connect(many(0), many(1025))] {
        let mut bench = Bench::new(Version::V5, ServerConfig::default());
        bench.give(&hex_of(&emit(Version::V5, &Packet::Connect(connect.into()))));
        let sent = bench.sent();
        assert!(matches!(&sent[..], [Packet::Connack(c)] if c.reason == ReasonCode::QuotaExceeded), "{sent:?}");
    }
}

#[test]
fn a_block_that_breaks_a_rule_is_refused_wherever_it_does() {
    for bytes in
        ["26 0001 61 0002 c080", "26 0001 00 0000", "08 0001 2b", "08 0000", "01 02", "0b 00", "23 0000", "11 00000001"]
    {
        for before in ["", "26 0000 0000"] {
            assert!(Properties::of_message(hex(&format!("{before} {bytes}")).into()).is_err(), "{bytes}");
        }
    }
    assert_eq!(Properties::of_message(hex("01 01 26 0000 0000 01 01").into()), Err(DecodeError::PropertyTwice(1)));
}

/// The same frame for all sessions, but for the alias that each knows the topic by, and RETAIN.
#[test]
fn a_frame_by_alias_is_that_of_each_session() {
    let topic = tieline_core::Topic::new("a/topic").unwrap();
    let properties: Properties = [pair("name", "value")].into_iter().collect();
    let message = Message { properties, ..Message::new(topic, "23", tieline_core::Instant::ZERO) };
    let frame = AliasFrame::new(&message, tieline_core::Instant::ZERO).unwrap();
    for (alias, retain) in [(1, false), (0x1234, true), (0x0102, false)] {
        let alias = core::num::NonZeroU16::new(alias).unwrap();
        let bytes = frame.with(alias, retain);
        let read = super::decode(Version::V5, 1000, &[&bytes]).unwrap();
        let [Packet::Publish(publish)] = &read[..] else { panic!("{read:?}") };
        let found = (publish.properties.topic_alias(), publish.retain, &*publish.topic, &publish.payload[..]);
        assert_eq!(found, (Some(alias), retain, "", &b"23"[..]));
        assert_eq!(publish.properties.own_properties().count(), 0);
        let mut out = b"before".to_vec();
        frame.append(alias, retain, &mut out);
        assert_eq!((&out[6..], frame.len()), (&bytes[..], bytes.len()));
    }
}
