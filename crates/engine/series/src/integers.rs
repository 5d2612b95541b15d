//! Integers in blocks of 128: few bytes for what is regular or moves little, and all of them exact.
//!
//! ```text
//!  +------+-----------+------------+--------------+- - - - - - - -+- - - - -+
//!  | form | base      | factor?    | patch count? | packed offsets | patches |
//!  |      | (signed)  | (unsigned) |              |                |         |
//!  +------+-----------+------------+--------------+- - - - - - - -+- - - - -+
//! ```
//!
//! | bits of `form` | meaning |
//! |---|---|
//! | 0-5 | width of a packed offset in bits, 0 to 63 |
//! | 6 | the block has differences, each to the integer before (the first: to the last of the block before, or 0); else the integers |
//! | 7 | factor and patch count follow; else they are 1 and 0 |
//!
//! An integer or a difference is `base + factor × offset`, modulo 2^64. Offsets are packed one after the other, low bit first,
//! in as many bytes as they need. A patch is a position (a byte) and the bits of that offset above the width (a varint).
//! `base` and `factor` are varints.
//!
//! Differences of regular times are all equal: width 0. Times in milliseconds have a factor of 1,000. A gap or a spike is a patch.
//! M. Zukowski et al.: "Super-Scalar RAM-CPU Cache Compression" (2006) has the idea of patches.

use crate::SeriesError;
use alloc::vec::Vec;
use tieline_core::{Cursor, varint};

/// Integers in a block.
pub(crate) const BLOCK: usize = 128;
/// The widest packed offset: a patch has the rest.
const WIDTH_MAX: u32 = 56;
const WIDTH: u8 = 0x3f;
const DIFFERENCES: u8 = 0x40;
const FURTHER: u8 = 0x80;
/// What a patch costs at least, in bits: its position, and a varint of one byte.
const PATCH_BITS: usize = 16;

/// Appends integers, block by block.
pub(crate) fn put_all(integers: &[i64], out: &mut Vec<u8>) {
    let mut before = 0;
    for block in integers.chunks(BLOCK) {
        put_block(before, block, out);
        before = block.last().copied().unwrap_or(before);
    }
}

/// Appends the integers that [`put_all`] wrote to `integers`; `count` of them.
///
/// # Errors
/// The bytes are none that it writes.
pub(crate) fn get_all(cursor: &mut Cursor<'_>, count: usize, integers: &mut Vec<i64>) -> Result<(), SeriesError> {
    let (mut left, mut before) = (count, 0);
    while left > 0 {
        let size = left.min(BLOCK);
        before = get_block(cursor, before, size, integers)?;
        left -= size;
    }
    Ok(())
}

/// Offsets of a block from its base, as they are packed.
struct Plan {
    base: i64,
    factor: u64,
    width: u32,
    patches: usize,
}

/// Appends one block.
pub(crate) fn put_block(before: i64, integers: &[i64], out: &mut Vec<u8>) {
    debug_assert!(integers.len() <= BLOCK, "a block has {BLOCK} integers at most");
    let (mut differences, mut last) = ([0_i64; BLOCK], before);
    for (difference, integer) in differences.iter_mut().zip(integers) {
        *difference = integer.wrapping_sub(last);
        last = *integer;
    }
    let differences = differences.get(..integers.len()).unwrap_or_default();
    // A few far ones are patches: what counts is how far all are together.
    let ((base, spread), (base_of_differences, spread_of_differences)) = (spread(integers), spread(differences));
    match spread_of_differences < spread {
        true => Plan::of(base_of_differences, differences).put(DIFFERENCES, differences, out),
        false => Plan::of(base, integers).put(0, integers, out),
    }
}

/// The lowest number, and the bits that all offsets from it have together.
fn spread(numbers: &[i64]) -> (i64, u32) {
    let base = numbers.iter().copied().min().unwrap_or(0);
    (base, numbers.iter().map(|number| bits(offset(*number, base))).sum())
}

impl Plan {
    /// The fewest bytes for numbers of which the lowest is `base`.
    fn of(base: i64, numbers: &[i64]) -> Self {
        let mut factor = 0;
        for number in numbers {
            factor = common_divisor(factor, offset(*number, base));
            if factor == 1 {
                break;
            }
        }
        let factor = factor.max(1);
        let mut counts = [0_usize; 65];
        for number in numbers {
            if let Some(count) = counts.get_mut(bits(divided(offset(*number, base), factor)) as usize) {
                *count += 1;
            }
        }
        let (width, patches, _) = Self::cheapest(&counts, numbers.len());
        Self { base, factor, width, patches }
    }

    /// The width at which offsets with such lengths take the fewest bytes, patches included.
    fn cheapest(counts: &[usize; 65], total: usize) -> (u32, usize, usize) {
        let (mut best, mut patches, mut patch_bits) = ((WIDTH_MAX, 0, usize::MAX), 0, 0);
        for (width, count) in (0..65_u8).zip(counts).rev() {
            let width = u32::from(width);
            if width <= WIDTH_MAX {
                let bytes = (width as usize * total).div_ceil(8) + patch_bits / 8;
                // The narrowest of those that are as short has most patches; the widest is read fastest.
                if bytes < best.2 {
                    best = (width, patches, bytes);
                }
            }
            patches += count;
            patch_bits += count * (PATCH_BITS + width as usize / 8 * 8);
        }
        best
    }

    fn put(&self, form: u8, numbers: &[i64], out: &mut Vec<u8>) {
        let has_further = self.factor > 1 || self.patches > 0;
        let [width, ..] = self.width.to_le_bytes();
        out.push(form | width | if has_further { FURTHER } else { 0 });
        varint::put_signed(out, self.base);
        if has_further {
            varint::put(out, self.factor);
            varint::put_len(out, self.patches);
        }
        let offset = |number: &i64| divided(offset(*number, self.base), self.factor);
        let mask = mask(self.width);
        pack(numbers.iter().map(|number| offset(number) & mask), self.width, out);
        if self.patches > 0 {
            for (position, number) in (0_u8..).zip(numbers) {
                let above = offset(number) >> self.width;
                if above > 0 {
                    out.push(position);
                    varint::put(out, above);
                }
            }
        }
    }
}

/// Appends a block of `count` integers; says the last.
///
/// # Errors
/// The bytes are none that [`put_block`] writes.
pub(crate) fn get_block(
    cursor: &mut Cursor<'_>,
    before: i64,
    count: usize,
    integers: &mut Vec<i64>,
) -> Result<i64, SeriesError> {
    let form = cursor.u8()?;
    let (width, base) = (u32::from(form & WIDTH), varint::get_signed(cursor)?);
    if width > WIDTH_MAX {
        return Err(SeriesError::Illegal("width of integers"));
    }
    let (factor, patches) = match form & FURTHER {
        0 => (1, 0),
        _ => (varint::get(cursor)?, varint::get_len(cursor)?),
    };
    if patches > count {
        return Err(SeriesError::Illegal("count of patches"));
    }
    let packed = cursor.take((width as usize * count).div_ceil(8))?;
    let mut offsets = [0_u64; BLOCK];
    let offsets = offsets.get_mut(..count).ok_or(SeriesError::Illegal("size of a block"))?;
    unpack(packed, width, offsets);
    for _ in 0..patches {
        let (position, above) = (cursor.u8()?, varint::get(cursor)?);
        let offset = offsets.get_mut(usize::from(position)).ok_or(SeriesError::Illegal("position of a patch"))?;
        *offset |= above.checked_shl(width).unwrap_or(0);
    }
    let number = |offset: &u64| base.wrapping_add(factor.wrapping_mul(*offset).cast_signed());
    let mut last = before;
    if form & DIFFERENCES == 0 {
        integers.extend(offsets.iter().map(number));
        last = integers.last().copied().unwrap_or(before);
    } else {
        integers.extend(offsets.iter().map(|offset| {
            last = last.wrapping_add(number(offset));
            last
        }));
    }
    Ok(last)
}

/// Appends numbers of `width` bits, low bit first.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut waiting, mut held) = (0_u64, 0);
    for number in numbers {
        waiting |= number << held;
        held += width;
        if held >= 64 {
            out.extend_from_slice(&waiting.to_le_bytes());
            held -= 64;
            // What of the number has not gone: none where it ended with the word.
            waiting = number >> (width - held);
        }
    }
    let rest = waiting.to_le_bytes();
    out.extend_from_slice(rest.get(..held.div_ceil(8) as usize).unwrap_or(&rest));
}

/// Reads as many numbers of `width` bits as there is room for; of missing bytes zeros.
fn unpack(packed: &[u8], width: u32, numbers: &mut [u64]) {
    if width == 0 {
        return;
    }
    // Words are read whole, beyond the end too.
    let mut room = [0_u8; BLOCK * WIDTH_MAX as usize / 8 + 8];
    if let Some(room) = room.get_mut(..packed.len()) {
        room.copy_from_slice(packed);
    }
    let (mask, mut at) = (mask(width), 0_usize);
    for number in numbers {
        let word = room.get(at / 8..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word));
        *number = word >> (at % 8) & mask;
        at += width as usize;
    }
}

/// How far a number is above the base, which is not above it.
const fn offset(number: i64, base: i64) -> u64 {
    number.wrapping_sub(base).cast_unsigned()
}

const fn divided(offset: u64, factor: u64) -> u64 {
    if factor == 1 { offset } else { offset / factor }
}

const fn bits(number: u64) -> u32 {
    64 - number.leading_zeros()
}

const fn mask(width: u32) -> u64 {
    (1 << width) - 1
}

/// The greatest common divisor of `a` and `b`; nearly always `a` is one of `b` already.
const fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
