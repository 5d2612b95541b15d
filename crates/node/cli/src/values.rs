//! `tieline get` and `tieline topics`: last values.

use crate::api::now;
use crate::api::table::{self, Align, age};
use crate::args::{GetArgs, TopicsArgs};
use crate::exit::Exit;
use crate::terminal::JsonText;
use crate::{terminal, uri, who};
use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use tieline_client::HttpClient;
use tieline_core::Timestamp;
use tieline_node::config::Moment;

/// Topics of one page.
const PAGE: &str = "1000";
/// The same from history, which looks for topics again for each page.
const PAST_PAGE: &str = "10000";
/// Characters of a value in the table.
const VALUE_WIDTH_MAX: usize = 40;

#[derive(Debug, Deserialize)]
struct Topic {
    topic: String,
    kind: String,
    value: Json,
    updated: String,
}

#[derive(Debug, Deserialize)]
struct Page {
    topics: Vec<Json>,
    next: Option<String>,
}

/// Prints the last value of a topic.
pub fn get(args: &GetArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, None)?;
    let (events, after) = (args.events.map(|count| count.to_string()), args.after.map(|seq| seq.to_string()));
    let parameters = [
        ("events", events.as_deref()),
        ("after", after.as_deref()),
        ("from", args.from.as_deref()),
        ("to", args.to.as_deref()),
    ];
    let [topic] = args.topics.as_slice() else {
        return get_all(&client, args);
    };
    let path = uri::path(&format!("/v1/topics/{topic}"), &parameters);
    let mut out = io::stdout().lock();
    if args.events.is_some() && !args.json {
        let answer: Json = client.get(&path)?;
        for event in answer["events"].as_array().into_iter().flatten() {
            let value = plain(&event["value"]).replace(terminal::is_active, " ");
            writeln!(out, "{}  {}  {value}", event["seq"], plain(&event["time"]))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        io::copy(&mut client.stream(&path, "application/json")?, &mut JsonText::new(&mut out))?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let topic: Topic = client.get(&path)?;
    let text = shown(&topic);
    match io::stdout().is_terminal() {
        // What a client has sent does not move the cursor.
        true => writeln!(out, "{}", terminal::lines(&text))?,
        false => writeln!(out, "{text}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the last values of several topics.
fn get_all(client: &HttpClient, args: &GetArgs) -> Result<ExitCode> {
    if args.events.is_some() {
        bail!("--events is of one topic, and there are {}", args.topics.len());
    }
    let answer: Json = client.post("/v1/get", &json!({ "topics": args.topics }))?;
    let (mut out, mut rows) = (BufWriter::new(io::stdout().lock()), Vec::new());
    for topic in answer["topics"].as_array().into_iter().flatten() {
        match args.json {
            true => writeln!(out, "{}", terminal::json(&topic.to_string()))?,
            false => rows.push(row(&Topic::deserialize(topic)?, now())),
        }
    }
    if !args.json {
        write_table(&rows, &mut out)?;
    }
    out.flush()?;
    let errors: Vec<_> = answer["errors"].as_object().into_iter().flatten().collect();
    for (topic, why) in &errors {
        eprintln!("tieline: {}: {}", terminal::one_line(topic), plain(why));
    }
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { Exit::Refused.into() })
}

/// A point on one line; other JSON indented; texts as they are.
fn shown(topic: &Topic) -> String {
    match (topic.kind.as_str(), &topic.value) {
        ("point", point) => format!("{}  {}  {}", plain(&point["v"]), quality(point), plain(&point["t"])),
        (_, Json::String(text)) => text.clone(),
        (_, json) => serde_json::to_string_pretty(json).unwrap_or_default(),
    }
}

/// Prints all topics that a filter selects.
pub fn topics(args: &TopicsArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, None)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut after, mut rows) = (None, Vec::new());
    // Ages are those of the values at that time.
    let then = args.at.as_deref().and_then(Moment::parse).map(|at| at.resolve(now(), now()));
    let page_topics = if args.at.is_some() { PAST_PAGE } else { PAGE };
    loop {
        let depth = args.depth.map(|depth| depth.to_string());
        let last = args.last.map(|last| last.to_string());
        let parameters = [
            ("filter", Some(args.filter.as_str())),
            ("at", args.at.as_deref()),
            ("select", args.select.as_deref()),
            ("depth", depth.as_deref()),
            ("last", last.as_ref().map(|_| "true")),
            ("limit", last.as_deref().or(Some(page_topics))),
            ("values", args.names.then_some("false")),
            ("after", after.as_deref()),
        ];
        let page: Page = client.get(&uri::path("/v1/topics", &parameters))?;
        for topic in page.topics {
            match (args.json, args.names) {
                (true, _) => writeln!(out, "{}", terminal::json(&topic.to_string()))?,
                (false, true) => writeln!(out, "{}", terminal::one_line(&plain(&topic["topic"])))?,
                (false, false) => rows.push(row(&serde_json::from_value(topic)?, then.unwrap_or_else(now))),
            }
        }
        after = page.next;
        if after.is_none() || last.is_some() {
            break;
        }
    }
    if !args.json && !args.names {
        write_table(&rows, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Topic, value, quality, age.
type Row = [String; 4];

fn row(topic: &Topic, now: Timestamp) -> Row {
    let point = topic.kind == "point";
    let (value, quality, time) = match &topic.value {
        value if point => (plain(&value["v"]), quality(value), plain(&value["t"])),
        value => (plain(value), String::new(), topic.updated.clone()),
    };
    let mut value = value.replace(terminal::is_active, " ");
    if value.chars().count() > VALUE_WIDTH_MAX {
        value = value.chars().take(VALUE_WIDTH_MAX - 1).chain(['…']).collect();
    }
    let line = |text: &str| terminal::one_line(text).into_owned();
    [line(&topic.topic), value, line(&quality), age(&time, now)]
}

fn write_table(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    let head = [("topic", Align::Left), ("value", Align::Right), ("quality", Align::Left), ("age", Align::Right)];
    table::write(head, rows, out)
}

/// Text without quotation marks, anything else as JSON.
fn plain(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => table::rounded(other).to_string(),
    }
}

/// The validity and its reasons.
fn quality(point: &Json) -> String {
    let reasons = point["why"].as_array().into_iter().flatten().map(plain);
    std::iter::once(plain(&point["q"])).chain(reasons).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, value: Json, line: &str, expect: [&str; 3]) {
        let updated = "2026-11-20T09:36:00.000Z".to_owned();
        let topic = Topic { topic: "a".to_owned(), kind: kind.to_owned(), value, updated };
        assert_eq!(shown(&topic), line);
        let [_, rest @ ..] = row(&topic, "2026-11-20T09:36:05Z".parse().unwrap());
        assert_eq!(rest, expect);
    }

    #[test]
    fn values_are_shown() {
        let point = json!({"v": 59.98, "q": "bad", "why": ["offline", "away"], "t": "2026-11-20T09:33:00.000Z"});
        check("point", point, "59.98  bad offline away  2026-11-20T09:33:00.000Z", ["59.98", "bad offline away", "3m"]);
        check("json", json!({"a": 1}), "{\n  \"a\": 1\n}", ["{\"a\":1}", "", "5s"]);
        check("text", json!("two\nlines"), "two\nlines", ["two lines", "", "5s"]);
        check("text", json!("a\x1b[2J\r\u{9b}b"), "a\x1b[2J\r\u{9b}b", ["a [2J  b", "", "5s"]);
        let point = json!({"v": "\x1b[1m", "q": "good\n", "t": "2026-11-20T09:33:00.000Z"});
        check("point", point, "\x1b[1m  good\n  2026-11-20T09:33:00.000Z", [" [1m", "good\\n", "3m"]);
        let long = "x".repeat(50);
        check("text", json!(long), &long, [&("x".repeat(39) + "…"), "", "5s"]);
    }
}
