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

/// Digits of a number mod a prime of 1024 bits.
pub(crate) const PRIME_DIGITS: usize = 20;

/// `out` = `a` · `a` / R mod m, as [`multiply`], with three quarters of its products: a_i · a_j is taken once for i < j.
///
/// The square first, column by column, all of `a` in registers; then the multiples of m, row by row. Written out for 20
/// digits: with more, `a` does not fit into the registers, and [`multiply`] is as fast.
#[inline(always)]
pub(super) fn square<V: Vector>(out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) {
    let (mut sum, above) = columns::<V>(a);
    let (zero, inverse) = (V::splat(0), V::load(&moduli.inverse));
    let mut clear = zero.add_low(sum[0], inverse);
    for above in above {
        let m = black_box(&moduli.digits);
        let (m_lowest, mut m_below) = (V::load(&m[0]), V::load(&m[1]));
        let carry = sum[0].add_low(m_lowest, clear).carry();
        sum[0] = sum[1].add_low(m_below, clear).add_high(m_lowest, clear).add(carry);
        // What clears the next row is computed before the rest of this one, which hides how long it takes.
        let next = zero.add_low(sum[0], inverse);
        compute_here(next);
        for j in 2..PRIME_DIGITS {
            let m_here = V::load(&m[j]);
            sum[j - 1] = sum[j].add_low(m_here, clear).add_high(m_below, clear);
            m_below = m_here;
        }
        sum[PRIME_DIGITS - 1] = above.add_high(m_below, clear);
        clear = next;
    }
    settle(out, &sum);
}

/// Keeps the compiler from computing `value` later than here: no load moves across the barrier that sees it.
#[inline(always)]
fn compute_here<V: Vector>(value: V) {
    let mut row = Row::ZERO;
    value.store(&mut row);
    black_box(&row);
}

/// The square of `a` in columns, each below 2 · 20 · 2^52: the low 20 and the high 20.
#[inline(always)]
fn columns<V: Vector>(a: &Wide<PRIME_DIGITS>) -> ([V; PRIME_DIGITS], [V; PRIME_DIGITS]) {
    macro_rules! columns {
        ($($k:literal)*) => { [$(column::<V, $k>(a)),*] };
    }
    (
        columns!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19),
        columns!(20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39),
    )
}

/// Low halves of the products of digits whose places add up to `K`, high halves of those that add up to `K` - 1.
#[inline(always)]
fn column<V: Vector, const K: usize>(a: &Wide<PRIME_DIGITS>) -> V {
    // Four sums, so that an addition need not wait for the one before it.
    let mut sums = [V::splat(0); 4];
    for i in (K + 1).saturating_sub(PRIME_DIGITS)..K.div_ceil(2) {
        sums[i % 2] = sums[i % 2].add_low(V::load(&a[i]), V::load(&a[K - i]));
    }
    for i in K.saturating_sub(PRIME_DIGITS)..K / 2 {
        sums[2 + i % 2] = sums[2 + i % 2].add_high(V::load(&a[i]), V::load(&a[K - 1 - i]));
    }
    let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3]));
    let middle = V::load(&a[K / 2]);
    let sum = sum.add(sum);
    if K.is_multiple_of(2) { sum.add_low(middle, middle) } else { sum.add_high(middle, middle) }
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
