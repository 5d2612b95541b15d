//! Who may do what.

use std::collections::HashMap;
use std::sync::Arc;
use tieline_crypto::{DIGEST_BYTES, fill_random, sha256};

/// What a client may be allowed to do in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sign and encrypt.
    Pack,
    /// Decrypt and verify.
    Unpack,
    /// See keys and certificates; in every domain: read the configuration again.
    Admin,
}

impl Action {
    /// The word of the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Unpack => "unpack",
            Self::Admin => "admin",
        }
    }
}

/// An action in one domain, or in every.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// What.
    pub action: Action,
    /// Where; none is everywhere.
    pub domain: Option<String>,
}

impl Right {
    /// From `pack:DOMAIN`, `unpack:DOMAIN` or `admin:DOMAIN`; the domain `*` is every domain.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (action, domain) = text.split_once(':')?;
        let action = [Action::Pack, Action::Unpack, Action::Admin].into_iter().find(|known| known.word() == action)?;
        Some(Self { action, domain: (domain != "*").then(|| domain.to_owned()) })
    }
}

/// Someone who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The name in the audit log.
    pub name: String,
    /// SHA-256 of the token.
    pub token: [u8; DIGEST_BYTES],
    /// What it may do.
    pub rights: Vec<Right>,
}

impl Client {
    /// Whether it may do `action` in `domain`.
    #[must_use]
    pub fn may(&self, action: Action, domain: &str) -> bool {
        self.rights
            .iter()
            .any(|right| right.action == action && right.domain.as_deref().is_none_or(|allowed| allowed == domain))
    }

    /// Whether it may do `action` in every domain.
    #[must_use]
    pub fn may_everywhere(&self, action: Action) -> bool {
        self.rights.iter().any(|right| right.action == action && right.domain.is_none())
    }
}

/// All clients, by the digest of their token. To look a digest up takes a time that depends on the digest, which tells
/// nothing about a token.
pub type Clients = HashMap<[u8; DIGEST_BYTES], Arc<Client>>;

/// The digest of a token, as the configuration has it.
#[must_use]
pub fn digest(token: &str) -> [u8; DIGEST_BYTES] {
    sha256(token.as_bytes())
}

/// Draws a token of 32 bytes, written as 64 hexadecimal digits; none when the system gives no entropy.
#[must_use]
pub fn draw_token() -> Option<String> {
    let mut bytes = [0; 32];
    fill_random(&mut bytes).ok()?;
    Some(hex(&bytes))
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(&mut text, bytes);
    text
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 0x0f)]);
    }
}
