//! One row of the rules: which topics, which kind, and when.

use crate::{Kind, Priority};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;
use tieline_core::{Filter, Topic, Value};

/// A row of the rules. One whose filter has wildcards is a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The topics it is for.
    pub filter: Filter,
    /// What it watches.
    pub kind: Kind,
    /// The limit, of the type that the kind needs.
    pub limit: Limit,
    /// How far the value must be back inside the limit before the alarm returns.
    pub hysteresis: f64,
    /// The topic whose value a `deviation` is measured from.
    pub reference: Option<TopicPattern>,
    /// How long the condition must last before the alarm is active.
    pub on_delay: Duration,
    /// How long the condition must be gone before the alarm returns.
    pub off_delay: Duration,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether it stays until a person resets it.
    pub is_latching: bool,
    /// A name that several rows share.
    pub group: Box<str>,
    /// While this holds, the alarm is suppressed.
    pub suppress_when: Option<Suppression>,
    /// What is shown of it.
    pub text: Box<str>,
    /// Why it may come: for the operator, as are the next three.
    pub cause: Box<str>,
    /// What follows when nobody acts.
    pub consequence: Box<str>,
    /// What to do.
    pub action: Box<str>,
    /// In which time.
    pub respond_in: Option<Duration>,
    /// The line of the file.
    pub line: u32,
    /// Whether it is one of the node's own, and of no file.
    pub is_built_in: bool,
}

/// A limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// The kind needs none.
    None,
    /// A number in engineering units; of `rate`: in a second.
    Number(f64),
    /// The value of `state`.
    Is(Value),
    /// The time of `stale`.
    Within(Duration),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Number(number) => number.fmt(f),
            Self::Is(Value::Bool(state)) => state.fmt(f),
            Self::Is(Value::Int(number)) => number.fmt(f),
            Self::Is(Value::Float(number)) => number.fmt(f),
            Self::Is(Value::Text(text)) => f.write_str(text),
            Self::Is(Value::Null | Value::Bytes(_)) => Ok(()),
            Self::Within(time) => write!(f, "{}ms", time.as_millis()),
        }
    }
}

/// A topic and the value that suppresses an alarm.
#[derive(Clone, Debug, PartialEq)]
pub struct Suppression {
    /// Whose value.
    pub topic: TopicPattern,
    /// Which value.
    pub value: Value,
}

/// The name of another topic, with what the wildcards of the rule's filter have selected: `site/{1}/maintenance`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPattern(Box<str>);

impl TopicPattern {
    /// Reads a pattern for topics that a filter selects. `{n}` is what its wildcard number n has selected, from 1.
    #[must_use]
    pub fn new(text: &str, filter: &Filter) -> Option<Self> {
        let wildcards = filter.levels().filter(|level| matches!(*level, "+" | "#")).count();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (number, after) = after.split_once('}')?;
            let number: usize = number.parse().ok()?;
            if before.contains('}') || !(1..=wildcards).contains(&number) {
                return None;
            }
            rest = after;
        }
        let is_topic = !rest.contains('}') && Topic::new(text).is_ok() && text.len() <= 1024;
        is_topic.then(|| Self(text.into()))
    }

    /// The name that goes with a topic of the filter; none where it is not a topic.
    #[must_use]
    pub fn resolve(&self, filter: &Filter, topic: &str) -> Option<Topic> {
        let mut out = String::with_capacity(self.0.len() + topic.len());
        let mut rest = &*self.0;
        while let Some((before, after)) = rest.split_once('{') {
            let (number, after) = after.split_once('}')?;
            out.push_str(before);
            out.push_str(selected(filter, topic, number.parse().ok()?)?);
            rest = after;
        }
        out.push_str(rest);
        Topic::new(&out).ok()
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the wildcard of a number, from 1, has selected of a topic.
fn selected<'a>(filter: &Filter, topic: &'a str, number: usize) -> Option<&'a str> {
    let (mut rest, mut count) = (topic, 0);
    for level in filter.levels() {
        let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
        count += usize::from(matches!(level, "+" | "#"));
        if count == number {
            return Some(if level == "#" { rest } else { first });
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_what_wildcards_have_selected() {
        let check = |filter: &str, pattern: &str, topic: &str, expect: Option<&str>| {
            let filter = Filter::new(filter).unwrap();
            let found = TopicPattern::new(pattern, &filter).and_then(|pattern| pattern.resolve(&filter, topic));
            assert_eq!(found.as_deref(), expect, "{pattern} of {topic}");
        };
        check("site/+/relay/+", "site/{1}/state/{2}", "site/a/relay/b", Some("site/a/state/b"));
        check("site/+/#", "{2}/{1}", "site/a/b/c", Some("b/c/a"));
        check("site/a", "site/maintenance", "site/a", Some("site/maintenance"));
        check("site/+", "site/{2}", "site/a", None);
        check("site/+", "site/{0}", "site/a", None);
        check("site/+", "site/{1", "site/a", None);
        check("site/+", "site/}{1}", "site/a", None);
        check("site/+", "site/{x}", "site/a", None);
        check("site/+", "site/+/{1}", "site/a", None);
        check("site/#", "{1}", "site", None);
    }
}
