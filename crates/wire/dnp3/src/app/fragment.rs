//! A fragment's own header.

use super::{AppControl, Function, Headers};
use crate::Iin;
use core::fmt;
use tieline_core::Cursor;

/// A fragment whose header was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The first byte.
    pub control: AppControl,
    /// What it asks or answers.
    pub function: Function,
    /// Internal indications: set exactly when the function is a response.
    pub iin: Option<Iin>,
    /// The object headers with their objects.
    pub objects: &'a [u8],
}

/// Why a fragment cannot be read. Its objects were not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentError {
    /// It ends within its header.
    TooShort,
    /// The function code has no meaning: an outstation answers IIN2.0.
    UnknownFunction {
        /// The first byte.
        control: AppControl,
        /// The code.
        code: u8,
    },
}

impl fmt::Display for FragmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("the fragment ends within its header"),
            Self::UnknownFunction { code, .. } => write!(f, "function code {code} is unknown"),
        }
    }
}

impl core::error::Error for FragmentError {}

impl<'a> Fragment<'a> {
    /// Reads the header of a fragment.
    ///
    /// # Errors
    /// It ends too early, or its function is unknown.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FragmentError> {
        let mut cursor = Cursor::new(bytes);
        let [control, code] = cursor.array().map_err(|_| FragmentError::TooShort)?;
        let control = AppControl::parse(control);
        let function = Function::from_code(code).ok_or(FragmentError::UnknownFunction { control, code })?;
        let iin = if function.is_response() {
            Some(Iin(cursor.u16_le().map_err(|_| FragmentError::TooShort)?))
        } else {
            None
        };
        Ok(Self { control, function, iin, objects: cursor.rest() })
    }

    /// Its object headers, first to last.
    #[must_use]
    pub const fn headers(&self) -> Headers<'a> {
        Headers::new(self.function, self.objects)
    }
}
