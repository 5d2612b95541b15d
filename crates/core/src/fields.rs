//! Fields of records on a disk.
//!
//! ```text
//! text  = length UTF-8        lengths and signed numbers are those of `varint`
//! value = 0 null | 1 false | 2 true | 3 signed | 4 f64, little-endian | 5 text | 6 length bytes
//! ```

use crate::varint::{VarintError, get_len, get_signed, put_len, put_signed};
use crate::{Cursor, Truncated, Value};
use alloc::vec::Vec;

/// Why bytes are not the field that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// They end too early.
    Truncated,
    /// A length, a text or a kind of value that cannot be.
    Malformed,
}

impl From<Truncated> for FieldError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<VarintError> for FieldError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => Self::Truncated,
            VarintError::TooLarge => Self::Malformed,
        }
    }
}

/// Appends a text.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Appends a value.
pub fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(state) => out.push(1 + u8::from(*state)),
        Value::Int(number) => {
            out.push(3);
            put_signed(out, *number);
        }
        Value::Float(number) => {
            out.push(4);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Text(text) => {
            out.push(5);
            put_text(out, text);
        }
        Value::Bytes(bytes) => {
            out.push(6);
            put_len(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}

/// Reads a text.
///
/// # Errors
/// The bytes end too early, or are not UTF-8.
pub fn get_text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, FieldError> {
    core::str::from_utf8(get_counted(cursor)?).map_err(|_| FieldError::Malformed)
}

/// Reads a value.
///
/// # Errors
/// The bytes end too early, or are no value.
pub fn get_value(cursor: &mut Cursor<'_>) -> Result<Value, FieldError> {
    Ok(match cursor.u8()? {
        0 => Value::Null,
        1 => Value::Bool(false),
        2 => Value::Bool(true),
        3 => Value::Int(get_signed(cursor)?),
        4 => Value::Float(f64::from_le_bytes(cursor.array()?)),
        5 => Value::from(get_text(cursor)?),
        6 => Value::Bytes(get_counted(cursor)?.into()),
        _ => return Err(FieldError::Malformed),
    })
}

/// Reads bytes after their length.
///
/// # Errors
/// They end too early.
pub fn get_counted<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], FieldError> {
    let length = get_len(cursor)?;
    Ok(cursor.take(length)?)
}
