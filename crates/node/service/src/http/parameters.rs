//! Parameters of requests, read strictly: an unknown name or a wrong value is an error that says so.
//!
//! The type that [`parameters!`](crate::parameters) declares is what reads them and what the OpenAPI document says of
//! them: names, defaults, ranges, words.

use super::openapi::{Input, Operation, Schemas};
use super::problem::Problem;
use crate::moment::Moment;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::{Value, json};
use std::fmt::Write as _;
use tieline_core::{Filter, Topic, Words};

/// What is wrong with the text of a parameter.
#[derive(Debug)]
pub enum Fault {
    /// What was expected.
    Expected(String),
    /// Why it is none.
    Illegal(String),
}

impl Fault {
    /// The text is none of some words.
    #[must_use]
    pub fn none_of<'w>(words: impl IntoIterator<Item = &'w str>) -> Self {
        Self::Expected(format!("one of {}", words.into_iter().collect::<Vec<_>>().join(", ")))
    }
}

/// The value of a parameter.
pub trait Parameter: Sized {
    /// Reads it from its text.
    ///
    /// # Errors
    /// What is wrong.
    fn read(text: &str) -> Result<Self, Fault>;

    /// What it may be, as a JSON schema.
    fn schema() -> Value;
}

/// A parameter that has to be there, may be there ([`Option`]), or may come several times ([`Vec`]).
pub trait Member: Sized {
    /// Reads it from all its texts.
    ///
    /// # Errors
    /// One sentence: what was found, and what was expected.
    fn read(name: &str, words: &str, texts: &[&str]) -> Result<Self, String>;

    /// Its schema.
    fn schema() -> Value;

    /// Whether a request without it is wrong.
    const REQUIRED: bool;
}

fn read_one<T: Parameter>(name: &str, text: &str) -> Result<T, String> {
    T::read(text).map_err(|fault| match fault {
        Fault::Expected(expected) => format!("{name} is {text:?}, expected {expected}"),
        Fault::Illegal(why) => format!("{name} is {text:?}: {why}"),
    })
}

impl<T: Parameter> Member for T {
    const REQUIRED: bool = true;

    fn read(name: &str, words: &str, texts: &[&str]) -> Result<Self, String> {
        only(name, texts)?
            .map_or_else(|| Err(format!("{name} is missing, expected: {words}")), |text| read_one(name, text))
    }

    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Parameter> Member for Option<T> {
    const REQUIRED: bool = false;

    fn read(name: &str, _: &str, texts: &[&str]) -> Result<Self, String> {
        only(name, texts)?.map(|text| read_one(name, text)).transpose()
    }

    fn schema() -> Value {
        T::schema()
    }
}

/// The one text of a parameter that does not come several times.
fn only<'t>(name: &str, texts: &[&'t str]) -> Result<Option<&'t str>, String> {
    match texts {
        [] => Ok(None),
        [text] => Ok(Some(text)),
        several => Err(format!("{name} is given {} times, expected once", several.len())),
    }
}

impl<T: Parameter> Member for Vec<T> {
    const REQUIRED: bool = false;

    fn read(name: &str, _: &str, texts: &[&str]) -> Result<Self, String> {
        texts.iter().map(|text| read_one(name, text)).collect()
    }

    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

/// Parameters of one request, as [`parameters!`](crate::parameters) declares them.
pub trait Parameters: Sized {
    /// Their names.
    const NAMES: &'static [&'static str];

    /// Reads them from names with texts, all of them known.
    ///
    /// # Errors
    /// One sentence: which is what, and what was expected.
    fn of_known(pairs: &[(String, String)]) -> Result<Self, String>;

    /// What each may be, as parameter objects of OpenAPI.
    fn describe() -> Vec<Value>;

    /// Reads them from names with texts; `noun` is what one is called where it is unknown.
    ///
    /// # Errors
    /// One sentence: which is what, and what was expected.
    fn read(noun: &str, pairs: &[(String, String)]) -> Result<Self, String> {
        match pairs.iter().find(|(name, _)| !Self::NAMES.contains(&name.as_str())) {
            Some((name, _)) => {
                Err(format!("the {noun} {name:?} is unknown, expected one of {}", Self::NAMES.join(", ")))
            }
            None => Self::of_known(pairs),
        }
    }
}

/// Declares a type of parameters: a struct whose fields have documentation, which the OpenAPI document shows, and maybe a
/// default, as its text.
#[macro_export]
macro_rules! parameters {
    (
        $(#[$meta:meta])* $vis:vis struct $type:ident {
            $($(#[doc = $words:literal])+ $name:ident: $member:ty $(= $default:literal)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $type {
            $($(#[doc = $words])+ pub $name: $member,)*
        }

        impl $crate::http::parameters::Parameters for $type {
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            fn of_known(pairs: &[(String, String)]) -> Result<Self, String> {
                use $crate::http::parameters::read_member;
                Ok(Self {
                    $($name: read_member(pairs, stringify!($name), concat!($($words),+), &[$($default)?])?,)*
                })
            }

            fn describe() -> Vec<serde_json::Value> {
                use $crate::http::parameters::describe_member;
                vec![$(describe_member::<$member>(stringify!($name), concat!($($words),+), &[$($default)?])),*]
            }
        }
    };
}

/// Reads one of [`parameters!`](crate::parameters).
///
/// # Errors
/// One sentence: what was found, and what was expected.
#[doc(hidden)]
pub fn read_member<T: Member>(
    pairs: &[(String, String)],
    name: &str,
    words: &str,
    default: &[&str],
) -> Result<T, String> {
    let texts: Vec<&str> = pairs.iter().filter(|(known, _)| known == name).map(|(_, text)| text.as_str()).collect();
    T::read(name, plain(words), if texts.is_empty() { default } else { &texts })
}

/// Describes one of [`parameters!`](crate::parameters).
#[doc(hidden)]
pub fn describe_member<T: Member>(name: &str, words: &str, default: &[&str]) -> Value {
    let mut schema = T::schema();
    if let Some(text) = default.first() {
        // A number and a truth value are themselves as JSON, any other text is a text.
        let value: Value = serde_json::from_str(text).unwrap_or_else(|_| (*text).into());
        let is_list = schema["type"] == "array";
        schema["default"] = if is_list { json!([value]) } else { value };
    }
    let required = T::REQUIRED && default.is_empty();
    json!({ "name": name, "in": "query", "description": plain(words), "required": required, "schema": schema })
}

/// The words of a doc comment.
fn plain(words: &str) -> &str {
    words.trim().trim_end_matches('.')
}

/// The parameters in the query of a request.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: Parameters, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        T::read("parameter", &pairs_of(parts)?).map(Self).map_err(Problem::bad_request)
    }
}

impl<T: Parameters> Input for Query<T> {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        T::describe().into_iter().for_each(|parameter| operation.parameter(parameter));
        operation.may_fail(400, "A parameter is wrong");
    }
}

/// The same, with its names and texts as they came.
pub struct QueryPairs<T>(pub T, pub Vec<(String, String)>);

impl<T: Parameters, S: Send + Sync> FromRequestParts<S> for QueryPairs<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let pairs = pairs_of(parts)?;
        T::read("parameter", &pairs).map(|asked| Self(asked, pairs)).map_err(Problem::bad_request)
    }
}

impl<T: Parameters> Input for QueryPairs<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Query::<T>::describe(operation, schemas);
    }
}

/// The pairs in the query of a request, where they are text.
fn pairs_of(parts: &Parts) -> Result<Vec<(String, String)>, Problem> {
    let query = parts.uri.query().unwrap_or_default();
    if std::str::from_utf8(&decode(query)).is_err() {
        let detail = "the query: found bytes that are not UTF-8, expected UTF-8, percent-encoded";
        return Err(Problem::bad_request(detail));
    }
    Ok(form(query).collect())
}

/// Pairs as a query that [`form`] reads.
#[must_use]
pub fn write_form(pairs: &[(String, String)]) -> String {
    let encoded = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
                    out.push(char::from(byte))
                }
                other => drop(write!(out, "%{other:02X}")),
            }
            out
        })
    };
    let pairs = pairs.iter().map(|(name, text)| format!("{}={}", encoded(name), encoded(text)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The pairs of a form or a query. Bytes that are not UTF-8 become U+FFFD.
pub fn form(text: &str) -> impl Iterator<Item = (String, String)> {
    let decoded = |text: &str| String::from_utf8_lossy(&decode(text)).into_owned();
    text.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// Takes percent-encoding and `+` for a space away.
fn decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let pair = (ahead.next().and_then(hex), ahead.next().and_then(hex));
        match (byte, pair) {
            (b'%', (Some(high), Some(low))) => {
                bytes.push(high << 4 | low);
                rest = ahead;
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(byte),
        }
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The schema of one of some words.
pub fn words_schema(words: impl IntoIterator<Item = &'static str>) -> Value {
    json!({ "type": "string", "enum": words.into_iter().collect::<Vec<_>>() })
}

/// One of the values that a type has words for.
#[derive(Clone, Copy, Debug)]
pub struct Word<T>(pub T);

impl<T: Words> Parameter for Word<T> {
    fn read(text: &str) -> Result<Self, Fault> {
        T::of_word(text).map(Self).ok_or_else(|| Fault::none_of(T::words()))
    }

    fn schema() -> Value {
        words_schema(T::words())
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub struct Whole<const MIN: usize, const MAX: usize>(pub usize);

impl<const MIN: usize, const MAX: usize> Parameter for Whole<MIN, MAX> {
    fn read(text: &str) -> Result<Self, Fault> {
        let found = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
        found.map(Self).ok_or_else(|| Fault::Expected(format!("a whole number from {MIN} to {MAX}")))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

impl Parameter for u64 {
    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|_| Fault::Expected("a whole number, as in 41".to_owned()))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "minimum": 0 })
    }
}

impl Parameter for bool {
    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|_| Fault::Expected("true or false".to_owned()))
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }
}

impl Parameter for String {
    fn read(text: &str) -> Result<Self, Fault> {
        Ok(text.to_owned())
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Parameter for Topic {
    fn read(text: &str) -> Result<Self, Fault> {
        Self::new(text).map_err(|error| Fault::Illegal(error.to_string()))
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1, "pattern": super::openapi::TOPIC })
    }
}

impl Parameter for Filter {
    fn read(text: &str) -> Result<Self, Fault> {
        Self::new(text).map_err(|error| Fault::Illegal(error.to_string()))
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }
}

impl Parameter for Moment {
    fn read(text: &str) -> Result<Self, Fault> {
        Self::parse(text).ok_or_else(|| Fault::Expected(Self::EXPECTED.to_owned()))
    }

    fn schema() -> Value {
        json!({ "type": "string", "examples": ["2026-11-20T09:36:00Z", "2026-11-20", "24h", "-1h"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            let found: Vec<_> = form(text).collect();
            let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, expect, "{text}");
        };
        check("filter=a%2F%23&limit=5", &[("filter", "a/#"), ("limit", "5")]);
        check("filter=a/%2b/b&x=1+2&&y", &[("filter", "a/+/b"), ("x", "1 2"), ("y", "")]);
        check("z=%zz%", &[("z", "%zz%")]);
        let pairs = [("a", "x/+ y&=#:"), ("b", "\u{e9}%"), ("", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(form(&write_form(&pairs)).collect::<Vec<_>>(), pairs);
    }

    parameters! {
        /// Parameters of these tests.
        struct Asked {
            /// A filter
            /// of two lines.
            filter: Filter = "#",
            /// Has to be there.
            topic: Topic,
            /// At most.
            limit: Whole<1, 9> = "7",
            /// Flag.
            last: Option<bool>,
            /// Several.
            group: Vec<String>,
        }
    }

    #[test]
    fn parameters_are_read_or_refused_with_a_reason() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let read = Asked::read("parameter", &form(text).collect::<Vec<_>>());
            let shown = read.map(|a| format!("{} {} {} {:?} {:?}", &*a.filter, &*a.topic, a.limit.0, a.last, a.group));
            assert_eq!(shown.as_deref().map_err(String::as_str), expect, "{text}");
        };
        check("topic=a", Ok("# a 7 None []"));
        check("topic=a&limit=2&filter=b/%2B&last=true&group=x&group=y", Ok("b/+ a 2 Some(true) [\"x\", \"y\"]"));
        check("", Err("topic is missing, expected: Has to be there"));
        check("topic=a&limit=10", Err("limit is \"10\", expected a whole number from 1 to 9"));
        check("topic=a&limit=2&limit=3", Err("limit is given 2 times, expected once"));
        check("topic=a&topic=b", Err("topic is given 2 times, expected once"));
        check("topic=a&last=1", Err("last is \"1\", expected true or false"));
        check("topic=a%2B", Err("topic is \"a+\": a topic holds + or #, expected a name without wildcards"));
        check(
            "filtre=a",
            Err("the parameter \"filtre\" is unknown, expected one of filter, topic, limit, last, group"),
        );
    }

    #[test]
    fn parameters_are_described() {
        let found = Asked::describe();
        assert_eq!(
            found.first(),
            Some(&json!({
                "name": "filter", "in": "query", "description": "A filter of two lines", "required": false,
                "schema": { "type": "string", "minLength": 1, "default": "#" },
            }))
        );
        let required: Vec<_> = found.iter().map(|one| one["required"].as_bool()).collect();
        assert_eq!(required, [false, true, false, false, false].map(Some));
        assert_eq!(found.get(2).map(|one| &one["schema"]["default"]), Some(&json!(7)));
        assert_eq!(found.get(4).map(|one| &one["schema"]["items"]["type"]), Some(&json!("string")));
    }
}
