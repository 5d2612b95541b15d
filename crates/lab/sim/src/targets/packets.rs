//! MQTT packets, and a server that takes any bytes.

use std::sync::Arc;
use tieline_core::{Machine, Now};
use tieline_mqtt::{
    Accept, CONTROL_BYTES_MAX, Decoder, Delivery, Packet, ReasonCode, ServerConfig, ServerEvent, ServerSession, Version,
};

const CONNECT5: &[u8] = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x01c";
const CONNECT311: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x0a\x00\x01c";

/// Any bytes as a stream of MQTT packets; the first byte picks the version. What is read is written and read the same.
pub(super) fn packet(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let version = if first & 1 == 0 { Version::V311 } else { Version::V5 };
    let mut decoder = Decoder::new(1_048_576);
    while let Ok((used, frame)) = decoder.feed(rest) {
        assert!(decoder.held_bytes() <= 2 * bytes.len() + 64);
        rest = rest.get(used..).unwrap_or_default();
        let Some(frame) = frame else { return };
        let Ok(packet) = Packet::parse(version, &frame) else { return };
        let version = if let Packet::Connect(connect) = &packet { connect.version } else { version };
        let mut again = Vec::new();
        packet.emit(version, &mut again).expect("it was no longer when it came");
        let (_, frame) = Decoder::new(u32::MAX).feed(&again).expect("a header that was written");
        assert_eq!(Packet::parse(version, &frame.expect("a whole packet")), Ok(packet));
    }
}

/// Any bytes to a server session, in chunks: progress, one end, answers within their limit.
pub(super) fn server(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let chunk = usize::from(first >> 2) + 1;
    let greeting: &[u8] = match first & 3 {
        0 => &[],
        1 => CONNECT311,
        _ => CONNECT5,
    };
    let config = ServerConfig { receive_max: 8, pending_max: 8, ..ServerConfig::default() };
    let mut server = ServerSession::new(Arc::new(config), 0);
    server.handle_connected(Now::default());
    let (mut ends, mut out) = (0, Vec::new());
    for part in std::iter::once(greeting).chain(rest.chunks(chunk)) {
        let mut part = part;
        while !part.is_empty() {
            let used = server.handle_input(Now::default(), part);
            part = part.split_at(used).1;
            let mut events = 0;
            while let Some(event) = server.poll_event() {
                events += 1;
                serve(&mut server, event, &mut ends);
            }
            out.clear();
            let sent = server.poll_transmit(Now::default(), &mut out);
            assert!(used > 0 || events > 0 || sent, "no progress");
            assert!(out.len() <= 2 * CONTROL_BYTES_MAX + 2 * bytes.len() + 1024);
        }
    }
    assert!(ends <= 1);
}

fn serve(server: &mut ServerSession, event: ServerEvent, ends: &mut usize) {
    match event {
        ServerEvent::Connect(request) if request.properties.authentication_method().is_some() => {
            server.challenge(Now::default(), None);
        }
        ServerEvent::Connect(_) => {
            server.accept(Now::default(), Accept::default());
        }
        ServerEvent::Publish(publish) => {
            if let Some(packet_id) = publish.packet_id {
                server.acknowledge(packet_id, ReasonCode::Success);
            }
            let (message, subscription_ids) = (Arc::new(publish.message), Vec::new());
            let _ = server.deliver(Delivery { message, qos: publish.qos, retain: publish.retain, subscription_ids });
        }
        ServerEvent::Subscribe(s) => server.suback(s.packet_id, &vec![ReasonCode::Success; s.subscriptions.len()]),
        ServerEvent::Unsubscribe(u) => server.unsuback(u.packet_id, &vec![ReasonCode::Success; u.filters.len()]),
        ServerEvent::Auth(_) => {
            server.accept(Now::default(), Accept::default());
            server.authenticated(None);
        }
        ServerEvent::Ended(_) => *ends += 1,
    }
}
