//! Which alarms go to whom, and when.

use crate::Notice;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use tieline_core::Filter;

/// Steps of a route at most.
pub const STEPS_MAX: usize = 16;

/// What a route is recognised by after a restart: a sum of all of it but its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u32);

/// One receiver of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name of the receiver.
    pub to: Arc<str>,
    /// How long the alarm has called by then.
    pub after: Duration,
}

/// Which alarms: all that hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Their topics.
    pub filter: Filter,
    /// The least severity.
    pub severity_min: u16,
    /// Their groups; empty: all.
    pub groups: Vec<Arc<str>>,
}

/// A way from alarms to receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    id: RouteId,
    choice: Choice,
    steps: Vec<Step>,
    group_wait: Duration,
    repeat: Option<Duration>,
}

/// Why a route cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// It leads to nobody.
    NoStep,
    /// More steps than [`STEPS_MAX`].
    TooManySteps,
    /// A step is before the one that precedes it.
    Order,
    /// It repeats without a pause.
    Repeat,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStep => f.write_str("a route without a step"),
            Self::TooManySteps => write!(f, "more than {STEPS_MAX} steps"),
            Self::Order => f.write_str("a step before the one that precedes it"),
            Self::Repeat => f.write_str("a route that repeats without a pause"),
        }
    }
}

impl core::error::Error for RouteError {}

impl Route {
    /// A route.
    ///
    /// # Errors
    /// Its steps are none, too many or not in their order, or `repeat` is 0.
    pub fn new(
        choice: Choice,
        steps: Vec<Step>,
        group_wait: Duration,
        repeat: Option<Duration>,
    ) -> Result<Self, RouteError> {
        if steps.is_empty() {
            return Err(RouteError::NoStep);
        }
        if steps.len() > STEPS_MAX {
            return Err(RouteError::TooManySteps);
        }
        if !steps.is_sorted_by_key(|step| step.after) {
            return Err(RouteError::Order);
        }
        if repeat.is_some_and(|repeat| repeat.is_zero()) {
            return Err(RouteError::Repeat);
        }
        Ok(Self { id: sum(&choice, &steps), choice, steps, group_wait, repeat })
    }

    /// What it is recognised by: two routes that differ in their times only have the same.
    #[must_use]
    pub const fn id(&self) -> RouteId {
        self.id
    }

    /// Its steps in their order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether an alarm takes it.
    #[must_use]
    pub fn takes(&self, notice: &Notice) -> bool {
        let Choice { filter, severity_min, groups } = &self.choice;
        notice.severity >= *severity_min
            && (groups.is_empty() || groups.contains(&notice.group))
            && filter.matches_all_or(&notice.alarm.topic)
    }

    pub(crate) fn step(&self, at: u16) -> Option<&Step> {
        self.steps.get(usize::from(at))
    }

    /// How long what comes next is after what came before it; none where nothing comes.
    pub(crate) fn pause(&self, next: u16) -> Option<Duration> {
        let from_start = |step: &Step| step.after.max(self.group_wait);
        match self.step(next) {
            Some(step) => {
                let before =
                    next.checked_sub(1).and_then(|before| self.step(before)).map_or(Duration::ZERO, from_start);
                Some(from_start(step).saturating_sub(before))
            }
            None => self.repeat,
        }
    }
}

/// FNV-1a.
fn sum(choice: &Choice, steps: &[Step]) -> RouteId {
    let texts = choice.groups.iter().chain(steps.iter().map(|step| &step.to)).map(|text| text.as_bytes());
    let severity = choice.severity_min.to_le_bytes();
    let mut sum = 0x811c_9dc5_u32;
    for text in [choice.filter.as_bytes(), &severity].into_iter().chain(texts) {
        for byte in text.iter().chain(&[0xFF]) {
            sum = (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
    RouteId(sum)
}
