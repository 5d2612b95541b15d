//! A point, whole.
//!
//! ```text
//! [tag][value][varint quality, if tag bit 5][zigzag time in µs][zigzag step in units, if tag bit 6]
//!
//! tag   bits 0-2  0 null · 1 false · 2 true · 3 integer · 4 decimal · 5 double · 6 text · 7 bytes
//!       bits 3-4  unit of time: 0 µs · 1 ms · 2 s
//!       bit 7     0
//! value integer: zigzag · decimal: places (one byte, 0 to 15), zigzag mantissa · double: eight bytes, low first
//!       text, bytes: varint length, then they
//! ```
//!
//! A quality of no reasons and a step of 0 are left out, so a state has one form.

use super::number::{Decimal, Number};
use super::{PointState, Unit};
use crate::DeltaError;
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::varint;
use tieline_core::{Cursor, Quality, Timestamp};

pub(super) const QUALITY: u8 = 1 << 5;
pub(super) const STEP: u8 = 1 << 6;

impl PointState {
    /// Appends the whole form.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let quality = if self.quality == Quality::GOOD { 0 } else { QUALITY };
        let step = if self.step == 0 { 0 } else { STEP };
        out.push(self.number.tag() | self.unit.code() << 3 | quality | step);
        self.number.emit(out);
        if quality != 0 {
            varint::put(out, u64::from(self.quality.bits()));
        }
        varint::put_signed(out, self.micros);
        if step != 0 {
            varint::put_signed(out, self.step);
        }
    }

    /// Reads the whole form to the end of the bytes.
    ///
    /// # Errors
    /// The bytes are malformed, or a text is longer than `value_bytes_max`.
    pub fn parse(bytes: &[u8], value_bytes_max: usize) -> Result<Self, DeltaError> {
        let mut cursor = Cursor::new(bytes);
        let tag = cursor.u8()?;
        let unit = Unit::from_code(u64::from(tag >> 3 & 3)).ok_or(MALFORMED)?;
        if tag & 0x80 != 0 {
            return Err(MALFORMED);
        }
        let number = Number::parse(tag & 7, &mut cursor, value_bytes_max)?;
        let quality = if tag & QUALITY == 0 { Quality::GOOD } else { parse_quality(&mut cursor)? };
        let micros = legal_time(varint::get_signed(&mut cursor)?)?;
        let step = if tag & STEP == 0 { 0 } else { varint::get_signed(&mut cursor)? };
        if !cursor.is_empty() {
            return Err(MALFORMED);
        }
        Ok(Self { number, quality, micros, unit, step })
    }
}

const MALFORMED: DeltaError = DeltaError::Malformed("not a point's whole form");

/// A moment in the years 1 to 9999.
pub(super) fn legal_time(micros: i64) -> Result<i64, DeltaError> {
    if Timestamp::from_micros(micros).micros() == micros {
        Ok(micros)
    } else {
        Err(DeltaError::Malformed("a time outside the years 1 to 9999"))
    }
}

pub(super) fn parse_quality(cursor: &mut Cursor<'_>) -> Result<Quality, DeltaError> {
    let bits = u16::try_from(varint::get(cursor)?).unwrap_or(u16::MAX);
    let quality = Quality::from_bits(bits);
    if quality.reason_bits() == bits { Ok(quality) } else { Err(DeltaError::Malformed("an unknown reason of quality")) }
}

impl Number {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(false) => 1,
            Self::Bool(true) => 2,
            Self::Int(_) => 3,
            Self::Decimal(_) => 4,
            Self::Float(_) => 5,
            Self::Text(_) => 6,
            Self::Bytes(_) => 7,
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let mut field = |bytes: &[u8]| {
            varint::put_len(out, bytes.len());
            out.extend_from_slice(bytes);
        };
        match self {
            Self::Null | Self::Bool(_) => (),
            Self::Int(i) => varint::put_signed(out, *i),
            Self::Decimal(decimal) => {
                out.push(decimal.places());
                varint::put_signed(out, decimal.mantissa());
            }
            Self::Float(x) => out.extend_from_slice(&x.to_le_bytes()),
            Self::Text(text) => field(text.as_bytes()),
            Self::Bytes(bytes) => field(bytes),
        }
    }

    pub(super) fn parse(tag: u8, cursor: &mut Cursor<'_>, value_bytes_max: usize) -> Result<Self, DeltaError> {
        let field = |cursor: &mut Cursor<'_>| {
            let count = varint::get_len(cursor)?;
            if count > value_bytes_max {
                return Err(DeltaError::TooLong { bytes_max: value_bytes_max });
            }
            Ok(Box::<[u8]>::from(cursor.take(count)?))
        };
        Ok(match tag {
            0 => Self::Null,
            1 => Self::Bool(false),
            2 => Self::Bool(true),
            3 => Self::Int(varint::get_signed(cursor)?),
            4 => {
                let places = u64::from(cursor.u8()?);
                let decimal = Decimal::new(varint::get_signed(cursor)?, places);
                Self::Decimal(decimal.ok_or(DeltaError::Malformed("a decimal beyond 15 places or 53 bits"))?)
            }
            5 => Self::Float(cursor.f64_le()?),
            6 => {
                let text = alloc::string::String::from_utf8(field(cursor)?.into_vec());
                Self::Text(text.map_err(|_| DeltaError::Malformed("a text that is not UTF-8"))?.into())
            }
            7 => Self::Bytes(field(cursor)?),
            _ => return Err(MALFORMED),
        })
    }
}
