//! The error that a service answers with (clause 18).

use crate::names::{ErrorClass, ErrorCode};
use crate::tag::Reader;
use crate::{DecodeError, Decoded, Value};
use alloc::vec::Vec;
use core::fmt;

/// Why a request, or one property of it, failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceError {
    /// What it is about.
    pub class: ErrorClass,
    /// What went wrong.
    pub code: ErrorCode,
}

impl ServiceError {
    /// Of a class and a code.
    #[must_use]
    pub const fn new(class: ErrorClass, code: ErrorCode) -> Self {
        Self { class, code }
    }

    /// Reads the parameters of an error message. Errors of some services hold class and code in context 0, and more
    /// after it, which is passed over.
    ///
    /// # Errors
    /// Class and code are absent.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        if reader.is_opening(0) {
            return Self::read(&mut Reader::new(reader.enclosed(0, "an error")?));
        }
        Self::read(&mut reader)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut number = || match Value::read(reader)? {
            Value::Enumerated(number) => Ok(number),
            _ => Err(DecodeError::Expected("the class and the code of an error")),
        };
        Ok(Self { class: ErrorClass(number()?), code: ErrorCode(number()?) })
    }

    /// Appends class and code.
    pub fn emit(&self, out: &mut Vec<u8>) {
        Value::Enumerated(self.class.0).encode(out);
        Value::Enumerated(self.code.0).encode(out);
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.code)
    }
}

impl core::error::Error for ServiceError {}
