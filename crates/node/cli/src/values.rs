//! `tieline get` and `tieline topics`: last values.

use crate::args::{GetArgs, TopicsArgs};
use crate::{uri, who};
use anyhow::Result;
use serde::Deserialize;
use serde_json::Value as Json;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tieline_core::Timestamp;

/// Topics of one page.
const PAGE: &str = "1000";
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
    let path = uri::path(&format!("/v1/topics/{}", args.topic), &[]);
    let mut out = io::stdout().lock();
    if args.json {
        io::copy(&mut client.stream(&path, "application/json")?, &mut out)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let topic: Topic = client.get(&path)?;
    writeln!(out, "{}", shown(&topic))?;
    Ok(ExitCode::SUCCESS)
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
    loop {
        let depth = args.depth.map(|depth| depth.to_string());
        let last = args.last.map(|last| last.to_string());
        let parameters = [
            ("filter", Some(args.filter.as_str())),
            ("select", args.select.as_deref()),
            ("depth", depth.as_deref()),
            ("last", last.as_ref().map(|_| "true")),
            ("limit", last.as_deref().or(Some(PAGE))),
            ("values", args.names.then_some("false")),
            ("after", after.as_deref()),
        ];
        let page: Page = client.get(&uri::path("/v1/topics", &parameters))?;
        for topic in page.topics {
            match (args.json, args.names) {
                (true, _) => writeln!(out, "{topic}")?,
                (false, true) => writeln!(out, "{}", plain(&topic["topic"]))?,
                (false, false) => rows.push(row(&serde_json::from_value(topic)?, now())),
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

fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
}

/// Topic, value, quality, age.
type Row = [String; 4];

fn row(topic: &Topic, now: Timestamp) -> Row {
    let point = topic.kind == "point";
    let (value, quality, time) = match &topic.value {
        value if point => (plain(&value["v"]), quality(value), plain(&value["t"])),
        value => (plain(value), String::new(), topic.updated.clone()),
    };
    let mut value = value.replace(char::is_control, " ");
    if value.chars().count() > VALUE_WIDTH_MAX {
        value = value.chars().take(VALUE_WIDTH_MAX - 1).chain(['…']).collect();
    }
    [topic.topic.clone(), value, quality, age(&time, now)]
}

fn write_table(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    let head = ["topic", "value", "quality", "age"].map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (topic_width, value_width, quality_width) = (width(0), width(1), width(2));
    for [topic, value, quality, age] in all() {
        writeln!(out, "{topic:topic_width$}  {value:>value_width$}  {quality:quality_width$}  {age:>5}")?;
    }
    Ok(())
}

/// Text without quotation marks, anything else as JSON.
fn plain(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The verdict and its reasons.
fn quality(point: &Json) -> String {
    let reasons = point["why"].as_array().into_iter().flatten().map(plain);
    std::iter::once(plain(&point["q"])).chain(reasons).collect::<Vec<_>>().join(" ")
}

/// How long ago, in the largest unit that fits.
fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return String::new() };
    let seconds = (now.micros() - time.micros()) / 1_000_000;
    match seconds {
        ..0 => "ahead".to_owned(),
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        172_800.. => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let long = "x".repeat(50);
        check("text", json!(long), &long, [&("x".repeat(39) + "…"), "", "5s"]);
    }

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-11-20T09:36:05Z".parse().unwrap();
        let cases = [
            ("2026-11-20T09:34:06Z", "119s"),
            ("2026-11-20T09:34:05Z", "2m"),
            ("2026-11-20T07:36:05Z", "2h"),
            ("2026-11-18T09:36:05Z", "2d"),
            ("2026-11-20T09:37:05Z", "ahead"),
            ("?", ""),
        ];
        cases.into_iter().for_each(|(time, expect)| assert_eq!(age(time, now), expect, "{time}"));
    }
}
