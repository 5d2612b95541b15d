//! Devices whose points stand in a list, served with values that a model computes: what `tieline modbus server`, `tieline
//! bacnet server` and `tieline iec104 server` show.
//!
//! In: points with their places in the protocol, a model, the course of its time, writes of clients and of an operator. Out: a
//! Modbus device, the objects of a BACnet device, a station of IEC 60870-5-104. Values of the model are in the unit of the
//! points' topics; scale and offset are undone on the way to the wire.
//!
//! Read first: this file, then `registers.rs`, `objects.rs`, `station.rs`, and `faults.rs` for what goes wrong.

mod faults;
mod objects;
mod registers;
mod station;

pub use faults::Faults;
pub use objects::{Objects, serves};
pub use registers::{RegisterPlace, RegistersOfPoints};
pub use station::{StationOfPoints, StationOutput, StationPlace};

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Instant, Now, PointId, Quality, Timestamp, Value};
use tieline_model::{CommandError, Course, Device, Model, Seed};

/// A point at its place in the protocol.
#[derive(Clone, Debug)]
pub struct ListedPoint<P> {
    /// Its name in the list.
    pub name: Box<str>,
    /// Where it is.
    pub place: P,
    /// value = raw × scale + offset.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// Whether clients may write it.
    pub is_writable: bool,
    /// The values that they may write, in the unit of the topic.
    pub limits: Option<RangeInclusive<f64>>,
    /// The unit of the topic.
    pub unit: Box<str>,
    /// The words for false and true.
    pub states: Option<[Box<str>; 2]>,
    /// Words for people.
    pub description: Box<str>,
}

/// How the time of the model goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Of all that is random.
    pub seed: u32,
    /// The model's time at the start; none: that of the clock.
    pub start: Option<Timestamp>,
    /// Seconds of the model in one second.
    pub speed: f64,
}

/// A value that somebody has written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenPoint {
    /// The name of the point.
    pub name: Box<str>,
    /// Its value in the unit of the topic; null where a command was relinquished.
    pub value: Value,
}

/// Told of what clients write.
pub type Teller = Box<dyn FnMut(Now, WrittenPoint)>;

/// Why an operator's value is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such point.
    UnknownPoint(String),
    /// It has a curve, or is a text.
    NotSettable(String),
    /// The value is none of the point.
    NoValue {
        /// What was asked for.
        found: String,
        /// The words that the point takes in place of a number.
        words: Vec<String>,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPoint(name) => write!(f, "there is no point {name:?}"),
            Self::NotSettable(name) => write!(f, "the point {name:?} has a curve, or is a text"),
            Self::NoValue { found, words } if words.is_empty() => {
                write!(f, "the value is {found:?}, expected a number")
            }
            Self::NoValue { found, words } => {
                write!(f, "the value is {found:?}, expected a number, or one of {}", words.join(", "))
            }
        }
    }
}

impl std::error::Error for SetError {}

/// Words of an operator and their values, in the unit of the topic.
type Words = &'static [(&'static str, f64)];

/// The words of a point that is off or on, or false or true.
const SWITCH_WORDS: Words = &[("off", OFF), ("on", ON), ("false", OFF), ("true", ON)];
const OFF: f64 = 0.0;
const ON: f64 = 1.0;

/// From one value of the model to the next, in its time: the same for lists of all protocols.
const STEP: Duration = Duration::from_secs(1);

/// The points of a device and their values over time.
#[derive(Debug)]
pub struct ListedPoints<P> {
    points: Vec<ListedPoint<P>>,
    device: Device,
    speed: f64,
    start: Instant,
    faults: Faults,
    seed: Seed,
    /// Requests so far.
    requests: u64,
}

impl<P> ListedPoints<P> {
    /// Points whose model has the same ones in the same order. `name` tells devices with one seed apart.
    #[must_use]
    pub fn new(points: Vec<ListedPoint<P>>, model: Model, name: &str, pace: Pace, faults: Faults, now: Now) -> Self {
        let start = pace.start.unwrap_or(now.utc);
        let seed = Seed::of(pace.seed.into(), name);
        let device = Device::new(model.into(), Arc::clone(&faults.all), Course { seed, start, step: STEP });
        Self { points, device, speed: pace.speed, start: now.mono, faults, seed, requests: 0 }
    }

    /// All points.
    #[must_use]
    pub fn points(&self) -> &[ListedPoint<P>] {
        &self.points
    }

    fn handle_time(&mut self, now: Instant) {
        self.device.handle_time(self.since_start(now));
    }

    /// The time of the model.
    fn since_start(&self, now: Instant) -> Duration {
        let passed = now.since(self.start).as_secs_f64() * self.speed;
        Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX)
    }

    /// The value of a point in the unit of its topic.
    fn value(&self, at: usize) -> Value {
        let reading = u32::try_from(at).ok().and_then(|id| self.device.reading(PointId(id)));
        reading.map(|reading| reading.value).unwrap_or_default()
    }

    /// What the device says against a point.
    fn quality(&self, at: usize) -> Quality {
        let reading = u32::try_from(at).ok().and_then(|id| self.device.reading(PointId(id)));
        reading.map_or(Quality::GOOD, |reading| reading.quality)
    }

    fn command(&mut self, at: usize, value: &Value) -> Result<(), CommandError> {
        let id = u32::try_from(at).map_err(|_| CommandError::UnknownPoint)?;
        self.device.handle_command(PointId(id), value).map(|_| ())
    }

    /// Sets a point that has no curve, as an operator says. Yields its number. `words_of` says what words a place has for its
    /// values.
    fn set(&mut self, name: &str, text: &str, words_of: impl Fn(&P) -> Words) -> Result<usize, SetError> {
        let at = self.points.iter().position(|point| &*point.name == name);
        let found = at.and_then(|at| Some((at, self.points.get(at)?)));
        let (at, point) = found.ok_or_else(|| SetError::UnknownPoint(name.to_owned()))?;
        let value = point.said(text, words_of(&point.place))?;
        self.command(at, &Value::Float(value)).map_err(|_| SetError::NotSettable(name.to_owned()))?;
        Ok(at)
    }
}

impl<P> ListedPoint<P> {
    /// The value that an operator means: a number, one of `words`, or a state name of the list, which stands for `off` or `on`.
    fn said(&self, text: &str, words: Words) -> Result<f64, SetError> {
        let states = self.states.iter().flat_map(|[off, on]| [(off, "off"), (on, "on")]);
        let state = states.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, word)| word);
        let word = state.unwrap_or(text);
        let value = words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value);
        let number = || text.parse().ok().filter(|number: &f64| number.is_finite());
        value.or_else(number).ok_or_else(|| {
            let states = self.states.iter().flatten().map(ToString::to_string);
            let words = words.iter().map(|(word, _)| (*word).to_owned()).chain(states).collect();
            SetError::NoValue { found: text.to_owned(), words }
        })
    }

    /// What the wire has for a value.
    fn raw(&self, value: Value) -> Value {
        match value.as_f64().filter(|_| !matches!(value, Value::Bool(_))) {
            Some(number) => Value::Float((number - self.offset) / self.scale),
            None => value,
        }
    }

    /// The value of what a client writes; none where the list does not allow it.
    fn allowed(&self, raw: &Value) -> Option<Value> {
        let number = match raw {
            Value::Bool(_) => return Some(raw.clone()),
            raw => raw.as_f64()? * self.scale + self.offset,
        };
        // A limit of the list is met in spite of the last digit.
        let near = 1e-9 * number.abs().max(1.0);
        let fits = |limits: &RangeInclusive<f64>| number >= limits.start() - near && number <= limits.end() + near;
        self.limits.as_ref().is_none_or(fits).then_some(Value::Float(number))
    }
}
