//! The types of what the bus and the store write as JSON by hand, piece by piece: tests hold them against it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A value of the kind point.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct Point {
    /// The value: a number, true, false, a text, null, or {"hex": …}
    v: Json,
    q: Validity,
    /// Reasons, where there are any
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    why: Vec<String>,
    #[schemars(extend("format" = "date-time"))]
    t: String,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Validity {
    Good,
    Uncertain,
    Bad,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Kind {
    Point,
    Json,
    Text,
    Binary,
}

/// The last value of a topic.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct Topic {
    topic: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    /// Of the kind point, a Point; absent where topics come without their values
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// Version of the value; on an edge, of a topic of the upstream, its version there. Absent where it is not known, and where the value is from history
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// When the node took the value; of a value from history, its time
    #[schemars(extend("format" = "date-time"))]
    updated: String,
    /// The edit of the history that changed it last; absent where none did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edited: Option<u64>,
}

/// One page of topics.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct TopicPage {
    topics: Vec<Topic>,
    /// The last topic of the page, to go on with; null where there are no more
    next: Option<String>,
}

/// Events that a topic keeps.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct Events {
    topic: String,
    events: Vec<Event>,
}

#[derive(Deserialize, JsonSchema, Serialize)]
struct Event {
    seq: u64,
    #[schemars(extend("format" = "date-time"))]
    time: String,
    kind: Kind,
    value: Json,
}

/// Topics whose values have changed, or are gone.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct LiveUpdate {
    updates: Vec<Topic>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
}

/// The node's time.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct LiveBeat {
    #[schemars(extend("format" = "date-time"))]
    time: String,
    /// A clock that never jumps. A client that compares it with its own clock knows how late the message is
    mono_ms: u64,
}

/// Topics by the quality that their values state; unstated where they state none. Topics that begin with $ are not among
/// them.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Counts {
    good: u64,
    uncertain: u64,
    bad: u64,
    unstated: u64,
    total: u64,
}

/// Counts by quality.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct LiveCounts {
    /// False while not everything is counted
    complete: bool,
    /// Null where there are too many readers with different rights
    total: Option<Counts>,
    /// Of the groups those that have changed, by path: topics below them; a total of 0 says that a group is gone
    groups: BTreeMap<String, Counts>,
}

/// A recorded value.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct Sample {
    topic: String,
    /// Whether v is a message as it was published, which is no point
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    payload: bool,
    /// Values in the bucket
    count: u64,
    /// The edit that changed it last, of a bucket the last whose time meets it; absent where none did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edited: Option<u64>,
    #[serde(flatten)]
    point: Point,
}

/// How long a topic was in a state.
#[derive(Deserialize, JsonSchema, Serialize)]
pub struct StateDuration {
    topic: String,
    /// The value; null where it is unknown, and q is bad then
    v: Json,
    /// good, or bad where the state is unknown: the sample before was bad
    q: String,
    /// When the bucket begins
    t: String,
    /// How long the state stood
    seconds: f64,
    /// Which part of the bucket that is
    share: f64,
    /// How often the state was entered
    count: u64,
    /// The last edit whose time meets the bucket; absent where none does
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edited: Option<u64>,
}

/// Holds a text against the type that the API's document has of it: nothing is missing, unknown, or of another type.
#[cfg(test)]
pub fn check<T: serde::de::DeserializeOwned + Serialize>(text: &str) {
    let read: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let plain: Json = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), plain);
}
