//! `/v1/clock`.

use super::access::Caller;
use super::body::Json;
use super::problem::Problem;
use super::{App, json};
use axum::Extension;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::Response;
use std::net::SocketAddr;
use tieline_access::Verb;
use tieline_core::{Timestamp, TimestampError};

/// What `POST /v1/clock` takes.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirm {
    /// What the clock of the caller says.
    time: String,
}

/// Believes the node's clock, where that of the caller says the same.
pub async fn confirm(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Json(request): Json<Confirm>,
) -> Result<Response, Problem> {
    caller.must(&app, Verb::Admin, "$clock").await?;
    let wrong = |error: TimestampError| Problem::bad_request(format!("time is {:?}: {error}", request.time));
    let time: Timestamp = request.time.parse().map_err(wrong)?;
    app.about.wall.confirm(time).map_err(|now| {
        let detail =
            format!("the node's clock says {now}, which is more than 10 minutes from {time}: set it right first");
        Problem::new(StatusCode::CONFLICT, detail)
    })?;
    let who = caller.who(peer);
    let now = app.bus.call(move |bus, now| {
        bus.confirm_clock(now, &who);
        now
    });
    Ok(json(serde_json::json!({ "status": "ok", "time": now.await?.utc.to_string() }).to_string()))
}
