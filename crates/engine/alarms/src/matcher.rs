//! Which rules are for a topic: a tree of the levels of their filters.

use crate::{Kind, Priority, Rule};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// The root of the tree.
const ROOT: u32 = 0;

/// Finds, for a topic, the rule of each kind whose filter is the most exact.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    levels: HashMap<Box<str>, u32>,
    plus: Option<u32>,
    /// Rules whose filter ends here.
    here: Vec<u32>,
    /// Rules whose filter goes on with `#`.
    below: Vec<u32>,
}

/// What was found: the numbers of rules with their kinds, one a kind.
type Found = Vec<(Kind, u32)>;

impl Matcher {
    pub(crate) fn new(rules: &[Arc<Rule>]) -> Self {
        let mut matcher = Self { nodes: alloc::vec![Node::default()] };
        for (number, rule) in (0..).zip(rules) {
            matcher.add(number, rule);
        }
        matcher
    }

    fn add(&mut self, number: u32, rule: &Rule) {
        let mut at = ROOT;
        for level in rule.filter.levels() {
            if level == "#" {
                self.nodes[at as usize].below.push(number);
                return;
            }
            let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            let node = &mut self.nodes[at as usize];
            at = match level {
                "+" => *node.plus.get_or_insert(next),
                _ => *node.levels.entry(level.into()).or_insert(next),
            };
            if at == next {
                self.nodes.push(Node::default());
            }
        }
        self.nodes[at as usize].here.push(number);
    }

    /// The rules for a topic, in the order in which its alarms are evaluated. Of two rules of one kind the more exact filter
    /// counts: level by level, a name before `+` before `#`.
    pub(crate) fn rules_of(&self, rules: &[Arc<Rule>], topic: &str) -> Found {
        let mut found = Found::new();
        self.find(rules, ROOT, Some(topic), topic.starts_with('$'), &mut found);
        found.retain(|(_, number)| rules.get(*number as usize).is_some_and(|rule| rule.priority != Priority::Off));
        found.sort_unstable();
        found
    }

    /// The depth is that of a filter, at most 128 levels.
    fn find(&self, rules: &[Arc<Rule>], at: u32, rest: Option<&str>, is_reserved: bool, found: &mut Found) {
        let Some(node) = self.nodes.get(at as usize) else { return };
        let Some(rest) = rest else {
            take(rules, &node.here, found);
            take(rules, &node.below, found);
            return;
        };
        let (level, behind) = rest.split_once('/').map_or((rest, None), |(level, behind)| (level, Some(behind)));
        if let Some(next) = node.levels.get(level) {
            self.find(rules, *next, behind, false, found);
        }
        if is_reserved {
            return;
        }
        if let Some(next) = node.plus {
            self.find(rules, next, behind, false, found);
        }
        take(rules, &node.below, found);
    }
}

/// Takes the rules of the kinds that were not found yet.
fn take(rules: &[Arc<Rule>], numbers: &[u32], found: &mut Found) {
    for number in numbers {
        let Some(rule) = rules.get(*number as usize) else { continue };
        if !found.iter().any(|(kind, _)| *kind == rule.kind) {
            found.push((rule.kind, *number));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Rules;
    use crate::matcher::Matcher;
    use alloc::string::String;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use tieline_core::Filter;

    fn rules(filters: &[&str]) -> Rules {
        let rows: String = filters.iter().map(|filter| alloc::format!("{filter}\n")).collect();
        Rules::parse(&alloc::format!("topic,kind,priority\n{rows}"), 100, false).unwrap()
    }

    #[test]
    fn the_more_exact_row_wins() {
        let rules =
            rules(&["#,bad,low", "a/+,bad,high", "a/b,bad,off", "+/b,away,low", "a/#,away,high", "$SYS/#,bad,low"]);
        let matcher = Matcher::new(&rules.0);
        let check = |topic: &str, expect: &[usize]| {
            let found: Vec<usize> = matcher.rules_of(&rules.0, topic).iter().map(|(_, n)| *n as usize).collect();
            assert_eq!(found, expect, "{topic}");
        };
        check("x", &[0]);
        check("a", &[4, 0]);
        check("a/c", &[4, 1]);
        check("a/b", &[4]);
        check("x/b", &[3, 0]);
        check("$SYS/x", &[5]);
        check("$SYS", &[5]);
        check("$x", &[]);
    }

    proptest! {
        /// Against every filter, asked one after another.
        #[test]
        fn all_that_match_are_found(
            filters in prop::collection::vec("([ab+]/){0,2}[ab+#]", 1..12),
            topic in "([ab]/){0,3}[ab]",
        ) {
            let rows: Vec<String> = filters.iter().map(|f| alloc::format!("{f},bad,low")).collect();
            let text = alloc::format!("topic,kind,priority\n{}", rows.join("\n"));
            let Ok(rules) = Rules::parse(&text, 100, false) else { return Ok(()) };
            let found = Matcher::new(&rules.0).rules_of(&rules.0, &topic);
            let matching: Vec<&Filter> = rules.iter().map(|rule| &rule.filter).filter(|f| f.matches(&topic)).collect();
            prop_assert_eq!(found.len(), usize::from(!matching.is_empty()));
            if let Some((_, number)) = found.first() {
                let rank = |filter: &Filter| -> Vec<u8> {
                    filter.levels().map(|level| match level { "+" => 1, "#" => 2, _ => 0 }).collect()
                };
                let best = matching.iter().map(|filter| rank(filter)).min();
                prop_assert_eq!(Some(rank(&rules.0[*number as usize].filter)), best);
            }
        }
    }
}
