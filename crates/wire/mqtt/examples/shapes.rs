//! What a PUBLISH costs to take and to send on, for each shape that its bytes may have.
//!
//! `cargo run --release -p tieline-mqtt --example shapes` prints microseconds for each KiB: the least of many rounds, each of
//! which parses a packet, asks the message what a server asks it, and writes it for one subscriber.
#![expect(clippy::print_stdout, reason = "its output is the table")]

use std::sync::Arc;
use std::time::Instant as Clock;
use tieline_core::{Machine, Now};
use tieline_mqtt::{
    Accept, Binary, Delivery, Packet, Properties, Property, Publish, Qos, ServerConfig, ServerEvent, ServerSession,
    Text, Version,
};

const ROUNDS: usize = 200;
const CONNECT: &[u8] = b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01c";

fn main() {
    println!("{:34} {:>9} {:>9} {:>9}", "shape", "bytes", "µs", "µs/KiB");
    for (name, publish) in shapes() {
        let mut bytes = Vec::new();
        Packet::Publish(publish).emit(Version::V5, &mut bytes).expect("short enough");
        let took = (0..ROUNDS).map(|_| round(&bytes)).fold(f64::INFINITY, f64::min);
        let kib = bytes.len() as f64 / 1024.0;
        println!("{name:34} {:>9} {took:>9.1} {:>9.2}", bytes.len(), took / kib);
    }
}

fn shapes() -> Vec<(&'static str, Publish)> {
    let text = |text: &str| Text::new(text).expect("a text");
    let pair = |name: &str, value: &str| Property::UserProperty((text(name), text(value)));
    let of = |properties: Properties| Publish { topic: text("a/b"), properties, ..Publish::default() };
    let mut mixed: Vec<Property> = (0..1023).map(|_| pair("n", "v")).collect();
    mixed.push(Property::MessageExpiry(60));
    vec![
        ("payload of 1 MiB", Publish { topic: text("a/b"), payload: vec![b'x'; 1 << 20].into(), ..Publish::default() }),
        ("1024 empty user properties", of((0..1024).map(|_| pair("", "")).collect())),
        ("1024 of one letter each", of((0..1024).map(|_| pair("n", "v")).collect())),
        ("1024 whose names are ours", of((0..1024).map(|_| pair("tieline-x", "")).collect())),
        ("1024 of 1000 bytes", of((0..1024).map(|_| pair("name", &"x".repeat(1000))).collect())),
        ("1024 of 999 bytes, not ASCII", of((0..1024).map(|_| pair("name", &"€".repeat(333))).collect())),
        ("expiry behind 1023", of(mixed.into_iter().collect())),
        ("topic of 65,535 bytes", Publish { topic: text(&"x".repeat(65_535)), ..Publish::default() }),
        ("topic of 65,535, not ASCII", Publish { topic: text(&"€".repeat(21_845)), ..Publish::default() }),
        ("response topic of 65,535", of([Property::ResponseTopic(text(&"€".repeat(21_845)))].into_iter().collect())),
        ("content type of 65,535", of([Property::ContentType(text(&"€".repeat(21_845)))].into_iter().collect())),
        (
            "correlation data of 65,535",
            of([Property::CorrelationData(Binary::new(vec![0; 65_535]).expect("short enough"))].into_iter().collect()),
        ),
    ]
}

/// Microseconds of one message, from its bytes to those of a subscriber.
fn round(bytes: &[u8]) -> f64 {
    let config =
        Arc::new(ServerConfig { packet_bytes_max: 4 << 20, pending_bytes_max: 4 << 20, ..ServerConfig::default() });
    let [mut from, mut to] = [open(&config), open(&config)];
    let now = Now::default();
    let began = Clock::now();
    let mut rest = bytes;
    let request = loop {
        let used = from.handle_input(now, rest);
        rest = rest.get(used..).unwrap_or_default();
        match from.poll_event() {
            Some(ServerEvent::Publish(request)) => break request,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    };
    let message = Arc::new(request.message);
    let properties = &message.properties;
    // What the node looks at: rights, conditions, deltas, formats, expiry.
    let asked = (0..4).map(|_| properties.own_properties().count()).sum::<usize>()
        + usize::from(properties.payload_is_text().is_some())
        + usize::from(properties.content_type().is_some())
        + usize::from(properties.response_topic().is_some())
        + usize::from(properties.message_expiry_s().is_some());
    std::hint::black_box(asked);
    let delivery = Delivery { message, qos: Qos::AtLeastOnce, retain: false, subscription_ids: Vec::new() };
    to.deliver(delivery).expect("there is room");
    let mut out = Vec::new();
    while to.poll_transmit(now, &mut out) {}
    let took = began.elapsed().as_secs_f64() * 1e6;
    assert!(out.len() >= bytes.len(), "it was not sent");
    took
}

fn open(config: &Arc<ServerConfig>) -> ServerSession {
    let mut session = ServerSession::new(Arc::clone(config), 1);
    session.handle_connected(Now::default());
    session.handle_input(Now::default(), CONNECT);
    assert!(matches!(session.poll_event(), Some(ServerEvent::Connect(_))));
    assert!(session.accept(Now::default(), Accept::default()));
    while session.poll_transmit(Now::default(), &mut Vec::new()) {}
    session
}
