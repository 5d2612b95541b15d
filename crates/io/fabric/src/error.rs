//! What can go wrong, by blame.

use std::fmt;

/// Why the fabric did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricError {
    /// No server can be reached, or none answered in time. What was asked may have been done, or may be done yet.
    Away(String),
    /// Nobody serves the subject: it was not done.
    Nobody,
    /// The server refuses: access, permissions, settings, disk.
    Refused(String),
    /// The server is too old.
    Version {
        /// What it says that it is.
        found: String,
    },
    /// The caller asked for something that cannot be: a subject or a message that is too long.
    Misused(String),
    /// The log does not have what follows.
    Gap {
        /// The sequence that was expected.
        expected: u64,
        /// The sequence that came.
        found: u64,
    },
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(words) => write!(f, "no answer from a server: {words}"),
            Self::Nobody => f.write_str("nobody serves this subject"),
            Self::Refused(words) => write!(f, "the server refuses: {words}"),
            Self::Version { found } => {
                write!(f, "the server is nats-server {found}, expected {} or newer", crate::VERSION_MIN)
            }
            Self::Misused(words) => f.write_str(words),
            Self::Gap { expected, found } => write!(f, "the log continues with {found}, expected {expected}"),
        }
    }
}

impl std::error::Error for FabricError {}
