//! The number of an institution.

use std::fmt;

/// An institution's number in the payment system: eight digits or capital letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ispb([u8; 8]);

impl Ispb {
    /// As a regular expression.
    pub const PATTERN: &str = "^[0-9A-Z]{8}$";

    /// From exactly eight digits, or capital letters, which a CNPJ may have too.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes().try_into().ok()?)
    }

    /// From eight bytes of ASCII.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        bytes.iter().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase()).then_some(Self(bytes))
    }

    /// The institution that a certificate's subject names, as `OU=ISPB-nnnnnnnn`.
    #[must_use]
    pub fn of_subject(subject: &str) -> Option<Self> {
        unit(subject, "ISPB-").and_then(Self::from_text)
    }

    /// The eight bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

/// What follows `prefix` in the first organizational unit of a subject (RFC 4514) that begins so.
pub fn unit<'a>(subject: &'a str, prefix: &str) -> Option<&'a str> {
    subject.split([',', '+']).find_map(|name| name.trim().strip_prefix("OU=")?.strip_prefix(prefix))
}

impl fmt::Display for Ispb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&c| fmt::Write::write_char(f, char::from(c)))
    }
}

impl fmt::Debug for Ispb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ispb({self})")
    }
}
