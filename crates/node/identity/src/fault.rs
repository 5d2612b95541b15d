//! Why nobody is logged in.

use std::fmt;

/// Why nobody is logged in, by blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The provider cannot be reached, or is too slow.
    Away(String),
    /// The provider's answer is not what the standard has.
    Answer(String),
    /// The provider refuses: the error code of OAuth 2.0, and what it says beside it.
    Refused(String),
    /// The token is not good for this node and this login.
    Token(String),
    /// The browser's address is not that of a login under way.
    Login(&'static str),
    /// The person has no group that gives a role.
    NoRole {
        /// Who.
        user: String,
        /// How many groups it has.
        groups: usize,
    },
}

impl Fault {
    /// One word for metrics and the audit log.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Away(_) => "away",
            Self::Answer(_) => "answer",
            Self::Refused(_) => "refused",
            Self::Token(_) => "token",
            Self::Login(_) => "login",
            Self::NoRole { .. } => "no_role",
        }
    }

    /// All words.
    pub const WORDS: [&str; 6] = ["away", "answer", "refused", "token", "login", "no_role"];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(why) => write!(f, "the identity provider does not answer: {why}"),
            Self::Answer(why) => write!(f, "the answer of the identity provider: {why}"),
            Self::Refused(why) => write!(f, "the identity provider refuses: {why}"),
            Self::Token(why) => write!(f, "the ID token: {why}"),
            Self::Login(why) => f.write_str(why),
            Self::NoRole { user, groups } => {
                write!(f, "the user {user:?} has {groups} groups, and none of them gives a role here")
            }
        }
    }
}

impl std::error::Error for Fault {}
