//! The login page, and what it sends; the logout.

use super::access::{HttpAuthentication, cookie_named, login_token, note, of_password, rules_of, turned_away};
use super::authorization::Visitor;
use super::body::Answer;
use super::identity::browser::end_session;
use super::problem::Problem;
use crate::access::{Entrance, Peer, Wrong};
use axum::Extension;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::convert::Infallible;
use std::net::SocketAddr;
use tieline_identity::write_form;
use tieline_service::http::openapi::{Input, Operation, Schemas};
use tieline_service::http::parameters::form;

/// Bytes of what a login sends.
pub(super) const FORM_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the view that a login leads back to.
const PLACE_BYTES_MAX: usize = 4096;

/// Where a login goes on: the parameter `to` of the page, and nothing else of its query.
pub struct GoesOn(pub String);

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
pub async fn login_page(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    GoesOn(to): GoesOn,
) -> Response {
    page(authentication.offered(), StatusCode::OK, "", "", &to)
}

/// The ways to log in at the console.
#[derive(Clone, Copy, Debug)]
struct Offered<'a> {
    /// The provider's name.
    provider: Option<&'a str>,
    /// Whether a password is one.
    password: bool,
}

impl HttpAuthentication {
    fn offered(&self) -> Offered<'_> {
        match self.identities() {
            Some(identities) => {
                Offered { provider: Some(&identities.config.name), password: identities.config.break_glass.is_some() }
            }
            None => Offered { provider: None, password: true },
        }
    }
}

/// The page with what is wrong, and what was typed.
fn page(offered: Offered<'_>, status: StatusCode, words: &str, user: &str, to: &str) -> Response {
    let to = place(to).unwrap_or_default();
    let link = offered.provider.map(|name| {
        let to = write_form(&[("to", to)]);
        let (to, name) = (escaped(&to), escaped(name));
        format!("<a class=\"button\" href=\"/login/provider?{to}\">Log in with {name}</a>")
    });
    let kind = match offered {
        Offered { provider: None, .. } => "",
        Offered { password: true, .. } => "emergency",
        Offered { password: false, .. } => "absent",
    };
    let (user, to) = (escaped(user), escaped(to));
    let focus = if user.is_empty() { ["autofocus", ""] } else { ["", "autofocus"] };
    let focus = if offered.provider.is_some() { ["", ""] } else { focus };
    let text = include_str!("login.html").replace("{words}", words).replace("{focus-user}", focus[0]);
    let text = text.replace("{focus-password}", focus[1]).replace("{kind}", kind);
    let text = text.replace("{provider}", &link.unwrap_or_default()).replace("{to}", &to).replace("{user}", &user);
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let store = HeaderValue::from_static("no-store");
    (status, [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, store)], text).into_response()
}

/// A member of a form; empty where it has none of that name.
pub(super) fn member(text: &str, name: &str) -> String {
    form(text).find(|(known, _)| known == name).map(|(_, value)| value).unwrap_or_default()
}

/// A view of the console, as the part of its address behind `#`; none for anything else, so that a login leads nowhere
/// but to this node.
pub(super) fn place(to: &str) -> Option<&str> {
    let is_plain = to.len() <= PLACE_BYTES_MAX && to.bytes().all(|byte| byte.is_ascii_graphic());
    Some(to).filter(|to| to.starts_with("#/") && is_plain)
}

pub(super) fn escaped(text: &str) -> String {
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
    let break_glass = authentication.identities().map(|identities| identities.config.break_glass.as_deref());
    if break_glass.is_some_and(|known| known != Some(&*user)) {
        authentication.note_refused(peer, "password", format!("user {user:?}: people log in with the provider")).await;
        let words = "Log in with the identity provider.";
        return page(authentication.offered(), StatusCode::FORBIDDEN, words, "", &to);
    }
    let (answer, checked) = tokio::sync::oneshot::channel();
    let from = Peer { address: peer.ip(), client: None };
    authenticator.ask_at_login(from, of_password(&user, &password), move |checked| drop(answer.send(checked)));
    match checked.await.unwrap_or(Err(Wrong::Busy)) {
        Ok(identity) if rules_of(&authenticator.policy(), &identity).is_some() => {
            let user = identity.user.clone();
            let Some(token) = authentication.logins().keep(identity, authentication.app.about.clock.now().mono) else {
                return Problem::unavailable("too many are logged in").into_response();
            };
            if let Some(identities) = authentication.identities() {
                identities.count_break_glass();
                tracing::warn!(%peer, %user, "the break-glass user has logged in");
                let words = "a login with a password past the identity provider".to_owned();
                note(&authentication, format!("http {peer} {user}"), "break_glass", "password", words).await;
            }
            set_login(&authentication, &token, "Strict", &to)
        }
        Ok(_) => {
            let words = "This user has no role: ask who looks after the node's users.";
            page(authentication.offered(), StatusCode::FORBIDDEN, words, &user, &to)
        }
        Err(why) => {
            let _ = turned_away(&authentication, peer, &why).await;
            let words = match why {
                Wrong::Refused(_) => "The user or the password is wrong.",
                Wrong::TooOften => "Too many attempts have failed. Try again in a while.",
                Wrong::Busy => "Too many wait to be checked. Try again.",
            };
            page(authentication.offered(), StatusCode::UNAUTHORIZED, words, &user, &to)
        }
    }
}

/// Gives a browser its login, and leads it back to where it came from. A cookie that comes with an answer to the provider's
/// redirect has to be `Lax`: the browser counts what follows as begun by the provider.
pub(super) fn set_login(authentication: &HttpAuthentication, token: &str, same_site: &str, to: &str) -> Response {
    let secure = if authentication.is_secure() { "; Secure" } else { "" };
    let (name, age) = (authentication.cookie_name(), authentication.logins().max().as_secs());
    let cookie = format!("{name}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite={same_site}{secure}");
    let to = format!("/{}", place(to).unwrap_or_default());
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

/// Where a browser goes on after a logout.
#[derive(JsonSchema, Serialize)]
pub struct LoggedOut {
    /// The login page, or the address at which the identity provider ends its session
    to: String,
}

/// Forgets a login. Scripts, which do not see where a redirect leads, ask for JSON.
pub async fn logout(
    _: Visitor,
    Extension(authentication): Extension<HttpAuthentication>,
    headers: HeaderMap,
) -> Response {
    let name = authentication.cookie_name();
    let token = login_token(&headers).or_else(|| cookie_named(&headers, name));
    let person = token.and_then(|token| authentication.logins().forget(token));
    let to = person.as_ref().zip(authentication.identities());
    let to = to.and_then(|(person, identities)| end_session(identities, person));
    let to = to.unwrap_or_else(|| "/login".to_owned());
    let secure = if authentication.is_secure() { "; Secure" } else { "" };
    let gone = format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}");
    let wants_json = headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes() == b"application/json");
    match wants_json {
        true => ([(header::SET_COOKIE, gone)], Answer(LoggedOut { to })).into_response(),
        false => ([(header::SET_COOKIE, gone)], Redirect::to(&to)).into_response(),
    }
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

    fn offered(provider: Option<&str>, password: bool) -> Offered<'_> {
        Offered { provider, password }
    }

    #[tokio::test]
    async fn the_page_offers_what_there_is() {
        let check = |provider: Option<&'static str>, password: bool, expect: [bool; 3]| async move {
            let response = page(offered(provider, password), StatusCode::OK, "", "", "#/a?b=\"");
            let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let text = std::str::from_utf8(&bytes).unwrap();
            let link = "href=\"/login/provider?to=%23%2Fa%3Fb%3D%22\">Log in with A &lt;B&gt;</a>";
            let found = [link, "class=\"emergency\"", "class=\"absent\""].map(|part| text.contains(part));
            assert_eq!(found, expect, "{text}");
        };
        check(None, true, [false, false, false]).await;
        check(Some("A <B>"), true, [true, true, false]).await;
        check(Some("A <B>"), false, [true, false, true]).await;
    }

    #[tokio::test]
    async fn a_failed_login_keeps_the_user_and_the_place() {
        let response =
            page(offered(None, true), StatusCode::UNAUTHORIZED, "wrong", "anna\"><script>", "#/topics?point=\"x");
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert!(text.contains("value=\"anna&quot;&gt;&lt;script&gt;\""), "{text}");
        assert!(text.contains("value=\"#/topics?point=&quot;x\""), "{text}");
        assert!(!text.contains("{user}") && !text.contains("{focus"), "{text}");
    }
}
