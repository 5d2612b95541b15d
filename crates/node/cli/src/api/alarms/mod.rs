//! `tieline alarms`: alarms of a node, what people do with them, their journal and report.

mod act;
pub mod args;
mod read;

use super::table::{Align, plain, write};
use super::{PAGE, WATCH_EVERY, list_of, now, print_list};
use crate::{uri, who};
use anyhow::{Result, bail};
use args::{AlarmsArgs, AlarmsVerb, ListArgs};
use serde_json::Value as Json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Lists alarms, or does something with them.
pub fn alarms(args: &AlarmsArgs) -> Result<ExitCode> {
    match &args.verb {
        None => list(&args.list),
        Some(AlarmsVerb::List(args)) => list(args),
        Some(AlarmsVerb::Ack(args)) => act::acknowledge(args),
        Some(AlarmsVerb::Shelve(args)) => act::shelve(args),
        Some(AlarmsVerb::Unshelve(args)) => act::with_reason("unshelve", "unshelved", args),
        Some(AlarmsVerb::Reset(args)) => act::with_reason("reset", "reset", args),
        Some(AlarmsVerb::OutOfService(args)) => act::take_out_of_service(args),
        Some(AlarmsVerb::InService(args)) => act::with_reason("in-service", "in service", args),
        Some(AlarmsVerb::Note(args)) => act::note(args),
        Some(AlarmsVerb::Journal(args)) => read::journal(args),
        Some(AlarmsVerb::Report(args)) => read::report(args),
        Some(AlarmsVerb::Rules(args)) => read::rules(args),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode> {
    let is_watched = args.watch;
    let once = || -> Result<ExitCode> {
        let all = listed(args)?;
        if is_watched && !args.node.json {
            writeln!(io::stdout(), "{}", now())?;
        }
        print_list(args.node.json, &all, show)
    };
    if !is_watched {
        return once();
    }
    loop {
        match once() {
            Ok(_) => {}
            Err(error) if error.downcast_ref::<io::Error>().is_some() => return Err(error),
            // Nothing is known of alarms meanwhile.
            Err(error) => eprintln!("{error:#}"),
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

fn listed(args: &ListArgs) -> Result<Vec<Json>> {
    let cause = match &args.of {
        Some(name) => match name.rsplit_once('/') {
            Some((topic, kind)) => Some(format!("{topic}|{kind}")),
            None => bail!("--of is {name:?}, expected TOPIC/KIND"),
        },
        None => args.causes.then(|| "none".to_owned()),
    };
    let path = |after: Option<&str>| {
        let parameters = [
            ("filter", Some(args.filter.as_str())),
            ("priority", args.priority.as_deref()),
            ("state", args.state.as_deref()),
            ("group", args.group.as_deref()),
            ("cause", cause.as_deref()),
            ("order", Some(args.order.word())),
            ("limit", Some(PAGE)),
            ("after", after),
        ];
        uri::path("/v1/alarms", &parameters)
    };
    super::pages(&who::http(&args.node.node, None)?, "alarms", path)
}

/// The name of an alarm, with its occurrence.
fn name(alarm: &Json) -> String {
    format!("{}/{}@{}", plain(&alarm["topic"]), plain(&alarm["kind"]), plain(&alarm["seq"]))
}

fn show(all: &[Json], mut out: &mut dyn Write) -> io::Result<()> {
    let row = |alarm: &Json| {
        let of = |name: &str| plain(&alarm[name]);
        let count = if alarm["count"] == 0 { String::new() } else { of("count") };
        let mark = if alarm["uncertain"] == true { " ?" } else { "" };
        [of("priority"), of("state"), of("since"), name(alarm), of("value") + mark, of("limit"), count, of("text")]
    };
    let head = [
        ("priority", Align::Left),
        ("state", Align::Left),
        ("since", Align::Left),
        ("alarm", Align::Left),
        ("value", Align::Right),
        ("limit", Align::Right),
        ("consequences", Align::Right),
        ("text", Align::Left),
    ];
    write(head, &all.iter().map(row).collect::<Vec<_>>(), &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn they_are_shown_in_a_table() {
        let alarm = json!({
            "topic": "site/a/current", "kind": "high", "seq": 12, "state": "unacknowledged", "priority": "high",
            "since": "2026-11-29T02:00:00.000000Z", "value": 412.0, "limit": 400.0, "count": 3, "text": "overload", "uncertain": true,
        });
        let mut out = Vec::new();
        show(&[alarm], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expect = "high unacknowledged 2026-11-29T02:00:00.000000Z site/a/current/high@12 412.0 ? 400.0 3 overload";
        assert_eq!(line.join(" "), expect);
    }
}
