//! `/v1/access/roles` and `/v1/access/why`: what roles allow, and why a user may do something or not.

use super::authorization::{Authenticated, Authorized};
use super::body::Answer;
use super::problem::Problem;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use tieline_access::{Names, Policy, Question, QuestionError, Reach, Role, Step, USERS_TOPIC, Verb};
use tieline_service::http::parameters::{Fault, Parameter, Query, words_schema};
use tieline_service::parameters;

/// The topic that stands for the roles in rules.
const ROLES: &str = "$access/roles";

parameters! {
    /// Which decision is asked for.
    pub struct WhyAsked {
        /// The user
        user: String,
        /// The topic, or a filter
        topic: String,
        /// The right
        right: Right,
        /// The client identifier, for {client} in rules
        client: Option<String>,
    }
}

/// A right, as rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right(Verb);

impl Parameter for Right {
    fn read(text: &str) -> Result<Self, Fault> {
        Verb::of_word(text).map(Self).ok_or_else(|| Fault::none_of(Verb::ALL.map(Verb::word)))
    }

    fn schema() -> serde_json::Value {
        words_schema(Verb::ALL.map(Verb::word))
    }
}

/// Roles of the file, then those of IEC 62351-8
#[derive(JsonSchema, Serialize)]
pub struct Roles {
    roles: Vec<ShownRole>,
}

/// A role
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Role")]
pub struct ShownRole {
    role: String,
    /// Whether it is one of IEC 62351-8, as it is built in
    built_in: bool,
    /// Its rules
    #[schemars(example = ["allow read site/#"])]
    rules: Vec<String>,
}

/// A decision, and what led to it
#[derive(JsonSchema, Serialize)]
pub struct Why {
    user: String,
    topic: String,
    #[schemars(extend("enum" = ["read", "publish", "command", "acknowledge", "admin"]))]
    right: &'static str,
    /// Whether the user may; of a filter, whether with all of its topics
    allowed: bool,
    /// With how much of it the user may; of a topic all or nothing
    #[schemars(extend("enum" = ["all", "some", "nothing"]))]
    reach: &'static str,
    /// Whether the user is disabled
    disabled: bool,
    /// The roles of the user
    roles: Vec<String>,
    /// Each rule of these roles
    rules: Vec<LookedAt>,
    /// The reason, as a sentence
    #[schemars(example = "a rule allows it, and none denies it")]
    conclusion: &'static str,
}

/// A rule that was looked at
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "WhyRule")]
struct LookedAt {
    role: String,
    rule: String,
    /// What it has to do with the question
    #[schemars(extend("enum" = ["other verb", "other topic", "allows", "denies", "allows some", "denies some"]))]
    is: &'static str,
}

/// The roles with their rules.
pub async fn list(authenticated: Authenticated) -> Result<Answer<Roles>, Problem> {
    let authorized = authenticated.must(Verb::Read, ROLES).await?;
    let policy = policy(&authorized)?;
    let shown = |role: Role| ShownRole {
        built_in: policy.roles().all(|own| own.name != role.name),
        role: role.name.into(),
        rules: role.rules.iter().map(ToString::to_string).collect(),
    };
    Ok(Answer(Roles { roles: policy.all_roles().map(shown).collect() }))
}

/// Why a user of the file may do something, or not.
pub async fn why(
    authenticated: Authenticated,
    Query(WhyAsked { user, topic, right: Right(verb), client }): Query<WhyAsked>,
) -> Result<Answer<Why>, Problem> {
    let authorized = authenticated.must(Verb::Read, USERS_TOPIC).await?;
    let names = Names { user: &user, client: client.as_deref().unwrap_or_default() };
    let question = Question { names, roles: Vec::new(), verb, topic: &topic };
    let why = policy(&authorized)?.why(question).map_err(|error| match error {
        QuestionError::User(_) => Problem::new(StatusCode::NOT_FOUND, error.to_string()),
        QuestionError::Role(_) | QuestionError::Filter(..) => Problem::bad_request(error.to_string()),
    })?;
    let looked_at = |Step { role, rule, applies }: &Step| LookedAt {
        role: role.to_string(),
        rule: rule.to_string(),
        is: applies.word(),
    };
    Ok(Answer(Why {
        right: verb.word(),
        allowed: why.explained.reach == Reach::All,
        reach: why.reach_word(),
        disabled: why.disabled,
        roles: why.roles.iter().map(ToString::to_string).collect(),
        rules: why.explained.steps.iter().map(looked_at).collect(),
        conclusion: why.conclusion(),
        user,
        topic,
    }))
}

fn policy(authorized: &Authorized) -> Result<Arc<Policy>, Problem> {
    let authenticator = authorized.app.authenticator.as_ref();
    authenticator
        .map(crate::access::Authenticator::policy)
        .ok_or_else(|| Problem::new(StatusCode::CONFLICT, "this node has no users, expected users or jwt in [access]"))
}
