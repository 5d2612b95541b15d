//! `tieline command`: operates a point.

use crate::args::{CommandArgs, Mode};
use crate::who;
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// How long the node may take beyond what the command itself may.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a command may take that says nothing of it: what a configuration may say at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Asks the node, and prints what became of it.
pub fn command(args: &CommandArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, Some(args.timeout.unwrap_or(TIMEOUT_MAX) + PATIENCE))?;
    let (status, answer): (u16, Json) = client.ask("/v1/command", &request(args))?;
    let done = answer["status"] == "success";
    let mut out = std::io::stdout().lock();
    match outcome(&answer) {
        Some(_) if args.json => writeln!(out, "{answer}")?,
        Some(line) if done => writeln!(out, "{line}")?,
        Some(line) => eprintln!("{line}"),
        None => bail!("{}", problem(status, &answer)),
    }
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn request(args: &CommandArgs) -> Json {
    let mut body = json!({ "topic": args.topic, "value": args.value });
    if let Some(mode) = args.mode {
        body["mode"] = match mode {
            Mode::Select => "select".into(),
            Mode::Direct => "direct".into(),
        };
    }
    if let Some(timeout) = args.timeout {
        body["timeout_ms"] = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).into();
    }
    body
}

/// What became of the command; none where the answer does not say.
fn outcome(answer: &Json) -> Option<String> {
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    match text("status") {
        "success" => Some(format!("{} is {}, {} ms", text("topic"), answer["value"], answer["elapsed_ms"])),
        "refused" => Some(format!("refused: {}: {}", text("reason"), text("detail"))),
        _ => None,
    }
}

fn problem(status: u16, answer: &Json) -> String {
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    match (text("title"), text("detail")) {
        ("", _) => format!("the node answers with status {status}"),
        (title, "") => title.to_owned(),
        (_, detail) => detail.to_owned(),
    }
}

/// The value of a command.
///
/// # Errors
/// What was expected.
pub fn parse_value(text: &str) -> Result<Json, String> {
    match serde_json::from_str(text) {
        Ok(value @ (Json::Bool(_) | Json::Number(_))) => Ok(value),
        Ok(_) | Err(_) => Err("expected true, false or a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: Json, expect: Option<&str>) {
        assert_eq!(outcome(&answer).as_deref(), expect, "{answer}");
    }

    #[test]
    fn answers_are_told() {
        let done = json!({"status": "success", "topic": "a/b", "value": true, "elapsed_ms": 12.5});
        check(done, Some("a/b is true, 12.5 ms"));
        let refused = json!({"status": "refused", "reason": "local", "detail": "a local switch blocks remote control"});
        check(refused, Some("refused: local: a local switch blocks remote control"));
        let problem_of = json!({"title": "Bad Request", "status": 400, "detail": "topic is missing"});
        check(problem_of.clone(), None);
        assert_eq!(problem(400, &problem_of), "topic is missing");
    }

    #[test]
    fn values_are_read() {
        assert_eq!(parse_value("-2.5"), Ok(json!(-2.5)));
        assert_eq!(parse_value("true"), Ok(json!(true)));
        for wrong in ["on", "\"x\"", "null", "[1]", ""] {
            assert_eq!(parse_value(wrong), Err("expected true, false or a number".to_owned()), "{wrong}");
        }
    }
}
