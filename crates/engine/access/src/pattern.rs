//! Which topics a rule is about: an MQTT filter, in which a level may stand for the session's own name.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::{Filter, FilterError};

/// Who asks, for `{user}` and `{client}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names<'a> {
    /// The user that was authenticated.
    pub user: &'a str,
    /// The name that the client gave itself.
    pub client: &'a str,
}

/// One level of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Literal(Box<str>),
    Plus,
    Hash,
    User,
    Client,
}

/// A filter whose levels may be `{user}` and `{client}`.
///
/// A name takes the place of exactly one level. A name that is empty, begins with `$` or holds `/`, `+` or `#` takes the
/// place of none: a client that calls itself `+` gets nothing by it.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Filter,
    levels: Vec<Level>,
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It is no filter.
    Filter(FilterError),
    /// A level holds braces and is neither of the placeholders.
    Placeholder(Box<str>),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter(error) => error.fmt(f),
            Self::Placeholder(level) => write!(f, "the level {level:?} is neither {{user}} nor {{client}}"),
        }
    }
}

impl core::error::Error for PatternError {}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is no filter, or a level has braces that mean nothing.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let text = Filter::new(text).map_err(PatternError::Filter)?;
        let level = |level: &str| match level {
            "+" => Ok(Level::Plus),
            "#" => Ok(Level::Hash),
            "{user}" => Ok(Level::User),
            "{client}" => Ok(Level::Client),
            other if other.contains(['{', '}']) => Err(PatternError::Placeholder(other.into())),
            other => Ok(Level::Literal(other.into())),
        };
        let levels = text.levels().map(level).collect::<Result<_, _>>()?;
        Ok(Self { text, levels })
    }

    /// Whether it selects the topic.
    #[must_use]
    pub fn matches(&self, topic: &str, names: Names<'_>) -> bool {
        let mut found = topic.split('/');
        for (at, level) in self.levels.iter().enumerate() {
            let hidden = at == 0 && topic.starts_with('$');
            match (level, found.next()) {
                (Level::Hash, _) => return !hidden,
                (_, None) => return false,
                (Level::Plus, Some(_)) if hidden => return false,
                (Level::Plus, Some(_)) => {}
                (level, Some(text)) if level.name(names) == Some(text) => {}
                _ => return false,
            }
        }
        found.next().is_none()
    }

    /// Whether it selects every topic that the filter selects. It may say no of a pattern that does.
    #[must_use]
    pub fn covers(&self, filter: &Filter, names: Names<'_>) -> bool {
        let mut wanted = filter.levels();
        for (at, level) in self.levels.iter().enumerate() {
            let wanted = wanted.next();
            let hidden = at == 0 && wanted.is_some_and(|level| level.starts_with('$'));
            match (level, wanted) {
                (Level::Hash, _) => return !hidden,
                (_, None | Some("#")) => return false,
                (Level::Plus, Some(_)) if hidden => return false,
                (Level::Plus, Some(_)) => {}
                (_, Some("+")) => return false,
                (level, Some(text)) if level.name(names) == Some(text) => {}
                _ => return false,
            }
        }
        wanted.next().is_none()
    }

    /// Whether there is a topic that both select.
    #[must_use]
    pub fn meets(&self, filter: &Filter, names: Names<'_>) -> bool {
        if self.is_void(names) {
            return false;
        }
        let mut wanted = filter.levels();
        for (at, level) in self.levels.iter().enumerate() {
            let hides = |text: &str| at == 0 && text.starts_with('$');
            match (level, wanted.next()) {
                (Level::Hash, wanted) => return !wanted.is_some_and(hides),
                (Level::Plus, Some("#")) => return true,
                (level, Some("#")) => return !level.name(names).is_some_and(hides),
                (_, None) => return false,
                (Level::Plus, Some(text)) if hides(text) => return false,
                (Level::Plus, Some(_)) => {}
                (level, Some("+")) if level.name(names).is_some_and(hides) => return false,
                (_, Some("+")) => {}
                (level, Some(text)) if level.name(names) == Some(text) => {}
                _ => return false,
            }
        }
        // `a/#` selects `a` too (MQTT 5.0 section 4.7.1.2).
        matches!(wanted.next(), None | Some("#"))
    }

    /// The filter of what both select; none where there is no such topic.
    pub(crate) fn within(&self, filter: &Filter, names: Names<'_>) -> Option<Filter> {
        if !self.meets(filter, names) {
            return None;
        }
        let (mut levels, mut wanted) = (Vec::new(), filter.levels());
        // A `#` of the filter stands for all levels that follow.
        let mut is_open = false;
        for level in &self.levels {
            let asked = if is_open { Some("#") } else { wanted.next() };
            is_open = asked == Some("#");
            match (level, asked) {
                (Level::Hash, asked) => {
                    levels.extend(asked);
                    levels.extend(wanted.by_ref());
                }
                (Level::Plus, Some("#") | None) => levels.push("+"),
                (Level::Plus, Some(text)) => levels.push(text),
                (level, _) => levels.push(level.name(names)?),
            }
        }
        Filter::new(&levels.join("/")).ok()
    }

    fn is_void(&self, names: Names<'_>) -> bool {
        let open = |level: &Level| matches!(level, Level::Plus | Level::Hash);
        self.levels.iter().any(|level| !open(level) && level.name(names).is_none())
    }

    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Level {
    /// The one text that the level stands for.
    fn name<'a>(&'a self, names: Names<'a>) -> Option<&'a str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::User => level_name(names.user),
            Self::Client => level_name(names.client),
            Self::Plus | Self::Hash => None,
        }
    }
}

/// A name that may take the place of a level.
pub(crate) fn level_name(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty() && !name.starts_with('$') && !name.contains(['/', '+', '#']))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
