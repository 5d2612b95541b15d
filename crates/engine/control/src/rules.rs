//! What holds for a point beside its range: how fast and how often it may change, what other points must show, what
//! confirms a command, and what a revert does.

use crate::ControlPoint;
use crate::point::{cut, shown};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use tieline_core::{Instant, Point, Refusal, Topic, Validity, Value};

/// How far numbers are apart that a device rounds to single precision, relative to their size.
const SINGLE: f64 = 1e-6;

/// Rules of one point. The default has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointRules {
    /// What a revert does.
    pub revert: RevertTo,
    /// What shows that a command was carried out.
    pub read_back: Option<ReadBack>,
    /// The greatest change by one command, in engineering units, from the last good reading.
    pub step_max: Option<f64>,
    /// The greatest change a second, in engineering units, since the last command.
    pub rate_max: Option<f64>,
    /// The least time between two commands, such as of a compressor. A revert waits for it.
    pub interval_min: Option<Duration>,
    /// What must hold while the point is commanded; all of them. A revert does not ask.
    pub interlocks: Vec<Interlock>,
}

impl PointRules {
    /// Whether a point can have these rules.
    pub(crate) fn check(&self, point: &ControlPoint) -> Result<(), Refusal> {
        let numbers = [self.step_max, self.rate_max, self.read_back.as_ref().map(|by| by.tolerance)];
        if numbers.into_iter().flatten().any(|number| !(number >= 0.0 && number.is_finite())) {
            let detail = format!("a number in the rules of {} is not finite or is below zero", point.topic);
            return Err(Refusal::new("out_of_range", detail));
        }
        match &self.revert {
            RevertTo::Value(value) => point.command(value, None).map(drop),
            RevertTo::Nothing | RevertTo::Previous | RevertTo::Relinquish => Ok(()),
        }
    }
}

/// What a revert does.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RevertTo {
    /// Nothing: a command of the point stays, as of a breaker.
    #[default]
    Nothing,
    /// A value in engineering units.
    Value(Value),
    /// The value before the first command: of the last good reading, or of a command carried out since.
    Previous,
    /// The command has no value ([`Value::Null`]): the device takes the next of its priorities (BACnet clause 19.2).
    Relinquish,
}

/// What shows that a command was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadBack {
    /// The point that shows it; none: the commanded point itself.
    pub topic: Option<Topic>,
    /// How long after the device's answer a reading may take.
    pub within: Duration,
    /// How far a number may be from the one that was commanded, in engineering units.
    pub tolerance: f64,
    /// Whether a reading has one of four states: 1 is off and 2 is on (IEEE 1815 group 3).
    pub double_bit: bool,
}

impl ReadBack {
    /// Whether a reading shows what is expected. One that is not good shows nothing.
    #[must_use]
    pub fn shows(&self, reading: &Point, expected: &Value) -> bool {
        if reading.quality.validity() != Validity::Good {
            return false;
        }
        match (expected, &reading.value) {
            (Value::Bool(on), Value::Int(state)) if self.double_bit => *state == if *on { 2 } else { 1 },
            (Value::Text(a), Value::Text(b)) => a == b,
            (a, b) => match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => (a - b).abs() <= self.tolerance.max(SINGLE * a.abs()),
                _ => false,
            },
        }
    }
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `==`.
    Equal,
    /// `!=`.
    Different,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    More,
    /// `>=`.
    AtLeast,
}

/// Longer signs first: `<=` begins with `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Different),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

impl Comparison {
    /// Its sign.
    #[must_use]
    pub fn sign(self) -> &'static str {
        COMPARISONS.iter().find(|(_, comparison)| *comparison == self).map_or("", |(sign, _)| sign)
    }

    const fn allows(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Different => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// A command is allowed when another point shows this, with good quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Interlock {
    /// The other point.
    pub topic: Topic,
    /// How its value is compared.
    pub comparison: Comparison,
    /// With what; a bool is as 0 or 1.
    pub value: Value,
}

/// Why a text is not an interlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterlockError(String);

impl fmt::Display for InterlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for InterlockError {}

impl FromStr for Interlock {
    type Err = InterlockError;

    /// Reads `site/door == true`, `site/tank/level >= 2.5` or `site/mode == "auto"`, with `allow when` before it or not.
    fn from_str(text: &str) -> Result<Self, InterlockError> {
        let wrong = |what: &str| {
            let text = cut(text);
            InterlockError(format!("{text:?}: {what}, expected as in allow when site/tank/level >= 2.5"))
        };
        let rule = text.trim();
        let rule = rule.strip_prefix("allow when ").unwrap_or(rule);
        let at = rule.find(['=', '!', '<', '>']).ok_or_else(|| wrong("no comparison"))?;
        let (name, rest) = rule.split_at(at);
        let found = COMPARISONS.iter().find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)));
        let (comparison, value) = found.ok_or_else(|| wrong("the comparison is unknown"))?;
        let topic = Topic::new(name.trim()).map_err(|error| wrong(&error.to_string()))?;
        let value = literal(value.trim()).ok_or_else(|| wrong("the value is no bool, number or \"text\""))?;
        let has_order = !matches!(value, Value::Text(_) | Value::Bool(_));
        if !has_order && !matches!(comparison, Comparison::Equal | Comparison::Different) {
            return Err(wrong("only numbers have an order"));
        }
        Ok(Self { topic, comparison, value })
    }
}

fn literal(text: &str) -> Option<Value> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.strip_suffix('"').filter(|text| !text.contains('"')).map(Value::from);
    }
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number => match (number.parse::<i64>(), number.parse::<f64>()) {
            (Ok(int), _) => Some(Value::Int(int)),
            (Err(_), Ok(float)) if float.is_finite() => Some(Value::Float(float)),
            (Err(_), _) => None,
        },
    }
}

impl fmt::Display for Interlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "allow when {} {} {}", self.topic, self.comparison.sign(), shown(&self.value))
    }
}

impl Interlock {
    /// Whether the last reading of the other point allows a command.
    ///
    /// # Errors
    /// `interlock`: the value is another, is of another type, is not good, or is not known.
    pub fn check(&self, reading: Option<&Point>) -> Result<(), Refusal> {
        let refuse = |found: String| Err(Refusal::new("interlock", format!("{self}, but {found}")));
        let Some(reading) = reading else { return refuse("its value is not known".into()) };
        let value = shown(&reading.value);
        let validity = reading.quality.validity();
        if validity != Validity::Good {
            return refuse(format!("its quality is {}", validity.name()));
        }
        let order = match (&reading.value, &self.value) {
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (a, b) => a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b)),
        };
        match order {
            Some(order) if self.comparison.allows(order) => Ok(()),
            Some(_) => refuse(format!("it is {value}")),
            None => refuse(format!("it is {value}, which cannot be compared")),
        }
    }
}

/// What is known of a point when a command is checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// Its last good number.
    pub(crate) reading: Option<f64>,
    /// The command before.
    pub(crate) commanded: Option<&'a Commanded>,
}

/// The last command that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Commanded {
    pub(crate) at: Instant,
    /// In engineering units.
    pub(crate) value: Value,
    /// When the device said that it was carried out.
    pub(crate) done_at: Option<Instant>,
}

impl PointRules {
    /// Checks the limits of change.
    pub(crate) fn check_change(&self, now: Instant, value: &Value, known: Known<'_>) -> Result<(), Refusal> {
        if let (Some(least), Some(commanded)) = (self.interval_min, known.commanded) {
            let passed = now.since(commanded.at);
            if passed < least {
                let (passed, least) = (passed.as_secs_f64(), least.as_secs_f64());
                let detail = format!("the last command was {passed:.1} s ago, expected at least {least:.1} s");
                return Err(Refusal::new("too_often", detail));
            }
        }
        let Some(wanted) = value.as_f64() else { return Ok(()) };
        let before = known.commanded.and_then(|commanded| Some((commanded.at, commanded.value.as_f64()?)));
        if let Some(most) = self.step_max {
            let Some(from) = known.reading.or(before.map(|(_, value)| value)) else {
                let detail = "no good reading is known, from which the step could be measured".into();
                return Err(Refusal::new("unknown_value", detail));
            };
            let is_small = (wanted - from).abs() <= most;
            if !is_small {
                let detail = format!("the step from {from} to {wanted} is too large, expected at most {most}");
                return Err(Refusal::new("step_too_large", detail));
            }
        }
        if let (Some(most), Some((at, from))) = (self.rate_max, before) {
            let seconds = now.since(at).as_secs_f64();
            let is_slow = (wanted - from).abs() <= most * seconds;
            if !is_slow {
                let detail = format!(
                    "the change from {from} to {wanted} within {seconds:.1} s is too fast, expected at most {most} a second"
                );
                return Err(Refusal::new("too_fast", detail));
            }
        }
        Ok(())
    }

    /// When a revert may be sent.
    pub(crate) fn revert_from(&self, commanded: Option<&Commanded>) -> Option<Instant> {
        Some(commanded?.at + self.interval_min?)
    }
}
