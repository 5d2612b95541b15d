//! Regular expressions that narrow subscriptions (docs/topics-and-mqtt.md, Selectors).

use super::peer::{Peer, Server, at, one, text};
use tieline_mqtt::{Properties, Property, Qos, ReasonCode};

fn select(expression: &str) -> Properties {
    one(Property::UserProperty((text("tieline-select"), text(expression))))
}

fn set_all(writer: &mut Peer, payload: &str) {
    for topic in ["s/1/amps", "s/1/volts", "s/2/amps", "s/2/name"] {
        writer.publish(topic, payload, Qos::AtLeastOnce, true);
    }
}

/// The topics of what has come by now.
fn came(reader: &mut Peer) -> Vec<String> {
    reader.flush().iter().map(|packet| super::peer::message_of(packet).topic.to_string()).collect()
}

#[test]
fn a_selector_narrows_a_filter() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    set_all(&mut writer, "1");
    for (expression, expect) in [
        ("/amps$", &["s/1/amps", "s/2/amps"][..]),
        ("^s/1/", &["s/1/amps", "s/1/volts"]),
        ("", &["s/1/amps", "s/1/volts", "s/2/amps", "s/2/name"]),
        ("nothing", &[]),
    ] {
        // The same filter again: the selector takes the place of the one before.
        let reasons = reader.subscribe_as(&[("s/#", at(Qos::AtLeastOnce))], select(expression));
        assert_eq!(reasons, [ReasonCode::GrantedQos1]);
        for _ in expect {
            assert!(reader.take().retain);
        }
        set_all(&mut writer, "2");
        for topic in expect {
            assert_eq!(&*reader.take().topic, *topic, "{expression}");
        }
        assert_eq!(came(&mut reader), [""; 0], "{expression}");
    }
    reader.subscribe(&[("s/1/amps", at(Qos::AtMostOnce))]);
    assert_eq!(&*reader.message().topic, "s/1/amps");
    assert_eq!(reader.unsubscribe(&["s/#", "s/#"]), [ReasonCode::Success, ReasonCode::NoSubscriptionExisted]);
    set_all(&mut writer, "3");
    assert_eq!(came(&mut reader), ["s/1/amps"]);
}

#[test]
fn wrong_selectors_are_refused() {
    let server = Server::start();
    let mut reader = server.client("reader");
    for (filter, expression) in
        [("s/#", "("), ("s/#", "(a{500}){500}"), ("$share/g/s/#", "a"), ("$topics/added/#", "a")]
    {
        let reasons = reader.subscribe_as(&[(filter, at(Qos::AtMostOnce))], select(expression));
        assert_eq!(reasons, [ReasonCode::ImplementationSpecificError], "{filter} {expression}");
    }
    // One client holds so many, and others may have theirs.
    let many: Vec<ReasonCode> = (0..65)
        .flat_map(|number| reader.subscribe_as(&[(&format!("{number}/#"), at(Qos::AtMostOnce))], select("a")))
        .collect();
    assert!(many.iter().take(64).all(|reason| *reason == ReasonCode::Success));
    assert_eq!(many.last(), Some(&ReasonCode::QuotaExceeded));
    let reasons = server.client("other").subscribe_as(&[("65/#", at(Qos::AtMostOnce))], select("a"));
    assert_eq!(reasons, [ReasonCode::Success]);
}
