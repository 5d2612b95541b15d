//! Query parameters, read strictly: an unknown name or a wrong value is an error that says so.

use super::problem::Problem;
use std::str::FromStr;
use tieline_core::Filter;

/// The parameters of one request.
#[derive(Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads the part of the URI behind `?`. Only `known` names are taken.
    ///
    /// # Errors
    /// An unknown name.
    pub fn new(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let pairs: Vec<_> = form(text.unwrap_or_default()).collect();
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let expected = known.join(", ");
                Err(Problem::bad_request(format!("the parameter {name:?} is unknown, expected one of {expected}")))
            }
            None => Ok(Self { pairs }),
        }
    }

    /// The value of a parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may come several times.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, parsed.
    ///
    /// # Errors
    /// It cannot be parsed; `expected` says what it should be.
    pub fn parse<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| text.parse().map_err(|_| wrong(name, text, expected));
        self.text(name).map(parse).transpose()
    }

    /// A page's size.
    ///
    /// # Errors
    /// It is not a number from 1 to `max`.
    pub fn limit(&self, default: usize, max: usize) -> Result<usize, Problem> {
        let expected = format!("a whole number from 1 to {max}");
        let limit = self.parse("limit", &expected)?.unwrap_or(default);
        if (1..=max).contains(&limit) { Ok(limit) } else { Err(wrong("limit", &limit.to_string(), &expected)) }
    }

    /// All topic filters; `#` where there is none.
    ///
    /// # Errors
    /// One is not a filter.
    pub fn filters(&self) -> Result<Vec<Filter>, Problem> {
        let texts: Vec<&str> = self.texts("filter").collect();
        let texts = if texts.is_empty() { vec!["#"] } else { texts };
        texts.into_iter().map(|text| Filter::new(text).map_err(|e| illegal("filter", text, &e))).collect()
    }

    /// The one topic filter; `#` where there is none.
    ///
    /// # Errors
    /// It is not a filter.
    pub fn filter(&self) -> Result<Filter, Problem> {
        self.filters()?.pop().ok_or_else(|| Problem::bad_request("no filter"))
    }
}

/// A parameter that is not what it must be.
pub fn wrong(name: &str, found: &str, expected: &str) -> Problem {
    Problem::bad_request(format!("{name} is {found:?}, expected {expected}"))
}

/// A parameter whose own kind says what is wrong with it.
pub fn illegal(name: &str, found: &str, error: &impl std::error::Error) -> Problem {
    Problem::bad_request(format!("{name} is {found:?}: {error}"))
}

fn form(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name, true), decode(value, true))
    })
}

/// Takes percent-encoding away; where `form`, `+` is a space. Bytes that are not UTF-8 become U+FFFD.
#[must_use]
pub fn decode(text: &str, form: bool) -> String {
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
            (b'+', _) if form => bytes.push(b' '),
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(&str, &str)]) {
        let found: Vec<_> = form(text).collect();
        let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn parameters_are_decoded() {
        check("filter=a%2F%23&limit=5", &[("filter", "a/#"), ("limit", "5")]);
        check("filter=a/%2b/b&x=1+2&&y", &[("filter", "a/+/b"), ("x", "1 2"), ("y", "")]);
        check("z=%zz%", &[("z", "%zz%")]);
        assert!(Query::new(Some("filtre=a"), &["filter"]).is_err());
    }
}
