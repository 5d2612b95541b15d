//! `/v1/topics`, `/v1/live`, `/v1/publish`.

use super::access::Caller;
use super::body::Json;
use super::problem::Problem;
use super::query::{Query, decode, illegal, wrong};
use super::{App, json};
use crate::bus::{LIVE_WAITING_MAX, LiveFeed, write_topic};
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
use tieline_core::{Filter, Topic, json_string};
use tokio::sync::mpsc;

/// Readers of `/v1/live` at once: each may keep every topic's number and some messages of 500 topics.
const READERS_MAX: usize = 1000;

/// One page of topics.
pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::new(query.as_deref(), &["filter", "after", "limit"])?;
    let (filter, limit) = (query.filter()?, query.limit(1000, 10_000)?);
    let may = may_read(&app, &caller, &filter).await?;
    let after = query.text("after").map(|text| Topic::new(text).map_err(|e| illegal("after", text, &e)));
    let after = after.transpose()?;
    let page = app.bus.call(move |bus, _| {
        let page = bus.tree().list(&filter, after.as_ref(), limit);
        let mut text = String::from("{\"topics\":[");
        // What may not be read is left out: a page may be short, and `next` goes on all the same.
        let shown = page.items.iter().filter(|view| may == Reach::All || caller.may(Verb::Read, view.topic));
        for (i, view) in shown.enumerate() {
            if i > 0 {
                text.push(',');
            }
            write_topic(view, &mut text);
        }
        text.push_str("],\"next\":");
        match &page.after {
            Some(after) => json_string(after, &mut text),
            None => text.push_str("null"),
        }
        text.push('}');
        text
    });
    Ok(json(page.await?))
}

/// The topic in a path like `/v1/topics/site/relay1`.
pub fn topic_of(uri: &Uri, prefix: &str) -> Result<Topic, Problem> {
    let text = decode(uri.path().strip_prefix(prefix).unwrap_or_default(), false);
    Topic::new(&text).map_err(|e| illegal("the topic", &text, &e))
}

/// One topic.
pub async fn one(State(app): State<App>, Extension(caller): Extension<Caller>, uri: Uri) -> Result<Response, Problem> {
    let topic = topic_of(&uri, "/v1/topics/")?;
    caller.must(&app, Verb::Read, &topic).await?;
    let name = topic.clone();
    let found = app.bus.call(move |bus, _| {
        let view = bus.tree().get(&topic)?;
        let mut text = String::new();
        write_topic(&view, &mut text);
        Some(text)
    });
    let missing = || Problem::not_found(format!("the topic {name:?} has no value"));
    found.await?.map(json).ok_or_else(missing)
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
    let stored = app.bus.call(move |bus, now| bus.publish(now, topic, payload, request.retain)).await?;
    let refused = |detail| Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail);
    match stored.map_err(|e| refused(e.to_string()))?.await {
        Ok(true) => Ok(json("{\"status\":\"ok\"}".to_owned())),
        Ok(false) | Err(_) => Err(refused("history cannot store it; see /healthz".to_owned())),
    }
}

fn client_topic(text: &str, reserved: &Reserved) -> Result<Topic, Problem> {
    if reserved.contains(text) {
        return Err(wrong("topic", text, "a name that does not begin with $ and is not of a device"));
    }
    Topic::new(text).map_err(|e| illegal("topic", text, &e))
}
