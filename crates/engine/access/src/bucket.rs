//! A token bucket in virtual time.

use core::time::Duration;
use tieline_core::Instant;

/// Lets through a rate, and bursts of as much as one second brings.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_s: u32,
    /// In billionths of a token.
    level: u64,
    at: Instant,
}

const TOKEN: u64 = 1_000_000_000;

impl Bucket {
    /// A full bucket; `per_s` 1 to 4,294,967,295.
    #[must_use]
    pub fn full(per_s: u32, now: Instant) -> Self {
        Self { per_s, level: u64::from(per_s) * TOKEN, at: now }
    }

    /// Takes tokens; false, with nothing taken, when there are too few. More than the bucket holds can be taken from a
    /// full one, so that what is larger than a second's worth passes at all; what follows waits for it.
    pub fn take(&mut self, now: Instant, tokens: u32) -> bool {
        self.fill(now);
        let full = u64::from(self.per_s) * TOKEN;
        let wanted = (u64::from(tokens) * TOKEN).min(full);
        let enough = self.level >= wanted;
        if enough {
            self.level -= wanted;
        }
        enough
    }

    /// Whether there is a token, none taken.
    pub fn has_one(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.level >= TOKEN
    }

    /// How long until it is full again.
    #[must_use]
    pub fn full_in(&self) -> Duration {
        let missing = (u64::from(self.per_s) * TOKEN).saturating_sub(self.level);
        Duration::from_nanos(missing / u64::from(self.per_s.max(1)))
    }

    fn fill(&mut self, now: Instant) {
        let passed = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        self.at = self.at.max(now);
        let more = passed.saturating_mul(u64::from(self.per_s));
        self.level = self.level.saturating_add(more).min(u64::from(self.per_s) * TOKEN);
    }
}
