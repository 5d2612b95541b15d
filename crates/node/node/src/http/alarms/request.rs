//! `POST /v1/alarms/…`: what persons do with alarms.

use super::super::authorization::Authenticated;
use super::super::body::{Answer, Json, takes_json};
use super::super::control::ask;
use super::super::problem::Problem;
use crate::control::alarms::{AlarmAction, AlarmBody, AlarmRequest, AlarmResult};
use axum::extract::{FromRequest, Request};
use schemars::JsonSchema;
use serde::Serialize;
use tieline_service::http::openapi::{Input, Operation, Schemas};

/// The body of a request; one that says what cannot be is malformed, as one that is no JSON is.
pub struct RequestBody(serde_json::Value);

impl<S: Send + Sync> FromRequest<S> for RequestBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Json::from_request(request, state).await.map(|Json(body)| Self(body))
    }
}

impl Input for RequestBody {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        takes_json(operation, schemas.read::<AlarmBody>());
    }
}

impl RequestBody {
    fn read(&self, action: AlarmAction) -> Result<AlarmRequest, Problem> {
        let body = tieline_service::json::read_value(&self.0).map_err(|error| error.to_string());
        let request = body.and_then(|body| AlarmRequest::of(action, body));
        request.map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }
}

/// What became of each alarm of a request, in its order
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "AlarmResults")]
pub struct Results {
    results: Vec<AlarmResult>,
}

/// Acknowledges occurrences of alarms.
pub async fn acknowledge(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::Acknowledge).await
}

/// Shelves alarms.
pub async fn shelve(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::Shelve).await
}

/// Ends the shelving of alarms.
pub async fn unshelve(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::Unshelve).await
}

/// Resets latched alarms.
pub async fn reset(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::Reset).await
}

/// Takes alarms out of service.
pub async fn take_out_of_service(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::TakeOutOfService).await
}

/// Puts alarms in service.
pub async fn put_in_service(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::PutInService).await
}

/// Writes a note about alarms to the journal.
pub async fn note(authenticated: Authenticated, body: RequestBody) -> Result<Answer<Results>, Problem> {
    request(authenticated, &body, AlarmAction::Note).await
}

async fn request(
    authenticated: Authenticated,
    body: &RequestBody,
    action: AlarmAction,
) -> Result<Answer<Results>, Problem> {
    let authorized = authenticated.each();
    let request = body.read(action)?;
    let who = authorized.who();
    let allowed: Vec<bool> =
        request.targets.iter().map(|target| authorized.caller.may(action.verb(), &target.topic)).collect();
    let results = ask(&authorized, move |bus, now, answer| bus.request_alarms(now, &request, &who, &allowed, answer));
    Ok(Answer(Results { results: results.await? }))
}
