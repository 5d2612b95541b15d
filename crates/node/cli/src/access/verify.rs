//! `tieline access verify`: whether the audit log is what was written.

use super::args::VerifyArgs;
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use tieline_node::audit::{self, Chain, Verified};

/// The exit code where it is not.
const BROKEN: u8 = 3;

/// Looks at all files and prints what they came to.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let record = args.record.as_deref().map(record).transpose()?;
    let seen = audit::verify(&args.folder, record).with_context(|| args.folder.display().to_string())?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", as_json(&seen))?,
        false => write!(out, "{}", as_text(args, &seen))?,
    }
    Ok(if seen.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(BROKEN) })
}

fn record(text: &str) -> Result<(u64, Chain)> {
    let parsed = text.split_once(':').and_then(|(id, chain)| Some((id.parse().ok()?, Chain::parse(chain)?)));
    parsed.ok_or_else(|| anyhow!("--record is {text:?}, expected a number, a colon and 64 hexadecimal digits"))
}

fn as_text(args: &VerifyArgs, seen: &Verified) -> String {
    let count = |n: u64, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let mut lines = Vec::new();
    for fault in &seen.faults {
        lines.push(format!("{}:{}: {}", fault.path.display(), fault.line, fault.what));
    }
    if seen.anchored == Some(false) {
        lines.push(format!("the record {} is not there with that chain", args.record.as_deref().unwrap_or_default()));
    }
    for (from, to) in &seen.gaps {
        lines.push(format!("no record has the numbers {from} to {to}: they were not written"));
    }
    if seen.unchained > 0 {
        lines.push(format!("{} of before chains were kept", count(seen.unchained, "record")));
    }
    let word = if seen.is_whole() { "ok" } else { "NOT what was written" };
    let files = count(u64::try_from(seen.files).unwrap_or(u64::MAX), "file");
    lines.push(format!("{}: {word}, {} in {files}", args.folder.display(), count(seen.records, "record")));
    if let Some((_, last)) = seen.ids {
        lines.push(format!("the last record, to be noted elsewhere: {last}:{}", seen.chain));
    }
    lines.join("\n") + "\n"
}

fn as_json(seen: &Verified) -> serde_json::Value {
    let fault = |fault: &audit::Fault| json!({ "file": fault.path, "line": fault.line, "what": fault.what });
    json!({
        "ok": seen.is_whole(),
        "files": seen.files,
        "records": seen.records,
        "unchained": seen.unchained,
        "first": seen.ids.map(|ids| ids.0),
        "last": seen.ids.map(|ids| ids.1),
        "chain": seen.chain.to_string(),
        "gaps": seen.gaps,
        "record": seen.anchored,
        "faults": seen.faults.iter().map(fault).collect::<Vec<_>>(),
    })
}
