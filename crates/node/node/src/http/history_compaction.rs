//! `POST /v1/history/compact`: days are closed without waiting for late samples.

use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;

/// What was closed.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "HistoryCompacted")]
pub struct Closed {
    status: Done,
    /// Days that were closed, or closed once more with late samples
    days: u64,
}

/// Closes the days that have ended.
pub async fn compact(authenticated: Authenticated) -> Result<Answer<Closed>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$history").await?;
    let who = authorized.who();
    let handle = authorized.app.bus.call(move |bus, now| {
        let handle = bus.recorder().handle();
        if handle.is_some() {
            let detail = "days that have ended are to be closed".to_owned();
            bus.note_access(denial(now, &who, "history_compact", "", "", "", detail));
        }
        handle
    });
    let off = || Problem::unavailable("history is off or cannot be opened");
    let answered = handle.await?.ok_or_else(off)?.close_days();
    let done = tokio::task::spawn_blocking(move || answered.recv()).await;
    let done = done.map_err(|error| Problem::unavailable(error.to_string()))?;
    let days = done.map_err(|_| Problem::unavailable("the node is stopping, or enough calls wait"))?;
    Ok(Answer(Closed { status: Done::Ok, days: days.map_err(Problem::unavailable)? }))
}
