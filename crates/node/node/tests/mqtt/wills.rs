//! Wills (MQTT 5.0 sections 3.1.2.5 and 3.1.3.2.2).

use super::peer::{Server, at, hello, keep, one, payload_of, text, will};
use tieline_mqtt::{Connect, Properties, Property, Qos, ReasonCode};

const ONCE: Qos = Qos::AtLeastOnce;

#[test]
fn a_will_is_published_unless_the_client_says_goodbye() {
    let server = Server::start();
    let mut watch = server.client("watch");
    watch.subscribe(&[("w/#", at(Qos::ExactlyOnce))]);
    // [MQTT-3.1.2-8], [MQTT-3.1.2-10], [MQTT-3.14.4-3]
    for (goodbye, published) in [
        (None, true),
        (Some(ReasonCode::Success), false),
        (Some(ReasonCode::DisconnectWithWill), true),
        (Some(ReasonCode::UnspecifiedError), true),
    ] {
        let (peer, _) = server.connect(Connect { will: will("w/a", false, Properties::default()), ..hello("c") });
        match goodbye {
            None => peer.vanish(),
            Some(reason) => peer.leave(reason, Properties::default()),
        }
        if published {
            let message = watch.take();
            assert_eq!((payload_of(&message), message.guarantee.qos()), ("gone".to_owned(), ONCE));
        }
        assert_eq!(watch.payloads(), [""; 0], "{goodbye:?}");
    }
}

#[test]
fn a_will_is_retained_where_it_asks_for_it() {
    let server = Server::start();
    // [MQTT-3.1.2-14], [MQTT-3.1.2-15]
    for retain in [false, true] {
        let topic = format!("w/{retain}");
        let mut watch = server.client("watch");
        watch.subscribe(&[(&topic, at(ONCE))]);
        let (peer, _) = server.connect(Connect { will: will(&topic, retain, Properties::default()), ..hello("c") });
        peer.vanish();
        watch.take();
        let mut later = server.client("later");
        later.subscribe(&[(&topic, at(ONCE))]);
        assert_eq!(later.payloads().len(), usize::from(retain));
    }
}

#[test]
fn a_will_waits_for_its_delay_or_the_end_of_the_session() {
    let server = Server::start();
    let mut watch = server.client("watch");
    watch.subscribe(&[("w/#", at(ONCE))]);
    let delayed = |topic: &str, delay_s, connect| {
        let will = will(topic, false, one(Property::WillDelay(delay_s)));
        server.connect(Connect { will, ..connect }).0
    };
    // [MQTT-3.1.2-8]: without a session to wait in, at once; with a new beginning, at once; else after the delay.
    delayed("w/no-session", 3600, hello("a")).vanish();
    assert_eq!(&*watch.take().topic, "w/no-session");
    delayed("w/begun-anew", 3600, keep("b", 7200)).vanish();
    assert_eq!(watch.payloads(), [""; 0]);
    drop(server.client("b"));
    assert_eq!(&*watch.take().topic, "w/begun-anew");
    let started = std::time::Instant::now();
    delayed("w/after-delay", 1, keep("c", 7200)).vanish();
    assert_eq!(&*watch.take().topic, "w/after-delay");
    assert!(started.elapsed().as_millis() >= 1000);
    // [MQTT-3.1.3-9]: a client that is back in time has its will back.
    delayed("w/back-in-time", 1, keep("d", 7200)).vanish();
    let (mut back, connack) = server.connect(keep("d", 7200));
    assert!(connack.session_present);
    delayed("w/marker", 2, keep("e", 7200)).vanish();
    assert_eq!(&*watch.take().topic, "w/marker");
    assert!(back.flush().is_empty());
}

#[test]
fn taking_over_publishes_a_will_without_delay() {
    let server = Server::start();
    let mut watch = server.client("watch");
    watch.subscribe(&[("w/#", at(ONCE))]);
    for (delay_s, published) in [(0, true), (3600, false)] {
        let will = will("w/a", false, one(Property::WillDelay(delay_s)));
        let (mut first, _) = server.connect(Connect { will, ..keep("c", 7200) });
        let (second, _) = server.connect(keep("c", 7200));
        while first.next().is_some() {}
        if published {
            watch.take();
        }
        assert_eq!(watch.payloads(), [""; 0]);
        second.leave(ReasonCode::Success, Properties::default());
    }
}

#[test]
fn a_will_for_a_topic_of_the_node_is_not_published() {
    let server = Server::start();
    let mut watch = server.client("watch");
    watch.subscribe(&[("$SYS/x", at(ONCE)), ("w", at(ONCE))]);
    for topic in ["$SYS/x", "w"] {
        server.connect(Connect { will: will(topic, false, Properties::default()), ..hello("c") }).0.vanish();
    }
    assert_eq!(&*watch.take().topic, "w");
}

#[test]
fn a_will_keeps_what_it_says_of_itself() {
    let server = Server::start();
    let mut watch = server.client("watch");
    watch.subscribe(&[("w", at(ONCE))]);
    let pair = |value| Property::UserProperty((text("k"), text(value)));
    // [MQTT-3.1.3-10]: the user properties in their order.
    let said: Properties = [Property::ContentType(text("x")), pair("b"), pair("a"), pair("b")].into_iter().collect();
    server.connect(Connect { will: will("w", false, said.clone()), ..hello("c") }).0.vanish();
    assert_eq!(watch.take().properties, said);
}
