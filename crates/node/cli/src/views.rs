//! `tieline views`: what views make, without a node that has them.
//!
//! Lines of standard input are a topic, a space, and the value, as in `site/a/amps {"v":1}`; a topic alone takes the
//! value away. A line `+500ms` lets time pass. Lines of `tieline sub --json` are taken as they are.

use crate::api::args::NodeArgs;
use crate::api::table::count;
use crate::args::{ViewsFile, ViewsTestArgs, ViewsVerb};
use crate::{uri, who};
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;
use tieline_core::{Body, Instant, Topic};
use tieline_node::config::parse_duration;
use tieline_node::load_config;
use tieline_views::{Limits, Views};

/// Longer than any delay.
const AT_LAST: Duration = Duration::from_secs(30 * 86_400);
/// Topics of one answer of a node.
const PAGE: &str = "1000";

/// Runs a verb.
pub fn views(verb: &ViewsVerb) -> Result<ExitCode> {
    match verb {
        ViewsVerb::Check(args) => {
            let (file, views) = (args.file.config.display(), load_config(&args.file.config)?.views.len());
            match args.json {
                true => writeln!(std::io::stdout(), "{}", json!({ "ok": true, "views": views }))?,
                false => writeln!(std::io::stdout(), "{file}: ok, {}", count(views, "view"))?,
            }
        }
        ViewsVerb::Test(args) => test(args)?,
        ViewsVerb::Reload(NodeArgs { node, json }) => {
            let done: Value = who::http(node, None)?.post("/v1/views/reload", &json!({}))?;
            let of = |name: &str| done[name].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
            let words = format!("{}, {} derived", count(of("views"), "view"), count(of("derived"), "topic"));
            match json {
                true => writeln!(std::io::stdout(), "{done}")?,
                false => writeln!(std::io::stdout(), "{words}")?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &ViewsFile) -> Result<Views> {
    let views = load_config(&file.config)?.views;
    if views.is_empty() {
        bail!("{}: there is no [[view]]", file.config.display());
    }
    Ok(Views::new(views, Limits::default())?)
}

fn test(args: &ViewsTestArgs) -> Result<()> {
    let mut views = read(&args.file)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut now = Instant::ZERO;
    if args.live {
        for (topic, body) in live(args)? {
            views.handle_update(now, &topic, Some(&body));
        }
        print(&mut views, args.json, &mut out)?;
    } else {
        for (line, number) in std::io::stdin().lock().lines().zip(1..) {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match line.strip_prefix('+').map(parse_duration) {
                Some(Some(passed)) => {
                    now = now + passed;
                    while views.timeout().is_some_and(|due| due <= now) {
                        views.handle_timeout(now);
                    }
                }
                Some(None) => bail!("line {number} is {line:?}, expected a duration, as in +500ms"),
                None => {
                    let (topic, body) = update(&line).map_err(|why| anyhow!("line {number}: {why}"))?;
                    views.handle_update(now, &topic, body.as_ref());
                }
            }
            print(&mut views, args.json, &mut out)?;
        }
    }
    // What is delayed is shown, too.
    while views.timeout().is_some() {
        now = now + AT_LAST;
        views.handle_timeout(now);
    }
    print(&mut views, args.json, &mut out)?;
    out.flush()?;
    Ok(())
}

/// A line as a topic and its value; none where the value goes.
fn update(line: &str) -> Result<(Topic, Option<Body>), String> {
    let parsed: Option<Value> = serde_json::from_str(line).ok().filter(Value::is_object);
    let (topic, text) = match &parsed {
        Some(object) => {
            let topic = object.get("topic").and_then(Value::as_str).ok_or("no member \"topic\"")?;
            let text = match object.get("payload") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => Some(other.to_string()),
            };
            (topic, text)
        }
        None => match line.split_once(' ') {
            Some((topic, text)) => (topic, Some(text.to_owned())),
            None => (line, None),
        },
    };
    let topic = Topic::new(topic).map_err(|error| error.to_string())?;
    Ok((topic, text.filter(|text| !text.is_empty()).map(|text| Body::read(text.into_bytes().into()))))
}

/// The last values of a node.
fn live(args: &ViewsTestArgs) -> Result<Vec<(Topic, Body)>> {
    let client = who::http(&args.node, None)?;
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page: Value =
            client.get(&uri::path("/v1/topics", &[("limit", Some(PAGE)), ("after", after.as_deref())]))?;
        for found in page["topics"].as_array().into_iter().flatten() {
            let topic = Topic::new(found["topic"].as_str().unwrap_or_default())?;
            let text = match &found["value"] {
                Value::String(text) if found["kind"] == "text" => text.clone(),
                value => value.to_string(),
            };
            all.push((topic, Body::read(text.into_bytes().into())));
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return Ok(all),
        }
    }
}

fn print(views: &mut Views, as_json: bool, out: &mut impl Write) -> Result<()> {
    while let Some(output) = views.poll_output() {
        let text = output.body.map(|body| String::from_utf8_lossy(&body.to_payload()).into_owned());
        match (text, as_json) {
            (text, true) => {
                let value = text.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
                writeln!(out, "{}", json!({ "topic": output.topic.as_str(), "payload": value }))?;
            }
            (Some(text), false) => writeln!(out, "{} {text}", output.topic)?,
            (None, false) => writeln!(out, "{} is gone", output.topic)?,
        }
    }
    Ok(())
}
