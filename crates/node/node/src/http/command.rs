//! `/v1/command` and `/v1/audit`.

use super::access::Caller;
use super::body::Json;
use super::problem::Problem;
use super::query::Query;
use super::{App, json};
use crate::bus::Bus;
use crate::command::{CommandRequest, answer_json, malformed_json};
use axum::Extension;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use std::net::SocketAddr;
use tieline_access::Verb;
use tieline_poll::Urgency;

/// Operates a point and waits for what became of it.
pub async fn command(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(body): Json<serde_json::Value>,
) -> Result<Response, Problem> {
    let request = match CommandRequest::from_json(&body, None) {
        Ok(request) => request,
        Err(detail) => return Ok(with_status(StatusCode::BAD_REQUEST, malformed_json(&detail))),
    };
    caller.must(&app, Verb::Command, &request.topic).await?;
    let shown = request.clone();
    let who = caller.who(peer);
    let command = move |bus: &mut Bus, now| bus.command(now, request, who);
    let answer = app.bus.call_as(Urgency::Protection, command).await?;
    let done = answer.await.map_err(|_| Problem::unavailable("the node is stopping"))?;
    let status = match &done.outcome {
        Ok(()) => StatusCode::OK,
        Err(refusal) => status_of(refusal.reason),
    };
    Ok(with_status(status, answer_json(&shown, &done)))
}

fn with_status(status: StatusCode, text: String) -> Response {
    let mut response = json(text);
    *response.status_mut() = status;
    response
}

/// The HTTP status of a refusal: what the caller can do about it.
fn status_of(reason: &str) -> StatusCode {
    match reason {
        "unknown_topic" => StatusCode::NOT_FOUND,
        "not_writable" | "wrong_type" | "out_of_range" | "not_supported_mode" | "not_finite" => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        "away" | "no_audit" | "connection_lost" => StatusCode::SERVICE_UNAVAILABLE,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::CONFLICT,
    }
}

/// The newest entries of the audit log.
pub async fn audit(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    caller.must(&app, Verb::Read, "$audit").await?;
    let query = Query::new(query.as_deref(), &["topic", "limit"])?;
    let (topic, limit) = (query.text("topic").map(str::to_owned), query.limit(100, 10_000)?);
    let entries = app.bus.call(move |bus, _| bus.audit(topic.as_deref(), limit)).await?;
    Ok(json(serde_json::json!({ "entries": entries }).to_string()))
}
