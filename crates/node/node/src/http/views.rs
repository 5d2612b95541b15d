//! `/v1/views/reload`.

use super::access::Caller;
use super::problem::Problem;
use super::{App, json};
use crate::bus::Bus;
use crate::reload::ReloadError;
use axum::Extension;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::Response;
use std::net::SocketAddr;
use tieline_access::Verb;

/// Reads the views of the configuration file again: all of them hold from now on, or nothing has changed.
pub async fn reload(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Result<Response, Problem> {
    caller.must(&app, Verb::Admin, "$views").await?;
    let source = app.source.clone();
    // It reads files.
    let read = tokio::task::spawn_blocking(move || source.read_views());
    let views = read.await.map_err(|error| Problem::unavailable(error.to_string()))?.map_err(refused)?;
    let (count, who) = (views.len(), caller.who(peer));
    let replaced = app.bus.call(move |bus: &mut Bus, now| bus.reload_views(now, views, &who)).await?;
    let derived = replaced.map_err(|error| refused(error.into()))?;
    Ok(json(serde_json::json!({ "status": "ok", "views": count, "derived": derived }).to_string()))
}

fn refused(error: ReloadError) -> Problem {
    match error {
        ReloadError::NoFile => Problem::new(StatusCode::CONFLICT, error.to_string()),
        ReloadError::Config(_) | ReloadError::Views(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
    }
}
