//! `tieline locks`: the locks of MQTT sessions, and the release of one by an operator.

use super::args::{LocksArgs, LocksVerb, NodeArgs, ReleaseLockArgs};
use super::table::{Align, plain, write};
use super::{PAGE, pages, print, print_list};
use crate::{uri, who};
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// Lists locks, or releases one.
pub fn locks(args: &LocksArgs) -> Result<ExitCode> {
    match &args.verb {
        None => list(&args.show),
        Some(LocksVerb::Release(args)) => release(args),
    }
}

fn list(NodeArgs { node, json }: &NodeArgs) -> Result<ExitCode> {
    let path = |after: Option<&str>| uri::path("/v1/locks", &[("limit", Some(PAGE)), ("after", after)]);
    let all = pages(&who::http(node, None)?, "locks", path)?;
    print_list(*json, &all, show)
}

fn show(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    // A client of an edge is behind the edge's session.
    let row = |lock: &Json| {
        let of = |name: &str| plain(&lock[name]);
        let via = lock["via"].as_str().map(|via| format!("{via}/")).unwrap_or_default();
        let client = format!("{via}{}", of("client"));
        [of("name"), client, of("number"), of("scope"), of("since"), of("waiting"), of("upstream")]
    };
    let head = [
        ("lock", Align::Left),
        ("client", Align::Left),
        ("number", Align::Right),
        ("scope", Align::Left),
        ("since", Align::Left),
        ("waiting", Align::Right),
        ("upstream", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

fn release(ReleaseLockArgs { lock, node }: &ReleaseLockArgs) -> Result<ExitCode> {
    let answer: Json = who::http(&node.node, None)?.post("/v1/locks/release", &json!({ "lock": lock }))?;
    print(node.json, &answer, |_, out| writeln!(out, "released: {lock}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_shown_in_a_table() {
        let all = [
            json!({ "name": "plant/writer", "client": "c1", "scope": "session", "number": 41, "since": "2026-11-20T09:36:00Z", "waiting": 2 }),
            json!({ "name": "plant/w", "client": "c2", "via": "edge-north", "number": 42, "waiting": 0, "upstream": "west" }),
            json!({ "name": "plant/x", "waiting": 1 }),
        ];
        let mut out = Vec::new();
        show(&all, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["lock", "client", "number", "scope", "since", "waiting", "upstream"]);
        assert_eq!(lines[1], ["plant/writer", "c1", "41", "session", "2026-11-20T09:36:00Z", "2"]);
        assert_eq!(lines[2], ["plant/w", "edge-north/c2", "42", "0", "west"]);
        assert_eq!(lines[3], ["plant/x", "1"]);
    }
}
