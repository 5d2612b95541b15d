//! How a value lies in registers: its kind, and the order of registers and of the bytes in them.
//!
//! ```text
//! 0x11223344 in two registers     words big       words little
//!   bytes big                     1122 3344       3344 1122
//!   bytes little                  2211 4433       4433 2211
//! ```

mod error;
mod format;
mod value;
mod write;

pub use error::LayoutError;
pub use format::FormatError;
pub use write::{ReadModifyWrite, Write, WriteStyle};

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The most significant part, as the standard has it.
    #[default]
    Big,
    /// The least significant part.
    Little,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A coil or a discrete input; a register that is 0 or not.
    Bool,
    /// Bits of one register, from the lowest. One bit is a boolean, several are a number.
    Bits {
        /// The lowest, 0 to 15.
        first: u8,
        /// How many, 1 to 16 less the first.
        count: u8,
    },
    /// An unsigned integer of 1, 2 or 4 registers.
    Unsigned(Size),
    /// A signed integer (two's complement).
    Signed(Size),
    /// IEEE 754, 2 registers.
    Float32,
    /// IEEE 754, 4 registers.
    Float64,
    /// Decimal digits, four in a register.
    Bcd(Size),
    /// Registers of -9,999 to 9,999, each 10,000 times the next, all of one sign: 2 to 4 of them.
    Mod10k(u8),
    /// So many bytes of text, two in a register, without the zeros and blanks at its end. The order of words does not
    /// matter.
    Text(u16),
    /// So many registers as they are. The order of words does not matter.
    Bytes(u16),
}

/// The size of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// One register.
    One,
    /// Two registers.
    Two,
    /// Four registers.
    Four,
}

impl Size {
    /// How many registers.
    #[must_use]
    pub const fn registers(self) -> u16 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    const fn bits(self) -> u32 {
        match self {
            Self::One => 16,
            Self::Two => 32,
            Self::Four => 64,
        }
    }
}

/// How a value lies in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// What it is.
    pub kind: Kind,
    /// Which register comes first.
    pub words: Order,
    /// Which byte comes first in a register.
    pub bytes: Order,
}

impl Layout {
    /// In the standard's order.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self { kind, words: Order::Big, bytes: Order::Big }
    }

    /// How many registers it takes.
    #[must_use]
    pub const fn registers(&self) -> u16 {
        match self.kind {
            Kind::Bool | Kind::Bits { .. } => 1,
            Kind::Unsigned(size) | Kind::Signed(size) | Kind::Bcd(size) => size.registers(),
            Kind::Float32 => 2,
            Kind::Float64 => 4,
            Kind::Mod10k(count) => count as u16,
            Kind::Text(bytes) => bytes.div_ceil(2),
            Kind::Bytes(registers) => registers,
        }
    }
}
