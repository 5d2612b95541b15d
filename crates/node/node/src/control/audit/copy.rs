//! The files of a standby: lines of the leader as they are, so that the chain goes over a takeover.

use super::chain::said_by;
use super::files::{CURRENT, LEADS, Open, Part, closed_files};
use super::{AuditLine, Chain, ChainedLine};
use crate::config::AuditConfig;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

/// The files of a standby. Nothing is opened before a line comes.
pub struct AuditCopy {
    folder: PathBuf,
    config: AuditConfig,
    open: Option<Open>,
}

impl std::fmt::Debug for AuditCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditCopy").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl AuditCopy {
    /// Those of a data folder.
    #[must_use]
    pub const fn new(folder: PathBuf, config: AuditConfig) -> Self {
        Self { folder, config, open: None }
    }

    /// Takes lines that the log of the core has. Those that are here already are left out. Where they do not follow from what is here, that
    /// is of another log: it is moved into a folder of its own.
    ///
    /// # Errors
    /// They are no lines, or a file cannot be written.
    pub fn take(&mut self, text: &[u8]) -> io::Result<()> {
        let mut part = part_of(text)?;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.folder, self.config, None)?.0,
        };
        // The record with which a leader begins; that of another file may be before it.
        let is_begin = part.lines.iter().any(|entry| entry.line.phase == LEADS);
        let is_other = match part.lines.first() {
            Some(ChainedLine { line, chain }) if is_begin && line.id <= open.last_id() => {
                !has(&self.folder, line.id, *chain)?
            }
            _ => false,
        };
        if !is_other {
            part.leave_out(open.last_id());
        }
        let Some(ChainedLine { line, chain }) = part.lines.first() else {
            self.open = Some(open);
            return Ok(());
        };
        let follows = !is_other && open.chain().with(&serde_json::to_vec(line)?) == chain.unwrap_or_default();
        if !follows && open.has_any() {
            drop(open);
            set_aside(&self.folder, line.id)?;
            open = Open::new(&self.folder, self.config, None)?.0;
        }
        open.put(&part)?;
        open.note_last(&part);
        self.open = Some(open);
        Ok(())
    }
}

impl Part {
    /// Leaves out lines up to a number.
    fn leave_out(&mut self, upto: u64) {
        let count = self.lines.iter().take_while(|entry| entry.line.id <= upto).count();
        let bytes: usize = self.text.split_inclusive(|byte| *byte == b'\n').take(count).map(<[u8]>::len).sum();
        self.lines.drain(..count);
        self.text.drain(..bytes);
    }
}

fn part_of(text: &[u8]) -> io::Result<Part> {
    let line = |text: &[u8]| {
        let line: AuditLine = serde_json::from_slice(text)?;
        let chain = said_by(text).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "a line without a chain"))?;
        Ok(ChainedLine { line, chain: Some(chain) })
    };
    let lines = text.split_inclusive(|byte| *byte == b'\n').map(line).collect::<io::Result<Vec<_>>>()?;
    Ok(Part { lines, text: text.to_vec() })
}

/// Whether the files have a line; true of one that is older than all of them.
fn has(folder: &Path, id: u64, chain: Option<Chain>) -> io::Result<bool> {
    let mut files: Vec<PathBuf> = closed_files(folder)?.into_iter().map(|file| file.path).collect();
    files.push(folder.join(CURRENT));
    let mut is_first = true;
    for path in files {
        let (mut reader, mut text) = (BufReader::new(File::open(path)?), Vec::new());
        while reader.read_until(b'\n', &mut text)? > 0 {
            if let Ok(line) = serde_json::from_slice::<AuditLine>(&text) {
                if line.id >= id {
                    return Ok(if line.id > id { is_first } else { said_by(&text) == chain });
                }
                is_first = false;
            }
            text.clear();
        }
    }
    Ok(false)
}

/// Moves all files into a folder that says up to which line they are of use.
fn set_aside(folder: &Path, id: u64) -> io::Result<()> {
    let free = (0_u64..).map(|number| match number {
        0 => folder.join(format!("audit-before-{id}")),
        _ => folder.join(format!("audit-before-{id}-{number}")),
    });
    let Some(aside) = free.into_iter().find(|path| !path.exists()) else { return Ok(()) };
    std::fs::create_dir(&aside)?;
    let files = closed_files(folder)?.into_iter().map(|file| file.path);
    for path in files.chain([folder.join(CURRENT)]) {
        let name = path.file_name().unwrap_or_default();
        std::fs::rename(&path, aside.join(name))?;
    }
    File::open(&aside)?.sync_all()?;
    File::open(folder)?.sync_all()?;
    let shown = aside.display();
    tracing::warn!(folder = %shown, "the audit log here is not what the leader went on from: it was moved");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{AuditLog, AuditQuery, verify};
    use super::*;
    use std::path::Path;
    use std::sync::{Arc, Mutex, mpsc::channel};
    use std::time::Duration;
    use tieline_history::{ReplicaFile, ReplicaKind, Replicate, Replication};

    /// What is in a log, and whether it takes more. The first file cannot be closed once it has this number of records.
    #[derive(Default)]
    struct Log {
        records: Mutex<Vec<Vec<u8>>>,
        is_over: Mutex<bool>,
        blocks: Mutex<Option<PathBuf>>,
    }

    impl Replicate for Log {
        fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String> {
            assert_eq!(kind, ReplicaKind::File { file: ReplicaFile::Audit, replaces: false });
            if *self.is_over.lock().unwrap() {
                return Err("over".to_owned());
            }
            if let Some(path) = self.blocks.lock().unwrap().as_ref().filter(|_| record.starts_with(b"{\"id\":20,")) {
                std::fs::create_dir_all(path.join("in the way")).unwrap();
            }
            self.records.lock().unwrap().push(record.to_vec());
            Ok(0)
        }
    }

    /// Files of 4 KiB, about 15 records each, of which three are kept.
    const SMALL: AuditConfig =
        AuditConfig { file_bytes_max: 4096, file_age_max: Duration::from_secs(86_400), bytes_max: 16_384 };

    fn lead(folder: &Path, log: &Arc<Log>, name: &str) -> AuditLog {
        let log = Some(Arc::<Log>::clone(log) as _);
        AuditLog::start_replicated(folder, SMALL, (Replication { log, place: 0 }, name.to_owned())).unwrap()
    }

    fn append(log: &mut AuditLog, topic: &str, phase: &str) -> bool {
        let text = |text: &str| text.to_owned();
        let line = AuditLine {
            id: 0,
            time: text("2026-11-20T09:36:00.123Z"),
            who: text("test"),
            topic: text(topic),
            device: String::new(),
            value: text("true"),
            mode: text("select"),
            phase: text(phase),
            reason: String::new(),
            detail: String::new(),
            call: None,
        };
        let (told, hears) = channel();
        assert!(log.append(vec![line], None, Some(Box::new(move |ok| told.send(ok).unwrap()))));
        hears.recv().unwrap()
    }

    fn files(folder: &Path) -> Vec<(String, String)> {
        let mut found: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
        found.retain(|entry| entry.file_type().unwrap().is_file());
        found.sort_by_key(std::fs::DirEntry::file_name);
        let of = |entry: &std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
        };
        found.iter().map(of).collect()
    }

    fn take(folder: &Path, log: &Log) {
        let mut copy = AuditCopy::new(folder.to_owned(), SMALL);
        log.records.lock().unwrap().iter().for_each(|record| copy.take(record).unwrap());
    }

    #[test]
    fn the_chain_goes_over_a_takeover() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let log = Arc::new(Log::default());
        let mut leader = lead(first.path(), &log, "a leads");
        for _ in 0..80 {
            assert!(append(&mut leader, "a", "refused"));
        }
        assert!(append(&mut leader, "b", "requested") && append(&mut leader, "b", "sent"));
        drop(leader);
        // The second time as after a restart, which reads the log again.
        for _ in 0..2 {
            take(second.path(), &log);
            assert_eq!(files(second.path()), files(first.path()));
        }
        assert!(files(first.path()).len() > 2);
        let mut leader = lead(second.path(), &log, "b leads");
        assert!(append(&mut leader, "a", "refused"));
        let page = leader.reader().page(&AuditQuery { topic: None, before: None, limit: 3 }).unwrap();
        let shown: Vec<_> = page.entries.iter().rev().map(|e| (e.line.phase.as_str(), e.line.topic.as_str())).collect();
        // What became of the command of the first leader is not known to the second.
        assert_eq!(shown, [("leads", ""), ("unanswered", "b"), ("refused", "a")]);
        assert_eq!(page.entries[2].line.detail, "b leads");
        drop(leader);
        take(first.path(), &log);
        assert_eq!(files(second.path()), files(first.path()));
        let seen = verify(first.path(), None).unwrap();
        assert!(seen.is_whole() && seen.gaps.is_empty(), "{seen:?}");
    }

    #[test]
    fn a_log_of_its_own_is_moved_and_a_later_beginning_is_whole() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        // Each had one of its own, and that of the second is longer.
        for (folder, count) in [(first.path(), 3), (second.path(), 30)] {
            let mut own = AuditLog::start(folder, SMALL).unwrap();
            (0..count).for_each(|_| assert!(append(&mut own, "own", "refused")));
        }
        let own = files(second.path());
        let log = Arc::new(Log::default());
        let mut leader = lead(first.path(), &log, "a leads");
        assert!(append(&mut leader, "a", "refused"));
        drop(leader);
        for _ in 0..2 {
            take(second.path(), &log);
            let seen = verify(second.path(), None).unwrap();
            // Its first file is older than a day, so that the leader begins with another one.
            assert!(seen.is_whole() && seen.ids == Some((4, 6)), "{seen:?}");
        }
        assert_eq!(files(&second.path().join("audit-before-4")), own);
    }

    #[test]
    fn nothing_is_here_that_the_log_does_not_have() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::default());
        let mut leader = lead(folder.path(), &log, "a leads");
        assert!(append(&mut leader, "a", "requested"));
        *log.is_over.lock().unwrap() = true;
        let before = files(folder.path());
        assert!(!append(&mut leader, "a", "sent"));
        assert_eq!((files(folder.path()), leader.trouble().as_deref()), (before, Some("over")));
    }

    #[test]
    fn what_the_log_has_is_here_before_anything_else() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let log = Arc::new(Log::default());
        let blocked = first.path().join("audit-00000000000000000001.jsonl");
        *log.blocks.lock().unwrap() = Some(blocked.clone());
        let small = AuditConfig { file_bytes_max: 5300, ..SMALL };
        let replication = Replication { log: Some(Arc::<Log>::clone(&log) as _), place: 0 };
        let mut leader = AuditLog::start_replicated(first.path(), small, (replication, "a leads".to_owned())).unwrap();
        let done = (0..40).map(|_| append(&mut leader, "a", "refused")).take_while(|done| *done).count();
        assert!(blocked.exists() && !append(&mut leader, "a", "refused"), "{done}: {:?}", files(first.path()));
        std::fs::remove_dir_all(&blocked).unwrap();
        assert!(append(&mut leader, "b", "refused"));
        drop(leader);
        take(second.path(), &log);
        assert_eq!(files(second.path()), files(first.path()));
        assert!(verify(first.path(), None).unwrap().is_whole());
    }
}
