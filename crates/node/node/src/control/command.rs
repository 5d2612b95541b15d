//! A command as programs ask for it and as it is answered, over HTTP and MQTT alike.
//!
//! The request is `{"topic", "value", "mode"?, "timeout_ms"?}`; over MQTT the topic is in the name of the request's
//! topic, and a bare scalar or word stands for the value. The answer is `{"status": "success", …}`, `{"status":
//! "refused", "reason", "detail", …}`, or the same with `"unknown"`: it was sent, and may have been carried out.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;
use tieline_core::{CommandMode, CommandOutcome, Refusal, Topic, Value};

/// MQTT requests are published to `$command/<topic of the point>`.
pub const REQUEST_PREFIX: &str = "$command/";

/// The longest time that a caller may give a command.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// What a value may be. Which words a point takes its refusal says.
const VALUE: &str = "true, false, a number, or a word for a state like \"open\"";

/// The longest word for a state in a payload that is no JSON.
const WORD_BYTES_MAX: usize = 160;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRequest {
    /// The point's topic.
    pub topic: Topic,
    /// The value, in the unit of the topic.
    pub value: Value,
    /// How to ask the device; none as its point list says.
    pub mode: Option<CommandMode>,
    /// How long it may take; none as the configuration says.
    pub timeout: Option<Duration>,
    /// The name of the program that asks, where it said so.
    pub requester: Option<String>,
}

/// The ways to ask a device.
const MODES: [CommandMode; 2] = [CommandMode::SelectBeforeOperate, CommandMode::DirectOperate];

/// The members of a request.
const MEMBERS: [&str; 5] = ["topic", "value", "mode", "timeout_ms", "requester"];

/// A request as it comes: [`CommandRequest::from_json`] reads it, and says what is wrong with it.
pub struct CommandBody(pub Json);

impl JsonSchema for CommandBody {
    fn schema_name() -> Cow<'static, str> {
        "CommandRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let [topic, value, mode, timeout_ms, requester] = MEMBERS;
        json_schema!({
            "type": "object",
            "properties": {
                topic: { "type": "string", "minLength": 1, "pattern": tieline_service::http::openapi::TOPIC },
                value: {
                    "type": ["boolean", "number", "string", "null"],
                    "description": "true, false, a number, or a word that the point takes; null relinquishes a point that has priorities",
                },
                mode: { "type": "string", "enum": MODES.map(CommandMode::name) },
                timeout_ms: { "type": "integer", "minimum": 1, "maximum": TIMEOUT_MAX.as_millis() as u64 },
                requester: { "type": "string", "description": "the name of the program that asks, as in its reservation" },
            },
            "required": [topic, value],
            "additionalProperties": false,
        })
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandDone {
    /// Done, refused, or not known, with a reason.
    pub outcome: CommandOutcome,
    /// What the topic shows once it is done; none where it was refused at once.
    pub expected: Option<Value>,
    /// From the request to this answer.
    pub elapsed: Duration,
}

impl CommandRequest {
    /// Reads the payload of a message: JSON, or a word.
    ///
    /// # Errors
    /// As [`CommandRequest::from_json`].
    pub fn from_payload(payload: &[u8], topic: Topic) -> Result<Self, String> {
        let word = || std::str::from_utf8(payload).ok().map(str::trim).filter(|word| is_word(word));
        let body = match (serde_json::from_slice(payload), word()) {
            (Ok(body), _) => body,
            (Err(_), Some(word)) => Json::from(word),
            (Err(error), None) => {
                return Err(format!("the payload is not JSON ({error}), expected {VALUE} or {{\"value\": …}}"));
            }
        };
        Self::from_json(&body, Some(topic))
    }

    /// The request as JSON.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let Self { topic, value, mode, timeout, requester } = self;
        let mut body = json!({ "topic": topic.as_str(), "value": to_json(value) });
        let more = [
            ("mode", mode.map(|mode| Json::from(mode.name()))),
            ("timeout_ms", timeout.map(|timeout| Json::from(timeout.as_millis() as u64))),
            ("requester", requester.clone().map(Json::from)),
        ];
        for (member, value) in more {
            if let Some(value) = value {
                body[member] = value;
            }
        }
        body
    }

    /// Reads a request. `topic` is given where the body does not name it.
    ///
    /// # Errors
    /// One lowercase sentence: what was found, and what was expected.
    pub fn from_json(body: &Json, topic: Option<Topic>) -> Result<Self, String> {
        let Json::Object(members) = body else {
            let topic = topic.ok_or_else(|| format!("the body is {body}, expected {{\"topic\": …, \"value\": …}}"))?;
            return Ok(Self { topic, value: settable(body)?, mode: None, timeout: None, requester: None });
        };
        if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            return Err(format!("the member {name:?} is unknown, expected one of {}", MEMBERS.join(", ")));
        }
        let named = match members.get("topic") {
            None => None,
            Some(Json::String(text)) => Some(Topic::new(text).map_err(|e| format!("topic is {text:?}: {e}"))?),
            Some(other) => return Err(format!("topic is {other}, expected a text")),
        };
        let topic = match (topic, named) {
            (Some(path), Some(named)) if path != named => {
                return Err(format!("topic is {named:?}, expected {path:?} as in the name of the request's topic"));
            }
            (Some(topic), _) | (None, Some(topic)) => topic,
            (None, None) => return Err("the member \"topic\" is missing, expected the topic of a point".to_owned()),
        };
        let value = members.get("value").ok_or_else(|| format!("the member \"value\" is missing, expected {VALUE}"))?;
        Ok(Self {
            topic,
            value: settable(value)?,
            mode: mode(members.get("mode"))?,
            timeout: timeout(members.get("timeout_ms"))?,
            requester: requester(members.get("requester"))?,
        })
    }
}

/// A value that a point may be set to: null relinquishes it, where it has priorities.
pub(super) fn settable(json: &Json) -> Result<Value, String> {
    if json.is_null() { Ok(Value::Null) } else { scalar(json) }
}

pub(super) fn scalar(json: &Json) -> Result<Value, String> {
    match json {
        Json::Bool(b) => Ok(Value::Bool(*b)),
        Json::Number(n) => Ok(n.as_i64().map_or(Value::Float(n.as_f64().unwrap_or(f64::NAN)), Value::Int)),
        Json::String(text) => Ok(Value::from(text.as_str())),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(format!("value is {json}, expected {VALUE}")),
    }
}

/// Whether a payload that is no JSON may be a word for a state.
fn is_word(text: &str) -> bool {
    let broken = text.starts_with(['{', '[', '"']);
    !text.is_empty() && !broken && text.len() <= WORD_BYTES_MAX && !text.contains(char::is_control)
}

pub(super) fn mode(json: Option<&Json>) -> Result<Option<CommandMode>, String> {
    let Some(json) = json else { return Ok(None) };
    let text = json.as_str().unwrap_or_default();
    let mode = MODES.into_iter().find(|mode| mode.name() == text);
    mode.map(Some).ok_or_else(|| format!("mode is {text:?}, expected \"select\" or \"direct\""))
}

fn timeout(json: Option<&Json>) -> Result<Option<Duration>, String> {
    let Some(json) = json else { return Ok(None) };
    let asked = json.as_u64().filter(|ms| *ms > 0).map(Duration::from_millis).filter(|asked| *asked <= TIMEOUT_MAX);
    let wrong = || format!("timeout_ms is {json}, expected a whole number from 1 to {}", TIMEOUT_MAX.as_millis());
    asked.map(Some).ok_or_else(wrong)
}

fn requester(json: Option<&Json>) -> Result<Option<String>, String> {
    match json {
        None => Ok(None),
        Some(Json::String(name)) => Ok(Some(name.clone())),
        Some(other) => Err(format!("requester is {other}, expected a text")),
    }
}

pub(super) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null | Value::Bytes(_) => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) => json!(x),
        Value::Text(text) => json!(text),
    }
}

/// The answer to a request.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct CommandResult {
    status: CommandStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// What a reading of the point shows once it is done
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<f64>,
    /// A stable word, where it was refused or its outcome is unknown
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// What was found and what was expected
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum CommandStatus {
    Success,
    #[default]
    Refused,
    Unknown,
}

impl CommandResult {
    /// Of a request that was read.
    #[must_use]
    pub fn of(request: &CommandRequest, done: &CommandDone) -> Self {
        let refusal = done.outcome.as_ref().err();
        let is_certain = refusal.is_some_and(|refusal| !refusal.maybe_operated);
        Self {
            status: match &done.outcome {
                Ok(()) => CommandStatus::Success,
                Err(refusal) if refusal.maybe_operated => CommandStatus::Unknown,
                Err(_) => CommandStatus::Refused,
            },
            topic: Some(request.topic.to_string()),
            value: Some(to_json(&request.value)),
            expected: done.expected.as_ref().filter(|_| !is_certain).map(to_json),
            mode: request.mode.map(CommandMode::name),
            elapsed_ms: Some(done.elapsed.as_micros() as f64 / 1000.0),
            reason: refusal.map(|refusal| refusal.reason),
            detail: refusal.map(|refusal| refusal.detail.clone()),
        }
    }

    /// Of a request that was not taken here, or whose outcome is not known.
    #[must_use]
    pub fn refused(topic: Option<&str>, refusal: &Refusal) -> Self {
        Self {
            status: if refusal.maybe_operated { CommandStatus::Unknown } else { CommandStatus::Refused },
            topic: topic.map(str::to_owned),
            reason: Some(refusal.reason),
            detail: Some(refusal.detail.clone()),
            ..Self::default()
        }
    }

    /// Of a request that could not be read.
    #[must_use]
    pub fn malformed(detail: String) -> Self {
        Self { reason: Some("malformed"), detail: Some(detail), ..Self::default() }
    }

    /// Of a request that has to be asked again later.
    #[must_use]
    pub fn busy(detail: &str) -> Self {
        Self { reason: Some("busy"), detail: Some(detail.to_owned()), ..Self::default() }
    }
}

/// As JSON.
impl Display for CommandResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, topic: Option<&str>, expect: Result<(&str, Value, Option<CommandMode>), &str>) {
        let body: Json = serde_json::from_str(body).unwrap();
        let found = CommandRequest::from_json(&body, topic.map(|t| Topic::new(t).unwrap()));
        let shown = found.as_ref().map(|r| (r.topic.as_str(), r.value.clone(), r.mode)).map_err(String::as_str);
        assert_eq!(shown, expect, "{body}");
    }

    /// Words go to the point as they are: it knows which it takes.
    #[test]
    fn payloads_are_json_or_a_word() {
        let check = |payload: &[u8], expect: Result<Value, &str>| {
            let found = CommandRequest::from_payload(payload, Topic::new("a").unwrap()).map(|request| request.value);
            match (&found, expect) {
                (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
                (found, expect) => assert_eq!(*found, expect.map_err(str::to_owned), "{payload:?}"),
            }
        };
        check(b"true", Ok(Value::Bool(true)));
        check(b" Open \n", Ok(Value::from("Open")));
        check(b"\"closed\"", Ok(Value::from("closed")));
        check("geöffnet".as_bytes(), Ok(Value::from("geöffnet")));
        check(b"{\"value\":\"on\"}", Ok(Value::from("on")));
        for broken in [&b"{\"value\":"[..], b"[1", b"\"on", b"", b" ", b"a\0b", b"\xff", &[b'x'; 161]] {
            check(broken, Err("the payload is not JSON"));
        }
    }

    #[test]
    fn answers_say_what_is_known() {
        let request = CommandRequest::from_payload(b"open", Topic::new("a").unwrap()).unwrap();
        let check = |outcome, status: &str, expected: Option<bool>| {
            let done = CommandDone { outcome, expected: Some(Value::Bool(false)), elapsed: Duration::ZERO };
            let answer: Json = serde_json::to_value(CommandResult::of(&request, &done)).unwrap();
            let found = answer.get("expected").and_then(Json::as_bool);
            assert_eq!((answer["status"].as_str(), found), (Some(status), expected), "{answer}");
        };
        check(Ok(()), "success", Some(false));
        check(Err(Refusal::new("local", String::new())), "refused", None);
        check(Err(Refusal::unknown("timeout", String::new())), "unknown", Some(false));
    }

    #[test]
    fn requests_are_read_or_refused_with_a_reason() {
        let select = Some(CommandMode::SelectBeforeOperate);
        check("true", Some("a"), Ok(("a", Value::Bool(true), None)));
        check("{\"topic\":\"a\",\"value\":1.5,\"mode\":\"select\"}", None, Ok(("a", Value::Float(1.5), select)));
        check("true", None, Err("the body is true, expected {\"topic\": …, \"value\": …}"));
        check("{\"value\":1}", None, Err("the member \"topic\" is missing, expected the topic of a point"));
        check(
            "{\"topic\":\"b\",\"value\":1}",
            Some("a"),
            Err("topic is \"b\", expected \"a\" as in the name of the request's topic"),
        );
        let expected = "value is [1], expected true, false, a number, or a word for a state like \"open\"";
        check("{\"value\":[1]}", Some("a"), Err(expected));
        check("{\"value\":1,\"mode\":\"fast\"}", Some("a"), Err("mode is \"fast\", expected \"select\" or \"direct\""));
        check(
            "{\"value\":1,\"timeout_ms\":0}",
            Some("a"),
            Err("timeout_ms is 0, expected a whole number from 1 to 300000"),
        );
        check(
            "{\"value\":1,\"vlaue\":0}",
            Some("a"),
            Err("the member \"vlaue\" is unknown, expected one of topic, value, mode, timeout_ms, requester"),
        );
    }
}
