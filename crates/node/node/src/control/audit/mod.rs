//! The audit log: one JSON object a line, durable before the command that it names is sent.
//!
//! Each line has the hash of all lines up to it (`audit/chain.rs`); the files are changed by size and age, and the oldest are
//! removed where there are too many bytes (`audit/files.rs`). Texts are cut ([`TEXT_BYTES_MAX`]): peers that have
//! shown nothing of
//! themselves choose some of them.
//!
//! A thread owns the file. What must follow a record (sending the command) is handed over with it, as a call that
//! runs once the record is on the disk, or is told that it could not be written. While the file cannot be opened or
//! written, which does not stop the node, the thread tries it again each second.

mod chain;
#[cfg(any(test, feature = "fabric"))]
mod copy;
mod files;
mod pages;
mod verify;
mod writer;

pub use chain::Chain;
#[cfg(any(test, feature = "fabric"))]
pub use copy::AuditCopy;
use files::AuditLead;
pub use files::FileCounts;
pub use pages::{AuditPage, AuditQuery, AuditReader, ChainedLine};
pub use verify::{Fault, Verified, verify};

use super::state::{StateChange, StateFile};
use crate::config::AuditConfig;
use serde::Serialize;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tieline_history::{HUNG_AFTER, Replication, RunningInstant};
use writer::Writer;

/// Records that may wait for the disk; a command beyond them is refused.
const WAITING_MAX: usize = 1024;
/// Bytes of one text of a record; a longer one is cut, and ends with `…`.
pub const TEXT_BYTES_MAX: usize = 512;

/// One line of the log.
#[derive(Clone, Debug, schemars::JsonSchema, Serialize, serde::Deserialize)]
pub struct AuditLine {
    /// Rises by one from record to record, over restarts too: a gap shows a loss.
    pub id: u64,
    /// When, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
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
    /// The number of the call for many points that it is of, since the start of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
}

impl AuditLine {
    /// Cuts what is too long: a record is no place for what anybody likes to say.
    fn cut(&mut self) {
        let Self { id: _, call: _, time, who, topic, device, value, mode, phase, reason, detail } = self;
        for text in [time, who, topic, device, value, mode, phase, reason, detail] {
            if text.len() > TEXT_BYTES_MAX {
                let end = (0..=TEXT_BYTES_MAX - '…'.len_utf8()).rev().find(|at| text.is_char_boundary(*at));
                text.truncate(end.unwrap_or_default());
                text.push('…');
            }
        }
    }
}

/// What runs once the records are durable (true) or could not be written (false).
pub type Afterwards = Box<dyn FnOnce(bool) + Send>;

struct Entry {
    lines: Vec<AuditLine>,
    /// What control keeps, which is durable before the lines are.
    state: Option<StateChange>,
    afterwards: Option<Afterwards>,
}

/// What callers see of the log.
#[derive(Debug, Default)]
struct Shown {
    recent: VecDeque<ChainedLine>,
    trouble: Option<String>,
    /// Why the state of control cannot be written.
    state_trouble: Option<String>,
    /// Since when a record is on its way to the disk.
    under_way: Option<RunningInstant>,
    /// Whether it was said that this takes too long.
    hung: bool,
    files: FileCounts,
}

impl Shown {
    /// How long the disk has not answered, where that is too long. Says so once, and when it is over.
    fn hung(&mut self) -> Option<Duration> {
        let age = self.under_way.map(|since| since.elapsed()).filter(|age| *age >= HUNG_AFTER);
        if age.is_some() != self.hung {
            self.hung = age.is_some();
            match age {
                Some(age) => {
                    let seconds = age.as_secs();
                    tracing::warn!(seconds, "the disk of the audit log does not answer; commands are refused");
                }
                None => tracing::info!("the disk of the audit log answers again"),
            }
        }
        age
    }
}

/// The log.
#[derive(Debug)]
pub struct AuditLog {
    entries: Option<SyncSender<Entry>>,
    /// The number of the last line handed over since the start.
    last_id: u64,
    shown: Arc<Mutex<Shown>>,
    folder: PathBuf,
    /// With what hears that it has ended.
    thread: Option<(JoinHandle<()>, Receiver<()>)>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Begins to keep the log in a folder, whose files may be absent and may come later.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(folder: &Path, config: AuditConfig) -> io::Result<Self> {
        Self::start_replicated(folder, config, (Replication::default(), String::new()))
    }

    /// The same for the leader of a core: its lines, and what control keeps, go to the log of the core first. `words` say who leads.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start_replicated(
        folder: &Path,
        config: AuditConfig,
        (replication, words): (Replication, String),
    ) -> io::Result<Self> {
        let lead = replication.log.clone().map(|log| AuditLead { log, words });
        let shown = Arc::new(Mutex::new(Shown::default()));
        let (entries, incoming) = sync_channel(WAITING_MAX);
        let (state, shared) = (StateFile::replicated(folder.to_owned(), replication), Arc::clone(&shown));
        let writer = Writer::start(folder, config, (state, lead), shared);
        let (ends, ended) = sync_channel(0);
        let body = move || {
            let _ends: SyncSender<()> = ends;
            writer.run(&incoming);
        };
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(body)?;
        let folder = folder.to_owned();
        Ok(Self { entries: Some(entries), last_id: 0, shown, folder, thread: Some((thread, ended)) })
    }

    /// Hands lines to the disk and numbers them, on from the last record of the file; one that is not written leaves a
    /// gap; `state` is written before them; `afterwards` runs on the log's thread. False when too many records wait, or the disk does not
    /// answer: the lines and `afterwards` are dropped then.
    pub fn append(
        &mut self,
        mut lines: Vec<AuditLine>,
        state: Option<StateChange>,
        afterwards: Option<Afterwards>,
    ) -> bool {
        for line in &mut lines {
            self.last_id += 1;
            line.id = self.last_id;
            line.cut();
        }
        if lock(&self.shown).hung().is_some() {
            return false;
        }
        self.entries.as_ref().is_some_and(|entries| entries.try_send(Entry { lines, state, afterwards }).is_ok())
    }

    /// What reads the log, on any thread.
    #[must_use]
    pub fn reader(&self) -> AuditReader {
        AuditReader { folder: self.folder.clone(), shown: Arc::clone(&self.shown) }
    }

    /// What the files came to.
    #[must_use]
    pub fn files(&self) -> FileCounts {
        lock(&self.shown).files
    }

    /// Why no record can be written; none while they can.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let mut shown = lock(&self.shown);
        let hung = shown.hung().map(|age| format!("hung: the disk has not answered for {} s", age.as_secs()));
        hung.or_else(|| shown.trouble.clone()).or_else(|| shown.state_trouble.clone())
    }

    /// How long the record has been on its way to the disk that is; zero where none is.
    #[must_use]
    pub fn under_way(&self) -> Duration {
        lock(&self.shown).under_way.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.entries = None;
        let Some((thread, ended)) = self.thread.take() else { return };
        if ended.recv_timeout(HUNG_AFTER) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the disk of the audit log does not answer: it closes without what was to be written");
        } else {
            let _ = thread.join();
        }
    }
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
            call: None,
        }
    }

    fn start(folder: &Path) -> io::Result<AuditLog> {
        AuditLog::start(folder, AuditConfig::default())
    }

    fn newest(log: &AuditLog, topic: Option<&str>, limit: usize) -> Vec<AuditLine> {
        let query = AuditQuery { topic: topic.map(str::to_owned), before: None, limit };
        log.reader().page(&query).unwrap().entries.into_iter().map(|entry| entry.line).collect()
    }

    #[test]
    fn records_are_durable_before_what_follows_them_and_outlive_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut log = start(folder.path()).unwrap();
        let (told, hears) = sync_channel(1);
        let seen = path.clone();
        let afterwards = move |ok| told.send((ok, std::fs::read_to_string(&seen).unwrap().lines().count())).unwrap();
        assert!(log.append(vec![line(1, "a"), line(2, "b")], None, Some(Box::new(afterwards))));
        assert_eq!(hears.recv(), Ok((true, 2)));
        drop(log);
        let torn = std::fs::read_to_string(&path).unwrap() + "{\"id\":3,\"ti";
        std::fs::write(&path, torn).unwrap();
        let mut log = start(folder.path()).unwrap();
        log.append(vec![line(1, "a")], None, None);
        drop(log);
        let log = start(folder.path()).unwrap();
        let ids = |topic| newest(&log, topic, 10).iter().map(|line| line.id).collect::<Vec<_>>();
        assert_eq!((ids(None), ids(Some("a"))), (vec![3, 2, 1], vec![3, 1]));
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn commands_that_a_stop_left_open_are_ended_once() {
        let folder = tempfile::tempdir().unwrap();
        let of = |id, topic, phase: &str| AuditLine { phase: phase.to_owned(), ..line(id, topic) };
        let mut log = start(folder.path()).unwrap();
        let lines = [
            ("a", "requested"),
            ("a", "sent"),
            ("a", "refused"),
            ("b", "requested"),
            ("c", "requested"),
            ("c", "sent"),
            ("c", "succeeded"),
        ];
        log.append(lines.iter().zip(1..).map(|((topic, phase), id)| of(id, topic, phase)).collect(), None, None);
        drop(log);
        for _ in 0..2 {
            let log = start(folder.path()).unwrap();
            let found = newest(&log, None, 3);
            let shown: Vec<_> = found.iter().map(|l| (l.id, l.topic.as_str(), l.phase.as_str(), &*l.reason)).collect();
            let expect = [(9, "b", "dropped", "restart"), (8, "a", "unanswered", "restart"), (7, "c", "succeeded", "")];
            assert_eq!(shown, expect);
        }
    }

    fn append(log: &mut AuditLog, number: u64) -> bool {
        let (told, hears) = sync_channel(1);
        assert!(log.append(vec![line(number, "a")], None, Some(Box::new(move |ok| told.send(ok).unwrap()))));
        hears.recv().unwrap()
    }

    #[test]
    fn a_file_that_cannot_be_had_refuses_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::create_dir(&path).unwrap();
        let mut log = start(folder.path()).unwrap();
        assert!(!append(&mut log, 1));
        assert!(log.trouble().is_some());
        std::fs::remove_dir(&path).unwrap();
        assert!(append(&mut log, 2));
        assert_eq!(log.trouble(), None);
        assert_eq!(newest(&log, None, 10).iter().map(|line| line.id).collect::<Vec<_>>(), [2]);
    }

    /// Files of 4 KiB, about 15 records each.
    const SMALL: AuditConfig =
        AuditConfig { file_bytes_max: 4096, file_age_max: Duration::from_secs(86_400), bytes_max: 1 << 30 };

    fn many(folder: &Path, config: AuditConfig, count: u64) -> AuditLog {
        let mut log = AuditLog::start(folder, config).unwrap();
        for n in 0..count {
            assert!(append(&mut log, n), "{n}: {:?}", log.trouble());
        }
        log
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn the_files_are_changed_and_the_chain_goes_over_all() {
        let folder = tempfile::tempdir().unwrap();
        let log = many(folder.path(), SMALL, 100);
        let counts = log.files();
        drop(log);
        drop(many(folder.path(), SMALL, 100));
        let files = names(folder.path());
        assert!(files.len() > 10 && files[0] == "audit-00000000000000000001.jsonl", "{files:?}");
        assert!(counts.files > 5 && counts.bytes > 4096 * 5, "{counts:?}");
        let seen = verify(folder.path(), None).unwrap();
        assert!(seen.is_whole() && seen.gaps.is_empty() && seen.unchained == 0, "{seen:?}");
        assert_eq!((seen.files, seen.records), (files.len(), 200 + files.len() as u64 - 1));
        assert_eq!(seen.ids, Some((1, seen.records)));
        // A year later the next record begins another file.
        let mut log = AuditLog::start(folder.path(), AuditConfig { file_bytes_max: 1 << 20, ..SMALL }).unwrap();
        let later = AuditLine { time: "2027-11-20T09:36:00.123Z".to_owned(), ..line(0, "a") };
        let (told, hears) = sync_channel(1);
        log.append(vec![later], None, Some(Box::new(move |ok| told.send(ok).unwrap())));
        assert_eq!(hears.recv(), Ok(true));
        assert_eq!(names(folder.path()).len(), files.len() + 1);
    }

    #[test]
    fn what_was_changed_is_found() {
        let folder = tempfile::tempdir().unwrap();
        drop(many(folder.path(), SMALL, 50));
        let whole = verify(folder.path(), None).unwrap();
        let first = folder.path().join("audit-00000000000000000001.jsonl");
        let text = std::fs::read_to_string(&first).unwrap();
        let faults = |text: &str| {
            std::fs::write(&first, text).unwrap();
            let seen = verify(folder.path(), None).unwrap();
            seen.faults.into_iter().map(|fault| (fault.line, fault.what)).collect::<Vec<_>>()
        };
        let wrong = "its chain does not follow from the lines before";
        assert_eq!(faults(&text.replacen("\"value\":\"true\"", "\"value\":\"fals\"", 1)), [(1, wrong)]);
        let without_third: String =
            text.lines().enumerate().filter(|(at, _)| *at != 2).map(|(_, l)| format!("{l}\n")).collect();
        assert_eq!(faults(&without_third), [(3, wrong)]);
        assert_eq!(faults(&format!("{text}{}\n", text.lines().next().unwrap()))[0].1, wrong);
        assert_eq!(faults(&format!("{text}not a record\n"))[0].1, "it is no record");
        std::fs::write(&first, &text).unwrap();
        // The newest records cut off: seen by a reader who has written one of them down elsewhere.
        let current = folder.path().join("audit.jsonl");
        std::fs::write(&current, "").unwrap();
        let anchor = (whole.ids.unwrap().1, whole.chain);
        assert!(verify(folder.path(), None).unwrap().is_whole());
        assert_eq!(verify(folder.path(), Some(anchor)).unwrap().anchored, Some(false));
        // The oldest file gone, as when there was no room: the next one says where it goes on.
        std::fs::remove_file(&first).unwrap();
        assert!(verify(folder.path(), None).unwrap().is_whole());
    }

    #[test]
    fn a_log_of_before_chains_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let old = |id| serde_json::to_string(&line(id, "a")).unwrap() + "\n";
        std::fs::write(&path, old(1) + &old(2)).unwrap();
        drop(many(folder.path(), AuditConfig::default(), 3));
        let seen = verify(folder.path(), None).unwrap();
        assert!(seen.is_whole(), "{seen:?}");
        assert_eq!((seen.records, seen.unchained, seen.ids), (5, 2, Some((1, 5))));
        let changed = std::fs::read_to_string(&path).unwrap().replacen("\"id\":1", "\"id\":7", 1);
        std::fs::write(&path, changed).unwrap();
        assert!(!verify(folder.path(), None).unwrap().is_whole(), "what was before is held by the first chain");
    }

    #[test]
    fn the_oldest_files_go_when_there_are_too_many_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let log = many(folder.path(), AuditConfig { bytes_max: 5 * 4096, ..SMALL }, 300);
        let counts = log.files();
        assert!(counts.removed > 5 && counts.bytes <= 5 * 4096 + 2048, "{counts:?}");
        assert!(newest(&log, None, 1000).iter().any(|line| line.phase == "removed"));
        drop(log);
        let seen = verify(folder.path(), None).unwrap();
        assert!(seen.is_whole() && seen.ids.unwrap().0 > 1, "{seen:?}");
    }

    #[test]
    fn pages_lead_through_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = many(folder.path(), SMALL, 60);
        for n in 0..40 {
            log.append(vec![line(n, if n % 4 == 0 { "b" } else { "a" })], None, None);
        }
        drop(log);
        let log = AuditLog::start(folder.path(), SMALL).unwrap();
        // Memory has what the last two files have.
        let check = |topic: Option<&str>, limit: usize, expect: &mut dyn Iterator<Item = u64>| {
            let (mut before, mut ids, mut pages) = (None, Vec::new(), 0);
            loop {
                let query = AuditQuery { topic: topic.map(str::to_owned), before, limit };
                let page = log.reader().page(&query).unwrap();
                assert!(page.entries.len() <= limit);
                ids.extend(
                    page.entries.iter().filter(|entry| entry.line.phase == "refused").map(|entry| entry.line.id),
                );
                pages += 1;
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            assert!(ids.is_sorted_by(|a, b| a > b), "{ids:?}");
            assert_eq!(ids.len(), expect.count(), "{topic:?} in {pages} pages");
            pages
        };
        assert!(check(None, 7, &mut (0..100)) >= 14);
        assert_eq!(check(None, 1000, &mut (0..100)), 1);
        check(Some("b"), 3, &mut (0..10));
        check(Some("none"), 3, &mut (0..0));
    }

    #[test]
    fn what_peers_choose_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = start(folder.path()).unwrap();
        let (long, wide) = ("x".repeat(65_535), "€".repeat(20_000));
        let (told, hears) = sync_channel(1);
        let of_peer = AuditLine { who: long, detail: wide, ..line(1, "a") };
        log.append(vec![of_peer], None, Some(Box::new(move |ok| told.send(ok).unwrap())));
        assert_eq!(hears.recv(), Ok(true));
        let found = newest(&log, None, 1).remove(0);
        assert_eq!((found.who.len(), found.detail.len()), (512, 510));
        assert!(found.who.ends_with("x…") && found.detail.ends_with("€…"));
        assert!(std::fs::metadata(folder.path().join("audit.jsonl")).unwrap().len() < 2048);
    }
}
