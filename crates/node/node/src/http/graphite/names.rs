//! Topics as names of metrics, and patterns of such names.
//!
//! A level of a topic is a part of a name, and parts are joined by `.`. A character that a part cannot have, as `.` or
//! `*`, is written as its bytes, `%2E`; a level without characters is `%00`.

use std::fmt::Write as _;
use tieline_core::{Filter, Topic};

/// Bytes of a pattern at most.
const PATTERN_BYTES_MAX: usize = 4096;
/// Patterns that the braces of one stand for, at most.
const ALTERNATIVES_MAX: usize = 64;
/// A part for a level without characters.
const EMPTY: &str = "%00";
/// What makes a part select several names.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// The name of a topic.
pub fn name_of(topic: &str) -> String {
    topic.split('/').map(part_of).collect::<Vec<_>>().join(".")
}

fn part_of(level: &str) -> String {
    let mut part = String::with_capacity(level.len());
    for c in level.chars() {
        if c.is_alphanumeric() || matches!(c, '-' | '_' | ':') {
            part.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(part, "%{byte:02X}");
            }
        }
    }
    if part.is_empty() { EMPTY.to_owned() } else { part }
}

/// The level that a part stands for; none where it is no part of a name.
fn level_of(part: &str) -> Option<String> {
    if part == EMPTY {
        return Some(String::new());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hexadecimal(rest.next()?)? * 16 + hexadecimal(rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok().filter(|level| !level.is_empty())
}

fn hexadecimal(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

/// A pattern of names: `*` any characters of a part, `?` one, `[a-z]` one of these, `{a,b}` one of these texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// Without braces, each part by part.
    alternatives: Vec<Vec<String>>,
}

impl Pattern {
    /// Reads one.
    ///
    /// # Errors
    /// It is none; in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
            return Err(format!("has {} bytes, expected 1 to {PATTERN_BYTES_MAX}", text.len()));
        }
        if text.contains(['(', ')', '\'', '"']) {
            return Err(format!("is {text:?}, expected a name or a pattern in the place of a function"));
        }
        let mut alternatives = Vec::new();
        expand(text, &mut alternatives)?;
        let alternatives: Vec<Vec<String>> =
            alternatives.iter().map(|text| text.split('.').map(str::to_owned).collect()).collect();
        if alternatives.iter().flatten().any(String::is_empty) {
            return Err(format!("is {text:?}, expected parts with characters, joined by \".\""));
        }
        Ok(Self { text: text.to_owned(), alternatives })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Filters that select all topics whose names it selects, and others; `below` those with more levels, too.
    pub fn filters(&self, below: bool) -> Vec<Filter> {
        let level = |part: &String| match part.contains(SPECIAL) {
            true => Some("+".to_owned()),
            // A wildcard of MQTT is no level of a topic.
            false => level_of(part).filter(|level| !level.contains(['+', '#', '/'])),
        };
        let mut filters: Vec<Filter> = Vec::new();
        for parts in &self.alternatives {
            let Some(levels) = parts.iter().map(level).collect::<Option<Vec<_>>>() else { continue };
            let text = levels.join("/") + if below { "/#" } else { "" };
            filters.extend(Filter::new(&text).ok().filter(|filter| !filters.contains(filter)));
        }
        filters
    }

    /// Whether it selects the name of a topic.
    pub fn selects(&self, topic: &Topic) -> bool {
        let parts: Vec<String> = topic.split('/').map(part_of).collect();
        self.alternatives.iter().any(|pattern| pattern.len() == parts.len() && fit(pattern, &parts))
    }

    /// The first parts of the name of a topic, as many as the pattern has, where it selects them; and whether there are more.
    pub fn node(&self, topic: &Topic) -> Option<(String, bool)> {
        let parts: Vec<String> = topic.split('/').map(part_of).collect();
        self.alternatives.iter().find_map(|pattern| {
            let first = parts.get(..pattern.len()).filter(|first| fit(pattern, first))?;
            Some((first.join("."), parts.len() > pattern.len()))
        })
    }
}

fn fit(pattern: &[String], parts: &[String]) -> bool {
    pattern.iter().zip(parts).all(|(pattern, part)| {
        let (pattern, part): (Vec<char>, Vec<char>) = (pattern.chars().collect(), part.chars().collect());
        fits(&pattern, &part)
    })
}

/// Expands the first braces, and those behind them.
fn expand(text: &str, into: &mut Vec<String>) -> Result<(), String> {
    let braces = text.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some((before, inside, after))
    });
    let Some((before, inside, after)) = braces else {
        if text.contains(['{', '}']) {
            return Err(format!("is {text:?}, expected a }} for each {{"));
        }
        if into.len() >= ALTERNATIVES_MAX {
            return Err(format!("has braces for more than {ALTERNATIVES_MAX} patterns"));
        }
        into.push(text.to_owned());
        return Ok(());
    };
    inside.split(',').try_for_each(|one| expand(&format!("{before}{one}{after}"), into))
}

/// Whether a pattern without braces selects a part. What a `*` took is tried again once only: the work is at most the product of
/// both lengths.
fn fits(pattern: &[char], part: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(p), part.get(t)) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            (Some(_), Some(c)) => {
                if let Some(next) = one(pattern, p, *c) {
                    (p, t) = (next, t + 1);
                    continue;
                }
            }
            (None, Some(_)) | (Some(_), None) => {}
        }
        let Some((behind, from)) = star.filter(|(_, from)| *from < part.len()) else { return false };
        star = Some((behind, from + 1));
        (p, t) = (behind, from + 1);
    }
}

/// Where the pattern goes on if what is at `p` selects a character.
fn one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => {
            let end = pattern.iter().skip(p + 1).position(|c| *c == ']').map(|at| p + 1 + at)?;
            let class = pattern.get(p + 1..end)?;
            let mut at = 0;
            while let Some(low) = class.get(at) {
                let (high, next) = match (class.get(at + 1), class.get(at + 2)) {
                    (Some('-'), Some(high)) => (high, at + 3),
                    _ => (low, at + 1),
                };
                if (*low..=*high).contains(&c) {
                    return Some(end + 1);
                }
                at = next;
            }
            None
        }
        literal => (*literal == c).then_some(p + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn topic(text: &str) -> Topic {
        Topic::new(text).unwrap()
    }

    #[test]
    fn topics_have_names() {
        let check = |topic: &str, name: &str| assert_eq!(name_of(topic), name);
        check("site/relay-1/current", "site.relay-1.current");
        check("a.b/c d", "a%2Eb.c%20d");
        check("/a//", "%00.a.%00.%00");
        check("$SYS/x#*", "%24SYS.x%23%2A");
        check("Zürich/50%/°C", "Zürich.50%25.%C2%B0C");
    }

    #[test]
    fn patterns_select_names() {
        let check = |pattern: &str, name: &str, expect: bool| {
            assert_eq!(Pattern::parse(pattern).unwrap().selects(&topic(name)), expect, "{pattern} {name}");
        };
        check("site.relay1.current", "site/relay1/current", true);
        check("site.*.current", "site/relay1/current", true);
        check("site.*.current", "site/current", false);
        check("site.*", "site/relay1/current", false);
        check("site.rel*1.c?rrent", "site/relay1/current", true);
        check("site.relay[1-3x].a", "site/relay2/a", true);
        check("site.relay[1-3x].a", "site/relayx/a", true);
        check("site.relay[1-3x].a", "site/relay4/a", false);
        check("site.{relay,meter}*.a", "site/meter7/a", true);
        check("{a,b.c}.{d,e}", "b/c/e", true);
        check("a%2Eb.*", "a.b/c", true);
        check("a.b.*", "a.b/c", false);
        check("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaac", false);
        check("a[", "a[", false);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let many = "{0,1,2,3,4,5,6,7,8}.{0,1,2,3,4,5,6,7,8}";
        for text in ["", "a..b", ".a", "a.", "{a", "a}", "a(b)", "a.'b'", many, &"a".repeat(5000)] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nodes_are_as_deep_as_their_pattern() {
        let pattern = Pattern::parse("site.*").unwrap();
        let node = |name: &str| pattern.node(&topic(name));
        assert_eq!(node("site/a/b/c"), Some(("site.a".to_owned(), true)));
        assert_eq!(node("site/a"), Some(("site.a".to_owned(), false)));
        assert_eq!(node("site"), None);
        assert_eq!(node("other/a"), None);
    }

    proptest! {
        #[test]
        fn the_name_of_a_topic_selects_it_alone(name in "[a-c.*%/{}\\[\\]?°+#$ ]{1,12}", other in "[a-c./%]{1,12}") {
            let (Ok(first), Ok(other)) = (Topic::new(&name), Topic::new(&other)) else { return Ok(()) };
            let pattern = Pattern::parse(&name_of(&first)).unwrap();
            prop_assert!(pattern.selects(&first));
            prop_assert_eq!(pattern.selects(&other), first == other);
            let filters = pattern.filters(false);
            prop_assert!(filters.len() == 1 && filters.iter().all(|filter| filter.matches(&first)));
        }

        #[test]
        fn any_text_is_a_pattern_or_none(text in "[ab.*?{},\\[\\]%0-9-]{0,40}", name in "[ab/0-9]{1,20}") {
            let Ok(pattern) = Pattern::parse(&text) else { return Ok(()) };
            let topic = topic(&name);
            if pattern.selects(&topic) {
                prop_assert!(pattern.filters(false).iter().any(|filter| filter.matches(&topic)));
                prop_assert!(pattern.node(&topic).is_some());
            }
        }
    }
}
