//! Reading wire bytes without an index, an unwrap or a cast.

use core::fmt;

/// The bytes ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Bytes that the value needs.
    pub needed: usize,
    /// Bytes that were left.
    pub left: usize,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes needed, {} left", self.needed, self.left)
    }
}

impl core::error::Error for Truncated {}

/// A reader that moves over a slice of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

macro_rules! integers {
    ($($le:ident $be:ident $type:ty;)*) => {$(
        #[doc = concat!("The next `", stringify!($type), "`, low byte first.")]
        #[inline]
        pub fn $le(&mut self) -> Result<$type, Truncated> {
            Ok(<$type>::from_le_bytes(self.array()?))
        }
        #[doc = concat!("The next `", stringify!($type), "`, high byte first.")]
        #[inline]
        pub fn $be(&mut self) -> Result<$type, Truncated> {
            Ok(<$type>::from_be_bytes(self.array()?))
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes have not been read.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether all was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// Fewer are left; nothing is read then, here and in every other reader of this type.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Truncated { needed: N, left: self.rest.len() })?;
        self.rest = rest;
        Ok(*head)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let short = Truncated { needed: count, left: self.rest.len() };
        let (head, rest) = self.rest.split_at_checked(count).ok_or(short)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next byte.
    ///
    /// # Errors
    /// None is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    integers! {
        u16_le u16_be u16;
        u32_le u32_be u32;
        u64_le u64_be u64;
        i16_le i16_be i16;
        i32_le i32_be i32;
        i64_le i64_be i64;
        f32_le f32_be f32;
        f64_le f64_be f64;
    }

    /// The next 48-bit unsigned integer, low byte first.
    ///
    /// # Errors
    /// Fewer than six bytes are left.
    #[inline]
    pub fn u48_le(&mut self) -> Result<u64, Truncated> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_read_moves_nothing() {
        let mut cursor = Cursor::new(&[1, 2, 3]);
        assert_eq!(cursor.u32_le(), Err(Truncated { needed: 4, left: 3 }));
        assert_eq!(cursor.u16_le(), Ok(0x0201));
        assert_eq!(cursor.take(2), Err(Truncated { needed: 2, left: 1 }));
        assert_eq!(cursor.u8(), Ok(3));
        assert!(cursor.is_empty());
    }
}
