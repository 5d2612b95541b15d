//! `/v1/sessions` and `/v1/busiest`.

use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use crate::bus::SessionOrder;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_service::http::parameters::{Fault, Parameter, Query, Whole, words_schema};
use tieline_service::parameters;

parameters! {
    /// Which sessions are asked for.
    pub struct SessionsAsked {
        /// Entries of the page
        limit: Whole<1, 10_000> = "100",
        /// Only clients whose identifier holds this
        client: Option<String>,
        /// Who comes first
        order: SessionOrder = "lag",
    }
}

impl Parameter for SessionOrder {
    fn read(text: &str) -> Result<Self, Fault> {
        let found = Self::ALL.iter().find(|(_, word, _)| *word == text).map(|(order, ..)| *order);
        found.ok_or_else(|| Fault::none_of(Self::ALL.map(|(_, word, _)| word)))
    }

    fn schema() -> serde_json::Value {
        words_schema(Self::ALL.map(|(_, word, _)| word))
    }
}

parameters! {
    /// How many topics are asked for.
    pub struct BusiestAsked {
        /// Topics
        limit: Whole<1, 500> = "20",
    }
}

/// Clients, in the order that was asked for.
#[derive(JsonSchema, Serialize)]
pub struct Sessions {
    sessions: Vec<Session>,
    /// MQTT clients that are connected
    connected: usize,
    /// MQTT sessions whose clients are away
    away: usize,
}

/// An MQTT client that is connected.
#[derive(JsonSchema, Serialize)]
struct Session {
    /// Its identifier
    client: String,
    /// Its subscriptions, shared ones not among them
    subscriptions: usize,
    /// Topics and messages that wait for it
    waiting: usize,
    /// Bytes that are made and wait for its socket; values of topics are made when the socket takes them
    waiting_bytes: usize,
    /// How long its socket has not taken all that was due, in milliseconds; 0 where it keeps up
    late_ms: u64,
    /// Whether its socket takes no bytes at the moment
    blocked: bool,
    /// Whether it has asked for deltas
    deltas: bool,
    /// Messages, and groups of them, that it was sent over this connection
    messages_out: u64,
    /// Bytes that its socket took
    bytes_out: u64,
    /// Messages a second that it was sent, over a second or more: since it came, since rates were asked for before, or
    /// over 10 s
    messages_per_s: f64,
    /// Bytes a second
    bytes_per_s: f64,
    /// Values that it was never sent because a newer one came first
    conflated: u64,
    /// QoS 0 messages dropped because too many waited
    dropped: u64,
    /// QoS 1 and 2 messages that its session was to get and never will, over all its connections: too many waited while
    /// the client was away, their expiry passed, or they were longer than the client takes
    lost: u64,
}

/// Topics with the most updates.
#[derive(JsonSchema, Serialize)]
pub struct Busiest {
    /// How long the window was, in seconds; 0 in the first second of a node
    window_s: f64,
    /// Updates of all topics in it
    updates: u64,
    topics: Vec<Busy>,
}

/// A topic with many updates.
#[derive(JsonSchema, Serialize)]
struct Busy {
    topic: String,
    /// Its updates in the window, or more by no more than `over`
    updates: u64,
    /// What `updates` may be too high by
    over: u64,
    /// Bytes of those of its updates that were counted one by one
    bytes: u64,
    /// Updates a second
    updates_per_s: f64,
    /// Bytes a second
    bytes_per_s: f64,
}

/// MQTT clients that are connected, in an order.
pub async fn sessions(
    authenticated: Authenticated,
    Query(asked): Query<SessionsAsked>,
) -> Result<Answer<Sessions>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/sessions").await?;
    let SessionsAsked { limit: Whole(limit), client, order } = asked;
    let part = client.unwrap_or_default();
    let look = move |bus: &mut crate::bus::Bus, now: tieline_core::Now| {
        (bus.sessions(now.mono, order, limit, &part), bus.client_count(), bus.away().0)
    };
    let (seen, connected, away) = authorized.app.bus.ask_once(&authorized.share(), look).await?;
    let shown = seen.into_iter().map(|session| Session {
        client: session.client.to_string(),
        subscriptions: session.subscriptions,
        waiting: session.waiting,
        waiting_bytes: session.waiting_bytes,
        late_ms: u64::try_from(session.late.as_millis()).unwrap_or(u64::MAX),
        blocked: session.blocked,
        deltas: session.deltas,
        messages_out: session.messages_out,
        bytes_out: session.bytes_out,
        messages_per_s: tenths(session.messages_per_s),
        bytes_per_s: tenths(session.bytes_per_s),
        conflated: session.conflated,
        dropped: session.dropped,
        lost: session.lost,
    });
    Ok(Answer(Sessions { sessions: shown.collect(), connected, away }))
}

/// The topics with the most updates, of those that the caller may read.
pub async fn busiest(
    authenticated: Authenticated,
    Query(BusiestAsked { limit: Whole(limit) }): Query<BusiestAsked>,
) -> Result<Answer<Busiest>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/topics").await?;
    let (share, caller) = (authorized.share(), authorized.caller);
    let shows = move |topic: &str| caller.may(Verb::Read, topic);
    let seen = authorized.app.bus.ask_once(&share, move |bus, now| bus.busiest_topics(now.mono, limit, shows)).await?;
    let seconds = seen.window.as_secs_f64();
    let per_s = |count: u64| if seconds > 0.0 { tenths(count as f64 / seconds) } else { 0.0 };
    let topics = seen.topics.iter().map(|busy| Busy {
        topic: busy.topic.to_string(),
        updates: busy.updates,
        over: busy.over,
        bytes: busy.bytes,
        updates_per_s: per_s(busy.updates),
        bytes_per_s: per_s(busy.bytes),
    });
    Ok(Answer(Busiest { window_s: tenths(seconds), updates: seen.updates, topics: topics.collect() }))
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
