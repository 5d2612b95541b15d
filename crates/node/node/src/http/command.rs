//! `/v1/command` and `/v1/audit`.

use super::authorization::Authenticated;
use super::body::Json;
use super::json;
use super::problem::Problem;
use super::query::Query;
use crate::bus::Bus;
use crate::control::audit::{AuditPage, AuditQuery};
use crate::control::command::{CommandDone, CommandRequest, answer_json, malformed_json};
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::Refusal;
use tieline_poll::Urgency;

/// Operates a point and waits for what became of it.
pub async fn command(authenticated: Authenticated, Json(body): Json<serde_json::Value>) -> Result<Response, Problem> {
    let request = match CommandRequest::from_json(&body, None) {
        Ok(request) => request,
        Err(detail) => return Ok(with_status(StatusCode::BAD_REQUEST, malformed_json(&detail))),
    };
    let authorized = authenticated.must(Verb::Command, &request.topic).await?;
    let shown = request.clone();
    let who = authorized.who();
    let command = move |bus: &mut Bus, now| bus.command(now, request, who);
    let answer = authorized.app.bus.call_as(Urgency::Protection, command).await?;
    let done = answer.await.unwrap_or_else(|_| stopped());
    let status = match &done.outcome {
        Ok(()) => StatusCode::OK,
        Err(refusal) => status_of(refusal),
    };
    Ok(with_status(status, answer_json(&shown, &done)))
}

fn with_status(status: StatusCode, text: String) -> Response {
    let mut response = json(text);
    *response.status_mut() = status;
    response
}

/// A request that was taken, and that the node is not there to end.
fn stopped() -> CommandDone {
    let detail = "the node is stopping; the command may have been carried out".to_owned();
    CommandDone { outcome: Err(Refusal::unknown("stopping", detail)), expected: None, elapsed: Duration::ZERO }
}

/// The HTTP status of a refusal: what the caller can do about it.
fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal.reason {
        "unknown_topic" => StatusCode::NOT_FOUND,
        "not_writable" | "wrong_type" | "out_of_range" | "not_supported_mode" => StatusCode::UNPROCESSABLE_ENTITY,
        "away" | "no_audit" | "connection_lost" | "stopping" => StatusCode::SERVICE_UNAVAILABLE,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ if refusal.maybe_operated => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::CONFLICT,
    }
}

/// A page of the audit log, the newest entries first.
pub async fn audit(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let authorized = authenticated.must(Verb::Read, "$audit").await?;
    let query = Query::new(query.as_deref(), &["topic", "limit", "before"])?;
    let wanted = AuditQuery {
        topic: query.text("topic").map(str::to_owned),
        before: query.parse("before", "the number of an entry, as `next` of a page gives it")?,
        limit: query.limit(100, 10_000)?,
    };
    let reader = authorized.app.bus.ask_once(&authorized.share(), |bus, _| bus.audit()).await?;
    // Older pages are read from files.
    let read = tokio::task::spawn_blocking(move || reader.page(&wanted)).await;
    let page = read.map_err(std::io::Error::other).flatten();
    let AuditPage { entries, next } = page.map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok(json(serde_json::json!({ "entries": entries, "next": next }).to_string()))
}
