//! JSON with the comments that VOLTTRON allows (`#`, `//`, `/* */`), and with the line of every value.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// Arrays and objects within each other.
const DEPTH_MAX: usize = 64;

/// A value with its line; a member of an object has the line of its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Json {
    pub line: usize,
    pub value: Value,
}

/// What it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// As it is written.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Where a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    pub line: usize,
    pub found: String,
    pub expected: &'static str,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no JSON: found {}, expected {}", self.found, self.expected)
    }
}

impl Json {
    /// The member of this name, the last where there are several, as in Python.
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Value::Object(members) = &self.value else { return None };
        members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A text or a number as a text: configurations have both for the same key.
    pub fn plain(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Number(text) => Some(text.trim()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whether Python takes it for true.
    pub fn is_true(&self) -> bool {
        match &self.value {
            Value::Null => false,
            Value::Bool(is) => *is,
            Value::Number(number) => number.parse() != Ok(0.0),
            Value::Text(text) => !text.is_empty(),
            Value::Array(all) => !all.is_empty(),
            Value::Object(all) => !all.is_empty(),
        }
    }
}

/// Reads one value.
pub fn parse(text: &str) -> Result<Json, JsonError> {
    let mut parser = Parser { rest: text.chars().peekable(), line: 1 };
    let value = parser.value(0)?;
    match parser.next_token()? {
        None => Ok(value),
        Some(more) => Err(parser.wrong(format!("{more:?}"), "the end of the file")),
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Parser<'_> {
    fn wrong(&self, found: String, expected: &'static str) -> JsonError {
        JsonError { line: self.line, found, expected }
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    /// The first character that is neither blank nor of a comment; it is not taken.
    fn next_token(&mut self) -> Result<Option<char>, JsonError> {
        loop {
            match self.rest.peek().copied() {
                Some(c) if c.is_whitespace() || c == '\u{feff}' => drop(self.bump()),
                Some('#') => self.skip_line(),
                Some('/') => {
                    self.bump();
                    match self.rest.peek() {
                        Some('/') => self.skip_line(),
                        Some('*') => self.skip_block()?,
                        _ => return Err(self.wrong("\"/\"".to_owned(), "a value or a comment")),
                    }
                }
                other => return Ok(other),
            }
        }
    }

    fn skip_line(&mut self) {
        while self.rest.peek().is_some_and(|c| *c != '\n') {
            self.bump();
        }
    }

    fn skip_block(&mut self) -> Result<(), JsonError> {
        let begun = self.line;
        self.bump();
        let mut last = ' ';
        while let Some(c) = self.bump() {
            if (last, c) == ('*', '/') {
                return Ok(());
            }
            last = c;
        }
        Err(JsonError { line: begun, found: "a comment without an end".to_owned(), expected: "*/" })
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("more than {DEPTH_MAX} levels"), "less"));
        }
        let first = self.next_token()?;
        let line = self.line;
        let value = match first {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Value::Text(self.string()?),
            Some(c) if c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.') => self.word()?,
            Some(other) => return Err(self.wrong(format!("{other:?}"), "a value")),
            None => return Err(self.wrong("the end of the file".to_owned(), "a value")),
        };
        Ok(Json { line, value })
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.bump();
        let mut members = Vec::new();
        loop {
            match self.next_token()? {
                Some('}') => {
                    self.bump();
                    return Ok(Value::Object(members));
                }
                Some('"') => {
                    let line = self.line;
                    let name = self.string()?;
                    self.expect(':', "a colon")?;
                    let value = self.value(depth + 1)?.value;
                    members.push((name, Json { line, value }));
                    self.comma('}')?;
                }
                other => return Err(self.wrong(shown(other), "a name in double quotes, or }")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.bump();
        let mut values = Vec::new();
        loop {
            if self.next_token()? == Some(']') {
                self.bump();
                return Ok(Value::Array(values));
            }
            values.push(self.value(depth + 1)?);
            self.comma(']')?;
        }
    }

    /// A comma, also behind the last value, or the end, which is not taken.
    fn comma(&mut self, end: char) -> Result<(), JsonError> {
        match self.next_token()? {
            Some(',') => drop(self.bump()),
            Some(c) if c == end => {}
            other => return Err(self.wrong(shown(other), "a comma, or the end of the object or array")),
        }
        Ok(())
    }

    fn expect(&mut self, wanted: char, expected: &'static str) -> Result<(), JsonError> {
        match self.next_token()? {
            Some(c) if c == wanted => drop(self.bump()),
            other => return Err(self.wrong(shown(other), expected)),
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.bump();
        let mut text = String::new();
        loop {
            match self.bump() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                // Line ends within texts are what some editors leave behind.
                Some(c) => text.push(c),
                None => return Err(self.wrong("the end of the file".to_owned(), "a double quote at the end of a text")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let c = self.bump();
        Ok(match c {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => {
                let high = self.unit()?;
                let second = (0xd800..0xdc00).contains(&high) && self.rest.peek() == Some(&'\\');
                let low = if second {
                    self.bump();
                    self.expect('u', "the second half of a character")?;
                    self.unit()?
                } else {
                    0
                };
                let code = if second { 0x1_0000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00) } else { high };
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => return Err(self.wrong(format!("\\ and {}", shown(other)), "an escape such as \\n or \\u00b0")),
        })
    }

    fn unit(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.rest.peek().and_then(|c| c.to_digit(16));
            let Some(digit) = digit else {
                let found = shown(self.rest.peek().copied());
                return Err(self.wrong(found, "four hexadecimal digits"));
            };
            self.bump();
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    fn word(&mut self) -> Result<Value, JsonError> {
        let mut word = String::new();
        while let Some(c) = self.rest.peek().copied().filter(|c| c.is_ascii_alphanumeric() || "+-._".contains(*c)) {
            word.push(c);
            self.bump();
        }
        Ok(match word.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            number if number.parse::<f64>().is_ok_and(f64::is_finite) => Value::Number(word),
            _ => return Err(self.wrong(format!("{word:?}"), "a value")),
        })
    }
}

fn shown(found: Option<char>) -> String {
    found.map_or_else(|| "the end of the file".to_owned(), |c| format!("{c:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comments_and_lines() {
        let text =
            "{\n  # a\n  \"a\": 1, // b \"\n  /* c\n d */ \"b#\": [true, null, \"#//\\u00b0\\ud83d\\ude00\",],\n}\n";
        let json = parse(text).unwrap();
        let a = json.member("a").unwrap();
        assert_eq!((a.line, a.plain()), (3, Some("1")));
        let b = json.member("b#").unwrap();
        let Value::Array(all) = &b.value else { panic!() };
        assert_eq!((b.line, all.len(), all[2].text()), (5, 3, Some("#//°😀")));
    }

    #[test]
    fn mistakes_have_a_line() {
        let check = |text: &str, expect: &str| {
            let error = parse(text).unwrap_err();
            assert_eq!(format!("{}: {error}", error.line), expect, "{text}");
        };
        check("{\n\"a\" 1}", "2: no JSON: found '1', expected a colon");
        check("{\"a\": tru}", "1: no JSON: found \"tru\", expected a value");
        check("[1 2]", "1: no JSON: found '2', expected a comma, or the end of the object or array");
        check("{}\n/* x", "2: no JSON: found a comment without an end, expected */");
        check("[\"\\u00g\"]", "1: no JSON: found 'g', expected four hexadecimal digits");
        check("", "1: no JSON: found the end of the file, expected a value");
        check(&"[".repeat(100), "1: no JSON: found more than 64 levels, expected less");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[\\PC\n\"\\\\{}\\[\\]:,#/*0-9a-u]{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn json_is_json(text in "[\\PC\n]{0,20}", number in any::<i32>()) {
            let written = serde_json::json!({ "a": [text, number], "b": { "c": true } }).to_string();
            let read = parse(&written).unwrap();
            let Value::Array(all) = &read.member("a").unwrap().value else { panic!() };
            prop_assert_eq!(all[0].text(), Some(text.as_str()));
            let number = number.to_string();
            prop_assert_eq!(all[1].plain(), Some(number.as_str()));
        }
    }
}
