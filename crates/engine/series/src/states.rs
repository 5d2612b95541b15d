//! How long a topic was in each state, bucket by bucket.
//!
//! ```text
//! samples in order of time ─ push ─▶ StateTimes ─ poll ─▶ a StateTime for each state of each bucket
//! ```
//!
//! A state stands from its sample until the next one. After a sample of bad quality the state is unknown.

use crate::buckets::Frame;
use crate::column::{Datum, Sample};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use tieline_core::{Timestamp, Validity};

/// States of one bucket at most.
pub const STATES_MAX: usize = 1000;

/// How long a state stood in a bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct StateTime {
    /// When the bucket begins.
    pub start: Timestamp,
    /// The value; none where it is unknown.
    pub state: Option<Datum>,
    /// How long, in microseconds.
    pub micros: u64,
    /// How long the bucket is, as far as it is asked for, in microseconds.
    pub bucket_micros: u64,
    /// How often it was entered: samples that changed the state to it.
    pub entered: u64,
}

/// A topic has more than [`STATES_MAX`] different values in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStates;

/// Adds up how long states stood. Samples come in order of time.
#[derive(Debug)]
pub struct StateTimes {
    frame: Frame,
    /// The state that stands, and up to when it was counted.
    standing: Option<(Option<Datum>, i64)>,
    /// The states of the open bucket, in the order in which they came.
    open: Vec<StateTime>,
    done: VecDeque<StateTime>,
}

impl StateTimes {
    /// Begins with a sample of before, if there is one. The frame ends where the last state ends.
    #[must_use]
    pub fn new(frame: Frame, before: Option<&Sample>) -> Self {
        let standing = before.map(|sample| (state(sample), frame.from.micros()));
        Self { frame, standing, open: Vec::new(), done: VecDeque::new() }
    }

    /// Takes the next sample.
    ///
    /// # Errors
    /// There are too many states.
    pub fn push(&mut self, sample: &Sample) -> Result<(), TooManyStates> {
        if self.frame.bucket(sample.time).is_none() {
            return Ok(());
        }
        let (next, time) = (state(sample), sample.time.micros());
        self.stand_until(time)?;
        let is_entered = self.standing.as_ref().is_none_or(|(state, _)| !is_same(state.as_ref(), next.as_ref()));
        if is_entered {
            self.count(time, next.as_ref(), 0, 1)?;
        }
        self.standing = Some((next, time));
        Ok(())
    }

    /// Takes the end: the last state stands until there.
    ///
    /// # Errors
    /// There are too many states.
    pub fn finish(&mut self) -> Result<(), TooManyStates> {
        self.stand_until(self.frame.to.micros())?;
        self.done.extend(mem::take(&mut self.open));
        Ok(())
    }

    /// The next one that is complete.
    pub fn poll(&mut self) -> Option<StateTime> {
        self.done.pop_front()
    }

    /// Counts what stands up to a time, bucket by bucket.
    fn stand_until(&mut self, time: i64) -> Result<(), TooManyStates> {
        let Some((state, mut since)) = self.standing.take() else { return Ok(()) };
        while since < time {
            let Some((_, end)) = self.frame.bucket(Timestamp::from_micros(since)) else { break };
            let until = end.micros().min(time);
            self.count(since, state.as_ref(), until.abs_diff(since), 0)?;
            since = until;
        }
        self.standing = Some((state, since));
        Ok(())
    }

    fn count(&mut self, time: i64, state: Option<&Datum>, micros: u64, entered: u64) -> Result<(), TooManyStates> {
        let Some((start, end)) = self.frame.bucket(Timestamp::from_micros(time)) else { return Ok(()) };
        if self.open.first().is_some_and(|open| open.start != start) {
            self.done.extend(mem::take(&mut self.open));
        }
        let is_full = self.open.len() >= STATES_MAX;
        match self.open.iter_mut().find(|open| is_same(open.state.as_ref(), state)) {
            Some(open) => {
                open.micros += micros;
                open.entered += entered;
            }
            None if is_full => return Err(TooManyStates),
            None => {
                let bucket_micros = end.micros().abs_diff(start.micros().max(self.frame.from.micros()));
                self.open.push(StateTime { start, state: state.cloned(), micros, bucket_micros, entered });
            }
        }
        Ok(())
    }
}

/// What a sample says of the state; none where it is not to be trusted.
fn state(sample: &Sample) -> Option<Datum> {
    (sample.quality.validity() != Validity::Bad).then(|| sample.datum.clone())
}

/// Not-a-number is the same as itself.
fn is_same(one: Option<&Datum>, other: Option<&Datum>) -> bool {
    match (one, other) {
        (Some(Datum::Float(one)), Some(Datum::Float(other))) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grid;
    use alloc::string::{String, ToString as _};
    use alloc::{format, vec};
    use proptest::prelude::*;
    use tieline_core::Quality;

    fn sample(time: i64, state: i64) -> Sample {
        let quality = if state < 0 { Quality::COMM_LOST } else { Quality::GOOD };
        Sample { time: Timestamp::from_micros(time), datum: Datum::Int(state), quality }
    }

    fn frame(from: i64, to: i64, grid: Grid) -> Frame {
        Frame { from: Timestamp::from_micros(from), to: Timestamp::from_micros(to), grid }
    }

    fn times(frame: Frame, before: Option<Sample>, samples: &[Sample]) -> Vec<StateTime> {
        let mut times = StateTimes::new(frame, before.as_ref());
        samples.iter().for_each(|sample| times.push(sample).unwrap());
        times.finish().unwrap();
        core::iter::from_fn(|| times.poll()).collect()
    }

    /// `start state micros/bucket entered` of each.
    fn shown(times: &[StateTime]) -> Vec<String> {
        let state = |state: &Option<Datum>| match state {
            Some(Datum::Int(state)) => state.to_string(),
            _ => "?".to_string(),
        };
        let line = |time: &StateTime| {
            let start = time.start.micros();
            format!("{start} {} {}/{} {}", state(&time.state), time.micros, time.bucket_micros, time.entered)
        };
        times.iter().map(line).collect()
    }

    #[test]
    fn a_state_stands_until_the_next() {
        let samples = [sample(10, 1), sample(20, 0), sample(25, 0), sample(30, -1), sample(40, 1)];
        let whole = || frame(0, 100, Grid::Starts(vec![Timestamp::from_micros(0)]));
        let found = times(whole(), None, &samples);
        assert_eq!(shown(&found), ["0 1 70/100 2", "0 0 10/100 1", "0 ? 10/100 1"]);
        let found = times(whole(), Some(sample(-5, 7)), &samples);
        assert_eq!(shown(&found), ["0 7 10/100 0", "0 1 70/100 2", "0 0 10/100 1", "0 ? 10/100 1"]);
        let found = times(frame(5, 95, Grid::Every(50)), Some(sample(1, 7)), &samples[..2]);
        assert_eq!(shown(&found), ["0 7 5/45 0", "0 1 10/45 1", "0 0 30/45 1", "50 0 45/45 0"]);
        assert_eq!(times(whole(), None, &[]), []);
        assert_eq!(shown(&times(whole(), Some(sample(-9, 3)), &[])), ["0 3 100/100 0"]);
    }

    #[test]
    fn too_many_states_are_said() {
        let mut times = StateTimes::new(frame(0, 10_000, Grid::Every(1_000_000)), None);
        let found: Vec<bool> = (0..1002).map(|time| times.push(&sample(time, time)).is_ok()).collect();
        assert_eq!(found.iter().position(|is_ok| !is_ok), Some(STATES_MAX));
    }

    proptest! {
        /// Microsecond by microsecond, the naive way.
        #[test]
        fn every_moment_is_counted_once(
            mut samples in prop::collection::vec((0_i64..200, -1_i64..4), 0..30),
            before in prop::option::of(0_i64..4),
            from in 0_i64..50,
            length in 1_i64..150,
            every in 1_i64..80,
        ) {
            samples.sort_by_key(|(time, _)| *time);
            let to = from + length;
            let all: Vec<Sample> = samples.iter().map(|(time, state)| sample(*time, *state)).collect();
            let inside: Vec<Sample> = all.iter().filter(|s| (from..to).contains(&s.time.micros())).cloned().collect();
            let before = before.map(|state| sample(-1, state));
            let found = times(frame(from, to, Grid::Every(every)), before.clone(), &inside);
            let at = |moment: i64| inside.iter().rev().find(|s| s.time.micros() <= moment).or(before.as_ref()).map(state);
            for time in &found {
                let start = time.start.micros();
                let moments = (start.max(from)..(start + every).min(to)).filter(|moment| {
                    at(*moment).is_some_and(|state| state == time.state)
                });
                prop_assert_eq!(moments.count() as u64, time.micros);
            }
            let total: u64 = found.iter().map(|time| time.micros).sum();
            prop_assert_eq!(total, (from..to).filter(|moment| at(*moment).is_some()).count() as u64);
        }
    }
}
