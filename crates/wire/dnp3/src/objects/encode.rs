//! From fields to bytes.

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
    #[inline]
    pub fn encode(&self, value: &Measured, flags: Flags, time: TimeField, out: &mut Vec<u8>) -> Result<(), WrongValue> {
        if let (ValueForm::Bytes, Measured::Bytes(bytes)) = (self.value, value) {
            let size = self.bytes().unwrap_or(bytes.len());
            out.extend(bytes.iter().copied().chain(core::iter::repeat(0)).take(size));
            return Ok(());
        }
        let number = self.number(value)?;
        let over = !number.in_range && self.flags == FlagsForm::Flags;
        let flags = if over { flags.with(Flags::OVER_RANGE) } else { flags };
        match (self.flags, value) {
            (FlagsForm::None, _) => {}
            (FlagsForm::Flags | FlagsForm::Status, _) => out.push(flags.0),
            (FlagsForm::FlagsBit | FlagsForm::StatusBit, Measured::Bit(state)) => {
                out.push(flags.0 & 0x7F | if *state { 0x80 } else { 0 });
            }
            (FlagsForm::FlagsDoubleBit, Measured::DoubleBit(state)) => out.push(flags.0 & 0x3F | state.bits() << 6),
            (FlagsForm::FlagsBit | FlagsForm::StatusBit | FlagsForm::FlagsDoubleBit, _) => return Err(WrongValue),
        }
        push_low(number.bits, number.bytes, out);
        match (self.time, time) {
            (TimeForm::None, _) => {}
            (TimeForm::Absolute, TimeField::Absolute(time)) => push_low(time.millis(), 6, out),
            (TimeForm::Absolute, TimeField::None | TimeField::Relative(_)) => push_low(0, 6, out),
            (TimeForm::Relative, TimeField::Relative(millis)) => push_low(u64::from(millis), 2, out),
            (TimeForm::Relative, TimeField::None | TimeField::Absolute(_)) => push_low(0, 2, out),
        }
        Ok(())
    }

    /// The value as it stands between the first byte and the time.
    #[inline]
    fn number(&self, value: &Measured) -> Result<Number, WrongValue> {
        let whole = |bits, bytes| Number { bits, bytes, in_range: true };
        Ok(match (self.value, value) {
            (ValueForm::None, _) => whole(0, 0),
            (ValueForm::U8, Measured::Count(count)) => whole(u64::from(*count), 1),
            (ValueForm::U16, Measured::Count(count)) => whole(u64::from(*count), 2),
            (ValueForm::U32, Measured::Count(count)) => whole(u64::from(*count), 4),
            (ValueForm::I16, Measured::Analog(x)) => {
                let (nearest, in_range) = rounded(*x, f64::from(i16::MIN), f64::from(i16::MAX));
                Number { bits: u64::from(nearest.cast_unsigned()), bytes: 2, in_range }
            }
            (ValueForm::I32, Measured::Analog(x)) => {
                let (nearest, in_range) = rounded(*x, f64::from(i32::MIN), f64::from(i32::MAX));
                Number { bits: u64::from(nearest.cast_unsigned()), bytes: 4, in_range }
            }
            (ValueForm::F32, Measured::Analog(x)) => {
                let (narrow, in_range) = narrowed(*x);
                Number { bits: u64::from(narrow.to_bits()), bytes: 4, in_range }
            }
            (ValueForm::F64, Measured::Analog(x)) => whole(x.to_bits(), 8),
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
                | ValueForm::Bytes,
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

impl ValueForm {
    /// The value of a point with such bits, a bit, a double-bit code, a count, or those of a double, as it stands behind the
    /// first byte; and whether the width holds it. As [`Layout::encode`] writes it; None unless the form is a number or nothing.
    #[inline(always)]
    pub(crate) fn number_of(self, bits: u64) -> Option<(u64, bool)> {
        let [b0, b1, b2, b3, ..] = bits.to_le_bytes();
        Some(match self {
            Self::None => (0, true),
            Self::U8 => (u64::from(b0), true),
            Self::U16 => (u64::from(u16::from_le_bytes([b0, b1])), true),
            Self::U32 => (u64::from(u32::from_le_bytes([b0, b1, b2, b3])), true),
            Self::I16 => {
                let (nearest, in_range) = rounded(f64::from_bits(bits), f64::from(i16::MIN), f64::from(i16::MAX));
                (u64::from(nearest.cast_unsigned()) & 0xFFFF, in_range)
            }
            Self::I32 => {
                let (nearest, in_range) = rounded(f64::from_bits(bits), f64::from(i32::MIN), f64::from(i32::MAX));
                (u64::from(nearest.cast_unsigned()), in_range)
            }
            Self::F32 => {
                let (narrow, in_range) = narrowed(f64::from_bits(bits));
                (u64::from(narrow.to_bits()), in_range)
            }
            Self::F64 => (bits, true),
            Self::Bit | Self::DoubleBit | Self::Bytes => return None,
        })
    }
}

impl FlagsForm {
    /// The first byte of a point with such bits, as [`Layout::encode`] writes it; None where there is none.
    #[inline(always)]
    pub(crate) fn first_byte(self, bits: u64, flags: Flags, in_range: bool) -> Option<u8> {
        let [code, ..] = bits.to_le_bytes();
        Some(match self {
            Self::None => return None,
            Self::Flags if !in_range => flags.with(Flags::OVER_RANGE).0,
            Self::Flags | Self::Status => flags.0,
            Self::FlagsBit | Self::StatusBit => flags.0 & 0x7F | if bits == 0 { 0 } else { 0x80 },
            Self::FlagsDoubleBit => flags.0 & 0x3F | code << 6,
        })
    }
}

/// A value's bits, of which the lowest `bytes` bytes are sent.
struct Number {
    bits: u64,
    bytes: usize,
    /// Whether the width holds the value.
    in_range: bool,
}

/// Appends the lowest bytes of `bits`, low byte first. One store of fixed size and a cut cost less than a copy whose
/// length is known only as it runs.
#[inline]
pub(crate) fn push_low(bits: u64, bytes: usize, out: &mut Vec<u8>) {
    let end = out.len() + bytes;
    out.extend_from_slice(&bits.to_le_bytes());
    out.truncate(end);
}

/// The 48 bits of a time.
#[must_use]
pub(crate) const fn bytes_of_time(time: DnpTime) -> [u8; 6] {
    let [a, b, c, d, e, f, _, _] = time.millis().to_le_bytes();
    [a, b, c, d, e, f]
}

/// The nearest whole number within the limits, and whether the value lay within them; 0 for what is no number.
#[expect(clippy::cast_possible_truncation, reason = "the value is clamped to 32 bits before, and a cast saturates")]
#[inline]
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
#[inline]
fn narrowed(x: f64) -> (f32, bool) {
    let narrow = x as f32;
    if narrow.is_infinite() && x.is_finite() {
        return (f32::MAX.copysign(narrow), false);
    }
    (narrow, true)
}
