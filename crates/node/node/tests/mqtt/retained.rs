//! Retained messages (MQTT 5.0 sections 3.3.1.3 and 3.8.3.1).

use super::peer::{Server, at, message_of, one, payload_of, text};
use bytes::Bytes;
use std::collections::HashMap;
use tieline_mqtt::{Packet, Properties, Property, Publish, Qos, RetainHandling, SubscriptionOptions};

/// What a new subscriber gets: the payloads, each with the RETAIN flag.
#[track_caller]
fn check_kept(server: &Server, filter: &str, expect: &[&str]) {
    let mut reader = server.client("kept");
    reader.subscribe(&[(filter, at(Qos::AtMostOnce))]);
    let mut found = Vec::new();
    while found.len() < expect.len() {
        let message = reader.message();
        assert!(message.retain);
        found.push(payload_of(&message));
    }
    found.sort();
    assert_eq!(found, expect);
    assert_eq!(reader.payloads(), [""; 0], "more than was expected");
}

#[test]
fn a_retained_message_replaces_and_an_empty_one_removes() {
    let server = Server::start();
    let mut writer = server.client("writer");
    // [MQTT-3.3.1-5] kept, [MQTT-3.3.1-8] not kept, [MQTT-3.3.1-6] removed, [MQTT-3.3.1-7] not kept when empty.
    for (payload, retain, expect) in
        [("1", true, &["1"][..]), ("2", true, &["2"]), ("3", false, &["2"]), ("", false, &["2"]), ("", true, &[])]
    {
        writer.publish("r/a", payload, Qos::AtLeastOnce, retain);
        check_kept(&server, "r/#", expect);
    }
}

#[test]
fn last_values_come_as_the_subscription_asks() {
    let server = Server::start();
    server.client("writer").publish("r/a", "1", Qos::AtLeastOnce, true);
    // [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]: to the first SUBSCRIBE, and to the same one again.
    for (retain_handling, first, again) in [
        (RetainHandling::Always, true, true),
        (RetainHandling::IfNew, true, false),
        (RetainHandling::Never, false, false),
    ] {
        let mut reader = server.client("reader");
        for sent in [first, again] {
            reader.subscribe(&[("r/a", SubscriptionOptions { retain_handling, ..at(Qos::AtLeastOnce) })]);
            if sent {
                assert!(reader.take().retain);
            }
            assert_eq!(reader.payloads(), [""; 0], "{retain_handling:?}");
        }
    }
}

#[test]
fn the_retain_flag_is_as_the_subscription_asks() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    // [MQTT-3.3.1-12], [MQTT-3.3.1-13].
    for (retain_as_published, retain, expect) in
        [(false, true, false), (false, false, false), (true, true, true), (true, false, false)]
    {
        let handling = RetainHandling::Never;
        let options = SubscriptionOptions { retain_as_published, retain_handling: handling, ..at(Qos::AtLeastOnce) };
        reader.subscribe(&[("f", options)]);
        writer.publish("f", "1", Qos::AtLeastOnce, retain);
        assert_eq!(reader.take().retain, expect);
    }
}

#[test]
fn what_a_message_says_of_itself_arrives_as_it_was() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    let pair = |value: &str| Property::UserProperty((text("k"), text(value)));
    // [MQTT-3.3.2-4], [MQTT-3.3.2-15] to [MQTT-3.3.2-18], [MQTT-3.3.2-20].
    let properties: Properties = [
        Property::PayloadFormat(true),
        Property::ContentType(text("text/plain; \u{FEFF}ä")),
        Property::ResponseTopic(text("answers/1")),
        Property::CorrelationData(tieline_mqtt::Binary::new(vec![0, 255]).unwrap()),
        pair("b"),
        pair("a"),
        pair("b"),
    ]
    .into_iter()
    .collect();
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
        reader.subscribe(&[("p", at(qos))]);
        writer.publish_with("p", "1", qos, false, properties.clone());
        let message = reader.take();
        assert_eq!((message.guarantee.qos(), &message.properties), (qos, &properties));
    }
    writer.publish_with("kept", "1", Qos::AtLeastOnce, true, properties.clone());
    reader.subscribe(&[("kept", at(Qos::AtLeastOnce))]);
    assert_eq!(reader.take().properties, properties);
    writer.publish_with("short", "1", Qos::AtLeastOnce, true, one(Property::MessageExpiry(100)));
    reader.subscribe(&[("short", at(Qos::AtLeastOnce))]);
    assert!(reader.take().properties.message_expiry_s().is_some_and(|left_s| left_s <= 100));
}

/// How often a new subscriber is sent a topic that a writer sets while the last values before it are being sent, of the
/// messages with RETAIN 0 and 1.
fn sent_amid_a_walk(subscribed: Qos, published: Qos, properties: Properties) -> [usize; 2] {
    // More than sockets hold.
    const COUNT: usize = 4000;
    let server = Server::start();
    let mut writer = server.client("writer");
    let payload = Bytes::from("x".repeat(2000));
    for number in 0..COUNT {
        let topic = text(&format!("v/{number:04}"));
        writer.send(&Packet::Publish(Publish { retain: true, topic, payload: payload.clone(), ..Publish::default() }));
    }
    writer.publish("v/last", "old", Qos::AtLeastOnce, true);
    let mut reader = server.client("reader");
    // It reads no further than SUBACK.
    reader.subscribe_as(&[("v/#", at(subscribed))], properties);
    writer.publish("v/last", "new", published, true);
    let (mut topics, mut names) = (HashMap::<String, [usize; 2]>::new(), HashMap::new());
    while topics.len() <= COUNT {
        let mut came = vec![reader.message()];
        if topics.len() == COUNT || topics.contains_key("v/last") {
            came.extend(reader.flush().iter().map(|packet| message_of(packet).clone()));
        }
        for message in came {
            let topic = match message.properties.topic_alias() {
                Some(alias) if message.topic.is_empty() => names.get(&alias).cloned().unwrap(),
                Some(alias) => names.entry(alias).insert_entry(message.topic.to_string()).get().clone(),
                None => message.topic.to_string(),
            };
            topics.entry(topic).or_default()[usize::from(message.retain)] += 1;
            reader.acknowledge(&message);
        }
    }
    assert_eq!(reader.payloads(), [""; 0]);
    topics["v/last"]
}

/// What changes while last values are being sent comes as an update, and not as a last value besides.
#[test]
fn a_new_subscriber_amid_writers_gets_no_value_twice() {
    use Qos::{AtLeastOnce, AtMostOnce};
    for (subscribed, published) in [(AtMostOnce, AtMostOnce), (AtMostOnce, AtLeastOnce), (AtLeastOnce, AtLeastOnce)] {
        assert_eq!(sent_amid_a_walk(subscribed, published, Properties::default()), [1, 0]);
    }
    let deltas = one(Property::UserProperty((text("tieline-delta"), text("hunk"))));
    assert_eq!(sent_amid_a_walk(AtMostOnce, AtLeastOnce, deltas), [1, 0]);
}
