//! Any bytes at a WebSocket, before and after the handshake: no panic, progress, bounded answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use tieline_websocket::{ANSWER_BYTES_MAX, Offer, WebSocket};

const REQUEST: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n";

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let offer = Offer { path: "/mqtt".to_owned(), protocol: "mqtt".to_owned(), hosts: Vec::new(), texts: true };
    let mut socket = WebSocket::new(Arc::new(offer));
    let stream = if first & 1 == 0 { [REQUEST, bytes].concat() } else { bytes.to_vec() };
    let appetite = usize::from(first >> 1) + 1;
    let (mut rest, mut out) = (stream.as_slice(), Vec::new());
    while !rest.is_empty() {
        let mut hunger = appetite;
        let used = socket.handle_input(rest, |plain| {
            let taken = plain.len().min(hunger);
            hunger -= taken;
            taken
        });
        out.clear();
        let sent = socket.poll_transmit(&mut out, |_| false);
        assert!(used > 0 || sent, "no progress");
        assert!(out.len() <= ANSWER_BYTES_MAX + 256);
        rest = &rest[used..];
    }
});
