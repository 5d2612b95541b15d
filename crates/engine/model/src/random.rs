//! Random numbers without a sequence: hashes of what they are for.

use core::f64::consts::TAU;

/// Names a random number, or a family of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(u64);

impl Seed {
    /// The family of a thing with a name, in a run with this number.
    #[must_use]
    pub fn of(number: u64, name: &str) -> Self {
        name.bytes().fold(Self(mix(number)), |seed, byte| seed.with(byte.into()))
    }

    /// A member of the family, by its number.
    #[must_use]
    pub const fn with(self, number: u64) -> Self {
        Self(mix(self.0 ^ mix(number)))
    }

    /// A number from 0 to below 1, all equally likely.
    #[must_use]
    pub fn unit(self) -> f64 {
        let high = u32::try_from(mix(self.0) >> 32).unwrap_or(0);
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }

    /// A number of the standard normal distribution. Source of the formula: Box and Muller, "A Note on the Generation of
    /// Random Normal Deviates" (1958).
    #[must_use]
    pub fn gaussian(self) -> f64 {
        let (radius, angle) = (1.0 - self.with(1).unit(), self.with(2).unit());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(TAU * angle)
    }
}

/// Spreads a number over all bits. Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
const fn mix(number: u64) -> u64 {
    let x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
