//! `/v1/views/reload`.

use super::authorization::Authenticated;
use super::json;
use super::problem::Problem;
use crate::bus::Bus;
use crate::bus::reload::{ReloadError, read_views};
use axum::http::StatusCode;
use axum::response::Response;
use tieline_access::Verb;

/// Reads the views of the configuration file again: all of them hold from now on, or nothing has changed.
pub async fn reload(authenticated: Authenticated) -> Result<Response, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$views").await?;
    let source = authorized.app.source.clone();
    // It reads files.
    let read = tokio::task::spawn_blocking(move || read_views(&source));
    let views = read.await.map_err(|error| Problem::unavailable(error.to_string()))?.map_err(refused)?;
    let (count, who) = (views.len(), authorized.who());
    let replaced = authorized.app.bus.call(move |bus: &mut Bus, now| bus.reload_views(now, views, &who)).await?;
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
