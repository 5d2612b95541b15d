//! `tieline history import`: values of files into a history. What is there already counts once, so that it can be repeated.

use super::args::ImportArgs;
use crate::answer::say;
use crate::api::table::count;
use crate::progress::{Progress, size};
use crate::who;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use tieline_client::HttpClient;
use tieline_core::Update;
use tieline_history::{HistoryOptions, HistoryWriter, NotRecorded};
use tieline_journal::{Sample, Seq};
use tieline_node::FolderLock;
use tieline_store::{Extras, Format, Imported, Row, RowPage, export_with};

/// Samples that go together.
const BATCH: usize = 20_000;
/// Bytes of JSON that a node takes in one call, less what one sample may have.
const CALL_BYTES: usize = 512 * 1024;
/// How often a full journal is waited for, and how long.
const ATTEMPTS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(5);

/// Stores all samples of the files.
pub fn import(args: &ImportArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    for path in &args.files {
        find(path, &mut files).with_context(|| path.display().to_string())?;
    }
    if files.is_empty() {
        bail!("no file that ends with .csv, .json or .parquet is there");
    }
    let total = files.iter().filter_map(|path| fs::metadata(path).ok()).map(|found| found.len()).sum();
    let mut target = Target::open(args)?;
    let mut progress = Progress::new("imported");
    let (mut samples, mut too_old, mut bytes) = (0, 0, 0);
    for path in &files {
        let named = || path.display().to_string();
        let mut rows = tieline_store::import(path).with_context(named)?;
        loop {
            let batch: Vec<Imported> = rows.by_ref().take(BATCH).collect::<Result<_, _>>().with_context(named)?;
            if batch.is_empty() {
                break;
            }
            samples += batch.len();
            too_old += target.store(batch).with_context(named)?;
            progress.tell(bytes, total);
        }
        bytes += fs::metadata(path).map_or(0, |found| found.len());
        progress.tell(bytes, total);
    }
    drop(target);
    progress.finish();
    let (of, from) = (count(samples, "sample"), count(files.len(), "file"));
    let mut words = format!("{of} of {from}, {}", size(bytes));
    if too_old > 0 {
        words.push_str(&format!("; {too_old} of them not shown and removed: they are older than history.keep allows"));
    }
    say(args.json, &words, &json!({ "samples": samples, "too_old": too_old, "files": files.len(), "bytes": bytes }))?;
    Ok(ExitCode::SUCCESS)
}

/// A file that was named, or those of a folder, in the order of their names.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        fs::metadata(path)?;
        files.push(path.to_path_buf());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
        // What an export that was interrupted has not finished is no file of it.
        let is_part =
            entry.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some_and(|end| end == "part"));
        let is_known =
            entry.extension().is_some_and(|end| ["csv", "json", "parquet"].iter().any(|known| end == *known));
        if entry.is_dir() || (is_known && !is_part) {
            find(&entry, files)?;
        }
    }
    Ok(())
}

/// Where samples go.
enum Target {
    Node(HttpClient),
    Folder { writer: HistoryWriter, last: Seq, _lock: FolderLock },
}

impl Target {
    fn open(args: &ImportArgs) -> Result<Self> {
        let Some(data) = &args.target.data else { return Ok(Self::Node(who::http(&args.target.node, None)?)) };
        super::expect_history(data)?;
        let _lock = FolderLock::take(data).map_err(|why| anyhow!("{}: {why}", data.display()))?;
        let writer = HistoryWriter::open(data, HistoryOptions::default())?;
        Ok(Self::Folder { writer, last: Seq(0), _lock })
    }

    /// Stores samples; how many of them are older than the node keeps any. Which those are, a folder does not say.
    fn store(&mut self, batch: Vec<Imported>) -> Result<u64> {
        match self {
            Self::Node(client) => send(client, batch),
            Self::Folder { writer, last, .. } => {
                let sample =
                    |Imported { topic, time, body }| Sample { time, update: Update { topic, body }, again: true };
                let samples: Vec<Sample> = batch.into_iter().map(sample).collect();
                let handle = writer.handle();
                for _ in 0..ATTEMPTS {
                    let (told, hears) = mpsc::sync_channel(1);
                    handle.submit(samples.clone(), Box::new(move |stored| drop(told.send(stored))));
                    match hears.recv()? {
                        Ok(seq) => {
                            *last = seq;
                            return Ok(0);
                        }
                        // The store makes room in the journal.
                        Err(NotRecorded::Full) => drop(handle.wait_stored(*last, PATIENCE)),
                        Err(error) => bail!("{error}"),
                    }
                }
                bail!("the journal stays full")
            }
        }
    }
}

/// Sends samples to a node, in as many calls as it takes; how many are older than it keeps any.
fn send(client: &HttpClient, batch: Vec<Imported>) -> Result<u64> {
    let mut too_old = 0;
    let mut rows: Vec<Row> = batch.into_iter().map(Row::from).collect();
    while !rows.is_empty() {
        let weight = |row: &Row| 200 + row.topic.len() + 8 * bytes_of(row);
        let mut bytes = 0;
        let count = rows.iter().take_while(|row| {
            let is_first = bytes == 0;
            bytes += weight(row);
            is_first || bytes < CALL_BYTES
        });
        let count = count.count();
        let rest = rows.split_off(count);
        let mut body = Vec::new();
        export_with(&mut RowPage::from(rows), Format::Json, Extras::KINDS, || true, &mut body)?;
        let answer: Json = client.put("/v1/history", &body, &[("content-type", "application/json")])?;
        too_old += answer["too_old"].as_u64().unwrap_or_default();
        rows = rest;
    }
    Ok(too_old)
}

const fn bytes_of(row: &Row) -> usize {
    match &row.point.value {
        tieline_core::Value::Text(text) => text.len(),
        tieline_core::Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}
