//! Verbs that show or change what a node's HTTP API has. With `--json` they print what the API answers: an object, or
//! one object a line where the answer is a list.

pub mod alarms;
pub mod args;
pub mod clock;
pub mod locks;
pub mod notify;
mod samples;
mod shown;
pub mod table;

use crate::args::HttpArgs;
use crate::exit::Exit;
use crate::{terminal, uri, who};
use anyhow::{Context, Result, bail};
use args::{
    AuditArgs, BusiestArgs, DeleteArgs, DevicesArgs, MetricsArgs, NodeArgs, OnlyArgs, PointsArgs, PutArgs,
    SessionsArgs, SitesArgs,
};
use serde_json::Value as Json;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tieline_client::{HttpClient, HttpError};
use tieline_core::Timestamp;

/// How often sites are listed again.
const WATCH_EVERY: std::time::Duration = std::time::Duration::from_secs(1);
/// Entries of one page.
const PAGE: &str = "1000";

/// The present, to tell how old something is.
pub fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
}

fn ask(node: &HttpArgs, path: &str, parameters: &[(&str, Option<&str>)]) -> Result<Json> {
    Ok(who::http(node, None)?.get(&uri::path(path, parameters))?)
}

/// Prints an answer: as JSON, or for people.
pub fn print(
    json: bool,
    answer: &Json,
    shown: impl FnOnce(&Json, &mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    match json {
        true => writeln!(out, "{}", terminal::json(&answer.to_string()))?,
        false => shown(answer, &mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The same of a list: one object a line, or a table.
pub fn print_list(
    json: bool,
    items: &[Json],
    shown: impl FnOnce(&[Json], &mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    match json {
        true => items.iter().try_for_each(|item| writeln!(out, "{}", terminal::json(&item.to_string())))?,
        false => shown(items, &mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The list of that name of all pages; `path` is that of the page behind `after`.
fn pages(client: &HttpClient, name: &str, path: impl Fn(Option<&str>) -> String) -> Result<Vec<Json>> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page: Json = client.get(&path(after.as_deref()))?;
        all.extend(list_of(&page, name));
        after = match &page["next"] {
            Json::String(next) => Some(next.clone()),
            Json::Number(next) => Some(next.to_string()),
            _ => return Ok(all),
        };
    }
}

fn list_of(answer: &Json, name: &str) -> Vec<Json> {
    answer[name].as_array().cloned().unwrap_or_default()
}

/// What a node is and how it is doing.
pub fn status(args: &NodeArgs) -> Result<ExitCode> {
    let answer = ask(&args.node, "/v1/status", &[])?;
    print(args.json, &answer, shown::status)
}

/// Whether a node can do its work: the exit code says so, too.
pub fn health(args: &NodeArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, None)?;
    let (healthy, answer): (bool, Json) = match client.get_with_status("/healthz") {
        Ok((status, answer)) => (status == 200, answer),
        Err(error) => return Err(error.into()),
    };
    print(args.json, &answer, shown::health)?;
    Ok(if healthy { ExitCode::SUCCESS } else { Exit::Failed.into() })
}

/// Who the caller is.
pub fn whoami(args: &NodeArgs) -> Result<ExitCode> {
    let answer = ask(&args.node, "/v1/me", &[])?;
    print(args.json, &answer, shown::whoami)
}

/// All devices, or one with its points.
pub fn devices(args: &DevicesArgs) -> Result<ExitCode> {
    if let Some(device) = &args.device {
        let answer = ask(&args.node, &format!("/v1/devices/{device}"), &[])?;
        return print(args.json, &answer, |answer, out| shown::device(answer, now(), out));
    }
    let mut devices = list_of(&ask(&args.node, "/v1/devices", &[])?, "devices");
    if args.away {
        devices.retain(|device| device["state"] != "online");
    }
    print_list(args.json, &devices, |devices, out| shown::devices(devices, now(), out))
}

/// What is configured.
pub fn points(args: &PointsArgs) -> Result<ExitCode> {
    let path = |after: Option<&str>| {
        uri::path("/v1/points", &[("filter", Some(args.filter.as_str())), ("limit", Some(PAGE)), ("after", after)])
    };
    let mut all = pages(&who::http(&args.node, None)?, "points", path)?;
    if args.writable {
        all.retain(|point| point["writable"] == true);
    }
    print_list(args.json, &all, shown::points)
}

/// MQTT clients that are connected.
pub fn sessions(args: &SessionsArgs) -> Result<ExitCode> {
    let limit = args.limit.to_string();
    let parameters =
        [("order", Some(args.order.word())), ("client", args.client.as_deref()), ("limit", Some(limit.as_str()))];
    let answer = ask(&args.node, "/v1/sessions", &parameters)?;
    print_list(args.json, &list_of(&answer, "sessions"), |sessions, out| shown::sessions(sessions, &answer, out))
}

/// The topics with the most updates.
pub fn busiest(args: &BusiestArgs) -> Result<ExitCode> {
    let limit = args.limit.to_string();
    let answer = ask(&args.node, "/v1/busiest", &[("limit", Some(limit.as_str()))])?;
    print_list(args.json, &list_of(&answer, "topics"), shown::busiest)
}

/// Derived series.
pub fn derived(args: &NodeArgs) -> Result<ExitCode> {
    let answer = ask(&args.node, "/v1/derived", &[])?;
    print_list(args.json, &list_of(&answer, "series"), shown::derived)
}

/// The role of a node in its core.
pub fn cluster(args: &NodeArgs) -> Result<ExitCode> {
    let answer = ask(&args.node, "/v1/cluster", &[])?;
    print(args.json, &answer, shown::cluster)
}

/// Sites of a centre.
pub fn sites(args: &SitesArgs) -> Result<ExitCode> {
    let SitesArgs { node: NodeArgs { node, json }, watch } = args;
    let list = || -> Result<ExitCode> {
        let answer = ask(node, "/v1/sites", &[])?;
        if *watch && !json {
            writeln!(io::stdout(), "{}", now())?;
        }
        print_list(*json, &list_of(&answer, "sites"), shown::sites)
    };
    if !watch {
        return list();
    }
    loop {
        match list() {
            Ok(_) => {}
            Err(error) if error.downcast_ref::<io::Error>().is_some() => return Err(error),
            // Nothing is known of sites meanwhile.
            Err(error) => eprintln!("{error:#}"),
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

/// The newest records of the audit log.
pub fn audit(args: &AuditArgs) -> Result<ExitCode> {
    let limit = args.limit.to_string();
    let parameters = [("topic", args.topic.as_deref()), ("limit", Some(limit.as_str()))];
    let answer = ask(&args.node, "/v1/audit", &parameters)?;
    print_list(args.json, &list_of(&answer, "entries"), shown::audit)
}

/// Everything that a node counts, as Prometheus reads it, or a sample a line.
pub fn metrics(args: &MetricsArgs) -> Result<ExitCode> {
    let of_device = |device| uri::path("/metrics/device", &[("name", Some(device))]);
    let path = args.device.as_deref().map_or_else(|| "/metrics".to_owned(), of_device);
    let mut text = who::http(&args.node, None)?.stream(&path, "text/plain")?;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        for line in io::BufReader::new(text).lines() {
            if let Some(sample) = samples::sample(&line?) {
                writeln!(out, "{}", terminal::json(&sample.to_string()))?;
            }
        }
    } else {
        io::copy(&mut text, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Sets a topic's last value.
pub fn put(args: &PutArgs) -> Result<ExitCode> {
    let mut value = Vec::new();
    match args.value.as_str() {
        "-" => drop(io::stdin().lock().read_to_end(&mut value).context("cannot read standard input")?),
        text => value.extend_from_slice(text.as_bytes()),
    }
    if value.is_empty() {
        bail!("the value is empty, expected one; tieline delete removes a value");
    }
    let mut conditions = conditions(&args.only);
    if args.if_absent {
        conditions.push(("if-none-match", "*".to_owned()));
    }
    let path = uri::path(&format!("/v1/topics/{}", args.topic), &[]);
    let answer: Json = who::http(&args.node, None)?.put(&path, &value, &borrowed(&conditions))?;
    print(args.json, &answer, |answer, out| match answer["seq"].as_u64() {
        Some(version) => writeln!(out, "{}: set, version {version}", args.topic),
        None => writeln!(out, "{}: set", args.topic),
    })
}

/// Removes a topic's last value.
pub fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let path = uri::path(&format!("/v1/topics/{}", args.topic), &[]);
    let conditions = conditions(&args.only);
    let answer: Result<Json, HttpError> = who::http(&args.node, None)?.delete(&path, &borrowed(&conditions));
    print(args.json, &answer?, |_, out| writeln!(out, "{}: removed", args.topic))
}

fn conditions(only: &OnlyArgs) -> Vec<(&'static str, String)> {
    let version = only.if_version.map(|version| ("if-match", format!("\"{version}\"")));
    let present = only.if_present.then(|| ("if-match", "*".to_owned()));
    version.into_iter().chain(present).collect()
}

fn borrowed<'a>(headers: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    headers.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
