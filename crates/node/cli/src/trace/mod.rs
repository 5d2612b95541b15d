//! `tieline trace`: what a device and the node say to each other.

pub mod args;

use crate::{terminal, uri, who};
use anyhow::{Context, Result};
use args::{TraceArgs, TraceFrom};
use serde_json::Value as Json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use tieline_client::HttpClient;

/// Prints the trace of a device, or writes it as a capture.
pub fn trace(args: &TraceArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, None)?;
    if let Some(file) = &args.pcapng {
        return capture(&client, args, file);
    }
    let flag = |set: bool| set.then_some("true");
    let parameters = [
        ("from", Some(args.from.word()).filter(|_| args.from != TraceFrom::Memory)),
        ("point", args.point.as_deref()),
        ("errors", flag(args.errors)),
        ("follow", flag(args.follow)),
    ];
    let accept = if args.follow { "text/event-stream" } else { "application/x-ndjson" };
    let answer = BufReader::new(client.stream(&path(args, &parameters), accept)?);
    let mut out = BufWriter::new(io::stdout().lock());
    for text in answer.lines() {
        let text = text?;
        // Of events the lines with their data count: what keeps the connection alive has none.
        let line = if args.follow { text.strip_prefix("data:").map(str::trim_start) } else { Some(text.as_str()) };
        let Some(line) = line.filter(|line| !line.is_empty()) else { continue };
        print(args.json, line, &mut out)?;
        if args.follow {
            out.flush()?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn path(args: &TraceArgs, parameters: &[(&str, Option<&str>)]) -> String {
    uri::path(&format!("/v1/trace/{}", args.device), parameters)
}

fn capture(client: &HttpClient, args: &TraceArgs, file: &Path) -> Result<ExitCode> {
    let parameters = [("from", Some(args.from.word())), ("format", Some("pcapng"))];
    let mut answer = client.stream(&path(args, &parameters), "application/x-pcapng")?;
    if file.as_os_str() == "-" {
        io::copy(&mut answer, &mut io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = file.display();
    let mut out = File::create(file).with_context(|| format!("{name} cannot be written"))?;
    io::copy(&mut answer, &mut out).with_context(|| format!("{name} is not whole"))?;
    Ok(ExitCode::SUCCESS)
}

fn print(json: bool, line: &str, out: &mut impl Write) -> Result<()> {
    if json {
        writeln!(out, "{}", terminal::json(line))?;
        return Ok(());
    }
    let line: Json = serde_json::from_str(line).context("the node's answer is not as expected")?;
    writeln!(out, "{}", terminal::lines(&shown(&line)))?;
    Ok(())
}

/// A line for people: time, direction, what it says, of which points; below it what it holds.
fn shown(line: &Json) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let arrow = match text("kind") {
        "sent" => "→",
        "received" => "←",
        _ => "·",
    };
    let mut shown = format!("{} {arrow} ", text("time"));
    if !matches!(text("connection"), "" | "main") {
        shown.push_str(&format!("{}: ", text("connection")));
    }
    shown.push_str(text("summary"));
    if let Some(error) = line["error"].as_str() {
        shown.push_str(&format!("; error: {error}"));
    }
    let points: Vec<&str> = texts(&line["points"]).collect();
    if !points.is_empty() {
        shown.push_str(&format!(" [{}]", points.join(" ")));
    }
    texts(&line["details"]).for_each(|detail| shown.push_str(&format!("\n  {detail}")));
    shown
}

fn texts(list: &Json) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_say_when_which_way_and_what() {
        let line = json!({
            "time": "2026-11-20T09:36:00.123456Z", "kind": "sent", "connection": "main", "bytes": 12,
            "summary": "request 7 unit 1 read coils 0", "details": [], "points": ["run"], "error": null, "fields": {},
        });
        assert_eq!(shown(&line), "2026-11-20T09:36:00.123456Z → request 7 unit 1 read coils 0 [run]");
        let event = json!({
            "time": "T", "kind": "state", "connection": "urgent", "summary": "device away", "error": "no answer in time",
            "details": ["one", "two"],
        });
        assert_eq!(shown(&event), "T · urgent: device away; error: no answer in time\n  one\n  two");
        let standby = json!({ "time": "T", "kind": "sent", "connection": "standby2", "summary": "TESTFR act" });
        assert_eq!(shown(&standby), "T → standby2: TESTFR act");
    }

    #[test]
    fn words_of_a_device_move_no_cursor() {
        let line = json!({"time": "T", "kind": "received", "summary": "\u{1b}[2J", "details": ["\u{9b}m"]}).to_string();
        for json in [false, true] {
            let mut out = Vec::new();
            print(json, &line, &mut out).unwrap();
            let shown = String::from_utf8(out).unwrap();
            assert!(!shown.replace('\n', "").contains(terminal::is_active), "{shown:?}");
        }
    }
}
