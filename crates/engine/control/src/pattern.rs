//! Patterns that select devices and points by topic.

use crate::point::cut;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use tieline_core::Filter;

/// The longest pattern in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// An MQTT topic filter where the text has `+` or `#`, as `site/+/hvac` or `site/#`; else a glob as VOLTTRON's override
/// patterns are, in which `*` stands for any characters, `/` included, `?` for one, `[abc]`, `[a-z]` and `[!abc]` for one
/// of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    text: Box<str>,
    filter: Option<Filter>,
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PatternError {}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
            let found = text.len();
            return Err(PatternError(format!("a pattern has {found} bytes, expected 1 to {PATTERN_BYTES_MAX}")));
        }
        let is_filter = text.contains(['+', '#']);
        let filter = is_filter.then(|| Filter::new(text)).transpose();
        let filter = filter.map_err(|error| PatternError(format!("the pattern {:?}: {error}", cut(text))))?;
        Ok(Self { text: text.into(), filter })
    }
}

impl Pattern {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it selects a topic.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        match &self.filter {
            Some(filter) => filter.matches(topic),
            None => glob(&self.text, topic),
        }
    }
}

/// Whether a glob matches all of a text. A `*` that turns out wrong takes one more character: the work is bounded by the
/// product of both lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            (star, pattern) = (Some((rest, text)), rest);
            continue;
        }
        let mut chars = text.chars();
        let step = match chars.next() {
            None if pattern.is_empty() => return true,
            None => return false,
            Some(c) => one(pattern, c),
        };
        if let Some(rest) = step {
            (pattern, text) = (rest, chars.as_str());
            continue;
        }
        let Some((after, from)) = star else { return false };
        let mut skipped = from.chars();
        if skipped.next().is_none() {
            return false;
        }
        (star, pattern, text) = (Some((after, skipped.as_str())), after, skipped.as_str());
    }
}

/// What is left of a pattern whose first element matches a character.
fn one(pattern: &str, c: char) -> Option<&str> {
    let mut rest = pattern.chars();
    match rest.next()? {
        '?' => Some(rest.as_str()),
        '[' => match set(rest.as_str(), c) {
            Some((is_in, rest)) => is_in.then_some(rest),
            // Without its end it is a character like any other.
            None => (c == '[').then_some(rest.as_str()),
        },
        other => (other == c).then_some(rest.as_str()),
    }
}

/// Whether a character is in the set that a text begins with, and what follows the set.
fn set(text: &str, c: char) -> Option<(bool, &str)> {
    let negated = text.strip_prefix('!');
    let members = negated.unwrap_or(text);
    // A `]` at the beginning is a member.
    let first = members.chars().next()?.len_utf8();
    let end = members.get(first..)?.find(']')? + first;
    let (members, rest) = (members.get(..end)?, members.get(end + 1..)?);
    let (mut is_in, mut chars) = (false, members.chars());
    while let Some(low) = chars.next() {
        let mut ahead = chars.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                is_in |= (low..=high).contains(&c);
                chars = ahead;
            }
            _ => is_in |= low == c,
        }
    }
    Some((is_in != negated.is_some(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn patterns_select_topics() {
        let check = |pattern: &str, topic: &str, expect: bool| {
            assert_eq!(pattern.parse::<Pattern>().unwrap().matches(topic), expect, "{pattern} on {topic}");
        };
        for (pattern, topic, expect) in [
            ("campus/building1/*", "campus/building1/unit/7", true),
            ("campus/building1/*", "campus/building2/unit", false),
            ("*", "a", true),
            ("*unit*7", "campus/unit/17", true),
            ("*unit*7", "campus/unit/178", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a[b-d]e", "ace", true),
            ("a[!b-d]e", "ace", false),
            ("a[!b-d]e", "aze", true),
            ("a[]]e", "a]e", true),
            ("a[b", "a[b", true),
            ("a[b", "ab", false),
            ("äöü*", "äöüß", true),
            ("campus/+/unit", "campus/b/unit", true),
            ("campus/+/unit", "campus/b/unit/p", false),
            ("campus/#", "campus", true),
            ("", "", false),
        ] {
            if pattern.is_empty() {
                let error = pattern.parse::<Pattern>().unwrap_err().to_string();
                assert_eq!(error, "a pattern has 0 bytes, expected 1 to 1024");
            } else {
                check(pattern, topic, expect);
            }
        }
        let error = "a/#/b".parse::<Pattern>().unwrap_err().to_string();
        assert_eq!(error, "the pattern \"a/#/b\": # must be the whole last level of a filter, as in site/#");
    }

    /// A pattern of many stars is no more work than the product of the lengths.
    #[test]
    fn a_hostile_pattern_ends() {
        let pattern: Pattern = "*a".repeat(500).parse().unwrap();
        assert!(!pattern.matches(&("a".repeat(20_000) + "b")));
    }
}
