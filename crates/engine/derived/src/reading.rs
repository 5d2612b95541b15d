//! What an input says at one time, as far as it can be calculated with.

use tieline_core::{Quality, Validity, Value};

/// What is calculated with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A number; not NaN.
    Number(f64),
    /// True or false.
    Boolean(bool),
}

impl Scalar {
    pub(crate) const fn number(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Boolean(true) => 1.0,
            Self::Boolean(false) => 0.0,
        }
    }

    pub(crate) fn truth(self) -> bool {
        match self {
            Self::Number(number) => number != 0.0,
            Self::Boolean(truth) => truth,
        }
    }
}

/// A value of an input, and how far it may be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The value; none where it is nothing that can be calculated with.
    pub value: Option<Scalar>,
    /// Its quality; bad where there is no value.
    pub quality: Quality,
}

impl Reading {
    /// Of a point. Text and bytes cannot be calculated with: they are bad with `reference_err`.
    #[must_use]
    pub fn of(value: &Value, quality: Quality) -> Self {
        match value {
            Value::Bool(truth) => Self { value: Some(Scalar::Boolean(*truth)), quality },
            Value::Null => Self { value: None, quality: quality.with_validity(Validity::Bad) },
            Value::Text(_) | Value::Bytes(_) => Self::unusable(quality),
            Value::Int(_) | Value::Float(_) => match value.as_f64().filter(|number| !number.is_nan()) {
                Some(number) => Self { value: Some(Scalar::Number(number)), quality },
                None => Self::unusable(quality),
            },
        }
    }

    /// A value that cannot be calculated with.
    #[must_use]
    pub const fn unusable(quality: Quality) -> Self {
        Self { value: None, quality: quality.with(Quality::REFERENCE_ERR).with_validity(Validity::Bad) }
    }

    /// Its number, where it may be counted.
    pub(crate) fn usable(&self) -> Option<f64> {
        self.value.filter(|_| self.quality.validity() != Validity::Bad).map(Scalar::number)
    }
}
