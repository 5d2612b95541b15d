//! Hostile inputs in any number on a stable toolchain: seeds of a target, changed as a fuzzer changes them.

use crate::Choices;

/// An input never grows beyond this.
const INPUT_BYTES_MAX: usize = 2048;
/// Changes of one input: 1, 2, 4 or 8.
const CHANGES_BITS: u64 = 4;
/// Kinds of changes; the first ones keep the length.
const KINDS: u64 = 10;
const KINDS_OF_SAME_LENGTH: u64 = 7;
/// Numbers at which lengths, counts and signs turn over.
const EDGES: [u32; 18] = [
    0,
    1,
    2,
    0x7E,
    0x7F,
    0x80,
    0xFA,
    0xFE,
    0xFF,
    0x100,
    0x5C4,
    0x7FFF,
    0x8000,
    0xFFFE,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
];

/// Makes inputs from seeds.
#[derive(Clone, Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// One for these seeds; without any, inputs are random bytes.
    #[must_use]
    pub const fn new(seeds: Vec<Vec<u8>>) -> Self {
        Self { seeds }
    }

    /// The input of a number: the same seed and number, the same input.
    #[must_use]
    pub fn input(&self, seed: u64, number: u64) -> Vec<u8> {
        // The numbers of one seed lie far apart in the sequence of another.
        let mut choices = Choices::seeded(seed.rotate_left(32) ^ number.wrapping_mul(0xD1B5_4A32_D192_ED03));
        let mut input = self.seed(&mut choices);
        if choices.chance(10) {
            let other = self.seed(&mut choices);
            splice(&mut choices, &mut input, &other);
        }
        // Frames say how long they are: half of the inputs keep the length of their seed.
        let kinds = if choices.chance(50) { KINDS } else { KINDS_OF_SAME_LENGTH };
        for _ in 0..(1 << choices.below(CHANGES_BITS)) {
            change(&mut choices, &mut input, kinds);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn seed(&self, choices: &mut Choices) -> Vec<u8> {
        let is_random = choices.chance(3);
        match self.seeds.get(index(choices, self.seeds.len())).filter(|_| !is_random) {
            Some(seed) => seed.clone(),
            None => {
                let len = index(choices, 300);
                choices.bytes(len)
            }
        }
    }
}

/// The head of one and the tail of another.
fn splice(choices: &mut Choices, input: &mut Vec<u8>, other: &[u8]) {
    input.truncate(index(choices, input.len() + 1));
    input.extend_from_slice(&other[index(choices, other.len() + 1)..]);
}

fn change(choices: &mut Choices, input: &mut Vec<u8>, kinds: u64) {
    let at = index(choices, input.len());
    match choices.below(kinds) {
        0 | 1 => {
            let bit = choices.below(8);
            input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << bit);
        }
        2 | 3 => {
            let new = choices.bytes(1);
            overwrite(input, at, &new);
        }
        4 => {
            let by = choices.below(33).to_le_bytes()[0].wrapping_sub(16);
            input.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_add(by));
        }
        5 | 6 => {
            let edge = choices.pick(&EDGES);
            let (little, big) = (edge.to_le_bytes(), edge.to_be_bytes());
            let width = choices.pick(&[1, 2, 4]);
            let bytes = if choices.chance(50) { &big[4 - width..] } else { &little[..width] };
            overwrite(input, at, bytes);
        }
        7 => {
            let end = (at + 1 + index(choices, 16)).min(input.len());
            drop(input.drain(at..end));
        }
        8 => {
            let count = 1 + index(choices, 16);
            let new = choices.bytes(count);
            drop(input.splice(at..at, new));
        }
        _ => {
            let end = (at + 1 + index(choices, 64)).min(input.len());
            let again = input[at..end].to_vec();
            drop(input.splice(at..at, again));
        }
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    input.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = *new);
}

/// A place below `len`; 0 where there is none.
fn index(choices: &mut Choices, len: usize) -> usize {
    usize::try_from(choices.below(len as u64)).expect("below a length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn inputs_differ_by_number_and_seed_and_come_again() {
        let mutator = Mutator::new(vec![(0..64).collect(), (100..200).collect()]);
        let inputs: HashSet<Vec<u8>> = (0..1000).map(|number| mutator.input(1, number)).collect();
        assert!(inputs.len() > 900, "{} of 1000 differ", inputs.len());
        assert_eq!(mutator.input(1, 7), mutator.input(1, 7));
        let other: HashSet<Vec<u8>> = (0..1000).map(|number| mutator.input(2, number)).collect();
        assert!(other.intersection(&inputs).count() < 100);
    }

    #[test]
    fn inputs_have_a_length_at_most() {
        let mutator = Mutator::new(vec![vec![0; INPUT_BYTES_MAX]]);
        assert!((0..1000).all(|number| mutator.input(3, number).len() <= INPUT_BYTES_MAX));
        assert!((0..1000).any(|number| mutator.input(3, number).len() < INPUT_BYTES_MAX));
    }
}
