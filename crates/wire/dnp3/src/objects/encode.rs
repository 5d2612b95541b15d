//! From fields to octets.

use super::{FlagsForm, Layout, TimeField, TimeForm, ValueForm};
use crate::{DnpTime, Flags, Measured};
use alloc::vec::Vec;

/// The value is not of the kind that the layout holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongValue;

impl Layout {
    /// Appends an object that is not packed. An analog value beyond the width is clamped and flagged
    /// [`Flags::OVER_RANGE`]; a fraction is rounded; a counter keeps its low bits, as it rolls over (IEEE 1815 A.8). A time
    /// form that does not fit is written as 0.
    ///
    /// # Errors
    /// The value is of another kind; nothing was appended.
    pub fn encode(&self, value: &Measured, flags: Flags, time: TimeField, out: &mut Vec<u8>) -> Result<(), WrongValue> {
        let before = out.len();
        let flags_at = self.encode_flags(value, flags, out)?;
        let Ok(in_range) = self.encode_value(value, out) else {
            out.truncate(before);
            return Err(WrongValue);
        };
        if !in_range && let Some(octet) = flags_at.and_then(|at| out.get_mut(at)) {
            *octet |= Flags::OVER_RANGE.0;
        }
        match (self.time, time) {
            (TimeForm::None, _) => {}
            (TimeForm::Absolute, TimeField::Absolute(time)) => out.extend_from_slice(&octets_of_time(time)),
            (TimeForm::Absolute, TimeField::None | TimeField::Relative(_)) => out.extend_from_slice(&[0; 6]),
            (TimeForm::Relative, TimeField::Relative(millis)) => out.extend_from_slice(&millis.to_le_bytes()),
            (TimeForm::Relative, TimeField::None | TimeField::Absolute(_)) => out.extend_from_slice(&[0; 2]),
        }
        Ok(())
    }

    /// Appends the first octet, if there is one, and says where it is.
    fn encode_flags(&self, value: &Measured, flags: Flags, out: &mut Vec<u8>) -> Result<Option<usize>, WrongValue> {
        let octet = match (self.flags, value) {
            (FlagsForm::None, _) => return Ok(None),
            (FlagsForm::Flags | FlagsForm::Status, _) => flags.0,
            (FlagsForm::FlagsBit | FlagsForm::StatusBit, Measured::Bit(state)) => {
                flags.0 & 0x7F | if *state { 0x80 } else { 0 }
            }
            (FlagsForm::FlagsDoubleBit, Measured::DoubleBit(state)) => flags.0 & 0x3F | state.bits() << 6,
            (FlagsForm::FlagsBit | FlagsForm::StatusBit | FlagsForm::FlagsDoubleBit, _) => return Err(WrongValue),
        };
        out.push(octet);
        Ok(Some(out.len() - 1))
    }

    /// Appends the value and says whether it was within range.
    fn encode_value(&self, value: &Measured, out: &mut Vec<u8>) -> Result<bool, WrongValue> {
        Ok(match (self.value, value) {
            (ValueForm::None, _) => true,
            (ValueForm::U8, Measured::Count(count)) => {
                out.extend(count.to_le_bytes().first());
                true
            }
            (ValueForm::U16, Measured::Count(count)) => {
                let [a, b, ..] = count.to_le_bytes();
                out.extend_from_slice(&[a, b]);
                true
            }
            (ValueForm::U32, Measured::Count(count)) => {
                out.extend_from_slice(&count.to_le_bytes());
                true
            }
            (ValueForm::I16, Measured::Analog(x)) => {
                let (whole, in_range) = rounded(*x, f64::from(i16::MIN), f64::from(i16::MAX));
                out.extend_from_slice(&i16::try_from(whole).unwrap_or_default().to_le_bytes());
                in_range
            }
            (ValueForm::I32, Measured::Analog(x)) => {
                let (whole, in_range) = rounded(*x, f64::from(i32::MIN), f64::from(i32::MAX));
                out.extend_from_slice(&whole.to_le_bytes());
                in_range
            }
            (ValueForm::F32, Measured::Analog(x)) => {
                let (narrow, in_range) = narrowed(*x);
                out.extend_from_slice(&narrow.to_le_bytes());
                in_range
            }
            (ValueForm::F64, Measured::Analog(x)) => {
                out.extend_from_slice(&x.to_le_bytes());
                true
            }
            (ValueForm::Octets, Measured::Octets(octets)) => {
                let size = self.octets().unwrap_or(octets.len());
                out.extend(octets.iter().copied().chain(core::iter::repeat(0)).take(size));
                true
            }
            (
                ValueForm::Bit
                | ValueForm::DoubleBit
                | ValueForm::U8
                | ValueForm::U16
                | ValueForm::U32
                | ValueForm::I16
                | ValueForm::I32
                | ValueForm::F32
                | ValueForm::F64
                | ValueForm::Octets,
                _,
            ) => return Err(WrongValue),
        })
    }

    /// The bits of a packed object.
    ///
    /// # Errors
    /// The value is of another kind, or the layout is not packed.
    pub fn encode_packed(&self, value: &Measured) -> Result<u8, WrongValue> {
        match (self.value, value) {
            (ValueForm::Bit, Measured::Bit(state)) => Ok(u8::from(*state)),
            (ValueForm::DoubleBit, Measured::DoubleBit(state)) => Ok(state.bits()),
            _ => Err(WrongValue),
        }
    }
}

/// The 48 bits of a time.
#[must_use]
pub(crate) const fn octets_of_time(time: DnpTime) -> [u8; 6] {
    let [a, b, c, d, e, f, _, _] = time.millis().to_le_bytes();
    [a, b, c, d, e, f]
}

/// The nearest whole number within the limits, and whether the value lay within them; 0 for what is no number.
#[expect(clippy::cast_possible_truncation, reason = "the value is clamped to 32 bits before, and a cast saturates")]
fn rounded(x: f64, min: f64, max: f64) -> (i32, bool) {
    if x.is_nan() {
        return (0, false);
    }
    let nearest = x + 0.5_f64.copysign(x);
    let clamped = nearest.clamp(min, max);
    (clamped as i32, nearest > min - 1.0 && nearest < max + 1.0)
}

/// The nearest 32-bit value, and whether it is in range; infinities and what is no number stay as they are.
#[expect(clippy::cast_possible_truncation, reason = "the loss of precision is what the variation asks for")]
fn narrowed(x: f64) -> (f32, bool) {
    let narrow = x as f32;
    if narrow.is_infinite() && x.is_finite() {
        return (f32::MAX.copysign(narrow), false);
    }
    (narrow, true)
}
