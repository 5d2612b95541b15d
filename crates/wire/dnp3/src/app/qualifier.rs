//! The qualifier byte (IEEE 1815 4.2.2.7.3): how objects are prefixed, and how they are counted.

use core::fmt;

/// The qualifier byte; [`Qualifier::parts`] tells whether it is a legal one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Qualifier(pub u8);

/// What stands before each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prefix {
    /// 0: nothing.
    None,
    /// 1-3: its index, in so many bytes (1, 2, 4).
    Index(u8),
    /// 4-6: its size, in so many bytes (1, 2, 4).
    Size(u8),
}

/// What stands before all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeCode {
    /// 0-2: first and last index, each in so many bytes (1, 2, 4).
    Span(u8),
    /// 6: nothing; all objects are meant.
    All,
    /// 7-9: how many, in so many bytes (1, 2, 4).
    Count(u8),
    /// B: how many, in one byte, each with its size before it.
    Free,
}

impl Qualifier {
    /// 00: first and last index in one byte each.
    pub const SPAN_8: Self = Self(0x00);
    /// 01: first and last index in two bytes each.
    pub const SPAN_16: Self = Self(0x01);
    /// 06: all objects.
    pub const ALL: Self = Self(0x06);
    /// 07: a count in one byte.
    pub const COUNT_8: Self = Self(0x07);
    /// 08: a count in two bytes.
    pub const COUNT_16: Self = Self(0x08);
    /// 17: a count and indices, in one byte each.
    pub const INDEXED_8: Self = Self(0x17);
    /// 28: a count and indices, in two bytes each.
    pub const INDEXED_16: Self = Self(0x28);
    /// 5B: a count in one byte and sizes in two.
    pub const FREE: Self = Self(0x5B);

    /// Prefix and range; None for what the standard reserves or forbids to combine.
    #[must_use]
    pub const fn parts(self) -> Option<(Prefix, RangeCode)> {
        let prefix = match self.0 >> 4 {
            0 => Prefix::None,
            1 => Prefix::Index(1),
            2 => Prefix::Index(2),
            3 => Prefix::Index(4),
            4 => Prefix::Size(1),
            5 => Prefix::Size(2),
            6 => Prefix::Size(4),
            _ => return None,
        };
        let range = match self.0 & 0x0F {
            0 => RangeCode::Span(1),
            1 => RangeCode::Span(2),
            2 => RangeCode::Span(4),
            6 => RangeCode::All,
            7 => RangeCode::Count(1),
            8 => RangeCode::Count(2),
            9 => RangeCode::Count(4),
            0xB => RangeCode::Free,
            _ => return None,
        };
        match (prefix, range) {
            (Prefix::None, RangeCode::Free) => None,
            (Prefix::None, _)
            | (Prefix::Index(_) | Prefix::Size(_), RangeCode::Count(_))
            | (Prefix::Size(_), RangeCode::Free) => Some((prefix, range)),
            (Prefix::Index(_), _) | (Prefix::Size(_), _) => None,
        }
    }
}

impl fmt::Display for Qualifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02X}", self.0)
    }
}

impl fmt::Debug for Qualifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qualifier({self})")
    }
}
