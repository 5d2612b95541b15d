//! A command as programs ask for it and as it is answered, over HTTP and MQTT alike.
//!
//! The request is `{"topic", "value", "mode"?, "timeout_ms"?}`; over MQTT the topic is in the name of the request's
//! topic, and a bare scalar or word stands for the value. The answer is `{"status": "success", …}`, `{"status":
//! "refused", "reason", "detail", …}`, or the same with `"unknown"`: it was sent, and may have been carried out.

use serde_json::{Value as Json, json};
use std::time::Duration;
use tieline_core::{CommandMode, CommandOutcome, Topic, Value};

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

    /// Reads a request. `topic` is given where the body does not name it.
    ///
    /// # Errors
    /// One lowercase sentence: what was found, and what was expected.
    pub fn from_json(body: &Json, topic: Option<Topic>) -> Result<Self, String> {
        let Json::Object(members) = body else {
            let topic = topic.ok_or_else(|| format!("the body is {body}, expected {{\"topic\": …, \"value\": …}}"))?;
            return Ok(Self { topic, value: scalar(body)?, mode: None, timeout: None });
        };
        let known = ["topic", "value", "mode", "timeout_ms"];
        if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("the member {name:?} is unknown, expected one of {}", known.join(", ")));
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
            value: scalar(value)?,
            mode: mode(members.get("mode"))?,
            timeout: timeout(members.get("timeout_ms"))?,
        })
    }
}

fn scalar(json: &Json) -> Result<Value, String> {
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

fn mode(json: Option<&Json>) -> Result<Option<CommandMode>, String> {
    match json.map(|json| json.as_str().unwrap_or_default()) {
        None => Ok(None),
        Some("select") => Ok(Some(CommandMode::SelectBeforeOperate)),
        Some("direct") => Ok(Some(CommandMode::DirectOperate)),
        Some(other) => Err(format!("mode is {other:?}, expected \"select\" or \"direct\"")),
    }
}

fn timeout(json: Option<&Json>) -> Result<Option<Duration>, String> {
    let Some(json) = json else { return Ok(None) };
    let asked = json.as_u64().filter(|ms| *ms > 0).map(Duration::from_millis).filter(|asked| *asked <= TIMEOUT_MAX);
    let wrong = || format!("timeout_ms is {json}, expected a whole number from 1 to {}", TIMEOUT_MAX.as_millis());
    asked.map(Some).ok_or_else(wrong)
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Null | Value::Bytes(_) => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) => json!(x),
        Value::Text(text) => json!(text),
    }
}

/// The answer to a request.
#[must_use]
pub fn answer_json(request: &CommandRequest, done: &CommandDone) -> String {
    let mut answer = json!({
        "status": match &done.outcome {
            Ok(()) => "success",
            Err(refusal) if refusal.maybe_operated => "unknown",
            Err(_) => "refused",
        },
        "topic": request.topic.as_str(),
        "value": to_json(&request.value),
        "elapsed_ms": done.elapsed.as_micros() as f64 / 1000.0,
    });
    if let Some(mode) = request.mode {
        answer["mode"] = json!(mode.name());
    }
    let is_certain = done.outcome.as_ref().is_err_and(|refusal| !refusal.maybe_operated);
    if let Some(expected) = done.expected.as_ref().filter(|_| !is_certain) {
        answer["expected"] = to_json(expected);
    }
    if let Err(refusal) = &done.outcome {
        answer["reason"] = json!(refusal.reason);
        answer["detail"] = json!(refusal.detail);
    }
    answer.to_string()
}

/// The answer to a request that could not be read.
#[must_use]
pub fn malformed_json(detail: &str) -> String {
    json!({ "status": "refused", "reason": "malformed", "detail": detail }).to_string()
}

/// The answer to a request that has to be asked again later.
#[must_use]
pub fn busy_json(detail: &str) -> String {
    json!({ "status": "refused", "reason": "busy", "detail": detail }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Refusal;

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
            let answer: Json = serde_json::from_str(&answer_json(&request, &done)).unwrap();
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
            Err("the member \"vlaue\" is unknown, expected one of topic, value, mode, timeout_ms"),
        );
    }
}
