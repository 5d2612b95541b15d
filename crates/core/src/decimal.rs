//! Numbers of single precision as the decimals that they stand for.

use alloc::string::ToString;

/// A number that came in single precision, as the decimal it stands for: 51.2 and not 51.20000076293945. A double that
/// happens to be exact in single precision moves by less than one part in ten million.
#[must_use]
pub fn shortest(number: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "whether it is exact is what is asked")]
    let single = number as f32;
    let exact = f64::from(single).to_bits() == number.to_bits();
    let whole = number % 1.0 == 0.0;
    if !exact || whole {
        return number;
    }
    few_decimals(number, single).unwrap_or_else(|| single.to_string().parse().unwrap_or(number))
}

/// The same where it has few decimals and is not near the limits of single precision, as most have: without a text.
///
/// A single below 2^24 times a power of ten up to 10^7 is exact in double precision, and so are both numbers of the
/// quotient: it is the double next to the decimal.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "what is cast is below 2^53, and whether it is the same single is what is asked"
)]
fn few_decimals(number: f64, single: f32) -> Option<f64> {
    if !(1e-3..16_777_216.0).contains(&number.abs()) {
        return None;
    }
    for power in [1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7] {
        let scaled = number.abs() * power;
        let below = scaled as u64 as f64;
        let rest = scaled - below;
        let nearest = match rest {
            // Two decimals are as near.
            0.5 => return None,
            rest if rest > 0.5 => below + 1.0,
            _ => below,
        };
        let decimal = nearest / power;
        if decimal as f32 == single.abs() {
            return Some(decimal.copysign(number));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn singles_read_as_their_decimals() {
        assert_eq!(shortest(f64::from(51.2_f32)), 51.2);
        assert_eq!(shortest(f64::from(-1.0e-30_f32)), -1.0e-30);
        assert_eq!(shortest(51.2), 51.2);
        assert_eq!(shortest(f64::from(u32::MAX)), f64::from(u32::MAX));
        assert!(shortest(f64::NAN).is_nan());
    }

    fn check(single: f32) {
        // Whole numbers are exact as they are.
        let is_whole = single % 1.0 == 0.0;
        let expect = if is_whole { f64::from(single) } else { single.to_string().parse().unwrap() };
        let found = shortest(f64::from(single));
        assert!(found.to_bits() == expect.to_bits() || single.is_nan(), "{single:?}: {found:?}, expected {expect:?}");
    }

    #[test]
    fn halves_and_limits_are_as_their_texts() {
        for whole in [0.0_f32, 1.0, 4095.0, 16_384.0, 65_535.0, 2_097_152.0, 4_194_304.0, 8_388_607.0, 16_777_215.0] {
            for part in [0.5_f32, 0.25, 0.125, 0.062_5, 0.031_25, 0.001, 0.000_1] {
                check(whole + part);
                check(-whole - part);
            }
        }
    }

    proptest! {
        #[test]
        fn singles_are_as_their_texts(bits in any::<u32>()) {
            check(f32::from_bits(bits));
        }

        #[test]
        fn measured_numbers_are_as_their_texts(units in -2_000_000_i32..2_000_000, power in 0_u8..7) {
            #[expect(clippy::cast_possible_truncation, reason = "singles are what is tested")]
            check((f64::from(units) / 10_f64.powi(power.into())) as f32);
        }

        #[test]
        fn singles_of_many_digits_are_as_their_texts(bits in 0x3A00_0000_u32..0x4B80_0000) {
            check(f32::from_bits(bits));
        }
    }
}
