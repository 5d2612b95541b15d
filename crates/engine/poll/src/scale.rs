//! From raw units to engineering units.

use crate::{Kind, PointSpec};
use tieline_core::Value;

impl PointSpec {
    /// The raw value in engineering units: `raw * scale + offset`, in the point's type. An integer stays exact where
    /// the scale is 1 and the offset 0. Text, octets and null pass as they are.
    #[must_use]
    pub fn scaled(&self, raw: Value) -> Value {
        #[expect(clippy::float_cmp, reason = "exactly the neutral numbers leave an integer exact")]
        let is_neutral = self.scale == 1.0 && self.offset == 0.0;
        let value = match raw {
            Value::Bool(b) => Value::Bool(b != self.invert),
            Value::Int(_) | Value::Float(_) if is_neutral => raw,
            Value::Int(_) | Value::Float(_) => match raw.as_f64() {
                Some(x) => Value::Float(x * self.scale + self.offset),
                None => raw,
            },
            Value::Null | Value::Text(_) | Value::Bytes(_) => raw,
        };
        self.typed(value)
    }

    fn typed(&self, value: Value) -> Value {
        match (self.kind, &value) {
            (Kind::Bool, Value::Int(i)) => Value::Bool((*i != 0) != self.invert),
            (Kind::Bool, Value::Float(x)) => Value::Bool((*x != 0.0) != self.invert),
            (Kind::Int, Value::Float(x)) => rounded(*x).map_or(value, Value::Int),
            (Kind::Int, Value::Bool(b)) => Value::Int(i64::from(*b)),
            (Kind::Float, Value::Int(_) | Value::Bool(_)) => value.as_f64().map_or(value, Value::Float),
            (Kind::AsRead | Kind::Bool | Kind::Int | Kind::Float, _) => value,
        }
    }
}

/// The nearest integer, halves away from zero; none where the number has none in 64 bits.
fn rounded(x: f64) -> Option<i64> {
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
