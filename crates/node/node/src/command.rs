//! A command as programs ask for it and as it is answered, over HTTP and MQTT alike.
//!
//! The request is `{"topic", "value", "mode"?, "timeout_ms"?}`; over MQTT the topic is in the name of the request's
//! topic, and a bare scalar stands for the value. The answer is `{"status": "success", …}` or `{"status": "refused",
//! "reason", "detail", …}`.

use serde_json::{Value as Json, json};
use std::time::Duration;
use tieline_core::{CommandMode, CommandOutcome, Topic, Value};

/// MQTT requests are published to `$command/<topic of the point>`.
pub const REQUEST_PREFIX: &str = "$command/";

/// The longest time that a caller may give a command.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

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
    /// Done, or refused with a reason.
    pub outcome: CommandOutcome,
    /// From the request to this answer.
    pub elapsed: Duration,
}

impl CommandRequest {
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
        let value = members.get("value").ok_or("the member \"value\" is missing, expected true, false or a number")?;
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
        Json::Null | Json::Array(_) | Json::Object(_) => {
            Err(format!("value is {json}, expected true, false or a number"))
        }
    }
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

/// The answer to a request.
#[must_use]
pub fn answer_json(request: &CommandRequest, done: &CommandDone) -> String {
    let value = match &request.value {
        Value::Null | Value::Bytes(_) => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(x) => json!(x),
        Value::Text(text) => json!(text),
    };
    let mut answer = json!({
        "status": if done.outcome.is_ok() { "success" } else { "refused" },
        "topic": request.topic.as_str(),
        "value": value,
        "elapsed_ms": done.elapsed.as_micros() as f64 / 1000.0,
    });
    if let Some(mode) = request.mode {
        answer["mode"] = json!(mode.name());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, topic: Option<&str>, expect: Result<(&str, Value, Option<CommandMode>), &str>) {
        let body: Json = serde_json::from_str(body).unwrap();
        let found = CommandRequest::from_json(&body, topic.map(|t| Topic::new(t).unwrap()));
        let shown = found.as_ref().map(|r| (r.topic.as_str(), r.value.clone(), r.mode)).map_err(String::as_str);
        assert_eq!(shown, expect, "{body}");
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
        check("{\"value\":[1]}", Some("a"), Err("value is [1], expected true, false or a number"));
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
