//! What has to be true of a topic's value for an update to be taken: so that of several writers none undoes what it has
//! not seen.

use crate::Tree;
use bytes::Bytes;
use core::fmt;
use tieline_core::Body;

/// What has to be true of a topic's value. Who checks it and applies the update in one call of the tree's owner has
/// both as one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// It has this version.
    Version(u64),
    /// It is these bytes; a point, as the JSON that it is sent as.
    Value(Bytes),
}

/// Why a condition is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// There is a value, of this version.
    Present(u64),
    /// There is none.
    Absent,
    /// Its version is another.
    Version {
        /// The version of the value.
        found: u64,
        /// The version that was expected.
        expected: u64,
    },
    /// It is another, of this version.
    Value(u64),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present(found) => write!(f, "the topic has a value of version {found}, expected none"),
            Self::Absent => f.write_str("the topic has no value"),
            Self::Version { found, expected } => write!(f, "the version is {found}, expected {expected}"),
            Self::Value(found) => write!(f, "the value is another than expected, of version {found}"),
        }
    }
}

impl core::error::Error for Unmet {}

impl Tree {
    /// Whether a condition is met.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, path: &str, condition: &Condition) -> Result<(), Unmet> {
        match (condition, self.get(path)) {
            (Condition::Absent, None) | (Condition::Present, Some(_)) => Ok(()),
            (Condition::Absent, Some(view)) => Err(Unmet::Present(view.version)),
            (Condition::Present | Condition::Version(_) | Condition::Value(_), None) => Err(Unmet::Absent),
            (Condition::Version(expected), Some(view)) if view.version == *expected => Ok(()),
            (Condition::Version(expected), Some(view)) => {
                Err(Unmet::Version { found: view.version, expected: *expected })
            }
            (Condition::Value(expected), Some(view)) => {
                let is_equal = match view.body {
                    Body::Opaque(bytes) => bytes == expected,
                    Body::Published(point) => point.payload() == expected,
                    Body::Point(point) => point.to_json().as_bytes() == &**expected,
                };
                if is_equal { Ok(()) } else { Err(Unmet::Value(view.version)) }
            }
        }
    }
}
