//! Whether what a rule says holds.

use crate::Kind;
use crate::rows::Input;
use crate::rule::{Limit, Rule};
use tieline_core::{Quality, Timestamp, Validity, Value};

/// The value that a topic had before.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) value: Value,
    pub(super) quality: Quality,
    pub(super) time: Timestamp,
    pub(super) is_known: bool,
}

/// What an input says about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The condition holds, or does not.
    Is(bool),
    /// It held, for this moment.
    Fired,
    /// The input is good, and says neither.
    Nothing,
    /// The input is bad: it says neither.
    Doubtful,
    /// The rule is about something else.
    NotAsked,
}

/// What the input says about the rule. `is_on`: whether the alarm is active, for the hysteresis.
pub(super) fn evaluate(
    rule: &Rule,
    is_on: bool,
    input: &Input,
    before: Option<&Before>,
    reference: Option<&Input>,
) -> Seen {
    let is_asked = match rule.kind {
        Kind::Away => !input.is_place,
        Kind::CommandFailed => false,
        Kind::HighHigh
        | Kind::High
        | Kind::LowLow
        | Kind::Low
        | Kind::Deviation
        | Kind::Rate
        | Kind::State
        | Kind::Change
        | Kind::Bad
        | Kind::Stale => true,
    };
    if !is_asked || !input.is_known {
        return Seen::NotAsked;
    }
    if input.quality.contains(Quality::INITIAL) {
        return Seen::Doubtful;
    }
    let is_bad = input.quality.validity() == Validity::Bad;
    match rule.kind {
        Kind::Away => Seen::Is(input.quality.contains(Quality::AWAY)),
        Kind::Bad => Seen::Is(is_bad),
        Kind::Stale if input.quality.contains(Quality::STALE) => Seen::Is(true),
        _ if is_bad => Seen::Doubtful,
        Kind::Stale => Seen::Is(false),
        Kind::HighHigh | Kind::High => {
            limit(rule, input, |value, limit, back| value > if is_on { limit - back } else { limit })
        }
        Kind::LowLow | Kind::Low => {
            limit(rule, input, |value, limit, back| value < if is_on { limit + back } else { limit })
        }
        Kind::Deviation => {
            let Some(middle) = reference.and_then(number_of) else { return Seen::Doubtful };
            limit(rule, input, |value, limit, back| (value - middle).abs() > if is_on { limit - back } else { limit })
        }
        Kind::Rate => rate(rule, is_on, input, before),
        Kind::State => state(rule, input),
        Kind::Change => change(input, before),
        Kind::CommandFailed => Seen::NotAsked,
    }
}

/// The number of a topic that is good and has one.
fn number_of(input: &Input) -> Option<f64> {
    let is_good = input.is_known && input.quality.validity() != Validity::Bad;
    input.value.as_f64().filter(|number| is_good && number.is_finite())
}

fn limit(rule: &Rule, input: &Input, holds: impl Fn(f64, f64, f64) -> bool) -> Seen {
    let (Limit::Number(limit), Some(value)) = (&rule.limit, number_of(input)) else { return Seen::Doubtful };
    Seen::Is(holds(value, *limit, rule.hysteresis))
}

/// The change in a second, between this value and the one before, by the times of the device.
fn rate(rule: &Rule, is_on: bool, input: &Input, before: Option<&Before>) -> Seen {
    let (Limit::Number(limit), Some(value)) = (&rule.limit, number_of(input)) else { return Seen::Doubtful };
    let known = before.filter(|before| before.is_known && before.quality.validity() != Validity::Bad);
    let Some((from, before)) = known.and_then(|before| Some((before.value.as_f64()?, before))) else {
        return Seen::Nothing;
    };
    #[expect(clippy::cast_precision_loss, reason = "a span of 200 years has 53 bits")]
    let seconds = (input.time.micros() - before.time.micros()) as f64 / 1e6;
    if seconds <= 0.0 || !from.is_finite() {
        return Seen::Nothing;
    }
    let back = if is_on { rule.hysteresis } else { 0.0 };
    Seen::Is(((value - from) / seconds).abs() > *limit - back)
}

fn state(rule: &Rule, input: &Input) -> Seen {
    match (&rule.limit, &input.value) {
        (_, Value::Null) => Seen::Doubtful,
        (Limit::Is(wanted), value) => Seen::Is(is_same(wanted, value)),
        (Limit::None | Limit::Number(_) | Limit::Within(_), _) => Seen::Doubtful,
    }
}

fn change(input: &Input, before: Option<&Before>) -> Seen {
    let known = before.filter(|before| before.is_known && before.quality.validity() != Validity::Bad);
    match known {
        Some(before) if before.value != input.value => Seen::Fired,
        Some(_) | None => Seen::Nothing,
    }
}

/// Whether a value is the one that a rule says. Numbers and states compare as numbers: a device may report a state as 1.
pub(super) fn is_same(wanted: &Value, value: &Value) -> bool {
    match (wanted.as_f64(), value.as_f64()) {
        (Some(wanted), Some(value)) => wanted == value,
        _ => wanted == value,
    }
}
