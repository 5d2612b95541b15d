//! Numbers of 52-bit digits outside the lanes: to and from bytes, and what is done once a key or once a message.
//!
//! Every function takes the same steps whatever the numbers are; only lengths are public.

use super::vector::{DIGIT_BITS, DIGIT_MASK};
use subtle::{Choice, ConditionallySelectable};

/// A number, least digit first.
pub(super) type Digits<const N: usize> = [u64; N];

/// From bytes, the highest first; bytes above `N` digits are ignored.
pub(super) fn from_bytes<const N: usize>(bytes: &[u8]) -> Digits<N> {
    let mut digits = [0; N];
    let (mut held, mut bits, mut at) = (0u64, 0, 0);
    for &byte in bytes.iter().rev() {
        // At most 51 bits are held, so the byte fits.
        held |= u64::from(byte) << bits;
        bits += 8;
        if bits >= DIGIT_BITS && at < N {
            digits[at] = held & DIGIT_MASK;
            held >>= DIGIT_BITS;
            bits -= DIGIT_BITS;
            at += 1;
        }
    }
    if at < N {
        digits[at] = held & DIGIT_MASK;
    }
    digits
}

/// To as many bytes as `out` holds, the highest first. The number fits.
pub(super) fn to_bytes<const N: usize>(digits: &Digits<N>, out: &mut [u8]) {
    let (mut held, mut bits) = (0u64, 0);
    let mut digits = digits.iter();
    for byte in out.iter_mut().rev() {
        if bits < 8 {
            let next = digits.next().copied().unwrap_or_default();
            held |= next << bits;
            bits += DIGIT_BITS;
        }
        *byte = (held & 0xff) as u8;
        held >>= 8;
        bits -= 8;
    }
}

/// -1 / `digit` mod 2^52, by Newton's iteration; `digit` is odd.
pub(super) fn negative_inverse(digit: u64) -> u64 {
    // An odd x is its own inverse mod 8; each step doubles the right bits: 3, 6, 12, 24, 48, 96.
    let inverse = (0..5).fold(digit, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(digit.wrapping_mul(inverse))));
    inverse.wrapping_neg() & DIGIT_MASK
}

/// `number` - `modulus` where that is not negative, else `number`.
pub(super) fn reduce_once<const N: usize>(number: &mut Digits<N>, modulus: &Digits<N>) {
    let mut less = [0; N];
    let enough = Choice::from((subtract(&mut less, number, modulus) ^ 1) as u8);
    for (digit, less) in number.iter_mut().zip(&less) {
        digit.conditional_assign(less, enough);
    }
}

/// `out` = `a` - `b` mod 2^(52 N); returns the borrow, 0 or 1.
fn subtract<const N: usize>(out: &mut Digits<N>, a: &Digits<N>, b: &Digits<N>) -> u64 {
    let mut borrow = 0;
    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
        let digit = a.wrapping_sub(*b).wrapping_sub(borrow);
        *out = digit & DIGIT_MASK;
        borrow = digit >> 63;
    }
    borrow
}

/// 2^`exponent` mod `modulus`, whose highest bit is bit `bits` - 1; `exponent` is at least that. By doubling: some
/// thousand steps, once a key.
pub(super) fn power_of_two<const N: usize>(exponent: usize, modulus: &Digits<N>, bits: usize) -> Digits<N> {
    let mut number = [0; N];
    number[(bits - 1) / DIGIT_BITS] = 1 << ((bits - 1) % DIGIT_BITS);
    for _ in bits - 1..exponent {
        let mut carry = 0;
        for digit in &mut number {
            let doubled = (*digit << 1) | carry;
            *digit = doubled & DIGIT_MASK;
            carry = doubled >> DIGIT_BITS;
        }
        reduce_once(&mut number, modulus);
    }
    number
}

/// `a` - `b` + 2 `modulus`, which is not negative for `a`, `b` below 2 `modulus`; fits as `modulus` leaves two bits.
pub(super) fn difference<const N: usize>(a: &Digits<N>, b: &Digits<N>, modulus: &Digits<N>) -> Digits<N> {
    let mut out = [0; N];
    let mut carry = 0i64;
    for (out, (a, (b, modulus))) in out.iter_mut().zip(a.iter().zip(b.iter().zip(modulus))) {
        let digit = a.cast_signed() - b.cast_signed() + 2 * modulus.cast_signed() + carry;
        *out = digit.cast_unsigned() & DIGIT_MASK;
        carry = digit >> DIGIT_BITS;
    }
    out
}

/// `low` + `a` · `b`, in twice the digits: `M` = 2 `N`.
pub(super) fn multiply_add<const N: usize, const M: usize>(low: &Digits<N>, a: &Digits<N>, b: &Digits<N>) -> Digits<M> {
    // A column gathers at most N products below 2^104.
    let mut columns = [0u128; M];
    for (column, digit) in columns.iter_mut().zip(low) {
        *column = u128::from(*digit);
    }
    for (i, a) in a.iter().enumerate() {
        for (column, b) in columns.iter_mut().skip(i).zip(b) {
            *column += u128::from(*a) * u128::from(*b);
        }
    }
    let mut carry = 0;
    columns.map(|column| {
        let sum = column + carry;
        carry = sum >> DIGIT_BITS;
        sum as u64 & DIGIT_MASK
    })
}

/// Whether `a` is below `b`, both highest byte first and of one length. For public numbers only in what it tells, but
/// its time tells nothing.
pub(crate) fn is_below(a: &[u8], b: &[u8]) -> bool {
    let borrow = a
        .iter()
        .zip(b)
        .rev()
        .fold(0u16, |borrow, (a, b)| (u16::from(*a).wrapping_sub(u16::from(*b)).wrapping_sub(borrow)) >> 15);
    borrow == 1
}
