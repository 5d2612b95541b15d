//! What goes together in a datagram: whole link frames (IEEE 1815 13.2.3) or lean messages, never parts of them.

use crate::link::{HEADER_OCTETS, frame_octets};
use tieline_core::Cursor;

/// Octets of a datagram that pass without fragments of IP over Ethernet, tunnels included.
pub const DATAGRAM_OCTETS: usize = 1400;

/// Octets of a hello (docs/dnp3-lean.md).
const HELLO_OCTETS: usize = 16;
/// Octets before the fragment of a lean message.
const LEAN_HEADER_OCTETS: usize = 7;

/// How many octets at the start are whole frames and messages that together have at most `octets_max` octets; the
/// first counts whatever its size. 0 where the octets begin with none. Only lengths are looked at, no checks.
#[must_use]
pub fn whole_units(octets: &[u8], octets_max: usize) -> usize {
    let mut whole = 0;
    while let Some(unit) = octets.get(whole..).and_then(unit_octets) {
        let end = whole + unit;
        if end > octets.len() || (whole > 0 && end > octets_max) {
            break;
        }
        whole = end;
    }
    whole
}

/// The octets that the unit at the start should have.
fn unit_octets(octets: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(octets);
    match (cursor.u8().ok()?, cursor.u8().ok()?, cursor.u8().ok()?) {
        (0x05, 0x64, length) => Some(frame_octets(usize::from(length.checked_sub(5)?))),
        (0xD4, 0xCC, 0x81) => Some(HELLO_OCTETS),
        (0xA6, low, high) => Some(LEAN_HEADER_OCTETS + usize::from(u16::from_le_bytes([low, high]) & 0x1FFF)),
        _ => None,
    }
}

const _: () = assert!(frame_octets(0) == HEADER_OCTETS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Function, Header, LinkAddress};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn frame(user_octets: usize, out: &mut Vec<u8>) {
        let header = Header::new(true, Function::UnconfirmedUserData, LinkAddress::new(10), LinkAddress::new(1));
        header.emit(&alloc::vec![7; user_octets], out);
    }

    #[test]
    fn units_are_found_by_their_lengths() {
        let check =
            |octets: &[u8], octets_max, expect| assert_eq!(whole_units(octets, octets_max), expect, "{octets:02x?}");
        let mut two = Vec::new();
        frame(0, &mut two);
        frame(20, &mut two);
        check(&two, usize::MAX, 10 + 34);
        check(&two, 43, 10);
        check(&two, 5, 10);
        check(&two[..43], usize::MAX, 10);
        check(&two[..9], usize::MAX, 0);
        check(&[], usize::MAX, 0);
        check(&[0x05, 0x64, 4, 0, 0, 0, 0, 0, 0, 0], usize::MAX, 0);
        check(b"GET / HTTP/1.1", usize::MAX, 0);
        check(&[0xA6, 2, 0, 1, 0, 10, 0, 0xC0, 1], usize::MAX, 9);
        check(&[0xA6, 0, 0x80, 1, 0, 10, 0], usize::MAX, 7);
    }

    proptest! {
        #[test]
        fn any_octets_are_cut_within_them(octets in prop::collection::vec(any::<u8>(), 0..600), octets_max in 0..700_usize) {
            let whole = whole_units(&octets, octets_max);
            prop_assert!(whole <= octets.len());
            prop_assert_eq!(whole_units(&octets[..whole], usize::MAX), whole);
        }

        #[test]
        fn frames_go_out_whole(sizes in prop::collection::vec(0..=250_usize, 1..20)) {
            let mut octets = Vec::new();
            sizes.iter().for_each(|size| frame(*size, &mut octets));
            prop_assert_eq!(whole_units(&octets, usize::MAX), octets.len());
            let mut rest = octets.as_slice();
            while !rest.is_empty() {
                let whole = whole_units(rest, DATAGRAM_OCTETS);
                prop_assert!(whole > 0 && whole <= DATAGRAM_OCTETS);
                rest = &rest[whole..];
            }
        }
    }
}
