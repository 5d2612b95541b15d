//! The audit log: one JSON object a line, durable before the command that it names is sent.
//!
//! A thread owns the file. What must follow a record (sending the command) is handed over with it, as a call that
//! runs once the record is on the disk, or is told that it could not be written. While the file cannot be opened or
//! written, which does not stop the node, the thread tries it again each second.

use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tieline_core::Timestamp;

/// Records that may wait for the disk; a command beyond them is refused.
const WAITING_MAX: usize = 1024;
/// Records kept in memory for the API.
const RECENT_MAX: usize = 10_000;
/// How soon a file that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// What must fit before commands go out again.
const PROBE: [u8; 512] = [b' '; 512];

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

/// What callers see of the log.
#[derive(Debug, Default)]
struct Shown {
    recent: VecDeque<AuditLine>,
    trouble: Option<String>,
}

/// The log.
#[derive(Debug)]
pub struct AuditLog {
    entries: Option<SyncSender<Entry>>,
    /// The number of the last line handed over since the start.
    last_id: u64,
    shown: Arc<Mutex<Shown>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Begins to keep the log in the file, which may be absent and may come later.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(path: &Path) -> io::Result<Self> {
        let shown = Arc::new(Mutex::new(Shown::default()));
        let (entries, incoming) = sync_channel(WAITING_MAX);
        let mut keeper = Keeper { path: path.to_owned(), file: None, shown: Arc::clone(&shown) };
        keeper.recover();
        let body = move || keeper.run(&incoming);
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(body)?;
        Ok(Self { entries: Some(entries), last_id: 0, shown, thread: Some(thread) })
    }

    /// Hands lines to the disk and numbers them, on from the last record of the file; one that is not written leaves a
    /// gap; `afterwards` runs on the log's thread. False when too many records wait: the lines and `afterwards`
    /// are dropped then.
    pub fn append(&mut self, mut lines: Vec<AuditLine>, afterwards: Option<Afterwards>) -> bool {
        for line in &mut lines {
            self.last_id += 1;
            line.id = self.last_id;
        }
        self.entries.as_ref().is_some_and(|entries| entries.try_send(Entry { lines, afterwards }).is_ok())
    }

    /// The newest records first.
    #[must_use]
    pub fn recent(&self, topic: Option<&str>, limit: usize) -> Vec<AuditLine> {
        let shown = lock(&self.shown);
        let wanted = |line: &&AuditLine| topic.is_none_or(|topic| line.topic == topic);
        shown.recent.iter().rev().filter(wanted).take(limit).cloned().collect()
    }

    /// Why no record can be written; none while they can.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.shown).trouble.clone()
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

/// The thread that writes.
struct Keeper {
    path: PathBuf,
    file: Option<Open>,
    shown: Arc<Mutex<Shown>>,
}

/// The file with its whole records.
struct Open {
    file: File,
    octets: u64,
    /// The last number before this start.
    last_id: u64,
}

impl Keeper {
    fn run(mut self, incoming: &Receiver<Entry>) {
        loop {
            let in_trouble = lock(&self.shown).trouble.is_some();
            let first = match in_trouble {
                false => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => incoming.recv_timeout(RETRY),
            };
            match first {
                Ok(first) => self.write(std::iter::once(first).chain(incoming.try_iter()).collect()),
                Err(RecvTimeoutError::Timeout) => self.recover(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Opens the file where that failed, and looks whether it takes a record.
    fn recover(&mut self) {
        let opened = match self.file.take() {
            Some(open) => Ok((open, None)),
            None => Open::new(&self.path).map(|(open, recent)| (open, Some(recent))),
        };
        let tried = opened.and_then(|(mut open, recent)| {
            let (probed, cut) = (open.append(&PROBE), open.cut());
            if let Some(recent) = recent {
                lock(&self.shown).recent = recent;
            }
            self.file = Some(open);
            probed.and(cut)
        });
        self.note(tried.err());
    }

    fn note(&self, error: Option<io::Error>) {
        let trouble = error.map(|error| error.to_string());
        let known = std::mem::replace(&mut lock(&self.shown).trouble, trouble.clone());
        match (known, trouble) {
            (known, Some(error)) if known.as_ref() != Some(&error) => {
                tracing::warn!(error, "the audit log cannot be written; commands are refused");
            }
            (Some(_), None) => tracing::info!("the audit log goes on"),
            _ => {}
        }
    }

    fn write(&mut self, entries: Vec<Entry>) {
        if lock(&self.shown).trouble.is_some() {
            self.recover();
        }
        let written = match &mut self.file {
            Some(open) if lock(&self.shown).trouble.is_none() => {
                let written = open.write(&entries);
                self.note(written.as_ref().err().map(|error| io::Error::new(error.kind(), error.to_string())));
                written.ok()
            }
            Some(_) | None => None,
        };
        let durable = written.is_some();
        if let Some(lines) = written {
            let mut shown = lock(&self.shown);
            shown.recent.extend(lines);
            let over = shown.recent.len().saturating_sub(RECENT_MAX);
            shown.recent.drain(..over);
        }
        entries.into_iter().filter_map(|entry| entry.afterwards).for_each(|run| run(durable));
    }
}

impl Open {
    /// Opens or makes the file. A torn last line, left by a crash, is cut off, and commands whose end the node did not
    /// live to see are ended.
    fn new(path: &Path) -> io::Result<(Self, VecDeque<AuditLine>)> {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut recent: VecDeque<AuditLine> = VecDeque::new();
        let mut unfinished = BTreeMap::new();
        let (mut reader, mut line, mut octets) = (BufReader::new(&file), Vec::new(), 0);
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            octets += line.len() as u64;
            if let Ok(line) = serde_json::from_slice(&line) {
                follow(&mut unfinished, &line);
                recent.push_back(line);
                if recent.len() > RECENT_MAX {
                    recent.pop_front();
                }
            }
            line.clear();
        }
        let last_id = recent.back().map_or(0, |line| line.id);
        let mut open = Self { file, octets, last_id };
        open.cut()?;
        let ends = unfinished.into_values().zip(1..).map(|(line, id)| end_of(line, id)).collect();
        let ends = open.write(&[Entry { lines: ends, afterwards: None }])?;
        open.last_id += ends.len() as u64;
        recent.extend(ends);
        Ok((open, recent))
    }

    /// Writes the lines and gives them with their numbers in the file. Where that fails, the file holds none of them.
    fn write(&mut self, entries: &[Entry]) -> io::Result<Vec<AuditLine>> {
        let mut lines: Vec<AuditLine> = entries.iter().flat_map(|entry| entry.lines.iter().cloned()).collect();
        let mut text = Vec::new();
        for line in &mut lines {
            line.id += self.last_id;
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        match self.append(&text) {
            Ok(()) => self.octets += text.len() as u64,
            Err(error) => {
                let _ = self.cut();
                return Err(error);
            }
        }
        Ok(lines)
    }

    fn append(&mut self, octets: &[u8]) -> io::Result<()> {
        self.file.write_all(octets)?;
        self.file.sync_data()
    }

    /// Cuts off what is no whole record.
    fn cut(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() > self.octets { self.file.set_len(self.octets) } else { Ok(()) }
    }
}

/// Notes the last record of each command under way: a point takes one at a time.
fn follow(unfinished: &mut BTreeMap<String, AuditLine>, line: &AuditLine) {
    match line.phase.as_str() {
        "requested" | "sent" => drop(unfinished.insert(line.topic.clone(), line.clone())),
        // Of another request, which was not taken.
        "refused" | "denied" | "login_refused" | "session_ended" | "policy" => {}
        _ => drop(unfinished.remove(&line.topic)),
    }
}

/// The last record of a command that was under way when the node stopped.
fn end_of(line: AuditLine, id: u64) -> AuditLine {
    let (phase, detail) = match line.phase.as_str() {
        "sent" => ("unanswered", "the node stopped before the outcome came; the command may have been carried out"),
        _ => ("dropped", "the node stopped before it was sent"),
    };
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp::default().later(since_1970).to_string();
    let (phase, reason, detail) = (phase.to_owned(), "restart".to_owned(), detail.to_owned());
    AuditLine { id, time, phase, reason, detail, ..line }
}

/// What the lock guards is whole between statements.
fn lock(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
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
            phase: "refused".to_owned(),
            reason: String::new(),
            detail: String::new(),
        }
    }

    #[test]
    fn records_are_durable_before_what_follows_them_and_outlive_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut log = AuditLog::start(&path).unwrap();
        let (told, hears) = sync_channel(1);
        let seen = path.clone();
        let afterwards = move |ok| told.send((ok, std::fs::read_to_string(&seen).unwrap().lines().count())).unwrap();
        assert!(log.append(vec![line(1, "a"), line(2, "b")], Some(Box::new(afterwards))));
        assert_eq!(hears.recv(), Ok((true, 2)));
        drop(log);
        let torn = std::fs::read_to_string(&path).unwrap() + "{\"id\":3,\"ti";
        std::fs::write(&path, torn).unwrap();
        let mut log = AuditLog::start(&path).unwrap();
        log.append(vec![line(1, "a")], None);
        drop(log);
        let log = AuditLog::start(&path).unwrap();
        let ids = |topic| log.recent(topic, 10).iter().map(|line| line.id).collect::<Vec<_>>();
        assert_eq!((ids(None), ids(Some("a"))), (vec![3, 2, 1], vec![3, 1]));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn commands_that_a_stop_left_open_are_ended_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let of = |id, topic, phase: &str| AuditLine { phase: phase.to_owned(), ..line(id, topic) };
        let mut log = AuditLog::start(&path).unwrap();
        let lines = [
            ("a", "requested"),
            ("a", "sent"),
            ("a", "refused"),
            ("b", "requested"),
            ("c", "requested"),
            ("c", "sent"),
            ("c", "succeeded"),
        ];
        log.append(lines.iter().zip(1..).map(|((topic, phase), id)| of(id, topic, phase)).collect(), None);
        drop(log);
        for _ in 0..2 {
            let log = AuditLog::start(&path).unwrap();
            let newest = log.recent(None, 3);
            let shown: Vec<_> = newest.iter().map(|l| (l.id, l.topic.as_str(), l.phase.as_str(), &*l.reason)).collect();
            let expect = [(9, "b", "dropped", "restart"), (8, "a", "unanswered", "restart"), (7, "c", "succeeded", "")];
            assert_eq!(shown, expect);
        }
    }

    fn append(log: &mut AuditLog, number: u64) -> bool {
        let (told, hears) = sync_channel(1);
        assert!(log.append(vec![line(number, "a")], Some(Box::new(move |ok| told.send(ok).unwrap()))));
        hears.recv().unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_had_refuses_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::create_dir(&path).unwrap();
        let mut log = AuditLog::start(&path).unwrap();
        assert!(!append(&mut log, 1));
        assert!(log.trouble().is_some());
        std::fs::remove_dir(&path).unwrap();
        assert!(append(&mut log, 2));
        assert_eq!(log.trouble(), None);
        assert_eq!(log.recent(None, 10).iter().map(|line| line.id).collect::<Vec<_>>(), [2]);
    }
}
