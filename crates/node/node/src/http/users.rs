//! `/v1/access/users`: the users of the file, for administrators.

use super::authorization::{Authenticated, Authorized};
use super::body::{Answer, Json};
use super::problem::Problem;
use super::topics::Done;
use crate::access::edit::Edit;
use crate::access::{Authenticator, EditError, ListedUser, denial};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tieline_access::{USERS_TOPIC, User, Verb};
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;

/// Bytes of a change of a user.
pub(super) const USER_BYTES_MAX: usize = 16 * 1024;

parameters! {
    /// Which users are asked for.
    pub struct UsersAsked {
        /// Users behind this one; the member next of the page before
        after: Option<String>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "1000",
    }
}

/// What `POST /v1/access/users` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    user: String,
    /// Names of roles, at least one
    roles: Vec<String>,
    /// Without it, the user logs in with a token or a certificate
    password: Option<String>,
}

/// What `POST /v1/access/users/roles` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolesOfUser {
    user: String,
    /// Names of all roles that the user is to have, at least one
    roles: Vec<String>,
}

/// What `POST /v1/access/users/password` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordOfUser {
    user: String,
    password: String,
}

/// The user that a request is about.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedUser {
    user: String,
}

/// Users of the file, sorted by name
#[derive(JsonSchema, Serialize)]
pub struct Users {
    users: Vec<ShownUser>,
    /// All users of the file
    count: usize,
    /// The last user of the page, where there are more
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A user of the file
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "User")]
pub struct ShownUser {
    user: String,
    roles: Vec<String>,
    disabled: bool,
    /// By what the user can log in: a password, a certificate that the file lists, or what is in no file
    #[schemars(extend("enum" = ["password", "certificate", "token"]))]
    by: &'static str,
    /// When it last showed its password, a token or its certificate to this node; null if it has not since the node started
    #[schemars(extend("format" = "date-time"))]
    last_login: Option<String>,
}

/// A change of a user that holds
#[derive(JsonSchema, Serialize)]
pub struct UserChanged {
    status: Done,
    /// The user; null if it was removed
    user: Option<ShownUser>,
}

impl From<ListedUser> for ShownUser {
    fn from(ListedUser { user, by, last_login }: ListedUser) -> Self {
        Self {
            user: user.name.into(),
            roles: user.roles.into_iter().map(String::from).collect(),
            disabled: user.disabled,
            by: by.word(),
            last_login: last_login.map(|at| at.to_string()),
        }
    }
}

/// The users of the file.
pub async fn list(
    authenticated: Authenticated,
    Query(UsersAsked { after, limit: Whole(limit) }): Query<UsersAsked>,
) -> Result<Answer<Users>, Problem> {
    let authorized = authenticated.must(Verb::Read, USERS_TOPIC).await?;
    let all = managed(&authorized)?.users();
    let count = all.len();
    let behind = |user: &ListedUser| after.as_deref().is_none_or(|after| *user.user.name > *after);
    let mut users: Vec<ShownUser> = all.into_iter().filter(behind).take(limit + 1).map(Into::into).collect();
    let has_more = users.len() > limit;
    users.truncate(limit);
    let next = users.last().filter(|_| has_more).map(|user| user.user.clone());
    Ok(Answer(Users { users, count, next }))
}

/// Adds a user.
pub async fn add(authenticated: Authenticated, Json(new): Json<NewUser>) -> Result<Answer<UserChanged>, Problem> {
    let NewUser { user, roles, password } = new;
    let authorized = authenticated.must(Verb::Admin, USERS_TOPIC).await?;
    if managed(&authorized)?.policy().user(&user).is_some() {
        return Err(Problem::new(StatusCode::CONFLICT, format!("the user {user:?} is there already")));
    }
    apply(&authorized, user, Change::Add { roles, password }).await
}

/// Gives a user other roles.
pub async fn roles(authenticated: Authenticated, Json(of): Json<RolesOfUser>) -> Result<Answer<UserChanged>, Problem> {
    change(authenticated, of.user, Change::Roles(of.roles)).await
}

/// Gives a user another password.
pub async fn password(
    authenticated: Authenticated,
    Json(of): Json<PasswordOfUser>,
) -> Result<Answer<UserChanged>, Problem> {
    change(authenticated, of.user, Change::Password(of.password)).await
}

/// Disables a user.
pub async fn disable(authenticated: Authenticated, Json(of): Json<NamedUser>) -> Result<Answer<UserChanged>, Problem> {
    change(authenticated, of.user, Change::Disabled(true)).await
}

/// Enables a user.
pub async fn enable(authenticated: Authenticated, Json(of): Json<NamedUser>) -> Result<Answer<UserChanged>, Problem> {
    change(authenticated, of.user, Change::Disabled(false)).await
}

/// Removes a user.
pub async fn remove(authenticated: Authenticated, Json(of): Json<NamedUser>) -> Result<Answer<UserChanged>, Problem> {
    change(authenticated, of.user, Change::Remove).await
}

/// What is done to a user.
enum Change {
    Add { roles: Vec<String>, password: Option<String> },
    Password(String),
    Roles(Vec<String>),
    Disabled(bool),
    Remove,
}

impl Change {
    fn edit(&self) -> Edit<'_> {
        match self {
            Self::Add { roles, password } => Edit::Add { roles, password: password.as_deref() },
            Self::Password(password) => Edit::Password(password),
            Self::Roles(roles) => Edit::Roles(roles),
            Self::Disabled(disabled) => Edit::Disabled(*disabled),
            Self::Remove => Edit::Remove,
        }
    }

    /// The phase of its record in the audit log, and the record in words.
    fn record(&self, user: &str, before: Option<&User>) -> (&'static str, String) {
        let had = before.map(|user| user.roles.join(", ")).unwrap_or_default();
        match self {
            Self::Add { roles, .. } => ("user_added", format!("the user {user:?} was added with {}", roles.join(", "))),
            Self::Password(_) => ("user_password", format!("the user {user:?} has another password")),
            Self::Roles(roles) => {
                ("user_roles", format!("the user {user:?} has the roles {} in place of {had}", roles.join(", ")))
            }
            Self::Disabled(true) => ("user_disabled", format!("the user {user:?} was disabled")),
            Self::Disabled(false) => ("user_enabled", format!("the user {user:?} was enabled")),
            Self::Remove => ("user_removed", format!("the user {user:?} was removed, who had {had}")),
        }
    }

    /// A user without a role can do nothing; the command line asks for one, too.
    fn check(&self) -> Result<(), Problem> {
        match self {
            Self::Add { roles, .. } | Self::Roles(roles) if roles.is_empty() => {
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "roles is empty, expected one role at least"))
            }
            Self::Add { .. } | Self::Roles(_) | Self::Password(_) | Self::Disabled(_) | Self::Remove => Ok(()),
        }
    }
}

/// Changes a user that there is.
async fn change(authenticated: Authenticated, user: String, change: Change) -> Result<Answer<UserChanged>, Problem> {
    let authorized = authenticated.must(Verb::Admin, USERS_TOPIC).await?;
    if managed(&authorized)?.policy().user(&user).is_none() {
        return Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no user {user:?}")));
    }
    apply(&authorized, user, change).await
}

async fn apply(authorized: &Authorized, user: String, change: Change) -> Result<Answer<UserChanged>, Problem> {
    change.check()?;
    let authenticator = managed(authorized)?;
    let before = authenticator.policy();
    let (phase, detail) = change.record(&user, before.user(&user));
    let (caller, name) = (authorized.caller.user().map(str::to_owned), Arc::<str>::from(user));
    let (editor, edited) = (authenticator.clone(), Arc::clone(&name));
    // The hash of a password and the disk take their time, and nobody else waits for it.
    let edit = move || editor.edit_user(caller.as_deref(), &edited, &change.edit());
    let done = tokio::task::spawn_blocking(edit).await.map_err(|error| Problem::unavailable(error.to_string()))?;
    done.map_err(|error| match error {
        EditError::Lockout(lockout) => Problem::new(StatusCode::CONFLICT, lockout.to_string()),
        EditError::Refused(why) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why),
    })?;
    let who = authorized.who();
    let note = move |bus: &mut crate::bus::Bus, now| {
        bus.note_access(denial(now, &who, phase, "admin", USERS_TOPIC, "", detail));
    };
    authorized.app.bus.call(note).await?;
    let user = authenticator.users().into_iter().find(|user| *user.user.name == *name).map(Into::into);
    Ok(Answer(UserChanged { status: Done::Ok, user }))
}

/// What checks users, where they are in a file.
fn managed(authorized: &Authorized) -> Result<&Authenticator, Problem> {
    let authenticator = authorized.app.authenticator.as_ref();
    authenticator
        .filter(|authenticator| authenticator.config().users.is_some())
        .ok_or_else(|| Problem::new(StatusCode::CONFLICT, "this node has no file of users, expected users in [access]"))
}
