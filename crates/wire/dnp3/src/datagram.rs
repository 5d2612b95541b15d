//! What goes together in a datagram: whole link frames (IEEE 1815 13.2.3) or lean messages, never parts of them.

use crate::link::{HEADER_BYTES, frame_bytes};
use tieline_core::Cursor;

/// Bytes of a datagram that pass without fragments of IP over Ethernet, tunnels included.
pub const DATAGRAM_BYTES: usize = 1400;

/// Bytes of a hello (docs/dnp3-lean.md).
const HELLO_BYTES: usize = 16;
/// Bytes before the fragment of a lean message.
const LEAN_HEADER_BYTES: usize = 7;

/// How many bytes at the start are whole frames and messages that together have at most `bytes_max` bytes; the
/// first counts whatever its size. 0 where the bytes begin with none. Only lengths are looked at, no checks.
#[must_use]
pub fn whole_units(bytes: &[u8], bytes_max: usize) -> usize {
    let mut whole = 0;
    while let Some(unit) = bytes.get(whole..).and_then(unit_bytes) {
        let end = whole + unit;
        if end > bytes.len() || (whole > 0 && end > bytes_max) {
            break;
        }
        whole = end;
    }
    whole
}

/// The bytes that the unit at the start should have.
fn unit_bytes(bytes: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(bytes);
    match (cursor.u8().ok()?, cursor.u8().ok()?, cursor.u8().ok()?) {
        (0x05, 0x64, length) => Some(frame_bytes(usize::from(length.checked_sub(5)?))),
        (0xD4, 0xCC, 0x81) => Some(HELLO_BYTES),
        (0xA6, low, high) => Some(LEAN_HEADER_BYTES + usize::from(u16::from_le_bytes([low, high]) & 0x1FFF)),
        _ => None,
    }
}

const _: () = assert!(frame_bytes(0) == HEADER_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Function, Header, LinkAddress};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn frame(user_bytes: usize, out: &mut Vec<u8>) {
        let header = Header::new(true, Function::UnconfirmedUserData, LinkAddress::new(10), LinkAddress::new(1));
        header.emit(&alloc::vec![7; user_bytes], out);
    }

    #[test]
    fn units_are_found_by_their_lengths() {
        let check = |bytes: &[u8], bytes_max, expect| assert_eq!(whole_units(bytes, bytes_max), expect, "{bytes:02x?}");
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
        fn any_bytes_are_cut_within_them(bytes in prop::collection::vec(any::<u8>(), 0..600), bytes_max in 0..700_usize) {
            let whole = whole_units(&bytes, bytes_max);
            prop_assert!(whole <= bytes.len());
            prop_assert_eq!(whole_units(&bytes[..whole], usize::MAX), whole);
        }

        #[test]
        fn frames_go_out_whole(sizes in prop::collection::vec(0..=250_usize, 1..20)) {
            let mut bytes = Vec::new();
            sizes.iter().for_each(|size| frame(*size, &mut bytes));
            prop_assert_eq!(whole_units(&bytes, usize::MAX), bytes.len());
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let whole = whole_units(rest, DATAGRAM_BYTES);
                prop_assert!(whole > 0 && whole <= DATAGRAM_BYTES);
                rest = &rest[whole..];
            }
        }
    }
}
