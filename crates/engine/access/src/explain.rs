//! Why a decision is as it is, rule by rule.

use crate::alarmed::{Alarmed, decisive};
use crate::{Effect, Names, Policy, Reach, Rule, Verb};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::Filter;

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
    /// It allows some topics of a filter.
    AllowsSome,
    /// It denies some topics of a filter.
    DeniesSome,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// To how much it may be done; of a topic all or nothing.
    pub reach: Reach,
    /// Each rule of each role.
    pub steps: Vec<Step>,
}

impl Policy {
    /// Looks at each rule of some roles, for a topic.
    #[must_use]
    pub fn explain(&self, roles: &[Box<str>], names: Names<'_>, verb: Verb, topic: &str) -> Explanation {
        let selects =
            |rule: &Rule| if rule.pattern.matches(decisive(topic), names) { Reach::All } else { Reach::Nothing };
        let steps = self.steps(roles, verb, selects);
        let any = |wanted| steps.iter().any(|step| step.applies == wanted);
        let is_allowed = any(Applies::Allows) && !any(Applies::Denies);
        Explanation { reach: if is_allowed { Reach::All } else { Reach::Nothing }, steps }
    }

    /// Looks at each rule of some roles, for all topics that a filter selects.
    #[must_use]
    pub fn explain_filter(&self, roles: &[Box<str>], names: Names<'_>, verb: Verb, filter: &Filter) -> Explanation {
        let alarmed = Alarmed::of(filter);
        let selects = |rule: &Rule| match &alarmed {
            Some(alarmed) => alarmed.selected(rule, names),
            None if rule.pattern.covers(filter, names) => Reach::All,
            None if rule.pattern.meets(filter, names) => Reach::Some,
            None => Reach::Nothing,
        };
        let reach = self.compile(roles.iter().map(|role| &**role)).reach(verb, filter, names);
        Explanation { reach, steps: self.steps(roles, verb, selects) }
    }

    /// What each rule has to do with a verb and with topics, of which it selects so much.
    fn steps(&self, roles: &[Box<str>], verb: Verb, selects: impl Fn(&Rule) -> Reach) -> Vec<Step> {
        let rules = |role: &str| {
            let rules = self.role(role).map(|role| role.rules).unwrap_or_default();
            rules.into_iter().map(|rule| (Box::from(role), rule)).collect::<Vec<_>>()
        };
        let step = |(role, rule): (Box<str>, Rule)| {
            let applies = match (rule.verbs.contains(verb), selects(&rule), rule.effect) {
                (false, _, _) => Applies::OtherVerb,
                (true, Reach::Nothing, _) => Applies::OtherTopic,
                (true, Reach::All, Effect::Allow) => Applies::Allows,
                (true, Reach::All, Effect::Deny) => Applies::Denies,
                (true, Reach::Some, Effect::Allow) => Applies::AllowsSome,
                (true, Reach::Some, Effect::Deny) => Applies::DeniesSome,
            };
            Step { role, rule, applies }
        };
        roles.iter().flat_map(|role| rules(role)).map(step).collect()
    }
}
