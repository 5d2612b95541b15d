//! What people do with alarms: the exit code says whether all, some or none of it was done.

use super::super::table::plain;
use super::args::{ActArgs, NamesArgs, NoteArgs, OutOfServiceArgs, ShelveArgs};
use crate::exit::Exit;
use crate::{terminal, uri, who};
use anyhow::{Result, bail};
use serde_json::{Value as Json, json};
use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;
use tieline_client::HttpClient;

/// Alarms of one request.
const TARGETS_MAX: usize = 1000;

/// An alarm as a person names it.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    topic: String,
    kind: String,
    seq: Option<u64>,
}

/// Acknowledges alarms: the occurrence that is named, or else the one that there is.
pub fn acknowledge(args: &ActArgs) -> Result<ExitCode> {
    let client = who::http(&args.names.node.node, None)?;
    let mut named = read(&args.names)?;
    for alarm in named.iter_mut().filter(|alarm| alarm.seq.is_none()) {
        alarm.seq = occurrence(&client, alarm)?;
    }
    send(&client, ("ack", "acknowledged"), &args.names, &named, &json!({ "why": args.why }))
}

/// Does what needs nothing but a reason.
pub fn with_reason(request: &str, done: &str, args: &ActArgs) -> Result<ExitCode> {
    ask((request, done), &args.names, &json!({ "why": args.why }))
}

/// Shelves alarms.
pub fn shelve(args: &ShelveArgs) -> Result<ExitCode> {
    let body = json!({ "why": args.why, "for": args.time, "once": args.once });
    ask(("shelve", "shelved"), &args.names, &body)
}

/// Takes alarms out of service.
pub fn take_out_of_service(args: &OutOfServiceArgs) -> Result<ExitCode> {
    let mut body = json!({ "why": args.why });
    if let Some(time) = &args.time {
        body["for"] = Json::from(time.as_str());
    }
    ask(("out-of-service", "out of service"), &args.names, &body)
}

/// Writes a note.
pub fn note(args: &NoteArgs) -> Result<ExitCode> {
    ask(("note", "noted"), &args.names, &json!({ "why": args.why }))
}

fn ask(words: (&str, &str), names: &NamesArgs, body: &Json) -> Result<ExitCode> {
    send(&who::http(&names.node.node, None)?, words, names, &read(names)?, body)
}

/// The occurrence that there is; none where the node knows of none.
fn occurrence(client: &HttpClient, alarm: &Named) -> Result<Option<u64>> {
    let page: Json = client.get(&uri::path("/v1/alarms", &[("filter", Some(alarm.topic.as_str()))]))?;
    let mut alarms = page["alarms"].as_array().into_iter().flatten();
    Ok(alarms.find(|shown| shown["kind"] == alarm.kind.as_str()).and_then(|shown| shown["seq"].as_u64()))
}

fn send(
    client: &HttpClient,
    (request, done): (&str, &str),
    names: &NamesArgs,
    named: &[Named],
    body: &Json,
) -> Result<ExitCode> {
    let mut results = Vec::new();
    for some in named.chunks(TARGETS_MAX) {
        let target = |alarm: &Named| {
            let mut target = json!({ "topic": alarm.topic, "kind": alarm.kind });
            if request == "ack" {
                // An alarm that is normal has no occurrence: the node says what it is.
                target["seq"] = Json::from(alarm.seq.unwrap_or_default());
            }
            target
        };
        let mut body = body.clone();
        body["alarms"] = some.iter().map(target).collect();
        let answer: Json = client.post(&format!("/v1/alarms/{request}"), &body)?;
        results.extend(super::list_of(&answer, "results"));
    }
    tell(names.node.json, done, named, &results)
}

fn tell(is_json: bool, done: &str, named: &[Named], results: &[Json]) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut count = 0;
    for (alarm, result) in named.iter().zip(results) {
        let is_done = result["status"] == "done";
        count += usize::from(is_done);
        let seq = alarm.seq.map(|seq| format!("@{seq}")).unwrap_or_default();
        let name = format!("{}/{}{seq}", alarm.topic, alarm.kind);
        match (is_json, is_done) {
            (true, _) => writeln!(out, "{}", terminal::json(&result.to_string()))?,
            (false, true) => writeln!(out, "{}", terminal::one_line(&format!("{done}: {name}")))?,
            (false, false) => {
                let line = format!("refused: {name}: {}", plain(&result["detail"]));
                eprintln!("{}", terminal::one_line(&line));
            }
        }
    }
    out.flush()?;
    Ok(match count {
        count if count == named.len() => ExitCode::SUCCESS,
        0 => Exit::Refused.into(),
        _ => Exit::Incomplete.into(),
    })
}

fn read(names: &NamesArgs) -> Result<Vec<Named>> {
    let mut texts = Vec::new();
    for text in &names.alarms {
        match text.as_str() {
            "-" => texts.extend(io::stdin().lock().lines().collect::<io::Result<Vec<String>>>()?),
            text => texts.push(text.to_owned()),
        }
    }
    texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).map(of_text).collect()
}

fn of_text(text: &str) -> Result<Named> {
    // A topic may hold an @, and a kind does not.
    let (name, seq) = match text.rsplit_once('@') {
        Some((name, number)) if !number.contains('/') => match number.parse() {
            Ok(seq) => (name, Some(seq)),
            Err(_) => bail!("the alarm is {text:?}, expected the number of an occurrence behind @"),
        },
        Some(_) | None => (text, None),
    };
    match name.rsplit_once('/') {
        Some((topic, kind)) if !topic.is_empty() && !kind.is_empty() => {
            Ok(Named { topic: topic.to_owned(), kind: kind.to_owned(), seq })
        }
        Some(_) | None => bail!("the alarm is {text:?}, expected TOPIC/KIND or TOPIC/KIND@SEQ"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_named_as_they_are_listed() {
        let check = |text: &str, expect: Option<(&str, &str, Option<u64>)>| {
            let found = of_text(text).ok();
            let found = found.as_ref().map(|named| (&*named.topic, &*named.kind, named.seq));
            assert_eq!(found, expect, "{text}");
        };
        check("site/a/high", Some(("site/a", "high", None)));
        check("site/a/high@12", Some(("site/a", "high", Some(12))));
        check("site/a@b/high", Some(("site/a@b", "high", None)));
        check("site/a@b/high@3", Some(("site/a@b", "high", Some(3))));
        for wrong in ["", "high", "/high", "site/", "site/a/high@", "site/a/high@x"] {
            check(wrong, None);
        }
    }
}
