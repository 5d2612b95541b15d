//! How far the clock of the other end is from ours, from questions and their answers.

use alloc::collections::VecDeque;
use core::time::Duration;
use tieline_core::{Instant, Now, Timestamp};

/// Exchanges that are kept.
const SAMPLES_MAX: usize = 16;
/// Older ones say nothing: clocks drift by up to 100 ppm, 30 ms in this time.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(300);
const DRIFT_PPM: i64 = 100;
/// A clock that differs by more from what went by since the last exchange has been set.
const STEP_MICROS: i64 = 50_000;

/// An estimate of `their clock - our clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// In microseconds.
    pub micros: i64,
    /// It is wrong by so much at most, as long as neither clock is set: half the time that the link took, if it took all of it in one
    /// direction, and what the clocks may have drifted since.
    pub error_micros: i64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    offset: i64,
    /// Time on the link, both ways.
    link: i64,
}

/// Compares two clocks by exchanges of a request and an answer: of the last ones, that with the shortest way counts, since the time
/// that it spent in queues is the least.
#[derive(Clone, Debug, Default)]
pub struct ClockOffset {
    samples: VecDeque<Sample>,
    /// Our clock minus what went by, at the last exchange.
    base: Option<i64>,
    /// How often a clock was set.
    steps: u64,
}

impl ClockOffset {
    /// A request that went at `asked` came to the other end at `received` by its clock, and the answer, sent at `sent` by its clock,
    /// came at `now`.
    pub fn handle_exchange(&mut self, asked: Now, received: Timestamp, sent: Timestamp, now: Now) {
        let base = now.utc.micros() - micros(now.mono.since(Instant::ZERO));
        if self.base.is_some_and(|before| (base - before).abs() > STEP_MICROS) {
            self.forget();
        }
        self.base = Some(base);
        // Where our clock was set in between, by what went by.
        let (went_by, held) = (micros(now.mono.since(asked.mono)), sent.micros() - received.micros());
        if held < 0 || held > went_by {
            self.forget();
            return;
        }
        let asked_utc = now.utc.micros() - went_by;
        let offset = ((received.micros() - asked_utc) + (sent.micros() - now.utc.micros())) / 2;
        let sample = Sample { at: now.mono, offset, link: went_by - held };
        let old = now.mono - SAMPLE_AGE_MAX;
        let is_apart = |other: &Sample| (other.offset - offset).abs() > (other.link + sample.link) / 2 + STEP_MICROS;
        if self.samples.iter().any(is_apart) {
            // Theirs was set.
            self.forget();
        }
        self.samples.retain(|sample| sample.at >= old);
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The estimate, where there was an exchange in the last minutes.
    #[must_use]
    pub fn offset(&self, now: Instant) -> Option<Offset> {
        let drift = |sample: &Sample| micros(now.since(sample.at)) * DRIFT_PPM / 1_000_000;
        let error = |sample: &Sample| (sample.link + 1) / 2 + drift(sample);
        let recent = self.samples.iter().filter(|sample| now.since(sample.at) <= SAMPLE_AGE_MAX);
        let best = recent.min_by_key(|sample| error(sample))?;
        Some(Offset { micros: best.offset, error_micros: error(best) })
    }

    /// How often one of the clocks was set, as far as could be seen.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    fn forget(&mut self) {
        self.samples.clear();
        self.steps += 1;
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: i64 = 1_700_000_000_000_000;

    fn now(micros: u64, clock: i64) -> Now {
        let utc = START + clock + i64::try_from(micros).unwrap();
        Now { mono: Instant(micros * 1000), utc: Timestamp::from_micros(utc) }
    }

    proptest! {
        #[test]
        fn the_truth_is_within_the_bound(
            offset in -1_i64 << 40..1 << 40,
            ways in prop::collection::vec((0..400_000_u64, 0..100_000_u64, 0..400_000_u64, 0..5_000_000_u64), 1..40),
        ) {
            let (mut clock, mut time) = (ClockOffset::default(), 0);
            for (up, held, down, pause) in ways {
                let asked = now(time, 0);
                let (received, sent) = (now(time + up, offset).utc, now(time + up + held, offset).utc);
                time += up + held + down;
                clock.handle_exchange(asked, received, sent, now(time, 0));
                let found = clock.offset(Instant(time * 1000)).unwrap();
                prop_assert!((found.micros - offset).abs() <= found.error_micros, "{found:?} for {offset}");
                time += pause;
            }
            prop_assert_eq!(clock.steps(), 0);
        }

        #[test]
        fn a_step_of_either_clock_is_seen(step in 200_000_i64..1 << 40, is_ours: bool, is_back: bool) {
            let step = if is_back { -step } else { step };
            let mut clock = ClockOffset::default();
            for i in 0..6_u64 {
                let (ours, theirs) = if i < 3 { (0, 0) } else if is_ours { (step, 0) } else { (0, step) };
                let at = i * 1_000_000;
                let received = now(at + 1_000, theirs).utc;
                clock.handle_exchange(now(at, ours), received, received, now(at + 2_000, ours));
                let found = clock.offset(Instant((at + 2_000) * 1000)).unwrap();
                prop_assert!((found.micros - (theirs - ours)).abs() <= found.error_micros);
            }
            prop_assert_eq!(clock.steps(), 1);
        }
    }

    #[test]
    fn the_shortest_way_counts() {
        let mut clock = ClockOffset::default();
        for (at, up, down) in [(0, 300_000, 2_000), (1_000_000, 1_000, 1_400), (2_000_000, 2_000, 250_000)] {
            let received = now(at + up, 5_000).utc;
            clock.handle_exchange(now(at, 0), received, received, now(at + up + down, 0));
        }
        let found = clock.offset(Instant(2_252_000_000)).unwrap();
        assert!((found.micros - 5_000).abs() <= 200 && found.error_micros < 1_500, "{found:?}");
        assert_eq!(clock.offset(Instant(600_000_000_000)), None);
    }
}
