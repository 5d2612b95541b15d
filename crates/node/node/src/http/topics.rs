//! `/v1/topics`, `/v1/live`, `/v1/publish`.

use super::access::Caller;
use super::body::Json;
use super::problem::Problem;
use super::query::{Query, decode, illegal, wrong};
use super::{App, json};
use crate::bus::{LIVE_WAITING_MAX, LiveFeed, PutError};
use crate::fetch;
use crate::reserved::Reserved;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::convert::Infallible;
use std::time::Duration;
use tieline_access::{Reach, Verb};
use tieline_core::{Filter, Topic};
use tokio::sync::mpsc;

/// Readers of `/v1/live` at once: each may keep every topic's number and some messages of 500 topics.
const READERS_MAX: usize = 1000;

/// One page of topics.
pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::new(query.as_deref(), &fetch::MEMBERS)?;
    let asked = fetch::read(fetch::Door::Http, |name| query.text(name).map(str::to_owned));
    let asked = asked.map_err(Problem::bad_request)?;
    let may = may_read(&app, &caller, &asked.filter).await?;
    let page = app.bus.call(move |bus, _| {
        // What may not be read is left out: a page may be short, and `next` goes on all the same.
        fetch::page(bus.tree(), &asked, |topic| may == Reach::All || caller.may(Verb::Read, topic))
    });
    Ok(json(page.await?))
}

/// The topic in a path like `/v1/topics/site/relay1`.
pub fn topic_of(uri: &Uri, prefix: &str) -> Result<Topic, Problem> {
    let text = decode(uri.path().strip_prefix(prefix).unwrap_or_default(), false);
    Topic::new(&text).map_err(|e| illegal("the topic", &text, &e))
}

/// Changes as they come.
pub async fn live(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let filters = Query::new(query.as_deref(), &["filter"])?.filters()?;
    for filter in &filters {
        may_read(&app, &caller, filter).await?;
    }
    let (out, updates) = mpsc::channel(LIVE_WAITING_MAX);
    let added = app.bus.call(move |bus, _| {
        let (gate, until) = caller.gate();
        if bus.feed_count() >= READERS_MAX {
            return Err(format!("{READERS_MAX} readers of /v1/live are here, which is the limit"));
        }
        bus.add_feed(&filters, LiveFeed::new(&filters, out, gate, until)).map_err(|error| error.to_string())
    });
    added.await?.map_err(Problem::unavailable)?;
    let stream = futures_util::stream::unfold(updates, |mut updates| async {
        let text: String = updates.recv().await?;
        Some((Ok::<_, Infallible>(Event::default().event("update").data(text)), updates))
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(stream).keep_alive(keep_alive).into_response())
}

/// How much of what a filter selects the caller may read.
///
/// # Errors
/// Nothing of it.
pub async fn may_read(app: &App, caller: &Caller, filter: &Filter) -> Result<Reach, Problem> {
    match caller.reach(filter) {
        Reach::Nothing => Err(caller.denied(app, Verb::Read, filter).await),
        reach @ (Reach::All | Reach::Some) => Ok(reach),
    }
}

/// What `POST /v1/publish` takes.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    topic: String,
    payload: serde_json::Value,
    #[serde(default)]
    retain: bool,
}

/// Publishes, and answers when history has stored it.
pub async fn publish(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Json(request): Json<Publish>,
) -> Result<Response, Problem> {
    let topic = client_topic(&request.topic, &app.reserved)?;
    caller.must(&app, Verb::Publish, &topic).await?;
    let payload = match request.payload {
        serde_json::Value::String(text) => Bytes::from(text),
        other => Bytes::from(other.to_string()),
    };
    let name = topic.clone();
    let stored = app.bus.call(move |bus, now| {
        let is_free = !bus.derives(&topic);
        is_free.then(|| bus.publish(now, topic, payload, request.retain))
    });
    let stored = stored.await?.ok_or_else(|| not_for_clients(&name))?;
    let refused = |detail| Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail);
    let stored = stored.map_err(|error| match error {
        PutError::Format(_) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
        PutError::Full(_) | PutError::Unmet(_) => refused(error.to_string()),
    });
    match stored?.await {
        Ok(true) => Ok(json("{\"status\":\"ok\"}".to_owned())),
        Ok(false) | Err(_) => Err(refused("history cannot store it; see /healthz".to_owned())),
    }
}

/// A topic that only the node publishes to.
pub fn not_for_clients(topic: &str) -> Problem {
    wrong("topic", topic, "a name that does not begin with $, is not of a device, and is not derived by a view")
}

/// A topic that a client may publish to.
///
/// # Errors
/// It is none, or the node's own.
pub fn client_topic(text: &str, reserved: &Reserved) -> Result<Topic, Problem> {
    if reserved.contains(text) {
        return Err(not_for_clients(text));
    }
    Topic::new(text).map_err(|e| illegal("topic", text, &e))
}
