//! c^d mod n for up to four messages: two lanes each.

use super::digits::{difference, from_bytes, multiply_add, negative_inverse, power_of_two, reduce_once, to_bytes};
use super::kernel::{Moduli, PRIME_DIGITS as DIGITS};
use super::vector::{DIGIT_BITS, LANES, Row, Wide};
use super::{MESSAGES, Portable, Unit, put, take};
use crate::MODULUS_BYTES;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Digits of a number mod n.
const DOUBLE: usize = 2 * DIGITS;
/// Bits of each prime.
const PRIME_BITS: usize = 1024;
const PRIME_BYTES: usize = PRIME_BITS / 8;
/// Bits of the exponent that one multiplication settles. With 5 there are 43 multiplications less and as much time is
/// lost again on a table of twice the size, which does not stay in the first cache.
const WINDOW_BITS: usize = 4;
const TABLE: usize = 1 << WINDOW_BITS;
const WINDOWS: usize = PRIME_BITS.div_ceil(WINDOW_BITS);

/// What a lane needs of one prime.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct HalfKey {
    prime: [u64; DIGITS],
    inverse: u64,
    /// R mod p: one, in Montgomery's form.
    one: [u64; DIGITS],
    /// R² mod p.
    square: [u64; DIGITS],
    /// R³ mod p.
    cube: [u64; DIGITS],
    /// The exponent in windows, the highest first.
    windows: [u8; WINDOWS],
}

/// The private numbers of a key, as bytes, highest first.
pub(crate) struct Parts<'a> {
    pub(crate) prime_p: &'a [u8],
    pub(crate) prime_q: &'a [u8],
    pub(crate) exponent_p: &'a [u8],
    pub(crate) exponent_q: &'a [u8],
    /// 1/q mod p.
    pub(crate) coefficient: &'a [u8],
}

/// A private key of two primes of 1024 bits, prepared for the lanes. Wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct LaneKey {
    p: HalfKey,
    q: HalfKey,
    /// R/q mod p.
    coefficient: [u64; DIGITS],
}

impl LaneKey {
    /// From the parts of a key that was checked; none when a prime is not of exactly 1024 bits.
    pub(crate) fn new(parts: &Parts<'_>) -> Option<Self> {
        let p = HalfKey::new(parts.prime_p, parts.exponent_p)?;
        let q = HalfKey::new(parts.prime_q, parts.exponent_q)?;
        let coefficient = from_bytes(fixed(parts.coefficient)?.as_slice());
        let coefficient = one_product(&coefficient, &p.square, &p);
        Some(Self { p, q, coefficient })
    }
}

impl HalfKey {
    fn new(prime: &[u8], exponent: &[u8]) -> Option<Self> {
        let prime = fixed(prime).filter(|prime| prime[0] >= 0x80 && prime[PRIME_BYTES - 1] & 1 == 1)?;
        let prime: [u64; DIGITS] = from_bytes(prime.as_slice());
        let square = power_of_two(2 * DIGITS * DIGIT_BITS, &prime, PRIME_BITS);
        let mut half = Self {
            prime,
            inverse: negative_inverse(prime[0]),
            one: power_of_two(DIGITS * DIGIT_BITS, &prime, PRIME_BITS),
            square,
            cube: square,
            windows: windows(fixed(exponent)?.as_slice()),
        };
        half.cube = one_product(&square, &square, &half);
        Some(half)
    }
}

/// The number in 128 bytes, without what DER puts before it.
fn fixed(number: &[u8]) -> Option<Zeroizing<[u8; PRIME_BYTES]>> {
    let start = number.iter().position(|&byte| byte != 0).unwrap_or(number.len());
    let number = number.get(start..)?;
    let mut out = Zeroizing::new([0; PRIME_BYTES]);
    out.get_mut(PRIME_BYTES.checked_sub(number.len())?..)?.copy_from_slice(number);
    Some(out)
}

/// The exponent's bits in groups of four, the highest first.
fn windows(exponent: &[u8]) -> [u8; WINDOWS] {
    let bit = |at: usize| exponent.iter().rev().nth(at / 8).map_or(0, |byte| (byte >> (at % 8)) & 1);
    std::array::from_fn(|window| {
        let lowest = (WINDOWS - 1 - window) * WINDOW_BITS;
        (0..WINDOW_BITS).fold(0, |value, i| value | (bit(lowest + i) << i))
    })
}

/// a · b / R mod p, fully reduced; for what is done once a key.
fn one_product(a: &[u64; DIGITS], b: &[u64; DIGITS], half: &HalfKey) -> [u64; DIGITS] {
    let wide = |number: &[u64; DIGITS]| number.map(|digit| Row([digit; LANES]));
    let moduli = Moduli { digits: wide(&half.prime), inverse: Row([half.inverse; LANES]) };
    let mut out = [Row::ZERO; DIGITS];
    Portable.multiply(&mut out, &wide(a), &wide(b), &moduli);
    let mut product = take(&out, 0);
    reduce_once(&mut product, &half.prime);
    product
}

/// A key, and a number below its n.
pub(crate) type Pair<'a> = (&'a LaneKey, &'a [u8; MODULUS_BYTES]);

/// Memory for one run of eight lanes: 46 KiB, wiped after each.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Pass {
    table: [Wide<DIGITS>; TABLE],
    moduli: Moduli<DIGITS>,
    squares: Wide<DIGITS>,
    cubes: Wide<DIGITS>,
    low: Wide<DIGITS>,
    high: Wide<DIGITS>,
    base: Wide<DIGITS>,
    power: Wide<DIGITS>,
    next: Wide<DIGITS>,
    windows: [Row; WINDOWS],
}

impl Pass {
    pub(crate) fn new() -> Box<Self> {
        let zero = [Row::ZERO; DIGITS];
        Box::new(Self {
            table: [zero; TABLE],
            moduli: Moduli { digits: zero, inverse: Row::ZERO },
            squares: zero,
            cubes: zero,
            low: zero,
            high: zero,
            base: zero,
            power: zero,
            next: zero,
            windows: [Row::ZERO; WINDOWS],
        })
    }

    /// number^d mod n for up to four pairs; each number is below its n. The caller checks what comes out.
    pub(crate) fn run<U: Unit>(&mut self, unit: U, pairs: &[Pair<'_>], out: &mut [[u8; MODULUS_BYTES]]) {
        let Some(first) = pairs.first() else { return };
        for message in 0..MESSAGES {
            // Lanes without work repeat the first.
            let (key, number) = pairs.get(message).unwrap_or(first);
            self.fill(message, key, number);
        }
        self.enter(unit);
        self.pow_mod(unit);
        self.recombine(unit, pairs, out);
        self.zeroize();
    }

    fn fill(&mut self, message: usize, key: &LaneKey, number: &[u8; MODULUS_BYTES]) {
        let digits: [u64; DOUBLE] = from_bytes(number);
        let (low, high) = digits.split_at(DIGITS);
        for (lane, half) in [(2 * message, &key.p), (2 * message + 1, &key.q)] {
            put(&mut self.moduli.digits, lane, &half.prime);
            self.moduli.inverse.0[lane] = half.inverse;
            put(&mut self.squares, lane, &half.square);
            put(&mut self.cubes, lane, &half.cube);
            put(&mut self.table[0], lane, &half.one);
            for (rows, digits) in [(&mut self.low, low), (&mut self.high, high)] {
                for (row, digit) in rows.iter_mut().zip(digits) {
                    row.0[lane] = *digit;
                }
            }
            for (row, window) in self.windows.iter_mut().zip(half.windows) {
                row.0[lane] = u64::from(window);
            }
        }
    }

    /// The base mod each prime, in Montgomery's form: with c = high R + low, c R = low R² / R + high R³ / R.
    /// low and high are below R, so each product is below 2 m and the sum below 4 m: a legal factor.
    fn enter<U: Unit>(&mut self, unit: U) {
        unit.multiply(&mut self.power, &self.low, &self.squares, &self.moduli);
        unit.multiply(&mut self.next, &self.high, &self.cubes, &self.moduli);
        unit.add(&mut self.base, &self.power, &self.next);
    }

    /// The base to the exponent, window by window from the highest: the same squarings, the same reading of the whole
    /// table and the same multiplication for every window, zero or not.
    fn pow_mod<U: Unit>(&mut self, unit: U) {
        self.table[1] = self.base;
        for i in 1..TABLE / 2 {
            let (below, above) = self.table.split_at_mut(2 * i);
            let [even, odd, ..] = above else { return };
            unit.square(even, &below[i], &self.moduli);
            unit.multiply(odd, even, &self.base, &self.moduli);
        }
        unit.choose(&mut self.power, &self.table, &self.windows[0]);
        for window in &self.windows[1..] {
            unit.square(&mut self.next, &self.power, &self.moduli);
            unit.square(&mut self.power, &self.next, &self.moduli);
            unit.square(&mut self.next, &self.power, &self.moduli);
            unit.square(&mut self.low, &self.next, &self.moduli);
            unit.choose(&mut self.base, &self.table, window);
            unit.multiply(&mut self.power, &self.low, &self.base, &self.moduli);
        }
    }

    /// Garner's recombination: m = m_q + q · ((m_p - m_q) / q mod p) (RFC 8017 clause 5.1.2 step 2.b).
    fn recombine<U: Unit>(&mut self, unit: U, pairs: &[Pair<'_>], out: &mut [[u8; MODULUS_BYTES]]) {
        self.base = [Row::ZERO; DIGITS];
        self.base[0] = Row([1; LANES]);
        unit.multiply(&mut self.next, &self.power, &self.base, &self.moduli);
        for (message, (key, _)) in pairs.iter().enumerate() {
            let mut of_p = Zeroizing::new(take(&self.next, 2 * message));
            let mut of_q = Zeroizing::new(take(&self.next, 2 * message + 1));
            reduce_once(&mut of_p, &key.p.prime);
            reduce_once(&mut of_q, &key.q.prime);
            put(&mut self.next, 2 * message + 1, &of_q);
            put(&mut self.low, 2 * message, &difference(&of_p, &of_q, &key.p.prime));
            put(&mut self.high, 2 * message, &key.coefficient);
        }
        unit.multiply(&mut self.power, &self.low, &self.high, &self.moduli);
        for (message, ((key, _), out)) in pairs.iter().zip(out).enumerate() {
            let of_q = Zeroizing::new(take(&self.next, 2 * message + 1));
            let mut factor = Zeroizing::new(take(&self.power, 2 * message));
            reduce_once(&mut factor, &key.p.prime);
            let result: Zeroizing<[u64; DOUBLE]> = Zeroizing::new(multiply_add(&of_q, &factor, &key.q.prime));
            to_bytes(&result, out);
        }
    }
}

#[cfg(test)]
impl Pass {
    /// Whether all memory is zero.
    pub(super) fn is_blank(&self) -> bool {
        let rows = self.table.iter().flatten().chain(&self.moduli.digits).chain([&self.moduli.inverse]);
        let rows = rows.chain(&self.squares).chain(&self.cubes).chain(&self.low).chain(&self.high);
        let mut rows = rows.chain(&self.base).chain(&self.power).chain(&self.next).chain(&self.windows);
        rows.all(|row| *row == Row::ZERO)
    }
}
