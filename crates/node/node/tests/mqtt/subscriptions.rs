//! Subscriptions (MQTT 5.0 sections 3.3.4, 3.8 to 3.11 and 4.7).

use super::peer::{Server, at, hello, message_of, one, payload_of};
use tieline_mqtt::{
    Connect, Packet, Property, Qos, ReasonCode, RetainHandling, SubscriptionId, SubscriptionOptions, Version,
};

const ONCE: Qos = Qos::AtLeastOnce;

fn named(number: u32) -> tieline_mqtt::Properties {
    one(Property::SubscriptionIdentifier(SubscriptionId::new(number).unwrap()))
}

#[test]
fn overlapping_subscriptions_get_one_message_with_all_identifiers() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    reader.subscribe_as(&[("a/+", at(Qos::AtMostOnce))], named(1));
    reader.subscribe_as(&[("a/b", at(Qos::ExactlyOnce))], named(2));
    reader.subscribe(&[("#", at(ONCE))]);
    writer.publish("a/b", "1", Qos::ExactlyOnce, false);
    let message = reader.take();
    // [MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-4].
    assert_eq!(message.guarantee.qos(), Qos::ExactlyOnce);
    let ids: Vec<_> = message.properties.iter().filter(|p| matches!(p, Property::SubscriptionIdentifier(_))).collect();
    assert_eq!(
        ids.into_iter().collect::<tieline_mqtt::Properties>(),
        [named(1), named(2)].iter().flat_map(|p| p.iter()).collect()
    );
    assert_eq!(reader.payloads(), [""; 0]);
}

#[test]
fn the_lower_qos_of_publisher_and_subscription_is_used() {
    let server = Server::start();
    let all = [Qos::AtMostOnce, ONCE, Qos::ExactlyOnce];
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    for granted in all {
        assert_eq!(reader.subscribe(&[("q", at(granted))]), [granted.granted()]);
        for published in all {
            writer.publish("q", "1", published, false);
            // [MQTT-3.8.4-8]
            assert_eq!(reader.take().guarantee.qos(), granted.min(published));
        }
    }
}

#[test]
fn a_subscription_replaces_one_of_the_same_filter() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    writer.publish("a", "kept", ONCE, true);
    // [MQTT-3.8.4-3], [MQTT-3.8.4-4]: one subscription with the later options, and the last value once more.
    for qos in [Qos::AtMostOnce, ONCE] {
        reader.subscribe(&[("a", at(qos))]);
        assert_eq!(payload_of(&reader.take()), "kept");
    }
    writer.publish("a", "1", ONCE, false);
    assert_eq!(reader.take().guarantee.qos(), ONCE);
    assert_eq!(reader.payloads(), [""; 0]);
}

#[test]
fn no_local_hides_what_the_client_itself_published() {
    let server = Server::start();
    let (mut one, mut other) = (server.client("one"), server.client("other"));
    one.subscribe(&[("n", SubscriptionOptions { no_local: true, ..at(ONCE) })]);
    one.publish("n", "mine", ONCE, false);
    other.publish("n", "theirs", ONCE, false);
    // [MQTT-3.8.3-3]
    assert_eq!(payload_of(&one.take()), "theirs");
    assert_eq!(one.payloads(), [""; 0]);
}

#[test]
fn each_filter_is_answered_in_its_order() {
    let server = Server::start();
    let mut peer = server.client("peer");
    // [MQTT-3.8.4-5] to [MQTT-3.8.4-7], [MQTT-3.9.3-1]
    let reasons = peer.subscribe(&[("a", at(Qos::ExactlyOnce)), ("b", at(Qos::AtMostOnce)), ("c/+", at(ONCE))]);
    assert_eq!(reasons, [ReasonCode::GrantedQos2, ReasonCode::Success, ReasonCode::GrantedQos1]);
    // [MQTT-3.10.4-1], [MQTT-3.10.4-4] to [MQTT-3.10.4-6], [MQTT-3.11.3-1]: by the filter's text, not by what it selects.
    let reasons = peer.unsubscribe(&["c/d", "c/+", "b", "b"]);
    let none = ReasonCode::NoSubscriptionExisted;
    assert_eq!(reasons, [none, ReasonCode::Success, ReasonCode::Success, none]);
    let mut writer = server.client("writer");
    for topic in ["a", "b", "c/d"] {
        writer.publish(topic, topic, ONCE, false);
    }
    // [MQTT-3.10.4-2]
    assert_eq!(payload_of(&peer.take()), "a");
    assert_eq!(peer.payloads(), [""; 0]);
}

#[test]
fn what_was_sent_before_an_unsubscribe_is_completed() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    reader.subscribe(&[("u", at(Qos::ExactlyOnce))]);
    writer.publish("u", "1", Qos::ExactlyOnce, false);
    let message = reader.message();
    assert_eq!(reader.unsubscribe(&["u"]), [ReasonCode::Success]);
    // [MQTT-3.10.4-3]
    reader.acknowledge(&message);
    assert!(reader.flush().is_empty());
}

#[test]
fn filters_select_topics_byte_by_byte() {
    let server = Server::start();
    let mut writer = server.client("writer");
    // [MQTT-4.7.2-1], [MQTT-4.7.3-4], [MQTT-3.3.2-3]: composed and decomposed letters are different topics, as are cases.
    for (filter, topic, selects) in [
        ("ä", "\u{e4}", true),
        ("ä", "a\u{308}", false),
        ("Case", "case", false),
        ("a//b", "a/b", false),
        ("/a", "a", false),
        ("+/a", "/a", true),
        ("#", "x", true),
        ("x/#", "x", true),
        ("\u{FEFF}x", "x", false),
    ] {
        let mut reader = server.client("reader");
        reader.subscribe(&[(filter, SubscriptionOptions { retain_handling: RetainHandling::Never, ..at(ONCE) })]);
        writer.publish(topic, "1", ONCE, false);
        let found = reader.flush();
        assert_eq!(found.len(), usize::from(selects), "{filter:?} {topic:?}");
        assert!(found.iter().all(|packet| *message_of(packet).topic == *topic));
    }
}

#[test]
fn a_wildcard_in_front_does_not_select_the_nodes_own_topics() {
    let server = Server::start();
    let mut peer = server.client("peer");
    // [MQTT-4.7.2-1]: the topics below $ exist, and neither filter selects one.
    peer.subscribe(&[("#", at(ONCE)), ("+/devices/#", at(ONCE))]);
    assert!(peer.flush().iter().all(|packet| !message_of(packet).topic.starts_with('$')));
}

#[test]
fn messages_of_one_client_keep_their_order() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    for qos in [Qos::AtMostOnce, ONCE, Qos::ExactlyOnce] {
        reader.subscribe(&[("o", at(qos))]);
        for number in 0..50 {
            writer.publish("o", &number.to_string(), qos, false);
        }
        // [MQTT-4.6.0-5], [MQTT-4.6.0-6]
        let found: Vec<_> = (0..50).map(|_| payload_of(&reader.take())).collect();
        assert_eq!(found, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

#[test]
fn versions_meet_and_the_older_gets_no_properties() {
    let server = Server::start();
    let (mut old, connack) = server.connect(Connect { version: Version::V311, ..hello("old") });
    assert!(connack.properties.is_empty());
    assert_eq!(old.subscribe(&[("v", at(Qos::ExactlyOnce))]), [ReasonCode::GrantedQos2]);
    let content = one(Property::ContentType(super::peer::text("x")));
    server.client("new").publish_with("v", "1", Qos::ExactlyOnce, false, content);
    assert!(old.take().properties.is_empty());
    assert_eq!(old.unsubscribe(&["v"]), []);
    assert_eq!(old.unsubscribe(&["v"]), [], "an answer all the same");
}

#[test]
fn topics_are_numbered_for_who_takes_numbers() {
    let server = Server::start();
    let mut writer = server.client("writer");
    let (mut reader, _) =
        server.connect(Connect { properties: one(Property::TopicAliasMaximum(2)), ..hello("reader") });
    reader.subscribe(&[("t/#", at(ONCE))]);
    // [MQTT-3.1.2-26], [MQTT-3.3.2-11]: two numbers at most; the name goes out with a new one, and not again.
    let expect = [
        ("t/a", "t/a", Some(1)),
        ("t/b", "t/b", Some(2)),
        ("t/a", "", Some(1)),
        ("t/c", "t/c", None),
        ("t/b", "", Some(2)),
    ];
    for (topic, named, number) in expect {
        writer.publish(topic, "1", ONCE, false);
        let message = reader.take();
        assert_eq!((&*message.topic, message.properties.topic_alias().map(|alias| alias.get())), (named, number));
    }
    // [MQTT-3.1.2-27]: not for who takes none.
    writer.subscribe(&[("t/a", at(ONCE))]);
    reader.publish("t/a", "2", ONCE, false);
    assert_eq!(writer.take().properties.topic_alias(), None);
    assert!(matches!(reader.next(), Some(Packet::Publish(_))));
}

#[test]
fn requests_cannot_be_subscribed_to() {
    let server = Server::start();
    let mut client = server.client("curious");
    let reasons = client.subscribe(&["$command/#", "$command/a/b", "$fetch", "#"].map(|filter| (filter, at(ONCE))));
    let refused = ReasonCode::UnspecifiedError;
    assert_eq!(reasons, [refused, refused, refused, ReasonCode::GrantedQos1]);
}
