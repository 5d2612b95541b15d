//! The handshake's examples, frames byte by byte, and properties of the whole.

mod client;
mod suite;

use crate::{ANSWER_BYTES_MAX, CloseCode, HEADERS_MAX, Offer, REQUEST_BYTES_MAX, WebSocket, header};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn offer() -> Arc<Offer> {
    let hosts = vec!["localhost".to_owned()];
    Arc::new(Offer { path: "/mqtt".to_owned(), protocol: "mqtt".to_owned(), hosts, texts: false })
}

/// The request of RFC 6455 section 1.3, for MQTT.
const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\
                       Sec-WebSocket-Version: 13\r\n\r\n";

/// The answer to it.
const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// A connection, and what was inside of what it was given.
struct Bench {
    socket: WebSocket,
    inside: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        Self { socket: WebSocket::new(offer()), inside: Vec::new() }
    }

    fn open() -> Self {
        let mut bench = Self::new();
        bench.give(REQUEST.as_bytes());
        assert!(bench.sent().starts_with(b"HTTP/1.1 101 "));
        bench
    }

    fn give(&mut self, bytes: &[u8]) {
        let inside = &mut self.inside;
        let used = self.socket.handle_input(bytes, |plain| {
            inside.extend_from_slice(plain);
            plain.len()
        });
        assert_eq!(used, bytes.len());
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.socket.poll_transmit(&mut out, |_| false) {}
        out
    }
}

/// A client's frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const KEY: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];
    let (head, count) = header(payload.len());
    let mut bytes = head[..count].to_vec();
    bytes[0] = first;
    bytes[1] |= 0x80;
    bytes.extend(KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

#[test]
fn the_handshake_of_the_standards_example() {
    let mut bench = Bench::new();
    bench.give(REQUEST.as_bytes());
    let answer = String::from_utf8(bench.sent()).unwrap();
    assert!(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    assert!(answer.contains("\r\nSec-WebSocket-Protocol: mqtt\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(bench.socket.is_open());
}

#[test]
fn handshakes_are_taken_or_refused() {
    let many = "X: y\r\n".repeat(HEADERS_MAX);
    let long = format!("X: {}\r\n", "y".repeat(REQUEST_BYTES_MAX));
    // What of the request is replaced, by what, and the status.
    for (from, to, status) in [
        ("websocket\r", "WebSocket\r", 101),
        ("Connection: Upgrade", "connection: keep-alive, Upgrade", 101),
        ("Protocol: mqtt", "Protocol: mqttv3.1, mqtt", 101),
        ("Protocol: mqtt", "Protocol: chat\r\nSec-WebSocket-Protocol: mqtt", 101),
        ("/mqtt ", "/mqtt?x=1 ", 101),
        ("Host:", "Origin: http://localhost:8080\r\nHost:", 101),
        ("Host:", "Origin: http://evil.example\r\nHost:", 403),
        ("Host:", "Origin: http://localhost.evil.example:80\r\nHost:", 403),
        ("Host:", "Origin: null\r\nHost:", 403),
        ("/mqtt ", "/ ", 404),
        ("GET", "POST", 405),
        ("Version: 13", "Version: 8", 426),
        ("Upgrade: websocket", "Upgrade: h2c", 426),
        ("Connection: Upgrade", "Connection: close", 426),
        ("Protocol: mqtt", "Protocol: MQTT", 400),
        ("Sec-WebSocket-Protocol: mqtt\r\n", "", 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "short", 400),
        ("Host: server.example.com\r\n", "", 400),
        ("HTTP/1.1", "HTTP/1.0", 400),
        ("GET", "G\u{1}T", 400),
        ("Host:", &format!("{many}Host:"), 431),
        ("Host:", &format!("{long}Host:"), 431),
    ] {
        let request = REQUEST.replacen(from, to, 1);
        assert_ne!(request, REQUEST);
        let mut bench = Bench::new();
        bench.give(request.as_bytes());
        let answer = String::from_utf8(bench.sent()).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{from:?} {to:?}: {answer}");
        assert_eq!((bench.socket.is_open(), bench.socket.is_closed()), (status == 101, status != 101));
    }
}

#[test]
fn frames_are_taken_apart() {
    let mut bench = Bench::open();
    // The standard's own masked "Hello" (section 5.7), as binary.
    bench.give(b"\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
    bench.give(&frame(0x02, b" "));
    bench.give(&frame(0x89, b"are you there"));
    bench.give(&frame(0x00, b""));
    bench.give(&frame(0x80, &[b'w'; 300]));
    bench.give(&frame(0x82, &[b'x'; 70_000]));
    bench.give(&frame(0x8A, b"nobody asked"));
    let expect = [&b"Hello "[..], &[b'w'; 300], &[b'x'; 70_000]].concat();
    assert!(bench.inside == expect);
    assert_eq!(bench.sent(), b"\x8a\x0dare you there");
}

#[test]
fn a_broken_rule_closes_with_its_code() {
    let close = |payload: &[u8]| frame(0x88, payload);
    let two = |first: Vec<u8>, second: Vec<u8>| [first, second].concat();
    for (bytes, expect) in [
        (b"\x82\x01".to_vec(), 1002),
        (frame(0xC2, b""), 1002),
        (frame(0x83, b""), 1002),
        (frame(0x8B, b""), 1002),
        (frame(0x80, b""), 1002),
        (two(frame(0x02, b"a"), frame(0x82, b"b")), 1002),
        (two(frame(0x02, b"a"), frame(0x81, b"b")), 1002),
        (frame(0x09, b""), 1002),
        (frame(0x89, &[0; 126]), 1002),
        (b"\x82\xfe\x00\x7d\x00\x00\x00\x00".to_vec(), 1002),
        (b"\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x00\x00".to_vec(), 1002),
        (b"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00".to_vec(), 1002),
        (frame(0x81, b"text"), 1003),
        (frame(0x01, b"text"), 1003),
        (close(b"\x03"), 1002),
        (close(b"\x03\xe7"), 1002),
        (close(b"\x03\xec"), 1002),
        (close(b"\x03\xf7"), 1002),
        (close(b"\x13\x88"), 1002),
        (close(b"\x03\xe8\xff"), 1007),
        (close(b"\x03\xe8bye"), 1000),
        (close(b"\x0f\xa0"), 4000),
    ] {
        let mut bench = Bench::open();
        bench.give(&bytes);
        // What comes after is not read.
        bench.give(&frame(0x82, b"more"));
        let [0x88, 2, high, low] = bench.sent()[..] else { panic!("{bytes:02x?}") };
        assert_eq!(u16::from_be_bytes([high, low]), expect, "{bytes:02x?}");
        assert!(bench.socket.is_closed() && !bench.inside.ends_with(b"more"));
    }
    let mut bench = Bench::open();
    bench.give(&close(b""));
    assert_eq!(bench.sent(), b"\x88\x00");
}

#[test]
fn what_is_said_is_framed() {
    let mut bench = Bench::open();
    for (bytes, head) in [
        (0, &b"\x82\x00"[..]),
        (125, b"\x82\x7d"),
        (126, b"\x82\x7e\x00\x7e"),
        (65_535, b"\x82\x7e\xff\xff"),
        (65_536, b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
    ] {
        let mut out = b"before".to_vec();
        assert!(bench.socket.poll_transmit(&mut out, |out| {
            out.resize(out.len() + bytes, 7);
            true
        }));
        assert!(out == [b"before", head, &vec![7; bytes]].concat(), "{bytes}");
        let (shared, count) = header(bytes);
        assert_eq!(&shared[..count], head);
    }
    bench.socket.close(CloseCode::Normal);
    assert_eq!(bench.sent(), b"\x88\x02\x03\xe8");
    bench.socket.close(CloseCode::Normal);
    assert!(!bench.socket.poll_transmit(&mut Vec::new(), |_| true), "nothing follows a close");
}

#[test]
fn nothing_is_said_before_the_handshake() {
    let mut socket = WebSocket::new(offer());
    assert!(!socket.poll_transmit(&mut Vec::new(), |_| panic!("asked")));
}

#[test]
fn a_flood_of_pings_is_not_read_until_its_pongs_are() {
    let mut bench = Bench::open();
    let pings: Vec<u8> = (0..100).flat_map(|_| frame(0x89, &[7; 125])).collect();
    let mut rest = &pings[..];
    let mut pongs = 0;
    while !rest.is_empty() {
        let used = bench.socket.handle_input(rest, |_| panic!("no data"));
        rest = &rest[used..];
        let sent = bench.sent();
        assert!(sent.len() < ANSWER_BYTES_MAX + 127 && (used > 0 || !sent.is_empty()));
        pongs += sent.len() / 127;
    }
    assert_eq!(pongs, 100);
}

#[test]
fn an_open_connection_is_small() {
    assert!(size_of::<WebSocket>() <= 128, "{}", size_of::<WebSocket>());
}

proptest! {
    /// The same bytes are inside and the same answers go out, however the stream is cut and however slowly the
    /// inside takes its bytes.
    #[test]
    fn any_chunking_gives_the_same(
        messages in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..600)), 1..8),
        cuts in prop::collection::vec(1..400_usize, 1..40),
        appetite in 1..300_usize,
    ) {
        let (mut stream, mut expect) = (REQUEST.as_bytes().to_vec(), Vec::new());
        for (is_ping, payload) in &messages {
            if *is_ping {
                stream.extend(frame(0x89, &payload[..payload.len().min(125)]));
            } else {
                let (first, second) = payload.split_at(payload.len() / 2);
                stream.extend([frame(0x02, first), frame(0x80, second)].concat());
                expect.extend_from_slice(payload);
            }
        }
        let mut whole = Bench::new();
        whole.give(&stream);
        let answers = whole.sent();
        let (mut socket, mut inside, mut out) = (WebSocket::new(offer()), Vec::new(), Vec::new());
        let (mut rest, mut cuts) = (&stream[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let piece = &rest[..rest.len().min(*cuts.next().unwrap())];
            let mut hunger = appetite;
            let used = socket.handle_input(piece, |plain| {
                let taken = plain.len().min(hunger);
                hunger -= taken;
                inside.extend_from_slice(&plain[..taken]);
                taken
            });
            let sent = socket.poll_transmit(&mut out, |_| false);
            prop_assert!(used > 0 || sent);
            rest = &rest[used..];
        }
        while socket.poll_transmit(&mut out, |_| false) {}
        prop_assert!(whole.inside == expect && inside == expect && out == answers);
    }

    /// Any bytes: no panic, progress, one close at most.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000), greeted: bool) {
        let mut socket = WebSocket::new(offer());
        let mut stream = if greeted { REQUEST.as_bytes().to_vec() } else { Vec::new() };
        stream.extend(bytes);
        let (mut rest, mut out) = (&stream[..], Vec::new());
        while !rest.is_empty() {
            let used = socket.handle_input(rest, <[u8]>::len);
            let sent = socket.poll_transmit(&mut out, |_| false);
            prop_assert!(used > 0 || sent);
            rest = &rest[used..];
        }
    }
}
