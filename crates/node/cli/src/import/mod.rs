//! `tieline import`: configurations and histories of other platforms.

pub mod args;
mod historian;
mod report;
mod volttron;

use crate::answer;
use crate::api::table::count;
use crate::exit::Exit;
use anyhow::{Context, Result, bail};
use args::{ImportVerb, VolttronArgs};
use report::{Report, Status, Target, as_json, as_text, finding_as_json};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tieline_node::config::{ConfigError, Finding, Findings, ProtocolName, from_text, read_points};
use volttron::write::{Written, config, list_text};
use volttron::{Imported, Sources, import};

/// The name of the configuration.
const FILE: &str = "tieline.toml";

/// Imports what the verb names.
pub fn import_all(verb: &ImportVerb) -> Result<ExitCode> {
    match verb {
        ImportVerb::Volttron(args) => volttron(args),
        ImportVerb::VolttronHistory(args) => historian::import(args),
    }
}

fn volttron(args: &VolttronArgs) -> Result<ExitCode> {
    let mut report = Report::default();
    let sources = Sources::read(&args.from, &args.out, &mut report)?;
    let routers: BTreeMap<u16, String> = args.bacnet_router.iter().cloned().collect();
    let imported = import(&sources, &routers, &mut report);
    report.sort();
    let written = config(&imported);
    let files = files(&imported, &written);
    write_files(&args.out, &files, args.force, &sources)?;
    let (findings, unchecked) = check(&args.out, &imported, &written);
    match args.json {
        true => print_json(&report, &imported, &written, &findings)?,
        false => print_text(args, &report, &imported, &written, &findings, &unchecked)?,
    }
    Ok(match (findings.is_empty(), report.count(Status::LeftOut)) {
        (false, _) => ExitCode::FAILURE,
        (true, 0) => ExitCode::SUCCESS,
        (true, _) => Exit::Incomplete.into(),
    })
}

/// The files to write with their texts.
fn files(imported: &Imported, written: &Written) -> Vec<(String, String)> {
    let config = (!imported.devices.is_empty()).then(|| (FILE.to_owned(), written.text.clone()));
    let lists = imported.lists.iter().map(|list| (list.file.clone(), list_text(list)));
    config.into_iter().chain(lists).collect()
}

/// Writes all files or none, as far as that can be known before.
fn write_files(out: &Path, files: &[(String, String)], force: bool, sources: &Sources) -> Result<()> {
    let inputs: Vec<_> = sources.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
    for (name, _) in files {
        let path = out.join(name);
        let is_input = path.canonicalize().is_ok_and(|path| inputs.contains(&path));
        if is_input {
            bail!("{} is one of the files to import, expected another folder for --out", path.display());
        }
        if path.exists() && !force {
            bail!("{} is there already, expected an empty folder for --out, or --force", path.display());
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

fn protocol_of(word: &str) -> Option<ProtocolName> {
    ProtocolName::ALL.into_iter().find(|protocol| protocol.word() == word)
}

/// Reads what was written as a node does. Devices of protocols that this version does not have are not looked at: their
/// protocols come second.
fn check(out: &Path, imported: &Imported, written: &Written) -> (Vec<Finding>, Vec<&'static str>) {
    let all = imported.devices.iter().map(|device| device.spec.driver.protocol());
    let all = all.chain(imported.lists.iter().map(|list| list.driver.protocol()));
    let mut unchecked: Vec<&'static str> = all.filter(|word| protocol_of(word).is_none()).collect();
    unchecked.sort_unstable();
    unchecked.dedup();
    let lines = written.text.lines().zip(&written.protocols);
    let kept = lines.map(|(line, protocol)| match protocol {
        Some(word) if protocol_of(word).is_none() => "\n".to_owned(),
        Some(_) | None => format!("{line}\n"),
    });
    let text: String = kept.collect();
    let file = out.join(FILE).display().to_string();
    let mut findings = match from_text(&file, &text, out) {
        Ok(_) => Vec::new(),
        Err(ConfigError(findings)) => findings,
    };
    for list in imported.lists.iter().filter(|list| !list.is_used) {
        let Some(protocol) = protocol_of(list.driver.protocol()) else { continue };
        let mut found = Findings::default();
        let file = out.join(&list.file).display().to_string();
        let _ = read_points(&mut found, &file, &list_text(list), protocol);
        findings.extend(found.sorted());
    }
    (findings, unchecked)
}

/// Where an entry was written to.
fn places(targets: &[Target], imported: &Imported, written: &Written) -> Vec<(String, usize)> {
    let place = |target: &Target| match target {
        Target::Key { device, key } => (FILE.to_owned(), written.line(*device, key)),
        Target::Row { list, row } => {
            let file = imported.lists.get(*list).map(|list| list.file.clone()).unwrap_or_default();
            (file, row.map_or(1, |row| row + 2))
        }
    };
    let mut all: Vec<_> = targets.iter().map(place).collect();
    all.dedup();
    all
}

fn print_json(report: &Report, imported: &Imported, written: &Written, findings: &[Finding]) -> Result<()> {
    let entries = report.entries.iter().map(|entry| as_json(entry, &places(&entry.targets, imported, written)));
    let all: Vec<Json> = entries.chain(findings.iter().map(finding_as_json)).collect();
    answer::say(true, "", &Json::Array(all))
}

fn print_text(
    args: &VolttronArgs,
    report: &Report,
    imported: &Imported,
    written: &Written,
    findings: &[Finding],
    unchecked: &[&str],
) -> Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for entry in &report.entries {
        lines.push(as_text(entry, &places(&entry.targets, imported, written)));
    }
    lines.push(String::new());
    let points: usize = imported
        .devices
        .iter()
        .filter_map(|device| imported.lists.get(device.list))
        .map(|list| list.points.len())
        .sum();
    let (devices, lists) = (imported.devices.len(), imported.lists.len());
    let out = args.out.display();
    lines.push(format!(
        "{out}: {}, {}, {}",
        count(devices, "device"),
        count(points, "point"),
        count(lists, "point list")
    ));
    for protocol in unchecked {
        lines.push(format!("not checked: this version of tieline has no driver for {protocol}"));
    }
    if findings.is_empty() {
        lines.push("checked: ok".to_owned());
    } else {
        lines.extend(findings.iter().map(ToString::to_string));
        lines.push(format!("checked: {}", count(findings.len(), "error")));
    }
    let noted =
        report.entries.iter().filter(|entry| entry.status() == Status::Mapped && !entry.notes.is_empty()).count();
    let [mapped, not_needed, left_out] =
        [Status::Mapped, Status::NotNeeded, Status::LeftOut].map(|status| report.count(status));
    lines.push(format!("{mapped} mapped ({noted} with a remark), {not_needed} not needed, {left_out} left out"));
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{}", crate::terminal::lines(&line))?;
    }
    Ok(())
}
