//! `/v1/topics`, `/v1/live`, `/v1/publish`.

use super::access::Caller;
use super::authorization::Authenticated;
use super::body::Json;
use super::json;
use super::logins::LoginEnd;
use super::problem::Problem;
use super::query::{Query, decode, illegal, wrong};
use crate::bus::fetch;
use crate::bus::reasons;
use crate::bus::{AskError, Bus, BusHandle, Groups, LIVE_WAITING_MAX, LiveFeed, LiveMessage, PutError};
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use tieline_access::{Reach, Verb};
use tieline_core::Topic;
use tokio::sync::mpsc;

/// Readers of `/v1/live` at once: each may keep every topic's number and some messages of 500 topics.
const READERS_MAX: usize = 1000;
/// Those of one user, or of one address where nobody shows who it is.
const USER_READERS_MAX: usize = READERS_MAX / 4;
/// Branches of which one reader may ask for the groups below.
const GROUPS_MAX: usize = 256;

/// One page of topics.
pub async fn list(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = Query::new(query.as_deref(), &fetch::MEMBERS)?;
    let asked = fetch::read(fetch::Interface::Http, |name| query.text(name).map(str::to_owned));
    let (asked, select) = asked.map_err(Problem::bad_request)?;
    let (authorized, reach) = authenticated.reads(std::slice::from_ref(&asked.filter)).await?;
    let listing = Listing {
        share: authorized.share(),
        bus: authorized.app.bus,
        caller: authorized.caller,
        reads_all: reach == Reach::All,
        paging: Some(fetch::Paging::new(fetch::Interface::Http, asked, select)),
    };
    // The first piece says whether there is an answer at all; from then on an error can only break it off.
    let (first, listing) = listing.next().await?.map_err(Problem::bad_request)?;
    let stream = futures_util::stream::unfold((Some(first), Some(listing)), |(first, listing)| async {
        if let Some(first) = first {
            return Some((Ok(first), (None, listing)));
        }
        match listing.filter(|listing| listing.paging.is_some())?.next().await {
            Ok(Ok((piece, listing))) => Some((Ok(piece), (None, Some(listing)))),
            Ok(Err(words)) => Some((Err(std::io::Error::other(words)), (None, None))),
            Err(error) => Some((Err(std::io::Error::other(error)), (None, None))),
        }
    });
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(stream)).into_response())
}

/// A page of topics on its way to a reader, a piece at a time: what it does not read is not made.
struct Listing {
    bus: BusHandle,
    share: Arc<str>,
    caller: Caller,
    reads_all: bool,
    /// None once all was made.
    paging: Option<fetch::Paging>,
}

impl Listing {
    /// The next piece, or what is wrong with the request.
    async fn next(self) -> Result<Result<(Bytes, Self), String>, AskError> {
        let Self { bus, share, caller, reads_all, mut paging } = self;
        let is_begun = paging.as_ref().is_some_and(fetch::Paging::is_begun);
        let judge = caller.clone();
        let step = move |bus: &mut Bus, _| {
            // What may not be read is left out: a page may be short, and `next` goes on all the same.
            let may = |topic: &Topic| reads_all || judge.may(Verb::Read, topic);
            let Some(mut working) = paging.take() else { return Some(Ok((String::new(), None))) };
            match working.step(bus.tree(), may) {
                Ok(true) => {
                    let piece = working.take();
                    Some(Ok((piece, Some(working).filter(|working| !working.is_done()))))
                }
                Ok(false) => {
                    paging = Some(working);
                    None
                }
                Err(words) => Some(Err(words)),
            }
        };
        let made = if is_begun { bus.ask_on(&share, step).await? } else { bus.ask(&share, step).await? };
        let whole = |(piece, paging)| (Bytes::from(piece), Self { bus, share, caller, reads_all, paging });
        Ok(made.map(whole))
    }
}

/// The topic in a path like `/v1/topics/site/relay1`.
pub fn topic_of(uri: &Uri, prefix: &str) -> Result<Topic, Problem> {
    let text = decode(uri.path().strip_prefix(prefix).unwrap_or_default(), false);
    Topic::new(&text).map_err(|e| illegal("the topic", &text, &e))
}

/// Changes as they come.
pub async fn live(authenticated: Authenticated, RawQuery(query): RawQuery) -> Result<Response, Problem> {
    let query = Query::new(query.as_deref(), &["filter", "group"])?;
    let (filters, groups) = (query.filters()?, groups(&query)?);
    let (authorized, _) = authenticated.reads(&filters).await?;
    let (out, updates) = mpsc::channel(LIVE_WAITING_MAX);
    let (login, owner) = (authorized.caller.login(), authorized.share());
    let added = authorized.app.bus.call(move |bus, _| {
        let (read_filter, until) = authorized.caller.read_filter();
        if bus.feed_count() >= READERS_MAX {
            return Err(format!("{READERS_MAX} readers of /v1/live are here, which is the limit"));
        }
        if bus.feed_count_of(&owner) >= USER_READERS_MAX {
            return Err(format!(
                "{USER_READERS_MAX} readers of /v1/live are here of {owner}, which is the limit for one"
            ));
        }
        let feed = LiveFeed::new(&filters, out, read_filter, until).counting(groups).owned_by(owner);
        bus.add_feed(&filters, feed).map_err(|error| error.to_string())
    });
    added.await?.map_err(Problem::unavailable)?;
    let stream = futures_util::stream::unfold((updates, login), |(mut updates, mut login)| async {
        let LiveMessage { event, data } = tokio::select! {
            message = updates.recv() => message?,
            () = gone(&mut login) => return None,
        };
        Some((Ok::<_, Infallible>(Event::default().event(event).data(data)), (updates, login)))
    });
    // What keeps it alive are the bus's own beats: a bus that stands still must not seem to be there.
    Ok(Sse::new(stream).into_response())
}

/// Waits for the end of a login; where there is none, for ever.
async fn gone(login: &mut Option<LoginEnd>) {
    match login {
        Some(login) => login.gone().await,
        None => std::future::pending().await,
    }
}

/// The groups of which counts are asked for; none where none are.
fn groups(query: &Query) -> Result<Option<Groups>, Problem> {
    let mut branches = HashSet::new();
    for text in query.texts("group") {
        if text == "#" {
            return Ok(Some(Groups::All));
        }
        if !text.is_empty() {
            Topic::new(text).map_err(|e| illegal("group", text, &e))?;
        }
        branches.insert(text.to_owned());
    }
    if branches.len() > GROUPS_MAX {
        return Err(wrong("group", &format!("{} branches", branches.len()), &format!("{GROUPS_MAX} at most, or #")));
    }
    Ok((!branches.is_empty()).then_some(Groups::Below(branches)))
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
pub async fn publish(authenticated: Authenticated, Json(request): Json<Publish>) -> Result<Response, Problem> {
    let topic = authenticated.client_topic(&request.topic)?;
    let authorized = authenticated.must(Verb::Publish, &topic).await?;
    let payload = match request.payload {
        serde_json::Value::String(text) => Bytes::from(text),
        other => Bytes::from(other.to_string()),
    };
    let name = topic.clone();
    let stored = authorized.app.bus.call(move |bus, now| {
        let is_free = !bus.derives(&topic);
        is_free.then(|| bus.publish(now, topic, payload, request.retain))
    });
    let stored = stored.await?.ok_or_else(|| derived(&name))?;
    let refused = |detail| Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail);
    let stored = stored.map_err(|error| match error {
        PutError::Format(_) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
        PutError::Full(_) | PutError::Unmet(_) | PutError::Disk(_) => refused(error.to_string()),
    });
    match stored?.await {
        Ok(true) => Ok(json("{\"status\":\"ok\"}".to_owned())),
        Ok(false) | Err(_) => Err(refused("history cannot store it; see /healthz".to_owned())),
    }
}

/// A topic that a view derives.
pub fn derived(topic: &str) -> Problem {
    Problem::bad_request(format!("topic is {topic:?}: {}", reasons::DERIVED))
}

/// A topic that only the node publishes to.
pub fn reserved_problem(topic: &str) -> Problem {
    Problem::bad_request(format!("topic is {topic:?}: {}", reasons::reserved(topic)))
}
