//! Vectors, refusals, and properties of the whole crate.

mod client;
mod exchanges;
mod kept;
mod loopback;
mod packets;
mod properties;
mod refused;
mod round_trip;
mod server;
mod session_changes;
mod statements;
mod vectors;
mod words;

use crate::{Decoder, Packet, Version};
use alloc::vec::Vec;

/// Bytes from hexadecimal digits; blanks are for the reader.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

/// The packets of a stream given in chunks.
fn decode(version: Version, bytes_max: u32, chunks: &[&[u8]]) -> Result<Vec<Packet>, crate::DecodeError> {
    let (mut decoder, mut packets) = (Decoder::new(bytes_max), Vec::new());
    for chunk in chunks {
        let mut rest = *chunk;
        while !rest.is_empty() {
            let (used, frame) = decoder.feed(rest)?;
            assert!(used > 0, "no progress");
            rest = &rest[used..];
            if let Some(frame) = frame {
                packets.push(Packet::parse(version, &frame)?);
            }
        }
    }
    Ok(packets)
}

fn emit(version: Version, packet: &Packet) -> Vec<u8> {
    let mut out = Vec::new();
    packet.emit(version, &mut out).unwrap();
    assert_eq!(out.len(), packet.len(version));
    out
}
