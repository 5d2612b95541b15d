//! Integers of as many bytes as they need: seven bits a byte, low bits first, the high bit set on all but the last.

use crate::{Cursor, Truncated};
use alloc::vec::Vec;
use core::fmt;

/// Why bytes are not such an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarintError {
    /// They end too early.
    Truncated,
    /// The integer has more than 64 bits, or a length does not fit into memory.
    TooLarge,
}

impl fmt::Display for VarintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "an integer ends too early",
            Self::TooLarge => "an integer of more than 64 bits",
        })
    }
}

impl core::error::Error for VarintError {}

impl From<Truncated> for VarintError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// Appends an unsigned integer, 1 to 10 bytes.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7F) as u8);
}

/// Appends a signed integer: 0, -1, 1, -2 … are 0, 1, 2, 3 ….
#[inline]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Appends a count of bytes.
#[inline]
pub fn put_len(out: &mut Vec<u8>, count: usize) {
    put(out, u64::try_from(count).unwrap_or(u64::MAX));
}

/// Reads an unsigned integer.
///
/// # Errors
/// The bytes end too early, or it has more than 64 bits.
#[inline]
pub fn get(cursor: &mut Cursor<'_>) -> Result<u64, VarintError> {
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
    Err(VarintError::TooLarge)
}

/// Reads a signed integer.
///
/// # Errors
/// As [`get`].
#[inline]
pub fn get_signed(cursor: &mut Cursor<'_>) -> Result<i64, VarintError> {
    get(cursor).map(unzigzag)
}

/// Reads a count of bytes.
///
/// # Errors
/// As [`get`], or it does not fit into memory.
#[inline]
pub fn get_len(cursor: &mut Cursor<'_>) -> Result<usize, VarintError> {
    usize::try_from(get(cursor)?).map_err(|_| VarintError::TooLarge)
}

/// A signed integer with its sign in the lowest bit, so that small ones of either sign are small.
#[must_use]
#[inline]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The way back from [`zigzag`].
#[must_use]
#[inline]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Bytes that an unsigned integer takes.
#[must_use]
#[inline]
pub const fn len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        use VarintError::{TooLarge, Truncated};
        let check = |bytes: &[u8], expect: Result<u64, VarintError>| assert_eq!(get(&mut Cursor::new(bytes)), expect);
        check(&[0], Ok(0));
        check(&[0xAC, 0x02], Ok(300));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], Ok(u64::MAX));
        check(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], Err(TooLarge));
        check(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], Err(TooLarge));
        check(&[0x80], Err(Truncated));
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
