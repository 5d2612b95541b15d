//! `tieline command`: operates a point, and says what is known: first that the device accepted it, then that a reading
//! shows it.

use crate::api::table::plain;
use crate::args::{CommandArgs, Mode};
use crate::exit::Exit;
use crate::{uri, who};
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tieline_client::{HttpClient, HttpError};

/// How long the node may take beyond what the command itself may.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a command may take that says nothing of it: what a configuration may say at most.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);
/// How often the reading is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How far a reading may be from what was asked for, of the value: set points are of single precision.
const NEAR: f64 = 1e-5;

/// Asks the node, and prints what became of it.
pub fn command(args: &CommandArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, Some(args.timeout.unwrap_or(TIMEOUT_MAX) + PATIENCE))?;
    let reading = Reading { client: &client, path: uri::path(&format!("/v1/topics/{}", args.topic), &[]) };
    // Of a reading that is not there, or may not be read, the end will say so.
    let before = reading.look().ok().flatten();
    let (status, mut answer): (u16, Json) = client.ask("/v1/command", &request(args))?;
    let Some(outcome) = Outcome::of(&answer) else { return Err(problem(status, &answer).into()) };
    if !args.json {
        tell(args, outcome, &answer)?;
    }
    let (confirmed, last) = match outcome {
        Outcome::Accepted if is_confirmed(args) => reading.await_value(&answer["expected"], before, args.confirm)?,
        Outcome::Accepted | Outcome::Refused => (Confirmed::NotAsked, None),
        Outcome::Unknown => (Confirmed::NotAsked, reading.look().ok().flatten()),
    };
    if args.json {
        answer["confirmed"] = confirmed.as_json();
        answer["reading"] = last.unwrap_or(Json::Null);
        writeln!(std::io::stdout(), "{answer}")?;
    } else {
        tell_reading(args, outcome, &confirmed, &answer["expected"], last.as_ref())?;
    }
    Ok(match (outcome, confirmed) {
        (Outcome::Refused, _) => Exit::Refused.into(),
        (Outcome::Unknown, _) => Exit::Unknown.into(),
        (Outcome::Accepted, Confirmed::No(_)) => Exit::Unconfirmed.into(),
        (Outcome::Accepted, Confirmed::Yes { .. } | Confirmed::NotAsked) => ExitCode::SUCCESS,
    })
}

/// Whether a reading is waited for. A point that is relinquished has the value that the device then gives it: any reading may be it.
fn is_confirmed(args: &CommandArgs) -> bool {
    !args.no_confirm && !value(&args.value).is_null()
}

fn request(args: &CommandArgs) -> Json {
    let mut body = json!({ "topic": args.topic, "value": value(&args.value) });
    if let Some(mode) = args.mode {
        body["mode"] = match mode {
            Mode::Select => "select".into(),
            Mode::Direct => "direct".into(),
        };
    }
    if let Some(timeout) = args.timeout {
        body["timeout_ms"] = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).into();
    }
    if let Some(name) = &args.name.name {
        body["requester"] = name.as_str().into();
    }
    body
}

/// A number, a truth value, or null, which relinquishes; any other word is for the node to understand, which knows those of the
/// point.
pub fn value(text: &str) -> Json {
    match serde_json::from_str(text) {
        Ok(value @ (Json::Bool(_) | Json::Number(_) | Json::Null)) => value,
        Ok(_) | Err(_) => Json::from(text),
    }
}

/// What the node says of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The device answered that it does it.
    Accepted,
    /// Nothing was done.
    Refused,
    /// It was sent, and no answer is known.
    Unknown,
}

impl Outcome {
    /// None where the answer does not say.
    fn of(answer: &Json) -> Option<Self> {
        match answer["status"].as_str()? {
            "success" => Some(Self::Accepted),
            "refused" => Some(Self::Refused),
            "unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// Whether a reading shows what was asked for.
#[derive(Clone, Debug, PartialEq)]
enum Confirmed {
    Yes {
        /// Whether the reading is the one from before the command.
        as_before: bool,
    },
    /// It does not, or why there is none.
    No(Option<String>),
    NotAsked,
}

impl Confirmed {
    const fn as_json(&self) -> Json {
        match self {
            Self::Yes { .. } => Json::Bool(true),
            Self::No(_) => Json::Bool(false),
            Self::NotAsked => Json::Null,
        }
    }
}

/// The last value of the point's topic.
struct Reading<'a> {
    client: &'a HttpClient,
    path: String,
}

impl Reading<'_> {
    /// None where there is no value yet.
    fn look(&self) -> Result<Option<Json>, HttpError> {
        match self.client.get(&self.path) {
            Ok(topic) => Ok(Some(topic)),
            Err(HttpError::Problem { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks until the reading shows a value, or the time is over; and the last one.
    fn await_value(&self, expected: &Json, before: Option<Json>, limit: Duration) -> Result<(Confirmed, Option<Json>)> {
        let began = Instant::now();
        loop {
            let last = match self.look() {
                Ok(last) => last,
                Err(error) => return Ok((Confirmed::No(Some(error.to_string())), None)),
            };
            if let Some(topic) = &last
                && shows(topic, expected)
            {
                let as_before = before.as_ref().is_some_and(|before| before["seq"] == topic["seq"]);
                return Ok((Confirmed::Yes { as_before }, last));
            }
            if began.elapsed() >= limit {
                return Ok((Confirmed::No(None), last));
            }
            std::thread::sleep(LOOK_EVERY.min(limit));
        }
    }
}

/// Whether a reading of good quality is of this value.
fn shows(topic: &Json, expected: &Json) -> bool {
    let point = &topic["value"];
    let same = match (point["v"].as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= NEAR * found.abs().max(expected.abs()),
        _ => point["v"] == *expected,
    };
    same && point["q"] == "good"
}

fn tell(args: &CommandArgs, outcome: Outcome, answer: &Json) -> Result<()> {
    let text = |name: &str| plain(&answer[name]);
    match outcome {
        Outcome::Accepted => {
            let (topic, ms) = (&args.topic, &answer["elapsed_ms"]);
            let mut out = std::io::stdout().lock();
            writeln!(out, "accepted by the device in {ms} ms: {topic} {}", args.value)?;
            out.flush()?;
        }
        Outcome::Refused => eprintln!("refused: {}: {}", text("reason"), text("detail")),
        Outcome::Unknown => eprintln!("outcome unknown: {}: {}", text("reason"), text("detail")),
    }
    Ok(())
}

fn tell_reading(
    args: &CommandArgs,
    outcome: Outcome,
    confirmed: &Confirmed,
    expected: &Json,
    last: Option<&Json>,
) -> Result<()> {
    let seen =
        last.map_or_else(|| "there is no reading".to_owned(), |last| format!("the last reading is {}", words(last)));
    match (outcome, confirmed) {
        (_, Confirmed::Yes { as_before }) => {
            let before = if *as_before { ", the same as before the command" } else { "" };
            let reading = last.map(words).unwrap_or_default();
            writeln!(std::io::stdout(), "confirmed by a reading: {reading}{before}")?;
        }
        (_, Confirmed::No(Some(why))) => eprintln!("not confirmed: the reading cannot be had: {why}"),
        (_, Confirmed::No(None)) => {
            let seconds = args.confirm.as_secs_f64();
            eprintln!("not confirmed: no reading showed {} within {seconds} s; {seen}", plain(expected));
        }
        (Outcome::Unknown, Confirmed::NotAsked) => eprintln!("{seen}"),
        (Outcome::Accepted | Outcome::Refused, Confirmed::NotAsked) => {}
    }
    Ok(())
}

/// A reading: value, quality, time.
fn words(topic: &Json) -> String {
    let point = &topic["value"];
    format!("{}, {}, {}", plain(&point["v"]), plain(&point["q"]), plain(&point["t"]))
}

/// An answer that is of no command.
fn problem(status: u16, answer: &Json) -> HttpError {
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    let title = text("title").unwrap_or_else(|| format!("the node answers with status {status}"));
    HttpError::Problem { status, title, detail: text("detail").unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_apart() {
        let of = |status: &str| Outcome::of(&json!({ "status": status }));
        let known = ["success", "refused", "unknown"].map(of);
        assert_eq!(known, [Some(Outcome::Accepted), Some(Outcome::Refused), Some(Outcome::Unknown)]);
        let problem_of = json!({"title": "Bad Request", "status": 400, "detail": "topic is missing"});
        assert_eq!(Outcome::of(&problem_of), None);
        assert_eq!(problem(400, &problem_of).to_string(), "Bad Request: topic is missing");
        assert_eq!(problem(502, &Json::Null).to_string(), "the node answers with status 502");
    }

    #[test]
    fn a_good_reading_of_the_value_confirms() {
        let check = |v: Json, q: &str, expected: Json, confirms: bool| {
            let topic = json!({"value": {"v": v, "q": q, "t": "2026-11-20T09:36:00Z"}});
            assert_eq!(shows(&topic, &expected), confirms, "{topic} {expected}");
        };
        check(json!(false), "good", json!(false), true);
        check(json!(false), "bad", json!(false), false);
        check(json!(true), "good", json!(false), false);
        check(json!(0.1f32), "good", json!(0.1), true);
        check(json!(0.11), "good", json!(0.1), false);
        check(json!(2), "good", json!(2), true);
        check(Json::Null, "good", json!(0), false);
    }

    #[test]
    fn values_are_numbers_truth_or_words() {
        let cases = [("-2.5", json!(-2.5)), ("true", json!(true)), ("on", json!("on")), ("Open", json!("Open"))];
        cases.into_iter().for_each(|(text, expect)| assert_eq!(value(text), expect));
        assert_eq!(["null", "Null", "\"on\""].map(value), [Json::Null, json!("Null"), json!("\"on\"")]);
    }
}
