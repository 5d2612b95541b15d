//! What was measured or commanded.

use alloc::boxed::Box;

/// One value, in the widest type that keeps it exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing is known yet.
    #[default]
    Null,
    /// A two-state input or output.
    Bool(bool),
    /// A count, a raw measurement, or a code (a double-bit input is 0 intermediate, 1 off, 2 on, 3 indeterminate).
    Int(i64),
    /// A measurement in engineering units.
    Float(f64),
    /// Words.
    Text(Box<str>),
    /// Bytes without a known meaning.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The value as a number: `true` is 1. None for text, bytes and null.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "a chart or a mean takes a double; the exact integer stays in the value"
    )]
    pub const fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Bool(b) => Some(if *b { 1.0 } else { 0.0 }),
            Self::Int(i) => Some(*i as f64),
            Self::Float(x) => Some(*x),
            Self::Null | Self::Text(_) | Self::Bytes(_) => None,
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Int(i)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Self::Float(x)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::Text(s.into())
    }
}

/// The nearest integer, halves away from zero; none where the number has none in 64 bits.
#[must_use]
pub fn nearest_int(x: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (-LIMIT..LIMIT).contains(&x).then(|| {
        let whole = x as i64;
        let rest = x % 1.0;
        if rest >= 0.5 {
            whole.saturating_add(1)
        } else if rest <= -0.5 {
            whole.saturating_sub(1)
        } else {
            whole
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_to_the_nearest_integer() {
        let check = |x: f64, expect: Option<i64>| assert_eq!(nearest_int(x), expect, "{x}");
        check(2.5, Some(3));
        check(-2.5, Some(-3));
        check(0.499_999_999_999_999_94, Some(0));
        check(4_503_599_627_370_497.5, Some(4_503_599_627_370_498));
        check(-9_223_372_036_854_775_808.0, Some(i64::MIN));
        check(9_223_372_036_854_775_808.0, None);
        check(f64::NAN, None);
        check(f64::NEG_INFINITY, None);
    }
}
