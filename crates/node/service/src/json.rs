//! JSON that callers send: what is wrong with it is one sentence with the place, what was found, and what was expected.

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::fmt;
use tieline_core::Value;

/// Characters of a caller's text that an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// Why a JSON text was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// It is no JSON.
    Syntax(String),
    /// A member is missing, unknown, or of the wrong type.
    Content(String),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Syntax(text) | Self::Content(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for JsonError {}

/// Reads a JSON text.
///
/// # Errors
/// It is no JSON, or not what `T` takes.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        told(&path, &error.into_inner())
    })?;
    reader.end().map_err(|error| told(ROOT, &error))?;
    Ok(value)
}

/// Reads a JSON value.
///
/// # Errors
/// It is not what `T` takes.
pub fn read_value<T: DeserializeOwned>(value: &serde_json::Value) -> Result<T, JsonError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        told(&path, &error.into_inner())
    })
}

/// A value as points have it.
#[must_use]
pub fn of_value(value: &Value) -> serde_json::Value {
    let mut text = String::new();
    tieline_core::json_value(value, &mut text);
    serde_json::from_str(&text).unwrap_or_default()
}

/// How the path of the whole text is written.
const ROOT: &str = ".";

fn told(path: &str, error: &serde_json::Error) -> JsonError {
    let text = error.to_string();
    // The place is told by the path, or below.
    let words = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words);
    match error.classify() {
        Category::Data => JsonError::Content(content(path, words)),
        Category::Syntax | Category::Eof | Category::Io => JsonError::Syntax(format!(
            "line {}, column {}: found no valid JSON ({words}), expected a JSON text",
            error.line(),
            error.column()
        )),
    }
}

/// The words of serde as a place, what was found and what was expected.
fn content(path: &str, words: &str) -> String {
    let at = |sentence: String| if path == ROOT { sentence } else { format!("{path}: {sentence}") };
    if let Some(name) = words.strip_prefix("missing field ") {
        let (name, parent) = (name.trim_matches('`'), if path == ROOT { String::new() } else { format!("{path}.") });
        return format!("{parent}{name}: found nothing, expected a value");
    }
    if let Some(rest) = words.strip_prefix("unknown field ") {
        let (name, known) = rest.split_once(", ").unwrap_or((rest, ""));
        let name = name.trim_matches('`');
        // The path ends with the member, or with what it is in.
        let parent = path.strip_suffix(name).map_or(path, |parent| parent.trim_end_matches('.'));
        let place = if parent == ROOT || parent.is_empty() { String::new() } else { format!("{parent}: ") };
        return format!("{place}found the unknown member {name:?}, {}", known_members(known));
    }
    if words.starts_with("data did not match any variant") {
        return at("found a value of another form, expected one of the forms in the document of the API".to_owned());
    }
    if let Some((count, wanted)) =
        words.strip_prefix("invalid length ").and_then(|rest| rest.rsplit_once(", expected "))
    {
        return at(format!("found a list of {count}, expected {}", expected(wanted)));
    }
    let kinds = ["invalid type: ", "invalid value: ", "unknown variant "];
    let rest = kinds.iter().find_map(|kind| words.strip_prefix(kind));
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((value, wanted)) => at(format!("found {}, expected {}", found(value), expected(wanted))),
        None => at(words.to_owned()),
    }
}

fn known_members(words: &str) -> String {
    match words.strip_prefix("expected ") {
        Some(known) => format!("expected {}", known.replace('`', "")),
        None => "expected none".to_owned(),
    }
}

/// What serde says that it found, in the words of JSON.
fn found(words: &str) -> String {
    let value = ["integer ", "boolean ", "floating point ", "string ", "character "];
    let value = value.iter().find_map(|kind| words.strip_prefix(kind)).unwrap_or(words);
    match value.trim_matches('`') {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" | "unit" => "null".to_owned(),
        text if text.chars().count() > SHOWN_CHARS_MAX => {
            text.chars().take(SHOWN_CHARS_MAX).chain("…".chars()).collect()
        }
        text => text.to_owned(),
    }
}

/// What serde says that it wanted, in the words of JSON.
fn expected(words: &str) -> String {
    match words {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        words if words.starts_with("struct ") => "an object".to_owned(),
        words => words.replace('`', ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "they are read from JSON only")]
    struct Asked {
        name: String,
        #[serde(default)]
        parts: Vec<Part>,
        count: Option<u32>,
        share: Option<f64>,
        #[serde(default)]
        either: Option<Either>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "they are read from JSON only")]
    struct Part {
        on: bool,
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Low,
        High,
    }

    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "they are read from JSON only")]
    enum Either {
        One(u8),
        Other(bool),
    }

    fn check(text: &str, expect: &str) {
        assert_eq!(read::<Asked>(text.as_bytes()).unwrap_err().to_string(), expect, "{text}");
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(text) {
            assert_eq!(read_value::<Asked>(&value).unwrap_err().to_string(), expect, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_place_and_says_what_was_expected() {
        check("{}", "name: found nothing, expected a value");
        check(r#"{"name":5}"#, "name: found 5, expected a string");
        check(r#"{"name":null}"#, "name: found null, expected a string");
        check(r#"{"name":"x","count":-1}"#, "count: found -1, expected a whole number from 0");
        check(r#"{"name":"x","count":1.5}"#, "count: found 1.5, expected a whole number from 0");
        check(r#"{"name":"x","share":"a, b"}"#, r#"share: found "a, b", expected a number"#);
        check(r#"{"name":"x","parts":{}}"#, "parts: found an object, expected a list");
        check(r#"{"name":"x","parts":[{"on":true},{}]}"#, "parts[1].on: found nothing, expected a value");
        check(r#"{"name":"x","parts":[{"on":[]}]}"#, "parts[0].on: found a list, expected a boolean");
        check(r#"{"name":"x","parts":[{"on":true,"kind":"mid"}]}"#, "parts[0].kind: found mid, expected low or high");
        check(r#"{"nam":"x"}"#, r#"found the unknown member "nam", expected one of name, parts, count, share, either"#);
        check(
            r#"{"name":"x","parts":[{"off":1}]}"#,
            r#"parts[0]: found the unknown member "off", expected on or kind"#,
        );
        let forms = "either: found a value of another form, expected one of the forms in the document of the API";
        check(r#"{"name":"x","either":"x"}"#, forms);
        check("5", "found 5, expected an object");
        check("[]", "found a list of 0, expected an object");
        let long = "x".repeat(1000);
        let told = read::<Asked>(format!(r#"{{"name":"x","count":"{long}"}}"#).as_bytes()).unwrap_err().to_string();
        assert!(told.chars().count() < 160 && told.contains("…, expected a whole number"), "{told}");
    }

    #[test]
    fn what_is_no_json_has_its_line() {
        check("", "line 1, column 0: found no valid JSON (EOF while parsing a value), expected a JSON text");
        check("{\n  name", "line 2, column 3: found no valid JSON (key must be a string), expected a JSON text");
        let more = "line 1, column 14: found no valid JSON (trailing characters), expected a JSON text";
        check(r#"{"name":"x"} {}"#, more);
    }
}
