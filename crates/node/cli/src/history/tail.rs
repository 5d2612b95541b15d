//! `tieline history tail`: samples from a time on, and then each as it is recorded.

use crate::args::HttpArgs;
use crate::{terminal, uri, who};
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value as Json;
use std::io::{self, BufRead as _, BufReader, Write as _};

/// `tieline history tail`.
#[derive(Debug, Args)]
pub struct TailArgs {
    /// Topics or topic filters
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Start: a time (RFC 3339), a date, or a duration before now (10m)
    #[arg(long, value_name = "TIME", default_value = "10m", allow_hyphen_values = true)]
    from: String,
    /// Ignore edits: the samples as they were recorded
    #[arg(long)]
    raw: bool,
    /// Stop after the samples of the past and this number of new ones [default: continue until interrupted]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object for each sample
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: HttpArgs,
}

/// Prints samples until the node ends.
pub fn tail(args: &TailArgs) -> Result<()> {
    let mut parameters: Vec<_> = args.topics.iter().map(|topic| ("topic", Some(topic.as_str()))).collect();
    parameters.extend([("from", Some(args.from.as_str())), ("raw", args.raw.then_some("true"))]);
    let client = who::http(&args.node, None)?;
    let answer = client.stream(&uri::path("/v1/history/tail", &parameters), "text/event-stream")?;
    let (mut event, mut left) = (String::new(), None);
    for line in BufReader::new(answer).lines() {
        let line = line.context("the answer broke off")?;
        if let Some(name) = line.strip_prefix("event:") {
            name.trim_start().clone_into(&mut event);
        }
        let Some(data) = line.strip_prefix("data:").map(str::trim_start) else { continue };
        match event.as_str() {
            "sample" => {
                print(data, args.json)?;
                left = left.map(|left: u64| left.saturating_sub(1));
            }
            "live" => left = args.count,
            "lost" => eprintln!("samples are missing: {} records of the journal are gone", member(data, "records")),
            "error" => bail!("{}", member(data, "detail")),
            _ => {}
        }
        if left == Some(0) {
            return Ok(());
        }
    }
    bail!("the node has ended the answer")
}

fn print(data: &str, json: bool) -> Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", terminal::json(data))?;
    } else {
        let sample: Json = serde_json::from_str(data).context("the node answered with what is no sample")?;
        let text = |name: &str| match sample.get(name) {
            Some(Json::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let why = sample.get("why").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let why: String = why.iter().filter_map(Json::as_str).map(|reason| format!(" {reason}")).collect();
        let line = format!("{}  {}  {}  {}{why}", text("t"), text("topic"), text("v"), text("q"));
        writeln!(out, "{}", terminal::lines(&line))?;
    }
    Ok(out.flush()?)
}

fn member(data: &str, name: &str) -> String {
    let object: Json = serde_json::from_str(data).unwrap_or_default();
    object.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default()
}
