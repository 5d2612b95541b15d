//! Registers that are no value, and values that fit no register.

use core::fmt;

/// Why registers are no value of a layout, or a value has no registers in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Another number of registers.
    Registers {
        /// How many there are.
        found: usize,
        /// How many the layout has.
        expected: u16,
    },
    /// A register that holds a digit above nine.
    Bcd(u16),
    /// A register above 9,999 or of another sign than the others.
    Mod10k(u16),
    /// A value of a type that the layout cannot hold.
    Type {
        /// What it can hold.
        expected: &'static str,
    },
    /// A number outside the layout's range.
    Range {
        /// The smallest.
        min: i128,
        /// The largest.
        max: i128,
    },
    /// A number that is none in 32 bits.
    FloatRange,
    /// More bytes than there is room for.
    TooLong {
        /// How many there are.
        found: usize,
        /// How many there is room for.
        max: usize,
    },
    /// A table that cannot be written, or a layout that is not of this table.
    Table,
    /// Addresses beyond 65,535, or more registers than one request writes.
    Address,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registers { found, expected } => write!(f, "{found} registers, expected {expected}"),
            Self::Bcd(register) => write!(f, "a register of {register:#06X}, expected decimal digits"),
            Self::Mod10k(register) => {
                write!(f, "a register of {register}, expected -9999 to 9999 and one sign in all registers")
            }
            Self::Type { expected } => write!(f, "a value of another type, expected {expected}"),
            Self::Range { min, max } => write!(f, "a number out of range, expected {min} to {max}"),
            Self::FloatRange => f.write_str("a number out of range, expected one that 32 bits can hold"),
            Self::TooLong { found, max } => write!(f, "{found} bytes, expected at most {max}"),
            Self::Table => f.write_str("a point that cannot be written, expected a coil or a holding register"),
            Self::Address => f.write_str("more registers than one request writes, or an address beyond 65535"),
        }
    }
}

impl core::error::Error for LayoutError {}
