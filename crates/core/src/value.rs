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
    /// Octets without a known meaning.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The value as a number: `true` is 1. None for text, octets and null.
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
