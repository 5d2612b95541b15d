//! Why a decision is as it is, rule by rule.

use crate::{Effect, Names, Policy, Rule, Verb};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a rule has to do with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// It is about other verbs.
    OtherVerb,
    /// It is about other topics.
    OtherTopic,
    /// It allows.
    Allows,
    /// It denies.
    Denies,
}

/// One rule, looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The role that has it.
    pub role: Box<str>,
    /// The rule.
    pub rule: Rule,
    /// What it has to do with the question.
    pub applies: Applies,
}

/// A decision with all that led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it may be done.
    pub allowed: bool,
    /// Each rule of each role.
    pub steps: Vec<Step>,
}

impl Policy {
    /// Looks at each rule of some roles.
    #[must_use]
    pub fn explain(&self, roles: &[Box<str>], names: Names<'_>, verb: Verb, topic: &str) -> Explanation {
        let rules = |role: &str| {
            let rules = self.role(role).map(|role| role.rules).unwrap_or_default();
            rules.into_iter().map(|rule| (Box::from(role), rule)).collect::<Vec<_>>()
        };
        let step = |(role, rule): (Box<str>, Rule)| {
            let applies = match (rule.verbs.contains(verb), rule.pattern.matches(topic, names), rule.effect) {
                (false, _, _) => Applies::OtherVerb,
                (true, false, _) => Applies::OtherTopic,
                (true, true, Effect::Allow) => Applies::Allows,
                (true, true, Effect::Deny) => Applies::Denies,
            };
            Step { role, rule, applies }
        };
        let steps: Vec<Step> = roles.iter().flat_map(|role| rules(role)).map(step).collect();
        let any = |wanted| steps.iter().any(|step| step.applies == wanted);
        Explanation { allowed: any(Applies::Allows) && !any(Applies::Denies), steps }
    }
}
