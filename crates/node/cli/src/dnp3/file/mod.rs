//! `tieline dnp3 file`: the files of an outstation.
//!
//! `get` stores what came as `.NAME.SIZE-TIME.part` until the file is whole: another read of the same file goes on there,
//! and one of a file that has changed since begins again.

pub mod args;
mod local;
mod progress;
mod run;

use crate::{log, terminal};
use anyhow::{Context, Result, bail};
use args::{FileVerb, PeerArgs};
use local::{Source, Target};
use progress::Progress;
use run::{Outcome, Task, ask};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use tieline_core::Timestamp;
use tieline_dnp3::app::{FileKind, Permissions};
use tieline_dnp3::master::FileJob;
use tieline_dnp3::outstation::FileEntry;

/// Does it. Exit code 1 when the outstation refuses or does not answer.
pub fn file(verb: &FileVerb) -> Result<ExitCode> {
    log::start("warn", false);
    match verb {
        FileVerb::List(args) => {
            let outcome = ask(&args.peer, Task::Tell { job: FileJob::List { name: args.name.clone() } })?;
            tell(&args.peer, &outcome)
        }
        FileVerb::Info(args) => {
            let outcome = ask(&args.peer, Task::Tell { job: FileJob::Info { name: args.name.clone() } })?;
            tell(&args.peer, &outcome)
        }
        FileVerb::Delete(args) => {
            let outcome = ask(&args.peer, Task::Tell { job: FileJob::Delete { name: args.name.clone() } })?;
            done(&args.peer, "deleted", &args.name, &outcome)
        }
        FileVerb::Get(args) => get(args),
        FileVerb::Put(args) => put(args),
    }
}

fn get(args: &args::GetArgs) -> Result<ExitCode> {
    let info = ask(&args.peer, Task::Tell { job: FileJob::Info { name: args.name.clone() } })?;
    // Not every outstation describes its files: then there is nothing to go on from.
    let entry = if info.failure.is_none() { info.entries.into_iter().next() } else { None };
    if entry.as_ref().is_some_and(|entry| entry.kind == FileKind::DIRECTORY) {
        bail!("{} is a directory", args.name);
    }
    let name = args.name.rsplit('/').next().filter(|name| !name.is_empty());
    let to = match (&args.to, name) {
        (Some(to), _) => to.clone(),
        (None, Some(name)) => name.into(),
        (None, None) => bail!("{} names no file: say where to store it", args.name),
    };
    let target = Target::open(&to, entry.as_ref(), args.restart)?;
    let offset = target.offset();
    if offset > 0 {
        eprintln!("tieline: going on at byte {offset}");
    }
    let progress = Progress::start(args.peer.json);
    let job = FileJob::Read { name: args.name.clone(), offset };
    let outcome = ask(&args.peer, Task::Get { job, target, progress })?;
    done(&args.peer, "stored", &to.display().to_string(), &outcome)
}

fn put(args: &args::PutArgs) -> Result<ExitCode> {
    let source = Source::open(&args.from)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => {
            let name = args.from.file_name().and_then(|name| name.to_str());
            name.context("the file's name is no text: say its name there")?.to_owned()
        }
    };
    let job = FileJob::Write {
        name: name.clone(),
        append: args.append,
        size: Some(source.size),
        created: source.created,
        permissions: Permissions::READ_WRITE,
    };
    let progress = Progress::start(args.peer.json);
    let outcome = ask(&args.peer, Task::Put { job, source, progress })?;
    done(&args.peer, "written", &name, &outcome)
}

/// Prints what is known of files.
fn tell(peer: &PeerArgs, outcome: &Outcome) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for entry in &outcome.entries {
        match peer.json {
            true => writeln!(out, "{}", shown(entry))?,
            false => writeln!(
                out,
                "{}{} {:>10} {} {}",
                if entry.kind == FileKind::DIRECTORY { 'd' } else { '-' },
                entry.permissions,
                entry.size,
                Timestamp::from(entry.created),
                printable(&entry.name)
            )?,
        }
    }
    finish(peer, outcome)
}

fn shown(entry: &FileEntry) -> serde_json::Value {
    json!({
        "name": entry.name,
        "kind": if entry.kind == FileKind::DIRECTORY { "directory" } else { "file" },
        "size": entry.size,
        "created": Timestamp::from(entry.created).to_string(),
        "permissions": entry.permissions.to_string(),
    })
}

/// A name without what a terminal would act on.
fn printable(name: &str) -> String {
    name.chars().map(|c| if terminal::is_active(c) { '\u{FFFD}' } else { c }).collect()
}

fn done(peer: &PeerArgs, word: &str, name: &str, outcome: &Outcome) -> Result<ExitCode> {
    if outcome.failure.is_none() {
        let mut out = std::io::stdout().lock();
        match peer.json {
            true => writeln!(out, "{}", json!({ "status": "success", "name": name, "bytes": outcome.bytes }))?,
            false => writeln!(out, "{word} {name}")?,
        }
    }
    finish(peer, outcome)
}

fn finish(peer: &PeerArgs, outcome: &Outcome) -> Result<ExitCode> {
    let Some(failure) = &outcome.failure else { return Ok(ExitCode::SUCCESS) };
    if peer.json {
        let failure = json!({ "status": failure.name(), "detail": failure.to_string() });
        writeln!(std::io::stdout(), "{failure}")?;
    } else {
        eprintln!("tieline: {failure}");
    }
    Ok(ExitCode::FAILURE)
}
