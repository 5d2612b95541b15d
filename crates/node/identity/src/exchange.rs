//! One exchange with the provider, as a machine: what to send next, and what comes of it.
//!
//! ```text
//! Discovery ─▶ Keys ─▶ Goal ┬─ Address ────────────────────────────────────────▶ Known
//!  (skipped while fresh)    ├─ Code, Poll ─▶ Token ─▶ [Keys] ─▶ [Userinfo] ────▶ Person
//!                           ├─ Device ─────▶ Device ───────────────────────────▶ DeviceCode
//!                           └─ Logout ─────▶ [Keys] ───────────────────────────▶ Ended
//! ```
//!
//! Keys are asked for once more where a token names one that is not known. Each request has one answer, and each state at
//! most one request: an exchange ends after six.

use crate::keys::{Expected, KeyFault};
use crate::pending::words;
use crate::person::{claim, groups};
use crate::request::Answer;
use crate::{DeviceCode, Fault, Key, Known, Person, Provider, Request, is_address};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Instant;

/// How long a code of a device is good where the provider says more.
const LASTS_MAX: u64 = 1800;
/// Seconds between two requests for a device, where the provider does not say (RFC 8628 section 3.2).
const INTERVAL_S: u64 = 5;
/// Bytes of codes and tokens that a provider gives.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// The event of a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.4).
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// What an exchange is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To know where browsers are led.
    Address,
    /// To log in by a code that a browser has brought.
    Code {
        /// The code.
        code: String,
        /// The verifier of PKCE.
        verifier: String,
        /// What the ID token must have.
        nonce: String,
    },
    /// To begin a login of a device.
    Device,
    /// To ask whether a device's login is confirmed.
    Poll {
        /// The provider's name of it.
        device_code: String,
    },
    /// To check a logout token.
    Logout {
        /// The token.
        token: String,
    },
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider is known.
    Ready,
    /// Somebody has logged in.
    Person(Person),
    /// A device's login has begun.
    Device(DeviceCode),
    /// A device's login is not confirmed yet.
    Pending {
        /// Whether the provider wants to be asked less often.
        slow_down: bool,
    },
    /// The provider has ended a session.
    Ended(Ended),
}

/// Whose sessions a provider has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The name of the person there; none where the token has the session alone.
    pub subject: Option<String>,
    /// The session; none ends all of the person.
    pub session: Option<String>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this, and give the answer to [`Exchange::handle_answer`].
    Send(Request),
    /// It is over.
    Done(Result<Outcome, Fault>),
}

#[derive(Clone, Debug)]
enum State {
    Discovery,
    Keys,
    Ask,
    /// A token names a key that is not known.
    KeysAgain(Tokens),
    Userinfo(Tokens, Value),
    Done(Result<Outcome, Fault>),
}

#[derive(Clone, Debug)]
struct Tokens {
    id: String,
    access: Option<String>,
}

/// An exchange with the provider.
#[derive(Debug)]
pub struct Exchange {
    provider: Arc<Provider>,
    secret: String,
    known: Option<Arc<Known>>,
    goal: Goal,
    state: State,
    now_s: u64,
}

impl Exchange {
    /// Begins one, with what is known of the provider, and seconds since 1970 for times in tokens. The secret is empty for
    /// a client without one.
    #[must_use]
    pub fn new(
        provider: Arc<Provider>,
        secret: &str,
        known: Option<Arc<Known>>,
        goal: Goal,
        (now, now_s): (Instant, u64),
    ) -> Self {
        let is_fresh = known.as_ref().is_some_and(|known| known.is_fresh(now));
        let state = if is_fresh { State::Ask } else { State::Discovery };
        let mut exchange = Self { provider, secret: secret.to_owned(), known, goal, state, now_s };
        if is_fresh {
            exchange.begin(now);
        }
        exchange
    }

    /// What is known of the provider by now.
    #[must_use]
    pub fn known(&self) -> Option<Arc<Known>> {
        self.known.clone()
    }

    /// What to do next. The same until an answer comes.
    #[must_use]
    pub fn poll(&self) -> Step {
        let known = self.known.as_deref();
        let request = match (&self.state, known) {
            (State::Done(outcome), _) => return Step::Done(outcome.clone()),
            (State::Discovery, _) => Some(Request::get(&self.provider.discovery())),
            (State::Keys | State::KeysAgain(_), Some(known)) => Some(Request::get(&known.keys_at)),
            (State::Ask, Some(known)) => self.request(known),
            (State::Userinfo(tokens, _), Some(known)) => {
                let shown = tokens.access.as_ref().map(|token| format!("Bearer {token}"));
                known.userinfo.as_deref().map(|url| Request { authorization: shown, ..Request::get(url) })
            }
            (_, None) => None,
        };
        match request {
            Some(request) => Step::Send(request),
            None => Step::Done(Err(Fault::Answer("the provider has no address for this".to_owned()))),
        }
    }

    fn request(&self, known: &Known) -> Option<Request> {
        let ask = |url: &str, pairs: &[(&str, &str)]| self.provider.authenticated(known, url, &self.secret, pairs);
        match &self.goal {
            Goal::Code { code, verifier, .. } => {
                let redirect = self.provider.redirect();
                let pairs = [
                    ("grant_type", "authorization_code"),
                    ("code", code),
                    ("redirect_uri", &redirect),
                    ("code_verifier", verifier),
                ];
                Some(ask(&known.token, &pairs))
            }
            Goal::Device => Some(ask(known.device.as_deref()?, &[("scope", &self.provider.scopes.join(" "))])),
            Goal::Poll { device_code } => {
                let grant = "urn:ietf:params:oauth:grant-type:device_code";
                Some(ask(&known.token, &[("grant_type", grant), ("device_code", device_code)]))
            }
            Goal::Address | Goal::Logout { .. } => None,
        }
    }

    /// An answer has come, or why there is none.
    pub fn handle_answer(&mut self, now: Instant, answer: Result<Answer, String>) {
        let state = std::mem::replace(&mut self.state, State::Done(Err(Fault::Answer("it came twice".to_owned()))));
        match state {
            State::Discovery => self.discovered(now, answer),
            State::Keys => match whole(answer).and_then(|body| self.take_keys(now, &body)) {
                Ok(()) => self.begin(now),
                Err(fault) => self.without_keys(now, fault),
            },
            State::Ask => self.answered(now, answer),
            State::KeysAgain(tokens) => match whole(answer).and_then(|body| self.take_keys(now, &body)) {
                Ok(()) => self.verify(tokens, None),
                Err(fault) => self.done(Err(fault)),
            },
            State::Userinfo(tokens, claims) => {
                let done = whole(answer).and_then(|body| self.informed(&tokens, claims, &body));
                self.done(done.map(Outcome::Person));
            }
            State::Done(_) => self.state = state,
        }
    }

    fn discovered(&mut self, now: Instant, answer: Result<Answer, String>) {
        let keys = self.known.as_ref().map(|known| known.keys.clone()).unwrap_or_default();
        let read = whole(answer).and_then(|body| Known::read(&self.provider, &body, now, keys));
        match (read, &self.known) {
            (Ok(known), _) => {
                self.known = Some(Arc::new(known));
                self.state = State::Keys;
            }
            // It goes on with what was known: a provider that is restarted ends nobody's login.
            (Err(Fault::Away(_)), Some(known)) => {
                self.known = Some(Arc::new(known.kept(now)));
                self.begin(now);
            }
            (Err(fault), _) => self.done(Err(fault)),
        }
    }

    /// Keys of before are used for a while; what is known without keys is not known.
    fn without_keys(&mut self, now: Instant, fault: Fault) {
        let kept = self.known.take().filter(|known| !known.keys.is_empty()).map(|known| Arc::new(known.kept(now)));
        match (kept, &fault) {
            (Some(kept), Fault::Away(_)) => {
                self.known = Some(kept);
                self.begin(now);
            }
            (None, _) | (Some(_), _) => self.done(Err(fault)),
        }
    }

    fn take_keys(&mut self, now: Instant, body: &[u8]) -> Result<(), Fault> {
        let keys = Key::public_set(body).map_err(Fault::Answer)?;
        if let Some(known) = &self.known {
            self.known = Some(Arc::new(Known { keys, keys_asked: now, ..(**known).clone() }));
        }
        Ok(())
    }

    /// The provider is known.
    fn begin(&mut self, now: Instant) {
        match &self.goal {
            Goal::Address => self.done(Ok(Outcome::Ready)),
            Goal::Logout { token } => {
                let tokens = Tokens { id: token.clone(), access: None };
                self.verify(tokens, Some(now));
            }
            Goal::Code { .. } | Goal::Device | Goal::Poll { .. } => self.state = State::Ask,
        }
    }

    fn done(&mut self, outcome: Result<Outcome, Fault>) {
        self.state = State::Done(outcome);
    }

    fn answered(&mut self, now: Instant, answer: Result<Answer, String>) {
        let read = match accepted(answer) {
            Ok(body) => body,
            Err(Fault::Refused(error))
                if matches!(self.goal, Goal::Poll { .. }) && error == "authorization_pending" =>
            {
                return self.done(Ok(Outcome::Pending { slow_down: false }));
            }
            Err(Fault::Refused(error)) if matches!(self.goal, Goal::Poll { .. }) && error == "slow_down" => {
                return self.done(Ok(Outcome::Pending { slow_down: true }));
            }
            Err(fault) => return self.done(Err(fault)),
        };
        if self.goal == Goal::Device {
            return self.done(device_code(&read).map(Outcome::Device));
        }
        let text = |name: &str| {
            let text = read.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty() && text.len() <= TOKEN_BYTES_MAX).map(str::to_owned)
        };
        // A token for another header than `Authorization: Bearer` is none that we can use.
        let access = text("access_token").filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        match text("id_token") {
            Some(id) => self.verify(Tokens { id, access }, Some(now)),
            None => self.done(Err(Fault::Answer("it has no ID token: is the scope openid asked for?".to_owned()))),
        }
    }

    /// Verifies a token. With a time, keys may be asked for once more.
    fn verify(&mut self, tokens: Tokens, again: Option<Instant>) {
        let Some(known) = &self.known else { return };
        let expected = Expected {
            issuer: Some(&self.provider.issuer),
            audience: Some(&self.provider.client_id),
            leeway_s: self.provider.leeway_s,
            now_s: self.now_s,
        };
        let is_logout = matches!(self.goal, Goal::Logout { .. });
        let checked = match Key::verify(&known.keys, tokens.id.as_bytes(), &expected) {
            Err(KeyFault::Unknown) if again.is_some_and(|now| known.may_ask_keys(now)) => {
                self.state = State::KeysAgain(tokens);
                return;
            }
            Err(error) => Err(Fault::Token(error.to_string())),
            Ok(claims) if is_logout => return self.done(ended(&claims).map(Outcome::Ended)),
            Ok(claims) => self.check(&claims).map(|()| claims),
        };
        match checked {
            Ok(claims) if self.needs_userinfo(&claims, &tokens) => self.state = State::Userinfo(tokens, claims),
            Ok(claims) => self.done(self.person(&tokens, &claims, None).map(Outcome::Person)),
            Err(fault) => self.done(Err(fault)),
        }
    }

    /// OpenID Connect Core 1.0 section 3.1.3.7, beyond what every token must have.
    fn check(&self, claims: &Value) -> Result<(), Fault> {
        let wrong = |why: &str| Err(Fault::Token(why.to_owned()));
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("sub").is_none_or(str::is_empty) {
            return wrong("it has no subject");
        }
        let audiences = claims.get("aud").and_then(Value::as_array).map_or(1, Vec::len);
        match claims.get("azp") {
            None if audiences > 1 => {
                return wrong("it is for several audiences, and does not say who asked for it (azp)");
            }
            Some(party) if party.as_str() != Some(&self.provider.client_id) => {
                return wrong("another client asked for it (azp)");
            }
            None | Some(_) => {}
        }
        let issued = claims.get("iat").and_then(Value::as_f64);
        if issued.is_some_and(|issued| issued > (self.now_s + self.provider.leeway_s) as f64) {
            return wrong("it is issued in the future");
        }
        match &self.goal {
            Goal::Code { nonce, .. } if text("nonce") != Some(nonce) => wrong("its nonce is not that of this login"),
            Goal::Code { .. } | Goal::Address | Goal::Device | Goal::Poll { .. } | Goal::Logout { .. } => Ok(()),
        }
    }

    fn needs_userinfo(&self, claims: &Value, tokens: &Tokens) -> bool {
        let has = |name: &str| claim(claims, name).is_some();
        let is_whole = has(&self.provider.user_claim) && has(&self.provider.groups_claim);
        let has_address = self.known.as_ref().is_some_and(|known| known.userinfo.is_some());
        !is_whole && has_address && tokens.access.is_some()
    }

    fn informed(&self, tokens: &Tokens, claims: Value, body: &[u8]) -> Result<Person, Fault> {
        let wrong = |why: String| Fault::Answer(format!("userinfo: {why}"));
        let info: Value = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        // Core 1.0 section 5.3.2: what is said of another must not be taken.
        if info.get("sub").is_none() || info.get("sub") != claims.get("sub") {
            return Err(wrong("it is about another subject".to_owned()));
        }
        self.person(tokens, &claims, Some(&info))
    }

    fn person(&self, tokens: &Tokens, claims: &Value, info: Option<&Value>) -> Result<Person, Fault> {
        let find = |name: &str| claim(claims, name).or_else(|| claim(info?, name));
        let text = |name: &str| find(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let missing =
            || Fault::Answer(format!("neither the ID token nor userinfo has the claim {:?}", self.provider.user_claim));
        let user = text(&self.provider.user_claim).ok_or_else(missing)?.to_owned();
        let groups = find(&self.provider.groups_claim).map(groups).transpose()?.unwrap_or_default();
        let roles = self.provider.roles.roles(&user, &groups)?;
        let own = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Person {
            user,
            roles,
            subject: own("sub").unwrap_or_default(),
            session: own("sid"),
            id_token: tokens.id.clone(),
        })
    }
}

/// The body of a good answer.
fn whole(answer: Result<Answer, String>) -> Result<Vec<u8>, Fault> {
    let Answer { status, body } = answer.map_err(Fault::Away)?;
    match status {
        200 => Ok(body),
        500.. | 408 | 429 => Err(Fault::Away(format!("it answers {status}"))),
        _ => Err(Fault::Answer(format!("the status is {status}, expected 200"))),
    }
}

/// The JSON of a good answer of the token endpoint; an error of RFC 6749 section 5.2 is a refusal.
fn accepted(answer: Result<Answer, String>) -> Result<Value, Fault> {
    let Answer { status, body } = answer.map_err(Fault::Away)?;
    let read = serde_json::from_slice::<Value>(&body);
    match (status, read) {
        (200, Ok(read)) if read.is_object() => Ok(read),
        (400..=499, Ok(read)) if read.get("error").is_some_and(Value::is_string) => {
            let text = |name: &str| read.get(name).and_then(Value::as_str);
            let error = text("error").unwrap_or_default();
            // What is waited for is a word, whatever is said beside it.
            let is_wait = matches!(error, "authorization_pending" | "slow_down");
            Err(Fault::Refused(words(error, text("error_description").filter(|_| !is_wait))))
        }
        (500.. | 408 | 429, _) => Err(Fault::Away(format!("it answers {status}"))),
        (200, Ok(_)) => Err(Fault::Answer("it is no JSON object".to_owned())),
        (200, Err(error)) => Err(Fault::Answer(error.to_string())),
        (_, Ok(_) | Err(_)) => Err(Fault::Answer(format!("the status is {status}, expected 200"))),
    }
}

fn device_code(read: &Value) -> Result<DeviceCode, Fault> {
    let wrong = |why: &str| Fault::Answer(format!("device authorization: {why}"));
    let text = |name: &str| {
        let text = read.get(name).and_then(Value::as_str);
        text.filter(|text| !text.is_empty() && text.len() <= TOKEN_BYTES_MAX).map(str::to_owned)
    };
    let seconds = |name: &str| read.get(name).and_then(Value::as_u64);
    let verification = text("verification_uri").filter(|address| is_address(address));
    let user_code = text("user_code").filter(|code| code.len() <= 64 && code.chars().all(|c| !c.is_control()));
    Ok(DeviceCode {
        device_code: text("device_code").ok_or_else(|| wrong("it has no device_code"))?,
        user_code: user_code.ok_or_else(|| wrong("it has no user_code"))?,
        verification: verification.ok_or_else(|| wrong("it has no https verification_uri"))?,
        verification_complete: text("verification_uri_complete").filter(|address| is_address(address)),
        lasts: Duration::from_secs(seconds("expires_in").ok_or_else(|| wrong("it has no expires_in"))?.min(LASTS_MAX)),
        interval: Duration::from_secs(seconds("interval").unwrap_or(INTERVAL_S).clamp(1, 60)),
    })
}

/// OpenID Connect Back-Channel Logout 1.0 section 2.6.
fn ended(claims: &Value) -> Result<Ended, Fault> {
    let wrong = |why: &str| Err(Fault::Token(why.to_owned()));
    if !claims.get("events").and_then(|events| events.get(LOGOUT_EVENT)).is_some_and(Value::is_object) {
        return wrong("it is no logout token");
    }
    if claims.get("nonce").is_some() {
        return wrong("it has a nonce, and is no logout token");
    }
    let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let ended = Ended { subject: text("sub"), session: text("sid") };
    match ended {
        Ended { subject: None, session: None } => wrong("it has neither a subject nor a session"),
        ended => Ok(ended),
    }
}
