//! Tokens: JWT (RFC 7519), signed with HS256, RS256, ES256 or EdDSA.

use crate::config::JwtConfig;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Bytes of a token; longer ones are not read.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a file of keys.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a shared secret at least, as RFC 7518 section 3.2 has it.
const SECRET_BYTES_MIN: usize = 32;
/// Roles of a token.
const ROLES_MAX: usize = 64;

/// One key that tokens may be signed with.
#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// The keys, and what is asked of a token.
#[derive(Clone, Debug)]
pub struct Tokens {
    config: JwtConfig,
    keys: Vec<Key>,
}

/// What a token says that was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The user.
    pub user: String,
    /// Its roles; none where the token does not say.
    pub roles: Option<Vec<String>>,
    /// Seconds since 1970 at which it ends.
    pub expires: u64,
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

impl Tokens {
    /// Reads the keys.
    ///
    /// # Errors
    /// The file that cannot be used, and why.
    pub fn load(config: &JwtConfig) -> Result<Self, (PathBuf, String)> {
        let mut keys = Vec::new();
        for file in &config.keys {
            keys.extend(read_keys(file).map_err(|why| (file.clone(), why))?);
        }
        Ok(Self { config: config.clone(), keys })
    }

    /// What a token says, if it was signed with one of the keys and is good at this time.
    ///
    /// # Errors
    /// Why it is not, for the log.
    pub fn verify(&self, token: &[u8]) -> Result<Claims, String> {
        if !looks_like_token(token) {
            return Err("it has not the form of a token".to_owned());
        }
        let header = decode_header(token).map_err(|error| error.to_string())?;
        // RFC 7515 section 4.1.11: what is critical has to be understood. We know no extension, and an empty list or no
        // list is not legal: so a token with "crit" is refused.
        if has_critical(token) {
            return Err("its header has critical extensions (\"crit\"), and none is known here".to_owned());
        }
        let named = |key: &&Key| match (&header.kid, &key.id) {
            (Some(wanted), Some(id)) => wanted == id,
            (Some(_) | None, None) | (None, Some(_)) => true,
        };
        // The key says which algorithm, never the token: a public key must not be taken for a secret.
        let fitting = self.keys.iter().filter(|key| key.algorithm == header.alg).filter(named);
        let mut why = "no key of its algorithm and name is known".to_owned();
        for key in fitting {
            match decode::<Value>(token, &key.key, &self.validation(key.algorithm)) {
                Ok(found) => return self.claims(&found.claims),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.config.leeway.as_secs();
        validation.validate_nbf = true;
        let mut required = vec!["exp"];
        if let Some(issuer) = &self.config.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        match &self.config.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            None => validation.validate_aud = false,
        }
        validation.set_required_spec_claims(&required);
        validation
    }

    fn claims(&self, claims: &Value) -> Result<Claims, String> {
        let JwtConfig { user_claim, roles_claim, .. } = &self.config;
        let user = claims.get(user_claim).and_then(Value::as_str).filter(|user| !user.is_empty());
        let user = user.ok_or_else(|| format!("the claim {user_claim:?} is no text"))?.to_owned();
        let roles = match claims.get(roles_claim) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.split_whitespace().map(str::to_owned).collect()),
            Some(Value::Array(items)) => {
                Some(items.iter().filter_map(Value::as_str).map(str::to_owned).take(ROLES_MAX).collect())
            }
            Some(_) => return Err(format!("the claim {roles_claim:?} is neither a list nor a text")),
        };
        // Numbers with fractions are legal (RFC 7519 section 2).
        let expires = claims.get("exp").and_then(|exp| exp.as_u64().or_else(|| exp.as_f64().map(|exp| exp as u64)));
        Ok(Claims { user, roles, expires: expires.ok_or_else(|| "the claim \"exp\" is no time".to_owned())? })
    }
}

/// Whether the header has a member "crit", whatever its value.
fn has_critical(token: &[u8]) -> bool {
    let header = token.split(|byte| *byte == b'.').next().unwrap_or_default();
    let plain = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
    let header = serde_json::from_slice::<serde_json::Map<String, Value>>(&plain);
    header.map_or(true, |header| header.contains_key("crit"))
}

fn read_keys(file: &Path) -> Result<Vec<Key>, String> {
    let bytes = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("{bytes} bytes, expected {FILE_BYTES_MAX} at most"));
    }
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => jwks(&bytes),
        Some("pem") => pem(&bytes).map(|key| vec![key]),
        Some(_) | None => {
            let secret = bytes.trim_ascii();
            check_secret(secret)?;
            Ok(vec![Key { id: None, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) }])
        }
    }
}

fn check_secret(secret: &[u8]) -> Result<(), String> {
    match secret.len() {
        SECRET_BYTES_MIN.. => Ok(()),
        bytes => Err(format!("a secret of {bytes} bytes, expected {SECRET_BYTES_MIN} at least")),
    }
}

fn jwks(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_slice(bytes).map_err(|error| format!("no JWKS: {error}"))?;
    let keys: Vec<Key> = set.keys.iter().map(key_of).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    if keys.is_empty() {
        return Err("no key that verifies RS256, ES256, EdDSA or HS256".to_owned());
    }
    Ok(keys)
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

fn pem(bytes: &[u8]) -> Result<Key, String> {
    let of = |algorithm, key| Key { id: None, algorithm, key };
    DecodingKey::from_ed_pem(bytes)
        .map(|key| of(Algorithm::EdDSA, key))
        .or_else(|_| DecodingKey::from_ec_pem(bytes).map(|key| of(Algorithm::ES256, key)))
        .or_else(|_| DecodingKey::from_rsa_pem(bytes).map(|key| of(Algorithm::RS256, key)))
        .map_err(|_| "no public key of RSA, P-256 or Ed25519 in PEM".to_owned())
}
