//! WebSockets: any bytes at either side.

use std::sync::Arc;
use tieline_websocket::{ANSWER_BYTES_MAX, Offer, Request, WebSocket};

const REQUEST: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// A side of a connection, and what its peer says first.
fn side(is_client: bool) -> (WebSocket, &'static [u8]) {
    let (path, protocol) = ("/mqtt".to_owned(), "mqtt".to_owned());
    if is_client {
        let request = Request { host: "a".to_owned(), path, protocol, key: *b"the sample nonce", seed: [0; 16] };
        let mut socket = WebSocket::client(&request);
        socket.poll_transmit(&mut Vec::new(), |_| false);
        return (socket, RESPONSE);
    }
    (WebSocket::new(Arc::new(Offer { path, protocol, hosts: Vec::new(), texts: true })), REQUEST)
}

/// Any bytes before and after the handshake: progress, and answers within their limit. The first byte says which side it is, and
/// how much its owner takes.
pub(super) fn either_side(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let (mut socket, greeting) = side(first & 2 != 0);
    let stream = if first & 1 == 0 { [greeting, bytes].concat() } else { bytes.to_vec() };
    let appetite = usize::from(first >> 2) + 1;
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
        rest = rest.split_at(used).1;
    }
}
