//! Reservations, overrides, tags, and calls for many points: `tieline reserve`, `reservations`, `renew`, `release`, `set`,
//! `revert`, `override` and `tag`.

pub mod args;
pub mod tags;

use crate::api::table::{self, Align, plain};
use crate::args::{HttpArgs, Mode};
use crate::command::value;
use crate::exit::Exit;
use crate::{terminal, who};
use anyhow::{Result, bail};
use args::{
    CallArgs, OverrideOffArgs, OverrideOnArgs, OverrideVerb, ReleaseArgs, RenewArgs, ReservationsArgs, ReserveArgs,
    RevertArgs, SetArgs,
};
use serde_json::{Value as Json, json};
use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::HttpError;

/// How long the node may take for a call: points of one device go one by one.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Reserves devices.
pub fn reserve(args: &ReserveArgs) -> Result<ExitCode> {
    let slot = |device: &String| {
        let mut slot = json!({ "device": device });
        for (name, text) in [("start", &args.from), ("end", &args.until), ("for", &args.span)] {
            if let Some(text) = text {
                slot[name] = Json::from(text.as_str());
            }
        }
        slot
    };
    let slots: Vec<Json> = args.devices.iter().map(slot).collect();
    // Who reserves from a terminal makes no calls: without a word of its own it stays until its time ends.
    let lease = args.lease.as_deref().unwrap_or("none");
    let mut body = json!({ "task": args.task, "priority": args.priority.word(), "slots": slots, "lease": lease });
    name(&mut body, args.name.name.as_deref());
    let answer = ask(&args.node, "/v1/reservations", &body, "result")?;
    tell_reservation(args.json, &answer, &format!("reserved: {}", args.task))
}

/// Renews the leases of the holder of a reservation.
pub fn renew(args: &RenewArgs) -> Result<ExitCode> {
    let mut body = json!({ "task": args.task });
    name(&mut body, args.name.name.as_deref());
    let answer = ask(&args.node, "/v1/reservations/renew", &body, "result")?;
    let done = match &answer["lease_s"] {
        Json::Null => format!("{} has no lease: it ends at its time", args.task),
        lease => format!("renewed: {}, for {} s", args.task, plain(lease)),
    };
    tell_reservation(args.json, &answer, &done)
}

/// Ends a reservation.
pub fn release(args: &ReleaseArgs) -> Result<ExitCode> {
    let mut body = json!({ "task": args.task, "force": args.force });
    name(&mut body, args.name.name.as_deref());
    let answer = ask(&args.node, "/v1/reservations/cancel", &body, "result")?;
    tell_reservation(args.json, &answer, &format!("released: {}", args.task))
}

fn tell_reservation(is_json: bool, answer: &Json, done: &str) -> Result<ExitCode> {
    let is_done = answer["result"] == "SUCCESS";
    let mut out = io::stdout().lock();
    match (is_json, is_done) {
        (true, _) => writeln!(out, "{}", terminal::json(&answer.to_string()))?,
        (false, true) => {
            writeln!(out, "{}", terminal::one_line(done))?;
            for loser in answer["data"].as_array().into_iter().flatten() {
                let line = format!("pre-empted: {} of {}", plain(&loser[1]), plain(&loser[0]));
                writeln!(out, "{}", terminal::one_line(&line))?;
            }
        }
        (false, false) => {
            eprintln!("refused: {}", terminal::one_line(&plain(&answer["info"])));
            conflicts(&answer["data"]);
        }
    }
    Ok(if is_done { ExitCode::SUCCESS } else { Exit::Refused.into() })
}

/// Who is in the way.
fn conflicts(data: &Json) {
    for (requester, tasks) in data.as_object().into_iter().flatten() {
        for (task, slots) in tasks.as_object().into_iter().flatten() {
            for slot in slots.as_array().into_iter().flatten() {
                let [device, start, end] = [0, 1, 2].map(|at| plain(&slot[at]));
                let line = format!("in the way: {task} of {requester} has {device} from {start} to {end}");
                eprintln!("{}", terminal::one_line(&line));
            }
        }
    }
}

/// Lists reservations.
pub fn reservations(args: &ReservationsArgs) -> Result<ExitCode> {
    let answer: Json = who::http(&args.node, None)?.get("/v1/reservations")?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut rows: Vec<[String; 7]> = Vec::new();
    for reservation in answer["reservations"].as_array().into_iter().flatten() {
        if args.json {
            writeln!(out, "{}", terminal::json(&reservation.to_string()))?;
            continue;
        }
        for slot in reservation["slots"].as_array().into_iter().flatten() {
            let of = [&reservation["task"], &reservation["requester"], &reservation["priority"]].map(line);
            let [task, requester, priority] = of;
            let device = format!("{}{}", if slot["current"] == true { "* " } else { "  " }, line(&slot["device"]));
            let lease = reservation["lease_end"].as_str().unwrap_or("-").to_owned();
            rows.push([task, requester, priority, device, line(&slot["start"]), line(&slot["end"]), lease]);
        }
    }
    if !args.json {
        let head = ["task", "requester", "priority", "  device", "from", "until", "lease until"]
            .map(|name| (name, Align::Left));
        table::write(head, &rows, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Sets points.
pub fn set(args: &SetArgs) -> Result<ExitCode> {
    let mut texts = Vec::new();
    for text in &args.points {
        match text.as_str() {
            "-" => texts.extend(io::stdin().lock().lines().collect::<io::Result<Vec<String>>>()?),
            text => texts.push(text.to_owned()),
        }
    }
    let mut points = Vec::new();
    for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        let Some((topic, text)) = text.rsplit_once('=') else {
            bail!("the point is {text:?}, expected TOPIC=VALUE");
        };
        let mut point = json!({ "topic": topic.trim(), "value": value(text.trim()) });
        if let Some(mode) = args.mode {
            point["mode"] = Json::from(match mode {
                Mode::Select => "select",
                Mode::Direct => "direct",
            });
        }
        points.push(point);
    }
    call(&args.call, "/v1/set", json!({ "points": points }))
}

/// Reverts points and devices.
pub fn revert(args: &RevertArgs) -> Result<ExitCode> {
    call(&args.call, "/v1/revert", json!({ "points": args.points, "devices": args.devices }))
}

fn call(args: &CallArgs, path: &str, mut body: Json) -> Result<ExitCode> {
    body["confirm"] = args.confirm.into();
    body["dry_run"] = args.dry_run.into();
    if let Some(timeout) = args.timeout {
        body["timeout_ms"] = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).into();
    }
    name(&mut body, args.name.name.as_deref());
    let answer = ask(&args.node, path, &body, "status")?;
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => writeln!(out, "{}", terminal::json(&answer.to_string()))?,
        false => show_call(&answer, &mut out)?,
    }
    out.flush()?;
    if !args.json && answer.get("reason").is_some() {
        eprintln!("refused: {}: {}", plain(&answer["reason"]), terminal::one_line(&plain(&answer["detail"])));
    }
    Ok(exit_of(&answer))
}

/// What the exit code says of a call.
fn exit_of(answer: &Json) -> ExitCode {
    match answer["status"].as_str().unwrap_or_default() {
        "success" => ExitCode::SUCCESS,
        "dry_run" if answer["refused"] == 0 => ExitCode::SUCCESS,
        "partial" => Exit::Incomplete.into(),
        "unknown" => Exit::Unknown.into(),
        "unconfirmed" => Exit::Unconfirmed.into(),
        _ => Exit::Refused.into(),
    }
}

/// A line for each point, and what all came to.
fn show_call(answer: &Json, out: &mut impl Write) -> io::Result<()> {
    for point in answer["points"].as_array().into_iter().flatten() {
        let status = plain(&point["status"]).replace('_', " ");
        let more = match (point.get("reason"), point.get("raw"), point.get("reading"), point.get("expected")) {
            (Some(reason), ..) => format!("{}: {}", plain(reason), plain(&point["detail"])),
            (None, Some(raw), ..) => format!("{} {}", plain(&point["mode"]), plain(raw)),
            (None, None, Some(reading), _) => format!("{}, {}", plain(&reading["v"]), plain(&reading["q"])),
            (None, None, None, Some(expected)) => plain(expected),
            (None, None, None, None) => String::new(),
        };
        let text = format!("{}: {status}  {more}", plain(&point["topic"]));
        writeln!(out, "{}", terminal::one_line(text.trim_end()))?;
    }
    if answer["points"].as_array().is_some_and(|points| points.len() > 1) && answer["status"] != "dry_run" {
        let counts = ["accepted", "confirmed", "unconfirmed", "refused", "unknown"];
        let some = counts.into_iter().filter(|name| answer[*name].as_u64().is_some_and(|count| count > 0));
        let words: Vec<String> = some.map(|name| format!("{} {name}", answer[name])).collect();
        writeln!(out, "{} in {} ms", words.join(", "), plain(&answer["elapsed_ms"]))?;
    }
    Ok(())
}

/// Sets an override on or off, or lists all.
pub fn override_verb(verb: &OverrideVerb) -> Result<ExitCode> {
    match verb {
        OverrideVerb::On(args) => override_on(args),
        OverrideVerb::Off(args) => override_off(args),
        OverrideVerb::List(args) => override_list(args),
    }
}

fn override_on(args: &OverrideOnArgs) -> Result<ExitCode> {
    let body = json!({
        "pattern": args.pattern,
        "duration_s": args.span.map(|span| span.as_secs_f64()),
        "failsafe_revert": args.revert,
        "staggered_revert": args.staggered,
    });
    let answer = ask(&args.node, "/v1/overrides", &body, "status")?;
    let count = answer["selects"].as_array().map_or(0, Vec::len);
    let what = if count == 1 { "device or point" } else { "devices or points" };
    tell_override(args.json, &answer, &format!("override on: {}, {count} {what}", args.pattern))
}

fn override_off(args: &OverrideOffArgs) -> Result<ExitCode> {
    let answer = ask(&args.node, "/v1/overrides/off", &json!({ "pattern": args.pattern }), "status")?;
    tell_override(args.json, &answer, &format!("override off: {}", args.pattern.as_deref().unwrap_or("all")))
}

fn tell_override(is_json: bool, answer: &Json, done: &str) -> Result<ExitCode> {
    let is_done = answer["status"] == "success";
    match (is_json, is_done) {
        (true, _) => writeln!(io::stdout(), "{}", terminal::json(&answer.to_string()))?,
        (false, true) => writeln!(io::stdout(), "{}", terminal::one_line(done))?,
        (false, false) => {
            eprintln!("refused: {}: {}", plain(&answer["reason"]), terminal::one_line(&plain(&answer["detail"])));
        }
    }
    Ok(if is_done { ExitCode::SUCCESS } else { Exit::Refused.into() })
}

fn override_list(args: &ReservationsArgs) -> Result<ExitCode> {
    let answer: Json = who::http(&args.node, None)?.get("/v1/overrides")?;
    let overrides = answer["overrides"].as_array().cloned().unwrap_or_default();
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        overrides.iter().try_for_each(|one| writeln!(out, "{}", terminal::json(&one.to_string())))?;
    } else {
        let until = |one: &Json| if one["until"].is_null() { "set off".to_owned() } else { line(&one["until"]) };
        let rows: Vec<[String; 3]> =
            overrides.iter().map(|one| [line(&one["pattern"]), until(one), line(&one["who"])]).collect();
        table::write(["pattern", "until", "who"].map(|name| (name, Align::Left)), &rows, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn line(json: &Json) -> String {
    terminal::one_line(&plain(json)).into_owned()
}

fn name(body: &mut Json, name: Option<&str>) {
    if let Some(name) = name {
        body["requester"] = name.into();
    }
}

/// Asks the node; an answer without the member that says what became of it is a problem.
fn ask(node: &HttpArgs, path: &str, body: &Json, member: &str) -> Result<Json> {
    let (status, answer): (u16, Json) = who::http(node, Some(PATIENCE))?.ask(path, body)?;
    if answer[member].is_string() {
        return Ok(answer);
    }
    let (title, detail) = (plain(&answer["title"]), plain(&answer["detail"]));
    Err(HttpError::Problem { status, title, detail }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_point_by_point() {
        let answer = json!({
            "status": "partial", "accepted": 1, "confirmed": 1, "unconfirmed": 0, "refused": 1, "unknown": 0,
            "elapsed_ms": 12.5,
            "points": [
                {"topic": "a", "status": "accepted", "expected": 5},
                {"topic": "b", "status": "confirmed", "reading": {"v": true, "q": "good"}},
                {"topic": "c\u{1b}", "status": "refused", "reason": "away", "detail": "not connected"},
                {"topic": "d", "status": "would_send", "raw": 7, "mode": "direct"},
            ],
        });
        let mut out = Vec::new();
        show_call(&answer, &mut out).unwrap();
        let expect = "a: accepted  5\nb: confirmed  true, good\nc : refused  away: not connected\n\
                      d: would send  direct 7\n1 accepted, 1 confirmed, 1 refused in 12.5 ms\n";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
