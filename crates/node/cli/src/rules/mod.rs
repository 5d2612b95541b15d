//! `tieline rules`: alarm rules are checked, and tried on what was recorded.

pub mod args;
mod trial;

use crate::api::now;
use crate::api::table::count;
use crate::replay::recorded::{self, Span};
use crate::who;
use anyhow::{Context, Result, anyhow};
use args::{RulesCheckArgs, RulesFile, RulesTestArgs, RulesVerb};
use serde::Deserialize;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;
use tieline_alarms::{RuleError, Rules};
use tieline_core::Topic;
use tokio::sync::mpsc;
use trial::Trial;

/// Rows of a file.
const RULES_MAX: usize = 100_000;
/// Bytes of a file: 1 kB a row.
const FILE_BYTES_MAX: u64 = 100 << 20;
/// Values that are read ahead.
const READ_AHEAD: usize = 4096;
/// How long the first page may take.
const ANSWER: Duration = Duration::from_secs(300);

/// Runs a verb.
pub fn rules(verb: &RulesVerb) -> Result<ExitCode> {
    match verb {
        RulesVerb::Check(args) => check(args),
        RulesVerb::Test(args) => test(args),
    }
}

fn check(args: &RulesCheckArgs) -> Result<ExitCode> {
    let file = args.rules.file.display();
    let mut out = std::io::stdout().lock();
    match read(&args.rules)? {
        Ok(rules) if args.json => writeln!(out, "{}", json!({ "ok": true, "rules": rules.len() }))?,
        Ok(rules) => writeln!(out, "{file}: ok, {}", count(rules.len(), "rule"))?,
        Err(errors) if args.json => {
            let errors: Vec<_> = errors.iter().map(as_json).collect();
            writeln!(out, "{}", json!({ "ok": false, "errors": errors }))?;
            return Ok(ExitCode::FAILURE);
        }
        Err(errors) => return Ok(complain(&args.rules, &errors)),
    }
    Ok(ExitCode::SUCCESS)
}

fn test(args: &RulesTestArgs) -> Result<ExitCode> {
    let rules = match read(&args.rules)? {
        Ok(rules) => rules,
        Err(errors) => return Ok(complain(&args.rules, &errors)),
    };
    let span = Span::new(args.topics.clone(), &args.span, now())?;
    let http = who::http(&args.node, Some(ANSWER))?;
    let devices: Vec<Device> = http.get::<Devices>("/v1/devices")?.devices;
    let devices: Vec<Topic> = devices.iter().filter_map(|device| Topic::new(&device.topic).ok()).collect();
    let mut trial = Trial::new(rules, &devices, span.from);
    let (out, mut recorded) = mpsc::channel(READ_AHEAD);
    let (from, to) = (span.from, span.to);
    // It ends with the process, or when nobody wants more.
    std::thread::Builder::new().name("history".to_owned()).spawn(move || recorded::read(&http, &span, &out))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    while let Some(value) = recorded.blocking_recv() {
        trial.take(value?);
        trial.tell(args.all, args.json, &mut out)?;
    }
    trial.end(to);
    trial.tell(args.all, args.json, &mut out)?;
    trial.tell_summary(from, to, args.json, &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Deserialize)]
struct Devices {
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    topic: String,
}

fn read(rules: &RulesFile) -> Result<Result<Rules, Vec<RuleError>>> {
    let file = &rules.file;
    let length = std::fs::metadata(file).with_context(|| format!("{} cannot be read", file.display()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(anyhow!("{} has {length} bytes, expected at most {FILE_BYTES_MAX}", file.display()));
    }
    let text = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let text = String::from_utf8(text).map_err(|_| anyhow!("{} is not UTF-8", file.display()))?;
    Ok(Rules::parse(&text, RULES_MAX, rules.strict))
}

fn complain(rules: &RulesFile, errors: &[RuleError]) -> ExitCode {
    for error in errors {
        let line = format!("{}: {error}", rules.file.display());
        eprintln!("{}", crate::terminal::lines(&line));
    }
    ExitCode::FAILURE
}

fn as_json(error: &RuleError) -> serde_json::Value {
    json!({ "line": error.line, "column": error.column, "found": error.found, "expected": error.expected })
}
