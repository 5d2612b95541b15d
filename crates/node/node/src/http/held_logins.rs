//! `/v1/logins`: logins at the console and of the command line, as they are seen and ended.

use super::authorization::{Authenticated, Authorized};
use super::body::{Answer, Json};
use super::logins::HeldLogin;
use super::problem::Problem;
use crate::access::denial;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::{Instant, Now, Timestamp};
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;

/// The topic that stands for logins in rules.
const LOGINS: &str = "$access/logins";

parameters! {
    /// Which logins are asked for.
    pub struct LoginsAsked {
        /// Only those of this user
        user: Option<String>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "1000",
    }
}

/// Whose logins end.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginsOf {
    user: String,
}

/// What was ended.
#[derive(JsonSchema, Serialize)]
pub struct EndedLogins {
    /// Logins
    ended: usize,
}

/// Logins, sorted by user and end
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Logins")]
pub struct LoginList {
    logins: Vec<LoginShown>,
    /// All logins that hold, of the user where one is named
    count: usize,
}

/// A login at the console or of the command line
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Login")]
struct LoginShown {
    user: String,
    /// password: the user logged in at this node; provider: at the identity provider
    #[schemars(extend("enum" = ["password", "provider"]))]
    by: &'static str,
    /// When it was used last
    #[schemars(extend("format" = "date-time"))]
    last_used: String,
    /// When it ends at the latest
    #[schemars(extend("format" = "date-time"))]
    expires: String,
    /// Whether the request came by it
    own: bool,
}

impl LoginShown {
    fn of(login: HeldLogin, now: Now) -> Self {
        Self {
            user: login.user.into(),
            by: if login.is_of_provider { "provider" } else { "password" },
            last_used: at(now, login.seen).to_string(),
            expires: at(now, login.until).to_string(),
            own: login.is_own,
        }
    }
}

/// The logins that hold.
pub async fn list(
    authenticated: Authenticated,
    Query(LoginsAsked { user, limit: Whole(limit) }): Query<LoginsAsked>,
) -> Result<Answer<LoginList>, Problem> {
    let authorized = authenticated.must(Verb::Read, LOGINS).await?;
    let (now, own) = (authorized.app.about.clock.now(), authorized.caller.login());
    let mut logins = authorized.app.logins.list(now.mono, own.as_ref());
    logins.retain(|login| user.as_deref().is_none_or(|user| *login.user == *user));
    let count = logins.len();
    let logins = logins.into_iter().take(limit).map(|login| LoginShown::of(login, now)).collect();
    Ok(Answer(LoginList { logins, count }))
}

/// Ends the logins of a user.
pub async fn end(
    authenticated: Authenticated,
    Json(LoginsOf { user }): Json<LoginsOf>,
) -> Result<Answer<EndedLogins>, Problem> {
    let authorized = authenticated.must(Verb::Admin, LOGINS).await?;
    let ended = authorized.app.logins.end_user(&user);
    ended_of(&authorized, &user, ended).await
}

/// Ends the caller's own logins but for the one that asks.
pub async fn end_others(authenticated: Authenticated) -> Result<Answer<EndedLogins>, Problem> {
    let authorized = authenticated.each();
    let login = authorized.caller.login();
    let (Some(user), Some(own)) = (authorized.caller.user().map(str::to_owned), login) else {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "the request came by no login, expected the cookie or token of one",
        ));
    };
    let ended = authorized.app.logins.end_others(&user, &own);
    ended_of(&authorized, &user, ended).await
}

async fn ended_of(authorized: &Authorized, user: &str, ended: usize) -> Result<Answer<EndedLogins>, Problem> {
    let (who, detail) = (authorized.who(), format!("{ended} logins of {user}"));
    let note = move |bus: &mut crate::bus::Bus, now| {
        bus.note_access(denial(now, &who, "session_ended", "", LOGINS, "ended", detail));
    };
    authorized.app.bus.call(note).await?;
    Ok(Answer(EndedLogins { ended }))
}

/// The wall clock at a time of the node's own clock.
fn at(now: Now, when: Instant) -> Timestamp {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let later = millis(when.since(now.mono)).saturating_sub(millis(now.mono.since(when)));
    Timestamp::from_millis(now.utc.millis().saturating_add(later))
}
