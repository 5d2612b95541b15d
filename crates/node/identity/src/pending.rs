//! Logins under way: from the redirect to the provider until the browser comes back.
//!
//! A login is bound to the browser that began it by a cookie: an address with somebody else's code logs nobody in
//! (RFC 6749 section 10.12). It is used once, whatever comes of it.

use crate::{Fault, Known, Provider};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::HashMap;
use std::time::Duration;
use tieline_access::Network;
use tieline_core::Instant;

/// How long somebody may take at the provider.
const LASTS: Duration = Duration::from_secs(600);
/// Logins under way; one more is refused.
const PENDING_MAX: usize = 4096;
/// Logins under way from one network; with one more, its own oldest goes.
const PENDING_OF_NETWORK_MAX: usize = 64;
/// Bytes of a code.
const CODE_BYTES_MAX: usize = 4096;

/// Logins under way.
#[derive(Debug, Default)]
pub struct Pending {
    logins: HashMap<String, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    browser: String,
    network: Network,
    until: Instant,
    login: PendingLogin,
}

/// What is known of a login when the browser comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLogin {
    /// What the ID token must have.
    pub nonce: String,
    /// What shows that who asks for the token began the login (RFC 7636).
    pub verifier: String,
    /// Where the browser goes on.
    pub to: String,
}

/// A login that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Names the login at the provider.
    pub state: String,
    /// What the ID token must have.
    pub nonce: String,
    /// The digest of the verifier.
    pub challenge: String,
    /// What the browser keeps in a cookie.
    pub browser: String,
}

impl Pending {
    /// Begins a login; none where too many are under way.
    pub fn begin(&mut self, now: Instant, network: Network, to: &str, random: &[u8; 128]) -> Option<Begun> {
        self.logins.retain(|_, waiting| waiting.until > now);
        let own = self.logins.iter().filter(|(_, waiting)| waiting.network == network);
        if own.clone().count() >= PENDING_OF_NETWORK_MAX {
            let oldest = own.min_by_key(|(_, waiting)| waiting.until).map(|(state, _)| state.clone());
            oldest.and_then(|state| self.logins.remove(&state));
        }
        if self.logins.len() >= PENDING_MAX {
            return None;
        }
        let mut parts = random.chunks(32).map(|part| URL_SAFE_NO_PAD.encode(part));
        let mut next = || parts.next().unwrap_or_default();
        let (state, nonce, verifier, browser) = (next(), next(), next(), next());
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let login = PendingLogin { nonce: nonce.clone(), verifier, to: to.to_owned() };
        let waiting = Waiting { browser: browser.clone(), network, until: now + LASTS, login };
        self.logins.insert(state.clone(), waiting);
        Some(Begun { state, nonce, challenge, browser })
    }

    /// The login that a browser comes back with; it is no longer under way.
    ///
    /// # Errors
    /// There is none, it is over, or another browser began it.
    pub fn take(&mut self, now: Instant, state: &str, browser: Option<&str>) -> Result<PendingLogin, Fault> {
        let none = Fault::Login("this login is not under way: it is over, was used before, or was never begun");
        let waiting = self.logins.remove(state).filter(|waiting| waiting.until > now).ok_or(none)?;
        let same = |browser: &str| verify_slices_are_equal(browser.as_bytes(), waiting.browser.as_bytes()).is_ok();
        match browser.is_some_and(same) {
            true => Ok(waiting.login),
            false => Err(Fault::Login("this login was begun by another browser, or at another address of this node")),
        }
    }

    /// How many are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.logins.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.logins.is_empty()
    }
}

/// What a browser comes back with (OpenID Connect Core 1.0 sections 3.1.2.5 and 3.1.2.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The login.
    pub state: String,
    answer: Result<String, String>,
    issuer: Option<String>,
}

impl Callback {
    /// Reads the pairs of the query.
    ///
    /// # Errors
    /// One is there twice or is missing.
    pub fn read(pairs: impl Iterator<Item = (String, String)>) -> Result<Self, Fault> {
        let mut found: [Option<String>; 5] = Default::default();
        for (name, value) in pairs {
            let at = ["state", "code", "error", "error_description", "iss"].iter().position(|known| *known == name);
            let Some(slot) = at.and_then(|at| found.get_mut(at)) else { continue };
            if slot.replace(value).is_some() {
                return Err(Fault::Login("a parameter is there twice"));
            }
        }
        let [state, code, error, description, issuer] = found;
        let state = state.filter(|state| !state.is_empty()).ok_or(Fault::Login("the parameter state is missing"))?;
        let answer = match (code, error) {
            (_, Some(error)) => Err(words(&error, description.as_deref())),
            (Some(code), None) if !code.is_empty() && code.len() <= CODE_BYTES_MAX => Ok(code),
            (Some(_) | None, None) => return Err(Fault::Login("the parameter code is missing")),
        };
        Ok(Self { state, answer, issuer })
    }

    /// The code, if this provider gave one.
    ///
    /// # Errors
    /// The provider refuses, or it is the answer of another (RFC 9207).
    pub fn code(self, provider: &Provider, known: &Known) -> Result<String, Fault> {
        let is_own = match &self.issuer {
            Some(issuer) => *issuer == provider.issuer,
            None => !known.says_issuer(),
        };
        if !is_own {
            return Err(Fault::Login("the answer is of another identity provider"));
        }
        self.answer.map_err(Fault::Refused)
    }
}

/// An error of OAuth 2.0 in words; what the provider writes is abridged, and has no control characters.
pub(crate) fn words(error: &str, description: Option<&str>) -> String {
    let plain = |text: &str| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
    match description {
        Some(more) => format!("{}: {}", plain(error), plain(more)),
        None => plain(error),
    }
}
