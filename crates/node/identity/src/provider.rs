//! The provider: what is configured, and what it says of itself (OpenID Connect Discovery 1.0).

use crate::request::with_query;
use crate::{Begun, Fault, Key, Request, RoleMap, encoded, write_form};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::time::Duration;
use tieline_core::Instant;

/// How long what the provider says of itself is used before it is asked again.
const FRESH_FOR: Duration = Duration::from_secs(3600);
/// How long after that it is used while the provider does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// How often keys are asked for because of a name that is not known.
const KEYS_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of an address.
const ADDRESS_BYTES_MAX: usize = 2048;

/// What is configured about a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name in tokens, below which its discovery document is.
    pub issuer: String,
    /// The name of this node there.
    pub client_id: String,
    /// The address of this node, as browsers have it, without a `/` at its end.
    pub address: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// The claim with the user's name.
    pub user_claim: String,
    /// The claim with the groups.
    pub groups_claim: String,
    /// Roles by group.
    pub roles: RoleMap,
    /// By how many seconds clocks may differ.
    pub leeway_s: u64,
}

/// What a provider says of itself.
#[derive(Clone, Debug)]
pub struct Known {
    pub(crate) authorization: String,
    pub(crate) token: String,
    pub(crate) keys_at: String,
    pub(crate) userinfo: Option<String>,
    pub(crate) end_session: Option<String>,
    pub(crate) device: Option<String>,
    /// Whether the secret goes into the form (`client_secret_post`).
    pub(crate) secret_in_form: bool,
    pub(crate) says_issuer: bool,
    pub(crate) keys: Vec<Key>,
    pub(crate) fresh_until: Instant,
    pub(crate) keys_asked: Instant,
}

/// Whether an address may be asked or led to: `https`, or `http` at this machine, a host, and nothing that would be read
/// in two ways.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'#' | b'\\' | b'"' | b'<' | b'>');
    if text.len() > ADDRESS_BYTES_MAX || !text.bytes().all(legal) {
        return false;
    }
    let host = |rest: &str| {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        host.to_ascii_lowercase()
    };
    match text.split_once("://") {
        Some(("https", rest)) => !host(rest).is_empty(),
        Some(("http", rest)) => {
            let host = host(rest);
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Some(_) | None => false,
    }
}

impl Provider {
    /// Where its discovery document is.
    pub(crate) fn discovery(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'))
    }

    /// Where browsers come back to.
    #[must_use]
    pub fn redirect(&self) -> String {
        format!("{}/login/callback", self.address)
    }

    /// Where a browser is led to log in.
    #[must_use]
    pub fn authorization(&self, known: &Known, begun: &Begun) -> String {
        let pairs = [
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", &self.redirect()),
            ("scope", &self.scopes.join(" ")),
            ("state", &begun.state),
            ("nonce", &begun.nonce),
            ("code_challenge", &begun.challenge),
            ("code_challenge_method", "S256"),
        ];
        with_query(&known.authorization, &pairs)
    }

    /// Where a browser is led to log out at the provider, too (RP-Initiated Logout 1.0); none where it has no such address.
    #[must_use]
    pub fn end_session(&self, known: &Known, id_token: &str) -> Option<String> {
        let back = format!("{}/login", self.address);
        let mut pairs = vec![("client_id", self.client_id.as_str()), ("post_logout_redirect_uri", &back)];
        if !id_token.is_empty() {
            pairs.push(("id_token_hint", id_token));
        }
        Some(with_query(known.end_session.as_deref()?, &pairs))
    }

    /// A request with a form and what this node shows (RFC 6749 section 2.3.1).
    pub(crate) fn authenticated(&self, known: &Known, url: &str, secret: &str, pairs: &[(&str, &str)]) -> Request {
        let mut pairs = pairs.to_vec();
        let mut authorization = None;
        if secret.is_empty() || known.secret_in_form {
            pairs.push(("client_id", &self.client_id));
        }
        if !secret.is_empty() && known.secret_in_form {
            pairs.push(("client_secret", secret));
        } else if !secret.is_empty() {
            let shown = STANDARD.encode(format!("{}:{}", encoded(&self.client_id), encoded(secret)));
            authorization = Some(format!("Basic {shown}"));
        }
        Request { url: url.to_owned(), authorization, form: Some(write_form(&pairs)) }
    }
}

impl Known {
    /// Reads a discovery document; the keys are those of before.
    pub(crate) fn read(provider: &Provider, body: &[u8], now: Instant, keys: Vec<Key>) -> Result<Self, Fault> {
        let wrong = |why: String| Fault::Answer(format!("discovery: {why}"));
        let document: Value = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        // Discovery 1.0 section 4.3: exactly the same, so that no provider speaks for another.
        if text("issuer") != Some(provider.issuer.as_str()) {
            return Err(wrong(format!("the issuer is {:?}, expected {:?}", text("issuer"), provider.issuer)));
        }
        let address = |name: &str| match text(name) {
            Some(address) if is_address(address) => Ok(Some(address.to_owned())),
            Some(address) => Err(wrong(format!("{name} is {address:?}, expected an https address"))),
            None => Ok(None),
        };
        let required = |name: &str| address(name)?.ok_or_else(|| wrong(format!("it has no {name}")));
        let lists = |name: &str, word: &str| {
            let all = document.get(name).and_then(Value::as_array)?;
            Some(all.iter().any(|known| known.as_str() == Some(word)))
        };
        if lists("code_challenge_methods_supported", "S256") == Some(false) {
            return Err(wrong("it has no PKCE with S256".to_owned()));
        }
        const METHODS: &str = "token_endpoint_auth_methods_supported";
        let secret_in_form =
            lists(METHODS, "client_secret_basic") == Some(false) && lists(METHODS, "client_secret_post") == Some(true);
        Ok(Self {
            authorization: required("authorization_endpoint")?,
            token: required("token_endpoint")?,
            keys_at: required("jwks_uri")?,
            userinfo: address("userinfo_endpoint")?,
            end_session: address("end_session_endpoint")?,
            device: address("device_authorization_endpoint")?,
            secret_in_form,
            says_issuer: document.get("authorization_response_iss_parameter_supported") == Some(&Value::Bool(true)),
            keys,
            fresh_until: now + FRESH_FOR,
            keys_asked: now,
        })
    }

    /// Whether the provider need not be asked again.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now < self.fresh_until
    }

    /// The same for a while, because the provider does not answer.
    pub(crate) fn kept(&self, now: Instant) -> Self {
        Self { fresh_until: now + RETRY_AFTER, ..self.clone() }
    }

    /// Whether keys may be asked for because of a name that is not known.
    pub(crate) fn may_ask_keys(&self, now: Instant) -> bool {
        now >= self.keys_asked + KEYS_INTERVAL
    }

    /// Whether it can log in devices without a browser.
    #[must_use]
    pub const fn has_device_flow(&self) -> bool {
        self.device.is_some()
    }

    /// Whether its answers to browsers name it (RFC 9207).
    #[must_use]
    pub const fn says_issuer(&self) -> bool {
        self.says_issuer
    }
}
