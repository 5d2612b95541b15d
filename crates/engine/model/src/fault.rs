//! What goes wrong, and when.

use crate::Seed;
use alloc::boxed::Box;
use core::time::Duration;
use tieline_core::{PointId, Quality};

/// Faults of one device at most.
pub const FAULTS_MAX: usize = 64;

const HOUR_S: f64 = 3600.0;

/// Something that goes wrong from time to time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When it begins.
    pub when: When,
    /// How long it lasts each time; longer than 0.
    pub lasts: Duration,
    /// Of which points, where it is of points; empty: of all.
    pub points: Box<[PointId]>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Requests are not answered.
    NoAnswer,
    /// Requests are refused.
    Refuse,
    /// Answers are bytes that are none.
    Garbage,
    /// Answers come so much later.
    Slow(Duration),
    /// The device is off, and then begins again with its start values.
    Restart,
    /// Points keep the value that they had when it began.
    Stuck,
    /// Values go off by so much in an hour.
    Drift(f64),
    /// Values are off by so much.
    Spike(f64),
    /// Values have this reason against them.
    Bad(Quality),
}

/// Kinds without their numbers, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// [`FaultKind::NoAnswer`].
    NoAnswer,
    /// [`FaultKind::Refuse`].
    Refuse,
    /// [`FaultKind::Garbage`].
    Garbage,
    /// [`FaultKind::Slow`].
    Slow,
    /// [`FaultKind::Restart`].
    Restart,
    /// [`FaultKind::Stuck`].
    Stuck,
    /// [`FaultKind::Drift`].
    Drift,
    /// [`FaultKind::Spike`].
    Spike,
    /// [`FaultKind::Bad`].
    Bad,
}

impl Effect {
    /// All.
    pub const ALL: [Self; 9] = [
        Self::NoAnswer,
        Self::Refuse,
        Self::Garbage,
        Self::Slow,
        Self::Restart,
        Self::Stuck,
        Self::Drift,
        Self::Spike,
        Self::Bad,
    ];

    /// The word for it in configurations and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::Refuse => "refuse",
            Self::Garbage => "garbage",
            Self::Slow => "slow",
            Self::Restart => "restart",
            Self::Stuck => "stuck",
            Self::Drift => "drift",
            Self::Spike => "spike",
            Self::Bad => "bad",
        }
    }

    /// Whether it concerns points, and not the device as a whole.
    #[must_use]
    pub const fn is_of_points(self) -> bool {
        match self {
            Self::NoAnswer | Self::Refuse | Self::Garbage | Self::Slow | Self::Restart => false,
            Self::Stuck | Self::Drift | Self::Spike | Self::Bad => true,
        }
    }
}

impl FaultKind {
    /// The kind without its number.
    #[must_use]
    pub const fn effect(self) -> Effect {
        match self {
            Self::NoAnswer => Effect::NoAnswer,
            Self::Refuse => Effect::Refuse,
            Self::Garbage => Effect::Garbage,
            Self::Slow(_) => Effect::Slow,
            Self::Restart => Effect::Restart,
            Self::Stuck => Effect::Stuck,
            Self::Drift(_) => Effect::Drift,
            Self::Spike(_) => Effect::Spike,
            Self::Bad(_) => Effect::Bad,
        }
    }
}

/// When a fault begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// At random, on average so often in an hour.
    Random {
        /// How often.
        per_hour: f64,
    },
    /// At a time since the start of the device.
    At {
        /// The first time.
        first: Duration,
        /// From one time to the next; none: only once.
        every: Option<Duration>,
    },
}

impl Fault {
    /// How long the fault has lasted; none while there is none. `seed` is of this fault of this device.
    #[must_use]
    pub fn since(&self, seed: Seed, since_start: Duration) -> Option<Duration> {
        let lasts = self.lasts.as_micros().max(1);
        let elapsed = match self.when {
            When::At { first, every } => {
                let after = since_start.checked_sub(first)?.as_micros();
                every.map_or(after, |every| after % every.as_micros().max(1))
            }
            // Time is cut into parts as long as the fault, and each has it or not.
            When::Random { per_hour } => {
                let shifted = since_start.as_secs_f64() + seed.unit() * self.lasts.as_secs_f64();
                let shifted = Duration::try_from_secs_f64(shifted).ok()?.as_micros();
                let part = u64::try_from(shifted / lasts).ok()?;
                let chance = per_hour * self.lasts.as_secs_f64() / HOUR_S;
                (seed.with(part).unit() < chance).then_some(shifted % lasts)?
            }
        };
        (elapsed < lasts).then(|| Duration::from_micros(u64::try_from(elapsed).unwrap_or(u64::MAX)))
    }

    /// Whether it concerns a point.
    pub(crate) fn has(&self, point: usize) -> bool {
        self.points.is_empty() || self.points.iter().any(|id| usize::try_from(id.0) == Ok(point))
    }
}
