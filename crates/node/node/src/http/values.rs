//! `/v1/topics/{topic}`: one value, with its version as the entity tag, so that it can be read, set and removed on
//! conditions (RFC 9110 section 13).

use super::arguments::{Conditions, KnownTag, OfClients, Payload, TopicAt};
use super::authorization::Authenticated;
use super::body::{Answer, json};
use super::problem::Problem;
use super::topics::{Done, Taken, derived};
use super::upstream;
use crate::bus::fetch::{self, EventsAsked};
use crate::bus::written::{Events, Point, Topic as TopicShown};
use crate::bus::{Bus, PutError, write_topic};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_core::Topic;
use tieline_service::http::openapi::{Operation, Output, Schemas};
use tieline_service::http::parameters::Query;
use tieline_topics::Condition;

/// A topic's last value, or its events.
pub enum Found {
    /// The value, and its version where that tells it apart from others.
    Value(Option<u64>, String),
    /// The version of the value, which the caller has.
    Known(u64),
    /// The events.
    Events(String),
}

impl IntoResponse for Found {
    fn into_response(self) -> Response {
        match self {
            Self::Value(Some(version), text) => tagged(version, json(text)),
            Self::Value(None, text) => json(text),
            Self::Known(version) => tagged(version, StatusCode::NOT_MODIFIED.into_response()),
            Self::Events(text) => json(text),
        }
    }
}

impl Output for Found {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let either = [schemas.written::<TopicShown>(), schemas.written::<Events>()];
        operation.content(200, "application/json", serde_json::json!({ "oneOf": either }));
        tells_version(operation);
        // The document shows what a value of this kind is.
        schemas.written::<Point>();
    }
}

fn tells_version(operation: &mut Operation) {
    operation.told(200, "ETag", &serde_json::json!({ "type": "string" }), "The version in quotes");
}

/// A value that was set.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "TopicSet")]
pub struct Set {
    status: Done,
    /// Version of the value. On an edge, of a topic of the upstream: its version there, or a later one; null where it cannot be told
    seq: Option<u64>,
    /// Whether it is a version of this node.
    #[serde(skip)]
    is_own: bool,
}

impl IntoResponse for Set {
    fn into_response(self) -> Response {
        match self.seq.filter(|_| self.is_own) {
            Some(version) => tagged(version, Answer(self).into_response()),
            None => Answer(self).into_response(),
        }
    }
}

impl Output for Set {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Answer::<Self>::describe(operation, schemas);
        tells_version(operation);
    }
}

/// One topic.
pub async fn one(
    authenticated: Authenticated,
    TopicAt { topic, .. }: TopicAt,
    KnownTag(known): KnownTag,
    Query(asked): Query<EventsAsked>,
) -> Result<Found, Problem> {
    let range = asked.range(authenticated.now().utc);
    let authorized = authenticated.must(Verb::Read, &topic).await?;
    let name = topic.clone();
    if let Some(range) = range {
        let look = move |bus: &mut Bus, _| fetch::events(fetch::Interface::Http, bus, &topic, &range);
        let events = authorized.app.bus.ask_once(&authorized.share(), look).await?;
        let missing = || Problem::not_found(format!("the topic {name:?} keeps no events"));
        return events.map(Found::Events).ok_or_else(missing);
    }
    upstream::look(&authorized, vec![topic.clone()]).await?;
    let found = authorized.app.bus.call(move |bus, _| {
        let Some(view) = bus.tree().get(&topic) else {
            bus.miss(&topic);
            return None;
        };
        let mut text = String::new();
        write_topic(bus.tree(), &view, &mut text);
        // A value that was marked as one from before has the version of that.
        Some((bus.tree().version_told(&view).filter(|_| bus.is_present(&view)), text))
    });
    let missing = || Problem::not_found(format!("the topic {name:?} has no value"));
    let (version, text) = found.await?.ok_or_else(missing)?;
    Ok(match version.filter(|version| known == Some(tag_of(*version))) {
        Some(version) => Found::Known(version),
        None => Found::Value(version, text),
    })
}

/// Sets a topic's value to the bytes of the body, and answers when history has stored it.
pub async fn put(
    authenticated: Authenticated,
    TopicAt { topic, .. }: TopicAt<OfClients>,
    Conditions(conditions): Conditions,
    Payload(payload): Payload,
) -> Result<Set, Problem> {
    let (seq, is_own) = set(authenticated, topic, conditions, payload).await?;
    Ok(Set { status: Done::Ok, seq, is_own })
}

/// Removes a topic's value.
pub async fn remove(
    authenticated: Authenticated,
    TopicAt { topic, .. }: TopicAt<OfClients>,
    Conditions(conditions): Conditions,
) -> Result<Answer<Taken>, Problem> {
    set(authenticated, topic, conditions, Bytes::new()).await?;
    Ok(Taken::OK)
}

/// Sets a value, or removes it where there is no payload; its version, and whether that is one of this node.
async fn set(
    authenticated: Authenticated,
    topic: Topic,
    mut conditions: Vec<Condition>,
    payload: Bytes,
) -> Result<(Option<u64>, bool), Problem> {
    let topic = authenticated.client_topic(&topic)?;
    let authorized = authenticated.must(Verb::Publish, &topic).await?;
    let is_plain = conditions.is_empty();
    if !is_plain {
        // Whether a condition is met tells of the value.
        authorized.must(Verb::Read, &topic).await?;
    }
    let removes = payload.is_empty();
    let name = topic.clone();
    if upstream::publish(&authorized, &topic, &payload, true, &conditions).await? {
        let is_told = !removes && authorized.caller.may(Verb::Read, &topic);
        return Ok((if is_told { upstream::version(&authorized, &topic).await } else { None }, false));
    }
    let done = authorized.app.bus.call(move |bus, now| {
        if bus.derives(&topic) {
            return None;
        }
        if removes && bus.tree().get(&topic).is_none() && conditions.is_empty() {
            conditions.push(Condition::Present);
        }
        Some(bus.put(now, topic, payload, &conditions))
    });
    let (version, stored) = match done.await?.ok_or_else(|| derived(&name))? {
        Ok(done) => done,
        Err(PutError::Unmet(_)) if removes && is_plain => {
            return Err(Problem::not_found(format!("the topic {name:?} has no value")));
        }
        Err(error @ PutError::Unmet(_)) => {
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, error.to_string()));
        }
        Err(error @ PutError::Format(_)) => {
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()));
        }
        Err(error @ (PutError::Full(_) | PutError::Disk(_))) => {
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()));
        }
    };
    if !stored.await.unwrap_or(false) {
        let detail = "history cannot store it; see /healthz";
        return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail));
    }
    Ok((Some(version), true))
}

fn tag_of(version: u64) -> String {
    format!("\"{version}\"")
}

fn tagged(version: u64, mut response: Response) -> Response {
    if let Ok(tag) = HeaderValue::try_from(tag_of(version)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
