//! `PUT /v1/history`: samples of the past, from another history.

use super::authorization::Authenticated;
use super::body::{Answer, Json};
use super::problem::Problem;
use super::topics::Done;
use crate::access::denial;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::Update;
use tieline_history::NotRecorded;
use tieline_journal::Sample;
use tieline_store::{Imported, ImportedValue, payload_kind, reasons};
use tokio::sync::oneshot;

/// How long an answer waits until what is durable can be read, too.
const READABLE: Duration = Duration::from_secs(30);

/// A sample as an export with kinds writes it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ImportedSample")]
#[serde(deny_unknown_fields)]
pub struct SampleGiven {
    topic: String,
    /// Value
    v: serde_json::Value,
    /// Quality: `good`, `uncertain` or `bad`; default that of the reasons
    #[serde(default)]
    q: String,
    /// Reasons
    #[serde(default)]
    why: Vec<String>,
    /// Time
    #[schemars(extend("format" = "date-time"))]
    t: String,
    /// What the value is, where JSON does not tell: null, boolean, integer, double, text, bytes, payload, payload_bytes
    #[serde(default)]
    kind: Option<String>,
    /// Whether the value is a message that is no point, as a query without kinds marks it
    #[serde(default)]
    payload: bool,
    /// Samples in a bucket, as a query gives it; not stored
    #[serde(default)]
    #[expect(dead_code, reason = "rows of a query have it")]
    count: Option<u64>,
    /// Edit of a row, as a query gives it; not stored
    #[serde(default)]
    #[expect(dead_code, reason = "rows of a query have it")]
    edited: Option<u64>,
}

/// What was stored.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "HistoryImported")]
pub struct Stored {
    status: Done,
    /// Samples that are in the history now
    samples: usize,
    /// Samples of those that are older than `history.keep` allows: they are not shown, and removed
    too_old: usize,
}

/// Stores samples; each that is there already counts once.
pub async fn import(
    authenticated: Authenticated,
    Json(given): Json<Vec<SampleGiven>>,
) -> Result<Answer<Stored>, Problem> {
    let authorized = authenticated.must(Verb::Admin, "$history").await?;
    let mut samples = Vec::with_capacity(given.len());
    for (number, sample) in given.into_iter().enumerate() {
        let wrong = |what| Problem::bad_request(format!("sample {}: {what}", number + 1));
        samples.push(read(&sample).map_err(wrong)?);
    }
    let count = samples.len();
    if count == 0 {
        return Ok(Answer(Stored { status: Done::Ok, samples: 0, too_old: 0 }));
    }
    let (who, about) = (authorized.who(), describe(&samples));
    let handle = authorized.app.bus.call(move |bus, now| {
        let handle = bus.recorder().handle();
        if handle.is_some() {
            bus.note_access(denial(now, &who, "history_import", "", &about.0, "", about.1));
        }
        handle
    });
    let off = || Problem::unavailable("history is off or cannot be opened");
    let handle = handle.await?.ok_or_else(off)?;
    let too_old = super::history::source(&authorized.app)?.too_old(&samples);
    let (told, hears) = oneshot::channel();
    handle.submit(samples, Box::new(move |stored| drop(told.send(stored))));
    match hears.await.unwrap_or(Err(NotRecorded::Closed)) {
        Ok(seq) => {
            // Who imports much waits for the store, not for a journal that is full.
            let waited = tokio::task::spawn_blocking(move || handle.wait_stored(seq, READABLE));
            waited.await.map_err(|error| Problem::unavailable(error.to_string()))?;
            Ok(Answer(Stored { status: Done::Ok, samples: count, too_old }))
        }
        Err(error @ (NotRecorded::Full | NotRecorded::DiskFull)) => {
            Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()))
        }
        Err(error) => Err(Problem::unavailable(error.to_string())),
    }
}

fn read(given: &SampleGiven) -> Result<Sample, String> {
    let quality = (given.q.as_str(), reasons(given.why.iter().map(String::as_str))?);
    let value = ImportedValue::Json(given.v.clone());
    let kind = given.kind.as_deref().or_else(|| payload_kind(given.payload, &given.v));
    let Imported { topic, time, body } = Imported::new(&given.topic, &given.t, value, quality, kind)?;
    Ok(Sample { time, update: Update { topic, body }, again: true })
}

/// The first topic, and what the samples are together.
fn describe(samples: &[Sample]) -> (String, String) {
    let topics: HashSet<&str> = samples.iter().map(|sample| sample.update.topic.as_str()).collect();
    let times = || samples.iter().map(|sample| sample.time);
    let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
    let topic = samples.first().map(|sample| sample.update.topic.to_string()).unwrap_or_default();
    (topic, format!("{} samples of {} topics from {first} to {last}", samples.len(), topics.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::{Body, Quality, Timestamp, Value};

    fn check(json: &str, expect: Result<(Body, &str), &str>) {
        let given: SampleGiven = serde_json::from_str(json).unwrap();
        let found = read(&given).map(|sample| (sample.update.body, sample.time.to_string()));
        assert_eq!(found, expect.map(|(body, time)| (body, time.to_owned())).map_err(str::to_owned), "{json}");
    }

    #[test]
    fn samples_are_read_exactly_or_say_what_is_wrong() {
        let time: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
        let point = |value, quality| {
            Ok((Body::Point(tieline_core::Point { value, quality, time }), "2026-11-20T00:00:00.000Z"))
        };
        check(r#"{"topic":"a","t":"2026-11-20T00:00:00Z","v":5}"#, point(Value::Int(5), Quality::GOOD));
        check(
            r#"{"topic":"a","t":"2026-11-20T00:00:00Z","v":5.0,"why":["away"]}"#,
            point(Value::Float(5.0), Quality::AWAY),
        );
        let payload = r#"{"topic":"a","t":"2026-11-20T00:00:00Z","v":"on","kind":"payload"}"#;
        check(payload, Ok((Body::Opaque(bytes::Bytes::from_static(b"on")), "2026-11-20T00:00:00.000Z")));
        check(
            r#"{"topic":"a","t":"x","v":5}"#,
            Err(&format!("the time is \"x\": {}", "x".parse::<Timestamp>().unwrap_err())),
        );
        let reason = r#"{"topic":"a","t":"2026-11-20T00:00:00Z","v":5,"why":["x"]}"#;
        check(reason, Err("the reason \"x\" is not known"));
        let of_query = r#"{"topic":"a","payload":true,"count":1,"v":"on","q":"good","t":"2026-11-20T00:00:00Z"}"#;
        check(of_query, Ok((Body::Opaque(bytes::Bytes::from_static(b"on")), "2026-11-20T00:00:00.000Z")));
        let other_name = r#"{"topic":"a","t":"2026-11-20T00:00:00Z","v":5,"quality":"bad"}"#;
        let error = serde_json::from_str::<SampleGiven>(other_name).unwrap_err().to_string();
        assert!(error.contains("unknown field `quality`"), "{error}");
    }
}
