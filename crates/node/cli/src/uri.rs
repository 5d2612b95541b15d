//! Paths and questions of the HTTP API.

use std::fmt::Write;

/// A path with its parameters; those without a value are left out.
pub fn path(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut out = encoded(path);
    let mut sign = '?';
    for (name, value) in parameters {
        if let Some(value) = value {
            let _ = write!(out, "{sign}{name}={}", encoded(value));
            sign = '&';
        }
    }
    out
}

/// Percent-encodes what is neither unreserved (RFC 3986 2.3) nor a slash.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            other => drop(write!(out, "%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(path("/v1/topics/a b/ü?#", &[]), "/v1/topics/a%20b/%C3%BC%3F%23");
        let parameters = [("filter", Some("a/+/#")), ("after", None), ("limit", Some("5"))];
        assert_eq!(path("/v1/topics", &parameters), "/v1/topics?filter=a/%2B/%23&limit=5");
    }
}
