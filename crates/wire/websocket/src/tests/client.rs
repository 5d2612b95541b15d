//! The client's side: what it asks for, which responses it refuses, and both sides against each other.

use super::{ANSWER, frame, offer};
use crate::{CloseCode, HEADERS_MAX, RESPONSE_BYTES_MAX, Request, ResponseFault, WebSocket};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// That of the standard's example, whose key is "the sample nonce".
fn request() -> Request {
    Request {
        host: "server.example.com".to_owned(),
        path: "/mqtt".to_owned(),
        protocol: "mqtt".to_owned(),
        key: *b"the sample nonce",
        seed: [7; 16],
    }
}

/// Gives bytes to a machine until it takes no more; what was inside, message by message.
fn give(socket: &mut WebSocket, bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut messages, mut message) = (bytes, Vec::new(), Vec::new());
    while !rest.is_empty() {
        let before = socket.messages();
        let used = socket.handle_input(rest, |plain| {
            message.extend_from_slice(plain);
            plain.len()
        });
        assert!(used > 0);
        rest = &rest[used..];
        if socket.messages() != before {
            messages.push(core::mem::take(&mut message));
        }
    }
    messages
}

fn sent(socket: &mut WebSocket) -> Vec<u8> {
    let mut out = Vec::new();
    while socket.poll_transmit(&mut out, |_| false) {}
    out
}

fn send(socket: &mut WebSocket, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(socket.poll_transmit(&mut out, |out| {
        out.extend_from_slice(message);
        true
    }));
    out
}

fn open() -> WebSocket {
    let mut client = WebSocket::client(&request());
    sent(&mut client);
    give(&mut client, ANSWER.as_bytes());
    assert!(client.is_open());
    client
}

#[test]
fn the_request_of_the_standards_example() {
    let mut client = WebSocket::client(&request());
    let text = String::from_utf8(sent(&mut client)).unwrap();
    assert_eq!(
        text,
        "GET /mqtt HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    assert!(!client.poll_transmit(&mut Vec::new(), |_| panic!("asked before the response")));
}

#[test]
fn responses_are_taken_or_refused() {
    let many = "X: y\r\n".repeat(HEADERS_MAX);
    let long = format!("X: {}\r\n", "y".repeat(RESPONSE_BYTES_MAX));
    let upgrade = "Upgrade: websocket\r\n";
    for (from, to, expect) in [
        ("websocket", "WebSocket", None),
        ("Connection: Upgrade", "connection: keep-alive, upgrade", None),
        (upgrade, &format!("Server: hub\r\n{upgrade}"), None),
        ("101 Switching Protocols", "101", None),
        ("101", "200", Some(ResponseFault::Status(200))),
        ("101", "401", Some(ResponseFault::Status(401))),
        ("101", "503", Some(ResponseFault::Status(503))),
        ("HTTP/1.1", "HTTP/1.0", Some(ResponseFault::Malformed)),
        ("HTTP/1.1", "BACnet", Some(ResponseFault::Malformed)),
        (upgrade, "", Some(ResponseFault::Upgrade)),
        ("Connection: Upgrade", "Connection: close", Some(ResponseFault::Upgrade)),
        ("s3pP", "S3pP", Some(ResponseFault::Accept)),
        ("Sec-WebSocket-Accept: ", "X: ", Some(ResponseFault::Accept)),
        ("Protocol: mqtt", "Protocol: mqttv3.1", Some(ResponseFault::Protocol)),
        ("Sec-WebSocket-Protocol: mqtt\r\n", "", Some(ResponseFault::Protocol)),
        (upgrade, &format!("Sec-WebSocket-Protocol: mqtt\r\n{upgrade}"), Some(ResponseFault::Protocol)),
        (upgrade, &format!("Sec-WebSocket-Extensions: x\r\n{upgrade}"), Some(ResponseFault::Extension)),
        (upgrade, &format!("{many}{upgrade}"), Some(ResponseFault::TooLarge)),
        (upgrade, &format!("{long}{upgrade}"), Some(ResponseFault::TooLarge)),
    ] {
        let answer = ANSWER.replacen(from, to, 1);
        assert_ne!(answer, ANSWER);
        let mut client = WebSocket::client(&request());
        sent(&mut client);
        give(&mut client, answer.as_bytes());
        assert_eq!(client.response_fault(), expect, "{from:?} {to:?}");
        assert_eq!((client.is_open(), client.is_closed()), (expect.is_none(), expect.is_some()));
        assert_eq!(client.is_faulty(), expect.is_some());
        // A server that is none is not spoken to.
        assert!(expect.is_none() || sent(&mut client).is_empty());
    }
}

#[test]
fn frames_behind_the_response_are_taken() {
    let mut client = WebSocket::client(&request());
    let stream = [ANSWER.as_bytes(), b"\x82\x05Hello\x02\x01a\x89\x01?\x80\x01b\x82\x00"].concat();
    assert_eq!(give(&mut client, &stream), [b"Hello".to_vec(), b"ab".to_vec(), Vec::new()]);
}

#[test]
fn a_masked_frame_of_a_server_is_refused_and_texts_are() {
    for (bytes, code) in [(frame(0x82, b"Hello"), 1002), (b"\x81\x01a".to_vec(), 1003)] {
        let mut client = open();
        assert!(give(&mut client, &bytes).is_empty());
        assert!(client.is_closed() && client.is_faulty());
        let mut server = WebSocket::new(offer());
        server.handle_input(super::REQUEST.as_bytes(), <[u8]>::len);
        sent(&mut server);
        give(&mut server, &sent(&mut client));
        // The close arrives masked, with its code.
        assert_eq!(sent(&mut server), [&b"\x88\x02"[..], &u16::to_be_bytes(code)].concat());
    }
}

#[test]
fn a_close_of_the_server_is_told_and_answered() {
    for (bytes, code) in [(&b"\x88\x02\x03\xe9"[..], 1001), (b"\x88\x00", 1005)] {
        let mut client = open();
        give(&mut client, bytes);
        assert_eq!((client.close_code(), client.is_closed(), client.is_faulty()), (Some(code), true, false));
        assert_eq!(sent(&mut client)[..2], [0x88, 0x80 | (bytes[1])]);
    }
}

#[test]
fn each_frame_has_a_mask_of_its_own() {
    let mut client = open();
    let frames: Vec<_> = (0..3).map(|_| send(&mut client, &[0; 8])).collect();
    for frame in &frames {
        // What is masked is zeros: the payload is the mask, twice.
        assert_eq!((frame[..2].to_vec(), &frame[2..6]), (vec![0x82, 0x88], &frame[6..10]));
        assert_eq!(frame[6..10], frame[10..14]);
    }
    assert!(frames[0] != frames[1] && frames[1] != frames[2] && frames[0] != frames[2]);
    let other = Request { seed: [8; 16], ..request() };
    let mut other = WebSocket::client(&other);
    sent(&mut other);
    give(&mut other, ANSWER.as_bytes());
    assert_ne!(send(&mut other, &[0; 8]), frames[0]);
}

/// Carries what one side sends to the other, in pieces.
fn carry(bytes: &[u8], cuts: &mut impl Iterator<Item = usize>, to: &mut WebSocket, messages: &mut Vec<Vec<u8>>) {
    let mut rest = bytes;
    let mut message = messages.pop().unwrap_or_default();
    while !rest.is_empty() {
        let piece = &rest[..rest.len().min(cuts.next().unwrap_or(1))];
        let before = to.messages();
        let used = to.handle_input(piece, |plain| {
            message.extend_from_slice(plain);
            plain.len()
        });
        rest = &rest[used..];
        if to.messages() != before {
            messages.push(core::mem::take(&mut message));
        }
    }
    messages.push(message);
}

/// Lengths around those where heads grow.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..300_usize, 1 => 65_530..65_540_usize]
}

proptest! {
    /// Both sides against each other: what one sends the other takes, however the stream is cut.
    #[test]
    fn both_sides_understand_each_other(
        messages in prop::collection::vec((any::<bool>(), lengths(), any::<u8>()), 1..6),
        cuts in prop::collection::vec(1..4000_usize, 1..40),
        seed: [u8; 16],
    ) {
        let messages = messages.into_iter().map(|(is_client, bytes, byte)| (is_client, vec![byte; bytes]));
        let mut client = WebSocket::client(&Request { seed, ..request() });
        let mut server = WebSocket::new(offer());
        let mut cuts = cuts.iter().copied().cycle();
        let mut nothing = Vec::new();
        carry(&sent(&mut client), &mut cuts, &mut server, &mut nothing);
        carry(&sent(&mut server), &mut cuts, &mut client, &mut nothing);
        prop_assert!(client.is_open() && server.is_open());
        let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
        let (mut expect_server, mut expect_client) = (Vec::new(), Vec::new());
        for (is_client, message) in messages {
            if is_client {
                carry(&send(&mut client, &message), &mut cuts, &mut server, &mut at_server);
                // A server takes messages as one stream.
                expect_server.extend(message);
            } else {
                carry(&send(&mut server, &message), &mut cuts, &mut client, &mut at_client);
                expect_client.push(message);
            }
        }
        at_client.pop();
        prop_assert_eq!(at_client, expect_client);
        prop_assert_eq!(at_server.concat(), expect_server);
        client.close(CloseCode::TooBig);
        carry(&sent(&mut client), &mut cuts, &mut server, &mut nothing);
        prop_assert!(server.is_closed());
        prop_assert_eq!(sent(&mut server), b"\x88\x02\x03\xf1");
    }

    /// Any bytes of a server: no panic, progress, bounded answers.
    #[test]
    fn any_bytes_of_a_server_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000), greeted: bool) {
        let mut client = WebSocket::client(&request());
        sent(&mut client);
        let stream = if greeted { [ANSWER.as_bytes(), &bytes].concat() } else { bytes };
        let (mut rest, mut out) = (&stream[..], Vec::new());
        while !rest.is_empty() {
            let used = client.handle_input(rest, <[u8]>::len);
            out.clear();
            let sent = client.poll_transmit(&mut out, |_| false);
            prop_assert!(used > 0 || sent);
            prop_assert!(out.len() <= crate::ANSWER_BYTES_MAX + 256);
            rest = &rest[used..];
        }
    }
}
