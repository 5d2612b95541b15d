//! Classic pcap files of Ethernet frames: TCP bytes in order, and UDP datagrams, by direction.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use std::collections::HashMap;

/// One direction of a conversation: the addresses and ports of sender and receiver.
pub type Flow = (Vec<u8>, u16, Vec<u8>, u16);

/// What one packet brought.
pub enum Payload {
    /// The next bytes of a stream.
    Stream(Vec<u8>),
    /// A datagram.
    Datagram(Vec<u8>),
}

/// The payloads of a capture in the order of arrival, without what a sender repeated.
pub fn payloads(file: &[u8]) -> Vec<(Flow, Payload)> {
    assert_eq!(file[..4], [0xD4, 0xC3, 0xB2, 0xA1], "a pcap file, low byte first");
    let (mut rest, mut found, mut expected) = (&file[24..], Vec::new(), HashMap::new());
    while rest.len() >= 16 {
        let bytes = usize::try_from(u32::from_le_bytes(rest[8..12].try_into().unwrap())).unwrap();
        let (packet, after) = rest[16..].split_at(bytes);
        rest = after;
        let packet = SlicedPacket::from_ethernet(packet).unwrap();
        let Some(NetSlice::Ipv4(ip)) = packet.net else { continue };
        let (from, to) = (ip.header().source().to_vec(), ip.header().destination().to_vec());
        match packet.transport {
            Some(TransportSlice::Tcp(tcp)) if !tcp.payload().is_empty() => {
                let flow = (from, tcp.source_port(), to, tcp.destination_port());
                let next = expected.entry(flow.clone()).or_insert(tcp.sequence_number());
                // Within half the sequence space, a segment before the expected one repeats bytes.
                let repeated = usize::try_from(next.wrapping_sub(tcp.sequence_number())).unwrap();
                let repeated = if repeated > 1 << 31 { 0 } else { repeated.min(tcp.payload().len()) };
                let fresh = &tcp.payload()[repeated..];
                *next = next.wrapping_add(u32::try_from(fresh.len()).unwrap());
                found.push((flow, Payload::Stream(fresh.to_vec())));
            }
            Some(TransportSlice::Udp(udp)) => {
                let flow = (from, udp.source_port(), to, udp.destination_port());
                found.push((flow, Payload::Datagram(udp.payload().to_vec())));
            }
            _ => {}
        }
    }
    found
}
