//! What is declared of topics (docs/topics-and-mqtt.md, Topic types, event series, removal).

use super::peer::{Peer, Server, at, hello, one, text};
use bytes::Bytes;
use tieline_mqtt::{Guarantee, Packet, Properties, Property, Publish, Qos, ReasonCode, Version};

const RULES: &str = "
[[topic]]
filter = 'json/#'
type = 'json'
[[topic]]
filter = 'log/#'
keep = { events = 3 }
[[topic]]
filter = 'mine/#'
remove = { with_publisher = true }
[[topic]]
filter = 'brief/#'
remove = { after = '100ms' }
";

fn answer(peer: &mut Peer, topic: &str, payload: &[u8], properties: Properties) -> (ReasonCode, String) {
    let packet_id = peer.packet_id();
    let guarantee = Guarantee::AtLeastOnce { packet_id, dup: false };
    let payload = Bytes::copy_from_slice(payload);
    peer.send(&Packet::Publish(Publish { guarantee, retain: true, topic: text(topic), properties, payload }));
    let Packet::Puback(ack) = peer.answer() else { panic!("no PUBACK") };
    (ack.reason, ack.properties.reason_string().map(|words| words.to_string()).unwrap_or_default())
}

#[test]
fn a_payload_that_does_not_fit_is_refused() {
    let server = Server::with(RULES);
    let mut writer = server.client("writer");
    let json = || one(Property::ContentType(text("application/json; charset=utf-8")));
    let cases: [(&str, &[u8], Properties, bool); 8] = [
        ("json/a", b"{}", Properties::default(), true),
        ("json/a", b"{", Properties::default(), false),
        ("json/a", b"", Properties::default(), true),
        ("other", b"{", Properties::default(), true),
        ("other", b"{", json(), false),
        ("other", b"[1]", json(), true),
        ("other", b"\xff", one(Property::PayloadFormat(true)), false),
        ("other", b"\xff", one(Property::PayloadFormat(false)), true),
    ];
    for (topic, payload, properties, fits) in cases {
        let (reason, words) = answer(&mut writer, topic, payload, properties);
        let expect = if fits { ReasonCode::Success } else { ReasonCode::PayloadFormatInvalid };
        assert_eq!((reason, words.is_empty()), (expect, fits), "{topic} {payload:?} {words}");
    }
    // 3.1.1 cannot be told.
    let (mut old, _) = server.connect(tieline_mqtt::Connect { version: Version::V311, ..hello("old") });
    let guarantee = Guarantee::AtLeastOnce { packet_id: old.packet_id(), dup: false };
    let payload = Bytes::from_static(b"{");
    old.send(&Packet::Publish(Publish { guarantee, topic: text("json/a"), payload, ..Publish::default() }));
    assert_eq!(old.next(), None);
}

#[test]
fn events_are_kept_and_asked_for() {
    let server = Server::with(RULES);
    let mut client = server.client("client");
    for number in 1..=5 {
        client.publish("log/a", &format!("{number}"), Qos::AtLeastOnce, true);
    }
    client.subscribe(&[("answer", at(Qos::AtMostOnce))]);
    for (asked, expect) in [
        ("{\"topic\":\"log/a\"}", &[3, 4, 5][..]),
        ("{\"topic\":\"log/a\",\"events\":1}", &[5]),
        ("{\"topic\":\"log/a\",\"after\":3,\"events\":1}", &[4]),
        ("{\"topic\":\"log/b\"}", &[]),
    ] {
        client.publish_with("$fetch", asked, Qos::AtLeastOnce, false, one(Property::ResponseTopic(text("answer"))));
        let answer: serde_json::Value = serde_json::from_slice(&client.take().payload).unwrap();
        let events = answer["events"].as_array().unwrap();
        let found: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(found, expect, "{asked}");
        assert!(events.iter().all(|event| event["value"] == event["seq"]));
    }
}

#[test]
fn values_go_with_their_publisher_and_after_their_time() {
    let server = Server::with(RULES);
    let mut watcher = server.client("watcher");
    watcher.subscribe(&[("$topics/removed/#", at(Qos::AtMostOnce))]);
    let mut writer = server.client("writer");
    writer.publish("mine/a", "1", Qos::AtLeastOnce, true);
    writer.publish("other", "1", Qos::AtLeastOnce, true);
    let mut second = server.client("second");
    second.publish("mine/b", "1", Qos::AtLeastOnce, true);
    writer.leave(ReasonCode::Success, Properties::default());
    assert_eq!(&*watcher.message().topic, "$topics/removed/mine/a");
    second.publish("brief/a", "1", Qos::AtLeastOnce, true);
    assert_eq!(&*watcher.message().topic, "$topics/removed/brief/a");
}

/// The number and the payload of what a new subscription gets.
fn told(server: &Server, filter: &str, last: &str, qos: Qos, count: usize) -> Vec<(String, String)> {
    let mut reader = server.client("reader");
    let delivery_options = one(Property::UserProperty((text("tieline-last"), text(last))));
    assert_eq!(reader.subscribe_as(&[(filter, at(qos))], delivery_options).len(), 1);
    let mut next = || {
        let message = reader.take();
        assert!(message.retain);
        let seq = message.properties.user_properties().find(|(name, _)| &**name == "tieline-seq");
        (seq.map(|(_, seq)| seq.to_string()).unwrap_or_default(), super::peer::payload_of(&message))
    };
    let told = (0..count).map(|_| next()).collect();
    assert_eq!(reader.payloads(), [""; 0]);
    told
}

#[test]
fn a_subscription_gets_the_last_events() {
    let server = Server::with("[[topic]]\nfilter = 'log/#'\nkeep = { events = 2000 }");
    let mut writer = server.client("writer");
    let event = |number: usize| (number.to_string(), format!("{{\"n\":{number}}}"));
    for number in 1..=700 {
        writer.publish("log/a", &event(number).1, Qos::AtLeastOnce, true);
    }
    writer.publish("plain", "value", Qos::AtLeastOnce, true);
    let last = |count: usize| (700 - count + 1..=700).map(event).collect::<Vec<_>>();
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        assert_eq!(told(&server, "log/a", "3", qos, 3), last(3));
        assert_eq!(told(&server, "log/a", "1", qos, 1), last(1));
    }
    // More than a chunk, more than there are, since long ago.
    for asked in ["700", "1000000", "2000-01-01T00:00:00Z"] {
        assert_eq!(told(&server, "log/#", asked, Qos::AtMostOnce, 700), last(700), "{asked}");
    }
    // None so new: the last value, as of topics that keep nothing.
    assert_eq!(told(&server, "log/a", "2999-01-01T00:00:00Z", Qos::AtMostOnce, 1), [(String::new(), event(700).1)]);
    assert_eq!(told(&server, "plain", "10", Qos::AtMostOnce, 1), [(String::new(), "value".to_owned())]);
    let mut all = told(&server, "#", "2", Qos::AtMostOnce, 3);
    all.sort();
    assert_eq!(all, [(String::new(), "value".to_owned()), event(699), event(700)]);
}

#[test]
fn asking_for_events_in_a_wrong_way_is_refused() {
    let server = Server::with("[[topic]]\nfilter = 'log/#'\nkeep = { events = 3 }");
    let mut reader = server.client("reader");
    for (last, more) in [("0", None), ("soon", None), ("3", Some(("tieline-delta", "hunk")))] {
        let pairs = [Some(("tieline-last", last)), more].into_iter().flatten();
        let properties = pairs.map(|(name, value)| Property::UserProperty((text(name), text(value)))).collect();
        let reasons = reader.subscribe_as(&[("log/#", at(Qos::AtMostOnce))], properties);
        assert_eq!(reasons, [ReasonCode::ImplementationSpecificError], "{last}");
    }
}
