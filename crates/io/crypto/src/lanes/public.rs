//! c^65537 mod n in eight lanes: the check of every private result, and public operations of a batch.

use super::digits::{from_bytes, negative_inverse, power_of_two, reduce_once, to_bytes};
use super::kernel::Moduli;
use super::vector::{DIGIT_BITS, Row, Wide};
use super::{PUBLIC_MESSAGES, Unit, put, take};
use crate::MODULUS_BYTES;

/// Digits of a number mod n: 40 · 52 = 2080 bits.
const DIGITS: usize = 40;
const MODULUS_BITS: usize = MODULUS_BYTES * 8;

/// A modulus of exactly 2048 bits, prepared.
#[derive(Clone, Debug)]
pub(crate) struct LaneModulus {
    digits: [u64; DIGITS],
    inverse: u64,
    /// R² mod n.
    square: [u64; DIGITS],
}

impl LaneModulus {
    /// From the bytes of an odd modulus whose highest bit is set.
    pub(crate) fn new(modulus: &[u8; MODULUS_BYTES]) -> Self {
        let digits = from_bytes(modulus);
        let inverse = negative_inverse(digits[0]);
        Self { digits, inverse, square: power_of_two(2 * DIGITS * DIGIT_BITS, &digits, MODULUS_BITS) }
    }
}

/// Memory for one run of eight public operations.
pub(crate) struct PublicPass {
    moduli: Moduli<DIGITS>,
    squares: Wide<DIGITS>,
    base: Wide<DIGITS>,
    power: Wide<DIGITS>,
    next: Wide<DIGITS>,
}

impl PublicPass {
    pub(crate) fn new() -> Box<Self> {
        let zero = [Row::ZERO; DIGITS];
        Box::new(Self {
            moduli: Moduli { digits: zero, inverse: Row::ZERO },
            squares: zero,
            base: zero,
            power: zero,
            next: zero,
        })
    }

    /// number^65537 mod modulus for up to eight pairs; each number is below its modulus.
    pub(crate) fn run<U: Unit>(
        &mut self,
        unit: U,
        pairs: &[(&LaneModulus, &[u8; MODULUS_BYTES])],
    ) -> [[u8; MODULUS_BYTES]; PUBLIC_MESSAGES] {
        let mut out = [[0; MODULUS_BYTES]; PUBLIC_MESSAGES];
        let Some(first) = pairs.first() else { return out };
        for lane in 0..PUBLIC_MESSAGES {
            // Lanes without work repeat the first.
            let (modulus, number) = pairs.get(lane).unwrap_or(first);
            put(&mut self.moduli.digits, lane, &modulus.digits);
            put(&mut self.squares, lane, &modulus.square);
            put(&mut self.base, lane, &from_bytes(*number));
            self.moduli.inverse.0[lane] = modulus.inverse;
        }
        self.power_f4(unit);
        for (lane, (out, (modulus, _))) in out.iter_mut().zip(pairs).enumerate() {
            let mut digits = take(&self.power, lane);
            reduce_once(&mut digits, &modulus.digits);
            to_bytes(&digits, out);
        }
        out
    }

    /// 65537 = 2^16 + 1: into Montgomery's form, 16 squarings, and one multiplication by the plain base, which also
    /// leaves that form. The result is below m + m · 2m / R, so at most m.
    fn power_f4<U: Unit>(&mut self, unit: U) {
        unit.multiply(&mut self.power, &self.base, &self.squares, &self.moduli);
        for _ in 0..8 {
            unit.multiply(&mut self.next, &self.power, &self.power, &self.moduli);
            unit.multiply(&mut self.power, &self.next, &self.next, &self.moduli);
        }
        unit.multiply(&mut self.next, &self.power, &self.base, &self.moduli);
        self.power = self.next;
    }
}
