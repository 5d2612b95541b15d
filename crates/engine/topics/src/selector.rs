//! Regular expressions over topics. Matching takes time linear in the length of a path, whatever the expression.

use alloc::string::{String, ToString};
use core::fmt;
use regex::{Regex, RegexBuilder};

/// Octets of an expression.
const TEXT_OCTETS_MAX: usize = 1024;
/// Octets of an expression that is compiled, and of what matching keeps besides.
const COMPILED_OCTETS_MAX: usize = 256 * 1024;

/// A regular expression that paths are matched with: anywhere, unless it says `^` and `$`.
#[derive(Clone, Debug)]
pub struct Selector {
    regex: Regex,
    owner: u64,
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// It has too many octets.
    TooLong,
    /// It takes too much memory.
    TooLarge,
    /// It is no regular expression, for this reason.
    Syntax(String),
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the expression is longer than {TEXT_OCTETS_MAX} octets"),
            Self::TooLarge => write!(f, "the expression takes more than {COMPILED_OCTETS_MAX} octets when compiled"),
            Self::Syntax(why) => write!(f, "no regular expression: {why}"),
        }
    }
}

impl core::error::Error for SelectorError {}

impl Selector {
    /// Compiles an expression in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn new(text: &str) -> Result<Self, SelectorError> {
        if text.len() > TEXT_OCTETS_MAX {
            return Err(SelectorError::TooLong);
        }
        let mut builder = RegexBuilder::new(text);
        let built = builder.size_limit(COMPILED_OCTETS_MAX).dfa_size_limit(COMPILED_OCTETS_MAX).build();
        built.map(|regex| Self { regex, owner: 0 }).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => SelectorError::TooLarge,
            // The last line says what is wrong; those before show where.
            other => {
                let words = other.to_string();
                let last = words.lines().next_back().unwrap_or_default();
                SelectorError::Syntax(last.trim_start_matches("error: ").to_string())
            }
        })
    }

    /// The expression.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// The same on somebody's account: [`crate::Limits::owner_selectors_max`]. Two expressions are the same whoever owns them.
    #[must_use]
    pub fn owned_by(self, owner: u64) -> Self {
        Self { owner, ..self }
    }

    /// On whose account it is.
    #[must_use]
    pub(crate) const fn owner(&self) -> u64 {
        self.owner
    }

    /// Whether it selects a path.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.regex.is_match(path)
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Selector {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, path: &str, expect: bool) {
        assert_eq!(Selector::new(text).unwrap().matches(path), expect, "{text} on {path}");
    }

    #[test]
    fn expressions_select_paths() {
        check("feeder[0-9]+/", "site/feeder12/amps", true);
        check("^feeder", "site/feeder12/amps", false);
        check("/(amps|volts)$", "site/feeder12/volts", true);
        check("(?i)AMPS", "site/amps", true);
        check("", "a", true);
    }

    #[test]
    fn wrong_and_large_expressions_are_refused() {
        let refused = |text: &str| Selector::new(text).unwrap_err();
        assert_eq!(refused(&"a".repeat(1025)), SelectorError::TooLong);
        assert_eq!(refused("(a{500}){500}"), SelectorError::TooLarge);
        assert_eq!(refused("a(").to_string(), "no regular expression: unclosed group");
    }
}
