//! Properties of the codec.

use super::packets::any_packet;
use super::{decode, emit};
use crate::{Decoder, Packet, Version};
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;

const V: [Version; 2] = [Version::V311, Version::V5];

proptest! {
    #[test]
    fn what_is_written_is_read(packet in any_packet()) {
        let bytes = emit(Version::V5, &packet);
        prop_assert_eq!(decode(Version::V5, u32::MAX, &[&bytes]), Ok(alloc::vec![packet]));
    }

    /// 3.1.1 leaves out what it cannot say; what is left is stable.
    #[test]
    fn what_v311_writes_is_read_and_written_the_same(packet in any_packet()) {
        prop_assume!(!matches!(packet, Packet::Auth(_)));
        let mut packet = packet;
        if let Packet::Connect(connect) = &mut packet {
            connect.version = Version::V311;
        }
        if let Packet::Suback(suback) = &mut packet {
            suback.reasons.retain(|reason| reason.code() < 3 || reason.is_error());
            suback.reasons.push(crate::ReasonCode::Success);
        }
        let bytes = emit(Version::V311, &packet);
        let read = decode(Version::V311, u32::MAX, &[&bytes]).unwrap();
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(emit(Version::V311, &read[0]), bytes);
    }

    #[test]
    fn any_chunking_gives_the_same_packets(packets in vec(any_packet(), 1..5), cuts in vec(1..40_usize, 1..60)) {
        let stream: Vec<u8> = packets.iter().flat_map(|p| emit(Version::V5, p)).collect();
        let mut chunks: Vec<&[u8]> = Vec::new();
        let mut rest = stream.as_slice();
        for cut in cuts.iter().cycle() {
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            chunks.push(head);
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(decode(Version::V5, u32::MAX, &chunks), Ok(packets));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), version in 0..2_usize) {
        let _ = decode(V[version], 1000, &[&bytes]);
    }

    /// Bytes near a legal packet reach deeper than random ones.
    #[test]
    fn damaged_packets_are_read_or_refused(packet in any_packet(), at in any::<prop::sample::Index>(), to: u8, version in 0..2_usize) {
        let mut bytes = emit(V[version], &packet);
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(packets) = decode(V[version], 100_000, &[&bytes]) {
            for packet in packets {
                let version = if let Packet::Connect(connect) = &packet { connect.version } else { V[version] };
                let again = emit(version, &packet);
                prop_assert_eq!(decode(version, u32::MAX, &[&again]), Ok(alloc::vec![packet]));
            }
        }
    }

    /// A header that promises much makes nobody reserve it.
    #[test]
    fn memory_follows_what_has_arrived(arrived in 0..2000_usize) {
        let mut decoder = Decoder::new(u32::MAX);
        let mut bytes = super::hex("30 ffffff7f");
        bytes.resize(5 + arrived, b'a');
        prop_assert_eq!(decoder.feed(&bytes), Ok((bytes.len(), None)));
        prop_assert!(decoder.held_bytes() <= 2 * arrived + 64);
    }
}
