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
    single.to_string().parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singles_read_as_their_decimals() {
        assert_eq!(shortest(f64::from(51.2_f32)), 51.2);
        assert_eq!(shortest(f64::from(-1.0e-30_f32)), -1.0e-30);
        assert_eq!(shortest(51.2), 51.2);
        assert_eq!(shortest(f64::from(u32::MAX)), f64::from(u32::MAX));
        assert!(shortest(f64::NAN).is_nan());
    }
}
