//! Names in the tree, and filters that select them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;

/// The longest topic in bytes, as MQTT has it.
const TOPIC_BYTES_MAX: usize = 65_535;
/// The most levels of a topic or filter: a bound on the depth of the tree and on the work of a match.
const LEVELS_MAX: usize = 128;

/// The path of a topic: levels separated by `/`, without wildcards. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// Why a text is not a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicError {
    /// No bytes.
    Empty,
    /// More bytes than the protocol carries.
    TooLong,
    /// More levels than this node takes.
    TooDeep,
    /// `+` or `#` in a name.
    Wildcard,
    /// U+0000, which no MQTT string may hold.
    Null,
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a topic is empty, expected at least one character"),
            Self::TooLong => write!(f, "a topic is longer than {TOPIC_BYTES_MAX} bytes"),
            Self::TooDeep => write!(f, "a topic has more than {LEVELS_MAX} levels"),
            Self::Wildcard => f.write_str("a topic holds + or #, expected a name without wildcards"),
            Self::Null => f.write_str("a topic holds the character U+0000"),
        }
    }
}

impl core::error::Error for TopicError {}

impl Topic {
    /// Checks and shares a name.
    ///
    /// # Errors
    /// The text is not a topic name by MQTT 5.0 section 4.7.3, or has more than 128 levels.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        if has(text, |b| matches!(b, b'+' | b'#')) {
            return Err(TopicError::Wildcard);
        }
        check(text)?;
        Ok(Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are clones of one another: equal, without a look at the names.
    #[must_use]
    pub fn is_same_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The same topic, in memory of its own: threads that clone and drop one allocation at the same time wait for each other.
    #[must_use]
    pub fn unshared(&self) -> Self {
        Self((&*self.0).into())
    }

    /// The levels, first to last.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The topic one or more levels below this one.
    ///
    /// # Errors
    /// The joined text is not a topic.
    pub fn join(&self, below: &str) -> Result<Self, TopicError> {
        let mut text = String::with_capacity(self.0.len() + 1 + below.len());
        text.push_str(&self.0);
        text.push('/');
        text.push_str(below);
        Self::new(&text)
    }
}

impl Deref for Topic {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for Topic {
    type Err = TopicError;
    fn from_str(text: &str) -> Result<Self, TopicError> {
        Self::new(text)
    }
}

fn check(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > TOPIC_BYTES_MAX {
        return Err(TopicError::TooLong);
    }
    if has(text, |b| b == 0) {
        return Err(TopicError::Null);
    }
    // Sums of bytes at a time: a topic may be 65,535 of them, and levels be as many.
    let ends = text.as_bytes().chunks(255).map(|chunk| chunk.iter().map(|b| u8::from(*b == b'/')).sum::<u8>());
    if ends.map(usize::from).sum::<usize>() >= LEVELS_MAX {
        return Err(TopicError::TooDeep);
    }
    Ok(())
}

/// Whether a byte of the text is such a one. All are looked at, many at a time.
fn has(text: &str, such: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(false, |found, b| found | such(b))
}

/// A filter: `+` stands for one level, `#` at the end for all that follow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter(Arc<str>);

/// Why a text is not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// Wrong as any topic would be.
    Topic(TopicError),
    /// `#` stands before the end, or shares its level.
    Hash,
    /// `+` shares its level.
    Plus,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(e) => e.fmt(f),
            Self::Hash => f.write_str("# must be the whole last level of a filter, as in site/#"),
            Self::Plus => f.write_str("+ must be a whole level of a filter, as in site/+/state"),
        }
    }
}

impl core::error::Error for FilterError {}

impl Filter {
    /// Checks and shares a filter.
    ///
    /// # Errors
    /// The text is not a topic filter by MQTT 5.0 section 4.7, or has more than 128 levels.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        check(text).map_err(FilterError::Topic)?;
        let mut levels = text.split('/');
        while let Some(level) = levels.next() {
            if level.contains('#') && (level != "#" || levels.next().is_some()) {
                return Err(FilterError::Hash);
            }
            if level.contains('+') && level != "+" {
                return Err(FilterError::Plus);
            }
        }
        Ok(Self(text.into()))
    }

    /// The filter's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels, first to last.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether the filter selects the topic. A wildcard in the first level selects no topic that begins with `$`
    /// (MQTT-4.7.2-1).
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        if topic.starts_with('$') && matches!(self.0.as_bytes().first(), Some(b'+' | b'#')) {
            return false;
        }
        if &*self.0 == "#" {
            return true;
        }
        let (mut wanted, mut found) = (self.0.split('/'), topic.split('/'));
        loop {
            match (wanted.next(), found.next()) {
                (Some("#"), _) | (None, None) => return true,
                (Some("+"), Some(_)) => {}
                (Some(a), Some(b)) if a == b => {}
                (Some(_) | None, Some(_)) | (Some(_), None) => return false,
            }
        }
    }

    /// The same for what is about topics of all kinds: `#` alone selects those that begin with `$`, too.
    #[must_use]
    pub fn matches_all_or(&self, topic: &str) -> bool {
        self.as_str() == "#" || self.matches(topic)
    }

    /// Whether the filter selects every topic that the other one selects.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self.hides(other) {
            return false;
        }
        let (mut outer, mut inner) = (self.levels(), other.levels());
        loop {
            match (outer.next(), inner.next()) {
                (Some("#"), _) | (None, None) => return true,
                (Some("+"), Some(level)) if level != "#" => {}
                (Some(a), Some(b)) if a == b => {}
                (Some(_) | None, Some(_)) | (Some(_), None) => return false,
            }
        }
    }

    /// The filter of exactly the topics that both select; none where there are none.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<Self> {
        if self.hides(other) || other.hides(self) {
            return None;
        }
        let (mut ours, mut theirs) = (self.levels(), other.levels());
        let mut levels: Vec<&str> = Vec::new();
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => break,
                // `a/#` also selects `a`.
                (Some("#"), None) | (None, Some("#")) => break,
                (Some("#"), Some(level)) => {
                    levels.push(level);
                    levels.extend(theirs);
                    break;
                }
                (Some(level), Some("#")) => {
                    levels.push(level);
                    levels.extend(ours);
                    break;
                }
                (Some("+"), Some(level)) | (Some(level), Some("+")) => levels.push(level),
                (Some(a), Some(b)) if a == b => levels.push(a),
                (Some(_) | None, Some(_)) | (Some(_), None) => return None,
            }
        }
        Self::new(&levels.join("/")).ok()
    }

    /// Whether this filter begins with a wildcard, and the other one with `$`, which no wildcard selects (MQTT-4.7.2-1).
    fn hides(&self, other: &Self) -> bool {
        matches!(self.0.as_bytes().first(), Some(b'+' | b'#')) && other.0.starts_with('$')
    }
}

impl Deref for Filter {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for Filter {
    type Err = FilterError;
    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_match(filter: &str, topic: &str, expect: bool) {
        assert_eq!(Filter::new(filter).unwrap().matches(topic), expect, "{filter} on {topic}");
    }

    #[test]
    fn filters_select_as_mqtt_says() {
        // MQTT 5.0 sections 4.7.1.2 and 4.7.1.3.
        check_match("sport/tennis/player1/#", "sport/tennis/player1", true);
        check_match("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true);
        check_match("sport/#", "sports", false);
        check_match("sport/tennis/+", "sport/tennis/player1", true);
        check_match("sport/tennis/+", "sport/tennis/player1/ranking", false);
        check_match("sport/+", "sport", false);
        check_match("sport/+", "sport/", true);
        check_match("+/+", "/finance", true);
        check_match("/+", "/finance", true);
        check_match("+", "/finance", false);
        check_match("#", "a/b", true);
        check_match("#", "$SYS/a", false);
        check_match("+/a", "$SYS/a", false);
        check_match("$SYS/#", "$SYS/a", true);
        check_match("a/b", "a", false);
    }

    #[test]
    fn a_filter_covers_what_selects_no_more_than_it() {
        let check = |outer: &str, inner: &str, expect: bool| {
            let covers = Filter::new(outer).unwrap().covers(&Filter::new(inner).unwrap());
            assert_eq!(covers, expect, "{outer} {inner}");
        };
        for same in ["a", "a/+", "a/#", "#", "+", "$SYS/#"] {
            check(same, same, true);
        }
        check("#", "a/+/c", true);
        check("a/#", "a", true);
        check("a/#", "a/b/#", true);
        check("a/+", "a/b", true);
        check("+/b", "a/b", true);
        check("a/b/#", "a/#", false);
        check("a/+", "a/#", false);
        check("a/b", "a/+", false);
        check("a/+/#", "a/#", false);
        check("#", "$SYS/a", false);
        check("+/a", "$SYS/a", false);
    }

    #[test]
    fn what_two_filters_have_in_common_is_a_filter() {
        let check = |a: &str, b: &str, expect: Option<&str>| {
            let (one, other) = (Filter::new(a).unwrap(), Filter::new(b).unwrap());
            for found in [one.common(&other), other.common(&one)] {
                assert_eq!(found.as_deref(), expect, "{a} {b}");
            }
        };
        check("#", "a/+/c", Some("a/+/c"));
        check("a/+", "+/b", Some("a/b"));
        check("a/#", "+/b/#", Some("a/b/#"));
        check("a/#", "a", Some("a"));
        check("a/#", "+", Some("a"));
        check("a/+/#", "a/#", Some("a/+/#"));
        check("a/b", "a/c", None);
        check("a", "a/b", None);
        check("a/+", "a", None);
        check("#", "$SYS/#", None);
        check("$SYS/#", "$SYS/a", Some("$SYS/a"));
    }

    #[test]
    fn wrong_names_are_refused() {
        assert_eq!(Topic::new(""), Err(TopicError::Empty));
        assert_eq!(Topic::new("a/+"), Err(TopicError::Wildcard));
        assert_eq!(Topic::new("a\0"), Err(TopicError::Null));
        assert_eq!(Topic::new(&"/".repeat(128)), Err(TopicError::TooDeep));
        assert_eq!(Topic::new(&"a".repeat(65_536)), Err(TopicError::TooLong));
        assert_eq!(Filter::new("a/#/b"), Err(FilterError::Hash));
        assert_eq!(Filter::new("a#"), Err(FilterError::Hash));
        assert_eq!(Filter::new("a+/b"), Err(FilterError::Plus));
        assert_eq!(Filter::new(""), Err(FilterError::Topic(TopicError::Empty)));
    }
}
