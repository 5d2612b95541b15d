//! What a point takes, and what the device gets for it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use tieline_core::{Command, CommandMode, DeviceId, PointId, Refusal, Topic, Value, json_value, nearest_int};

/// Characters of a value that a refusal or a record shows at most.
const SHOWN_MAX: usize = 120;

/// The values of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepts {
    /// Two states.
    Bool {
        /// Whether the device gets the opposite.
        invert: bool,
        /// The point's own words for false and true, such as `("open", "closed")` of a breaker. None: those of a switch.
        words: Option<(Box<str>, Box<str>)>,
    },
    /// Whole numbers from `min` to `max`.
    Int {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
        /// What the device gets.
        scaling: Scaling,
    },
    /// Numbers from `min` to `max`.
    Float {
        /// The least; finite.
        min: f64,
        /// The greatest; finite.
        max: f64,
        /// What the device gets.
        scaling: Scaling,
    },
}

/// From engineering units back to raw units: `raw = (value - offset) / scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Engineering units per raw unit; finite, not zero.
    pub scale: f64,
    /// Engineering units at raw zero; finite.
    pub offset: f64,
    /// Whether the device takes whole numbers only: the raw value is rounded to the nearest, halves away from zero.
    pub whole: bool,
}

impl Default for Scaling {
    /// The value as it is.
    fn default() -> Self {
        Self { scale: 1.0, offset: 0.0, whole: false }
    }
}

/// How a point may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Select before operate.
    pub select: bool,
    /// Operate at once.
    pub direct: bool,
    /// Which of both is taken where a request names no mode and both are allowed.
    pub preferred: CommandMode,
}

/// A point that can be commanded.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPoint {
    /// Its topic.
    pub topic: Topic,
    /// Its device.
    pub device: DeviceId,
    /// Its number at the device.
    pub point: PointId,
    /// What it takes.
    pub accepts: Accepts,
    /// How it may be asked.
    pub modes: Modes,
    /// Whether [`Value::Null`] takes the command back, so that the device goes by its next priority (BACnet clause 19.2).
    pub relinquishes: bool,
}

/// Why a point was not taken into the table.
#[derive(Clone, Debug, PartialEq)]
pub enum PointError {
    /// A point of that topic is here.
    TopicTwice {
        /// The topic.
        topic: Topic,
    },
    /// The range is empty or not finite.
    Range {
        /// The point's topic.
        topic: Topic,
    },
    /// The scale is zero, or a number is not finite.
    Scaling {
        /// The point's topic.
        topic: Topic,
    },
    /// No mode is allowed.
    NoMode {
        /// The point's topic.
        topic: Topic,
    },
    /// The rules of a point do not fit it.
    Rules {
        /// The point's topic.
        topic: Topic,
        /// What was found, and what was expected.
        detail: String,
    },
    /// As many points as [`crate::Limits::points_max`] are here.
    PointsFull {
        /// The limit.
        max: usize,
    },
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TopicTwice { topic } => write!(f, "{topic} is commanded twice, expected one point for a topic"),
            Self::Range { topic } => write!(f, "the range of {topic} is empty, expected finite numbers and min <= max"),
            Self::Scaling { topic } => {
                write!(f, "the scaling of {topic} cannot be undone, expected finite numbers and a scale other than 0")
            }
            Self::NoMode { topic } => write!(f, "{topic} allows no mode, expected select, direct or both"),
            Self::Rules { topic, detail } => write!(f, "the rules of {topic} do not fit it: {detail}"),
            Self::PointsFull { max } => write!(f, "{max} points can be commanded, which is the limit"),
        }
    }
}

impl core::error::Error for PointError {}

impl ControlPoint {
    pub(crate) fn check(&self) -> Result<(), PointError> {
        let topic = || self.topic.clone();
        let (in_order, scaling) = match &self.accepts {
            Accepts::Bool { .. } => (true, Scaling::default()),
            Accepts::Int { min, max, scaling } => (min <= max, *scaling),
            Accepts::Float { min, max, scaling } => (min <= max && (max - min).is_finite(), *scaling),
        };
        if !in_order {
            return Err(PointError::Range { topic: topic() });
        }
        if !(scaling.scale.is_finite() && scaling.scale != 0.0 && scaling.offset.is_finite()) {
            return Err(PointError::Scaling { topic: topic() });
        }
        if !self.modes.select && !self.modes.direct {
            return Err(PointError::NoMode { topic: topic() });
        }
        Ok(())
    }

    /// The command for a value.
    ///
    /// # Errors
    /// The point does not take the value, or not in that mode.
    pub fn command(&self, value: &Value, mode: Option<CommandMode>) -> Result<Command, Refusal> {
        if *value == Value::Null && self.relinquishes {
            return Ok(Command { point: self.point, value: Value::Null, mode: self.mode(mode)? });
        }
        let value = match &self.accepts {
            Accepts::Bool { invert, words } => self.two_states(value, *invert, words.as_ref())?,
            Accepts::Int { min, max, scaling } => {
                let whole = whole(value).ok_or_else(|| self.wrong_type(value, "a whole number"))?;
                if !(*min..=*max).contains(&whole) {
                    return Err(self.out_of_range(value, &format!("{min} to {max}")));
                }
                scaling.raw_int(whole).ok_or_else(|| self.beyond(value))?
            }
            Accepts::Float { min, max, scaling } => {
                let number = number(value).ok_or_else(|| self.wrong_type(value, "a finite number"))?;
                if !(*min..=*max).contains(&number) {
                    let expected = format!("{} to {}", without_noise(*min), without_noise(*max));
                    return Err(self.out_of_range(value, &expected));
                }
                scaling.raw(number).ok_or_else(|| self.beyond(value))?
            }
        };
        Ok(Command { point: self.point, value, mode: self.mode(mode)? })
    }

    pub(crate) fn mode(&self, asked: Option<CommandMode>) -> Result<CommandMode, Refusal> {
        let first = match (self.modes.select, self.modes.direct) {
            (true, true) => self.modes.preferred,
            (true, false) => CommandMode::SelectBeforeOperate,
            (false, _) => CommandMode::DirectOperate,
        };
        let mode = asked.unwrap_or(first);
        let allowed = match mode {
            CommandMode::SelectBeforeOperate => self.modes.select,
            CommandMode::DirectOperate => self.modes.direct,
        };
        if allowed {
            return Ok(mode);
        }
        let detail = format!("the mode for {} is {}, expected {}", self.topic, mode.name(), first.name());
        Err(Refusal::new("not_supported_mode", detail))
    }

    fn two_states(&self, value: &Value, invert: bool, words: Option<&(Box<str>, Box<str>)>) -> Result<Value, Refusal> {
        let state = match value {
            Value::Bool(b) => Some(*b),
            Value::Int(0) => Some(false),
            Value::Int(1) => Some(true),
            Value::Float(x) if *x == 0.0 => Some(false),
            Value::Float(x) if *x == 1.0 => Some(true),
            Value::Text(text) => state_of_word(text.trim(), words),
            Value::Int(_) | Value::Float(_) | Value::Null | Value::Bytes(_) => None,
        };
        match (state, words) {
            (Some(state), _) => Ok(Value::Bool(state != invert)),
            (None, None) => Err(self.wrong_type(value, "true, false, 1, 0, \"on\", \"off\", \"open\" or \"close\"")),
            (None, Some((off, on))) => {
                Err(self.wrong_type(value, &format!("true, false, 1, 0, \"on\", \"off\", {off:?} or {on:?}")))
            }
        }
    }

    /// What the topic shows once a command has been carried out; none of one that relinquishes.
    #[must_use]
    pub fn value_after(&self, command: &Command) -> Option<Value> {
        match (&self.accepts, &command.value) {
            (_, Value::Null) => None,
            (Accepts::Bool { invert, .. }, Value::Bool(raw)) => Some(Value::Bool(raw != invert)),
            (Accepts::Int { scaling, .. } | Accepts::Float { scaling, .. }, raw) => Some(scaling.value(raw)),
            (Accepts::Bool { .. }, raw) => Some(raw.clone()),
        }
    }

    fn wrong_type(&self, value: &Value, expected: &str) -> Refusal {
        let detail = format!("the value for {} is {}, expected {expected}", self.topic, shown(value));
        Refusal::new("wrong_type", detail)
    }

    fn out_of_range(&self, value: &Value, expected: &str) -> Refusal {
        let detail = format!("the value for {} is {}, expected {expected}", self.topic, shown(value));
        Refusal::new("out_of_range", detail)
    }

    fn beyond(&self, value: &Value) -> Refusal {
        self.out_of_range(value, "a number whose raw value the device can take")
    }
}

/// The state that a word means: by the point's own words first. Those of a switch are for points without words, and for
/// those whose words are of that kind: an open breaker is off, and an open valve is not.
fn state_of_word(text: &str, words: Option<&(Box<str>, Box<str>)>) -> Option<bool> {
    let is = |word: &str| text.to_lowercase() == word.to_lowercase();
    match words {
        Some((off, _)) if is(off) => return Some(false),
        Some((_, on)) if is(on) => return Some(true),
        Some(_) | None => {}
    }
    if ["on", "true", "1"].into_iter().any(is) {
        return Some(true);
    }
    if ["off", "false", "0"].into_iter().any(is) {
        return Some(false);
    }
    let position = position(text)?;
    match words {
        None => Some(position == Position::Closed),
        Some((off, _)) if self::position(off) == Some(position) => Some(false),
        Some((_, on)) if self::position(on) == Some(position) => Some(true),
        Some(_) => None,
    }
}

/// What a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Open,
    Closed,
}

fn position(word: &str) -> Option<Position> {
    match () {
        () if word.eq_ignore_ascii_case("open") => Some(Position::Open),
        () if ["close", "closed"].iter().any(|closed| word.eq_ignore_ascii_case(closed)) => Some(Position::Closed),
        () => None,
    }
}

/// A limit without the last digits that scaling has left: 3276.7 and not 3276.7000000000003.
fn without_noise(x: f64) -> f64 {
    format!("{x:.14e}").parse().unwrap_or(x)
}

impl Scaling {
    #[expect(clippy::float_cmp, reason = "exactly the neutral numbers leave an integer exact")]
    fn is_neutral(self) -> bool {
        self.scale == 1.0 && self.offset == 0.0
    }

    fn value(self, raw: &Value) -> Value {
        match raw.as_f64() {
            Some(number) if !self.is_neutral() => Value::Float(without_noise(number * self.scale + self.offset)),
            Some(_) | None => raw.clone(),
        }
    }

    fn raw_int(self, value: i64) -> Option<Value> {
        if self.is_neutral() && self.whole {
            return Some(Value::Int(value));
        }
        self.raw(Value::Int(value).as_f64()?)
    }

    fn raw(self, value: f64) -> Option<Value> {
        let raw = if self.is_neutral() { value } else { (value - self.offset) / self.scale };
        if self.whole {
            return nearest_int(raw).map(Value::Int);
        }
        raw.is_finite().then_some(Value::Float(raw))
    }
}

/// The value as JSON, cut where it is long.
pub(crate) fn shown(value: &Value) -> String {
    let mut text = String::new();
    json_value(value, &mut text);
    cut(&text)
}

pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or(text)),
        None => text.into(),
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(i) => Some(*i),
        Value::Float(x) if x % 1.0 == 0.0 => nearest_int(*x),
        Value::Float(_) | Value::Null | Value::Bool(_) | Value::Text(_) | Value::Bytes(_) => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(_) | Value::Float(_) => value.as_f64().filter(|x| x.is_finite()),
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::Bytes(_) => None,
    }
}
