//! One rule, and its text: `allow read,command site/feeder1/#`.

use crate::{Pattern, PatternError, Verb, Verbs};
use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Lets it be done.
    Allow,
    /// Forbids it, whatever others allow.
    Deny,
}

impl Effect {
    /// The word in rules.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// Allows or denies verbs on topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub effect: Effect,
    /// To which verbs.
    pub verbs: Verbs,
    /// On which topics.
    pub pattern: Pattern,
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It has not three parts.
    Form,
    /// The first word is neither.
    Effect(Box<str>),
    /// A verb is none.
    Verb(Box<str>),
    /// The rest is no pattern.
    Pattern(PatternError),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("a rule has an effect, verbs and a topic filter, as in \"allow read site/#\""),
            Self::Effect(word) => write!(f, "a rule begins with {word:?}, expected allow or deny"),
            Self::Verb(word) => {
                write!(f, "{word:?} is no verb, expected read, publish, command, acknowledge, admin or all")
            }
            Self::Pattern(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (effect, rest) = text.trim_start().split_once(' ').ok_or(RuleError::Form)?;
        let (verbs, pattern) = rest.trim_start().split_once(' ').ok_or(RuleError::Form)?;
        let effect = match effect {
            "allow" => Effect::Allow,
            "deny" => Effect::Deny,
            other => return Err(RuleError::Effect(other.into())),
        };
        let verb = |word: &str| match word {
            "all" => Ok(Verbs::ALL),
            word => Verb::of_word(word).map(|verb| Verbs::NONE.with(verb)).ok_or(RuleError::Verb(word.into())),
        };
        let verbs = verbs.split(',').map(verb).try_fold(Verbs::NONE, |all, one| one.map(|one| all.or(one)))?;
        // A topic may hold spaces, within it and at its end.
        let pattern = Pattern::new(pattern.trim_start()).map_err(RuleError::Pattern)?;
        Ok(Self { effect, verbs, pattern })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { effect, verbs, pattern } = self;
        match *verbs {
            Verbs::ALL => write!(f, "{} all {pattern}", effect.word()),
            verbs => write!(f, "{} {verbs} {pattern}", effect.word()),
        }
    }
}
