//! Values that a publisher sends.

use crate::ber;
use crate::data::{
    ARRAY, BINARY_TIME, BIT_STRING, BOOLEAN, Data, EXPONENT_32, EXPONENT_64, FLOAT, INTEGER, MMS_STRING, OCTET_STRING,
    STRUCTURE, UNSIGNED, UTC_TIME, VISIBLE_STRING,
};
use crate::time::UtcTime;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bits of the longest bit string that a value holds.
const BITS_MAX: usize = 63;

/// A value, a structure or an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Values of one type.
    Array(Vec<Value>),
    /// Values of any types.
    Structure(Vec<Value>),
    /// True or false.
    Boolean(bool),
    /// So many bits, at most 63, the last of which is the least significant of the number.
    Bits {
        /// How many.
        count: u8,
        /// Which of them are set.
        bits: u64,
    },
    /// A signed number.
    Integer(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A number of 4 bytes.
    Float32(f32),
    /// A number of 8 bytes.
    Float64(f64),
    /// Bytes.
    Octets(Box<[u8]>),
    /// A text of ASCII.
    VisibleString(Box<str>),
    /// A text of UTF-8.
    MmsString(Box<str>),
    /// A moment.
    UtcTime(UtcTime),
    /// A time of day, of 4 bytes, and a day, of 6.
    BinaryTime(Box<[u8]>),
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// Of other values.
    Parts,
    /// True or false.
    Boolean,
    /// So many bits.
    Bits(u8),
    /// A signed number.
    Integer,
    /// An unsigned number.
    Unsigned,
    /// A number of 4 bytes.
    Float32,
    /// A number of 8 bytes.
    Float64,
    /// Bytes.
    Octets,
    /// A text of ASCII.
    VisibleString,
    /// A text of UTF-8.
    MmsString,
    /// A moment.
    UtcTime,
    /// A time of day.
    BinaryTime,
}

impl Value {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> ValueKind {
        match self {
            Self::Array(_) | Self::Structure(_) => ValueKind::Parts,
            Self::Boolean(_) => ValueKind::Boolean,
            Self::Bits { count, .. } => ValueKind::Bits(*count),
            Self::Integer(_) => ValueKind::Integer,
            Self::Unsigned(_) => ValueKind::Unsigned,
            Self::Float32(_) => ValueKind::Float32,
            Self::Float64(_) => ValueKind::Float64,
            Self::Octets(_) => ValueKind::Octets,
            Self::VisibleString(_) => ValueKind::VisibleString,
            Self::MmsString(_) => ValueKind::MmsString,
            Self::UtcTime(_) => ValueKind::UtcTime,
            Self::BinaryTime(_) => ValueKind::BinaryTime,
        }
    }

    /// A copy of what came; none of a type that no value has.
    #[must_use]
    pub fn of(data: Data<'_>) -> Option<Self> {
        Some(match data {
            Data::Array(members) => Self::Array(members.map(Self::of).collect::<Option<_>>()?),
            Data::Structure(members) => Self::Structure(members.map(Self::of).collect::<Option<_>>()?),
            Data::Boolean(on) => Self::Boolean(on),
            Data::BitString(bits) => {
                let number = bits.number().and_then(|number| u64::try_from(number).ok())?;
                Self::Bits { count: u8::try_from(bits.count()).ok()?, bits: number }
            }
            Data::Integer(number) => Self::Integer(number),
            Data::Unsigned(number) => Self::Unsigned(number),
            Data::Float32(number) => Self::Float32(number),
            Data::Float64(number) => Self::Float64(number),
            Data::Octets(bytes) => Self::Octets(bytes.into()),
            Data::VisibleString(text) => Self::VisibleString(text.into()),
            Data::MmsString(text) => Self::MmsString(text.into()),
            Data::UtcTime(time) => Self::UtcTime(time),
            Data::BinaryTime(bytes) => Self::BinaryTime(bytes.into()),
            Data::Other(..) => return None,
        })
    }

    /// What stands at these places within it; itself where there are none.
    pub(crate) fn part_mut(&mut self, places: &[u16]) -> Option<&mut Self> {
        let Some((place, deeper)) = places.split_first() else { return Some(self) };
        match self {
            Self::Array(members) | Self::Structure(members) => {
                members.get_mut(usize::from(*place).checked_sub(1)?)?.part_mut(deeper)
            }
            _ => None,
        }
    }

    /// Appends it as it is sent.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Array(members) => ber::emit(ARRAY, out, |out| emit_all(members, out)),
            Self::Structure(members) => ber::emit(STRUCTURE, out, |out| emit_all(members, out)),
            Self::Boolean(on) => ber::emit(BOOLEAN, out, |out| out.push(if *on { 0xFF } else { 0 })),
            Self::Bits { count, bits } => ber::emit(BIT_STRING, out, |out| emit_bits(*count, *bits, out)),
            Self::Integer(number) => ber::emit_signed(INTEGER, *number, out),
            Self::Unsigned(number) => ber::emit_unsigned(UNSIGNED, *number, out),
            Self::Float32(number) => ber::emit(FLOAT, out, |out| {
                out.push(EXPONENT_32);
                out.extend_from_slice(&number.to_be_bytes());
            }),
            Self::Float64(number) => ber::emit(FLOAT, out, |out| {
                out.push(EXPONENT_64);
                out.extend_from_slice(&number.to_be_bytes());
            }),
            Self::Octets(bytes) => ber::emit(OCTET_STRING, out, |out| out.extend_from_slice(bytes)),
            Self::VisibleString(text) => ber::emit(VISIBLE_STRING, out, |out| out.extend_from_slice(text.as_bytes())),
            Self::MmsString(text) => ber::emit(MMS_STRING, out, |out| out.extend_from_slice(text.as_bytes())),
            Self::UtcTime(time) => ber::emit(UTC_TIME, out, |out| out.extend_from_slice(&time.to_bytes())),
            Self::BinaryTime(bytes) => ber::emit(BINARY_TIME, out, |out| out.extend_from_slice(bytes)),
        }
    }
}

/// Appends values one after the other.
pub(crate) fn emit_all(values: &[Value], out: &mut Vec<u8>) {
    values.iter().for_each(|value| value.emit(out));
}

fn emit_bits(count: u8, bits: u64, out: &mut Vec<u8>) {
    let count = usize::from(count).min(BITS_MAX);
    let bytes = count.div_ceil(8);
    let unused = bytes * 8 - count;
    out.extend(u8::try_from(unused));
    let shifted = bits & ((1 << count) - 1);
    let shifted = (shifted << unused).to_be_bytes();
    out.extend_from_slice(shifted.get(shifted.len() - bytes..).unwrap_or_default());
}
