//! Montgomery multiplication in eight lanes at once.
//!
//! Numbers have `N` digits of 52 bits, R = 2^(52 N). Nothing is subtracted at the end of a multiplication: with a
//! modulus m < R / 4 and factors below 4 m, the product is below 2 m ("almost Montgomery", S. Gueron, *Efficient
//! software implementations of modular exponentiation*, 2012). For 20 digits and a prime of 1024 bits R / m is 2^16,
//! for 40 digits and a modulus of 2048 bits 2^32.

use super::vector::{DIGIT_MASK, Row, Vector, Wide};
use std::hint::black_box;
use zeroize::Zeroize;

/// Eight odd moduli and -1/m mod 2^52 of each.
#[derive(Clone, Copy, Zeroize)]
pub(crate) struct Moduli<const N: usize> {
    pub(crate) digits: Wide<N>,
    pub(crate) inverse: Row,
}

/// `out` = `a` · `b` / R mod m, below 2 m, its digits below 2^52.
///
/// One row per digit of `b`: adds a · b_i and the multiple of m that clears the lowest digit, and moves down by one digit.
/// A digit of the sum gathers at most four products a row, 4 N · 2^52 < 2^60.
#[inline(always)]
pub(super) fn multiply<V: Vector, const N: usize>(out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) {
    let zero = V::splat(0);
    let inverse = V::load(&moduli.inverse);
    let mut sum = [zero; N];
    for row in b {
        // Without this barrier the compiler loads all digits before the loop and spills them to misaligned memory.
        let (a, m) = black_box((a, &moduli.digits));
        let factor = V::load(row);
        let (mut a_below, mut m_below) = (V::load(&a[0]), V::load(&m[0]));
        let lowest = sum[0].add_low(a_below, factor);
        let clear = zero.add_low(lowest, inverse);
        let carry = lowest.add_low(m_below, clear).carry();
        for j in 1..N {
            let (a_here, m_here) = (V::load(&a[j]), V::load(&m[j]));
            let digit = sum[j].add_low(a_here, factor).add_high(a_below, factor);
            sum[j - 1] = digit.add_low(m_here, clear).add_high(m_below, clear);
            (a_below, m_below) = (a_here, m_here);
        }
        sum[0] = sum[0].add(carry);
        sum[N - 1] = zero.add_high(a_below, factor).add_high(m_below, clear);
    }
    settle(out, &sum);
}

/// `out` = `a` · `a` / R mod m, as [`multiply`].
#[inline(always)]
pub(super) fn square<V: Vector, const N: usize>(out: &mut Wide<N>, a: &Wide<N>, moduli: &Moduli<N>) {
    multiply::<V, N>(out, a, a, moduli);
}

/// `out` = `a` + `b`; the sum fits.
#[inline(always)]
pub(super) fn add<V: Vector, const N: usize>(out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>) {
    settle(out, &std::array::from_fn(|j| V::load(&a[j]).add(V::load(&b[j]))));
}

/// Carries what is above 52 bits of each digit into the next.
#[inline(always)]
fn settle<V: Vector, const N: usize>(out: &mut Wide<N>, sum: &[V; N]) {
    let mask = V::splat(DIGIT_MASK);
    let mut carry = V::splat(0);
    for (out, digit) in out.iter_mut().zip(sum) {
        let digit = digit.add(carry);
        digit.and(mask).store(out);
        carry = digit.carry();
    }
}

/// `out` = `table[index]`, each lane with its own index. Reads the whole table, whatever the index.
#[inline(always)]
pub(super) fn choose<V: Vector, const N: usize>(out: &mut Wide<N>, table: &[Wide<N>], index: &Row) {
    let index = V::load(index);
    let mut chosen = [V::splat(0); N];
    for (number, entry) in (0u64..).zip(table) {
        let here = index.equal(V::splat(number));
        for (chosen, digit) in chosen.iter_mut().zip(entry) {
            *chosen = chosen.or(V::load(digit).and(here));
        }
    }
    for (out, digit) in out.iter_mut().zip(chosen) {
        digit.store(out);
    }
}
