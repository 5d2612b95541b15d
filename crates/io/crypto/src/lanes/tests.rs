//! The lanes against plain big numbers, and the vector unit against the plain lanes.

use super::vector::{DIGIT_MASK, LANES};
use super::*;
use crate::MODULUS_BYTES;
use num_bigint::BigUint;
use proptest::prelude::*;

fn big(bytes: &[u8]) -> BigUint {
    BigUint::from_bytes_be(bytes)
}

fn bytes<const N: usize>(number: &BigUint) -> [u8; N] {
    let bytes = number.to_bytes_be();
    let mut out = [0; N];
    out[N - bytes.len()..].copy_from_slice(&bytes);
    out
}

fn number<const N: usize>(digits: &[u64; N]) -> BigUint {
    digits.iter().rev().fold(BigUint::ZERO, |sum, digit| (sum << 52u32) + digit)
}

/// An octet string with edges: random, zero, all ones, one, leading zeros, leading ones.
fn any_bytes<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    (any::<[u8; 32]>(), 0usize..8).prop_map(|(seed, shape)| {
        let mut out: [u8; N] =
            std::array::from_fn(|i| seed[i % 32].wrapping_mul(i as u8 | 1).rotate_left(i as u32 / 32));
        match shape {
            0 => out.fill(0),
            1 => out.fill(0xff),
            2 => {
                out.fill(0);
                out[N - 1] = 1;
            }
            3 => out[..N / 2].fill(0),
            4 => out[..N / 2].fill(0xff),
            _ => {}
        }
        out
    })
}

/// Odd, and its highest bit set.
fn any_modulus<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    any_bytes().prop_map(|mut bytes: [u8; N]| {
        bytes[0] |= 0x80;
        bytes[N - 1] |= 1;
        bytes
    })
}

#[derive(Clone, Debug)]
struct TestKey {
    p: [u8; 128],
    q: [u8; 128],
    exponent_p: [u8; 128],
    exponent_q: [u8; 128],
    coefficient: [u8; 128],
}

impl TestKey {
    fn lane(&self) -> LaneKey {
        LaneKey::new(&Parts {
            prime_p: &self.p,
            prime_q: &self.q,
            exponent_p: &self.exponent_p,
            exponent_q: &self.exponent_q,
            coefficient: &self.coefficient,
        })
        .unwrap()
    }

    /// RFC 8017 clause 5.1.2, in big numbers; holds for any moduli, prime or not.
    fn pow_mod(&self, c: &[u8; MODULUS_BYTES]) -> [u8; MODULUS_BYTES] {
        let (p, q) = (big(&self.p), big(&self.q));
        let of_p = big(c).modpow(&big(&self.exponent_p), &p);
        let of_q = big(c).modpow(&big(&self.exponent_q), &q);
        let h = (of_p + &p + &p - &of_q) * big(&self.coefficient) % p;
        bytes(&(of_q + h * q))
    }
}

fn any_key() -> impl Strategy<Value = TestKey> {
    (any_modulus(), any_modulus(), any_bytes(), any_bytes(), any_bytes())
        .prop_map(|(p, q, exponent_p, exponent_q, coefficient)| TestKey { p, q, exponent_p, exponent_q, coefficient })
}

/// Runs on the plain lanes, and on the vector unit where there is one; both say the same.
fn on_all_units<T: PartialEq + std::fmt::Debug>(plain: impl Fn(Portable) -> T, vector: impl Fn(Ifma) -> T) -> T {
    let out = plain(Portable);
    if let Some(ifma) = Ifma::detect() {
        assert_eq!(vector(ifma), out, "the vector unit against the plain lanes");
    }
    out
}

fn run_pass<U: Unit>(unit: U, keys: &[TestKey], numbers: &[[u8; 256]]) -> Vec<[u8; 256]> {
    let keys: Vec<_> = keys.iter().map(TestKey::lane).collect();
    let pairs: Vec<_> = keys.iter().zip(numbers).collect();
    let mut out = vec![[0; MODULUS_BYTES]; pairs.len()];
    Pass::new().run(unit, &pairs, &mut out);
    out
}

fn check_pass(keys: &[TestKey], numbers: &[[u8; 256]]) {
    let out = on_all_units(|unit| run_pass(unit, keys, numbers), |unit| run_pass(unit, keys, numbers));
    for ((key, number), out) in keys.iter().zip(numbers).zip(out) {
        assert_eq!(big(&out), big(&key.pow_mod(number)));
    }
}

fn run_multiply<U: Unit, const N: usize>(unit: U, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) -> Wide<N> {
    let mut product = [Row::ZERO; N];
    unit.multiply(&mut product, a, b, moduli);
    product
}

fn run_square<U: Unit>(unit: U, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) -> Wide<PRIME_DIGITS> {
    let mut square = [Row::ZERO; PRIME_DIGITS];
    unit.square(&mut square, a, moduli);
    square
}

fn wide<const N: usize>(numbers: &[[u64; N]; LANES]) -> Wide<N> {
    std::array::from_fn(|digit| Row(numbers.map(|number| number[digit])))
}

fn wide_moduli<const N: usize>(moduli: &[[u64; N]; LANES]) -> Moduli<N> {
    Moduli { digits: wide(moduli), inverse: Row(moduli.map(|modulus| digits::negative_inverse(modulus[0]))) }
}

/// The product is right mod m, below 2 m, and its digits have 52 bits, in every lane.
fn check_product<const N: usize>(
    product: &Wide<N>,
    moduli: &[[u64; N]; LANES],
    a: &[[u64; N]; LANES],
    b: &[[u64; N]; LANES],
) {
    let r = BigUint::from(1u8) << (52 * N);
    for lane in 0..LANES {
        let (modulus, digits) = (number(&moduli[lane]), take(product, lane));
        assert!(digits.iter().all(|&digit| digit <= DIGIT_MASK), "{digits:x?}");
        let product = number(&digits);
        assert!(product < &modulus + &modulus, "lane {lane}");
        assert_eq!(product * &r % &modulus, number(&a[lane]) * number(&b[lane]) % &modulus, "lane {lane}");
    }
}

fn check_multiply<const N: usize>(moduli: &[[u64; N]; LANES], a: &[[u64; N]; LANES], b: &[[u64; N]; LANES]) {
    let (wide_a, wide_b, wide_moduli) = (wide(a), wide(b), wide_moduli(moduli));
    let product = on_all_units(
        |unit| run_multiply(unit, &wide_a, &wide_b, &wide_moduli),
        |unit| run_multiply(unit, &wide_a, &wide_b, &wide_moduli),
    );
    check_product(&product, moduli, a, b);
}

fn check_square(moduli: &[[u64; PRIME_DIGITS]; LANES], a: &[[u64; PRIME_DIGITS]; LANES]) {
    let (wide_a, wide_moduli) = (wide(a), wide_moduli(moduli));
    let square =
        on_all_units(|unit| run_square(unit, &wide_a, &wide_moduli), |unit| run_square(unit, &wide_a, &wide_moduli));
    check_product(&square, moduli, a, a);
}

/// A factor below 4 m, by its place between 0 and the largest.
fn factor<const N: usize>(modulus: &[u64; N], place: &[u8; 32]) -> [u64; N] {
    let range = number(modulus) * 4u8;
    let value = match place[0] {
        0..32 => range - 1u8,
        32..64 => BigUint::ZERO,
        64..96 => number(modulus),
        _ => (range * big(place)) >> 256,
    };
    let mut out = [0; N];
    for (i, digit) in out.iter_mut().enumerate() {
        let low: BigUint = (&value >> (52 * i)) & BigUint::from(DIGIT_MASK);
        *digit = low.try_into().unwrap();
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_of_20_digits(
        moduli in prop::array::uniform8(any_modulus::<128>()),
        a in any::<[[u8; 32]; 8]>(), b in any::<[[u8; 32]; 8]>(),
    ) {
        let moduli = moduli.map(|m| digits::from_bytes::<20>(&m));
        let a = std::array::from_fn(|i| factor(&moduli[i], &a[i]));
        let b = std::array::from_fn(|i| factor(&moduli[i], &b[i]));
        check_multiply(&moduli, &a, &b);
        check_square(&moduli, &a);
    }

    #[test]
    fn products_of_40_digits(
        moduli in prop::array::uniform8(any_modulus::<256>()),
        a in any::<[[u8; 32]; 8]>(), b in any::<[[u8; 32]; 8]>(),
    ) {
        let moduli = moduli.map(|m| digits::from_bytes::<40>(&m));
        let a = std::array::from_fn(|i| factor(&moduli[i], &a[i]));
        let b = std::array::from_fn(|i| factor(&moduli[i], &b[i]));
        check_multiply(&moduli, &a, &b);
    }

    #[test]
    fn bytes_and_digits_are_the_same_number(bytes in any_bytes::<256>()) {
        let digits: [u64; 40] = digits::from_bytes(&bytes);
        prop_assert_eq!(number(&digits), big(&bytes));
        let mut back = [0; 256];
        digits::to_bytes(&digits, &mut back);
        prop_assert_eq!(back, bytes);
    }

    #[test]
    fn below(a in any_bytes::<256>(), b in any_bytes::<256>()) {
        prop_assert_eq!(is_below(&a, &b), big(&a) < big(&b));
    }
}

proptest! {
    // A pass on plain lanes takes some hundredths of a second.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_pass_computes_each_power_with_its_own_key(
        keys in prop::collection::vec(any_key(), 1..=4), numbers in prop::array::uniform4(any_bytes::<256>()),
    ) {
        check_pass(&keys, &numbers[..keys.len()]);
    }

    #[test]
    fn a_public_pass_computes_powers_of_f4(pairs in prop::collection::vec((any_modulus::<256>(), any_bytes::<256>()), 1..=8)) {
        let pairs: Vec<([u8; 256], [u8; 256])> =
            pairs.into_iter().map(|(m, n)| (m, bytes(&(big(&n) % big(&m))))).collect();
        let moduli: Vec<_> = pairs.iter().map(|(modulus, _)| LaneModulus::new(modulus)).collect();
        let work: Vec<_> = moduli.iter().zip(pairs.iter().map(|(_, number)| number)).collect();
        let out = on_all_units(
            |unit| PublicPass::new().run(unit, &work), |unit| PublicPass::new().run(unit, &work),
        );
        for ((modulus, number), out) in pairs.iter().zip(out) {
            prop_assert_eq!(big(&out), big(number).modpow(&BigUint::from(65537u32), &big(modulus)));
        }
    }
}

#[test]
fn the_smallest_and_the_largest_moduli_exponents_and_numbers() {
    let (mut least, most) = ([0; 128], [0xff; 128]);
    (least[0], least[127]) = (0x80, 1);
    let (zero, mut one) = ([0; 128], [0; 128]);
    one[127] = 1;
    let mut keys = Vec::new();
    for (p, q) in [(least, most), (most, least), (least, least), (most, most)] {
        for exponent in [zero, one, most] {
            keys.push(TestKey { p, q, exponent_p: exponent, exponent_q: most, coefficient: most });
        }
    }
    let mut one = [0; 256];
    one[255] = 1;
    for numbers in [[[0; 256]; 4], [one; 4], [[0xff; 256]; 4]] {
        keys.chunks(4).for_each(|keys| check_pass(keys, &numbers));
    }
}

#[test]
fn a_prime_of_another_size_is_not_for_the_lanes() {
    let (mut short, mut even, full, long) = ([0xff; 128], [0xff; 128], [0xff; 128], [0xff; 129]);
    short[0] = 0x7f;
    even[127] = 0xfe;
    let key = |prime_p, exponent_p| {
        LaneKey::new(&Parts { prime_p, prime_q: &full, exponent_p, exponent_q: &full, coefficient: &full }).is_some()
    };
    assert!(key(&full, &full));
    assert!(!key(&short, &full));
    assert!(!key(&even, &full));
    assert!(!key(&long, &full));
    assert!(!key(&full, &long));
    assert!(key(&full, &[]));
}

#[test]
fn a_pass_leaves_nothing_behind() {
    let key =
        TestKey { p: [0xff; 128], q: [0xd5; 128], exponent_p: [3; 128], exponent_q: [5; 128], coefficient: [7; 128] };
    let mut pass = Pass::new();
    pass.run(Portable, &[(&key.lane(), &[9; 256])], &mut [[0; 256]]);
    assert!(pass.is_blank());
}
