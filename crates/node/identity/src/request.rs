//! Requests to a provider, and their answers.

use std::fmt::Write;

/// Bytes of an answer; longer ones are not read.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// A request to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where.
    pub url: String,
    /// The header `authorization`.
    pub authorization: Option<String>,
    /// The form of a POST; none is a GET.
    pub form: Option<String>,
}

impl Request {
    /// A GET without credentials.
    #[must_use]
    pub fn get(url: &str) -> Self {
        Self { url: url.to_owned(), authorization: None, form: None }
    }
}

/// An answer of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, at most [`ANSWER_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// A text as a part of an address or a form (RFC 3986 section 2.3).
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => write!(out, "%{byte:02X}").unwrap_or_default(),
        }
    }
    out
}

/// Pairs as a form.
#[must_use]
pub fn write_form(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.join("&")
}

/// An address with more parameters.
#[must_use]
pub(crate) fn with_query(address: &str, pairs: &[(&str, &str)]) -> String {
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}{}", write_form(pairs))
}
