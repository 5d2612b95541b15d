//! What a value of a historian is: JSON as Python writes it.

use bytes::Bytes;
use serde_json::Value as Json;
use tieline_core::Value;

/// Bytes of the longest value.
const BYTES_MAX: usize = 1 << 20;

/// A value that was read.
#[derive(Debug, PartialEq)]
pub enum Read {
    /// A scalar.
    Value(Value),
    /// An object or an array, as it was written.
    Payload(Bytes),
}

/// Reads a value, or says what is wrong with it.
pub fn read(text: &str) -> Result<Read, &'static str> {
    let text = text.trim();
    if text.len() > BYTES_MAX {
        return Err("longer than 1 MiB");
    }
    let value = match text {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        // Python's names for what JSON does not have.
        "NaN" => Value::Float(f64::NAN),
        "Infinity" => Value::Float(f64::INFINITY),
        "-Infinity" => Value::Float(f64::NEG_INFINITY),
        _ => match text.as_bytes().first() {
            Some(b'-' | b'0'..=b'9') => number(text).ok_or("no JSON")?,
            Some(b'{' | b'[') => {
                serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(|_| "no JSON")?;
                return Ok(Read::Payload(Bytes::copy_from_slice(text.as_bytes())));
            }
            _ => match serde_json::from_str(text) {
                Ok(Json::String(text)) => Value::Text(text.into()),
                Ok(_) | Err(_) => return Err("no JSON"),
            },
        },
    };
    Ok(Read::Value(value))
}

/// An integer where it is written as one and fits; else a double.
fn number(text: &str) -> Option<Value> {
    match text.parse() {
        Ok(integer) => Some(Value::Int(integer)),
        Err(_) => text.parse().ok().filter(|double: &f64| double.is_finite()).map(Value::Float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_exactly() {
        let check = |text: &str, expect: Result<Read, &'static str>| assert_eq!(read(text), expect, "{text}");
        let value = |value| Ok(Read::Value(value));
        check("7", value(Value::Int(7)));
        check(" -7.0", value(Value::Float(-7.0)));
        check("0.1", value(Value::Float(0.1)));
        check("1e+16", value(Value::Float(1e16)));
        check("92233720368547758070", value(Value::Float(92_233_720_368_547_758_070.0)));
        check("true", value(Value::Bool(true)));
        check("null", value(Value::Null));
        check("-Infinity", value(Value::Float(f64::NEG_INFINITY)));
        check("\"f\\u00fcr\"", value(Value::Text("für".into())));
        check("{\"a\": [1]}", Ok(Read::Payload(Bytes::from_static(b"{\"a\": [1]}"))));
        for wrong in ["", "x", "1x", "1e999", "{", "'a'", "True"] {
            check(wrong, Err("no JSON"));
        }
        assert!(matches!(read("NaN"), Ok(Read::Value(Value::Float(x))) if x.is_nan()));
    }
}
