//! What has to be true of a topic's value for an update to be taken: so that of several writers none undoes what it has
//! not seen.

use crate::Tree;
use bytes::Bytes;
use core::fmt;
use core::str::FromStr;
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

/// Words that say nothing of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUnmet;

/// What is said of each.
const PRESENT: &str = "the topic has a value of version ";
const EXPECTED_NONE: &str = ", expected none";
const ABSENT: &str = "the topic has no value";
const VERSION: &str = "the version is ";
const EXPECTED: &str = ", expected ";
const VALUE: &str = "the value is another than expected, of version ";

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present(found) => write!(f, "{PRESENT}{found}{EXPECTED_NONE}"),
            Self::Absent => f.write_str(ABSENT),
            Self::Version { found, expected } => write!(f, "{VERSION}{found}{EXPECTED}{expected}"),
            Self::Value(found) => write!(f, "{VALUE}{found}"),
        }
    }
}

impl core::error::Error for Unmet {}

impl FromStr for Unmet {
    type Err = NotUnmet;

    /// Reads what another node says of a condition that is not met there.
    fn from_str(words: &str) -> Result<Self, NotUnmet> {
        let version = |text: &str| text.parse().map_err(|_| NotUnmet);
        if words == ABSENT {
            return Ok(Self::Absent);
        }
        if let Some(rest) = words.strip_prefix(PRESENT) {
            return rest.strip_suffix(EXPECTED_NONE).ok_or(NotUnmet).and_then(version).map(Self::Present);
        }
        if let Some(rest) = words.strip_prefix(VERSION) {
            let (found, expected) = rest.split_once(EXPECTED).ok_or(NotUnmet)?;
            return Ok(Self::Version { found: version(found)?, expected: version(expected)? });
        }
        words.strip_prefix(VALUE).ok_or(NotUnmet).and_then(version).map(Self::Value)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_is_said_of_a_condition_is_read_again() {
        let all = [Unmet::Present(41), Unmet::Absent, Unmet::Version { found: u64::MAX, expected: 0 }, Unmet::Value(7)];
        for unmet in all {
            assert_eq!(unmet.to_string().parse(), Ok(unmet));
        }
        for words in ["", "the upstream is away", "the version is x, expected 1", "the topic has a value of version 1"]
        {
            assert_eq!(words.parse::<Unmet>(), Err(NotUnmet), "{words}");
        }
    }
}
