//! Regular expressions over topics, compiled to tables of states: matching takes a few nanoseconds a byte of the path, whatever
//! the expression. One whose table would be long is refused.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use regex_automata::dfa::dense::{Builder, Config, DFA};
use regex_automata::dfa::{Automaton, StartKind};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

/// Bytes of its table, and of what is needed on the way to it.
const TABLE_BYTES_MAX: usize = 64 * 1024;

/// A regular expression that paths are matched with: anywhere, unless it says `^` and `$`.
#[derive(Clone)]
pub struct Selector {
    text: Box<str>,
    table: Arc<DFA<Vec<u32>>>,
    owner: u64,
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// It has too many bytes.
    TooLong,
    /// Its table has.
    TooLarge,
    /// It is no regular expression, for this reason.
    Syntax(String),
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the expression is longer than {} bytes", Selector::TEXT_BYTES_MAX),
            Self::TooLarge => write!(
                f,
                "the expression takes more than {TABLE_BYTES_MAX} bytes when compiled: several shorter ones, or fewer \
                 repetitions inside, take less"
            ),
            Self::Syntax(why) => write!(f, "no regular expression: {why}"),
        }
    }
}

impl Error for SelectorError {}

impl Selector {
    /// Bytes of an expression.
    pub const TEXT_BYTES_MAX: usize = 1024;

    /// Compiles an expression in the syntax of the crate `regex`. Classes such as `\w` and `.` are those of ASCII, but for an
    /// expression that has no meaning then, as with `\p{Greek}`.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn new(text: &str) -> Result<Self, SelectorError> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return Err(SelectorError::TooLong);
        }
        let table = match compile(text, false) {
            Err(SelectorError::Syntax(_)) => compile(text, true),
            compiled => compiled,
        };
        Ok(Self { text: text.into(), table: Arc::new(table?), owner: 0 })
    }

    /// The expression.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same on somebody's account: [`crate::Limits::owner_selectors_max`]. Two expressions are the same
    /// regardless of their owner.
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
        // Such tables have no place where they give up.
        matches!(self.table.try_search_fwd(&Input::new(path).earliest(true)), Ok(Some(_)))
    }

    /// What it takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<DFA<Vec<u32>>>() + self.table.memory_usage() + self.text.len()
    }
}

fn compile(text: &str, unicode: bool) -> Result<DFA<Vec<u32>>, SelectorError> {
    let syntax = syntax::Config::new().unicode(unicode).utf8(unicode);
    let parsed = syntax::parse_with(text, &syntax).map_err(|error| {
        // The last line says what is wrong; those before show where.
        let words = error.to_string();
        let last = words.lines().next_back().unwrap_or_default();
        SelectorError::Syntax(last.trim_start_matches("error: ").to_string())
    })?;
    let config = thompson::Config::new()
        .utf8(unicode)
        .shrink(false)
        .nfa_size_limit(Some(TABLE_BYTES_MAX))
        .which_captures(thompson::WhichCaptures::None);
    let built = thompson::Compiler::new().configure(config).build_from_hir(&parsed);
    // One expression without captures: nothing but its length can be wrong.
    let nfa = built.map_err(|_| SelectorError::TooLarge)?;
    let config = Config::new()
        .start_kind(StartKind::Unanchored)
        .match_kind(MatchKind::All)
        .dfa_size_limit(Some(TABLE_BYTES_MAX))
        .determinize_size_limit(Some(TABLE_BYTES_MAX));
    Builder::new().configure(config).build_from_nfa(&nfa).map_err(|error| match error.is_size_limit_exceeded() {
        true => SelectorError::TooLarge,
        false => SelectorError::Syntax(error.to_string()),
    })
}

impl fmt::Debug for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selector({:?})", self.text)
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
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
        check(r"^\w+/\d+$", "site/12", true);
        check(r"\bamps\b", "site/amps/1", true);
        check(r"\bamps\b", "site/milliamps", false);
        check("süd/", "werk/süd/1", true);
        check(r"^\p{Greek}+$", "ωμ", true);
        check("^[äö]$", "ö", true);
        check("^[äö]$", "u", false);
    }

    #[test]
    fn wrong_and_large_expressions_are_refused() {
        let refused = |text: &str| Selector::new(text).unwrap_err();
        assert_eq!(refused(&"a".repeat(1025)), SelectorError::TooLong);
        // The last is short, but each `a` begins a path of its own: a table of them all doubles with each byte.
        for text in
            ["(a{500}){500}", "a{65535}{65535}", "a.{20}[^ab]", "([a-z]+[0-9]*/?){6}[^/]{20,40}x$", r"(\p{L}+\W*){30}"]
        {
            assert_eq!(refused(text), SelectorError::TooLarge, "{text}");
        }
        assert_eq!(refused("a(").to_string(), "no regular expression: unclosed group");
        assert_eq!(refused(r"\p{Nonsense}").to_string(), "no regular expression: Unicode property not found");
    }

    #[test]
    fn what_is_taken_is_small() {
        let texts = ["feeder[0-9]+/", r"^site/\w+/(amps|volts)$", r"(?i)\brelay\s?\d+", "a.{8}[^ab]", r"\p{Greek}"];
        for text in texts {
            let bytes = Selector::new(text).unwrap().bytes();
            assert!(bytes <= TABLE_BYTES_MAX + Selector::TEXT_BYTES_MAX + 1024, "{text}: {bytes} bytes");
        }
    }
}
