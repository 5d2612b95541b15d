//! Quality descriptors (IEC 60870-5-101 7.2.6.1 to 7.2.6.4).

use core::ops::BitOr;

/// What a station says against a value; no bit is good.
///
/// The bits are those of QDS. In SIQ, DIQ and QDP only some of them are there; EI is of protection equipment alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// Nothing against it.
    pub const GOOD: Self = Self(0);
    /// OV: the value is outside its range.
    pub const OVERFLOW: Self = Self(0x01);
    /// EI: the elapsed time of protection equipment is not valid.
    pub const ELAPSED_INVALID: Self = Self(0x08);
    /// BL: the value is blocked for transmission, and stays as it was before.
    pub const BLOCKED: Self = Self(0x10);
    /// SB: the value was entered by an operator, or comes from another source.
    pub const SUBSTITUTED: Self = Self(0x20);
    /// NT: the last update of the value did not succeed.
    pub const NOT_TOPICAL: Self = Self(0x40);
    /// IV: the value is not to be used.
    pub const INVALID: Self = Self(0x80);

    /// BL, SB, NT and IV: what every descriptor has.
    const COMMON: u8 = 0xF0;

    /// Of QDS: the bits that the standard names.
    #[must_use]
    pub const fn from_qds(byte: u8) -> Self {
        Self(byte & (Self::COMMON | Self::OVERFLOW.0))
    }

    /// Of SIQ or DIQ, without the state.
    #[must_use]
    pub const fn from_state(byte: u8) -> Self {
        Self(byte & Self::COMMON)
    }

    /// Of QDP.
    #[must_use]
    pub const fn from_qdp(byte: u8) -> Self {
        Self(byte & (Self::COMMON | Self::ELAPSED_INVALID.0))
    }

    /// As bits of QDS or QDP.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether every bit of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
