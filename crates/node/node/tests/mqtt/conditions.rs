//! Messages that are taken only if (docs/topics-and-mqtt.md, Conditional publish).

use super::peer::{Peer, Server, at, one, payload_of, text};
use bytes::Bytes;
use tieline_mqtt::{Guarantee, Packet, Property, Publish, Qos, ReasonCode};

/// Publishes on conditions, retained, and gives the answer's reason and words.
fn set(peer: &mut Peer, topic: &str, payload: &str, qos: Qos, (name, value): (&str, &str)) -> (ReasonCode, String) {
    let properties = one(Property::UserProperty((text(name), text(value))));
    let packet_id = peer.packet_id();
    let guarantee = match qos {
        Qos::AtMostOnce | Qos::AtLeastOnce => Guarantee::AtLeastOnce { packet_id, dup: false },
        Qos::ExactlyOnce => Guarantee::ExactlyOnce { packet_id, dup: false },
    };
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    peer.send(&Packet::Publish(Publish { guarantee, retain: true, topic: text(topic), properties, payload }));
    let (Packet::Puback(ack) | Packet::Pubrec(ack)) = peer.answer() else { panic!("no answer") };
    (ack.reason, ack.properties.reason_string().map(|words| words.to_string()).unwrap_or_default())
}

/// The payload, the condition, and what comes of it.
type Case = (&'static str, (&'static str, &'static str), Result<(), &'static str>);

#[test]
fn a_value_is_set_only_if() {
    let server = Server::start();
    let (mut writer, mut reader) = (server.client("writer"), server.client("reader"));
    reader.subscribe(&[("c/#", at(Qos::AtMostOnce))]);
    let cases: &[Case] = &[
        ("1", ("tieline-if-version", "1"), Err("the topic has no value")),
        ("1", ("tieline-if-absent", "true"), Ok(())),
        ("2", ("tieline-if-absent", "true"), Err("the topic has a value of version 1, expected none")),
        ("2", ("tieline-if-version", "2"), Err("the version is 1, expected 2")),
        ("2", ("tieline-if-version", "1"), Ok(())),
        ("3", ("tieline-if-value", "1"), Err("the value is another than expected, of version 2")),
        ("3", ("tieline-if-value", "2"), Ok(())),
        (
            "4",
            ("tieline-if-version", "x"),
            Err("tieline-if-version is \"x\", expected the version of a value, as in \"41\""),
        ),
        ("", ("tieline-if-version", "3"), Ok(())),
        ("5", ("tieline-if-absent", "false"), Err("the topic has no value")),
    ];
    for (topic, qos) in [("c/1", Qos::AtLeastOnce), ("c/2", Qos::ExactlyOnce)] {
        for (payload, condition, expect) in cases {
            let expect = expect
                .map_or_else(|words| (ReasonCode::ImplementationSpecificError, words), |()| (ReasonCode::Success, ""));
            let (reason, words) = set(&mut writer, topic, payload, qos, *condition);
            assert_eq!((reason, &*words), expect, "{topic} {payload} {condition:?}");
        }
    }
    assert_eq!(reader.payloads(), ["1", "2", "3", "", "1", "2", "3", ""]);
}

#[test]
fn of_many_writers_one_wins() {
    let server = Server::start();
    let mut writers: Vec<Peer> = (0..8).map(|number| server.client(&format!("writer{number}"))).collect();
    for version in 0..20 {
        let condition = match version {
            0 => ("tieline-if-absent", String::new()),
            _ => ("tieline-if-version", version.to_string()),
        };
        let won = writers.iter_mut().enumerate().filter_map(|(number, writer)| {
            let answer = set(writer, "c/a", &number.to_string(), Qos::AtLeastOnce, (condition.0, &condition.1));
            (answer.0 == ReasonCode::Success).then_some(number)
        });
        assert_eq!(won.collect::<Vec<_>>(), [0], "{version}");
    }
    let mut reader = server.client("reader");
    reader.subscribe(&[("c/a", at(Qos::AtMostOnce))]);
    assert_eq!(payload_of(&reader.message()), "0");
}
