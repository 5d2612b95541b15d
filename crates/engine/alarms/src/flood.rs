//! Annunciations of the last ten minutes.

use crate::Settings;
use core::time::Duration;
use tieline_core::Instant;

/// Parts of the ten minutes.
const PARTS: usize = 60;
/// The length of a part.
const PART: Duration = Duration::from_secs(10);

/// Counts annunciations, and says when they are a flood.
#[derive(Clone, Debug)]
pub(crate) struct Flood {
    parts: [u32; PARTS],
    /// The number of the newest part since the start of the clock.
    newest: u64,
    total: u32,
    is_on: bool,
}

impl Flood {
    pub(crate) const fn new() -> Self {
        Self { parts: [0; PARTS], newest: 0, total: 0, is_on: false }
    }

    /// Adds an annunciation; whether a flood begins with it.
    pub(crate) fn add(&mut self, now: Instant, settings: &Settings) -> bool {
        self.advance(now);
        if let Some(part) = self.parts.get_mut(place(self.newest)) {
            *part = part.saturating_add(1);
        }
        self.total = self.total.saturating_add(1);
        let begins = !self.is_on && self.total > settings.flood_in.saturating_mul(settings.operators);
        self.is_on |= begins;
        begins
    }

    /// Whether the flood has ended by now.
    pub(crate) fn has_ended(&mut self, now: Instant, settings: &Settings) -> bool {
        self.advance(now);
        let ends = self.is_on && self.total < settings.flood_out.saturating_mul(settings.operators);
        self.is_on &= !ends;
        ends
    }

    /// When the count next changes; none without a flood.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.is_on.then(|| Instant::ZERO + PART.saturating_mul(u32::try_from(self.newest + 1).unwrap_or(u32::MAX)))
    }

    pub(crate) const fn total(&self) -> u32 {
        self.total
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    fn advance(&mut self, now: Instant) {
        let number = now.since(Instant::ZERO).as_secs() / PART.as_secs();
        let passed = number.saturating_sub(self.newest).min(PARTS as u64);
        for back in 0..passed {
            if let Some(part) = self.parts.get_mut(place(number - back)) {
                self.total = self.total.saturating_sub(core::mem::take(part));
            }
        }
        self.newest = self.newest.max(number);
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number % PARTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_a_beginning_and_an_end() {
        let settings = Settings { operators: 1, flood_in: 10, flood_out: 5, ..Settings::default() };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut flood = Flood::new();
        assert_eq!((0..10).filter(|n| flood.add(at(1000 + n * 5), &settings)).count(), 0);
        assert!(flood.add(at(1060), &settings));
        assert!(!flood.add(at(1061), &settings));
        assert_eq!((flood.total(), flood.timeout()), (12, Some(at(1070))));
        assert!(!flood.has_ended(at(1605), &settings));
        assert!(!flood.has_ended(at(1615), &settings) && flood.total() >= 5);
        assert!(flood.has_ended(at(1660), &settings));
        assert!((flood.is_on(), flood.timeout()) == (false, None));
        assert!(!flood.has_ended(at(90_000), &settings));
        assert_eq!(flood.total(), 0);
    }
}
