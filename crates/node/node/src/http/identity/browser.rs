//! Logins of browsers: led to the provider, back with a code, and ended from either side.

use super::super::access::{HttpAuthentication, cookie_named, note, rules_of};
use super::super::authorization::Visitor;
use super::super::login::{FORM_BYTES_MAX, GoesOn, escaped, member, place, set_login};
use super::super::problem::Problem;
use super::{Identities, lock, random};
use axum::Extension;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tieline_access::{Identity, Network, Policy, User};
use tieline_identity::{Callback, Fault, Goal, Outcome, Person};
use tieline_service::http::openapi::{Input, Operation, Schemas};
use tieline_service::http::parameters::form;

/// Bytes of the form of a logout token.
pub const LOGOUT_BYTES_MAX: usize = FORM_BYTES_MAX;
/// How long somebody may take at the provider.
const PENDING_S: u32 = 600;

/// The name of the cookie that binds a login under way to its browser.
fn pending_cookie(identities: &Identities) -> &'static str {
    if identities.is_secure() { "__Host-tieline-login" } else { "tieline-login" }
}

/// Leads a browser to the provider.
pub async fn begin(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    GoesOn(to): GoesOn,
) -> Response {
    let Some(identities) = authentication.identities() else { return Redirect::to("/login").into_response() };
    if let Err(fault) = identities.exchange(Goal::Address).await {
        return refused(&authentication, identities, peer, &fault).await;
    }
    let known = lock(&identities.known).clone();
    let to = place(&to).unwrap_or_default();
    let begun = random()
        .and_then(|random| lock(&identities.pending).begin(identities.now(), Network::of(peer.ip()), to, &random));
    let (Some(known), Some(begun)) = (known, begun) else {
        identities.counts.full.fetch_add(1, Ordering::Relaxed);
        return Problem::unavailable("too many logins are under way").into_response();
    };
    let secure = if identities.is_secure() { "; Secure" } else { "" };
    let name = pending_cookie(identities);
    let cookie = format!("{name}={}; Path=/; Max-Age={PENDING_S}; HttpOnly; SameSite=Lax{secure}", begun.browser);
    let address = identities.provider().authorization(&known, &begun);
    ([(header::SET_COOKIE, cookie)], uncached(Redirect::to(&address).into_response())).into_response()
}

/// What a browser comes back with.
pub struct CameBack {
    query: String,
    headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for CameBack {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        Ok(Self { query, headers: parts.headers.clone() })
    }
}

impl Input for CameBack {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        for (name, words) in [
            ("state", "Names the login"),
            ("code", "The authorization code; absent where the provider refuses"),
            ("error", "Why the provider refuses"),
            ("iss", "The provider (RFC 9207)"),
        ] {
            operation.parameter(serde_json::json!({
                "name": name, "in": "query", "description": words, "required": false, "schema": { "type": "string" },
            }));
        }
    }
}

/// Takes a browser back from the provider; a cookie of the login comes with the answer.
pub async fn callback(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    CameBack { query, headers }: CameBack,
) -> Response {
    let Some(identities) = authentication.identities() else { return Redirect::to("/login").into_response() };
    let browser = cookie_named(&headers, pending_cookie(identities));
    let mut response = match log_in(identities, &query, browser).await {
        Ok((person, to)) => match enter(&authentication, peer, person, "the provider").await {
            Ok(token) => set_login(&authentication, &token, "Lax", &to),
            Err(fault) => refused(&authentication, identities, peer, &fault).await,
        },
        Err(fault) => refused(&authentication, identities, peer, &fault).await,
    };
    let secure = if identities.is_secure() { "; Secure" } else { "" };
    let gone = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax{secure}", pending_cookie(identities));
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        response.headers_mut().append(header::SET_COOKIE, gone);
    }
    uncached(response)
}

async fn log_in(identities: &Arc<Identities>, query: &str, browser: Option<&str>) -> Result<(Person, String), Fault> {
    let callback = Callback::read(form(query))?;
    let login = lock(&identities.pending).take(identities.now(), &callback.state, browser)?;
    identities.exchange(Goal::Address).await?;
    let known = lock(&identities.known).clone().ok_or(Fault::Login("the provider is not known"))?;
    let code = callback.code(identities.provider(), &known)?;
    let (verifier, nonce) = (login.verifier, login.nonce);
    match identities.exchange(Goal::Code { code, verifier, nonce }).await? {
        Outcome::Person(person) => Ok((person, login.to)),
        Outcome::Ready | Outcome::Device(_) | Outcome::Pending { .. } | Outcome::Ended(_) => {
            Err(Fault::Login("nobody has logged in"))
        }
    }
}

/// Lets a person in; gives the token of the login.
pub(super) async fn enter(
    authentication: &HttpAuthentication,
    peer: SocketAddr,
    person: Person,
    by: &'static str,
) -> Result<String, Fault> {
    let user = person.user.clone();
    let wrong = |why: &str| Fault::Token(format!("the user {user:?}: {why}"));
    let (Some(identities), Some(policy)) = (authentication.identities(), authentication.policy()) else {
        return Err(wrong("nobody logs in here"));
    };
    if identities.config.break_glass.as_deref() == Some(&*person.user) {
        return Err(wrong("it is the break-glass user, which logs in with its password alone"));
    }
    let identity = known_elsewhere(&person.user, &person.roles).map_err(|why| wrong(&why))?;
    let no_role = || Fault::NoRole { user: user.clone(), groups: 0 };
    rules_of(&policy, &identity).ok_or_else(no_role)?;
    let full = || wrong("too many are logged in");
    let token = authentication.logins().keep_person(identity, Some(person), identities.now()).ok_or_else(full)?;
    identities.counts.good.fetch_add(1, Ordering::Relaxed);
    tracing::info!(%peer, %user, by, "a person has logged in by the identity provider");
    note(authentication, format!("http {peer} {user}"), "login", "provider", by.to_owned()).await;
    Ok(token)
}

/// Who others have authenticated, if the name can stand where names of users stand.
pub(in crate::http) fn known_elsewhere(user: &str, roles: &[String]) -> Result<Identity, String> {
    Policy::new([], [User::new(user, [])]).map_err(|error| error.to_string())?;
    let roles = roles.iter().map(|role| role.as_str().into()).collect();
    Ok(Identity { user: user.into(), roles: Some(roles), expires: None, credential: 0 })
}

/// The page that says why nobody is logged in; it is counted and written down.
pub(super) async fn refused(
    authentication: &HttpAuthentication,
    identities: &Identities,
    peer: SocketAddr,
    fault: &Fault,
) -> Response {
    identities.count(fault);
    authentication.note_refused(peer, fault.word(), fault.to_string()).await;
    let name = &identities.config.name;
    let (status, words) = match fault {
        Fault::Away(_) => (StatusCode::SERVICE_UNAVAILABLE, format!("{name} does not answer. Try again in a while.")),
        Fault::Answer(_) => {
            (StatusCode::BAD_GATEWAY, format!("The answer of {name} cannot be used. The log of this node says why."))
        }
        Fault::Refused(why) => (StatusCode::FORBIDDEN, format!("{name} refuses the login: {why}.")),
        Fault::Token(_) => (
            StatusCode::UNAUTHORIZED,
            format!("The login of {name} is not valid for this node. The log of this node says why."),
        ),
        Fault::Login(why) => (StatusCode::BAD_REQUEST, format!("The login did not complete: {why}.")),
        Fault::NoRole { user, .. } => (
            StatusCode::FORBIDDEN,
            format!(
                "You are {user} at {name}, and none of your groups has a role here. Ask the administrator of this node."
            ),
        ),
    };
    refusal_page(status, &words)
}

/// A page with one sentence and a way back.
pub(in crate::http) fn refusal_page(status: StatusCode, words: &str) -> Response {
    let text = include_str!("refused.html").replace("{words}", &escaped(words));
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    uncached((status, [(header::CONTENT_TYPE, kind)], text).into_response())
}

fn uncached(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Where the browser logs out at the provider, too.
pub(in crate::http) fn end_session(identities: &Identities, person: &Person) -> Option<String> {
    let known = lock(&identities.known).clone()?;
    identities.provider().end_session(&known, &person.id_token)
}

/// A form with a logout token.
pub struct LogoutToken(String);

impl<S: Send + Sync> FromRequest<S> for LogoutToken {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = super::super::body::whole(request, state).await?;
        Ok(Self(member(std::str::from_utf8(&body).unwrap_or_default(), "logout_token")))
    }
}

impl Input for LogoutToken {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let schema = serde_json::json!({
            "type": "object", "required": ["logout_token"], "properties": { "logout_token": { "type": "string" } },
        });
        operation.body("application/x-www-form-urlencoded", schema);
        operation.body_may_fail();
    }
}

/// Ends the logins of a session that the provider has ended.
pub async fn provider_logout(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    LogoutToken(token): LogoutToken,
) -> Response {
    let Some(identities) = authentication.identities() else {
        return Problem::not_found("this node has no identity provider").into_response();
    };
    match identities.exchange(Goal::Logout { token }).await {
        Ok(Outcome::Ended(ended)) => {
            let count = authentication.logins().end_ended(&ended);
            identities.counts.ended.fetch_add(count as u64, Ordering::Relaxed);
            let detail = format!("{count} logins of {}", ended.subject.or(ended.session).unwrap_or_default());
            note(&authentication, format!("http {peer}"), "session_ended", "provider", detail).await;
            uncached(StatusCode::OK.into_response())
        }
        Ok(_) => Problem::bad_request("it is no logout token").into_response(),
        Err(fault) => {
            identities.count(&fault);
            authentication.note_refused(peer, fault.word(), fault.to_string()).await;
            let status = if matches!(fault, Fault::Away(_)) { 503 } else { 400 };
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            uncached(Problem::new(status, fault.to_string()).into_response())
        }
    }
}
