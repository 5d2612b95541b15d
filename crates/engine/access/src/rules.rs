//! The rules of a set of roles, compiled to one trie of levels.

use crate::alarmed::{Alarmed, decisive};
use crate::pattern::{Level, level_name};
use crate::{Effect, Names, Rule, Verb, Verbs};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tieline_core::Filter;

const NONE: u32 = u32::MAX;

/// To how much of what a filter selects something may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of it: no topic has to be looked at.
    All,
    /// Some of it, perhaps: each topic is decided by itself.
    Some,
    /// Nothing.
    Nothing,
}

/// The rules of a set of roles. Immutable; shared by all sessions with these roles.
#[derive(Debug)]
pub struct Rules {
    nodes: Vec<Node>,
    rules: Vec<Rule>,
}

/// What the rules that end somewhere say.
#[derive(Clone, Copy, Debug, Default)]
struct Says {
    allow: Verbs,
    deny: Verbs,
}

/// What a walk has found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    says: Says,
    /// Whether a rule of the user's or the client's name was looked at: others may find something else.
    is_personal: bool,
}

#[derive(Debug)]
struct Node {
    /// Sorted by text.
    children: Vec<(Box<str>, u32)>,
    plus: u32,
    user: u32,
    client: u32,
    here: Says,
    below: Says,
}

impl Node {
    const EMPTY: Self = Self {
        children: Vec::new(),
        plus: NONE,
        user: NONE,
        client: NONE,
        here: Says { allow: Verbs::NONE, deny: Verbs::NONE },
        below: Says { allow: Verbs::NONE, deny: Verbs::NONE },
    };
}

impl Says {
    fn add(&mut self, rule: &Rule) {
        let verbs = match rule.effect {
            Effect::Allow => &mut self.allow,
            Effect::Deny => &mut self.deny,
        };
        *verbs = verbs.or(rule.verbs);
    }

    fn join(&mut self, other: Self) {
        self.allow = self.allow.or(other.allow);
        self.deny = self.deny.or(other.deny);
    }
}

impl Rules {
    /// Compiles rules; their order means nothing.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut compiled = Self { nodes: alloc::vec![Node::EMPTY], rules: Vec::new() };
        rules.iter().for_each(|rule| compiled.insert(rule));
        compiled.rules = rules;
        compiled
    }

    fn insert(&mut self, rule: &Rule) {
        let mut at = 0;
        for level in rule.pattern.levels() {
            if *level == Level::Hash {
                return self.node(at, |node| node.below.add(rule));
            }
            at = self.child(at, level);
        }
        self.node(at, |node| node.here.add(rule));
    }

    fn node(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            change(node);
        }
    }

    fn child(&mut self, at: u32, level: &Level) -> u32 {
        let new = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        let Some(node) = self.nodes.get_mut(at as usize) else { return NONE };
        let slot = match level {
            Level::Plus | Level::Hash => &mut node.plus,
            Level::User => &mut node.user,
            Level::Client => &mut node.client,
            Level::Literal(text) => match node.children.binary_search_by(|(known, _)| known.cmp(text)) {
                Ok(found) => &mut node.children[found].1,
                Err(place) => {
                    node.children.insert(place, (text.clone(), NONE));
                    &mut node.children[place].1
                }
            },
        };
        if *slot == NONE {
            *slot = new;
            self.nodes.push(Node::EMPTY);
            return new;
        }
        *slot
    }

    /// All that may be done to a topic. Each node of the trie is visited once at most.
    #[must_use]
    pub fn decide(&self, topic: &str, names: Names<'_>) -> Verbs {
        let Found { says, .. } = self.find(topic, names);
        says.allow.without(says.deny)
    }

    /// Whether a verb may be done to a topic by all who have these rules, or by none of them; None where that depends on their
    /// names.
    #[must_use]
    pub fn allows_all(&self, verb: Verb, topic: &str) -> Option<bool> {
        // No level is named as nobody is.
        let Found { says, is_personal } = self.find(topic, Names::default());
        (!is_personal).then(|| says.allow.without(says.deny).contains(verb))
    }

    fn find(&self, topic: &str, names: Names<'_>) -> Found {
        let (mut found, topic) = (Found::default(), decisive(topic));
        self.walk(0, Some(topic), topic.starts_with('$'), names, &mut found);
        found
    }

    /// Whether a verb may be done to a topic.
    #[must_use]
    pub fn allows(&self, verb: Verb, topic: &str, names: Names<'_>) -> bool {
        self.decide(topic, names).contains(verb)
    }

    /// Goes on at a node with the levels that are left; `hidden` keeps wildcards from a first level that begins with
    /// `$` (MQTT-4.7.2-1).
    fn walk(&self, at: u32, rest: Option<&str>, hidden: bool, names: Names<'_>, found: &mut Found) {
        let Some(node) = self.nodes.get(at as usize) else { return };
        if !hidden {
            found.says.join(node.below);
        }
        let Some(rest) = rest else { return found.says.join(node.here) };
        let (level, rest) = match rest.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (rest, None),
        };
        found.is_personal |= node.user != NONE || node.client != NONE;
        if let Ok(child) = node.children.binary_search_by(|(known, _)| (**known).cmp(level)) {
            self.walk(node.children[child].1, rest, false, names, found);
        }
        if node.plus != NONE && !hidden {
            self.walk(node.plus, rest, false, names, found);
        }
        if node.user != NONE && level_name(names.user) == Some(level) {
            self.walk(node.user, rest, false, names, found);
        }
        if node.client != NONE && level_name(names.client) == Some(level) {
            self.walk(node.client, rest, false, names, found);
        }
    }

    /// To how much of what a filter selects a verb may be done. `All` and `Nothing` are certain; `Some` may turn out to be all
    /// or nothing of the topics that there are.
    #[must_use]
    pub fn reach(&self, verb: Verb, filter: &Filter, names: Names<'_>) -> Reach {
        match Alarmed::of(filter) {
            Some(alarmed) => alarmed.reach(verb, &self.rules, |filter| self.reach_itself(verb, filter, names)),
            None => self.reach_itself(verb, filter, names),
        }
    }

    fn reach_itself(&self, verb: Verb, filter: &Filter, names: Names<'_>) -> Reach {
        let about = |effect| self.rules.iter().filter(move |r| r.effect == effect && r.verbs.contains(verb));
        let denies = |part: &Filter| about(Effect::Deny).any(|rule| rule.pattern.covers(part, names));
        let untouched = !about(Effect::Deny).any(|rule| rule.pattern.meets(filter, names));
        let allows = |rule: &Rule| match untouched {
            true => rule.pattern.meets(filter, names),
            false => rule.pattern.within(filter, names).is_some_and(|part| !denies(&part)),
        };
        if !about(Effect::Allow).any(allows) {
            return Reach::Nothing;
        }
        let whole = about(Effect::Allow).any(|rule| rule.pattern.covers(filter, names));
        if whole && untouched { Reach::All } else { Reach::Some }
    }

    /// Whether a rule about a verb names the user or the client, so that sessions with the same roles may differ.
    #[must_use]
    pub fn is_personal(&self, verb: Verb) -> bool {
        let named = |level: &Level| matches!(level, Level::User | Level::Client);
        let rules = self.rules.iter().filter(|rule| rule.verbs.contains(verb));
        rules.flat_map(|rule| rule.pattern.levels()).any(named)
    }

    /// The rules as they were given.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}
