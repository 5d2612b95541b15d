//! The name of a derived topic, with what it takes from its source: `by-kind/{2}/{1}/{/meta/unit}`.

use crate::select::scalar;
use crate::{Pointer, SelectError};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde_json::Value;
use tieline_core::{Filter, Topic};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    /// What the wildcard of this number has selected, from 0; several levels where it is `#`.
    Wildcard {
        number: usize,
        several: bool,
    },
    /// The whole source.
    Topic,
    /// The name or number of an expanded item.
    Key,
    /// A scalar of the value.
    Place(Pointer),
}

/// The name of a derived topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A brace has no partner.
    Brace,
    /// What stands in braces means nothing.
    Unknown(Box<str>),
    /// There is no wildcard of this number.
    Wildcard {
        /// The number, from 1.
        number: usize,
        /// How many there are.
        there_are: usize,
    },
    /// `{key}` without anything expanded.
    Key,
    /// A place that is none.
    Place(SelectError),
    /// The topic would begin with `$`, or hold a wildcard, or nothing.
    Topic,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brace => f.write_str("a brace has no partner"),
            Self::Unknown(text) => {
                write!(f, "{{{text}}} means nothing, expected {{1}}, {{2}}, …, {{topic}}, {{key}} or {{/place}}")
            }
            Self::Wildcard { number, there_are } => {
                write!(f, "{{{number}}} is the wildcard number {number}, and the filter has {there_are}")
            }
            Self::Key => f.write_str("{key} needs expand"),
            Self::Place(error) => error.fmt(f),
            Self::Topic => f.write_str("a topic is not empty, begins otherwise than with $, and holds neither + nor #"),
        }
    }
}

impl core::error::Error for TemplateError {}

impl Template {
    /// Reads a template for sources that a filter selects.
    ///
    /// # Errors
    /// It is none.
    pub fn new(text: &str, from: &Filter, expands: bool) -> Result<Self, TemplateError> {
        let there_are = from.levels().filter(|level| matches!(*level, "+" | "#")).count();
        let several = |number| from.ends_with('#') && number == there_are;
        if text.is_empty() || text.starts_with('$') || text.contains(['+', '#', '\0']) {
            return Err(TemplateError::Topic);
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').ok_or(TemplateError::Brace)?;
            if before.contains('}') {
                return Err(TemplateError::Brace);
            }
            parts.push(Part::Text(before.into()));
            parts.push(match inside {
                "topic" => Part::Topic,
                "key" if expands => Part::Key,
                "key" => return Err(TemplateError::Key),
                place if place.starts_with('/') => Part::Place(Pointer::new(place).map_err(TemplateError::Place)?),
                number => match number.parse::<usize>() {
                    Ok(number) if (1..=there_are).contains(&number) => {
                        Part::Wildcard { number: number - 1, several: several(number) }
                    }
                    Ok(number) => return Err(TemplateError::Wildcard { number, there_are }),
                    Err(_) => return Err(TemplateError::Unknown(inside.into())),
                },
            });
            rest = after;
        }
        if rest.contains('}') {
            return Err(TemplateError::Brace);
        }
        parts.push(Part::Text(rest.into()));
        Ok(Self { parts })
    }

    /// The topic that a source with these captures and this value gets; none where the value has not what the topic
    /// takes from it, or that is no level of a topic.
    #[must_use]
    pub fn fill(&self, source: &str, captures: &[&str], key: &str, value: &Value) -> Option<Topic> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(fixed) => text.push_str(fixed),
                Part::Wildcard { number, .. } => text.push_str(captures.get(*number)?),
                Part::Topic => text.push_str(source),
                Part::Key => text.push_str(level(key)?),
                Part::Place(place) => text.push_str(level(&scalar(place.find(value)?)?)?),
            }
        }
        Topic::new(&text).ok().filter(|topic| !topic.starts_with('$'))
    }

    /// A filter that selects every topic that [`Template::fill`] can give.
    #[must_use]
    pub fn reach(&self) -> Option<Filter> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(fixed) => text.push_str(fixed),
                Part::Key | Part::Place(_) | Part::Wildcard { several: false, .. } => text.push('+'),
                // May be several levels, or, of `a/#` and the source `a`, none.
                Part::Wildcard { several: true, .. } | Part::Topic => text.push('#'),
            }
        }
        let mut levels: Vec<&str> = Vec::new();
        for level in text.split('/') {
            if level.contains('#') {
                levels.push("#");
                break;
            }
            levels.push(if level.contains('+') { "+" } else { level });
        }
        Filter::new(&levels.join("/")).ok()
    }

    /// Whether names are taken out of the value.
    #[must_use]
    pub(crate) fn reads(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Place(_) | Part::Key))
    }
}

/// What a wildcard of the filter has selected, one after the other; none where the filter does not select the topic.
pub(crate) fn captures<'a>(filter: &Filter, topic: &'a str) -> Option<Vec<&'a str>> {
    if !filter.matches(topic) {
        return None;
    }
    let mut found = Vec::new();
    let mut rest = Some(topic);
    for level in filter.levels() {
        let (head, tail) = match rest {
            Some(text) => text.split_once('/').map_or((text, None), |(head, tail)| (head, Some(tail))),
            None => ("", None),
        };
        match level {
            "#" => found.push(rest.unwrap_or_default()),
            "+" => found.push(head),
            _ => {}
        }
        rest = tail;
    }
    Some(found)
}

/// One level of a topic.
fn level(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty() && !text.contains(['/', '+', '#', '\0']))
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Wildcard { number, .. } => write!(f, "{{{}}}", number + 1),
            Part::Topic => f.write_str("{topic}"),
            Part::Key => f.write_str("{key}"),
            Part::Place(_) => f.write_str("{/…}"),
        })
    }
}
