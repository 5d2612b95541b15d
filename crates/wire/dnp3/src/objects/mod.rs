//! The objects of DNP3: what each group and variation looks like (IEEE 1815 annex A).
//!
//! The table is `objects.toml` at the root of this crate; `cargo xtask gen` turns it into `generated.rs`, and
//! `cargo xtask gen --check` (and a test) proves that both agree. Every object with fields has them in one order:
//!
//! ```text
//! flags or status, 1 byte | value, 0-8 bytes | time, 0, 2 or 6 bytes       low byte first
//! packed: 1 or 2 bits an object, first object in the lowest bits of the first byte
//! ```

mod decode;
mod encode;
#[rustfmt::skip]
mod generated;

pub use decode::{Fields, TimeField};
pub use encode::WrongValue;
pub(crate) use encode::{bytes_of_time, push_low};

use crate::{GroupVar, PointType};

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Present values of points.
    Static,
    /// Changes of points.
    Event,
    /// Commands to points.
    Command,
    /// All else.
    Other,
}

/// How many bytes one object takes, without its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// So many bits; the last byte of a header's objects is filled up.
    Bits(u8),
    /// So many bytes.
    Bytes(u8),
    /// As many bytes as the variation's number.
    Variation,
    /// A type byte, a length byte, and so many bytes more: group 0.
    Own,
    /// Only a size prefix tells.
    Prefixed,
}

/// What the first byte of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlagsForm {
    /// Not there: the object is online.
    None,
    /// Flags.
    Flags,
    /// Flags in bits 0-6, the state in bit 7.
    FlagsBit,
    /// Flags in bits 0-5, the state in bits 6 and 7.
    FlagsDoubleBit,
    /// A control status code.
    Status,
    /// A control status code in bits 0-6, the commanded state in bit 7.
    StatusBit,
}

/// What the value of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueForm {
    /// Not there, or held by the first byte.
    None,
    /// One packed bit.
    Bit,
    /// Two packed bits.
    DoubleBit,
    /// 8 bits, unsigned.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 16 bits, signed.
    I16,
    /// 32 bits, signed.
    I32,
    /// IEEE 754, 32 bits.
    F32,
    /// IEEE 754, 64 bits.
    F64,
    /// Bytes as they are.
    Bytes,
}

/// What the time of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeForm {
    /// Not there.
    None,
    /// Milliseconds since 1970, 48 bits.
    Absolute,
    /// Milliseconds since the common time of occurrence (group 51), 16 bits.
    Relative,
}

/// What one group and variation looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Which group and variation; for groups whose variation is a length or a name, the variation asked for.
    pub object: GroupVar,
    /// The name of the group.
    pub name: &'static str,
    /// What the group is for.
    pub kind: Kind,
    /// Which points it speaks of, where this crate knows such points.
    pub point_type: Option<PointType>,
    /// Bytes of one object.
    pub size: Size,
    /// Its first byte.
    pub flags: FlagsForm,
    /// Its value.
    pub value: ValueForm,
    /// Its time.
    pub time: TimeForm,
}

impl Layout {
    /// The layout of a group and variation; None when unknown, and for variation 0, which has none.
    #[must_use]
    pub fn find(object: GroupVar) -> Option<Self> {
        let layout = generated::LAYOUTS.get(generated::position(object.group, object.variation)?)?;
        Some(Self { object, ..*layout })
    }

    /// All layouts, by group and variation; groups of any variation appear once, with variation 1.
    pub fn all() -> impl Iterator<Item = Self> {
        generated::LAYOUTS.iter().copied()
    }

    /// Bytes of one object without prefix; None when only its contents tell, or when it is a part of a byte.
    #[must_use]
    pub const fn bytes(&self) -> Option<usize> {
        match self.size {
            Size::Bytes(bytes) => Some(bytes as usize),
            Size::Variation => Some(self.object.variation as usize),
            Size::Bits(_) | Size::Own | Size::Prefixed => None,
        }
    }

    /// Whether the object can say that its value is not plainly online.
    #[must_use]
    pub const fn carries_flags(&self) -> bool {
        matches!(self.flags, FlagsForm::Flags | FlagsForm::FlagsBit | FlagsForm::FlagsDoubleBit)
    }
}

/// The points that a group speaks of, and whether as [`Kind::Static`] or [`Kind::Event`].
#[must_use]
pub fn point_group(group: u8) -> Option<(PointType, Kind)> {
    PointType::ALL.into_iter().find_map(|point_type| {
        if point_type.static_group() == group {
            Some((point_type, Kind::Static))
        } else if point_type.event_group() == group {
            Some((point_type, Kind::Event))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests;
