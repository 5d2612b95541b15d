//! The files of the log: `audit.jsonl`, which is written, and those before it, `audit-ID.jsonl`, where ID is the number of
//! their first record. A file begins with a record that says the chain of the one before.

use super::chain::{Chain, Said};
use super::writer::{end_of, follow};
use super::{AuditLine, ChainedLine, Entry};
use crate::config::AuditConfig;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::Timestamp;

/// The file that is written.
pub const CURRENT: &str = "audit.jsonl";
/// The phase of the first record of a file that is not the first one: its value is the chain of the file before.
pub const CONTINUED: &str = "continued";
/// The phase of a record of a file that was removed.
pub const REMOVED: &str = "removed";
/// Records kept in memory for the API.
pub(super) const RECENT_MAX: usize = 10_000;

/// A file of before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The number of its first record.
    pub first_id: u64,
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
}

/// The files of before in a folder, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn closed_files(folder: &Path) -> io::Result<Vec<Closed>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse().ok());
        if let Some(first_id) = id {
            files.push(Closed { first_id, path: entry.path(), bytes: entry.metadata()?.len() });
        }
    }
    files.sort_by_key(|file| file.first_id);
    Ok(files)
}

/// What the files came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Files, the one that is written too.
    pub files: usize,
    /// Bytes of all.
    pub bytes: u64,
    /// Files removed because there was no room for all.
    pub removed: u64,
    /// Records found at the start that are not what was written.
    pub broken: u64,
}

/// The file that is written, with its whole records.
pub(super) struct Open {
    folder: PathBuf,
    config: AuditConfig,
    file: File,
    bytes: u64,
    /// The number and the time of its first record.
    first: Option<(u64, Timestamp)>,
    /// The last number before this start.
    last_id: u64,
    chain: Chain,
    /// Files of before, and their bytes.
    before: (usize, u64),
    removed: u64,
    broken: u64,
}

/// What is read of a file.
#[derive(Default)]
struct Read {
    bytes: u64,
    first: Option<(u64, Timestamp)>,
    chain: Chain,
    broken: u64,
    last_id: u64,
    recent: VecDeque<ChainedLine>,
    unfinished: BTreeMap<String, AuditLine>,
}

impl Read {
    /// Goes on over a file, up to the first line that is not whole.
    fn go_on(&mut self, file: &File) -> io::Result<()> {
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        (self.bytes, self.first) = (0, None);
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let known: Option<AuditLine> = serde_json::from_slice(&line).ok();
            // A file whose predecessor is gone says where it goes on.
            let before = known.as_ref().filter(|line| self.bytes == 0 && line.phase == CONTINUED);
            let before = before.filter(|_| self.chain == Chain::default()).and_then(|line| Chain::parse(&line.value));
            let (chain, said) = before.unwrap_or(self.chain).read(&line);
            self.chain = chain;
            self.broken += u64::from(said == Said::Wrong);
            self.bytes += line.len() as u64;
            if let Some(line) = known {
                self.first.get_or_insert_with(|| (line.id, line.time.parse().unwrap_or_default()));
                self.last_id = line.id;
                follow(&mut self.unfinished, &line);
                self.recent.push_back(ChainedLine { line, chain: (said != Said::Nothing).then_some(chain) });
                if self.recent.len() > RECENT_MAX {
                    self.recent.pop_front();
                }
            }
            line.clear();
        }
        Ok(())
    }
}

impl Open {
    /// Opens or makes the file. A torn last line, left by a crash, is cut off, and commands whose end the node did not
    /// live to see are ended.
    pub(super) fn new(folder: &Path, config: AuditConfig) -> io::Result<(Self, VecDeque<ChainedLine>)> {
        let mut read = Read::default();
        // A command may have begun in the file before.
        let closed = closed_files(folder)?;
        if let Some(last) = closed.last() {
            read.go_on(&File::open(&last.path)?)?;
        }
        let file = OpenOptions::new().create(true).read(true).append(true).open(folder.join(CURRENT))?;
        read.go_on(&file)?;
        let Read { bytes, first, chain, broken, last_id, mut recent, unfinished } = read;
        if broken > 0 {
            tracing::warn!(records = broken, "the audit log is not what was written: see `tieline access verify`");
        }
        let before = (closed.len(), closed.iter().map(|file| file.bytes).sum());
        let folder = folder.to_owned();
        let mut open = Self { folder, config, file, bytes, first, last_id, chain, before, removed: 0, broken };
        open.cut()?;
        let ends = unfinished.into_values().zip(1..).map(|(line, id)| end_of(line, id)).collect();
        let ends = open.write(&[Entry { lines: ends, state: None, afterwards: None }])?;
        open.last_id += ends.len() as u64;
        recent.extend(ends);
        Ok((open, recent))
    }

    /// Writes the lines and gives them with their numbers in the file. Where that fails, the file holds none of them.
    pub(super) fn write(&mut self, entries: &[Entry]) -> io::Result<Vec<ChainedLine>> {
        let mut lines: Vec<AuditLine> = entries.iter().flat_map(|entry| entry.lines.iter().cloned()).collect();
        let Some(first) = lines.first() else { return Ok(Vec::new()) };
        let at: Timestamp = first.time.parse().unwrap_or_default();
        let own = self.rotate(first.id + self.last_id, at)?;
        self.last_id += own.len() as u64;
        lines.iter_mut().for_each(|line| line.id += self.last_id);
        let (mut text, mut chain) = (Vec::new(), self.chain);
        let chained = own.into_iter().chain(lines).map(|line| {
            chain = chain.write(&serde_json::to_vec(&line)?, &mut text);
            Ok(ChainedLine { line, chain: Some(chain) })
        });
        let lines = chained.collect::<io::Result<Vec<_>>>()?;
        if let Err(error) = self.append(&text) {
            let _ = self.cut();
            return Err(error);
        }
        self.bytes += text.len() as u64;
        self.chain = chain;
        self.first = self.first.or_else(|| lines.first().map(|entry| (entry.line.id, at)));
        Ok(lines)
    }

    /// Begins another file where this one is full or old; gives what is written of that, from this number on.
    fn rotate(&mut self, id: u64, now: Timestamp) -> io::Result<Vec<AuditLine>> {
        let Some((first_id, since)) = self.first else { return Ok(Vec::new()) };
        let age = u64::try_from(now.micros().saturating_sub(since.micros())).map(Duration::from_micros);
        let is_old = age.is_ok_and(|age| age >= self.config.file_age_max);
        if self.bytes < self.config.file_bytes_max && !is_old {
            return Ok(Vec::new());
        }
        let name = format!("audit-{first_id:020}.jsonl");
        let (current, closed) = (self.folder.join(CURRENT), self.folder.join(&name));
        // A record that could not be written may have left a file of this number.
        if closed.exists() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} is there already")));
        }
        std::fs::rename(&current, &closed)?;
        let file = OpenOptions::new().create_new(true).read(true).append(true).open(&current);
        match file {
            Ok(file) => self.file = file,
            Err(error) => {
                // What is open goes on under its old name.
                let _ = std::fs::rename(&closed, &current);
                return Err(error);
            }
        }
        File::open(&self.folder)?.sync_all()?;
        (self.bytes, self.first) = (0, None);
        let mut lines = vec![own_line(id, now, CONTINUED, self.chain, format!("goes on from {name}"))];
        lines.extend(self.remove_oldest(id + 1, now)?);
        tracing::info!(file = name, chain = %self.chain, "the audit log goes on in another file");
        Ok(lines)
    }

    /// Removes files while all are too long together, but never the newest of before.
    fn remove_oldest(&mut self, id: u64, now: Timestamp) -> io::Result<Vec<AuditLine>> {
        let files = closed_files(&self.folder)?;
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let (mut lines, mut left) = (Vec::new(), files.len());
        let removable = left.saturating_sub(1);
        for (file, id) in files.iter().take(removable).zip(id..) {
            if bytes.saturating_add(self.config.file_bytes_max) <= self.config.bytes_max {
                break;
            }
            std::fs::remove_file(&file.path)?;
            bytes -= file.bytes;
            left -= 1;
            self.removed += 1;
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            let detail = format!("{name}, {} bytes: beyond audit.bytes_max", file.bytes);
            lines.push(own_line(id, now, REMOVED, Chain::default(), detail));
        }
        self.before = (left, bytes);
        Ok(lines)
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    /// Cuts off what is no whole record.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        if self.file.metadata()?.len() > self.bytes { self.file.set_len(self.bytes) } else { Ok(()) }
    }

    /// What the files came to.
    pub(super) const fn counts(&self) -> FileCounts {
        let (files, bytes) = self.before;
        FileCounts { files: files + 1, bytes: bytes + self.bytes, removed: self.removed, broken: self.broken }
    }
}

/// A record of the log about itself.
fn own_line(id: u64, now: Timestamp, phase: &str, chain: Chain, detail: String) -> AuditLine {
    AuditLine {
        id,
        time: now.to_string(),
        who: "node".to_owned(),
        topic: String::new(),
        device: String::new(),
        value: if phase == CONTINUED { chain.to_string() } else { String::new() },
        mode: String::new(),
        phase: phase.to_owned(),
        reason: String::new(),
        detail,
        call: None,
    }
}
