//! Any packet that the standard allows.

use crate::packet::place;
use crate::*;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use core::num::{NonZeroU16, NonZeroU32};
use proptest::collection::vec as list;
use proptest::option;
use proptest::prelude::*;

pub(super) fn text() -> impl Strategy<Value = Text> {
    "[a-zA-Z0-9/ äö€😀\u{FEFF}\u{1}]{0,12}".prop_map(|s: String| Text::new(&s).unwrap())
}

pub(super) fn topic() -> impl Strategy<Value = Text> {
    "[a-z0-9$/ä]{1,12}".prop_map(|s: String| Text::new(&s).unwrap())
}

fn binary() -> impl Strategy<Value = Binary> {
    list(any::<u8>(), 0..20).prop_map(|v| Binary::new(v).unwrap())
}

pub(super) fn packet_id() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|n| PacketId::new(n).unwrap())
}

fn qos() -> impl Strategy<Value = Qos> {
    (0..3_u8).prop_map(|bits| Qos::from_bits(bits).unwrap())
}

fn non_zero() -> impl Strategy<Value = NonZeroU16> {
    (1..=u16::MAX).prop_map(|n| NonZeroU16::new(n).unwrap())
}

fn subscription_id() -> impl Strategy<Value = SubscriptionId> {
    (1..=268_435_455_u32).prop_map(|n| SubscriptionId::new(n).unwrap())
}

/// One of every kind; the packet picks those that it may carry.
fn any_property() -> impl Strategy<Value = (u16, Property)> {
    use place::*;
    const ACKS: u16 = PUBACK | PUBREC | PUBREL | PUBCOMP;
    const ALL: u16 =
        WILL | CONNECT | CONNACK | PUBLISH | ACKS | SUBSCRIBE | SUBACK | UNSUBSCRIBE | UNSUBACK | DISCONNECT | AUTH;
    let message = prop_oneof![
        any::<bool>().prop_map(Property::PayloadFormat),
        any::<u32>().prop_map(Property::MessageExpiry),
        text().prop_map(Property::ContentType),
        topic().prop_map(Property::ResponseTopic),
        binary().prop_map(Property::CorrelationData),
    ];
    let connack = prop_oneof![
        text().prop_map(Property::AssignedClientIdentifier),
        any::<u16>().prop_map(Property::ServerKeepAlive),
        text().prop_map(Property::ResponseInformation),
        any::<bool>().prop_map(Property::MaximumQos),
        any::<bool>().prop_map(Property::RetainAvailable),
        any::<bool>().prop_map(Property::WildcardSubscriptionAvailable),
        any::<bool>().prop_map(Property::SubscriptionIdentifierAvailable),
        any::<bool>().prop_map(Property::SharedSubscriptionAvailable),
    ];
    let both = prop_oneof![
        non_zero().prop_map(Property::ReceiveMaximum),
        any::<u16>().prop_map(Property::TopicAliasMaximum),
        (1..=u32::MAX).prop_map(|n| Property::MaximumPacketSize(NonZeroU32::new(n).unwrap())),
    ];
    let connect = prop_oneof![
        any::<bool>().prop_map(Property::RequestProblemInformation),
        any::<bool>().prop_map(Property::RequestResponseInformation)
    ];
    prop_oneof![
        message.prop_map(|p| (PUBLISH | WILL, p)),
        connack.prop_map(|p| (CONNACK, p)),
        both.prop_map(|p| (CONNECT | CONNACK, p)),
        connect.prop_map(|p| (CONNECT, p)),
        subscription_id().prop_map(|id| (PUBLISH | SUBSCRIBE, Property::SubscriptionIdentifier(id))),
        any::<u32>().prop_map(|s| (CONNECT | CONNACK | DISCONNECT, Property::SessionExpiry(s))),
        any::<u32>().prop_map(|s| (WILL, Property::WillDelay(s))),
        text().prop_map(|t| (CONNECT | CONNACK | AUTH, Property::AuthenticationMethod(t))),
        text().prop_map(|t| (CONNACK | DISCONNECT, Property::ServerReference(t))),
        text().prop_map(|t| (CONNACK | ACKS | SUBACK | UNSUBACK | DISCONNECT | AUTH, Property::ReasonString(t))),
        non_zero().prop_map(|n| (PUBLISH, Property::TopicAlias(n))),
        (text(), text()).prop_map(|pair| (ALL, Property::UserProperty(pair))),
    ]
}

pub(super) fn properties(place: u16) -> impl Strategy<Value = Properties> {
    list(any_property(), 0..24).prop_map(move |all| {
        let mut chosen: Vec<Property> = Vec::new();
        for (places, property) in all {
            let again =
                chosen.iter().any(|p| p.id() == property.id()) && !matches!(property, Property::UserProperty(_));
            if places & place != 0 && !again {
                chosen.push(property);
            }
        }
        chosen.into_iter().collect()
    })
}

fn reason(place: u16) -> impl Strategy<Value = ReasonCode> {
    let legal: Vec<ReasonCode> = ReasonCode::ALL.iter().copied().filter(|r| r.places() & place != 0).collect();
    proptest::sample::select(legal)
}

fn ack(place: u16) -> impl Strategy<Value = Ack> {
    (packet_id(), reason(place), properties(place)).prop_map(|(packet_id, reason, properties)| Ack {
        packet_id,
        reason,
        properties,
    })
}

fn will() -> impl Strategy<Value = Will> {
    (topic(), binary(), qos(), any::<bool>(), properties(place::WILL))
        .prop_map(|(topic, payload, qos, retain, properties)| Will { topic, payload, qos, retain, properties })
}

fn connect() -> impl Strategy<Value = Packet> {
    let named = (option::of(will()), option::of(text()), option::of(binary()));
    (any::<bool>(), any::<u16>(), properties(place::CONNECT), text(), named).prop_map(
        |(clean_start, keep_alive_s, properties, client_id, (will, user_name, password))| {
            let version = Version::V5;
            Packet::Connect(Box::new(Connect {
                version,
                clean_start,
                keep_alive_s,
                properties,
                client_id,
                will,
                user_name,
                password,
            }))
        },
    )
}

fn publish() -> impl Strategy<Value = Packet> {
    let guarantee = (qos(), packet_id(), any::<bool>()).prop_map(|(qos, packet_id, dup)| match qos {
        Qos::AtMostOnce => Guarantee::AtMostOnce,
        Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id, dup },
        Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id, dup },
    });
    (guarantee, any::<bool>(), topic(), properties(place::PUBLISH), list(any::<u8>(), 0..300)).prop_map(
        |(guarantee, retain, topic, properties, payload)| {
            Packet::Publish(Publish { guarantee, retain, topic, properties, payload: Bytes::from(payload) })
        },
    )
}

fn filters() -> impl Strategy<Value = Vec<SubscriptionFilter>> {
    let handling = prop_oneof![Just(RetainHandling::Always), Just(RetainHandling::IfNew), Just(RetainHandling::Never)];
    let options = (qos(), any::<bool>(), any::<bool>(), handling).prop_map(
        |(qos, no_local, retain_as_published, retain_handling)| SubscriptionOptions {
            qos,
            no_local,
            retain_as_published,
            retain_handling,
        },
    );
    list((text(), options).prop_map(|(filter, options)| SubscriptionFilter { filter, options }), 1..4)
}

/// Any packet of MQTT 5.0.
pub(super) fn any_packet() -> impl Strategy<Value = Packet> {
    let connack = (any::<bool>(), reason(place::CONNACK), properties(place::CONNACK)).prop_map(
        |(present, reason, properties)| {
            Packet::Connack(Connack { session_present: present && !reason.is_error(), reason, properties })
        },
    );
    let subscribe = (packet_id(), properties(place::SUBSCRIBE), filters())
        .prop_map(|(packet_id, properties, filters)| Packet::Subscribe(Subscribe { packet_id, properties, filters }));
    let suback = (packet_id(), properties(place::SUBACK), list(reason(place::SUBACK), 1..4))
        .prop_map(|(packet_id, properties, reasons)| Packet::Suback(Suback { packet_id, properties, reasons }));
    let unsubscribe = (packet_id(), properties(place::UNSUBSCRIBE), list(text(), 1..4)).prop_map(
        |(packet_id, properties, filters)| Packet::Unsubscribe(Unsubscribe { packet_id, properties, filters }),
    );
    let unsuback = (packet_id(), properties(place::UNSUBACK), list(reason(place::UNSUBACK), 1..4))
        .prop_map(|(packet_id, properties, reasons)| Packet::Unsuback(Unsuback { packet_id, properties, reasons }));
    prop_oneof![
        connect(),
        connack,
        publish(),
        ack(place::PUBACK).prop_map(Packet::Puback),
        ack(place::PUBREC).prop_map(Packet::Pubrec),
        ack(place::PUBREL).prop_map(Packet::Pubrel),
        ack(place::PUBCOMP).prop_map(Packet::Pubcomp),
        subscribe,
        suback,
        unsubscribe,
        unsuback,
        Just(Packet::Pingreq),
        Just(Packet::Pingresp),
        (reason(place::DISCONNECT), properties(place::DISCONNECT))
            .prop_map(|(reason, properties)| Packet::Disconnect(Disconnect { reason, properties })),
        (reason(place::AUTH), properties(place::AUTH))
            .prop_map(|(reason, properties)| Packet::Auth(Auth { reason, properties })),
    ]
}
