//! From one state of a point to a later one.
//!
//! ```text
//! short  [varint  zigzag(number's step) · 2    ][zigzag residual, unless it is 0]
//! long   [varint  flags · 2 + 1][number][varint quality][pace][zigzag residual]      each if its flag says so
//!
//! flags    bits 0-1  number: 0 as it was · 1 zigzag step · 2 exclusive or · 3 whole (tag byte 0-7, value)
//!          bit 2     quality      bit 3  pace      bit 4  residual
//! pace     [varint zigzag(step) · 4 + unit]
//! xor      [bytes that are zero at the high end · 16 + bytes that follow][bytes, low first]
//!
//! time  =  base's time + (step + residual) · unit, with the step and unit that the delta leaves behind
//! ```

use super::number::Number;
use super::whole::{legal_time, parse_quality};
use super::{PointState, Unit};
use crate::DeltaError;
use alloc::vec::Vec;
use tieline_core::Cursor;
use tieline_core::varint;

const NUMBER_STEP: u64 = 1;
const NUMBER_XOR: u64 = 2;
const NUMBER_WHOLE: u64 = 3;
const QUALITY: u64 = 1 << 2;
const PACE: u64 = 1 << 3;
const RESIDUAL: u64 = 1 << 4;

impl PointState {
    /// Appends what makes `next` of `self`; false where that cannot be said in `next`'s unit of time.
    pub(crate) fn diff(&self, next: &Self, out: &mut Vec<u8>) -> bool {
        let Some(residual) = self.residual(next) else { return false };
        let same_pace = self.unit == next.unit && self.step == next.step;
        let distance = self.number.distance(&next.number);
        if let (Some(by), true, true) = (distance, same_pace, self.quality == next.quality)
            && let Some(short) = varint::zigzag(by).checked_mul(2)
        {
            varint::put(out, short);
            if residual != 0 {
                varint::put_signed(out, residual);
            }
            return true;
        }
        let number = match (distance, &self.number, &next.number) {
            (Some(0), ..) => 0,
            (Some(_), ..) => NUMBER_STEP,
            (None, Number::Float(_), Number::Float(_)) => NUMBER_XOR,
            (None, ..) => NUMBER_WHOLE,
        };
        let quality = if self.quality == next.quality { 0 } else { QUALITY };
        let pace = if same_pace { 0 } else { PACE };
        let late = if residual == 0 { 0 } else { RESIDUAL };
        varint::put(out, (number | quality | pace | late) << 1 | 1);
        match (distance, &self.number, &next.number) {
            (Some(0), ..) => (),
            (Some(by), ..) => varint::put_signed(out, by),
            (None, Number::Float(a), Number::Float(b)) => put_xor(out, a.to_bits() ^ b.to_bits()),
            (None, _, whole) => {
                out.push(whole.tag());
                whole.emit(out);
            }
        }
        if quality != 0 {
            varint::put(out, u64::from(next.quality.bits()));
        }
        if pace != 0 {
            varint::put(out, varint::zigzag(next.step) << 2 | u64::from(next.unit.code()));
        }
        if late != 0 {
            varint::put_signed(out, residual);
        }
        true
    }

    /// How much later than expected `next` is, in its units.
    fn residual(&self, next: &Self) -> Option<i64> {
        let passed = next.micros.checked_sub(self.micros)?;
        let unit = next.unit.micros();
        if passed % unit == 0 { (passed / unit).checked_sub(next.step) } else { None }
    }

    /// The state that `delta` makes of `self`.
    ///
    /// # Errors
    /// The delta is malformed, or a text is longer than `value_bytes_max`.
    pub fn apply(&self, delta: &[u8], value_bytes_max: usize) -> Result<Self, DeltaError> {
        let mut cursor = Cursor::new(delta);
        let first = varint::get(&mut cursor)?;
        let (mut quality, mut unit, mut step) = (self.quality, self.unit, self.step);
        let (number, late) = if first & 1 == 0 {
            let number = self.number.moved(varint::unzigzag(first >> 1)).ok_or(NO_NUMBER)?;
            (number, !cursor.is_empty())
        } else {
            let flags = first >> 1;
            if flags >= RESIDUAL << 1 {
                return Err(DeltaError::Malformed("an unknown flag of a point"));
            }
            let number = self.number_from(flags & 3, &mut cursor, value_bytes_max)?;
            if flags & QUALITY != 0 {
                quality = parse_quality(&mut cursor)?;
            }
            if flags & PACE != 0 {
                let pace = varint::get(&mut cursor)?;
                unit = Unit::from_code(pace & 3).ok_or(DeltaError::Malformed("an unknown unit of time"))?;
                step = varint::unzigzag(pace >> 2);
            }
            (number, flags & RESIDUAL != 0)
        };
        let residual = if late { varint::get_signed(&mut cursor)? } else { 0 };
        if !cursor.is_empty() {
            return Err(DeltaError::Malformed("bytes after a point"));
        }
        let passed = step.checked_add(residual).and_then(|units| units.checked_mul(unit.micros()));
        let micros = passed.and_then(|passed| self.micros.checked_add(passed)).unwrap_or(i64::MAX);
        Ok(Self { number, quality, micros: legal_time(micros)?, unit, step })
    }

    fn number_from(&self, form: u64, cursor: &mut Cursor<'_>, value_bytes_max: usize) -> Result<Number, DeltaError> {
        match form {
            NUMBER_STEP => self.number.moved(varint::get_signed(cursor)?).ok_or(NO_NUMBER),
            NUMBER_XOR => match &self.number {
                Number::Float(x) => Ok(Number::Float(f64::from_bits(x.to_bits() ^ xor(cursor)?))),
                _ => Err(NO_NUMBER),
            },
            NUMBER_WHOLE => Number::parse(cursor.u8()?, cursor, value_bytes_max),
            _ => Ok(self.number.clone()),
        }
    }
}

const NO_NUMBER: DeltaError = DeltaError::Malformed("a step that the value cannot take");

fn put_xor(out: &mut Vec<u8>, xor: u64) {
    let zeros = (xor | 1).leading_zeros() / 8;
    let tail = if xor == 0 { 7 - zeros } else { xor.trailing_zeros() / 8 };
    let count = 8 - zeros - tail;
    let [head, ..] = (zeros << 4 | count).to_le_bytes();
    out.push(head);
    out.extend((xor >> (tail * 8)).to_le_bytes().into_iter().take(count as usize));
}

fn xor(cursor: &mut Cursor<'_>) -> Result<u64, DeltaError> {
    let head = cursor.u8()?;
    let (zeros, count) = (u32::from(head >> 4), u32::from(head & 15));
    let tail = 8_u32.checked_sub(zeros + count).filter(|_| count > 0);
    let tail = tail.ok_or(DeltaError::Malformed("an exclusive or of more or less than a double"))?;
    let bytes = cursor.take(count as usize)?;
    let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    Ok(bits << (tail * 8))
}
