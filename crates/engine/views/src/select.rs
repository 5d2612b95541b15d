//! A place in a JSON value (RFC 6901), and what may be asked of what stands there.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use serde_json::Value;

/// A place in a JSON value, as in `/meta/name`; the empty text is the value itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(Vec<Box<str>>);

/// Why a text is neither a place nor a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectError {
    /// A place begins otherwise.
    Pointer,
    /// It has no comparison, or more than a place, a comparison and a value.
    Form,
    /// What is compared with is no JSON.
    Value(Box<str>),
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer => f.write_str("a place in JSON (RFC 6901), empty or like \"/meta/name\""),
            Self::Form => {
                f.write_str("a place, one of == != < <= > >= and a JSON value, as in \"/v > 5\", or a place alone")
            }
            Self::Value(text) => {
                write!(f, "a JSON value to compare with, which {text:?} is not; texts stand in double quotes")
            }
        }
    }
}

impl core::error::Error for SelectError {}

impl Pointer {
    /// Reads a place.
    ///
    /// # Errors
    /// It does not begin with `/`.
    pub fn new(text: &str) -> Result<Self, SelectError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let rest = text.strip_prefix('/').ok_or(SelectError::Pointer)?;
        Ok(Self(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~").into()).collect()))
    }

    /// What stands there.
    #[must_use]
    pub fn find<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(value, |at, part| match at {
            Value::Object(members) => members.get(&**part),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// What has to be true of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    place: Pointer,
    wanted: Option<(Comparison, Value)>,
}

impl Condition {
    /// Reads a condition: `/v > 5`, `/state == "open"`, or a place alone, where something has to stand.
    ///
    /// # Errors
    /// It is none.
    pub fn new(text: &str) -> Result<Self, SelectError> {
        let mut words = text.trim().splitn(3, ' ').map(str::trim);
        let place = Pointer::new(words.next().unwrap_or_default())?;
        let comparison = match words.next() {
            None => return Ok(Self { place, wanted: None }),
            Some("==") => Comparison::Equal,
            Some("!=") => Comparison::NotEqual,
            Some("<") => Comparison::Less,
            Some("<=") => Comparison::AtMost,
            Some(">") => Comparison::Greater,
            Some(">=") => Comparison::AtLeast,
            Some(_) => return Err(SelectError::Form),
        };
        let wanted = words.next().ok_or(SelectError::Form)?;
        let wanted = serde_json::from_str(wanted).map_err(|_| SelectError::Value(wanted.into()))?;
        Ok(Self { place, wanted: Some((comparison, wanted)) })
    }

    /// Whether it is true. What is not there, or not of the kind that is compared with, is only unequal.
    #[must_use]
    pub fn holds(&self, value: &Value) -> bool {
        let found = self.place.find(value);
        let Some((comparison, wanted)) = &self.wanted else { return found.is_some() };
        let order = found.and_then(|found| order(found, wanted));
        match comparison {
            Comparison::Equal => found.is_some_and(|found| same(found, wanted)),
            Comparison::NotEqual => !found.is_some_and(|found| same(found, wanted)),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

/// 1 and 1.0 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        (_, _) => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (a, b) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// A scalar as it stands in a topic; none for what has members, and for null.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(alloc::format!("{value}")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
