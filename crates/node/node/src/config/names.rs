//! `[names]`: patterns for the topics of devices and the names of points, so that a site's rules for names hold in every file.
//!
//! ```toml
//! [names]
//! topics = '[A-Z]{3}/[a-z]+\d{2}'      # of devices
//! points = '[a-z][a-z0-9_/]*'
//! ```

use super::reader::{Document, Section};
use tieline_topics::{Selector, SelectorError};
use toml::de::DeValue;

/// A regular expression that a whole name must match.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    whole: Selector,
}

impl Pattern {
    fn new(text: &str) -> Result<Self, SelectorError> {
        // Alone, it must be an expression too: `a)|(b` is none.
        Selector::new(text)?;
        Ok(Self { text: text.to_owned(), whole: Selector::new(&format!("^(?:{text})$"))? })
    }

    /// Whether it is the pattern of this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.whole.matches(name)
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// What names must match; none: any name that can be a topic.
#[derive(Debug, Default)]
pub struct NamePatterns {
    /// Topics of devices.
    pub topics: Option<Pattern>,
    /// Names of points in the lists.
    pub points: Option<Pattern>,
}

impl NamePatterns {
    /// Reads `[names]`.
    pub fn read(mut s: Section<'_>, doc: &mut Document<'_>) -> Self {
        let patterns =
            Self { topics: s.optional(doc, "topics", parse_pattern), points: s.optional(doc, "points", parse_pattern) };
        s.finish(doc);
        patterns
    }
}

fn parse_pattern(value: &DeValue<'_>) -> Result<Pattern, String> {
    let text = value.as_str().ok_or_else(|| "a regular expression in quotes".to_owned())?;
    Pattern::new(text).map_err(|error| format!("a regular expression: {error}"))
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigError, from_text};

    const LIST: &str = "name,type,index\nspeed,input-register,1\nZone Temp,input-register,2\nfan/on,coil,1\n";

    /// What is wrong with a device of this topic below these patterns.
    fn check(names: &str, topic: &str, expect: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("p.csv");
        std::fs::write(&list, LIST).unwrap();
        let device = "protocol = 'modbus'\naddress = 'h:1'\npoints = 'p.csv'";
        let text = format!("{names}\n[device.d]\ntopic = '{topic}'\n{device}\n[device.e]\ntopic = 'x/e'\n{device}\n");
        let found = match from_text("t.toml", &text, folder.path()) {
            Ok(_) => Vec::new(),
            Err(ConfigError(all)) => all.iter().map(ToString::to_string).collect(),
        };
        let list = list.display().to_string();
        let expect: Vec<String> = expect.iter().map(|line| line.replace("p.csv", &list)).collect();
        assert_eq!(found, expect, "{names}");
    }

    #[test]
    fn names_match_their_patterns_whole() {
        check("", "any where", &[]);
        check("names.topics = '[a-z]/[a-z]+'", "x/d", &[]);
        let expected = "expected a topic that matches names.topics, [a-z]/[a-z]";
        check(
            "names.topics = '[a-z]/[a-z]'",
            "a/dd",
            &[&format!("t.toml:3:9: device.d.topic: found \"a/dd\", {expected}")],
        );
        // Alternatives are whole names, too.
        check(
            "names.topics = 'x/e|a'",
            "a/b",
            &["t.toml:3:9: device.d.topic: found \"a/b\", expected a topic that matches names.topics, x/e|a"],
        );
        // A list that two devices have is told once.
        check(
            "names.points = '[a-z/]+'",
            "x/d",
            &["p.csv:3:1: name: found \"Zone Temp\", expected a name that matches names.points, [a-z/]+"],
        );
    }

    #[test]
    fn a_wrong_pattern_is_told() {
        let found =
            from_text("t.toml", "[names]\npoints = '[a-'\n", std::path::Path::new(".")).unwrap_err().to_string();
        assert!(
            found.starts_with("t.toml:2:10: names.points: found \"[a-\", expected a regular expression: "),
            "{found}"
        );
        check(
            "names.tags = 'x'",
            "x/d",
            &["t.toml:1:7: names.tags: found the unknown key \"tags\", expected one of topics, points"],
        );
    }
}
