//! From bytes to fields.

use super::{FlagsForm, Layout, TimeForm, ValueForm};
use crate::{DnpTime, DoubleBit, Flags, Measured};
use tieline_core::{Cursor, Truncated};

/// The time of an object as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeField {
    /// The object has none.
    None,
    /// A whole time.
    Absolute(DnpTime),
    /// Milliseconds since the common time of occurrence.
    Relative(u16),
}

/// The fields of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    /// Its flags or status without state bits; [`Flags::ONLINE`] where it has none.
    pub flags: Flags,
    /// Its value; None for objects that are only a time.
    pub value: Option<Measured>,
    /// Its time.
    pub time: TimeField,
}

impl Layout {
    /// Reads an object that is not packed.
    ///
    /// # Errors
    /// `bytes` is shorter than the object.
    #[inline(always)]
    pub fn decode(&self, bytes: &[u8]) -> Result<Fields, Truncated> {
        let mut cursor = Cursor::new(bytes);
        let (flags, state) = self.decode_flags(&mut cursor)?;
        let value = match self.value {
            ValueForm::None => state,
            ValueForm::Bit | ValueForm::DoubleBit => None,
            ValueForm::U8 => Some(Measured::Count(u32::from(cursor.u8()?))),
            ValueForm::U16 => Some(Measured::Count(u32::from(cursor.u16_le()?))),
            ValueForm::U32 => Some(Measured::Count(cursor.u32_le()?)),
            ValueForm::I16 => Some(Measured::Analog(f64::from(cursor.i16_le()?))),
            ValueForm::I32 => Some(Measured::Analog(f64::from(cursor.i32_le()?))),
            ValueForm::F32 => Some(Measured::Analog(f64::from(cursor.f32_le()?))),
            ValueForm::F64 => Some(Measured::Analog(cursor.f64_le()?)),
            ValueForm::Bytes => Some(Measured::Bytes(cursor.take(self.bytes().unwrap_or(cursor.left()))?.into())),
        };
        let time = match self.time {
            TimeForm::None => TimeField::None,
            TimeForm::Absolute => TimeField::Absolute(DnpTime::from_millis(cursor.u48_le()?)),
            TimeForm::Relative => TimeField::Relative(cursor.u16_le()?),
        };
        Ok(Fields { flags, value, time })
    }

    #[inline]
    fn decode_flags(&self, cursor: &mut Cursor<'_>) -> Result<(Flags, Option<Measured>), Truncated> {
        Ok(match self.flags {
            FlagsForm::None => (Flags::ONLINE, None),
            FlagsForm::Flags | FlagsForm::Status => (Flags(cursor.u8()?), None),
            FlagsForm::FlagsBit | FlagsForm::StatusBit => {
                let byte = cursor.u8()?;
                (Flags(byte & 0x7F), Some(Measured::Bit(byte & 0x80 != 0)))
            }
            FlagsForm::FlagsDoubleBit => {
                let byte = cursor.u8()?;
                (Flags(byte & 0x3F), Some(Measured::DoubleBit(DoubleBit::from_bits(byte >> 6))))
            }
        })
    }

    /// Reads packed object number `position` of `bytes`; None when it lies beyond them or the layout is not packed.
    #[must_use]
    pub fn decode_packed(&self, bytes: &[u8], position: usize) -> Option<Measured> {
        let at = |per_byte: usize, bits: usize| {
            bytes.get(position / per_byte).map(|byte| byte >> (position % per_byte * bits))
        };
        match self.value {
            ValueForm::Bit => at(8, 1).map(|bits| Measured::Bit(bits & 1 == 1)),
            ValueForm::DoubleBit => at(4, 2).map(|bits| Measured::DoubleBit(DoubleBit::from_bits(bits))),
            ValueForm::None
            | ValueForm::U8
            | ValueForm::U16
            | ValueForm::U32
            | ValueForm::I16
            | ValueForm::I32
            | ValueForm::F32
            | ValueForm::F64
            | ValueForm::Bytes => None,
        }
    }
}
