//! Why clients are refused, in words (MQTT 5.0 sections 3.4.2.2.2, 3.5.2.2.2, 3.9.2.1.2 and 3.11.2.1.2).

use super::peer::{Peer, Server, at, hello, one, text};
use bytes::Bytes;
use tieline_mqtt::{
    Connect, Guarantee, Packet, PacketId, Properties, Property, Publish, Qos, ReasonCode, Subscribe,
    SubscriptionFilter, Unsubscribe, Version,
};

/// Asks for something, and gives the reason and the words of the answer.
fn ask(peer: &mut Peer, packet: &Packet) -> (ReasonCode, String) {
    peer.send(packet);
    let (reason, properties) = match peer.next().unwrap() {
        Packet::Puback(ack) | Packet::Pubrec(ack) => (ack.reason, ack.properties),
        Packet::Suback(suback) => (*suback.reasons.last().unwrap(), suback.properties),
        Packet::Unsuback(unsuback) => (*unsuback.reasons.last().unwrap(), unsuback.properties),
        other => panic!("no answer but {other:?}"),
    };
    (reason, properties.reason_string().map(|words| words.to_string()).unwrap_or_default())
}

fn publish(topic: &str, qos: Qos) -> Packet {
    let packet_id = PacketId::MIN;
    let guarantee = match qos {
        Qos::AtMostOnce => Guarantee::AtMostOnce,
        Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id, dup: false },
        Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id, dup: false },
    };
    let (properties, payload) = (Properties::default(), Bytes::from_static(b"x"));
    Packet::Publish(Publish { guarantee, retain: true, topic: text(topic), properties, payload })
}

fn unsubscribe(filters: &[&str]) -> Packet {
    let filters = filters.iter().map(|filter| text(filter)).collect();
    Packet::Unsubscribe(Unsubscribe { packet_id: PacketId::MIN, properties: Properties::default(), filters })
}

#[test]
fn refusals_are_told_in_words_where_they_are_wanted() {
    let server = Server::with("topics_max = 200");
    let silent = Connect { properties: one(Property::RequestProblemInformation(false)), ..hello("silent") };
    for (mut peer, wants) in [(server.client("told"), true), (server.connect(silent).0, false)] {
        let mut check = |packet: &Packet, reason, words: &str| {
            let expect = if wants { words } else { "" };
            assert_eq!(ask(&mut peer, packet), (reason, expect.to_owned()));
        };
        let reserved = "only the node publishes to topics that begin with $";
        check(&publish("$x", Qos::AtLeastOnce), ReasonCode::NotAuthorized, reserved);
        check(&publish("$x", Qos::ExactlyOnce), ReasonCode::NotAuthorized, reserved);
        let none = "a/#: there is no such subscription; b: there is no such subscription";
        check(&unsubscribe(&["a/#", "b"]), ReasonCode::NoSubscriptionExisted, none);
        let delivery_options = Property::UserProperty((text("tieline-window"), text("soon")));
        let filters = vec![SubscriptionFilter { filter: text("a"), options: at(Qos::AtMostOnce) }];
        let packet =
            Packet::Subscribe(Subscribe { packet_id: PacketId::MIN, properties: one(delivery_options), filters });
        let (reason, words) = ask(&mut peer, &packet);
        assert_eq!((reason, words.is_empty()), (ReasonCode::ImplementationSpecificError, !wants));
    }
    // What the tree says.
    let mut peer = server.client("filler");
    let refused = (0..300).find_map(|number| {
        let (reason, words) = ask(&mut peer, &publish(&format!("t/{number}"), Qos::AtLeastOnce));
        (reason != ReasonCode::Success && reason != ReasonCode::NoMatchingSubscribers).then_some((reason, words))
    });
    let (reason, words) = refused.expect("200 topics are the most");
    assert_eq!(reason, ReasonCode::QuotaExceeded);
    assert!(words.contains("200"), "{words}");
    // 3.1.1 has no such answer, and an acknowledgement would say that the message was taken: the connection ends.
    for topic in ["t/full", "$x"] {
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let (mut old, _) = server.connect(Connect { version: Version::V311, ..hello("old") });
            old.send(&publish(topic, qos));
            assert_eq!(old.next(), None, "{topic} {qos:?}");
        }
    }
}
