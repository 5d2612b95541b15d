//! `tieline backup` and `tieline restore`: a data folder as an archive, and back.

pub mod args;

use crate::answer::say;
use crate::api::now;
use crate::progress::{Progress, size};
use crate::who;
use anyhow::{Context, Result, anyhow, bail};
use args::{BackupArgs, RestoreArgs};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tieline_node::FolderLock;
use tieline_node::backup::{self, Contents};

/// How long the first piece may take: the node copies the index before it.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Bytes that are moved at one time.
const PIECE_BYTES: usize = 128 * 1024;

/// Writes an archive, and reads it again: a file of that name is whole.
pub fn backup(args: &BackupArgs) -> Result<ExitCode> {
    // A device or a folder of that name would be replaced, or be in the way at the end.
    if args.output.exists() && !args.output.is_file() {
        bail!("{} is there and is no file, expected the name of a file", args.output.display());
    }
    let part = beside(&args.output);
    let made = write(args, &part).and_then(|()| check(&part));
    let contents = made.inspect_err(|_| drop(fs::remove_file(&part)))?;
    fs::rename(&part, &args.output).with_context(|| args.output.display().to_string())?;
    let words = format!("{} files, {} in {}", contents.files, size(contents.bytes), args.output.display());
    told(args.json, &words, &contents)
}

/// Makes a data folder of an archive, or only reads it.
pub fn restore(args: &RestoreArgs) -> Result<ExitCode> {
    let Some(data) = &args.data else {
        let contents = check(&args.file)?;
        let words = format!("ok: {} files, {} of {}", contents.files, size(contents.bytes), contents.time);
        return told(args.json, &words, &contents);
    };
    let (mut archive, total) = open(&args.file)?;
    let mut progress = Progress::new("restored");
    let done = backup::restore(&mut archive, total, data, &mut |done, total| progress.tell(done, total));
    progress.finish();
    let contents = done.with_context(|| args.file.display().to_string())?;
    let words =
        format!("{} files, {} of {} are in {}", contents.files, size(contents.bytes), contents.time, data.display());
    told(args.json, &words, &contents)
}

fn told(json: bool, words: &str, contents: &Contents) -> Result<ExitCode> {
    let object = json!({ "time": contents.time, "files": contents.files, "bytes": contents.bytes });
    say(json, words, &object)?;
    Ok(ExitCode::SUCCESS)
}

fn write(args: &BackupArgs, part: &Path) -> Result<()> {
    let named = || part.display().to_string();
    let mut progress = Progress::new("written");
    let Some(data) = &args.data else {
        let mut answer = who::http(&args.node, Some(PATIENCE))?.stream("/v1/backup", "application/x-tar")?;
        let mut file = File::create(part).with_context(named)?;
        let (mut bytes, mut piece) = (0, vec![0; PIECE_BYTES]);
        loop {
            let count = answer.read(&mut piece).context("the answer broke off")?;
            if count == 0 {
                break;
            }
            file.write_all(piece.get(..count).unwrap_or_default()).with_context(named)?;
            bytes += count as u64;
            progress.say(|| size(bytes));
        }
        progress.finish();
        return file.sync_all().with_context(named);
    };
    if !backup::is_data_folder(data) {
        bail!("{} holds no data of a node, expected its data folder", data.display());
    }
    let _lock = FolderLock::take(data).map_err(|why| anyhow!("{}: {why}", data.display()))?;
    let mut out = BufWriter::with_capacity(PIECE_BYTES, File::create(part).with_context(named)?);
    backup::write(data, now(), &mut out, &mut |done, total| progress.tell(done, total))?;
    progress.finish();
    out.into_inner().map_err(|error| error.into_error())?.sync_all().with_context(named)
}

fn check(path: &Path) -> Result<Contents> {
    let (mut archive, total) = open(path)?;
    let mut progress = Progress::new("checked");
    let contents = backup::check(&mut archive, total, &mut |done, total| progress.tell(done, total));
    progress.finish();
    contents.with_context(|| path.display().to_string())
}

fn open(path: &Path) -> Result<(BufReader<File>, u64)> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let bytes = file.metadata()?.len();
    Ok((BufReader::with_capacity(PIECE_BYTES, file), bytes))
}

/// The name of an archive until it is whole.
fn beside(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
