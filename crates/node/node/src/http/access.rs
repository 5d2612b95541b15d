//! Authentication and authorization of HTTP requests.
//!
//! A request shows a user by `Authorization: Basic`, a token by `Authorization: Bearer`, or the cookie that `/login`
//! gave. Rights are looked up for each request, so that a change holds from the next one on.

use super::App;
use super::authorization::{Authenticated, Authorized, Visitor};
use super::body::Answer;
use super::history_edits::EDITS;
use super::logins::{LOGIN_HOLDS, LoginEnd, Logins};
use super::problem::Problem;
use crate::access::jwt::looks_like_token;
use crate::access::{Entrance, Peer, ReadFilter, Shown, Wrong, denial};
use axum::Extension;
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tieline_access::{Identity, Names, Policy, Reach, Rules, Verb};
use tieline_core::{Filter, Instant};
use tieline_net::tls::ShownCertificate;
use tieline_service::http::openapi::{Input, Operation, Schemas};
use tieline_service::http::parameters::form;
use tieline_service::http::places::Slot;

/// The cookie's name.
pub(super) const COOKIE: &str = "tieline";
/// Bytes of what a login sends.
pub(super) const FORM_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the view that a login leads back to.
const PLACE_BYTES_MAX: usize = 4096;

/// Who asks.
#[derive(Clone, Debug)]
pub enum Caller {
    /// All may do all here.
    Everyone,
    /// It has not shown who it is.
    Unauthenticated,
    /// A user.
    User(Arc<Known>),
}

/// A user with its rights.
#[derive(Debug)]
pub struct Known {
    identity: Identity,
    rules: Arc<Rules>,
    /// Its login, where it is known by one.
    login: Option<LoginEnd>,
}

impl Caller {
    /// Whether it may do something.
    #[must_use]
    pub fn may(&self, verb: Verb, topic: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Unauthenticated => false,
            Self::User(known) => known.rules.allows(verb, topic, known.names()),
        }
    }

    /// How much of what a filter selects it may read.
    #[must_use]
    pub fn reach(&self, filter: &Filter) -> Reach {
        match self {
            Self::Everyone => Reach::All,
            Self::Unauthenticated => Reach::Nothing,
            Self::User(known) => known.rules.reach(Verb::Read, filter, known.names()),
        }
    }

    /// What live updates have to pass, and until when.
    #[must_use]
    pub fn read_filter(&self) -> (Option<ReadFilter>, Option<Instant>) {
        match self {
            Self::Everyone | Self::Unauthenticated => (None, None),
            Self::User(known) => {
                let read_filter = ReadFilter::new(Arc::clone(&known.rules), &known.identity.user, "");
                (Some(read_filter), known.identity.expires)
            }
        }
    }

    /// Whose turn its requests have: the user's, or that of its address where nobody shows who it is.
    #[must_use]
    pub fn share(&self, peer: SocketAddr) -> Arc<str> {
        match self {
            Self::Everyone | Self::Unauthenticated => peer.ip().to_string().into(),
            Self::User(known) => known.identity.user.as_ref().into(),
        }
    }

    /// The end of the login that it is known by; what it reads ends with it.
    #[must_use]
    pub fn login(&self) -> Option<LoginEnd> {
        match self {
            Self::Everyone | Self::Unauthenticated => None,
            Self::User(known) => known.login.clone(),
        }
    }

    /// Its name in the audit log.
    #[must_use]
    pub fn who(&self, peer: SocketAddr) -> String {
        match self {
            Self::Everyone | Self::Unauthenticated => format!("http {peer}"),
            Self::User(known) => format!("http {peer} {}", known.identity.user),
        }
    }

    /// The user, where it is one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Everyone | Self::Unauthenticated => None,
            Self::User(known) => Some(&known.identity.user),
        }
    }
}

impl Known {
    fn names(&self) -> Names<'_> {
        Names { user: &self.identity.user, client: "" }
    }
}

/// Lets requests in.
#[derive(Clone)]
pub struct HttpAuthentication {
    entrance: Entrance,
    logins: Logins,
    app: App,
}

impl HttpAuthentication {
    /// Nobody has logged in yet.
    #[must_use]
    pub fn new(entrance: Entrance, app: App) -> Self {
        Self { entrance, logins: Logins::default(), app }
    }

    /// Who asks. A certificate says so where nothing else does.
    async fn caller(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
        certificate: Option<&ShownCertificate>,
    ) -> Result<Caller, Wrong> {
        let Entrance::Guarded(authenticator) = &self.entrance else { return Ok(Caller::Everyone) };
        let now = || self.app.about.clock.now().mono;
        let (identity, login) = match shown(headers) {
            Some(shown) => {
                let (answer, checked) = tokio::sync::oneshot::channel();
                authenticator
                    .ask(Peer { address: peer, client: None }, shown, move |checked| drop(answer.send(checked)));
                (checked.await.unwrap_or(Err(Wrong::Busy))?, None)
            }
            None => match cookie(headers).and_then(|token| self.logins.find(token, now())) {
                Some((identity, login)) => (identity, Some(login)),
                None => match certificate.and_then(|shown| authenticator.know_certificate(None, shown)) {
                    Some(known) => (known?, None),
                    None => return Ok(Caller::Unauthenticated),
                },
            },
        };
        if identity.expires.is_some_and(|until| until <= now()) {
            return Ok(Caller::Unauthenticated);
        }
        let policy = authenticator.policy();
        Ok(match rules_of(&policy, &identity) {
            Some(rules) => Caller::User(Arc::new(Known { identity, rules, login })),
            None => Caller::Unauthenticated,
        })
    }
}

fn rules_of(policy: &Policy, identity: &Identity) -> Option<Arc<Rules>> {
    let roles = policy.roles_of(identity).ok()?;
    let rules = policy.compile(roles.iter().map(|role| &**role));
    (!rules.rules().is_empty()).then(|| Arc::new(rules))
}

/// What a request shows.
fn shown(headers: &HeaderMap) -> Option<Shown> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Shown::Token { user: None, token: rest.trim().as_bytes().to_vec() });
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (user, password) = plain.split_once(':')?;
    Some(of_password(user, password))
}

fn of_password(user: &str, password: &str) -> Shown {
    let user = user.to_owned();
    match looks_like_token(password.as_bytes()) {
        true => Shown::Token { user: Some(user), token: password.as_bytes().to_vec() },
        false => Shown::Password { user, password: password.as_bytes().to_vec() },
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// Finds out who asks; the route's authorization says whether that is enough.
pub async fn authenticate(
    State(authentication): State<HttpAuthentication>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let peer = peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let path = request.uri().path();
    if path == "/login" || path == "/logout" {
        return next.run(request).await;
    }
    let is_api = path.starts_with("/v1/") || path == "/metrics";
    let certificate = request.extensions().get::<Arc<ShownCertificate>>().map(Arc::clone);
    let caller = match authentication.caller(request.headers(), peer.ip(), certificate.as_deref()).await {
        Ok(caller) => caller,
        // A browser shows a certificate by itself: who it belongs to may still log in.
        Err(Wrong::Refused(_)) if !is_api && certificate.is_some() => Caller::Unauthenticated,
        Err(why) => return turned_away(&authentication, peer, &why).await,
    };
    if let (Caller::Everyone | Caller::User(_), Some(slot)) = (&caller, request.extensions().get::<Slot>()) {
        // Where there is no place, it is given what the reserve is for.
        let _ = slot.admit();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// 401. A browser's own dialogue would hide the console's login, so it is not asked for one.
pub(super) fn ask_who(headers: &HeaderMap) -> Response {
    let detail = "a user and a password, a token, the certificate of a user, or a login at /login is needed";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    let methods: &[&'static str] =
        if headers.contains_key("sec-fetch-mode") { &["Bearer"] } else { &["Basic realm=\"tieline\"", "Bearer"] };
    for method in methods {
        response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(method));
    }
    response
}

async fn turned_away(authentication: &HttpAuthentication, peer: SocketAddr, why: &Wrong) -> Response {
    let (status, words) = match why {
        Wrong::Refused(_) => {
            (StatusCode::UNAUTHORIZED, "the user, the password, the token or the certificate is wrong")
        }
        Wrong::TooOften => (StatusCode::TOO_MANY_REQUESTS, "too many attempts have failed"),
        Wrong::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many wait to be checked"),
    };
    let detail = match why {
        Wrong::Refused(detail) => detail.clone(),
        Wrong::TooOften | Wrong::Busy => String::new(),
    };
    let (who, word) = (format!("http {peer}"), why.word());
    let note = move |bus: &mut crate::bus::Bus, now| {
        bus.note_refused(peer.ip(), denial(now, &who, "login_refused", "", "", word, detail));
    };
    // A node that is ending writes nothing down.
    let _ = authentication.app.bus.call(note).await;
    Problem::new(status, words).into_response()
}

/// Where a login goes on: the parameter `to` of the page, and nothing else of its query.
pub struct GoesOn(String);

impl<S: Send + Sync> FromRequestParts<S> for GoesOn {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(member(parts.uri.query().unwrap_or_default(), "to")))
    }
}

impl Input for GoesOn {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.parameter(serde_json::json!({
            "name": "to",
            "in": "query",
            "description": "The console's view to go on with, as the part of its address from # on",
            "required": false,
            "schema": { "type": "string" },
        }));
    }
}

/// The page that asks who one is.
pub async fn login_page(_: Visitor, GoesOn(to): GoesOn) -> Response {
    page(StatusCode::OK, "", "", &to)
}

/// The page with what is wrong, and what was typed.
fn page(status: StatusCode, words: &str, user: &str, to: &str) -> Response {
    let (user, to) = (escaped(user), escaped(place(to).unwrap_or_default()));
    let focus = if user.is_empty() { ["autofocus", ""] } else { ["", "autofocus"] };
    let text = include_str!("login.html").replace("{words}", words).replace("{focus-user}", focus[0]);
    let text = text.replace("{focus-password}", focus[1]).replace("{to}", &to).replace("{user}", &user);
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let store = HeaderValue::from_static("no-store");
    (status, [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, store)], text).into_response()
}

/// A member of a form; empty where it has none of that name.
fn member(text: &str, name: &str) -> String {
    form(text).find(|(known, _)| known == name).map(|(_, value)| value).unwrap_or_default()
}

/// A view of the console, as the part of its address behind `#`; none for anything else, so that a login leads nowhere
/// but to this node.
fn place(to: &str) -> Option<&str> {
    let is_plain = to.len() <= PLACE_BYTES_MAX && to.bytes().all(|byte| byte.is_ascii_graphic());
    Some(to).filter(|to| to.starts_with("#/") && is_plain)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// What the page sends.
#[derive(JsonSchema)]
#[schemars(inline)]
pub struct Login {
    user: String,
    password: String,
    #[schemars(default)]
    to: String,
}

impl<S: Send + Sync> FromRequest<S> for Login {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = super::body::whole(request, state).await?;
        let text = std::str::from_utf8(&body).unwrap_or_default();
        Ok(Self { user: member(text, "user"), password: member(text, "password"), to: member(text, "to") })
    }
}

impl Input for Login {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.body("application/x-www-form-urlencoded", schemas.read::<Self>());
        operation.body_may_fail();
    }
}

/// Takes what the page sends; a cookie comes back.
pub async fn login(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Login { user, password, to }: Login,
) -> Response {
    let Entrance::Guarded(authenticator) = &authentication.entrance else { return Redirect::to("/").into_response() };
    let (answer, checked) = tokio::sync::oneshot::channel();
    let from = Peer { address: peer.ip(), client: None };
    authenticator.ask(from, of_password(&user, &password), move |checked| drop(answer.send(checked)));
    match checked.await.unwrap_or(Err(Wrong::Busy)) {
        Ok(identity) if rules_of(&authenticator.policy(), &identity).is_some() => {
            let Some(token) = authentication.logins.keep(identity, authentication.app.about.clock.now().mono) else {
                return Problem::unavailable("too many are logged in").into_response();
            };
            let secure = if authentication.app.has_tls { "; Secure" } else { "" };
            let cookie = format!(
                "{COOKIE}={token}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
                LOGIN_HOLDS.as_secs()
            );
            let to = format!("/{}", place(&to).unwrap_or_default());
            ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
        }
        Ok(_) => {
            page(StatusCode::FORBIDDEN, "This user has no role: ask who looks after the node's users.", &user, &to)
        }
        Err(why) => {
            let _ = turned_away(&authentication, peer, &why).await;
            let words = match why {
                Wrong::Refused(_) => "The user or the password is wrong.",
                Wrong::TooOften => "Too many attempts have failed. Try again in a while.",
                Wrong::Busy => "Too many wait to be checked. Try again.",
            };
            page(StatusCode::UNAUTHORIZED, words, &user, &to)
        }
    }
}

/// Forgets a login.
pub async fn logout(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    headers: HeaderMap,
) -> Response {
    if let Some(token) = cookie(&headers) {
        authentication.logins.forget(token);
    }
    let gone = format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    ([(header::SET_COOKIE, gone)], Redirect::to("/login")).into_response()
}

/// The caller.
#[derive(JsonSchema, Serialize)]
pub struct Me {
    user: Option<String>,
    roles: Vec<String>,
    /// Whether it came in by a login, which POST /logout ends
    login: bool,
    may: MayRead,
}

/// What of the console it may see.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct MayRead {
    topics: bool,
    system: bool,
    status: bool,
    sessions: bool,
    busiest: bool,
    audit: bool,
    /// Whether it may edit the history
    edits: bool,
}

/// Who the caller is, its roles, and what it may see and do, for the console.
pub async fn me(authenticated: Authenticated) -> Answer<Me> {
    let Authorized { app, caller, .. } = authenticated.each();
    let roles = match &caller {
        Caller::Everyone | Caller::Unauthenticated => Vec::new(),
        Caller::User(known) => {
            let policy = app.entrance.policy();
            let roles = policy.as_ref().and_then(|policy| policy.roles_of(&known.identity).ok()).unwrap_or_default();
            roles.iter().map(ToString::to_string).collect()
        }
    };
    let reads = |filter: &str| Filter::new(filter).is_ok_and(|filter| caller.reach(&filter) != Reach::Nothing);
    let may = MayRead {
        topics: reads("#"),
        system: reads("$SYS/#"),
        status: caller.may(Verb::Read, "$SYS/status"),
        sessions: caller.may(Verb::Read, "$SYS/sessions"),
        busiest: caller.may(Verb::Read, "$SYS/topics"),
        audit: caller.may(Verb::Read, "$audit"),
        edits: caller.may(Verb::Admin, EDITS),
    };
    let login = matches!(&caller, Caller::User(known) if known.login.is_some());
    Answer(Me { user: caller.user().map(str::to_owned), roles, login, may })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_place(to: &str, expect: Option<&str>) {
        assert_eq!(place(to), expect, "{to}");
    }

    #[test]
    fn a_login_leads_back_into_the_console_and_nowhere_else() {
        check_place("#/topics?point=a/b", Some("#/topics?point=a/b"));
        for wrong in
            ["", "//evil.example", "https://evil.example", "/v1/topics", "#", "#/a\r\nSet-Cookie: x", "#/\u{e4}"]
        {
            check_place(wrong, None);
        }
        check_place(&format!("#/{}", "a".repeat(PLACE_BYTES_MAX)), None);
    }

    #[tokio::test]
    async fn a_failed_login_keeps_the_user_and_the_place() {
        let response = page(StatusCode::UNAUTHORIZED, "wrong", "anna\"><script>", "#/topics?point=\"x");
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert!(text.contains("value=\"anna&quot;&gt;&lt;script&gt;\""), "{text}");
        assert!(text.contains("value=\"#/topics?point=&quot;x\""), "{text}");
        assert!(!text.contains("{user}") && !text.contains("{focus"), "{text}");
    }
}
