//! The vector unit: AVX-512 with its 52-bit fused multiply-add (IFMA).
//!
//! [`Zmm`] cannot be named outside this file, and every function here that works on it asks for [`Ifma`], which only
//! detection gives: no instruction runs on a processor that lacks it.

#![expect(unsafe_code, reason = "the vector unit is reached through intrinsics")]

use super::kernel::{self, Moduli, PRIME_DIGITS};
use super::vector::{DIGIT_BITS, Row, Vector, Wide};
use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_loadu_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_or_si512, _mm512_set1_epi64, _mm512_srai_epi64, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_sub_epi64,
    _mm512_xor_si512,
};

/// Proof that this processor and this system run AVX-512F and IFMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma(());

impl Ifma {
    /// Asks the processor.
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")).then_some(Self(()))
    }

    pub(super) fn multiply<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) {
        // SAFETY: `self` proves the features.
        unsafe { multiply(out, a, b, moduli) }
    }

    pub(super) fn square(self, out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) {
        // SAFETY: `self` proves the features.
        unsafe { square(out, a, moduli) }
    }

    pub(super) fn add<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>) {
        // SAFETY: `self` proves the features.
        unsafe { add(out, a, b) }
    }

    pub(super) fn choose<const N: usize>(self, out: &mut Wide<N>, table: &[Wide<N>], index: &Row) {
        // SAFETY: `self` proves the features.
        unsafe { choose(out, table, index) }
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply<const N: usize>(out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) {
    kernel::multiply::<Zmm, N>(out, a, b, moduli);
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn square(out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) {
    kernel::square::<Zmm>(out, a, moduli);
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn add<const N: usize>(out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>) {
    kernel::add::<Zmm, N>(out, a, b);
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma")]
fn choose<const N: usize>(out: &mut Wide<N>, table: &[Wide<N>], index: &Row) {
    kernel::choose::<Zmm, N>(out, table, index);
}

#[derive(Clone, Copy)]
struct Zmm(__m512i);

/// What holds for every block below: the only callers are the functions above, which have the features, and
/// loads and stores are of a whole [`Row`], 64 bytes.
macro_rules! vector_unit {
    ($($call:expr)?) => {
        // SAFETY: the callers have the features; memory is a whole row that is borrowed for the call.
        unsafe { $($call)? }
    };
}

impl Vector for Zmm {
    #[inline(always)]
    fn load(row: &Row) -> Self {
        Self(vector_unit!(_mm512_loadu_si512(row.0.as_ptr().cast())))
    }

    #[inline(always)]
    fn store(self, row: &mut Row) {
        vector_unit!(_mm512_storeu_si512(row.0.as_mut_ptr().cast(), self.0));
    }

    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(vector_unit!(_mm512_set1_epi64(value.cast_signed())))
    }

    #[inline(always)]
    fn add_low(self, a: Self, b: Self) -> Self {
        Self(vector_unit!(_mm512_madd52lo_epu64(self.0, a.0, b.0)))
    }

    #[inline(always)]
    fn add_high(self, a: Self, b: Self) -> Self {
        Self(vector_unit!(_mm512_madd52hi_epu64(self.0, a.0, b.0)))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(vector_unit!(_mm512_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(vector_unit!(_mm512_and_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(vector_unit!(_mm512_or_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn carry(self) -> Self {
        Self(vector_unit!(_mm512_srli_epi64::<{ DIGIT_BITS as u32 }>(self.0)))
    }

    #[inline(always)]
    fn equal(self, other: Self) -> Self {
        // x - 1 is negative only for x = 0; its sign fills the lane.
        let differs = vector_unit!(_mm512_xor_si512(self.0, other.0));
        let below = vector_unit!(_mm512_sub_epi64(differs, _mm512_set1_epi64(1)));
        Self(vector_unit!(_mm512_srai_epi64::<63>(below)))
    }
}
