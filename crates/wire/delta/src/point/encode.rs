//! Which state is kept of a point: the sender's choices. Any choice is right; these make deltas short.

use super::number::{Decimal, Number};
use super::{PointState, Unit};
use tieline_core::varint;
use tieline_core::{Point, Value};

/// Places tried for a double that is not yet kept as a decimal.
const PLACES_TRIED: u8 = 7;
/// Doubles that were no decimals, after which only one in `RETRY` is tried.
const MISSES_MAX: u8 = 8;
const RETRY: u8 = 32;

/// The sender's side of one point.
#[derive(Clone, Debug)]
pub(crate) struct PointEncoder {
    state: PointState,
    /// The last time passed between two updates, in microseconds.
    passed: i64,
    /// Doubles in a row that were no decimals.
    misses: u8,
}

impl PointEncoder {
    pub(crate) fn new(point: &Point) -> Self {
        let micros = point.time.micros();
        let mut misses = 0;
        let number = number_of(&point.value, 0, &mut misses);
        let state = PointState { number, quality: point.quality, micros, unit: Unit::of(micros), step: 0 };
        Self { state, passed: 0, misses }
    }

    pub(crate) const fn state(&self) -> &PointState {
        &self.state
    }

    /// Takes the next value; the state before it.
    pub(crate) fn next(&mut self, point: &Point) -> PointState {
        let places = if let Number::Decimal(decimal) = self.state.number { decimal.places() } else { 0 };
        let number = number_of(&point.value, places, &mut self.misses);
        let micros = point.time.micros();
        let passed = micros.wrapping_sub(self.state.micros);
        let (unit, step) = self.pace(passed);
        self.passed = passed;
        core::mem::replace(&mut self.state, PointState { number, quality: point.quality, micros, unit, step })
    }

    /// Unit and step by which the time passed is told.
    fn pace(&self, passed: i64) -> (Unit, i64) {
        let (unit, step) = (self.state.unit, self.state.step);
        if passed % unit.micros() != 0 {
            let finer = Unit::of(passed);
            return (finer, passed / finer.micros());
        }
        let units = passed / unit.micros();
        let is_long = |residual: i64| varint::len(varint::zigzag(residual)) > 1;
        if !is_long(units.wrapping_sub(step)) {
            return (unit, step);
        }
        // A coarser unit pays at once, where the time before fits it too: one odd time does not set the pace of all.
        let coarser = Unit::of(passed).min(Unit::of(self.passed));
        if coarser > unit {
            return (coarser, passed / coarser.micros());
        }
        // A change of step is said once and pays when the pace lasts: two alike in a row.
        let lasts = !is_long(passed.wrapping_sub(self.passed) / unit.micros());
        if lasts { (unit, units) } else { (unit, step) }
    }
}

fn number_of(value: &Value, places: u8, misses: &mut u8) -> Number {
    match value {
        Value::Null => Number::Null,
        Value::Bool(b) => Number::Bool(*b),
        Value::Int(i) => Number::Int(*i),
        Value::Float(x) => double(*x, places, misses),
        Value::Text(text) => Number::Text(text.clone()),
        Value::Bytes(bytes) => Number::Bytes(bytes.clone()),
    }
}

fn double(x: f64, places: u8, misses: &mut u8) -> Number {
    if *misses < MISSES_MAX || (*misses).is_multiple_of(RETRY) {
        let decimal = (places..=places.max(PLACES_TRIED)).find_map(|places| Decimal::of(x, places));
        if let Some(decimal) = decimal {
            *misses = 0;
            return Number::Decimal(decimal);
        }
    }
    *misses = misses.wrapping_add(1).max(1);
    Number::Float(x)
}
