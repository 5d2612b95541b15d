//! Keys of tokens, and what they verify: JWT (RFC 7519), signed with HS256, RS256, ES256 or EdDSA.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use std::fmt;

/// Bytes of a token; longer ones are not read.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a shared secret at least, as RFC 7518 section 3.2 has it.
const SECRET_BYTES_MIN: usize = 32;
/// Keys of a provider that are kept.
const KEYS_MAX: usize = 64;

/// One key that tokens may be signed with.
#[derive(Clone, Debug)]
pub struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// What a token must say.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Who issued it; none takes any.
    pub issuer: Option<&'a str>,
    /// For whom it is; none takes any.
    pub audience: Option<&'a str>,
    /// By how many seconds clocks may differ.
    pub leeway_s: u64,
    /// The time, in seconds since 1970.
    pub now_s: u64,
}

/// Why a token is not good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// No key of its algorithm and name is known.
    Unknown,
    /// Why it is wrong.
    Wrong(String),
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no key of its algorithm and name is known"),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

/// Whether a text has the form of a token: three parts of Base64url.
#[must_use]
pub fn looks_like_token(text: &[u8]) -> bool {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= TOKEN_BYTES_MAX
        && text.starts_with(b"eyJ")
        && text.iter().filter(|byte| **byte == b'.').count() == 2
        && text.iter().all(legal)
}

impl Key {
    /// A shared secret, for HS256.
    ///
    /// # Errors
    /// It is too short.
    pub fn secret(secret: &[u8]) -> Result<Self, String> {
        check_secret(secret)?;
        Ok(Self { id: None, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) })
    }

    /// A public key in PEM.
    ///
    /// # Errors
    /// It is none.
    pub fn pem(bytes: &[u8]) -> Result<Self, String> {
        let of = |algorithm, key| Self { id: None, algorithm, key };
        DecodingKey::from_ed_pem(bytes)
            .map(|key| of(Algorithm::EdDSA, key))
            .or_else(|_| DecodingKey::from_ec_pem(bytes).map(|key| of(Algorithm::ES256, key)))
            .or_else(|_| DecodingKey::from_rsa_pem(bytes).map(|key| of(Algorithm::RS256, key)))
            .map_err(|_| "no public key of RSA, P-256 or Ed25519 in PEM".to_owned())
    }

    /// The keys of a set (JWKS) of a file.
    ///
    /// # Errors
    /// It is none, a secret is too short, or no key is usable.
    pub fn set(bytes: &[u8]) -> Result<Vec<Self>, String> {
        let set: JwkSet = serde_json::from_slice(bytes).map_err(|error| format!("no JWKS: {error}"))?;
        let keys: Vec<Self> =
            set.keys.iter().map(key_of).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        if keys.is_empty() {
            return Err("no key that verifies RS256, ES256, EdDSA or HS256".to_owned());
        }
        Ok(keys)
    }

    /// The public keys of a set that a provider publishes. A secret in it is no key: everybody can read it. What is not
    /// known is left out, so that a provider may have other keys beside.
    ///
    /// # Errors
    /// It is none, or no key is usable.
    pub fn public_set(bytes: &[u8]) -> Result<Vec<Self>, String> {
        let set: Value = serde_json::from_slice(bytes).map_err(|error| format!("no JWKS: {error}"))?;
        let all = set.get("keys").and_then(Value::as_array).ok_or("no JWKS: it has no list \"keys\"")?;
        let public = all.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        let public = public.filter(|jwk| !matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_)));
        let keys: Vec<Self> = public.filter_map(|jwk| key_of(&jwk).ok().flatten()).take(KEYS_MAX).collect();
        if keys.is_empty() {
            return Err("no public key that verifies RS256, ES256 or EdDSA".to_owned());
        }
        Ok(keys)
    }

    /// The claims of a token, if it was signed with one of the keys and is good at this time.
    ///
    /// # Errors
    /// Why it is not, for the log.
    pub fn verify(keys: &[Self], token: &[u8], expected: &Expected<'_>) -> Result<Value, KeyFault> {
        let wrong = |why: String| Err(KeyFault::Wrong(why));
        if !looks_like_token(token) {
            return wrong("it has not the form of a token".to_owned());
        }
        let header = decode_header(token).map_err(|error| KeyFault::Wrong(error.to_string()))?;
        // RFC 7515 section 4.1.11: what is critical has to be understood. We know no extension, and an empty list or no
        // list is not legal: so a token with "crit" is refused.
        if has_critical(token) {
            return wrong("its header has critical extensions (\"crit\"), and none is known here".to_owned());
        }
        let named = |key: &&Self| match (&header.kid, &key.id) {
            (Some(wanted), Some(id)) => wanted == id,
            (Some(_) | None, None) | (None, Some(_)) => true,
        };
        // The key says which algorithm, never the token: a public key must not be taken for a secret.
        let fitting = keys.iter().filter(|key| key.algorithm == header.alg).filter(named);
        let mut fault = KeyFault::Unknown;
        for key in fitting {
            match decode::<Value>(token, &key.key, &expected.validation(key.algorithm)) {
                Ok(found) => return expected.check_times(&found.claims).map(|()| found.claims),
                Err(error) => fault = KeyFault::Wrong(error.to_string()),
            }
        }
        Err(fault)
    }
}

impl Expected<'_> {
    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        // Times are compared with the time that is given: the library asks the system for it.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let mut required = vec!["exp"];
        if let Some(issuer) = self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        match self.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            None => validation.validate_aud = false,
        }
        validation.set_required_spec_claims(&required);
        validation
    }

    /// RFC 7519 sections 4.1.4 and 4.1.5; numbers with fractions are legal (section 2).
    fn check_times(&self, claims: &Value) -> Result<(), KeyFault> {
        let wrong = |why: &str| Err(KeyFault::Wrong(why.to_owned()));
        let time = |name: &str| claims.get(name).map(|value| value.as_f64().filter(|time| time.is_finite()));
        let (now, leeway) = (self.now_s as f64, self.leeway_s as f64);
        match time("exp") {
            None | Some(None) => return wrong("Missing required claim: exp"),
            Some(Some(end)) if end + leeway <= now => return wrong("ExpiredSignature"),
            Some(Some(_)) => {}
        }
        match time("nbf") {
            None => Ok(()),
            Some(Some(from)) if from <= now + leeway => Ok(()),
            Some(_) => wrong("ImmatureSignature"),
        }
    }
}

/// Whether the header has a member "crit", whatever its value.
fn has_critical(token: &[u8]) -> bool {
    let header = token.split(|byte| *byte == b'.').next().unwrap_or_default();
    let plain = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let header = serde_json::from_slice::<serde_json::Map<String, Value>>(&plain);
    header.map_or(true, |header| header.contains_key("crit"))
}

fn check_secret(secret: &[u8]) -> Result<(), String> {
    match secret.len() {
        SECRET_BYTES_MIN.. => Ok(()),
        bytes => Err(format!("a secret of {bytes} bytes, expected {SECRET_BYTES_MIN} at least")),
    }
}

/// One key of a set; none where it is not for us: of another algorithm, or for something else than signatures (RFC 7517
/// sections 4.2 to 4.4).
fn key_of(jwk: &Jwk) -> Result<Option<Key>, String> {
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(p) if p.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(p) if p.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        AlgorithmParameters::OctetKey(p) => {
            check_secret(&URL_SAFE_NO_PAD.decode(&p.value).unwrap_or_default())?;
            (Algorithm::HS256, KeyAlgorithm::HS256)
        }
        _ => return Ok(None),
    };
    let common = &jwk.common;
    let verifies = common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify))
        && common.key_algorithm.is_none_or(|of| of == named);
    let key = DecodingKey::from_jwk(jwk).ok().filter(|_| verifies);
    Ok(key.map(|key| Key { id: common.key_id.clone(), algorithm, key }))
}
