//! What is replayed, read from a node page by page: first the state at the beginning, then each value in order of time.

use super::args::SpanArgs;
use crate::uri;
use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use std::sync::mpsc::SendError;
use tieline_client::HttpClient;
use tieline_core::Timestamp;
use tieline_node::config::Moment;
use tokio::sync::mpsc;

/// Rows of a page.
const PAGE_ROWS: &str = "5000";
/// Topics of a page of the state.
const PAGE_TOPICS: &str = "10000";

/// One message to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its topic in the recorded node.
    pub topic: String,
    /// What was recorded: a point, or a message as it was published.
    pub payload: Vec<u8>,
    /// When, in history; none of the state at the beginning.
    pub time: Option<Timestamp>,
}

/// Which history is replayed.
#[derive(Clone, Debug)]
pub struct Span {
    /// Topics and filters.
    pub topics: Vec<String>,
    /// From this time on,
    pub from: Timestamp,
    /// before this one.
    pub to: Timestamp,
    /// Without edits.
    pub is_raw: bool,
}

impl Span {
    /// The span that a command line means.
    ///
    /// # Errors
    /// A text is not a time, or the end is before the beginning.
    pub fn new(topics: Vec<String>, args: &SpanArgs, now: Timestamp) -> Result<Self> {
        let moment = |name: &str, text: &str| {
            Moment::parse(text).ok_or_else(|| anyhow!("{name} is {text:?}, expected {}", Moment::EXPECTED))
        };
        let to = args.to.as_deref().map(|text| moment("--to", text)).transpose()?;
        let to = to.map_or(now, |to| to.resolve(now, now));
        let from = moment("--from", &args.from)?.resolve(to, now);
        if to < from {
            bail!("--from is {from}, expected a time before --to, which is {to}");
        }
        Ok(Self { topics, from, to, is_raw: args.raw })
    }
}

#[derive(Deserialize)]
struct State {
    topics: Vec<Topic>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Topic {
    topic: String,
    kind: String,
    value: Json,
}

#[derive(Deserialize)]
struct Row {
    topic: String,
    #[serde(default)]
    payload: bool,
    t: Timestamped,
    #[serde(flatten)]
    rest: Map<String, Json>,
}

/// A time of JSON.
struct Timestamped(Timestamp);

impl<'de> Deserialize<'de> for Timestamped {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| serde::de::Error::custom("a time that is none"))
    }
}

/// Reads all of it and gives it to a replay, until that has ended. An error is the last thing it gives.
pub fn read(client: &HttpClient, span: &Span, out: &mpsc::Sender<Result<Recorded>>) {
    let give = |recorded| out.blocking_send(Ok(recorded)).map_err(|_| SendError(()));
    let done = read_state(client, span, give).and_then(|is_wanted| match is_wanted {
        Ok(()) => read_rows(client, span, give),
        gone => Ok(gone),
    });
    if let Err(error) = done {
        let _ = out.blocking_send(Err(error));
    }
}

/// Whether the replay wants more.
type Wanted = Result<(), SendError<()>>;

fn read_state(client: &HttpClient, span: &Span, give: impl Fn(Recorded) -> Wanted) -> Result<Wanted> {
    // What was recorded at the time itself comes with the rows.
    let before = Timestamp::from_micros(span.from.micros().saturating_sub(1)).to_string();
    for filter in &span.topics {
        let mut after: Option<String> = None;
        loop {
            let parameters = [
                ("filter", Some(filter.as_str())),
                ("at", Some(before.as_str())),
                ("raw", span.is_raw.then_some("true")),
                ("limit", Some(PAGE_TOPICS)),
                ("after", after.as_deref()),
            ];
            let page: State = client.get(&uri::path("/v1/topics", &parameters))?;
            for Topic { topic, kind, value } in page.topics {
                let payload = payload_of(&kind, &value)?;
                if give(Recorded { topic, payload, time: None }).is_err() {
                    return Ok(Err(SendError(())));
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(Ok(()))
}

fn read_rows(client: &HttpClient, span: &Span, give: impl Fn(Recorded) -> Wanted) -> Result<Wanted> {
    let (from, to) = (span.from.to_string(), span.to.to_string());
    let mut parameters: Vec<(&str, Option<&str>)> = span.topics.iter().map(|topic| ("topic", Some(&**topic))).collect();
    parameters.extend([
        ("from", Some(&*from)),
        ("to", Some(&*to)),
        ("order", Some("time")),
        ("limit", Some(PAGE_ROWS)),
        ("raw", span.is_raw.then_some("true")),
    ]);
    let mut next = Some(uri::path("/v1/history", &parameters));
    while let Some(path) = next {
        let (page, link) = client.get_page::<Vec<Row>>(&path)?;
        for row in page {
            let time = Some(row.t.0);
            let (topic, payload) = (row.topic.clone(), payload_of_row(row)?);
            if give(Recorded { topic, payload, time }).is_err() {
                return Ok(Err(SendError(())));
            }
        }
        next = link;
    }
    Ok(Ok(()))
}

/// The payload of a topic as `/v1/topics` shows it.
fn payload_of(kind: &str, value: &Json) -> Result<Vec<u8>> {
    match (kind, value) {
        ("binary", Json::String(digits)) => bytes_of_hex(digits),
        ("text", Json::String(text)) => Ok(text.as_bytes().to_vec()),
        (_, json) => Ok(json.to_string().into_bytes()),
    }
}

fn payload_of_row(row: Row) -> Result<Vec<u8>> {
    let Row { payload, t: Timestamped(time), mut rest, .. } = row;
    rest.remove("count");
    rest.remove("edited");
    if !payload {
        rest.insert("t".to_owned(), json!(time.to_string()));
        return Ok(Json::Object(rest).to_string().into_bytes());
    }
    match rest.remove("v") {
        Some(Json::String(text)) => Ok(text.into_bytes()),
        Some(Json::Object(bytes)) => bytes_of_hex(bytes.get("hex").and_then(Json::as_str).unwrap_or_default()),
        other => Err(anyhow!("a message is {other:?}, expected a text or {{\"hex\": …}}")),
    }
}

fn bytes_of_hex(digits: &str) -> Result<Vec<u8>> {
    let pair = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
    bytes.ok_or_else(|| anyhow!("bytes are {digits:?}, expected hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_published_again() {
        let check = |row: Json, expect: &[u8]| {
            let payload = payload_of_row(serde_json::from_value(row).unwrap()).unwrap();
            match serde_json::from_slice::<Json>(expect) {
                Ok(json) => assert_eq!(serde_json::from_slice::<Json>(&payload).unwrap(), json),
                Err(_) => assert_eq!(payload, expect),
            }
        };
        let time = "2026-11-17T14:03:20.000001Z";
        let bad = json!({"topic": "a", "count": 1, "v": 1.5, "q": "bad", "why": ["offline", "away"], "t": time});
        check(bad, format!(r#"{{"v":1.5,"q":"bad","why":["offline","away"],"t":"{time}"}}"#).as_bytes());
        let text = |v: Json| json!({"topic": "a", "payload": true, "count": 1, "v": v, "q": "good", "t": time});
        check(text(json!("door open")), b"door open");
        check(text(json!({"hex": "ff00"})), b"\xff\x00");
        for (kind, value, expect) in [
            ("point", json!({"v": 1}), &b"{\"v\":1}"[..]),
            ("json", json!(5), b"5"),
            ("text", json!("5 \u{e9}"), "5 \u{e9}".as_bytes()),
            ("binary", json!("ff"), b"\xff"),
        ] {
            assert_eq!(payload_of(kind, &value).unwrap(), expect, "{kind}");
        }
        assert!(payload_of("binary", &json!("f")).is_err() && payload_of("binary", &json!("\u{e9}\u{e9}")).is_err());
    }
}
