//! `tieline history verify` and `repair`: whether the store of a data folder is what was written, and what is left of it.

use super::args::{CompactArgs, RepairArgs, VerifyArgs};
use super::{expect_history, folder_reader};
use crate::answer::say;
use crate::progress::Progress;
use crate::{consent, who};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value as Json, json};
use std::process::ExitCode;
use std::time::Duration;
use tieline_history::{Fault, HistoryOptions, HistoryWriter, RepairedHistory, VerifiedHistory};
use tieline_node::FolderLock;

/// How long the days of a node may take.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The exit code where something is damaged, as that of `access verify`.
const DAMAGED: u8 = 3;

/// Reads everything, and prints what is damaged.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let reader = folder_reader(&args.data)?;
    let mut progress = Progress::new("checked");
    let seen = reader.verify(&mut |done, total| progress.tell(done, total))?;
    progress.finish();
    say(args.json, &verified_text(&seen), &verified_json(&seen))?;
    Ok(if seen.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

/// Removes what is damaged, and prints what is lost.
pub fn repair(args: &RepairArgs) -> Result<ExitCode> {
    expect_history(&args.data)?;
    consent::ask(
        args.yes,
        &format!("this removes what cannot be read of the history in {} for good", args.data.display()),
    )?;
    let _lock = FolderLock::take(&args.data).map_err(|why| anyhow!("{}: {why}", args.data.display()))?;
    let mut progress = Progress::new("checked");
    let done = tieline_history::repair(&args.data, &mut |done, total| progress.tell(done, total));
    progress.finish();
    let done = done.with_context(|| args.data.display().to_string())?;
    say(args.json, &repaired_text(&done), &repaired_json(&done))?;
    Ok(ExitCode::SUCCESS)
}

/// Has the days be closed that have ended.
pub fn compact(args: &CompactArgs) -> Result<ExitCode> {
    let answer: Json = match &args.target.data {
        None => who::http(&args.target.node, Some(PATIENCE))?.post("/v1/history/compact", &json!({}))?,
        Some(data) => {
            expect_history(data)?;
            let _lock = FolderLock::take(data).map_err(|why| anyhow!("{}: {why}", data.display()))?;
            let writer = HistoryWriter::open(data, HistoryOptions::default())?;
            let days = writer.handle().close_days().recv()?.map_err(|why| anyhow!("{}: {why}", data.display()))?;
            json!({ "status": "ok", "days": days })
        }
    };
    say(args.json, &format!("{} days were closed", answer["days"]), &answer)?;
    Ok(ExitCode::SUCCESS)
}

fn verified_text(seen: &VerifiedHistory) -> String {
    let mut lines: Vec<String> = seen.faults.iter().map(ToString::to_string).collect();
    let more = seen.fault_count - seen.faults.len() as u64;
    if more > 0 {
        lines.push(format!("{more} more faults"));
    }
    let VerifiedHistory { samples, chunks, topics, files, day_files, overlaps, .. } = seen;
    lines.push(format!(
        "{samples} samples of {topics} topics in {chunks} chunks in {files} files of chunks and {day_files} day files"
    ));
    if seen.edits > 0 {
        lines.push(format!("{} edits and annotations, those that were undone among them", seen.edits));
    }
    if seen.unchecked_files > 0 {
        lines.push(format!("{} day files of an earlier release have no checksum", seen.unchecked_files));
    }
    if *overlaps > 0 {
        lines.push(format!("{overlaps} chunks overlap an earlier one of their topic in time: data that came late"));
    }
    lines.push(match seen.is_whole() {
        true => "ok".to_owned(),
        false => format!("DAMAGED: faults {}, samples that cannot be read {}", seen.fault_count, seen.lost_samples),
    });
    lines.join("\n")
}

fn verified_json(seen: &VerifiedHistory) -> Json {
    json!({
        "ok": seen.is_whole(),
        "topics": seen.topics,
        "chunks": seen.chunks,
        "samples": seen.samples,
        "bytes": seen.bytes,
        "files": seen.files,
        "day_files": seen.day_files,
        "unchecked_files": seen.unchecked_files,
        "edits": seen.edits,
        "overlaps": seen.overlaps,
        "uncommitted_bytes": seen.uncommitted_bytes,
        "lost_samples": seen.lost_samples,
        "fault_count": seen.fault_count,
        "faults": seen.faults.iter().map(fault_json).collect::<Vec<_>>(),
    })
}

fn fault_json(fault: &Fault) -> Json {
    let chunk = fault.chunk.as_ref();
    json!({
        "topic": fault.topic.as_deref(),
        "file": chunk.map(|chunk| tieline_store::file_name(chunk.extent.file, chunk.day)),
        "offset": chunk.map(|chunk| chunk.extent.offset),
        "bytes": chunk.map(|chunk| chunk.extent.bytes),
        "samples": chunk.map(|chunk| chunk.samples),
        "first": chunk.map(|chunk| chunk.first.to_string()),
        "last": chunk.map(|chunk| chunk.last.to_string()),
        "what": fault.what,
    })
}

fn repaired_text(done: &RepairedHistory) -> String {
    let mut lines: Vec<String> = done.faults.iter().map(ToString::to_string).collect();
    if done.rebuilt {
        lines.push("the index was made again of the files of chunks and the day files".to_owned());
    }
    if done.removed_chunks > 0 {
        lines.push(format!("chunks removed {}, samples lost with them {}", done.removed_chunks, done.lost_samples));
    }
    if done.unnamed_bytes > 0 {
        lines.push(format!("{} bytes are of no known topic and were left where they are", done.unnamed_bytes));
    }
    if done.faults.is_empty() {
        lines.push("nothing was damaged".to_owned());
    }
    if done.edits > 0 {
        lines.push(format!("{} edits and annotations are kept", done.edits));
    }
    lines.push(format!("{} samples in {} chunks are there", done.samples, done.chunks));
    lines.join("\n")
}

fn repaired_json(done: &RepairedHistory) -> Json {
    json!({
        "rebuilt": done.rebuilt,
        "chunks": done.chunks,
        "samples": done.samples,
        "removed_chunks": done.removed_chunks,
        "lost_samples": done.lost_samples,
        "edits": done.edits,
        "unnamed_bytes": done.unnamed_bytes,
        "faults": done.faults.iter().map(fault_json).collect::<Vec<_>>(),
    })
}
