//! Curves that depend on time alone.

use crate::Steps;
use crate::steps::bounds;
use alloc::boxed::Box;
use core::f64::consts::TAU;
use core::time::Duration;
use tieline_core::Timestamp;

/// Values of one curve at most.
pub const VALUES_MAX: usize = 10_000;

const DAY: Duration = Duration::from_secs(86_400);

/// A moment of a device: on the clock, and since the device started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) utc: Timestamp,
    pub(crate) since_start: Duration,
}

impl Moment {
    pub(crate) fn new(start: Timestamp, since_start: Duration) -> Self {
        Self { utc: start.later(since_start), since_start }
    }

    /// How far a period has come, from 0 to below 1. Periods are counted from 1970.
    fn phase(self, period: Duration) -> f64 {
        self.within(period).as_secs_f64() / period.as_secs_f64().max(1e-6)
    }

    /// Time since the last multiple of the period.
    pub(crate) fn within(self, period: Duration) -> Duration {
        let period = i64::try_from(period.as_micros()).unwrap_or(i64::MAX).max(1);
        Duration::from_micros(u64::try_from(self.utc.micros().rem_euclid(period)).unwrap_or(0))
    }
}

/// A function of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Wave {
    /// A straight line, again and again.
    Ramp {
        /// The value at the start of a period.
        from: f64,
        /// The value that it comes close to.
        to: f64,
        /// How long it takes.
        period: Duration,
    },
    /// A straight line there and back.
    Triangle {
        /// The value at the start of a period.
        from: f64,
        /// The value in the middle.
        to: f64,
        /// There and back.
        period: Duration,
    },
    /// A sine wave.
    Sine {
        /// Its middle.
        mean: f64,
        /// From the middle to the top.
        amplitude: f64,
        /// From one top to the next.
        period: Duration,
        /// How much later it is.
        shift: Duration,
    },
    /// Two values in turns.
    Square {
        /// The value of the rest of a period.
        low: f64,
        /// The value of the first part of a period.
        high: f64,
        /// Both.
        period: Duration,
        /// The share of the first part, from 0 to 1.
        share: f64,
    },
    /// Values that are spread evenly over a day, with straight lines between them.
    Day(Box<[f64]>),
    /// Values of a table.
    Steps(Steps),
}

impl Wave {
    pub(crate) fn at(&self, moment: Moment) -> f64 {
        match self {
            Self::Ramp { from, to, period } => from + (to - from) * moment.phase(*period),
            Self::Triangle { from, to, period } => {
                let there = 1.0 - (2.0 * moment.phase(*period) - 1.0).abs();
                from + (to - from) * there
            }
            Self::Sine { mean, amplitude, period, shift } => {
                let late = shift.as_secs_f64() / period.as_secs_f64().max(1e-6);
                mean + amplitude * libm::sin(TAU * (moment.phase(*period) - late))
            }
            Self::Square { low, high, period, share } => {
                if moment.phase(*period) < *share {
                    *high
                } else {
                    *low
                }
            }
            Self::Day(values) => day(values, moment.within(DAY)),
            Self::Steps(steps) => steps.at(moment),
        }
    }

    /// The least and the greatest value.
    pub(crate) fn bounds(&self) -> (f64, f64) {
        match self {
            Self::Ramp { from, to, .. } | Self::Triangle { from, to, .. } => bounds([*from, *to].into_iter()),
            Self::Sine { mean, amplitude, .. } => bounds([mean - amplitude, mean + amplitude].into_iter()),
            Self::Square { low, high, .. } => bounds([*low, *high].into_iter()),
            Self::Day(values) => bounds(values.iter().copied()),
            Self::Steps(steps) => steps.bounds(),
        }
    }
}

fn day(values: &[f64], time: Duration) -> f64 {
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX).max(1);
    let each = DAY / count;
    let number = usize::try_from(time.as_micros() / each.as_micros().max(1)).unwrap_or(0) % values.len().max(1);
    let share = (time.as_secs_f64() / each.as_secs_f64()) % 1.0;
    let value = |number: usize| values.get(number % values.len().max(1)).copied().unwrap_or_default();
    let (one, next) = (value(number), value(number + 1));
    one + (next - one) * share
}
