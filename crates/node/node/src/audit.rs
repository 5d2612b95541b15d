//! The audit log: one JSON object a line, durable before the command that it names is sent.
//!
//! A thread owns the file. What must follow a record (sending the command) is handed over with it, as a call that
//! runs once the record is on the disk, or is told that it could not be written.

use serde::Serialize;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Records that may wait for the disk; a command beyond them is refused.
const WAITING_MAX: usize = 1024;
/// Records kept in memory for the API.
const RECENT_MAX: usize = 10_000;

/// One line of the log.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub struct AuditLine {
    /// Rises by one from record to record, over restarts too: a gap shows a loss.
    pub id: u64,
    /// When, RFC 3339.
    pub time: String,
    /// Who asked: the protocol and the peer.
    pub who: String,
    /// The point.
    pub topic: String,
    /// The point's device; empty where the topic is no point.
    #[serde(default)]
    pub device: String,
    /// What was asked for.
    pub value: String,
    /// How the device was to be asked.
    #[serde(default)]
    pub mode: String,
    /// What happened.
    pub phase: String,
    /// Why not, as a stable word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What runs once the records are durable (true) or could not be written (false).
pub type Afterwards = Box<dyn FnOnce(bool) + Send>;

struct Entry {
    lines: Vec<AuditLine>,
    afterwards: Option<Afterwards>,
}

/// The log.
#[derive(Debug)]
pub struct AuditLog {
    entries: Option<SyncSender<Entry>>,
    recent: Arc<Mutex<VecDeque<AuditLine>>>,
    next_id: u64,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Opens or makes the file and reads its last records.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let recent = read_recent(path)?;
        let next_id = recent.back().map_or(1, |line: &AuditLine| line.id + 1);
        let recent = Arc::new(Mutex::new(recent));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (entries, incoming) = sync_channel(WAITING_MAX);
        let shown = Arc::clone(&recent);
        let body = move || write_all(file, &incoming, &shown);
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(body)?;
        Ok(Self { entries: Some(entries), recent, next_id, thread: Some(thread) })
    }

    /// The number that the next record is to have.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Hands lines to the disk; `afterwards` runs on the log's thread. False when too many records wait: the lines
    /// and `afterwards` are dropped then.
    pub fn append(&mut self, lines: Vec<AuditLine>, afterwards: Option<Afterwards>) -> bool {
        self.next_id = lines.last().map_or(self.next_id, |line| line.id + 1);
        self.entries.as_ref().is_some_and(|entries| entries.try_send(Entry { lines, afterwards }).is_ok())
    }

    /// The newest records first.
    #[must_use]
    pub fn recent(&self, topic: Option<&str>, limit: usize) -> Vec<AuditLine> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().rev().filter(|line| topic.is_none_or(|topic| line.topic == topic)).take(limit).cloned().collect()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.entries = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The last records of the file. A torn last line, left by a crash, is skipped.
fn read_recent(path: &Path) -> io::Result<VecDeque<AuditLine>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        Err(error) => return Err(error),
    };
    let mut recent = VecDeque::new();
    for line in BufReader::new(file).split(b'\n') {
        if let Ok(line) = serde_json::from_slice(&line?) {
            recent.push_back(line);
            if recent.len() > RECENT_MAX {
                recent.pop_front();
            }
        }
    }
    Ok(recent)
}

fn write_all(mut file: File, incoming: &Receiver<Entry>, recent: &Mutex<VecDeque<AuditLine>>) {
    // A line that a crash left without its end must not swallow the next one.
    let _ = end_torn_line(&mut file);
    while let Ok(first) = incoming.recv() {
        let entries: Vec<Entry> = std::iter::once(first).chain(incoming.try_iter()).collect();
        let written = write_entries(&mut file, &entries);
        if let Err(error) = &written {
            tracing::error!(%error, "the audit log cannot be written; commands are refused");
            let _ = end_torn_line(&mut file);
        }
        for entry in entries {
            if written.is_ok() {
                let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
                recent.extend(entry.lines);
                let over = recent.len().saturating_sub(RECENT_MAX);
                recent.drain(..over);
            }
            entry.afterwards.into_iter().for_each(|run| run(written.is_ok()));
        }
    }
}

fn end_torn_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() > 0 { file.write_all(b"\n") } else { Ok(()) }
}

fn write_entries(file: &mut File, entries: &[Entry]) -> io::Result<()> {
    let mut text = Vec::new();
    for line in entries.iter().flat_map(|entry| &entry.lines) {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    file.write_all(&text)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u64, topic: &str) -> AuditLine {
        AuditLine {
            id,
            time: "2026-11-20T09:36:00.123Z".to_owned(),
            who: "test".to_owned(),
            topic: topic.to_owned(),
            device: String::new(),
            value: "true".to_owned(),
            mode: "select".to_owned(),
            phase: "requested".to_owned(),
            reason: String::new(),
            detail: String::new(),
        }
    }

    #[test]
    fn records_are_durable_before_what_follows_them_and_outlive_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut log = AuditLog::open(&path).unwrap();
        let (told, hears) = sync_channel(1);
        let seen = path.clone();
        let afterwards = move |ok| told.send((ok, std::fs::read_to_string(&seen).unwrap().lines().count())).unwrap();
        assert!(log.append(vec![line(1, "a"), line(2, "b")], Some(Box::new(afterwards))));
        assert_eq!(hears.recv(), Ok((true, 2)));
        drop(log);
        let torn = std::fs::read_to_string(&path).unwrap() + "{\"id\":3,\"ti";
        std::fs::write(&path, torn).unwrap();
        let mut log = AuditLog::open(&path).unwrap();
        assert_eq!(log.next_id(), 3);
        log.append(vec![line(3, "a")], None);
        drop(log);
        let log = AuditLog::open(&path).unwrap();
        let ids = |topic| log.recent(topic, 10).iter().map(|line| line.id).collect::<Vec<_>>();
        assert_eq!((ids(None), ids(Some("a"))), (vec![3, 2, 1], vec![3, 1]));
    }
}
