//! Integers of as many bytes as they need: seven bits a byte, low bits first, the high bit set on all but the last.

use crate::DeltaError;
use alloc::vec::Vec;
use tieline_core::Cursor;

/// Appends an unsigned integer, 1 to 10 bytes.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low & 0x7F);
        }
        out.push(low | 0x80);
    }
}

/// Appends a signed integer: 0, -1, 1, -2 … are 0, 1, 2, 3 ….
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Appends a count of bytes.
pub(crate) fn put_len(out: &mut Vec<u8>, count: usize) {
    put(out, u64::try_from(count).unwrap_or(u64::MAX));
}

/// Reads an unsigned integer.
#[inline]
pub(crate) fn get(cursor: &mut Cursor<'_>) -> Result<u64, DeltaError> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = cursor.u8()?;
        let bits = u64::from(byte & 0x7F);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DeltaError::Malformed("an integer of more than 64 bits"))
}

/// Reads a signed integer.
#[inline]
pub(crate) fn get_signed(cursor: &mut Cursor<'_>) -> Result<i64, DeltaError> {
    get(cursor).map(unzigzag)
}

/// Reads a count of bytes.
pub(crate) fn get_len(cursor: &mut Cursor<'_>) -> Result<usize, DeltaError> {
    usize::try_from(get(cursor)?).map_err(|_| DeltaError::Malformed("a length beyond memory"))
}

pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Bytes of an unsigned integer.
pub(crate) const fn len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |bytes: &[u8], expect: Option<u64>| assert_eq!(get(&mut Cursor::new(bytes)).ok(), expect);
        check(&[0], Some(0));
        check(&[0xAC, 0x02], Some(300));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], Some(u64::MAX));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], None);
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], None);
        check(&[0x80], None);
    }

    proptest::proptest! {
        #[test]
        fn integers_round_trip(unsigned: u64, signed: i64) {
            let mut out = Vec::new();
            put(&mut out, unsigned);
            assert_eq!(out.len(), len(unsigned));
            put_signed(&mut out, signed);
            let mut cursor = Cursor::new(&out);
            assert_eq!((get(&mut cursor), get_signed(&mut cursor)), (Ok(unsigned), Ok(signed)));
            assert!(cursor.is_empty());
        }
    }
}
