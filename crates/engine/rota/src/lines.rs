//! Content lines: name, parameters and value, unfolded (RFC 5545 3.1).

use crate::Fault;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// Characters of a line that are shown.
const SHOWN_CHARS: usize = 60;

/// A content line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Where it begins, from 1.
    pub at: usize,
    /// Its name in upper case.
    pub name: String,
    /// Parameters; names in upper case, values without their quotes.
    pub parameters: Vec<(String, String)>,
    /// The value, with its escapes.
    pub value: String,
}

impl Line {
    /// The first value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Its value as text (3.3.11).
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.value.len());
        let mut chars = self.value.chars();
        while let Some(c) = chars.next() {
            text.push(match c {
                '\\' => match chars.next() {
                    Some('n' | 'N') => '\n',
                    Some(escaped) => escaped,
                    None => '\\',
                },
                c => c,
            });
        }
        text
    }

    /// What is wrong with it.
    pub fn fault(&self, expected: impl Into<String>) -> Fault {
        let value: String = self.value.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        Fault::new(self.at, format!("{}:{value}", self.name), expected)
    }
}

/// All lines of a file.
pub(crate) fn read(bytes: &[u8]) -> impl Iterator<Item = Result<Line, Fault>> {
    let bytes = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(bytes);
    let mut physical = bytes.split(|byte| *byte == b'\n').enumerate().peekable();
    core::iter::from_fn(move || {
        loop {
            let (index, first) = physical.next()?;
            let mut whole = without_return(first).to_vec();
            // A fold may be inside a character of several bytes: bytes are joined before they are read as text.
            while let Some((_, folded)) = physical.next_if(|(_, next)| matches!(next.first(), Some(b' ' | b'\t'))) {
                whole.extend_from_slice(without_return(folded).get(1..).unwrap_or_default());
            }
            if !whole.iter().all(u8::is_ascii_whitespace) {
                return Some(parse(index + 1, &whole));
            }
        }
    })
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn parse(at: usize, bytes: &[u8]) -> Result<Line, Fault> {
    let text = core::str::from_utf8(bytes).map_err(|_| Fault::new(at, "bytes that are no UTF-8", "UTF-8"))?;
    let wrong = || {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
        Fault::new(at, format!("{shown:?}"), "a line of iCalendar, as in DTSTART:20261130T080000Z")
    };
    let (name, mut rest) = name_of(text).ok_or_else(wrong)?;
    let mut parameters = Vec::new();
    while let Some(after) = rest.strip_prefix(';') {
        let (parameter, after) = name_of(after).ok_or_else(wrong)?;
        let (value, after) = values_of(after.strip_prefix('=').ok_or_else(wrong)?).ok_or_else(wrong)?;
        parameters.push((parameter, value));
        rest = after;
    }
    let value = rest.strip_prefix(':').ok_or_else(wrong)?.to_owned();
    Ok(Line { at, name, parameters, value })
}

fn name_of(text: &str) -> Option<(String, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    (!name.is_empty()).then(|| (name.to_ascii_uppercase(), rest))
}

/// The values of a parameter, each quoted or not, and what follows them.
fn values_of(text: &str) -> Option<(String, &str)> {
    let (mut values, mut rest) = (String::new(), text);
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (value, after) = quoted.split_once('"')?;
            values.push_str(value);
            rest = after;
        } else {
            let (value, after) = rest.split_at_checked(rest.find([';', ':', ',', '"'])?)?;
            values.push_str(value);
            rest = after;
        }
        match rest.strip_prefix(',') {
            Some(after) => {
                values.push(',');
                rest = after;
            }
            None => return rest.starts_with([';', ':']).then(|| (values.to_string(), rest)),
        }
    }
}
