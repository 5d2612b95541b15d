//! What an expression comes to.

use crate::changes::Held;
use crate::expression::{Binary, Expression, Function, Node};
use crate::reading::{Reading, Scalar};
use crate::window::Window;
use tieline_core::{Quality, Validity, Value};

/// What a part of an expression comes to; none where an input has no sample yet.
type Cell = Option<Reading>;

/// Where inputs are looked up.
pub(crate) enum Inputs<'a> {
    Held(&'a [Held]),
    Windows(&'a [Window]),
}

impl Expression {
    /// What it comes to, as a value and its quality; none where it needs an input that has no sample.
    pub(crate) fn evaluate(&self, inputs: &Inputs<'_>) -> Option<(Value, Quality)> {
        let Reading { value, quality } = evaluate(&self.root, inputs)?;
        Some(match value {
            Some(Scalar::Number(number)) if number.is_finite() => (Value::Float(number), quality),
            Some(Scalar::Boolean(truth)) => (Value::Bool(truth), quality),
            Some(Scalar::Number(_)) => (Value::Null, quality.with(Quality::OVER_RANGE)),
            None => (Value::Null, quality.with_validity(Validity::Bad)),
        })
    }

    /// The result of an interval; `windows` are those of the inputs, in their order.
    #[must_use]
    pub fn of_interval(&self, windows: &[Window]) -> Option<(Value, Quality)> {
        self.evaluate(&Inputs::Windows(windows))
    }
}

const fn good(value: Scalar) -> Cell {
    Some(Reading { value: Some(value), quality: Quality::GOOD })
}

fn evaluate(node: &Node, inputs: &Inputs<'_>) -> Cell {
    match node {
        Node::Number(number) => good(Scalar::Number(*number)),
        Node::Boolean(truth) => good(Scalar::Boolean(*truth)),
        Node::Input(input) => match inputs {
            Inputs::Held(held) => held.get(*input).copied().flatten().map(|(_, reading)| reading),
            Inputs::Windows(_) => None,
        },
        Node::Window(windowed, input) => match inputs {
            Inputs::Held(_) => None,
            Inputs::Windows(windows) => windows.get(*input)?.value(*windowed),
        },
        Node::Negative(part) => map(evaluate(part, inputs)?, |value| number(-value.number())),
        Node::Not(part) => map(evaluate(part, inputs)?, |value| Some(Scalar::Boolean(!value.truth()))),
        Node::Binary(Binary::And, left, right) => decide(left, right, inputs, false),
        Node::Binary(Binary::Or, left, right) => decide(left, right, inputs, true),
        Node::Binary(operator, left, right) => {
            join(evaluate(left, inputs)?, evaluate(right, inputs)?, |left, right| binary(*operator, left, right))
        }
        Node::Call(function, parts) => call(*function, parts, inputs),
    }
}

/// What a calculation makes of a value. Where it makes no number, the value is out of range.
fn map(of: Reading, make: impl FnOnce(Scalar) -> Option<Scalar>) -> Cell {
    let Some(value) = of.value else { return Some(of) };
    Some(made(make(value), of.quality))
}

fn join(left: Reading, right: Reading, make: impl FnOnce(Scalar, Scalar) -> Option<Scalar>) -> Cell {
    let quality = left.quality.with(right.quality);
    let (Some(left), Some(right)) = (left.value, right.value) else {
        return Some(Reading { value: None, quality: quality.with_validity(Validity::Bad) });
    };
    Some(made(make(left, right), quality))
}

fn made(value: Option<Scalar>, quality: Quality) -> Reading {
    match value {
        Some(value) => Reading { value: Some(value), quality },
        None => Reading { value: None, quality: quality.with(Quality::OVER_RANGE).with_validity(Validity::Bad) },
    }
}

/// A number that can be calculated with.
fn number(number: f64) -> Option<Scalar> {
    number.is_finite().then_some(Scalar::Number(number))
}

/// `and`, `or`: the right side counts only where the left one does not decide.
fn decide(left: &Node, right: &Node, inputs: &Inputs<'_>, decisive: bool) -> Cell {
    let left = evaluate(left, inputs)?;
    if left.value.is_some_and(|value| value.truth() == decisive) {
        return Some(Reading { value: Some(Scalar::Boolean(decisive)), quality: left.quality });
    }
    join(left, evaluate(right, inputs)?, |_, right| Some(Scalar::Boolean(right.truth())))
}

fn binary(operator: Binary, left: Scalar, right: Scalar) -> Option<Scalar> {
    let (a, b) = (left.number(), right.number());
    match operator {
        Binary::Add => number(a + b),
        Binary::Subtract => number(a - b),
        Binary::Multiply => number(a * b),
        Binary::Divide => number(a / b),
        Binary::Remainder => number(a % b),
        Binary::Power => number(libm::pow(a, b)),
        Binary::Equal => Some(Scalar::Boolean(equal(left, right))),
        Binary::NotEqual => Some(Scalar::Boolean(!equal(left, right))),
        Binary::Less => Some(Scalar::Boolean(a < b)),
        Binary::AtMost => Some(Scalar::Boolean(a <= b)),
        Binary::Greater => Some(Scalar::Boolean(a > b)),
        Binary::AtLeast => Some(Scalar::Boolean(a >= b)),
        Binary::And | Binary::Or => None,
    }
}

/// Where one of the two is a truth, both are.
#[expect(clippy::float_cmp, reason = "an expression says == for the same number")]
fn equal(left: Scalar, right: Scalar) -> bool {
    match (left, right) {
        (Scalar::Number(a), Scalar::Number(b)) => a == b,
        (_, _) => left.truth() == right.truth(),
    }
}

fn call(function: Function, parts: &[Node], inputs: &Inputs<'_>) -> Cell {
    let at = |place: usize| evaluate(parts.get(place)?, inputs);
    let one = |make: fn(f64) -> f64| map(at(0)?, |value| number(make(value.number())));
    match function {
        Function::If => {
            let condition = at(0)?;
            let Some(value) = condition.value else { return Some(condition) };
            let chosen = at(if value.truth() { 1 } else { 2 })?;
            Some(Reading { quality: chosen.quality.with(condition.quality), ..chosen })
        }
        Function::Coalesce => {
            let usable = |cell: &Cell| cell.is_some_and(|reading| reading.usable().is_some());
            (0..parts.len()).map(at).find(usable).unwrap_or_else(|| at(parts.len().checked_sub(1)?))
        }
        Function::Min => fold(parts, inputs, f64::min),
        Function::Max => fold(parts, inputs, f64::max),
        Function::Avg => {
            #[expect(clippy::cast_precision_loss, reason = "there are 64 at most")]
            let count = parts.len() as f64;
            map(fold(parts, inputs, |a, b| a + b)?, |sum| number(sum.number() / count))
        }
        Function::Clamp => {
            let low = join(at(0)?, at(1)?, |value, low| number(value.number().max(low.number())))?;
            join(low, at(2)?, |value, high| number(value.number().min(high.number())))
        }
        Function::Abs => one(libm::fabs),
        Function::Round => one(libm::round),
        Function::Floor => one(libm::floor),
        Function::Ceil => one(libm::ceil),
        Function::Sqrt => one(libm::sqrt),
        Function::Exp => one(libm::exp),
        Function::Ln => one(libm::log),
    }
}

fn fold(parts: &[Node], inputs: &Inputs<'_>, make: fn(f64, f64) -> f64) -> Cell {
    let (first, rest) = parts.split_first()?;
    let first = map(evaluate(first, inputs)?, |value| number(value.number()))?;
    rest.iter()
        .try_fold(first, |sum, part| join(sum, evaluate(part, inputs)?, |a, b| number(make(a.number(), b.number()))))
}
