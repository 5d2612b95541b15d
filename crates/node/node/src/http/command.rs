//! `/v1/command` and `/v1/audit`.

use super::authorization::Authenticated;
use super::body::{Answer, Json, takes_json};
use super::problem::Problem;
use super::site_calls::{ForwardedAnswer, forwarded};
use super::upstream;
use crate::bus::Bus;
use crate::control::Done;
use crate::control::audit::{AuditPage, AuditQuery, ChainedLine};
use crate::control::command::{CommandBody, CommandDone, CommandRequest, CommandResult, REQUEST_PREFIX};
use crate::sites::CallVerb;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::Refusal;
use tieline_poll::Urgency;
use tieline_service::http::openapi::{Input, Operation, Output, Schemas};
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;

impl<S: Send + Sync> FromRequest<S> for CommandBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Json::from_request(request, state).await.map(|Json(body)| Self(body))
    }
}

impl Input for CommandBody {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        takes_json(operation, schemas.read::<Self>());
    }
}

/// What became of a command, with the status that says it.
pub enum CommandAnswer {
    /// Here.
    Own(StatusCode, Box<CommandResult>),
    /// At the site, or at the upstream of this node, that has the point.
    Forwarded(ForwardedAnswer),
}

impl IntoResponse for CommandAnswer {
    fn into_response(self) -> Response {
        match self {
            Self::Own(status, result) => (status, Answer(result)).into_response(),
            Self::Forwarded(answer) => answer.into_response(),
        }
    }
}

impl Output for CommandAnswer {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        for (status, words) in [
            (StatusCode::OK, "Done"),
            (StatusCode::BAD_REQUEST, "The request is malformed"),
            (StatusCode::NOT_FOUND, "No such point"),
            (
                StatusCode::CONFLICT,
                "The device or the node refused it, somebody else has reserved the device, or it is busy",
            ),
            (StatusCode::UNPROCESSABLE_ENTITY, "The value or the mode is not for this point"),
            (StatusCode::SERVICE_UNAVAILABLE, "The device is away, or the audit log cannot be written"),
            (StatusCode::GATEWAY_TIMEOUT, "No answer in time: what became of it is not known"),
        ] {
            operation.content(status.as_u16(), "application/json", schemas.written::<CommandResult>());
            operation.means(status.as_u16(), words);
        }
    }
}

/// Operates a point and waits for what became of it.
pub async fn command(authenticated: Authenticated, CommandBody(body): CommandBody) -> Result<CommandAnswer, Problem> {
    let request = match CommandRequest::from_json(&body, None) {
        Ok(request) => request,
        Err(detail) => {
            return Ok(CommandAnswer::Own(StatusCode::BAD_REQUEST, CommandResult::malformed(detail).into()));
        }
    };
    let authorized = authenticated.must(Verb::Command, &request.topic).await?;
    if let Some(answer) = forwarded(&authorized, CallVerb::Command, &body, request.requester.as_deref()).await? {
        return Ok(CommandAnswer::Forwarded(answer));
    }
    if let Some(above) = upstream::answers(&authorized, vec![request.topic.to_string()]).await? {
        let topic = format!("{REQUEST_PREFIX}{}", request.topic);
        let told = upstream::ask(&authorized, above, &topic, &body, request.requester).await?;
        return Ok(CommandAnswer::Forwarded(ForwardedAnswer::of(told.to_string())));
    }
    let shown = request.clone();
    let by = authorized.call(request.requester.as_deref()).by;
    let command = move |bus: &mut Bus, now| bus.command(now, request, &by);
    let answer = authorized.app.bus.call_as(Urgency::Protection, command).await?;
    let done = answer.await.ok().and_then(Done::into_command).unwrap_or_else(stopped);
    let status = match &done.outcome {
        Ok(()) => StatusCode::OK,
        Err(refusal) => status_of(refusal.reason, refusal.maybe_operated),
    };
    Ok(CommandAnswer::Own(status, CommandResult::of(&shown, &done).into()))
}

/// A request that was taken, and that the node is not there to end.
fn stopped() -> CommandDone {
    let detail = "the node is stopping; the command may have been carried out".to_owned();
    CommandDone { outcome: Err(Refusal::unknown("stopping", detail)), expected: None, elapsed: Duration::ZERO }
}

/// The HTTP status of a refusal: what the caller can do about it.
pub(super) fn status_of(reason: &str, maybe_operated: bool) -> StatusCode {
    match reason {
        "malformed" => StatusCode::BAD_REQUEST,
        "unknown_topic" | "unknown_tag" => StatusCode::NOT_FOUND,
        "not_writable" | "wrong_type" | "out_of_range" | "not_supported_mode" | "batch_empty" | "batch_too_large" => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        "away" | "no_audit" | "not_leader" | "connection_lost" | "reconfigured" | "stopping" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ if maybe_operated => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::CONFLICT,
    }
}

parameters! {
    /// Which entries of the audit log are asked for.
    pub struct AuditAsked {
        /// Only of this topic
        topic: Option<String>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "100",
        /// Only entries before the one of this number: `next` of the page before
        before: Option<u64>,
    }
}

/// Entries of the audit log.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "AuditPage")]
pub struct Entries {
    entries: Vec<ChainedLine>,
    /// What to ask for the next page with, as `before`; null where nothing is older. A page may be short, or empty, and
    /// there is a next one all the same
    next: Option<u64>,
}

/// A page of the audit log, the newest entries first.
pub async fn audit(authenticated: Authenticated, Query(asked): Query<AuditAsked>) -> Result<Answer<Entries>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$audit").await?;
    let wanted = AuditQuery { topic: asked.topic, before: asked.before, limit: asked.limit.0 };
    let reader = authorized.app.bus.ask_once(&authorized.share(), |bus, _| bus.audit()).await?;
    // Older pages are read from files.
    let read = tokio::task::spawn_blocking(move || reader.page(&wanted)).await;
    let page = read.map_err(std::io::Error::other).flatten();
    let AuditPage { entries, next } = page.map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok(Answer(Entries { entries, next }))
}
