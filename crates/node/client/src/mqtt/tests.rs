//! Against a broker that is not ours: Debian's mosquitto.

use super::*;
use bytes::Bytes;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use tieline_core::{Body, Point, Value};
use tieline_delta::{CodecSet, Codecs, DeltaError, MARK, PROPERTY, Revision, Stream};
use tieline_mqtt::{Connack, Decoder, Packet, Publish, Suback, SubscriptionId};

mod publishing;

const BROKER: &str = "/usr/sbin/mosquitto";

/// A broker on a free port, ended with the test.
struct Broker {
    child: Child,
    port: u16,
    config: tempfile::NamedTempFile,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Broker {
    /// None, and a word about it, where the broker is not installed.
    fn start(more: &str) -> Option<Self> {
        if !Path::new(BROKER).exists() {
            println!("SKIPPED: {BROKER} is not installed");
            return None;
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut config = tempfile::NamedTempFile::new().unwrap();
        writeln!(config, "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nlog_dest stderr\n{more}")
            .unwrap();
        let child = spawn(config.path());
        Some(Self { child, port, config })
    }

    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(self.config.path());
    }

    fn options(&self, version: Version) -> MqttOptions {
        let retry_max = Duration::from_millis(400);
        MqttOptions { version, retry_max, ..MqttOptions::new(&format!("127.0.0.1:{}", self.port)) }
    }
}

/// Starts the broker and waits until it says that it listens. To try its port until it answers could connect the socket
/// that tries with itself.
fn spawn(config: &Path) -> Child {
    let mut command = std::process::Command::new(BROKER);
    let mut child = command.arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut said, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    while !line.contains(" running") {
        assert!(said.read_line(&mut line).unwrap() > 0, "the broker does not start: {line}");
    }
    child.stderr = Some(said.into_inner());
    child
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), test).await.expect("takes too long") });
}

#[test]
fn messages_come_and_go_at_every_qos() {
    let Some(broker) = Broker::start("") else { return };
    for version in [Version::V5, Version::V311] {
        run(async {
            let client = MqttClient::connect(&broker.options(version)).await.unwrap();
            let mut all = client.subscribe("t/#", Qos::ExactlyOnce).await.unwrap();
            for (number, qos) in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce].into_iter().enumerate() {
                client.publish(&format!("t/{number}"), vec![b'x'; number], qos, false).await.unwrap();
                let received = all.next().await.unwrap();
                assert_eq!(received.message.topic.as_str(), format!("t/{number}"));
                assert_eq!((received.message.payload.len(), received.qos), (number, qos));
            }
            let big = vec![7; 5_000_000];
            client.publish("t/big", big.clone(), Qos::AtLeastOnce, true).await.unwrap();
            assert_eq!(all.next().await.unwrap().message.payload, big);
            let mut late = client.subscribe("+/big", Qos::AtLeastOnce).await.unwrap();
            assert!(late.next().await.unwrap().retain);
            client.publish("t/big", Vec::new(), Qos::AtLeastOnce, true).await.unwrap();
            client.close().await;
        });
    }
}

#[test]
fn overlapping_subscriptions_each_get_their_own() {
    let Some(broker) = Broker::start("") else { return };
    run(async {
        let client = MqttClient::connect(&broker.options(Version::V5)).await.unwrap();
        let mut all = client.subscribe("t/#", Qos::AtLeastOnce).await.unwrap();
        let mut one = client.subscribe("t/1", Qos::AtMostOnce).await.unwrap();
        for topic in ["t/1", "t/2", "t/1"] {
            client.publish(topic, "x", Qos::AtLeastOnce, false).await.unwrap();
        }
        for topic in ["t/1", "t/2", "t/1"] {
            assert_eq!(all.next().await.unwrap().message.topic.as_str(), topic);
        }
        for _ in 0..2 {
            let received = one.next().await.unwrap();
            assert_eq!((received.message.topic.as_str(), received.qos), ("t/1", Qos::AtMostOnce));
        }
    });
}

#[test]
fn a_thousand_messages_lose_nothing() {
    let Some(broker) = Broker::start("max_queued_messages 0") else { return };
    run(async {
        let client = MqttClient::connect(&broker.options(Version::V5)).await.unwrap();
        let mut all = client.subscribe("n", Qos::AtLeastOnce).await.unwrap();
        let sent = async {
            for number in 0..1000 {
                client.publish("n", format!("{number}"), Qos::AtLeastOnce, false).await.unwrap();
            }
        };
        let came = async {
            for number in 0..1000 {
                assert_eq!(all.next().await.unwrap().message.payload, format!("{number}"));
            }
        };
        tokio::join!(sent, came);
        assert_eq!(all.lost(), 0);
    });
}

#[test]
fn a_request_has_its_answer() {
    let Some(broker) = Broker::start("") else { return };
    run(async {
        let server = MqttClient::connect(&broker.options(Version::V5)).await.unwrap();
        let client = MqttClient::connect(&broker.options(Version::V5)).await.unwrap();
        let mut asked = server.subscribe("ask", Qos::AtLeastOnce).await.unwrap();
        let serve = async {
            server.respond(&asked.next().await.unwrap().message, "42").await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.request("ask", "?", Duration::from_secs(5)), serve);
        assert_eq!(answer.unwrap().payload, "42");
        let silent = client.request("nobody", "?", Duration::from_millis(50)).await;
        assert!(matches!(silent, Err(MqttError::NoAnswer(_) | MqttError::Rejected(..))), "{silent:?}");
    });
}

#[test]
fn subscriptions_survive_a_restart_of_the_server() {
    let Some(mut broker) = Broker::start("") else { return };
    run(async {
        let client = MqttClient::connect(&broker.options(Version::V5)).await.unwrap();
        let mut all = client.subscribe("#", Qos::AtLeastOnce).await.unwrap();
        broker.restart();
        // The answer comes after the reconnection; a message under way at the moment of the cut may be unknown.
        while client.publish("again", "1", Qos::AtLeastOnce, false).await.is_err() {}
        assert_eq!(all.next().await.unwrap().message.topic.as_str(), "again");
        assert!(client.is_connected());
    });
}

#[test]
fn refusals_say_why() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    run(async {
        let error = MqttClient::connect(&MqttOptions::new(&closed.to_string())).await.unwrap_err();
        assert!(matches!(error, MqttError::Connect(_)), "{error}");
    });
    let Some(broker) = Broker::start("") else { return };
    let mut config = std::fs::OpenOptions::new().append(true).open(broker.config.path()).unwrap();
    writeln!(config, "allow_anonymous false").unwrap();
    let mut broker = broker;
    broker.restart();
    run(async {
        for version in [Version::V5, Version::V311] {
            let options = MqttOptions { credentials: Some(("u".into(), "p".into())), ..broker.options(version) };
            let error = MqttClient::connect(&options).await.unwrap_err();
            assert!(matches!(error, MqttError::Refused(ReasonCode::NotAuthorized, _)), "{error}");
        }
    });
}

/// A server for one client: lets it in, grants deltas, and publishes four payloads of one topic, one of them never sent;
/// then what it is asked for.
fn grants_deltas(listener: &TcpListener) -> Vec<String> {
    let mut told = Vec::new();
    let (mut stream, _) = listener.accept().unwrap();
    let (mut decoder, mut bytes) = (Decoder::new(1 << 20), [0; 1024]);
    let mut topic = Topic::new("a/x").map(|_| Stream::new(Revision(40), &int(0))).unwrap();
    let mut codecs = Codecs::default();
    loop {
        let count = stream.read(&mut bytes).unwrap();
        if count == 0 {
            return told;
        }
        let mut rest = &bytes[..count];
        while let (used, Some(frame)) = decoder.feed(rest).unwrap() {
            rest = &rest[used..];
            match Packet::parse(Version::V5, &frame).unwrap() {
                Packet::Connect(_) => say(&mut stream, &Packet::Connack(Connack::default())),
                Packet::Subscribe(subscribe) => {
                    told.extend(deltas::answer(&subscribe.properties));
                    let word = |text: &str| Text::new(text).unwrap();
                    let used = Property::UserProperty((word("tieline-delta"), word("point")));
                    let is_plain = subscribe.properties.user_properties().next().is_none();
                    let properties = if is_plain { Properties::default() } else { [used].into_iter().collect() };
                    let (packet_id, reasons) = (subscribe.packet_id, vec![ReasonCode::Success]);
                    say(&mut stream, &Packet::Suback(Suback { packet_id, properties, reasons }));
                    if is_plain {
                        continue;
                    }
                    publish(&mut stream, "b", "as it is".into(), false);
                    publish(&mut stream, "a/x", topic.since(None, CodecSet::POINT).to_bytes(), true);
                    for value in 1..=3 {
                        let base = topic.revision();
                        topic.update(&int(value), CodecSet::POINT, &mut codecs);
                        if value != 2 {
                            publish(&mut stream, "a/x", topic.since(Some(base), CodecSet::POINT).to_bytes(), true);
                        }
                    }
                }
                Packet::Publish(ask) => {
                    told.push(format!("{} {}", &*ask.topic, String::from_utf8_lossy(&ask.payload)));
                    publish(&mut stream, "a/x", topic.since(None, CodecSet::POINT).to_bytes(), true);
                }
                _ => {}
            }
        }
    }
}

fn int(value: i64) -> Body {
    Body::Point(Point { value: Value::Int(value), ..Point::default() })
}

/// Every message also belongs to the plain subscription that the test makes first.
fn publish(stream: &mut TcpStream, topic: &str, payload: Bytes, is_delta: bool) {
    let mark = (Text::new(PROPERTY).unwrap(), Text::new(MARK).unwrap());
    let id = Property::SubscriptionIdentifier(SubscriptionId::new(1).unwrap());
    let properties = [id].into_iter().chain(is_delta.then_some(Property::UserProperty(mark))).collect();
    let publish = Publish { topic: Text::new(topic).unwrap(), payload, properties, ..Publish::default() };
    say(stream, &Packet::Publish(publish));
}

fn say(stream: &mut TcpStream, packet: &Packet) {
    let mut out = Vec::new();
    packet.emit(Version::V5, &mut out).unwrap();
    stream.write_all(&out).unwrap();
}

#[test]
fn values_are_rebuilt_from_deltas_and_asked_for_when_lost() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || grants_deltas(&listener));
    run(async {
        let client = MqttClient::connect(&MqttOptions::new(&address)).await.unwrap();
        let mut plain = client.subscribe("#", Qos::AtMostOnce).await.unwrap();
        let mut values = client.subscribe_values("a/#").await.unwrap();
        let topic = Topic::new("a/x").unwrap();
        let value = |n: i64| Event::Value { topic: topic.clone(), body: int(n) };
        assert_eq!(values.next().await, Some(value(0)));
        assert_eq!(values.next().await, Some(value(1)));
        let Some(Event::Lost { error: DeltaError::Gap { .. }, .. }) = values.next().await else { panic!("no gap") };
        assert_eq!(values.next().await, Some(value(3)));
        assert_eq!(values.lost(), 0);
        // Who did not ask for deltas gets what would have come without them.
        assert_eq!(plain.next().await.unwrap().message.payload, "as it is");
        for n in [0, 1, 3] {
            let payload = plain.next().await.unwrap().message.payload;
            assert!(payload.starts_with(format!("{{\"v\":{n},").as_bytes()), "{payload:?}");
        }
        client.close().await;
    });
    assert_eq!(server.join().unwrap(), ["point,hunk,zstd", "$tieline/resync a/x"]);
}
