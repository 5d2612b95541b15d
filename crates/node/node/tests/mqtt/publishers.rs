//! Clients that send what changed (docs/delta.md, Publishers).

use super::peer::{Peer, Server, at, hello, one, payload_of, text, will};
use bytes::Bytes;
use tieline_core::{Body, Topic};
use tieline_delta::{Codecs, Sender, SenderLimits};
use tieline_mqtt::{Connack, Connect, Guarantee, Packet, Properties, Property, Publish, Qos, ReasonCode};

fn property(value: &str) -> Property {
    Property::UserProperty((text("tieline-delta"), text(value)))
}

fn answered(connack: &Connack) -> Option<String> {
    connack
        .properties
        .user_properties()
        .find(|(name, _)| &**name == "tieline-delta")
        .map(|(_, value)| value.to_string())
}

/// A client that has asked for deltas.
fn publisher(server: &Server, name: &str) -> Peer {
    let (peer, connack) = server.connect(Connect { properties: one(property("point,hunk")), ..hello(name) });
    assert_eq!(answered(&connack).as_deref(), Some("point,hunk"));
    peer
}

/// Publishes a marked payload with QoS 1, retained, and gives the reason and the words of the answer.
fn say(peer: &mut Peer, topic: &str, payload: &[u8], dup: bool, more: Option<Property>) -> (ReasonCode, String) {
    let packet_id = peer.packet_id();
    let guarantee = Guarantee::AtLeastOnce { packet_id, dup };
    let properties = std::iter::once(property("1")).chain(more).collect();
    let payload = Bytes::copy_from_slice(payload);
    peer.send(&Packet::Publish(Publish { guarantee, retain: true, topic: text(topic), properties, payload }));
    let Packet::Puback(ack) = peer.answer() else { panic!("no PUBACK") };
    (ack.reason, ack.properties.reason_string().map(|words| words.to_string()).unwrap_or_default())
}

fn check(peer: &mut Peer, topic: &str, payload: &[u8], expect: Result<(), &str>) {
    let expect = match expect {
        Ok(()) => (ReasonCode::Success, String::new()),
        Err(words) => (ReasonCode::PayloadFormatInvalid, format!("delta: {words}")),
    };
    assert_eq!(say(peer, topic, payload, false, None), expect, "{topic} {payload:x?}");
}

/// Copies 4 bytes of the base, and says 2 in place of its next 2.
fn delta(base: u8, two: &[u8; 2]) -> [u8; 5] {
    [0x60 | base, 8, 2, two[0], two[1]]
}

#[test]
fn what_changed_is_passed_on_whole() {
    let server = Server::start();
    let (mut writer, mut reader) = (publisher(&server, "writer"), server.client("reader"));
    reader.subscribe(&[("d/#", at(Qos::AtMostOnce))]);
    check(&mut writer, "d/a", b"\x00abcdefgh", Ok(()));
    check(&mut writer, "d/a", &delta(0, b"XY"), Ok(()));
    check(&mut writer, "d/a", &[0xA1], Ok(()));
    // A point: its JSON.
    let point = [0x20, 0x0C, 0x02, 0x8C, 0x4E, 0x80, 0x80, 0xF1, 0x8C, 0xBF, 0xAC, 0xB0, 0x06];
    check(&mut writer, "d/p", &point, Ok(()));
    check(&mut writer, "d/p", &[0x40, 0x08, 0xD6, 0x0F], Ok(()));
    let kind = Property::ContentType(text("application/x"));
    assert_eq!(say(&mut writer, "d/a", &delta(2, b"ZZ"), false, Some(kind.clone())).0, ReasonCode::Success);
    let told = reader.flush();
    let last = told.last().unwrap().clone();
    let told: Vec<String> = told.iter().map(|packet| payload_of(super::peer::message_of(packet))).collect();
    let points = [
        r#"{"v":49.98,"q":"good","t":"2026-11-20T09:36:00.000Z"}"#,
        r#"{"v":50.0,"q":"good","t":"2026-11-20T09:36:01.003Z"}"#,
    ];
    assert_eq!(told, ["abcdefgh", "abcdXYgh", "abcdXYgh", points[0], points[1], "abcdZZgh"]);
    // The mark is between the publisher and the node; all else goes on.
    assert_eq!(super::peer::message_of(&last).properties, one(kind));
    let mut late = server.client("late");
    late.subscribe(&[("d/a", at(Qos::AtMostOnce))]);
    let kept = late.message();
    assert_eq!(
        (payload_of(&kept), kept.properties),
        ("abcdZZgh".to_owned(), one(Property::ContentType(text("application/x"))))
    );
}

#[test]
fn of_two_publishers_none_touches_the_others_base() {
    let server = Server::start();
    let (mut first, mut second) = (publisher(&server, "first"), publisher(&server, "second"));
    let mut reader = server.client("reader");
    reader.subscribe(&[("d/a", at(Qos::AtMostOnce))]);
    check(&mut second, "d/a", &delta(0, b"XX"), Err("a delta before any whole value"));
    check(&mut first, "d/a", b"\x00abcdefgh", Ok(()));
    check(&mut second, "d/a", b"\x00ABCDEFGH", Ok(()));
    check(&mut first, "d/a", &delta(0, b"11"), Ok(()));
    check(&mut second, "d/a", &delta(0, b"22"), Ok(()));
    // Nor does what is plain, of whichever client.
    second.publish("d/a", "something else", Qos::AtLeastOnce, true);
    check(&mut second, "d/a", &delta(1, b"33"), Ok(()));
    check(&mut first, "d/a", &delta(1, b"44"), Ok(()));
    let told = reader.payloads();
    assert_eq!(told, ["abcdefgh", "ABCDEFGH", "abcd11gh", "ABCD22GH", "something else", "ABCD33GH", "abcd44gh"]);
}

#[test]
fn what_cannot_be_applied_is_refused_until_a_whole_value_comes() {
    let server = Server::with("packet_bytes_max = '4KiB'");
    let mut writer = publisher(&server, "writer");
    let waiting = "a whole value is waited for";
    check(&mut writer, "d/a", b"\x00abcdefgh", Ok(()));
    check(&mut writer, "d/a", &delta(5, b"XX"), Err("a delta from revision 5 while revision 0 is held"));
    check(&mut writer, "d/a", &delta(0, b"XX"), Err(waiting));
    check(&mut writer, "d/a", b"\x00abcdefgh", Ok(()));
    // Cut short, beyond the base, of another form, too many at once.
    for (payload, words) in [
        (&[0x60, 8, 2, b'X'][..], "malformed delta: it ends too early"),
        (&[0x60, 40, 0], "malformed delta: a hunk beyond the end of the base"),
        (&[0x40, 2], "a delta for a value of another form"),
        (&[0xE0, 9, 0], "codec 9 is not in this build"),
        (&[0xC0, 1, 3, 1, 0], "malformed delta: several updates at once, which publishers do not send"),
    ] {
        check(&mut writer, "d/a", payload, Err(words));
        check(&mut writer, "d/a", b"\x00abcdefgh", Ok(()));
    }
    // Sent again over another connection.
    let repeated = say(&mut writer, "d/a", &delta(0, b"XX"), true, None);
    assert_eq!(
        repeated,
        (ReasonCode::PayloadFormatInvalid, "delta: a delta of another connection, sent again".to_owned())
    );
    // Refused for another reason: the base has gone with it.
    check(&mut writer, "d/a", b"\x00abcdefgh", Ok(()));
    let unless = Property::UserProperty((text("tieline-if-absent"), text("true")));
    assert_eq!(
        say(&mut writer, "d/a", &delta(0, b"XX"), false, Some(unless)).0,
        ReasonCode::ImplementationSpecificError
    );
    check(&mut writer, "d/a", &delta(1, b"YY"), Err("a delta before any whole value"));
    // A value may not grow beyond what a packet may hold: this delta adds 4,000 bytes.
    let mut whole = vec![0];
    whole.extend_from_slice(&[b'x'; 3000]);
    check(&mut writer, "d/b", &whole, Ok(()));
    let mut more = vec![0x60, 1, 0xA0, 0x1F, 0];
    more.extend_from_slice(&[b'y'; 4000]);
    check(&mut writer, "d/b", &more, Err("a value of more than 4096 bytes"));
    // Topics of the node's own are no values; other clients were not disturbed.
    check(&mut writer, "$command/d/a", b"1", Err("not of topics that begin with $"));
    assert_eq!(writer.payloads(), [""; 0]);
}

#[test]
fn who_has_not_asked_is_refused() {
    let server = Server::start();
    let mut plain = server.client("plain");
    check(&mut plain, "d/a", b"\x00abcdefgh", Err("not agreed on in CONNECT"));
    for offer in ["", "other", &"x".repeat(300)] {
        let (mut peer, connack) = server.connect(Connect { properties: one(property(offer)), ..hello("other") });
        assert_eq!(answered(&connack), None);
        check(&mut peer, "d/a", b"\x00abcdefgh", Err("not agreed on in CONNECT"));
    }
    // Its will has no base, and its subscribers would believe it.
    let marked =
        Connect { will: will("d/a", true, one(property("1"))), properties: one(property("hunk")), ..hello("mortal") };
    server.connect(marked).0.vanish();
    plain.subscribe(&[("d/a", at(Qos::AtMostOnce))]);
    assert_eq!(plain.payloads(), [""; 0]);
}

/// A publisher that gets no answers is asked for the whole value by its topic's name, once, and again where it does not hear.
#[test]
fn without_answers_the_node_asks() {
    let server = Server::start();
    let mut writer = publisher(&server, "writer");
    let mut send = |payload: &[u8]| {
        let (properties, payload) = (one(property("1")), Bytes::copy_from_slice(payload));
        let (guarantee, topic) = (Guarantee::AtMostOnce, text("d/a"));
        writer.send(&Packet::Publish(Publish { guarantee, retain: false, topic, properties, payload }));
        writer
            .flush()
            .iter()
            .map(|packet| {
                let message = super::peer::message_of(packet);
                assert_eq!(&*message.topic, "$tieline/resync");
                payload_of(message)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(send(b"\x00abcdefgh"), [""; 0]);
    assert_eq!(send(&delta(1, b"XX")), ["d/a"]);
    assert_eq!((0..130).filter(|_| !send(&delta(1, b"XX")).is_empty()).count(), 2);
    assert_eq!(send(b"\x00abcdefgh"), [""; 0]);
    assert_eq!(send(&delta(0, b"XX")), [""; 0]);
}

/// A sender of ours, over a real connection, with values of all shapes.
#[test]
fn a_sender_and_a_node_agree() {
    let server = Server::start();
    let (mut writer, mut reader) = (publisher(&server, "writer"), server.client("reader"));
    reader.subscribe(&[("d/a", at(Qos::AtMostOnce))]);
    let mut sender = Sender::new(Codecs::built_in(), SenderLimits::default());
    sender.handle_connack(Some("point,hunk"));
    let topic = Topic::new("d/a").unwrap();
    let values: Vec<Bytes> = (0..100)
        .map(|n: usize| {
            format!("{{\"n\":{n},\"text\":\"{}\",\"more\":{}}}", "x".repeat(n / 10 % 7 * 40), n * 7919 % 1000).into()
        })
        .collect();
    for value in &values {
        let saying = sender.say(&topic, &Body::Opaque(value.clone()), (), true);
        let properties = if saying.is_marked { one(property("1")) } else { Properties::default() };
        let payload = saying.payload;
        let guarantee = Guarantee::AtLeastOnce { packet_id: writer.packet_id(), dup: false };
        writer.send(&Packet::Publish(Publish { guarantee, retain: true, topic: text("d/a"), properties, payload }));
        let Packet::Puback(ack) = writer.answer() else { panic!("no PUBACK") };
        assert_eq!(ack.reason, ReasonCode::Success);
    }
    assert!(sender.stats().deltas > 60, "{:?}", sender.stats());
    let told: Vec<Bytes> =
        reader.flush().iter().map(|packet| super::peer::message_of(packet).payload.clone()).collect();
    assert_eq!(told, values);
}
