//! Tokens: JWT (RFC 7519), signed with HS256, RS256, ES256 or EdDSA.

use crate::config::JwtConfig;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tieline_identity::{Expected, Key};

pub use tieline_identity::looks_like_token;

/// Bytes of a file of keys.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Roles of a token.
const ROLES_MAX: usize = 64;

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
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (issuer, audience) = (self.config.issuer.as_deref(), self.config.audience.as_deref());
        let expected = Expected { issuer, audience, leeway_s: self.config.leeway.as_secs(), now_s };
        let claims = Key::verify(&self.keys, token, &expected).map_err(|fault| fault.to_string())?;
        self.claims(&claims)
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

fn read_keys(file: &Path) -> Result<Vec<Key>, String> {
    let bytes = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("{bytes} bytes, expected {FILE_BYTES_MAX} at most"));
    }
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Key::set(&bytes),
        Some("pem") => Key::pem(&bytes).map(|key| vec![key]),
        Some(_) | None => Key::secret(bytes.trim_ascii()).map(|key| vec![key]),
    }
}
