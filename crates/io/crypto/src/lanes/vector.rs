//! Eight lanes of 64 bits as one value, and the few operations that the arithmetic needs.

use zeroize::Zeroize;

/// How many numbers are worked on at once.
pub(crate) const LANES: usize = 8;
/// Bits of a digit: what the fused multiply-add of AVX-512 IFMA multiplies.
pub(crate) const DIGIT_BITS: usize = 52;
/// The low 52 bits.
pub(crate) const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

/// The same digit of eight numbers; one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroize)]
#[repr(C, align(64))]
pub(crate) struct Row(pub(crate) [u64; LANES]);

impl Row {
    pub(crate) const ZERO: Self = Self([0; LANES]);
}

/// Eight numbers of `N` digits, least digit first, transposed: row `j` holds digit `j` of all eight.
pub(crate) type Wide<const N: usize> = [Row; N];

/// A register of eight 64-bit lanes. No operation's time depends on what the lanes hold.
pub(super) trait Vector: Copy {
    fn load(row: &Row) -> Self;
    fn store(self, row: &mut Row);
    fn splat(value: u64) -> Self;
    /// `self` + low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn add_low(self, a: Self, b: Self) -> Self;
    /// `self` + bits 52 to 103 of the product of the low 52 bits of `a` and `b`.
    fn add_high(self, a: Self, b: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// Without the low 52 bits, shifted down.
    fn carry(self) -> Self;
    /// All ones in the lanes where `self` is `other`, else zero. Both are below 2^63.
    fn equal(self, other: Self) -> Self;
}

/// The same lanes without a vector unit: what the tests hold the vector unit against.
#[derive(Clone, Copy)]
pub(super) struct Plain([u64; LANES]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|lane| with(self.0[lane], other.0[lane])))
    }
}

#[inline(always)]
fn product(a: u64, b: u64) -> u128 {
    u128::from(a & DIGIT_MASK) * u128::from(b & DIGIT_MASK)
}

impl Vector for Plain {
    #[inline(always)]
    fn load(row: &Row) -> Self {
        Self(row.0)
    }

    #[inline(always)]
    fn store(self, row: &mut Row) {
        row.0 = self.0;
    }

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    fn add_low(self, a: Self, b: Self) -> Self {
        self.add(a.zip(b, |a, b| product(a, b) as u64 & DIGIT_MASK))
    }

    #[inline(always)]
    fn add_high(self, a: Self, b: Self) -> Self {
        self.add(a.zip(b, |a, b| (product(a, b) >> DIGIT_BITS) as u64))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[inline(always)]
    fn carry(self) -> Self {
        Self(self.0.map(|lane| lane >> DIGIT_BITS))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> Self {
        self.zip(other, |a, b| (((a ^ b).wrapping_sub(1)) as i64 >> 63) as u64)
    }
}
