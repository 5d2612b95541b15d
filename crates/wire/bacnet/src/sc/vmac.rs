//! Who a node is: a virtual address of six bytes, and an identifier that it never changes.

use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::str::FromStr;

/// A virtual MAC address (clause AB.1.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vmac(pub [u8; 6]);

impl Vmac {
    /// All nodes.
    pub const BROADCAST: Self = Self([0xFF; 6]);

    /// A random one of these bits: the low four bits of the first byte are 2.
    #[must_use]
    pub const fn random(bits: u64) -> Self {
        let [_, _, first, b, c, d, e, f] = bits.to_be_bytes();
        Self([first & 0xF0 | 0x02, b, c, d, e, f])
    }

    /// Whether one node may have it: neither all zeros, nor an address of a group.
    #[must_use]
    pub const fn is_node(self) -> bool {
        let Self([first, b, c, d, e, f]) = self;
        first & 1 == 0 && (first | b | c | d | e | f) != 0
    }

    /// The six bytes as an address of BACnet/IP, which has six, too.
    #[must_use]
    pub const fn to_address(self) -> SocketAddrV4 {
        let Self([a, b, c, d, e, f]) = self;
        SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([e, f]))
    }

    /// The inverse of [`Vmac::to_address`].
    #[must_use]
    pub const fn from_address(address: SocketAddrV4) -> Self {
        let ([a, b, c, d], [e, f]) = (address.ip().octets(), address.port().to_be_bytes());
        Self([a, b, c, d, e, f])
    }
}

impl fmt::Display for Vmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([a, b, c, d, e, g]) = self;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is no virtual address, or no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHex;

impl fmt::Display for NotHex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected six bytes in hex, as in 02:00:00:00:00:01, or the 16 of a UUID")
    }
}

impl core::error::Error for NotHex {}

impl FromStr for Vmac {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Self, NotHex> {
        hex(text, ":-").map(Self).ok_or(NotHex)
    }
}

/// The UUID of a device (clause AB.1.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Self, NotHex> {
        hex(text, "-").map(Self).ok_or(NotHex)
    }
}

/// Bytes in hex, with nothing or one of `between` after a byte.
fn hex<const N: usize>(text: &str, between: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut digits = text.as_bytes();
    for (place, byte) in bytes.iter_mut().enumerate() {
        if let Some((first, rest)) = digits.split_first()
            && place > 0
            && between.as_bytes().contains(first)
        {
            digits = rest;
        }
        let (pair, rest) = digits.split_first_chunk::<2>()?;
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
        digits = rest;
    }
    digits.is_empty().then_some(bytes)
}
