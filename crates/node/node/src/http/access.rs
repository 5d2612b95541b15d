//! Authentication and authorization of HTTP requests.
//!
//! A request shows a user by `Authorization: Basic`, a token by `Authorization: Bearer`, the cookie that `/login` gave, or
//! what a trusted proxy says. Rights are looked up for each request, so that a change holds from the next one on.
//!
//! A browser sends cookies, and what a proxy makes of its own cookies, by itself. So a request with them that changes
//! something must say that a page of this node made it.

use super::App;
use super::authorization::{Authenticated, Authorized};
use super::body::Answer;
use super::history_edits::EDITS;
use super::identity::Identities;
use super::identity::browser::{known_elsewhere, refusal_page};
use super::identity::proxy::Named;
use super::logins::{LoginEnd, Logins, TOKEN_PREFIX};
use super::problem::Problem;
use crate::access::jwt::looks_like_token;
use crate::access::{Entrance, Peer, ReadFilter, Shown, Wrong, denial};
use crate::config::{AccessConfig, ProxyConfig};
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tieline_access::{Identity, Names, Policy, Reach, Rules, USERS_TOPIC, Verb};
use tieline_core::{Filter, Instant};
use tieline_net::tls::ShownCertificate;
use tieline_service::http::places::Slot;

/// The cookie's name.
pub(super) const COOKIE: &str = "tieline";
/// The same over TLS: a page of another host cannot set it.
const SECURE_COOKIE: &str = "__Host-tieline";

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
    pub(super) entrance: Entrance,
    pub(super) app: App,
}

/// By what a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// What programs send.
    Shown,
    /// What browsers send by themselves.
    Ambient,
}

/// A caller, and by what it is known.
type Found = (Identity, Option<LoginEnd>, Means);

impl HttpAuthentication {
    /// Lets requests of a node in.
    #[must_use]
    pub const fn new(entrance: Entrance, app: App) -> Self {
        Self { entrance, app }
    }

    /// The identity provider; none where there is none, or nobody has to log in.
    pub(super) fn identities(&self) -> Option<&Arc<Identities>> {
        self.entrance.authenticator().and(self.app.identities.as_ref())
    }

    /// The logins.
    pub(super) const fn logins(&self) -> &Logins {
        &self.app.logins
    }

    /// The proxies that say who asks.
    pub(super) fn proxy(&self) -> Option<&ProxyConfig> {
        self.config()?.proxy.as_ref()
    }

    /// Who may do what at present; none where nobody has to log in.
    pub(super) fn policy(&self) -> Option<Arc<Policy>> {
        self.entrance.policy()
    }

    fn config(&self) -> Option<&AccessConfig> {
        self.entrance.authenticator().map(crate::access::Authenticator::config)
    }

    pub(super) fn is_secure(&self) -> bool {
        self.app.has_tls || self.identities().is_some_and(|identities| identities.is_secure())
    }

    pub(super) fn cookie_name(&self) -> &'static str {
        if self.is_secure() { SECURE_COOKIE } else { COOKIE }
    }

    /// Who asks. A certificate says so where nothing else does.
    async fn caller(&self, request: &Asking<'_>) -> Result<(Caller, Means), Wrong> {
        let Entrance::Guarded(authenticator) = &self.entrance else { return Ok((Caller::Everyone, Means::Shown)) };
        let now = || self.app.about.clock.now().mono;
        let Some((identity, login, means)) = self.found(authenticator, request).await? else {
            return Ok((Caller::Unauthenticated, Means::Shown));
        };
        if identity.expires.is_some_and(|until| until <= now()) {
            return Ok((Caller::Unauthenticated, means));
        }
        let policy = authenticator.policy();
        let caller = match rules_of(&policy, &identity) {
            Some(rules) => Caller::User(Arc::new(Known { identity, rules, login })),
            None => Caller::Unauthenticated,
        };
        Ok((caller, means))
    }

    async fn found(
        &self,
        authenticator: &crate::access::Authenticator,
        request: &Asking<'_>,
    ) -> Result<Option<Found>, Wrong> {
        let now = self.app.about.clock.now().mono;
        let Asking { headers, peer, certificate, named } = request;
        if let Some(token) = login_token(headers) {
            let wrong = || Wrong::Refused("a login that is over".to_owned());
            let (identity, login) = self.logins().find(token, now).ok_or_else(wrong)?;
            return Ok(Some((identity, Some(login), Means::Shown)));
        }
        if let Some(shown) = shown(headers) {
            let (answer, checked) = tokio::sync::oneshot::channel();
            let peer = Peer { address: *peer, client: None };
            authenticator.ask(peer, shown, move |checked| drop(answer.send(checked)));
            return Ok(Some((checked.await.unwrap_or(Err(Wrong::Busy))?, None, Means::Shown)));
        }
        let login = cookie_named(headers, self.cookie_name()).and_then(|token| self.logins().find(token, now));
        if let Some((identity, login)) = login {
            return Ok(Some((identity, Some(login), Means::Ambient)));
        }
        if let (Some(named), Some(config)) = (named, self.proxy()) {
            let roles = config.roles.roles(&named.user, &named.groups);
            let identity = roles.map_err(|fault| fault.to_string());
            let identity = identity.and_then(|roles| known_elsewhere(&named.user, &roles)).map_err(Wrong::Refused)?;
            return Ok(Some((identity, None, Means::Ambient)));
        }
        let known = certificate.and_then(|shown| authenticator.know_certificate(None, shown));
        Ok(known.transpose()?.map(|identity| (identity, None, Means::Shown)))
    }

    /// Writes a refusal down, or counts it with others.
    pub(super) async fn note_refused(&self, peer: SocketAddr, word: &'static str, detail: String) {
        let who = format!("http {peer}");
        let note = move |bus: &mut crate::bus::Bus, now| {
            bus.note_refused(peer.ip(), denial(now, &who, "login_refused", "", "", word, detail));
        };
        // A node that is ending writes nothing down.
        let _ = self.app.bus.call(note).await;
    }
}

/// What is looked at of a request.
struct Asking<'a> {
    headers: &'a HeaderMap,
    peer: IpAddr,
    certificate: Option<&'a ShownCertificate>,
    named: Option<&'a Named>,
}

/// Writes a record about access down.
pub(super) async fn note(
    authentication: &HttpAuthentication,
    who: String,
    phase: &'static str,
    reason: &'static str,
    detail: String,
) {
    let note = move |bus: &mut crate::bus::Bus, now| {
        bus.note_access(denial(now, &who, phase, "", "", reason, detail));
    };
    // A node that is ending writes nothing down.
    let _ = authentication.app.bus.call(note).await;
}

/// The token of a login that a program has.
pub(super) fn login_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(rest.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && token.starts_with(TOKEN_PREFIX))
}

/// Whether a request that changes something says that it is of a page of this node. A foreign `Origin` was refused before.
fn is_own_page(method: &Method, headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    method.is_safe() || headers.contains_key(header::ORIGIN) || site == Some(b"same-origin")
}

pub(super) fn rules_of(policy: &Policy, identity: &Identity) -> Option<Arc<Rules>> {
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

pub(super) fn of_password(user: &str, password: &str) -> Shown {
    let user = user.to_owned();
    match looks_like_token(password.as_bytes()) {
        true => Shown::Token { user: Some(user), token: password.as_bytes().to_vec() },
        false => Shown::Password { user, password: password.as_bytes().to_vec() },
    }
}

/// The value of a cookie.
pub(super) fn cookie_named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then_some(value)
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
    if matches!(path, "/login" | "/logout" | "/login/provider" | "/login/callback" | "/login/provider-logout")
        || path.starts_with("/v1/login/")
    {
        return next.run(request).await;
    }
    let is_api = path.starts_with("/v1/") || path == "/metrics";
    let certificate = request.extensions().get::<Arc<ShownCertificate>>().map(Arc::clone);
    let named = request.extensions().get::<Named>().cloned();
    let asking = Asking {
        headers: request.headers(),
        peer: peer.ip(),
        certificate: certificate.as_deref(),
        named: named.as_ref(),
    };
    let (caller, means) = match authentication.caller(&asking).await {
        Ok(found) => found,
        // Where a page is asked for, a person reads the answer.
        Err(Wrong::Refused(why)) if named.is_some() => {
            authentication.note_refused(peer, "proxy", why).await;
            let words = "None of your groups has a role here. Ask the administrator of this node.";
            return match is_api {
                true => Problem::new(StatusCode::FORBIDDEN, words).into_response(),
                false => refusal_page(StatusCode::FORBIDDEN, words),
            };
        }
        // A browser shows a certificate by itself: who it belongs to may still log in.
        Err(Wrong::Refused(_)) if !is_api && certificate.is_some() => (Caller::Unauthenticated, Means::Shown),
        Err(why) => return turned_away(&authentication, peer, &why).await,
    };
    if means == Means::Ambient && !is_own_page(request.method(), request.headers()) {
        let detail =
            "a request by a login of a browser that changes something, expected the header Origin of this node";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
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

pub(super) async fn turned_away(authentication: &HttpAuthentication, peer: SocketAddr, why: &Wrong) -> Response {
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
    authentication.note_refused(peer, why.word(), detail).await;
    Problem::new(status, words).into_response()
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
    /// Users, where they are in a file
    users: bool,
    /// Whether it may change users
    administer_users: bool,
    /// Whether it may change boards
    edit_boards: bool,
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
    let has_file = app.authenticator.as_ref().is_some_and(|authenticator| authenticator.config().users.is_some());
    let may = MayRead {
        topics: reads("#"),
        system: reads("$SYS/#"),
        status: caller.may(Verb::Read, "$SYS/status"),
        sessions: caller.may(Verb::Read, "$SYS/sessions"),
        busiest: caller.may(Verb::Read, "$SYS/topics"),
        audit: caller.may(Verb::Read, "$audit"),
        edits: caller.may(Verb::Admin, EDITS),
        users: has_file && caller.may(Verb::Read, USERS_TOPIC),
        administer_users: has_file && caller.may(Verb::Admin, USERS_TOPIC),
        edit_boards: caller.may(Verb::Admin, super::boards::TOPIC),
    };
    let login = matches!(&caller, Caller::User(known) if known.login.is_some());
    Answer(Me { user: caller.user().map(str::to_owned), roles, login, may })
}
