//! `tieline notify`: who is told of alarms, and a test.

use super::args::{NodeArgs, NotifyArgs, NotifyTestArgs, NotifyVerb};
use super::table::{Align, plain, write};
use super::{ask, list_of, print, print_list};
use crate::exit::Exit;
use crate::who;
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// Lists receivers, or sends a test to one.
pub fn notify(args: &NotifyArgs) -> Result<ExitCode> {
    match &args.verb {
        None => list(&args.show),
        Some(NotifyVerb::List(args)) => list(args),
        Some(NotifyVerb::Test(args)) => test(args),
    }
}

fn list(NodeArgs { node, json }: &NodeArgs) -> Result<ExitCode> {
    let all = list_of(&ask(node, "/v1/notify", &[])?, "receivers");
    print_list(*json, &all, show)
}

fn show(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    let row = |receiver: &Json| {
        let of = |name: &str| plain(&receiver[name]);
        let state = if receiver["failing_since"].is_null() { "ok" } else { "failing" };
        let why = if state == "ok" { String::new() } else { plain(&receiver["last_failure"]["detail"]) };
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
        ];
        let mut out = Vec::new();
        show(&all, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["duty", "smtp", "ok", "0", "2026-11-29T02:00:00Z"]);
        assert_eq!(lines[2], ["hook", "webhook", "failing", "2", "2026-11-29T03:00:00Z", "it", "answers", "500:"]);
    }
}
