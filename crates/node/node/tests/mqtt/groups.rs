//! Shared subscriptions (MQTT 5.0 section 4.8.2).

use super::peer::{Peer, Server, at, hello, keep, one, payload_of};
use std::collections::BTreeSet;
use tieline_mqtt::{Connect, Properties, Property, Qos, ReasonCode, SubscriptionId};

const ONCE: Qos = Qos::AtLeastOnce;
const TWICE: Qos = Qos::ExactlyOnce;

fn publish(server: &Server, topic: &str, count: usize, qos: Qos) {
    let mut writer = server.client("writer");
    (0..count).for_each(|number| writer.publish(topic, &number.to_string(), qos, false));
}

fn numbers(payloads: &[String]) -> BTreeSet<usize> {
    payloads.iter().map(|payload| payload.parse().unwrap()).collect()
}

#[test]
fn each_message_goes_to_one_of_the_group_and_all_have_their_turn() {
    let server = Server::start();
    for qos in [Qos::AtMostOnce, ONCE, TWICE] {
        let mut members: Vec<Peer> = (0..3).map(|number| server.client(&format!("m{number}"))).collect();
        for member in &mut members {
            assert_eq!(member.subscribe(&[("$share/g/s/+", at(qos))]), [qos.granted()]);
        }
        let mut alone = server.client("alone");
        alone.subscribe(&[("$share/h/s/+", at(qos)), ("s/a", at(qos))]);
        publish(&server, "s/a", 30, qos);
        let found: Vec<_> = members.iter_mut().map(Peer::payloads).collect();
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 10]);
        assert_eq!(numbers(&found.concat()).len(), 30);
        // Another group, and a subscription that is not shared, each get all of them.
        assert_eq!(alone.payloads().len(), 60);
    }
}

#[test]
fn each_of_the_group_gets_what_it_was_granted() {
    let server = Server::start();
    let mut members: Vec<Peer> = (0..3).map(|number| server.client(&format!("m{number}"))).collect();
    for (member, (qos, number)) in members.iter_mut().zip([(Qos::AtMostOnce, 1), (ONCE, 2), (TWICE, 3)]) {
        let id = Property::SubscriptionIdentifier(SubscriptionId::new(number).unwrap());
        member.subscribe_as(&[("$share/g/q", at(qos))], one(id));
    }
    publish(&server, "q", 3, TWICE);
    // [MQTT-4.8.2-3]
    for (member, (qos, number)) in members.iter_mut().zip([(Qos::AtMostOnce, 1), (ONCE, 2), (TWICE, 3)]) {
        let message = member.take();
        assert_eq!(message.guarantee.qos(), qos);
        assert_eq!(message.properties.subscription_id(), SubscriptionId::new(number));
    }
}

#[test]
fn no_last_values_and_no_local_on_shared_subscriptions() {
    let server = Server::start();
    server.client("writer").publish("s/a", "kept", ONCE, true);
    let mut member = server.client("m");
    member.subscribe(&[("$share/g/s/a", at(ONCE))]);
    assert_eq!(member.payloads(), [""; 0]);
    assert_eq!(
        member.unsubscribe(&["$share/g/s/a", "$share/g/s/a", "$share/h/s/a"]),
        [ReasonCode::Success, ReasonCode::NoSubscriptionExisted, ReasonCode::NoSubscriptionExisted]
    );
    publish(&server, "s/a", 1, ONCE);
    assert_eq!(member.payloads(), [""; 0]);
}

#[test]
fn what_a_client_that_leaves_did_not_get_goes_to_another() {
    let server = Server::start();
    // One message at a time is out to each: the rest waits.
    let narrow = |name: &str| {
        let properties = one(Property::ReceiveMaximum(std::num::NonZeroU16::MIN));
        server.connect(Connect { properties, ..hello(name) }).0
    };
    for qos in [ONCE, TWICE] {
        let (mut one, mut other) = (narrow("one"), narrow("other"));
        for member in [&mut one, &mut other] {
            member.subscribe(&[("$share/g/s", at(qos))]);
        }
        publish(&server, "s", 6, qos);
        assert_eq!((one.payloads(), other.message().guarantee.qos()), (vec!["0".to_owned()], qos));
        one.vanish();
        other.vanish();
        // Nobody is left to take anything.
        let mut later = narrow("later");
        later.subscribe(&[("$share/g/s", at(qos))]);
        assert_eq!(later.payloads(), [""; 0]);

        let (mut one, mut other) = (narrow("one"), narrow("other"));
        later.unsubscribe(&["$share/g/s"]);
        for member in [&mut one, &mut other] {
            member.subscribe(&[("$share/g/s", at(qos))]);
        }
        publish(&server, "s", 6, qos);
        let seen = payload_of(&one.message());
        one.vanish();
        let mut found = Vec::new();
        // What was sent with QoS 2 may have arrived and goes to nobody else ([MQTT-4.8.2-5]); all else does.
        let due = if qos == ONCE { 6 } else { 5 };
        while found.len() < due {
            found.push(payload_of(&other.take()));
        }
        assert_eq!(found.contains(&seen), qos == ONCE);
        assert_eq!((numbers(&found).len(), other.payloads()), (due, Vec::new()));
    }
}

#[test]
fn a_client_that_is_away_completes_what_it_began_and_others_get_the_rest() {
    let server = Server::start();
    let (mut away, _) = server.connect(keep("away", 100));
    away.subscribe(&[("$share/g/s", at(TWICE))]);
    publish(&server, "s", 1, TWICE);
    let begun = away.message();
    away.vanish();
    let mut here = server.client("here");
    here.subscribe(&[("$share/g/s", at(TWICE))]);
    publish(&server, "s", 4, TWICE);
    assert_eq!(here.payloads().len(), 4, "who is here is given all");
    // [MQTT-4.8.2-4]
    let (mut away, connack) = server.connect(keep("away", 100));
    assert!(connack.session_present);
    let again = away.take();
    assert_eq!((again.guarantee.packet_id(), again.guarantee.dup()), (begun.guarantee.packet_id(), true));
    here.leave(ReasonCode::Success, Properties::default());
    away.vanish();
    // With nobody here, a client that is away is given what comes.
    publish(&server, "s", 2, ONCE);
    assert_eq!(server.connect(keep("away", 100)).0.payloads().len(), 2);
}
