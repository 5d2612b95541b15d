//! `/v1/topics`, `/v1/live`, `/v1/publish`.

use super::access::Caller;
use super::arguments::{illegal, wrong};
use super::authorization::Authenticated;
use super::body::{Answer, Json, Written};
use super::instant;
use super::logins::LoginEnd;
use super::problem::Problem;
use super::upstream;
use crate::bus::fetch::{self, TopicsAsked};
use crate::bus::reasons;
use crate::bus::written::{LiveBeat, LiveCounts, LiveUpdate, TopicPage};
use crate::bus::{AskError, Bus, BusHandle, Groups, LIVE_WAITING_MAX, LiveFeed, LiveMessage, PutError};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use tieline_access::{Reach, Verb};
use tieline_core::{Filter, Topic};
use tieline_service::http::openapi::{CLIENT_TOPIC, Operation, Output, Schemas};
use tieline_service::http::parameters::Query;
use tieline_service::parameters;
use tokio::sync::mpsc;

/// Readers of `/v1/live` at once: each may keep every topic's number and some messages of 500 topics.
const READERS_MAX: usize = 1000;
/// Those of one user, or of one address where nobody shows who it is.
const USER_READERS_MAX: usize = READERS_MAX / 4;
/// Branches of which one reader may ask for the groups below.
const GROUPS_MAX: usize = 256;

/// One page of topics.
pub async fn list(
    authenticated: Authenticated,
    Query(asked): Query<TopicsAsked>,
) -> Result<Written<TopicPage>, Problem> {
    let at = asked.at.map(|at| at.resolve(authenticated.now().utc, authenticated.now().utc));
    let is_raw = asked.raw;
    if is_raw && at.is_none() {
        return Err(Problem::bad_request("raw needs at, a time of the history"));
    }
    let (asked, select) = asked.into_fetch();
    if let Some(time) = at {
        return instant::list(authenticated, asked, select, (time, is_raw)).await;
    }
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
    Ok(Written::new(Body::from_stream(stream)))
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

parameters! {
    /// What is asked for to be sent as it changes.
    pub struct LiveAsked {
        /// Topic filter; may be given several times
        filter: Vec<Filter> = "#",
        /// Counts are sent, with those of the branches directly below this branch; empty for the first level, # for all
        /// branches; may be given up to 256 times
        group: Vec<String>,
    }
}

/// Server-sent events.
pub struct Changes<S>(S);

impl<S: Stream<Item = Result<Event, Infallible>> + Send + 'static> IntoResponse for Changes<S> {
    fn into_response(self) -> Response {
        // What keeps it alive are the bus's own beats: a bus that stands still must not seem to be there.
        Sse::new(self.0).into_response()
    }
}

impl<S> Output for Changes<S> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let events = [schemas.written::<LiveUpdate>(), schemas.written::<LiveBeat>(), schemas.written::<LiveCounts>()];
        operation.content(200, "text/event-stream", serde_json::json!({ "anyOf": events }));
        operation.means(200, "Events; the data of each is a LiveUpdate, a LiveBeat or a LiveCounts, by its name");
    }
}

/// Changes as they come.
pub async fn live(
    authenticated: Authenticated,
    Query(LiveAsked { filter: filters, group }): Query<LiveAsked>,
) -> Result<Changes<impl Stream<Item = Result<Event, Infallible>> + Send>, Problem> {
    let groups = groups(group)?;
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
    Ok(Changes(stream))
}

/// Waits for the end of a login; where there is none, for ever.
pub(super) async fn gone(login: &mut Option<LoginEnd>) {
    match login {
        Some(login) => login.gone().await,
        None => std::future::pending().await,
    }
}

/// The groups of which counts are asked for; none where none are.
fn groups(texts: Vec<String>) -> Result<Option<Groups>, Problem> {
    let mut branches = HashSet::new();
    for text in texts {
        if text == "#" {
            return Ok(Some(Groups::All));
        }
        if !text.is_empty() {
            Topic::new(&text).map_err(|e| illegal("group", &text, &e))?;
        }
        branches.insert(text);
    }
    if branches.len() > GROUPS_MAX {
        return Err(wrong("group", &format!("{} branches", branches.len()), &format!("{GROUPS_MAX} at most, or #")));
    }
    Ok((!branches.is_empty()).then_some(Groups::Below(branches)))
}

/// What `POST /v1/publish` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    #[schemars(length(min = 1), regex(pattern = CLIENT_TOPIC))]
    topic: String,
    /// JSON; a text goes as it is
    payload: serde_json::Value,
    #[serde(default)]
    retain: bool,
}

/// It was done.
#[derive(JsonSchema, Serialize)]
pub struct Taken {
    status: Done,
}

impl Taken {
    /// It was.
    pub const OK: Answer<Self> = Answer(Self { status: Done::Ok });
}

/// That something was done.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Done {
    Ok,
}

/// Publishes, and answers when history has stored it.
pub async fn publish(authenticated: Authenticated, Json(request): Json<Publish>) -> Result<Answer<Taken>, Problem> {
    let topic = authenticated.client_topic(&request.topic)?;
    let authorized = authenticated.must(Verb::Publish, &topic).await?;
    let payload = match request.payload {
        serde_json::Value::String(text) => Bytes::from(text),
        other => Bytes::from(other.to_string()),
    };
    if upstream::publish(&authorized, &topic, &payload, request.retain, &[]).await? {
        return Ok(Taken::OK);
    }
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
        Ok(true) => Ok(Taken::OK),
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
