//! `vectors/delta`: what a sender says is in `sent.txt` and `zstd.txt`, bytes that a script of its own made from
//! docs/delta.md are in `hand.txt`. What a publisher says of values is in `published.txt`. Every implementation decodes all of
//! them, and its own publisher says something that comes to the values of the last.
//!
//! `== name` starts a receiver of values up to 4,096 bytes; `<` is a payload, `>` what comes of it.

use crate::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use std::path::Path;
use tieline_core::{Body, Point, Quality, Timestamp, Value};

const VALUE_BYTES_MAX: usize = 4096;

/// What a decoder makes of a file's payloads, in the file's words.
fn decode(text: &str) -> String {
    let (mut codecs, mut decoder) = (Codecs::built_in(), Decoder::new(VALUE_BYTES_MAX));
    let mut told = String::new();
    for line in text.lines().filter(|line| !line.starts_with("> ")) {
        told.push_str(line);
        told.push('\n');
        if line.starts_with("==") {
            decoder = Decoder::new(VALUE_BYTES_MAX);
        } else if let Some(payload) = line.strip_prefix('<') {
            told.push_str(&words(decoder.apply(&bytes(payload), &mut codecs)));
            told.push('\n');
        }
    }
    told
}

fn words(decoded: Result<Decoded, DeltaError>) -> String {
    match decoded {
        Ok(Decoded::Value(Body::Point(point))) => format!("> point {}", point.to_json()),
        Ok(Decoded::Value(body)) => {
            let mut text = String::new();
            tieline_core::json_string(core::str::from_utf8(&body.to_payload()).unwrap(), &mut text);
            format!("> bytes {text}")
        }
        Ok(Decoded::Checked) => "> checked".to_string(),
        Ok(Decoded::Waiting) => "> waiting".to_string(),
        Err(_) => "> lost".to_string(),
    }
}

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../vectors/delta")).join(name)
}

fn file(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(name: &str) {
    let text = file(name);
    let told = decode(&text);
    for (at, (expect, got)) in text.lines().zip(told.lines()).enumerate() {
        assert_eq!(got, expect, "{name} line {}", at + 1);
    }
    assert_eq!(told.lines().count(), text.lines().count());
}

#[test]
fn bytes_made_by_hand_decode() {
    check("hand.txt");
}

#[test]
fn what_a_sender_says_decodes_and_is_what_it_says() {
    // TIELINE_VECTORS=write makes both files again; the other implementations then say what they read.
    if std::env::var_os("TIELINE_VECTORS").is_some() {
        std::fs::write(path("sent.txt"), sent()).unwrap();
        #[cfg(feature = "zstd")]
        std::fs::write(path("zstd.txt"), compressed()).unwrap();
    }
    check("sent.txt");
    assert!(sent() == file("sent.txt"), "a sender says something else than in sent.txt");
}

#[test]
fn what_a_publisher_says_is_taken_by_a_server() {
    if std::env::var_os("TIELINE_VECTORS").is_some() {
        std::fs::write(path("published.txt"), published()).unwrap();
    }
    check("published.txt");
    assert!(published() == file("published.txt"), "a publisher says something else than in published.txt");
    let limits = IntakeLimits { topics_max: 9, bytes_max: 1 << 16, value_bytes_max: VALUE_BYTES_MAX };
    let (mut codecs, mut topic, mut told) = (Codecs::built_in(), 0, None);
    let mut intake = Intake::new(limits);
    for line in file("published.txt").lines() {
        topic += usize::from(line.starts_with("=="));
        let topic = tieline_core::Topic::new(&topic.to_string()).unwrap();
        if let Some(payload) = line.strip_prefix('<') {
            told = Some(intake.take(&topic, &bytes(payload), false, &mut codecs).unwrap());
        } else if let Some(value) = line.strip_prefix("> bytes ") {
            let mut text = String::new();
            tieline_core::json_string(core::str::from_utf8(told.as_ref().unwrap()).unwrap(), &mut text);
            assert_eq!(text, value);
        }
    }
}

#[cfg(feature = "zstd")]
#[test]
fn zstandard_decodes() {
    // The bytes are the library's and may be others in its next release; what they decode to may not.
    check("zstd.txt");
}

/// Values of a topic, each sent to a receiver that takes every `every`th.
fn say(name: &str, revision: u32, every: usize, accepts: CodecSet, bodies: &[Body]) -> String {
    let mut codecs = Codecs::built_in();
    let mut stream: Option<Stream> = None;
    let mut held = None;
    let mut said = format!("\n== {name}\n");
    for (at, body) in bodies.iter().enumerate() {
        match &mut stream {
            Some(stream) => drop(stream.update(body, accepts, &mut codecs)),
            None => stream = Some(Stream::new(Revision(revision), body)),
        }
        let Some(stream) = stream.as_mut().filter(|_| at % every == 0) else { continue };
        let payload = stream.since(held, accepts).to_bytes();
        let hex: Vec<_> = payload.iter().map(|byte| format!("{byte:02X}")).collect();
        said.push_str(&format!("< {}\n", hex.join(" ")));
        held = Some(stream.revision());
    }
    said
}

fn sent() -> String {
    let mut text = String::from("# What the sender of crates/wire/delta says. `<` a payload, `>` what comes of it.\n");
    let (p, h) = (CodecSet::POINT, CodecSet::HUNK);
    text.push_str(&say("a measurement, about once a second", 5, 1, p, &walk(40)));
    text.push_str(&say("a measurement, to one that takes every third", 0, 3, p, &walk(30)));
    text.push_str(&say("points of all kinds", 30, 1, p, &kinds()));
    text.push_str(&say("points of all kinds, every second", 30, 2, p, &kinds()));
    text.push_str(&say("JSON: a number and a time, then lengths", 20, 1, h, &documents(20)));
    text.push_str(&say("JSON, to one that takes every fourth", 20, 4, h, &documents(40)));
    text.push_str(&say("from a point to bytes and back", 1, 1, p.with(h), &forms()));
    decode(&text)
}

fn published() -> String {
    let mut text = String::from(
        "# What a publisher of crates/wire/delta says, marked. `<` a payload, `>` the value that the server makes of it.\n",
    );
    for (name, values) in [
        ("a number and a time, then lengths", documents(40)),
        ("first, the same, shorter, longer", turns()),
        ("fields that change their lengths, come and go", edits(60)),
    ] {
        let mut sender = Sender::new(Codecs::built_in(), SenderLimits::default());
        sender.handle_connack(Some("hunk"));
        text.push_str(&format!("\n== {name}\n"));
        for value in values {
            let saying = sender.say(&tieline_core::Topic::new("a").unwrap(), &value, (), true);
            assert!(saying.is_marked);
            let hex: Vec<_> = saying.payload.iter().map(|byte| format!("{byte:02X}")).collect();
            text.push_str(&format!("< {}\n", hex.join(" ")));
        }
    }
    decode(&text)
}

fn turns() -> Vec<Body> {
    let text = |turn: usize| match turn % 8 {
        0 | 1 => format!("breaker 1 open, breaker 2 closed, turn {:04}", turn / 8),
        2 => format!("breaker 1 closed, breaker 2 closed, turn {:04}", turn / 8),
        3 => format!("{turn:04} nothing of what was said before"),
        4 => format!("{turn:04} nothing of what was said before, and more"),
        5 => format!("{turn:04} nothing of what was before, and more"),
        6 => "x".repeat(turn + 20),
        _ => "x".repeat(turn * 2 + 20),
    };
    (0..40).map(|turn| Body::Opaque(text(turn).into())).collect()
}

fn edits(count: usize) -> Vec<Body> {
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut fields: Vec<(u64, u64)> = (0..24).map(|name| (name, 1000 + name * 37)).collect();
    let mut bodies = Vec::new();
    for _ in 0..count {
        for _ in 0..=draw(3) {
            let at = usize::try_from(draw(fields.len() as u64)).unwrap();
            match draw(6) {
                0 if fields.len() > 16 => drop(fields.remove(at)),
                1 if fields.len() < 32 => fields.insert(at, (draw(1000), draw(100))),
                2 => fields[at].0 = draw(1000),
                _ => {
                    let digits = u32::try_from(draw(9)).unwrap() + 1;
                    fields[at].1 = draw(10_u64.pow(digits));
                }
            }
        }
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"load-{name}\":{value}")).collect();
        bodies.push(Body::Opaque(format!("{{{}}}", fields.join(",")).into()));
    }
    bodies
}

#[cfg(feature = "zstd")]
fn compressed() -> String {
    let mut text =
        String::from("# Zstandard with the base as prefix; what the bytes decode to counts, not the bytes.\n");
    let row = |n: usize| format!("{{\"id\":{n},\"name\":\"feeder {}\",\"load\":{}}}", n * 7919 % 97, n * n % 1000);
    let table = |turn: usize| {
        let rows: Vec<_> = (0..24).map(|n| row((n + turn * 5) % 24)).collect();
        Body::Opaque(format!("{{\"turn\":{turn},\"rows\":[{}]}}", rows.join(",")).into())
    };
    let tables: Vec<_> = (0..6).map(table).collect();
    text.push_str(&say("rows that turn", 30, 1, CodecSet::ZSTD, &tables));
    text.push_str(&say("rows that turn, to one that takes every second", 30, 2, CodecSet::ZSTD, &tables));
    decode(&text)
}

fn point(value: Value, quality: Quality, micros: i64) -> Body {
    Body::Point(Point { value, quality, time: Timestamp::from_micros(micros) })
}

const START: i64 = 1_795_167_360_000_000;

fn walk(count: i64) -> Vec<Body> {
    let cents = |n: i64| 4998 + (n * n * 7 + n * 3) % 19 - 9;
    let value = |n: i64| Value::Float(f64::from(i32::try_from(cents(n)).unwrap()) / 100.0);
    (0..count).map(|n| point(value(n), Quality::GOOD, START + n * 1_003_000 + n * n % 7 * 1000)).collect()
}

fn kinds() -> Vec<Body> {
    let values = [
        Value::Null,
        Value::Bool(false),
        Value::Bool(true),
        Value::Bool(true),
        Value::Bool(false),
        Value::Int(0),
        Value::Int(-1),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Int(i64::MIN + 1),
        Value::Float(0.5),
        Value::Float(0.25),
        Value::Float(-0.0),
        Value::Float(1e300),
        Value::Float(1.000_000_1e300),
        Value::Float(f64::INFINITY),
        Value::Float(f64::NEG_INFINITY),
        Value::Float(core::f64::consts::PI),
        Value::Float(core::f64::consts::E),
        Value::Float(9_007_199_254_740_992.0),
        Value::Float(12.0),
        Value::Text("zu früh".into()),
        Value::Text("".into()),
        Value::Bytes([0, 255, 16].into()),
        Value::Int(7),
        Value::Int(8),
        Value::Int(8),
    ];
    let (mut micros, mut bodies) = (START, Vec::new());
    for (at, value) in values.into_iter().enumerate() {
        let quality = if at % 5 == 3 { Quality::COMM_LOST.with(Quality::INITIAL) } else { Quality::GOOD };
        micros += [1_000_000, 60_000_000, 250_000, 1_234_567, -5_000_000, 0][at % 6];
        bodies.push(point(value, quality, micros));
    }
    bodies.push(point(Value::Int(8), Quality::GOOD, -62_135_596_800_000_000));
    bodies.push(point(Value::Int(8), Quality::GOOD, 253_402_300_799_999_999));
    bodies
}

fn documents(count: u32) -> Vec<Body> {
    let document = |n: u32| {
        let rate = if n % 4 == 3 { n * 1_000_000 } else { 100 + n };
        let stamp = 1_795_167_360 + n / 2 * 2;
        format!(
            "{{\"site\":\"north\",\"feeder\":7,\"rate\":{},\"unit\":\"kvar\",\"ok\":{},\"stamp\":{stamp},\"by\":\"relay 4\"}}",
            if n % 5 == 4 { rate - 1 } else { rate / 2 * 2 },
            n % 6 != 5,
        )
    };
    (0..count).map(|n| Body::Opaque(document(n).into())).collect()
}

fn forms() -> Vec<Body> {
    let text = |text: &'static str| Body::Opaque(Bytes::from_static(text.as_bytes()));
    let mut bodies = walk(2);
    bodies.extend([text("out of order"), text("out of order, and long enough for a hunk"), text("short")]);
    bodies.extend(walk(2));
    bodies
}
