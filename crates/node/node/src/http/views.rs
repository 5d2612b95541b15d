//! `/v1/views/reload`.

use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use super::topics::Done;
use crate::bus::Bus;
use crate::bus::reload::{ReloadError, read_views};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;

/// Views that hold from now on.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ViewsReloaded")]
pub struct Reloaded {
    status: Done,
    views: usize,
    /// Topics that they derive
    derived: usize,
}

/// Reads the views of the configuration file again: all of them hold from now on, or nothing has changed.
pub async fn reload(authenticated: Authenticated) -> Result<Answer<Reloaded>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$views").await?;
    let source = authorized.app.source.clone();
    // It reads files.
    let read = tokio::task::spawn_blocking(move || read_views(&source));
    let views = read.await.map_err(|error| Problem::unavailable(error.to_string()))?.map_err(refused)?;
    let (count, who) = (views.len(), authorized.who());
    let replaced = authorized.app.bus.call(move |bus: &mut Bus, now| bus.reload_views(now, views, &who)).await?;
    let derived = replaced.map_err(|error| refused(error.into()))?;
    Ok(Answer(Reloaded { status: Done::Ok, views: count, derived }))
}

fn refused(error: ReloadError) -> Problem {
    match error {
        ReloadError::NoFile => Problem::new(StatusCode::CONFLICT, error.to_string()),
        ReloadError::Config(_) | ReloadError::Views(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
    }
}
