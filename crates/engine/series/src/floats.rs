//! Doubles in blocks of 128, exact to the bit: as decimals where they are some, else by the order of their bits.
//!
//! ```text
//!  +------+- - - - - - - -+- - - - - +
//!  | form | odd ones?     | integers |
//!  +------+- - - - - - - -+- - - - - +
//! ```
//!
//! | `form` | meaning of an integer `i` |
//! |---|---|
//! | 0-15 | the double nearest to `i` / 10^`form`. A count (a byte) and so many odd ones follow, each a position (a byte) and the bits of a double (8 bytes, low byte first) |
//! | 255 | the bits of the double; of a negative one with all bits but the sign inverted, so that neighbours are near |
//!
//! Measurements are decimals of few digits nearly always: their integers have few bits. Doubles that came in single precision
//! have 29 zeros at their end, which the integers' factor takes away. An odd one is what no decimal says: not-a-number, an
//! infinity, a negative zero, a number of many digits among others of few.

use crate::SeriesError;
use crate::integers::{self, BLOCK};
use alloc::vec::Vec;
use tieline_core::Cursor;

const BITS: u8 = 255;
/// Every power of ten here and every integer below 2^53 is a double, and the quotient of two doubles is the nearest one.
const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
const INTEGER_LIMIT: f64 = 9_007_199_254_740_992.0;
/// Beyond so many the block is written by its bits.
const ODD_MAX: usize = 8;

/// Appends doubles, block by block.
pub(crate) fn put_all(doubles: &[f64], out: &mut Vec<u8>) {
    let mut places = 0;
    for block in doubles.chunks(BLOCK) {
        put_block(&mut places, block, out);
    }
}

/// Appends the doubles that [`put_all`] wrote to `doubles`; `count` of them.
///
/// # Errors
/// The bytes are none that it writes.
pub(crate) fn get_all(cursor: &mut Cursor<'_>, count: usize, doubles: &mut Vec<f64>) -> Result<(), SeriesError> {
    let mut room = Vec::with_capacity(BLOCK);
    let mut left = count;
    while left > 0 {
        let size = left.min(BLOCK);
        get_block(cursor, size, &mut room, doubles)?;
        left -= size;
    }
    Ok(())
}

/// `places` is how many decimal places the block before had, where this one begins to look.
fn put_block(places: &mut usize, doubles: &[f64], out: &mut Vec<u8>) {
    let mut room = [0_i64; BLOCK];
    let room = room.get_mut(..doubles.len()).unwrap_or_default();
    let mut odd = Vec::new();
    let fits = (*places..POWERS.len()).find(|places| fill(*places, doubles, room, &mut odd));
    match fits {
        Some(found) => {
            *places = found;
            let [form, ..] = found.to_le_bytes();
            let [count, ..] = odd.len().to_le_bytes();
            out.extend([form, count]);
            for (position, double) in odd {
                out.push(position);
                out.extend(double.to_bits().to_le_bytes());
            }
        }
        None => {
            out.push(BITS);
            room.iter_mut().zip(doubles).for_each(|(integer, double)| *integer = ordered(*double));
        }
    }
    integers::put_block(0, room, out);
}

/// Makes decimals with so many places of doubles; says whether they are the same, but for a few odd ones.
fn fill(places: usize, doubles: &[f64], room: &mut [i64], odd: &mut Vec<(u8, f64)>) -> bool {
    odd.clear();
    let power = POWERS.get(places).copied().unwrap_or(1.0);
    let mut before = 0;
    for ((position, double), integer) in (0_u8..).zip(doubles).zip(room) {
        match decimal(*double, power) {
            Some(decimal) => before = decimal,
            None if odd.len() == ODD_MAX => return false,
            None => odd.push((position, *double)),
        }
        *integer = before;
    }
    true
}

/// The integer that the double is over a power of ten.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "below 2^53, and what comes of it is compared"
)]
fn decimal(double: f64, power: f64) -> Option<i64> {
    let scaled = double * power;
    if scaled.is_nan() || scaled.abs() >= INTEGER_LIMIT {
        return None;
    }
    let integer = (scaled + 0.5_f64.copysign(scaled)) as i64;
    (integer as f64 / power).to_bits().eq(&double.to_bits()).then_some(integer)
}

fn get_block(
    cursor: &mut Cursor<'_>,
    count: usize,
    room: &mut Vec<i64>,
    doubles: &mut Vec<f64>,
) -> Result<(), SeriesError> {
    let form = cursor.u8()?;
    let start = doubles.len();
    room.clear();
    if form == BITS {
        integers::get_block(cursor, 0, count, room)?;
        doubles.extend(room.iter().copied().map(from_ordered));
        return Ok(());
    }
    let power = *POWERS.get(usize::from(form)).ok_or(SeriesError::Illegal("form of doubles"))?;
    let odd_count = cursor.u8()?;
    let mut odd = Cursor::new(cursor.take(usize::from(odd_count) * 9)?);
    integers::get_block(cursor, 0, count, room)?;
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 as written; else some double")]
    doubles.extend(room.iter().map(|integer| *integer as f64 / power));
    while !odd.is_empty() {
        let (position, bits) = (odd.u8()?, odd.u64_le()?);
        let double = doubles.get_mut(start + usize::from(position));
        *double.ok_or(SeriesError::Illegal("position of a double"))? = f64::from_bits(bits);
    }
    Ok(())
}

/// Bits that are in the order of the doubles.
const fn ordered(double: f64) -> i64 {
    let bits = double.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

const fn from_ordered(ordered: i64) -> f64 {
    let bits = ordered ^ ((ordered >> 63).cast_unsigned() >> 1).cast_signed();
    f64::from_bits(bits.cast_unsigned())
}

#[cfg(test)]
mod tests;
