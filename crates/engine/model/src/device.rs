//! One device: its values step by step, and how it treats requests.

use crate::model::{Model, Point};
use crate::wave::Moment;
use crate::{Curve, Fault, FaultKind, Kind, Operand, Relation, Seed};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use tieline_core::{PointId, Quality, Reading, Timestamp, Value, nearest_int};

/// Steps that one call computes at most; for more time they get longer.
pub const STEPS_MAX: u64 = 3_600;

/// What a device starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Of all that is random in the device.
    pub seed: Seed,
    /// What its clock says at the start.
    pub start: Timestamp,
    /// From one value to the next; at least 1 ms.
    pub step: Duration,
}

impl Default for Course {
    fn default() -> Self {
        Self { seed: Seed::default(), start: Timestamp::default(), step: Duration::from_secs(1) }
    }
}

/// How a device treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// It answers, so much later than usual.
    Answers {
        /// How much later.
        late_by: Duration,
    },
    /// It refuses.
    Refuses,
    /// It sends bytes that are no answer.
    Garbles,
    /// It does not answer.
    Silent,
    /// It is off.
    Off,
}

/// A device that does not exist.
#[derive(Debug)]
pub struct Device {
    model: Arc<Model>,
    faults: Arc<[Fault]>,
    course: Course,
    /// Whether each step has to be computed, and not only the last one.
    is_stepwise: bool,
    /// The number of the last step that was computed.
    step: u64,
    points: Box<[State]>,
    is_down: bool,
    has_restarted: bool,
}

/// A point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct State {
    /// What was commanded last, or the start value.
    held: f64,
    /// The value.
    value: f64,
    /// The value with noise and faults.
    shown: f64,
    quality: Quality,
    is_stuck: bool,
}

/// Seeds of points come before those of faults.
const FAULT_SEEDS: u64 = 1 << 32;

impl Device {
    /// A device at its start.
    #[must_use]
    pub fn new(model: Arc<Model>, faults: Arc<[Fault]>, course: Course) -> Self {
        let course = Course { step: course.step.max(Duration::from_millis(1)), ..course };
        let by_steps = |fault: &Fault| matches!(fault.kind, FaultKind::Stuck | FaultKind::Restart);
        let is_stepwise = model.has_state() || faults.iter().any(by_steps);
        let points = alloc::vec![State::default(); model.points().len()].into();
        let mut device =
            Self { model, faults, course, is_stepwise, step: 0, points, is_down: false, has_restarted: false };
        device.begin(0);
        device
    }

    /// What its points are.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Lets the device's time come to `since_start`. Time does not go back.
    pub fn handle_time(&mut self, since_start: Duration) {
        let step = u64::try_from(since_start.as_micros() / self.course.step.as_micros().max(1)).unwrap_or(u64::MAX);
        let Some(ahead) = step.checked_sub(self.step).filter(|ahead| *ahead > 0) else { return };
        let stride = if self.is_stepwise { ahead.div_ceil(STEPS_MAX) } else { ahead };
        while self.step < step {
            let next = self.step.saturating_add(stride).min(step);
            self.compute(next, self.time_of(next).saturating_sub(self.time_of(self.step)));
            self.step = next;
        }
    }

    /// How the device treats a request that comes at `since_start`.
    #[must_use]
    pub fn conduct(&self, since_start: Duration) -> Conduct {
        let (mut late_by, mut refuses, mut garbles, mut is_silent) = (Duration::ZERO, false, false, false);
        for fault in self.active(since_start) {
            match fault.kind {
                FaultKind::Restart => return Conduct::Off,
                FaultKind::NoAnswer => is_silent = true,
                FaultKind::Garbage => garbles = true,
                FaultKind::Refuse => refuses = true,
                FaultKind::Slow(by) => late_by = late_by.saturating_add(by),
                FaultKind::Stuck | FaultKind::Drift(_) | FaultKind::Spike(_) | FaultKind::Bad(_) => {}
            }
        }
        match () {
            () if is_silent => Conduct::Silent,
            () if garbles => Conduct::Garbles,
            () if refuses => Conduct::Refuses,
            () => Conduct::Answers { late_by },
        }
    }

    /// The faults that there are at `since_start`.
    pub fn active(&self, since_start: Duration) -> impl Iterator<Item = &Fault> {
        let is_active =
            move |(fault, number): &(&Fault, u64)| fault.since(self.fault_seed(*number), since_start).is_some();
        self.faults.iter().zip(0..).filter(is_active).map(|(fault, _)| fault)
    }

    /// Whether the device has restarted since this was asked last.
    pub const fn poll_restarted(&mut self) -> bool {
        core::mem::replace(&mut self.has_restarted, false)
    }

    /// What the device says of a point; none where it has no such point.
    #[must_use]
    pub fn reading(&self, point: PointId) -> Option<Reading> {
        let at = usize::try_from(point.0).ok()?;
        let (spec, state) = (self.model.points().get(at)?, self.points.get(at)?);
        let (value, quality) = match &spec.kind {
            Kind::Bool => (Value::Bool(state.shown >= 0.5), state.quality),
            Kind::Text(text) => (Value::Text(text.clone()), state.quality),
            Kind::Float if state.shown.is_finite() => {
                (Value::Float(rounded(state.shown, spec.decimals)), state.quality)
            }
            Kind::Int | Kind::Float => match nearest_int(state.shown) {
                Some(whole) => (Value::Int(whole), state.quality),
                None => (Value::Null, state.quality.with(Quality::OVER_RANGE)),
            },
        };
        Some(Reading { point, value, quality, time: None, event: false })
    }

    /// Takes a command for a point: the value that it has from here on, or that it goes to. Yields the point that was set,
    /// which is another where this one follows it.
    ///
    /// # Errors
    /// The device has no such point, or it cannot be commanded, or the value is no finite number.
    pub fn handle_command(&mut self, point: PointId, value: &Value) -> Result<PointId, CommandError> {
        let at = usize::try_from(point.0).map_err(|_| CommandError::UnknownPoint)?;
        let spec = self.model.points().get(at).ok_or(CommandError::UnknownPoint)?;
        let target = spec.target.ok_or(CommandError::NotWritable)?;
        let number = value.as_f64().filter(|number| number.is_finite()).ok_or(CommandError::NoNumber)?;
        let curve = self.model.points().get(target).map(|point| &point.curve);
        if let Some(state) = self.points.get_mut(target) {
            state.held = number;
            if matches!(curve, Some(Curve::Held)) {
                state.value = number;
                state.shown = if state.is_stuck { state.shown } else { number };
            }
        }
        u32::try_from(target).map(PointId).map_err(|_| CommandError::UnknownPoint)
    }

    fn time_of(&self, step: u64) -> Duration {
        let micros = self.course.step.as_micros().saturating_mul(u128::from(step));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    const fn fault_seed(&self, number: u64) -> Seed {
        self.course.seed.with(FAULT_SEEDS + number)
    }

    /// All points with their start values.
    fn begin(&mut self, step: u64) {
        let moment = Moment::new(self.course.start, self.time_of(step));
        let model = Arc::clone(&self.model);
        for (point, state) in model.points().iter().zip(&mut self.points) {
            *state = State { held: point.start.unwrap_or_default(), ..State::default() };
        }
        for &at in model.order() {
            let Some(point) = model.points().get(at) else { continue };
            let value = self.start_value(point, moment);
            if let Some(state) = self.points.get_mut(at) {
                state.value = value;
            }
        }
        self.show(step, true);
    }

    fn start_value(&self, point: &Point, moment: Moment) -> f64 {
        let first = point.start;
        match &point.curve {
            Curve::Held | Curve::Lag { .. } => first.unwrap_or_default(),
            Curve::Wave(wave) => wave.at(moment),
            Curve::Walk { min, max, .. } => first.unwrap_or_else(|| min.midpoint(*max)),
            Curve::Relation(Relation::Follow { of, .. }) => first.unwrap_or_else(|| self.value_of(of)),
            Curve::Relation(Relation::Sum { .. }) => first.unwrap_or_default(),
            Curve::Relation(relation) => self.related(relation, first.unwrap_or_default(), Duration::ZERO),
        }
    }

    /// The values of a step, `passed` after those that are here.
    fn compute(&mut self, step: u64, passed: Duration) {
        if self.is_off_or_begins(step) {
            return;
        }
        let moment = Moment::new(self.course.start, self.time_of(step));
        let model = Arc::clone(&self.model);
        for &at in model.order() {
            let (Some(point), Some(state)) = (model.points().get(at), self.points.get(at)) else { continue };
            let value = match &point.curve {
                Curve::Held => state.held,
                Curve::Wave(wave) => wave.at(moment),
                Curve::Walk { min, max, rate } => {
                    let by = self.point_seed(at, step).with(1).gaussian() * rate * libm::sqrt(passed.as_secs_f64());
                    reflected(state.value + by, *min, *max)
                }
                Curve::Lag { tau } => lagged(state.value, state.held, passed, *tau),
                Curve::Relation(relation) => self.related(relation, state.value, passed),
            };
            if let Some(state) = self.points.get_mut(at) {
                state.value = value;
            }
        }
        self.show(step, false);
    }

    /// Whether the device is off in a step, or begins again after it was.
    fn is_off_or_begins(&mut self, step: u64) -> bool {
        let is_down = self.active(self.time_of(step)).any(|fault| matches!(fault.kind, FaultKind::Restart));
        let was_down = core::mem::replace(&mut self.is_down, is_down);
        if was_down && !is_down {
            self.has_restarted = true;
            self.begin(step);
        }
        was_down || is_down
    }

    fn related(&self, relation: &Relation<usize>, before: f64, passed: Duration) -> f64 {
        match relation {
            Relation::Follow { of, tau } => lagged(before, self.value_of(of), passed, *tau),
            Relation::Sum { of, per } => {
                before + self.value_of(of) * passed.as_secs_f64() / per.as_secs_f64().max(1e-3)
            }
            Relation::Linear { of, factor, offset } => self.value_of(of) * factor + offset,
            Relation::Product(a, b) => self.value_of(a) * self.value_of(b),
            Relation::When { condition, then, otherwise } => {
                self.value_of(if self.value_of(condition) == 0.0 { otherwise } else { then })
            }
            Relation::Above { of, limit, band } => {
                let limit = if before == 0.0 { *limit } else { limit - band };
                f64::from(u8::from(self.value_of(of) > limit))
            }
        }
    }

    fn value_of(&self, operand: &Operand<usize>) -> f64 {
        match operand {
            Operand::Number(number) => *number,
            Operand::Point(point) => self.points.get(*point).map(|state| state.value).unwrap_or_default(),
        }
    }

    fn point_seed(&self, point: usize, step: u64) -> Seed {
        self.course.seed.with(u64::try_from(point).unwrap_or(0)).with(step)
    }

    /// What is seen of the values: with noise, and with the faults of points. At a start there are none before.
    fn show(&mut self, step: u64, is_start: bool) {
        let time = self.time_of(step);
        let (model, faults) = (Arc::clone(&self.model), Arc::clone(&self.faults));
        for (at, point) in model.points().iter().enumerate() {
            let seed = self.point_seed(at, step);
            let noise = if point.noise > 0.0 { point.noise * seed.with(2).gaussian() } else { 0.0 };
            let Some(state) = self.points.get_mut(at) else { continue };
            let before = state.shown;
            (state.quality, state.is_stuck) = (Quality::GOOD, false);
            state.shown = state.value + noise;
            let mut add = |fault: &Fault, since: Duration| match fault.kind {
                FaultKind::Drift(per_hour) => state.shown += per_hour * since.as_secs_f64() / 3600.0,
                FaultKind::Spike(by) => state.shown += by,
                FaultKind::Bad(reason) => state.quality = state.quality.with(reason),
                FaultKind::Stuck => state.is_stuck = true,
                FaultKind::NoAnswer
                | FaultKind::Refuse
                | FaultKind::Garbage
                | FaultKind::Slow(_)
                | FaultKind::Restart => {}
            };
            for (fault, number) in faults.iter().zip(0..).filter(|(fault, _)| fault.has(at)) {
                let since = fault.since(self.course.seed.with(FAULT_SEEDS + number), time);
                since.into_iter().for_each(|since| add(fault, since));
            }
            if state.is_stuck && !is_start {
                state.shown = before;
            }
        }
    }
}

/// The nearest number with so many digits behind the point.
fn rounded(value: f64, decimals: Option<u8>) -> f64 {
    let Some(decimals) = decimals else { return value };
    let parts = libm::pow(10.0, decimals.min(15).into());
    let rounded = libm::round(value * parts) / parts;
    if rounded.is_finite() { rounded } else { value }
}

/// What a first-order lag makes of a value after some time.
fn lagged(value: f64, goal: f64, passed: Duration, tau: Duration) -> f64 {
    let share = -libm::expm1(-passed.as_secs_f64() / tau.as_secs_f64().max(1e-3));
    value + (goal - value) * share
}

/// A value folded into a range.
fn reflected(value: f64, min: f64, max: f64) -> f64 {
    let width = max - min;
    if !(width > 0.0 && width.is_finite() && value.is_finite()) {
        return min;
    }
    let double = 2.0 * width;
    let within = ((value - min) % double + double) % double;
    min + if within > width { double - within } else { within }
}

/// Why a device does not take a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// It has no such point.
    UnknownPoint,
    /// The point cannot be commanded.
    NotWritable,
    /// The value is no finite number, and neither true nor false.
    NoNumber,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPoint => "the device has no such point",
            Self::NotWritable => "the point cannot be commanded",
            Self::NoNumber => "the value is no finite number, expected one, or true or false",
        })
    }
}

impl core::error::Error for CommandError {}
