//! The part of XML that an SVG file needs: elements, attributes, text, comments. No document types, no entities of one's own.

use super::SvgError;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Attributes of one element.
const ATTRIBUTES_MAX: usize = 64;

/// An attribute, its references resolved.
#[derive(Debug)]
pub struct Attribute<'a> {
    pub name: &'a str,
    pub value: Cow<'a, str>,
    pub line: usize,
}

/// What comes next in a file.
#[derive(Debug)]
pub enum Piece<'a> {
    /// `<name …>`; `is_empty` where it ends with `/>`.
    Start { name: &'a str, attributes: Vec<Attribute<'a>>, is_empty: bool },
    /// `</name>`.
    End { name: &'a str },
    /// What is between tags; references are as they stand.
    Text(&'a str),
}

/// Reads a file from its beginning to its end.
#[derive(Debug)]
pub struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    is_begun: bool,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1, is_begun: false }
    }

    /// The line of what comes next.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The next piece; none at the end.
    pub fn next(&mut self) -> Result<Option<Piece<'a>>, SvgError> {
        if !core::mem::replace(&mut self.is_begun, true) && self.eat("<?xml") {
            self.until("?>", "the end ?> of the XML declaration")?;
        }
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            if self.eat("<!--") {
                self.until("-->", "the end --> of the comment")?;
            } else if self.rest.starts_with("<!") || self.rest.starts_with("<?") {
                let found: String =
                    self.rest.chars().take_while(|c| !c.is_whitespace() && *c != '>').take(20).collect();
                return Err(self.error(
                    &found,
                    "elements, text and comments only: no document type, no processing instruction, no CDATA",
                ));
            } else if self.eat("</") {
                let name = self.name("the name of an element")?;
                self.space();
                self.want(">")?;
                return Ok(Some(Piece::End { name }));
            } else if self.eat("<") {
                return self.start().map(Some);
            } else {
                let text = self.take(self.rest.find('<').unwrap_or(self.rest.len()));
                return Ok(Some(Piece::Text(text)));
            }
        }
    }

    fn start(&mut self) -> Result<Piece<'a>, SvgError> {
        let name = self.name("the name of an element")?;
        let mut attributes: Vec<Attribute<'a>> = Vec::new();
        loop {
            let spaced = self.space();
            if self.eat("/>") {
                return Ok(Piece::Start { name, attributes, is_empty: true });
            }
            if self.eat(">") {
                return Ok(Piece::Start { name, attributes, is_empty: false });
            }
            if !spaced {
                return Err(self.here("a space, > or />"));
            }
            let attribute = self.attribute()?;
            if attributes.iter().any(|other| other.name == attribute.name) {
                return Err(self.error(&format!("{} twice", attribute.name), "each attribute once"));
            }
            if attributes.len() == ATTRIBUTES_MAX {
                return Err(self.error("more attributes", &format!("at most {ATTRIBUTES_MAX} of one element")));
            }
            attributes.push(attribute);
        }
    }

    fn attribute(&mut self) -> Result<Attribute<'a>, SvgError> {
        let line = self.line;
        let name = self.name("the name of an attribute, > or />")?;
        self.space();
        self.want("=")?;
        self.space();
        let quote = if self.eat("\"") {
            "\""
        } else {
            self.want("'")?;
            "'"
        };
        let raw = self.until(quote, "the closing quote of the attribute")?;
        if raw.contains('<') {
            return Err(SvgError::new(line, format!("< in {name}"), "&lt;".into()));
        }
        let value = resolve(raw).ok_or_else(|| SvgError::new(line, shortened(raw), REFERENCES.into()))?;
        Ok(Attribute { name, value, line })
    }

    fn name(&mut self, expected: &str) -> Result<&'a str, SvgError> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_more = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if !self.rest.starts_with(is_first) {
            return Err(self.here(expected));
        }
        let length = self.rest.find(|c| !is_more(c)).unwrap_or(self.rest.len());
        Ok(self.take(length))
    }

    /// Takes what is before `end`, and `end`.
    fn until(&mut self, end: &str, expected: &str) -> Result<&'a str, SvgError> {
        let at = self.rest.find(end).ok_or_else(|| self.error("the end of the file", expected))?;
        let text = self.take(at);
        self.eat(end);
        Ok(text)
    }

    fn want(&mut self, token: &str) -> Result<(), SvgError> {
        if self.eat(token) { Ok(()) } else { Err(self.here(token)) }
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_there = self.rest.starts_with(token);
        if is_there {
            self.take(token.len());
        }
        is_there
    }

    fn space(&mut self) -> bool {
        let length = self.rest.find(|c: char| !matches!(c, ' ' | '\t' | '\n' | '\r')).unwrap_or(self.rest.len());
        !self.take(length).is_empty()
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.line += taken.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        taken
    }

    fn here(&self, expected: &str) -> SvgError {
        let found = self.rest.chars().next().map_or("the end of the file".to_string(), |c| format!("{c:?}"));
        self.error(&found, expected)
    }

    fn error(&self, found: &str, expected: &str) -> SvgError {
        SvgError::new(self.line, shortened(found), expected.into())
    }
}

const REFERENCES: &str = "&amp; &lt; &gt; &quot; &apos; or a number as in &#176;";

/// The beginning of a text.
pub fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let mut short: String = text.chars().take(CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A text with its references resolved; none where one is wrong.
pub fn resolve(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('&') {
        return Some(Cow::Borrowed(raw));
    }
    let mut parts = raw.split('&');
    let mut text = String::from(parts.next()?);
    for part in parts {
        let (name, after) = part.split_once(';')?;
        text.push(referred(name)?);
        text.push_str(after);
    }
    Some(Cow::Owned(text))
}

fn referred(name: &str) -> Option<char> {
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match (name.strip_prefix("#x"), name.strip_prefix('#')) {
            (Some(hex), _) => number(hex, 16),
            (None, Some(decimal)) => number(decimal, 10),
            (None, None) => None,
        }
        .filter(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r')),
    }
}
