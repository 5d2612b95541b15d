//! Numbers that look random and can be had again.

/// A generator whose numbers are those of its seed; not for secrets. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom
/// Number Generators" (2014), `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from `seed`: the same seed, the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 where there is none.
    pub const fn below(&mut self, end: u64) -> u64 {
        match self.number().checked_rem(end) {
            Some(number) => number,
            None => 0,
        }
    }

    /// Whether something happens that happens one in so many times.
    pub const fn is_one_of(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation (<https://prng.di.unimi.it/splitmix64.c>) for the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let numbers: [u64; 5] = core::array::from_fn(|_| random.number());
        let expect: [u64; 5] = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(numbers, expect);
        assert_eq!(random.below(0), 0);
    }
}
