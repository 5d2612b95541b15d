//! `tieline notify`: who is told of alarms, who is on call, and a test.

use super::args::{NodeArgs, NotifyArgs, NotifyOnCallArgs, NotifyTestArgs, NotifyVerb};
use super::table::{Align, plain, write};
use super::{ask, list_of, print, print_list};
use crate::exit::Exit;
use crate::who;
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::process::ExitCode;
use tieline_core::Timestamp;

/// Lists receivers, or sends a test to one.
pub fn notify(args: &NotifyArgs) -> Result<ExitCode> {
    match &args.verb {
        None => list(&args.show),
        Some(NotifyVerb::List(args)) => list(args),
        Some(NotifyVerb::Test(args)) => test(args),
        Some(NotifyVerb::OnCall(args)) => on_call(args),
    }
}

fn list(NodeArgs { node, json }: &NodeArgs) -> Result<ExitCode> {
    let all = list_of(&ask(node, "/v1/notify", &[])?, "receivers");
    print_list(*json, &all, show)
}

fn show(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    let row = |receiver: &Json| {
        let of = |name: &str| plain(&receiver[name]);
        let time = |name: &str| receiver[name].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let is_empty = time("nobody") > time("delivered");
        let (state, why) = match receiver["failing_since"].is_null() {
            false => ("failing", plain(&receiver["last_failure"]["detail"])),
            true if is_empty => ("nobody", format!("nobody was on call at {}", of("nobody"))),
            true => ("ok", String::new()),
        };
        [of("name"), of("kind"), state.to_owned(), of("waiting"), of("delivered"), of("failing_since"), why]
    };
    let head = [
        ("receiver", Align::Left),
        ("kind", Align::Left),
        ("state", Align::Left),
        ("waiting", Align::Right),
        ("delivered", Align::Left),
        ("failing since", Align::Left),
        ("why", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

fn on_call(NotifyOnCallArgs { at, node }: &NotifyOnCallArgs) -> Result<ExitCode> {
    let answer = ask(&node.node, "/v1/notify/on-call", &[("at", at.as_deref())])?;
    print_list(node.json, &list_of(&answer, "receivers"), show_on_call)
}

fn show_on_call(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    let head = ["receiver", "what", "from", "to", "who"].map(|name| (name, Align::Left));
    write(head, &all.iter().flat_map(rows_of).collect::<Vec<_>>(), &mut out)
}

/// What is known of a calendar, one row each.
fn rows_of(calendar: &Json) -> Vec<[String; 5]> {
    let row = |what: &str, span: &Json| {
        let who: Vec<String> = span["who"].as_array().into_iter().flatten().map(plain).collect();
        let who = if who.is_empty() { "nobody".to_owned() } else { who.join(", ") };
        [plain(&calendar["receiver"]), what.to_owned(), plain(&span["from"]), plain(&span["to"]), who]
    };
    let mut rows = Vec::new();
    for (name, what) in [("now", "now"), ("next", "next"), ("holes", "hole"), ("overlaps", "overlap")] {
        match &calendar[name] {
            Json::Array(spans) => rows.extend(spans.iter().map(|span| row(what, span))),
            Json::Object(_) => rows.push(row(what, &calendar[name])),
            _ => {}
        }
    }
    rows
}

/// Sends a test: the exit code says whether it has arrived.
fn test(NotifyTestArgs { to, node }: &NotifyTestArgs) -> Result<ExitCode> {
    let answer: Json = who::http(&node.node, None)?.post("/v1/notify/test", &json!({ "to": to }))?;
    let has_arrived = answer["delivered"] == true;
    print(node.json, &answer, |answer, out| match has_arrived {
        true => writeln!(out, "{to}: delivered"),
        false => writeln!(out, "{to}: not delivered: {}", plain(&answer["detail"])),
    })?;
    Ok(if has_arrived { ExitCode::SUCCESS } else { Exit::Failed.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_shown_in_a_table() {
        let all = [
            json!({ "name": "duty", "kind": "smtp", "waiting": 0, "delivered": "2026-11-29T02:00:00Z", "failing_since": null,
                "last_failure": { "time": "2026-11-28T02:00:00Z", "detail": "an old one" } }),
            json!({ "name": "hook", "kind": "webhook", "waiting": 2, "delivered": null, "failing_since": "2026-11-29T03:00:00Z",
                "last_failure": { "time": "2026-11-29T03:00:00Z", "detail": "it answers 500: " } }),
            json!({ "name": "night", "kind": "smtp", "waiting": 0, "delivered": "2026-11-29T02:00:00Z", "failing_since": null,
                "nobody": "2026-11-29T04:00:00Z" }),
        ];
        let mut out = Vec::new();
        show(&all, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["duty", "smtp", "ok", "0", "2026-11-29T02:00:00Z"]);
        assert_eq!(lines[2], ["hook", "webhook", "failing", "2", "2026-11-29T03:00:00Z", "it", "answers", "500:"]);
        assert_eq!(lines[3][..3], ["night", "smtp", "nobody"]);
        assert!(text.ends_with("nobody was on call at 2026-11-29T04:00:00Z\n"), "{text}");
    }

    #[test]
    fn shifts_and_holes_are_shown_in_a_table() {
        let span = |from: u32, to: u32, who: &[&str]| json!({ "from": format!("T{from}"), "to": format!("T{to}"), "who": who });
        let calendar = json!({ "receiver": "duty", "now": [span(1, 3, &["anna@p"])], "next": span(4, 6, &["bo@p"]),
            "holes": [span(3, 4, &[])], "overlaps": [span(5, 6, &["anna@p", "bo@p"])] });
        let mut out = Vec::new();
        show_on_call(&[calendar, json!({ "receiver": "other", "next": null })], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let expect: [&[&str]; 4] = [
            &["duty", "now", "T1", "T3", "anna@p"],
            &["duty", "next", "T4", "T6", "bo@p"],
            &["duty", "hole", "T3", "T4", "nobody"],
            &["duty", "overlap", "T5", "T6", "anna@p,", "bo@p"],
        ];
        assert_eq!(lines, expect);
    }
}
