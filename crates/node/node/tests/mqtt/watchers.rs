//! Clients that are told which topics come and go (docs/topics-and-mqtt.md).

use super::peer::{Peer, Server, at, keep};
use tieline_mqtt::{Qos, ReasonCode, RetainHandling, SubscriptionOptions};

/// What has come by now: the topic, `!` before it where it is of the first ones.
fn told(peer: &mut Peer) -> Vec<String> {
    let show = |packet: &tieline_mqtt::Packet| {
        let message = super::peer::message_of(packet);
        let name = message.topic.strip_prefix("$topics/").unwrap_or(&message.topic);
        let mark = if message.retain { "!" } else { "" };
        format!("{mark}{name}")
    };
    peer.flush().iter().map(show).collect()
}

fn set(peer: &mut Peer, topic: &str, payload: &str) {
    peer.publish(topic, payload, Qos::AtLeastOnce, true);
}

#[test]
fn topics_that_come_and_go_are_told_without_values() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    set(&mut writer, "w/a", "1");
    set(&mut writer, "other", "1");
    assert_eq!(reader.subscribe(&[("$topics/+/w/#", at(Qos::AtLeastOnce))]), [ReasonCode::Success]);
    assert_eq!(told(&mut reader), ["!added/w/a"]);
    for (topic, payload) in [("w/a", "2"), ("w/b", "1"), ("other", ""), ("w/a", ""), ("w/a", "3")] {
        set(&mut writer, topic, payload);
        // Each in its turn: what comes and goes in one turn would not be told.
        let expect: &[&str] = match (topic, payload) {
            ("w/b", _) => &["added/w/b"],
            ("w/a", "") => &["removed/w/a"],
            ("w/a", "3") => &["added/w/a"],
            _ => &[],
        };
        assert_eq!(told(&mut reader), expect, "{topic} {payload}");
    }
    // A message that is not kept makes no topic.
    writer.publish("w/c", "1", Qos::AtLeastOnce, false);
    assert_eq!(told(&mut reader), [""; 0]);
    assert_eq!(reader.unsubscribe(&["$topics/+/w/#"]), [ReasonCode::Success]);
    set(&mut writer, "w/d", "1");
    assert_eq!(told(&mut reader), [""; 0]);
}

#[test]
fn a_watch_tells_what_it_is_asked_for() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    set(&mut writer, "w/a", "1");
    reader.subscribe(&[("$topics/removed/w/+", at(Qos::AtMostOnce))]);
    let never = SubscriptionOptions { retain_handling: RetainHandling::Never, ..at(Qos::AtMostOnce) };
    reader.subscribe(&[("$topics/added/w/b", never)]);
    assert_eq!(told(&mut reader), [""; 0]);
    for (topic, payload) in [("w/b", "1"), ("w/c", "1"), ("w/a", "")] {
        set(&mut writer, topic, payload);
    }
    let mut all = told(&mut reader);
    all.sort();
    assert_eq!(all, ["added/w/b", "removed/w/a"]);
    for wrong in ["$topics/added", "$topics/values/#", "$share/g/$topics/added/#"] {
        assert_eq!(reader.subscribe(&[(wrong, at(Qos::AtMostOnce))]), [ReasonCode::TopicFilterInvalid], "{wrong}");
    }
    let many: Vec<String> = (0..65).map(|number| format!("$topics/added/{number}/#")).collect();
    let reasons = many.iter().flat_map(|filter| reader.subscribe(&[(filter, at(Qos::AtMostOnce))]));
    assert_eq!(reasons.filter(|reason| *reason == ReasonCode::QuotaExceeded).count(), 3);
}

#[test]
fn a_session_that_goes_on_is_told_all_anew() {
    let server = Server::start();
    let mut writer = server.client("writer");
    set(&mut writer, "w/a", "1");
    let (mut reader, _) = server.connect(keep("reader", 60));
    reader.subscribe(&[("$topics/+/w/#", at(Qos::AtMostOnce))]);
    assert_eq!(told(&mut reader), ["!added/w/a"]);
    reader.vanish();
    set(&mut writer, "w/a", "");
    set(&mut writer, "w/b", "1");
    let (mut reader, connack) = server.connect(keep("reader", 60));
    assert!(connack.session_present);
    assert_eq!(told(&mut reader), ["anew", "!added/w/b"]);
}

#[test]
fn a_topic_that_somebody_asks_for_in_vain_is_told() {
    let server = Server::start();
    let (mut maker, mut reader) = (server.client("maker"), server.client("reader"));
    set(&mut maker, "w/there", "1");
    assert_eq!(maker.subscribe(&[("$topics/missing/w/#", at(Qos::AtMostOnce))]), [ReasonCode::Success]);
    assert_eq!(told(&mut maker), [""; 0], "none is told of what is there");
    for (filter, expect) in [
        ("w/a", &["missing/w/a"][..]),
        ("w/there", &[]),
        ("w/+", &[]),
        ("other", &[]),
        ("$SYS/none", &[]),
        ("w/a", &["missing/w/a"]),
        ("$share/g/w/b", &["missing/w/b"]),
    ] {
        reader.subscribe(&[(filter, at(Qos::AtMostOnce))]);
        assert_eq!(told(&mut maker), expect, "{filter}");
    }
    set(&mut maker, "w/a", "made");
    assert!(told(&mut reader).iter().any(|topic| topic == "w/a"));
    reader.subscribe(&[("w/a", at(Qos::AtMostOnce))]);
    assert_eq!(told(&mut maker), [""; 0]);
}
