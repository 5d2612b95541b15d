//! Where the decisions of a run come from: a seed, or the bytes of a fuzzer.

use std::time::Duration;
use tieline_core::Random;

/// A source of decisions: the same source, the same run.
#[derive(Clone, Debug)]
pub struct Choices(Source);

#[derive(Clone, Debug)]
enum Source {
    Seed(Random),
    /// Bytes and how many were used; zeros follow.
    Bytes(Vec<u8>, usize),
}

impl Choices {
    /// Decisions without end.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(Source::Seed(Random::new(seed)))
    }

    /// Decisions of a fuzzer, a byte or a few each; when there are no more, all are the first choice.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Source::Bytes(bytes.to_vec(), 0))
    }

    /// Whether the bytes have ended; a seed never does.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        match &self.0 {
            Source::Seed(_) => false,
            Source::Bytes(bytes, used) => *used >= bytes.len(),
        }
    }

    /// A number below `limit`; 0 where there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        let drawn = match &mut self.0 {
            Source::Seed(random) => random.number(),
            Source::Bytes(bytes, used) => {
                let count = if limit <= 1 << 8 { 1 } else { 2 };
                let taken = bytes.get(*used..).unwrap_or_default();
                *used += count;
                taken.iter().take(count).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }
        };
        drawn.checked_rem(limit).unwrap_or(0)
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether something that happens so many times in a hundred happens.
    pub fn chance(&mut self, percent: u64) -> bool {
        // The first choice is the quiet one.
        self.below(100) >= 100 - percent.min(100)
    }

    /// One of some.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).expect("an index")]
    }

    /// A duration from `low` to `high` milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// Bytes, `count` at most; fewer where they end.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        match &mut self.0 {
            Source::Seed(random) => (0..count).map(|_| random.number().to_le_bytes()[0]).collect(),
            Source::Bytes(bytes, used) => {
                let taken: Vec<u8> = bytes.iter().skip(*used).take(count).copied().collect();
                *used += count;
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_source_gives_the_same_decisions() {
        let draw = |mut choices: Choices| (0..50).map(|_| choices.below(1000)).collect::<Vec<_>>();
        assert_eq!(draw(Choices::seeded(7)), draw(Choices::seeded(7)));
        assert_ne!(draw(Choices::seeded(7)), draw(Choices::seeded(8)));
    }

    #[test]
    fn bytes_end_in_first_choices() {
        let mut choices = Choices::of_bytes(&[3, 200, 1, 2]);
        assert_eq!((choices.below(10), choices.chance(50), choices.between(5, 1004)), (3, false, 263));
        assert!(choices.is_spent());
        assert_eq!((choices.below(10), choices.chance(99), choices.bytes(3)), (0, false, Vec::new()));
    }
}
