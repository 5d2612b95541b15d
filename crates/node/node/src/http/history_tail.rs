//! `/v1/history/tail`: samples from a time on, and then each as it is recorded.

use super::authorization::Authenticated;
use super::history::{check_topics, reads_all, source};
use super::logins::LoginEnd;
use super::problem::Problem;
use super::topics::gone;
use crate::bus::written::Sample;
use crate::config::Moment;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::pin::pin;
use tieline_core::{Filter, Timestamp};
use tieline_history::{HistoryHandle, HistorySource, Tailed};
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;
use tieline_store::write_row;
use tokio::sync::mpsc;

/// Events that may wait for the caller.
const WAITING_MAX: usize = 1024;
/// A beat comes after so many seconds without a sample.
const BEAT_S: u32 = 5;

parameters! {
    /// Which samples are asked for.
    pub struct TailAsked {
        /// Topic or topic filter; may be given up to 64 times
        topic: Vec<Filter>,
        /// Start, inclusive: RFC 3339, or a duration before the present, as in 10m
        from: Moment = "10m",
        /// Whether edits are left out: the samples that were recorded
        raw: bool = "false",
    }
}

/// All samples so far were sent; those that follow are sent as they are recorded.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "TailLive")]
pub struct Live {
    /// Samples so far
    samples: u64,
}

/// Nothing was recorded for a while.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "TailBeat")]
pub struct Beat {
    /// The state of the history, as in /healthz
    history: String,
}

/// What had to be left out, or why no more comes.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "TailLost")]
pub struct Lost {
    /// Records of the journal that are gone, with up to a batch of samples each
    records: u64,
}

/// Why no more comes.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "TailError")]
pub struct Failed {
    detail: String,
}

/// Server-sent events.
pub struct Events(Response);

impl IntoResponse for Events {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Output for Events {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let events = [
            schemas.written::<Sample>(),
            schemas.written::<Live>(),
            schemas.written::<Beat>(),
            schemas.written::<Lost>(),
            schemas.written::<Failed>(),
        ];
        operation.content(200, "text/event-stream", serde_json::json!({ "anyOf": events }));
        operation.means(200, "Events: sample, live, beat, lost, error; the data of each is JSON of that type");
    }
}

/// Samples from a time on, and then each as it is recorded.
pub async fn tail(authenticated: Authenticated, Query(asked): Query<TailAsked>) -> Result<Events, Problem> {
    let TailAsked { topic: topics, from, raw } = asked;
    check_topics(&topics)?;
    let now = authenticated.now().utc;
    let from = from.resolve(now, now);
    let authorized = reads_all(authenticated, &topics).await?;
    let source = source(&authorized.app)?;
    let handle = authorized.app.bus.call(|bus, _| bus.recorder().handle()).await?;
    let handle = handle.ok_or_else(|| Problem::unavailable("history cannot be opened"))?;
    let recall = authorized.app.about.tails.enter(authorized.share()).await?;
    let (out, events) = mpsc::channel(WAITING_MAX);
    let login = authorized.caller.login();
    tokio::task::spawn_blocking(move || {
        write(&handle, &source, &topics, (from, raw), &out);
        drop(recall);
    });
    let stream = futures_util::stream::unfold((events, login), |(mut events, mut login)| async {
        let event = next(&mut events, &mut login).await?;
        Some((Ok::<_, Infallible>(event), (events, login)))
    });
    Ok(Events(Sse::new(stream).into_response()))
}

async fn next(events: &mut mpsc::Receiver<Event>, login: &mut Option<LoginEnd>) -> Option<Event> {
    let gone = pin!(gone(login));
    tokio::select! {
        event = events.recv() => event,
        () = gone => None,
    }
}

fn write(
    handle: &HistoryHandle,
    source: &HistorySource,
    topics: &[Filter],
    from: (Timestamp, bool),
    out: &mpsc::Sender<Event>,
) {
    let event = |name: &str, data: String| Event::default().event(name).data(data);
    let json = |name, value: serde_json::Result<String>| value.ok().map(|data| event(name, data));
    let (mut samples, mut idle) = (0, 0);
    let done = tieline_history::tail(handle, source, topics, from, |tailed| {
        idle = if tailed == Tailed::Idle { idle + 1 } else { 0 };
        let event = match tailed {
            Tailed::Row(row) => {
                samples += 1;
                let mut text = String::new();
                write_row(&row, &mut text);
                Some(event("sample", text))
            }
            Tailed::Live => json("live", serde_json::to_string(&Live { samples })),
            Tailed::Lost(records) => json("lost", serde_json::to_string(&Lost { records })),
            Tailed::Idle if idle % BEAT_S == 0 => {
                let history = handle.status().state.name().to_owned();
                json("beat", serde_json::to_string(&Beat { history }))
            }
            Tailed::Idle => None,
        };
        match event {
            Some(event) => out.blocking_send(event).is_ok(),
            None => !out.is_closed(),
        }
    });
    if let Err(error) = done
        && let Some(event) = json("error", serde_json::to_string(&Failed { detail: error.to_string() }))
    {
        let _ = out.blocking_send(event);
    }
}
