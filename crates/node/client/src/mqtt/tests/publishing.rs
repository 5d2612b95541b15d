//! `publish_value` against a server that does what a test says.

use super::*;
use tieline_delta::{Intake, IntakeLimits};
use tieline_mqtt::{Ack, Guarantee, PacketId};

/// What the server does with the messages of a connection, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Do {
    /// Takes it, and answers where it is of QoS 1.
    Take,
    /// Refuses it as a delta that cannot be applied.
    Refuse,
    /// Refuses it for good.
    Forbid,
    /// Takes it, and asks for the topic's whole value.
    Ask,
    /// Ends the connection without an answer.
    Hang,
}

/// A message as the server saw it: what it was, and the value that it came to.
fn seen(publish: &Publish, intake: &mut Intake) -> String {
    let is_marked = publish.properties.user_properties().any(|(name, value)| (&*name, &*value) == (PROPERTY, MARK));
    if !is_marked {
        return format!("plain {}", String::from_utf8_lossy(&publish.payload));
    }
    let dup = matches!(publish.guarantee, Guarantee::AtLeastOnce { dup: true, .. });
    let kind = if publish.payload.first().is_some_and(|first| first >> 5 > 1) { "delta" } else { "whole" };
    let topic = Topic::new(&publish.topic).unwrap();
    match intake.take(&topic, &publish.payload, dup, &mut Codecs::built_in()) {
        Ok(value) => format!("{kind} {}", String::from_utf8_lossy(&value)),
        Err(why) => format!("{kind}: {why}"),
    }
}

/// A server that grants `codecs`, and has a list for each connection; what it saw, when the lists are done and the client
/// has gone.
fn takes_values(listener: &TcpListener, codecs: Option<&str>, connections: &[&[Do]]) -> Vec<String> {
    let mut told = Vec::new();
    for deeds in connections {
        let (mut stream, _) = listener.accept().unwrap();
        let limits = IntakeLimits { topics_max: 9, bytes_max: 1 << 16, value_bytes_max: 1 << 16 };
        let (mut decoder, mut bytes, mut intake) = (Decoder::new(1 << 20), [0; 1024], Intake::new(limits));
        let mut deeds = deeds.iter();
        'connection: loop {
            let count = stream.read(&mut bytes).unwrap();
            let mut rest = &bytes[..count];
            if rest.is_empty() {
                break;
            }
            while let (used, Some(frame)) = decoder.feed(rest).unwrap() {
                rest = &rest[used..];
                match Packet::parse(Version::V5, &frame).unwrap() {
                    Packet::Connect(connect) => {
                        told.extend(deltas::answer(&connect.properties).map(|offer| format!("offers {offer}")));
                        let word = |text: &str| Text::new(text).unwrap();
                        let granted = codecs.map(|codecs| Property::UserProperty((word(PROPERTY), word(codecs))));
                        let properties = granted.into_iter().collect();
                        say(&mut stream, &Packet::Connack(Connack { properties, ..Connack::default() }));
                    }
                    Packet::Publish(publish) => {
                        let deed = deeds.next().copied().unwrap_or(Do::Take);
                        let topic = Topic::new(&publish.topic).unwrap();
                        match deed {
                            Do::Hang => {
                                told.push("hung".to_owned());
                                break 'connection;
                            }
                            Do::Refuse | Do::Forbid => {
                                told.push(format!("{deed:?}"));
                                intake.forget(&topic);
                            }
                            Do::Take | Do::Ask => told.push(seen(&publish, &mut intake)),
                        }
                        let reason = match deed {
                            Do::Refuse => ReasonCode::PayloadFormatInvalid,
                            Do::Forbid => ReasonCode::NotAuthorized,
                            Do::Take | Do::Ask | Do::Hang => ReasonCode::Success,
                        };
                        if let Guarantee::AtLeastOnce { packet_id, .. } = publish.guarantee {
                            say(&mut stream, &answer(packet_id, reason));
                        }
                        if deed == Do::Ask {
                            let payload = Bytes::copy_from_slice(topic.as_bytes());
                            let topic = Text::new("$tieline/resync").unwrap();
                            say(&mut stream, &Packet::Publish(Publish { topic, payload, ..Publish::default() }));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    told
}

fn answer(packet_id: PacketId, reason: ReasonCode) -> Packet {
    Packet::Puback(Ack { packet_id, reason, properties: Properties::default() })
}

/// A value long enough that what changed of it is shorter.
fn state(n: u32) -> String {
    format!("{{\"breaker\":\"closed\",\"operations\":{n:06},\"by\":\"relay 4\"}}")
}

/// Publishes values one after the other; what each came to, what the server saw, and what was counted.
fn publish_all(
    codecs: Option<&'static str>,
    connections: &'static [&'static [Do]],
    qos: Qos,
    values: u32,
) -> (Vec<Result<ReasonCode, String>>, Vec<String>, SenderStats) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || takes_values(&listener, codecs, connections));
    let (mut outcomes, mut stats) = (Vec::new(), SenderStats::default());
    run(async {
        let retry_max = Duration::from_millis(80);
        let options = MqttOptions { deltas: true, clean_start: false, retry_max, ..MqttOptions::new(&address) };
        let client = MqttClient::connect(&options).await.unwrap();
        for n in 0..values {
            let outcome = client.publish_value("a/x", state(n), qos, true).await;
            outcomes.push(outcome.map_err(|error| error.to_string()));
        }
        stats = client.sender_stats().await.unwrap();
        client.close().await;
    });
    (outcomes, server.join().unwrap(), stats)
}

fn whole(n: u32) -> String {
    format!("whole {}", state(n))
}

fn delta(n: u32) -> String {
    format!("delta {}", state(n))
}

const OFFER: &str = "offers point,hunk,zstd";

#[test]
fn values_go_out_as_what_changed() {
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        let (outcomes, seen, stats) = publish_all(Some("point,hunk"), &[&[]], qos, 4);
        assert!(outcomes.iter().all(|outcome| *outcome == Ok(ReasonCode::Success)), "{outcomes:?}");
        assert_eq!(seen, [OFFER.to_owned(), whole(0), delta(1), delta(2), delta(3)]);
        assert_eq!(stats, SenderStats { values: 1, deltas: 3, refused: 0 });
    }
}

#[test]
fn values_go_out_plain_where_the_server_grants_nothing() {
    let (outcomes, seen, stats) = publish_all(None, &[&[]], Qos::AtLeastOnce, 3);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let plain = |n| format!("plain {}", state(n));
    assert_eq!(seen, [OFFER.to_owned(), plain(0), plain(1), plain(2)]);
    assert_eq!((stats.values, stats.deltas), (3, 0));
}

#[test]
fn a_delta_that_is_refused_is_sent_again_whole() {
    let deeds: &[&[Do]] = &[&[Do::Take, Do::Take, Do::Refuse]];
    let (outcomes, seen, stats) = publish_all(Some("hunk"), deeds, Qos::AtLeastOnce, 4);
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(ReasonCode::Success)), "{outcomes:?}");
    assert_eq!(seen, [OFFER.to_owned(), whole(0), delta(1), "Refuse".to_owned(), whole(2), delta(3)]);
    assert_eq!(stats, SenderStats { values: 2, deltas: 3, refused: 1 });
}

#[test]
fn what_is_forbidden_is_said_and_not_sent_again() {
    let deeds: &[&[Do]] = &[&[Do::Take, Do::Forbid]];
    let (outcomes, seen, _) = publish_all(Some("hunk"), deeds, Qos::AtLeastOnce, 3);
    assert!(outcomes[0].is_ok() && outcomes[1].is_err() && outcomes[2].is_ok(), "{outcomes:?}");
    assert_eq!(seen, [OFFER.to_owned(), whole(0), "Forbid".to_owned(), whole(2)]);
}

#[test]
fn a_server_that_asks_gets_the_last_value_whole() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || takes_values(&listener, Some("hunk"), &[&[Do::Take, Do::Ask]]));
    run(async {
        let options = MqttOptions { deltas: true, ..MqttOptions::new(&address) };
        let client = MqttClient::connect(&options).await.unwrap();
        for n in 0..2 {
            client.publish_value("a/x", state(n), Qos::AtLeastOnce, true).await.unwrap();
        }
        // It is counted when the request has come.
        while client.sender_stats().await.unwrap().refused == 0 {
            tokio::task::yield_now().await;
        }
        client.publish_value("a/x", state(2), Qos::AtLeastOnce, true).await.unwrap();
        client.close().await;
    });
    assert_eq!(server.join().unwrap(), [OFFER.to_owned(), whole(0), delta(1), whole(1), delta(2)]);
}

#[test]
fn another_connection_begins_with_a_whole_value() {
    let deeds: &[&[Do]] = &[&[Do::Take, Do::Take, Do::Hang], &[]];
    let (outcomes, seen, _) = publish_all(Some("hunk"), deeds, Qos::AtLeastOnce, 5);
    let offers = seen.iter().filter(|seen| *seen == OFFER).count();
    assert_eq!(offers, 2, "{seen:?}");
    assert_eq!(seen[..4], [OFFER.to_owned(), whole(0), delta(1), "hung".to_owned()]);
    // The third was under way: whatever became of it, what follows is told against what this connection has.
    assert!(outcomes[..2].iter().chain(&outcomes[3..]).all(Result::is_ok), "{outcomes:?}");
    let last: Vec<&String> = seen.iter().rev().take(2).collect();
    assert_eq!(last, [&delta(4), &whole(3)], "{seen:?}");
}
