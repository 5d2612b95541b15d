//! The words of an expression.

use crate::expression::{ExpressionError, TEXT_BYTES_MAX};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use tieline_core::Topic;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    Number(f64),
    Name(String),
    Topic(Topic),
    Sign(&'static str),
    End,
}

/// A word, where it begins (in characters, the first is 1), and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) word: Word,
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// Longer ones first.
const SIGNS: [&str; 15] = ["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", ","];

pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    if text.len() > TEXT_BYTES_MAX {
        let found = alloc::format!("{} bytes", text.len());
        return Err(ExpressionError { at: 1, found, expected: alloc::format!("{TEXT_BYTES_MAX} at most") });
    }
    let (mut tokens, mut rest, mut at) = (Vec::new(), text, 1);
    loop {
        let trimmed = rest.trim_start();
        at += rest.chars().count() - trimmed.chars().count();
        rest = trimmed;
        if rest.is_empty() {
            tokens.push(Token { word: Word::End, at, text: "the end".to_owned() });
            return Ok(tokens);
        }
        let (word, length) = word(rest, at)?;
        let (own, behind) = rest.split_at(length);
        tokens.push(Token { word, at, text: own.to_owned() });
        at += own.chars().count();
        rest = behind;
    }
}

fn word(rest: &str, at: usize) -> Result<(Word, usize), ExpressionError> {
    if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        return Ok((Word::Sign(sign), sign.len()));
    }
    let first = rest.chars().next().unwrap_or_default();
    if first == '\'' {
        return topic(rest, at);
    }
    if first.is_ascii_digit() || first == '.' {
        return number(rest, at);
    }
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    match rest.get(..length).filter(|name| !name.is_empty()) {
        Some(name) => Ok((Word::Name(name.to_owned()), length)),
        None => {
            let found = alloc::format!("\"{first}\"");
            let expected = "a number, a topic as 'site/power', a function or an operator".to_owned();
            Err(ExpressionError { at, found, expected })
        }
    }
}

fn topic(rest: &str, at: usize) -> Result<(Word, usize), ExpressionError> {
    let inside = rest.get(1..).unwrap_or_default();
    let Some(length) = inside.find('\'') else {
        let expected = "a ' at the end of the topic".to_owned();
        return Err(ExpressionError { at, found: "no end of the topic".to_owned(), expected });
    };
    let text = inside.get(..length).unwrap_or_default();
    match Topic::new(text) {
        Ok(topic) if !text.starts_with('$') => Ok((Word::Topic(topic), length + 2)),
        Ok(_) => {
            let found = alloc::format!("'{text}'");
            Err(ExpressionError { at, found, expected: "a topic that does not begin with $".to_owned() })
        }
        Err(error) => {
            let found = alloc::format!("'{text}'");
            Err(ExpressionError { at, found, expected: alloc::format!("a topic as 'site/power' ({error})") })
        }
    }
}

fn number(rest: &str, at: usize) -> Result<(Word, usize), ExpressionError> {
    let digits = |from: usize| {
        let tail = rest.get(from..).unwrap_or_default();
        from + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len())
    };
    let mut length = digits(0);
    if rest.get(length..).is_some_and(|tail| tail.starts_with('.')) {
        length = digits(length + 1);
    }
    if rest.get(length..).is_some_and(|tail| tail.starts_with(['e', 'E'])) {
        let signed = rest.get(length + 1..).is_some_and(|tail| tail.starts_with(['+', '-']));
        let exponent = length + 1 + usize::from(signed);
        let end = digits(exponent);
        if end > exponent {
            length = end;
        }
    }
    let text = rest.get(..length).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((Word::Number(number), length)),
        Ok(_) | Err(_) => {
            let found = alloc::format!("\"{text}\"");
            Err(ExpressionError { at, found, expected: "a number, as in 0.5 or 1e3".to_owned() })
        }
    }
}
