//! The cases of Autobahn's test suite, sections 1 to 7, under its numbers: what a client sends, and what it is answered.
//! Each is sent whole, in chops of 997 bytes, and byte by byte. Its delays and its reports are not here.

use super::{REQUEST, frame};
use crate::{Offer, WebSocket};
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8A;
/// Taken off the first byte: more of the message follows.
const MORE: u8 = 0x80;
/// The continuation that ends a message.
const LAST: u8 = 0x80;
/// The continuation that does not.
const NEXT: u8 = 0x00;

/// A close with its code, as a server sends it.
fn closed(code: u16) -> Vec<u8> {
    let [high, low] = code.to_be_bytes();
    vec![CLOSE, 2, high, low]
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(CLOSE, &[&code.to_be_bytes(), reason].concat())
}

fn pong(payload: &[u8]) -> Vec<u8> {
    [&[PONG, u8::try_from(payload.len()).unwrap()], payload].concat()
}

/// A connection behind its handshake.
fn open() -> WebSocket {
    let offer = Offer { path: "/mqtt".to_owned(), protocol: "mqtt".to_owned(), texts: true, ..Offer::default() };
    let mut socket = WebSocket::new(Arc::new(offer));
    socket.handle_input(REQUEST.as_bytes(), |_| panic!("a request holds no message"));
    while socket.poll_transmit(&mut Vec::new(), |_| false) {}
    socket
}

/// Sends frames, and compares the bytes inside of messages, and the answers.
#[track_caller]
fn check(case: &str, sent: &[Vec<u8>], inside: &[u8], answers: &[Vec<u8>]) {
    for chop in [usize::MAX, 997, 1] {
        let mut socket = open();
        let (mut given, mut said) = (Vec::new(), Vec::new());
        for piece in sent.concat().chunks(chop.min(1 << 24)) {
            let mut rest = piece;
            while !rest.is_empty() {
                let used = socket.handle_input(rest, |plain| {
                    given.extend_from_slice(plain);
                    plain.len()
                });
                rest = &rest[used..];
                while socket.poll_transmit(&mut said, |_| false) {}
            }
        }
        assert!(said == answers.concat(), "case {case}: answered {said:02x?}");
        assert!(given == inside, "case {case}: {} bytes inside, expected {}", given.len(), inside.len());
        let last = answers.last().and_then(|answer| answer.first());
        assert_eq!(socket.is_closed(), last == Some(&CLOSE), "case {case}");
    }
}

#[test]
fn framing() {
    for (number, bytes) in [0, 125, 126, 127, 128, 65_535, 65_536].into_iter().enumerate() {
        let (text, binary) = (vec![b'*'; bytes], vec![0xFE; bytes]);
        let number = number + 1;
        check(&alloc::format!("1.1.{number}"), &[frame(TEXT, &text)], &text, &[]);
        check(&alloc::format!("1.2.{number}"), &[frame(BINARY, &binary)], &binary, &[]);
    }
}

#[test]
fn pings_and_pongs() {
    let odd = b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff";
    let many: Vec<_> = (0..10).map(|number| [b'p', number]).collect();
    for (case, sent, answers) in [
        ("2.1", vec![frame(PING, b"")], vec![pong(b"")]),
        ("2.2", vec![frame(PING, b"Hello, world!")], vec![pong(b"Hello, world!")]),
        ("2.3", vec![frame(PING, odd)], vec![pong(odd)]),
        ("2.4, 2.6", vec![frame(PING, &[0xFE; 125])], vec![pong(&[0xFE; 125])]),
        ("2.5", vec![frame(PING, &[0xFE; 126])], vec![closed(1002)]),
        ("2.7", vec![frame(PONG, b"")], vec![]),
        ("2.8", vec![frame(PONG, b"unsolicited pong payload")], vec![]),
        ("2.9", vec![frame(PONG, b"unsolicited"), frame(PING, b"ping payload")], vec![pong(b"ping payload")]),
        ("2.10, 2.11", many.iter().map(|p| frame(PING, p)).collect(), many.iter().map(|p| pong(p)).collect()),
    ] {
        check(case, &sent, b"", &answers);
    }
}

#[test]
fn reserved_bits_and_opcodes() {
    const HELLO: &[u8] = b"Hello, world!";
    let hello = || frame(TEXT, HELLO);
    for (case, first) in [("3.1", 0x90 | TEXT), ("3.5", 0xD0 | BINARY), ("3.6", 0xE0 | PING), ("3.7", 0xF0 | CLOSE)] {
        check(case, &[frame(first, HELLO), frame(PING, b"")], b"", &[closed(1002)]);
    }
    for (case, first) in [("3.2", 0xA0 | TEXT), ("3.3", 0xB0 | TEXT), ("3.4", 0xC0 | TEXT)] {
        check(case, &[hello(), frame(first, HELLO), frame(PING, b"")], HELLO, &[closed(1002)]);
    }
    for (case, opcodes) in [("4.1", 3..=7_u8), ("4.2", 11..=15)] {
        for opcode in opcodes {
            check(case, &[frame(0x80 | opcode, b"")], b"", &[closed(1002)]);
            check(case, &[frame(0x80 | opcode, b"reserved opcode payload")], b"", &[closed(1002)]);
            check(case, &[hello(), frame(0x80 | opcode, b""), frame(PING, b"")], HELLO, &[closed(1002)]);
        }
    }
}

#[test]
fn fragmentation() {
    let begin = |payload: &[u8]| frame(TEXT & !MORE, payload);
    let (one, two, three, four) = (b"fragment1", b"fragment2", b"fragment3", b"fragment4");
    let hello = || frame(TEXT, b"Hello, world!");
    let (first, both) = (begin(one), [&one[..], two].concat());
    let end = frame(LAST, two);
    for (case, sent, inside, answers) in [
        ("5.1", vec![frame(PING & !MORE, one), end.clone()], &b""[..], vec![closed(1002)]),
        ("5.2", vec![frame(PONG & !MORE, one), end.clone()], b"", vec![closed(1002)]),
        ("5.3 to 5.5", vec![first.clone(), end.clone()], &both, vec![]),
        ("5.6 to 5.8", vec![first.clone(), frame(PING, b"ping"), end.clone()], &both, vec![pong(b"ping")]),
        ("5.9 to 5.11", vec![frame(LAST, one), hello()], b"", vec![closed(1002)]),
        ("5.12 to 5.14", vec![frame(NEXT, one), hello()], b"", vec![closed(1002)]),
        ("5.15", vec![first.clone(), end.clone(), frame(NEXT, three), frame(TEXT, four)], &both, vec![closed(1002)]),
        ("5.16", vec![frame(NEXT, one), begin(two), frame(LAST, three)], b"", vec![closed(1002)]),
        ("5.17", vec![frame(LAST, one), begin(two), frame(LAST, three)], b"", vec![closed(1002)]),
        ("5.18", vec![first.clone(), frame(TEXT, two)], one, vec![closed(1002)]),
        (
            "5.19, 5.20",
            vec![
                first.clone(),
                frame(NEXT, two),
                frame(PING, b"pongme 1!"),
                frame(NEXT, three),
                frame(NEXT, four),
                frame(PING, b"pongme 2!"),
                frame(LAST, b""),
            ],
            b"fragment1fragment2fragment3fragment4",
            vec![pong(b"pongme 1!"), pong(b"pongme 2!")],
        ),
    ] {
        check(case, &sent, inside, &answers);
    }
}

/// Sections 6.1 to 6.23, in fragments of a byte: what is wrong is closed on with the byte that makes it so (6.4).
#[test]
fn texts_are_utf8() {
    const WORDS: &[u8] = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5";
    let check_text = |case: &str, text: &[u8], taken: usize| {
        let pieces = text.iter().map(|byte| frame(NEXT, &[*byte]));
        let sent: Vec<_> = [frame(TEXT & !MORE, b"")].into_iter().chain(pieces).chain([frame(LAST, b"")]).collect();
        let is_right = core::str::from_utf8(text).is_ok();
        let answer = if is_right { vec![] } else { vec![closed(1007)] };
        check(case, &sent, text.get(..taken).unwrap_or(text), &answer);
        // In one frame, and asked to close behind it.
        let mut socket = open();
        let sent = [frame(TEXT, text), close(1000, b"")].concat();
        assert_eq!(socket.handle_input(&sent, <[u8]>::len), sent.len());
        let mut said = Vec::new();
        while socket.poll_transmit(&mut said, |_| false) {}
        assert_eq!(said, closed(if is_right { 1000 } else { 1007 }), "case {case}");
    };
    for (case, text) in [
        ("6.1", &b""[..]),
        ("6.2", "Hello-µ@ßöäüàá-UTF-8!!".as_bytes()),
        ("6.5", b"hello\xf0\xa4\xad\xa2world"),
        ("6.5", WORDS),
        ("6.7", b"\0"),
        ("6.7", b"\xc2\x80"),
        ("6.7", b"\xe0\xa0\x80"),
        ("6.7", b"\xf0\x90\x80\x80"),
        ("6.9", b"\x7f"),
        ("6.9", b"\xdf\xbf"),
        ("6.9", b"\xef\xbf\xbf"),
        ("6.9", b"\xf4\x8f\xbf\xbf"),
        ("6.11", b"\xed\x9f\xbf"),
        ("6.11", b"\xee\x80\x80"),
        ("6.11", b"\xef\xbf\xbd"),
        ("6.22", b"\xef\xbf\xbe"),
        ("6.23", b"\xef\xbf\xbd"),
    ] {
        check_text(case, text, text.len());
    }
    for end in 1..WORDS.len() {
        check_text("6.6", WORDS.get(..end).unwrap(), end);
    }
    // How many bytes were taken when the last of them was wrong.
    for (case, text, taken) in [
        ("6.3, 6.18", &[WORDS, b"\xed\xa0\x80edited"].concat()[..], 13),
        ("6.4", &[WORDS, b"\xf4\x90\x80\x80edited"].concat(), 13),
        ("6.8", b"\xf8\x88\x80\x80\x80", 1),
        ("6.10", b"\xf7\xbf\xbf\xbf", 1),
        ("6.12", b"\x80\xbf", 1),
        ("6.14", b"\xc0 \xc1 ", 1),
        ("6.14", b"\xe1 ", 2),
        ("6.15", b"\xf0\x90\x80", 3),
        ("6.16", b"\xe0\x80\xf0\x80", 2),
        ("6.17", b"\xfe", 1),
        ("6.19", b"\xc0\xaf", 1),
        ("6.19", b"\xe0\x80\xaf", 2),
        ("6.20", b"\xf0\x8f\xbf\xbf", 2),
        ("6.21", b"\xed\xaf\xbf\xed\xb0\x80", 2),
    ] {
        check_text(case, text, taken);
    }
}

#[test]
fn closes() {
    let hello = || frame(TEXT, b"Hello World!");
    let (ping, long) = (frame(PING, b""), vec![b'*'; 256 << 10]);
    let both = [&long[..], b"Hello World!"].concat();
    for (case, sent, inside, answers) in [
        ("7.1.1", vec![hello(), close(1000, b"")], &b"Hello World!"[..], vec![closed(1000)]),
        ("7.1.2", vec![close(1000, b""), close(1000, b"")], b"", vec![closed(1000)]),
        ("7.1.3", vec![close(1000, b""), ping.clone()], b"", vec![closed(1000)]),
        ("7.1.4", vec![close(1000, b""), hello()], b"", vec![closed(1000)]),
        ("7.1.5", vec![frame(TEXT & !MORE, b"a"), close(1000, b""), frame(LAST, b"b")], b"a", vec![closed(1000)]),
        ("7.1.6", vec![frame(TEXT, &long), hello(), close(1000, b""), ping], &both, vec![closed(1000)]),
        ("7.3.1", vec![frame(CLOSE, b"")], b"", vec![vec![CLOSE, 0]]),
        ("7.3.2", vec![frame(CLOSE, b"a")], b"", vec![closed(1002)]),
        ("7.3.3", vec![close(1000, b"")], b"", vec![closed(1000)]),
        ("7.3.4", vec![close(1000, b"Hello World!")], b"", vec![closed(1000)]),
        ("7.3.5", vec![close(1000, &[b'*'; 123])], b"", vec![closed(1000)]),
        ("7.3.6", vec![close(1000, &[b'*'; 124])], b"", vec![closed(1002)]),
        ("7.5.1", vec![close(1000, b"\xce\xba\xed\xa0\x80edited")], b"", vec![closed(1007)]),
    ] {
        check(case, &sent, inside, &answers);
    }
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
        check("7.7", &[close(code, b"")], b"", &[closed(code)]);
    }
    for code in [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535] {
        check("7.9, 7.13", &[close(code, b"")], b"", &[closed(1002)]);
    }
}
