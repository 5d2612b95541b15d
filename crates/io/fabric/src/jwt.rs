//! JWTs as NATS has them: base64url of JSON, signed with ed25519 by an nkey.
//!
//! ```text
//! {"typ":"JWT","alg":"ed25519-nkey"} . claims . signature of all before
//! ```
//!
//! `iss` is the public key that signed. Of the versions only the second is read and written.

use crate::keys::{KeyKind, Keys, is_signed};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::fmt;

/// Bytes of a JWT that is read: a server's request has at most the longest CONNECT line (4 kB) and a few names in it, or the
/// certificates of a client besides.
pub const JWT_BYTES_MAX: usize = 64 * 1024;

/// Why a text is no JWT that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtError {
    /// It is longer than [`JWT_BYTES_MAX`].
    Long,
    /// It has not three parts in base64url, of which the first two are JSON.
    Form,
    /// Its header names another algorithm.
    Algorithm,
    /// The claims lack something, or have it in another type.
    Claims,
    /// The signature is not that of the key that it names, or the key is of another kind.
    Signature,
}

impl fmt::Display for JwtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Long => "it is longer than 64 kB",
            Self::Form => "it is no JWT: expected three parts in base64url, of which two are JSON",
            Self::Algorithm => "its algorithm is another one, expected ed25519-nkey",
            Self::Claims => "its claims are not those of a request",
            Self::Signature => "its signature is wrong",
        })
    }
}

impl std::error::Error for JwtError {}

#[derive(Deserialize)]
struct Header<'a> {
    typ: &'a str,
    alg: &'a str,
}

#[derive(Deserialize)]
struct Issuer<'a> {
    iss: &'a str,
}

/// Signs claims; `iss` is added.
pub(crate) fn encode(mut claims: Json, keys: &Keys) -> String {
    claims["iss"] = Json::from(keys.public());
    sign(claims.to_string().as_bytes(), keys)
}

/// Signs claims as they are.
pub(crate) fn sign(claims: &[u8], keys: &Keys) -> String {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" }).to_string();
    let [header, claims] = [header.as_bytes(), claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(keys.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Reads claims of any size that was limited before, from anybody: their form and their signature are right, and the key that signed is
/// of a kind. Whether the key is to be believed, and what the claims mean, is the caller's question.
pub(crate) fn decode<T: DeserializeOwned>(text: &[u8], kind: KeyKind) -> Result<(String, T), JwtError> {
    if text.len() > JWT_BYTES_MAX {
        return Err(JwtError::Long);
    }
    let text = str::from_utf8(text).map_err(|_| JwtError::Form)?;
    let (signed, signature) = text.rsplit_once('.').ok_or(JwtError::Form)?;
    let (header, claims) = signed.split_once('.').ok_or(JwtError::Form)?;
    let part = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| JwtError::Form);
    let (header, claims, signature) = (part(header)?, part(claims)?, part(signature)?);
    let Header { typ, alg } = serde_json::from_slice(&header).map_err(|_| JwtError::Form)?;
    if !typ.eq_ignore_ascii_case("JWT") || alg != "ed25519-nkey" {
        return Err(JwtError::Algorithm);
    }
    let Issuer { iss } = serde_json::from_slice(&claims).map_err(|_| JwtError::Form)?;
    if !is_signed(iss, kind, signed.as_bytes(), &signature) {
        return Err(JwtError::Signature);
    }
    let read = serde_json::from_slice(&claims).map_err(|_| JwtError::Claims)?;
    Ok((iss.to_owned(), read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: JwtError) {
        assert_eq!(decode::<Json>(text.as_bytes(), KeyKind::Server).unwrap_err(), expect, "{text}");
    }

    #[test]
    fn claims_come_back_and_nothing_else_is_read() {
        let keys = Keys::generate(KeyKind::Server);
        let text = encode(json!({ "sub": "x", "nats": { "version": 2 } }), &keys);
        let (issuer, claims) = decode::<Json>(text.as_bytes(), KeyKind::Server).unwrap();
        assert_eq!(issuer, keys.public());
        assert_eq!(claims, json!({ "sub": "x", "nats": { "version": 2 }, "iss": keys.public() }));
        assert_eq!(decode::<Json>(text.as_bytes(), KeyKind::User).unwrap_err(), JwtError::Signature);
        assert_eq!(decode::<u8>(text.as_bytes(), KeyKind::Server).unwrap_err(), JwtError::Claims);

        let parts: Vec<_> = text.split('.').collect();
        let [header, body, signature] = parts[..] else { panic!("{text}") };
        check("", JwtError::Form);
        check(&format!("{header}.{body}"), JwtError::Form);
        check(&format!("{header}.{body}.{signature}."), JwtError::Form);
        check(&format!("{header}.{body}.{signature}="), JwtError::Form);
        check(&format!("{header}.{body}."), JwtError::Signature);
        let none = URL_SAFE_NO_PAD.encode("{\"typ\":\"JWT\",\"alg\":\"none\"}");
        check(&format!("{none}.{body}."), JwtError::Algorithm);
        let other = encode(json!({ "sub": "y" }), &Keys::generate(KeyKind::Server));
        let other = other.split('.').nth(1).unwrap();
        check(&format!("{header}.{other}.{signature}"), JwtError::Signature);
        check(&"x".repeat(JWT_BYTES_MAX + 1), JwtError::Long);
        let deep = URL_SAFE_NO_PAD.encode("[".repeat(40_000));
        check(&format!("{header}.{deep}.{signature}"), JwtError::Form);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), parts in "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,80}\\.[A-Za-z0-9_-]{0,90}") {
            prop_assert!(decode::<Json>(&bytes, KeyKind::Server).is_err());
            prop_assert!(decode::<Json>(parts.as_bytes(), KeyKind::Server).is_err());
        }

        #[test]
        fn a_changed_byte_is_refused(at in any::<prop::sample::Index>(), byte: u8) {
            let keys = Keys::generate(KeyKind::Server);
            let mut text = encode(json!({ "sub": "x" }), &keys).into_bytes();
            let at = at.index(text.len());
            prop_assume!(text[at] != byte);
            text[at] = byte;
            prop_assert!(decode::<Json>(&text, KeyKind::Server).is_err());
        }
    }
}
