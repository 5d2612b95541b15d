//! `/v1/reload`, and `/v1/views/reload` for the views alone.

use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use super::topics::Done;
use crate::bus::reload::{ReloadError, Reloaded};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use tieline_access::Verb;

/// What a reload has done
#[derive(JsonSchema, Serialize)]
pub struct ReloadDone {
    status: Done,
    devices: ReloadedDevices,
    /// Devices that could not be started: they are away, and the next reload tries again
    not_started: Vec<NotStartedDevice>,
    /// Views that there are
    views: usize,
    /// Topics that they derive
    derived: usize,
    /// Derived series that there are
    derived_series: usize,
    /// Settings that differ from those that the node runs with, and take effect after a restart
    restart_needed: Vec<&'static str>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct ReloadedDevices {
    added: usize,
    removed: usize,
    changed: usize,
    /// Those of the changed ones that keep their connections
    kept_connection: usize,
    /// Nothing was done to them
    unchanged: usize,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct NotStartedDevice {
    /// Its name in the file
    name: String,
    detail: String,
}

/// Views that hold from now on.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "ViewsReloaded")]
pub struct ViewsReloaded {
    status: Done,
    views: usize,
    /// Topics that they derive
    derived: usize,
}

/// Reads the configuration again: all of what can be reloaded holds from now on, or nothing has changed.
pub async fn reload(authenticated: Authenticated) -> Result<Answer<ReloadDone>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$config").await?;
    let (reloader, who) = (Arc::clone(&authorized.app.reloader), authorized.who());
    // It is carried through where the caller has gone.
    let done = tokio::spawn(async move { reloader.reload(&who).await }).await;
    let done = done.map_err(|error| Problem::unavailable(error.to_string()))?.map_err(refused)?;
    let Reloaded { counts, not_started, views, derived, derived_series, restart_needed } = done;
    Ok(Answer(ReloadDone {
        status: Done::Ok,
        devices: ReloadedDevices {
            added: counts.added,
            removed: counts.removed,
            changed: counts.changed,
            kept_connection: counts.kept_connection,
            unchanged: counts.unchanged,
        },
        not_started: not_started
            .into_iter()
            .map(|device| NotStartedDevice { name: device.name, detail: device.why })
            .collect(),
        views,
        derived,
        derived_series,
        restart_needed,
    }))
}

/// Reads the views of the configuration file again: all of them hold from now on, or nothing has changed.
pub async fn views(authenticated: Authenticated) -> Result<Answer<ViewsReloaded>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$views").await?;
    let (reloader, who) = (Arc::clone(&authorized.app.reloader), authorized.who());
    let done = tokio::spawn(async move { reloader.reload_views(&who).await }).await;
    let done = done.map_err(|error| Problem::unavailable(error.to_string()))?;
    let (views, derived) = done.map_err(refused)?;
    Ok(Answer(ViewsReloaded { status: Done::Ok, views, derived }))
}

fn refused(error: ReloadError) -> Problem {
    match error {
        ReloadError::NoFile => Problem::new(StatusCode::CONFLICT, error.to_string()),
        ReloadError::Config(_) | ReloadError::Views(_) | ReloadError::Tls(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
        ReloadError::Node(_) => Problem::unavailable(error.to_string()),
    }
}
