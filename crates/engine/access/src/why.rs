//! Why a user may do something or not: the question of `tieline access test` and of the HTTP API.

use crate::{Applies, Explanation, Names, Policy, Reach, Verb};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Filter;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The user, and its client identifier.
    pub names: Names<'a>,
    /// Roles of a token or a certificate, in place of those of the user.
    pub roles: Vec<Box<str>>,
    /// The right.
    pub verb: Verb,
    /// A topic, or a filter.
    pub topic: &'a str,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionError {
    /// There is no such user.
    User(Box<str>),
    /// There is no such role.
    Role(Box<str>),
    /// It has wildcards, and is no filter.
    Filter(Box<str>, String),
}

impl fmt::Display for QuestionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "there is no user {user:?}"),
            Self::Role(role) => write!(f, "there is no role {role:?}"),
            Self::Filter(topic, why) => write!(f, "{topic:?} is no topic and no filter: {why}"),
        }
    }
}

impl core::error::Error for QuestionError {}

/// A decision with the roles and rules that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The roles that were looked at.
    pub roles: Vec<Box<str>>,
    /// How much is allowed, and each rule.
    pub explained: Explanation,
    /// Whether the user is disabled: then nothing is allowed.
    pub disabled: bool,
    /// Whether the question was about a filter.
    pub is_filter: bool,
    verb: Verb,
}

impl Policy {
    /// Answers whether a user may do something, and why.
    ///
    /// # Errors
    /// There is no such user or role, or no such topic.
    pub fn why(&self, question: Question<'_>) -> Result<Why, QuestionError> {
        let Question { names, roles, verb, topic } = question;
        let known = self.user(names.user);
        let roles = match (roles.is_empty(), known) {
            (false, _) => roles,
            (true, Some(user)) => user.roles.clone(),
            (true, None) => return Err(QuestionError::User(names.user.into())),
        };
        if let Some(unknown) = roles.iter().find(|role| !self.has_role(role)) {
            return Err(QuestionError::Role(unknown.clone()));
        }
        // A filter is no topic: what is asked is how much of it is allowed.
        let filter = match Filter::new(topic) {
            _ if !topic.contains(['+', '#']) => None,
            Ok(filter) => Some(filter),
            Err(error) => return Err(QuestionError::Filter(topic.into(), alloc::format!("{error}"))),
        };
        let mut explained = match &filter {
            Some(filter) => self.explain_filter(&roles, names, verb, filter),
            None => self.explain(&roles, names, verb, topic),
        };
        let disabled = known.is_some_and(|user| user.disabled);
        if disabled {
            explained.reach = Reach::Nothing;
        }
        Ok(Why { roles, explained, disabled, is_filter: filter.is_some(), verb })
    }
}

impl Why {
    /// How much is allowed, as a word: of a topic `all` or `nothing`.
    #[must_use]
    pub const fn reach_word(&self) -> &'static str {
        match self.explained.reach {
            Reach::All => "all",
            Reach::Some => "some",
            Reach::Nothing => "nothing",
        }
    }

    /// Why, as a sentence.
    #[must_use]
    pub fn conclusion(&self) -> &'static str {
        let denies = self.explained.steps.iter().any(|step| step.applies == Applies::Denies);
        match (self.explained.reach, self.is_filter) {
            _ if self.disabled => "the user is disabled",
            (Reach::All, true) => "it is allowed for every topic of the filter",
            (Reach::Some, _) if self.verb == Verb::Read => {
                "only some topics of the filter may be read; the others are not delivered"
            }
            (Reach::Some, _) => "it is allowed for some topics of the filter only",
            (Reach::Nothing, true) if self.verb == Verb::Read => {
                "no topic of the filter may be read: the subscription is refused"
            }
            (Reach::Nothing, true) => "it is allowed for no topic of the filter",
            (Reach::Nothing, false) if denies => "a rule that denies outweighs all that allow",
            (Reach::Nothing, false) => "what no rule allows is denied",
            (Reach::All, false) => "a rule allows it, and none denies it",
        }
    }
}

impl Applies {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OtherVerb => "other verb",
            Self::OtherTopic => "other topic",
            Self::Allows => "allows",
            Self::Denies => "denies",
            Self::AllowsSome => "allows some",
            Self::DeniesSome => "denies some",
        }
    }
}
