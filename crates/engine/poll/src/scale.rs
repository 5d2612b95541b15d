//! From raw units to engineering units.

use crate::{Kind, PointSpec};
use tieline_core::{Value, nearest_int};

impl PointSpec {
    /// The raw value in engineering units: `raw * scale + offset`, in the point's type. An integer stays exact where
    /// the scale is 1 and the offset 0. Text, bytes and null pass as they are.
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
            (Kind::Int, Value::Float(x)) => nearest_int(*x).map_or(value, Value::Int),
            (Kind::Int, Value::Bool(b)) => Value::Int(i64::from(*b)),
            (Kind::Float, Value::Int(_) | Value::Bool(_)) => value.as_f64().map_or(value, Value::Float),
            (Kind::AsRead | Kind::Bool | Kind::Int | Kind::Float, _) => value,
        }
    }
}
