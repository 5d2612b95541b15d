//! The files of the log: `audit.jsonl`, which is written, and those before it, `audit-ID.jsonl`, where ID is the number of
//! their first record. A file begins with a record that says the chain of the one before.

use super::chain::{Chain, Said};
use super::writer::{end_of, follow, now};
use super::{AuditLine, ChainedLine, Entry};
use crate::config::AuditConfig;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_history::{ReplicaFile, Replicate, Withheld};

/// The file that is written.
pub const CURRENT: &str = "audit.jsonl";
/// The phase of the first record of a file that is not the first one: its value is the chain of the file before.
pub const CONTINUED: &str = "continued";
/// The phase of a record of a file that was removed.
pub const REMOVED: &str = "removed";
/// The phase of the record with which the leader of a core begins: its value is the chain of the record before.
pub const LEADS: &str = "leads";
/// Bytes of lines that are written together, give or take a line.
const PART_BYTES: usize = 1 << 20;
/// Records kept in memory for the API.
pub(super) const RECENT_MAX: usize = 10_000;

/// The log of the core that this node leads, which has each line first.
#[derive(Clone)]
pub(super) struct AuditLead {
    /// The log.
    pub(super) log: Arc<dyn Replicate>,
    /// Who leads, for a person.
    pub(super) words: String,
}

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
    /// Commands whose end the node did not live to see; none once they are ended.
    unfinished: Option<BTreeMap<String, AuditLine>>,
    /// Where each line goes first.
    lead: Option<AuditLead>,
    /// What is there, and not here.
    owed: Option<(Part, Withheld)>,
}

/// Lines that are written together.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) lines: Vec<ChainedLine>,
    pub(super) text: Vec<u8>,
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
            let before = known.as_ref().filter(|line| self.bytes == 0 && goes_on(line));
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
    /// Opens or makes the file. A torn last line, left by a crash, is cut off.
    pub(super) fn new(
        folder: &Path,
        config: AuditConfig,
        lead: Option<AuditLead>,
    ) -> io::Result<(Self, VecDeque<ChainedLine>)> {
        let mut read = Read::default();
        // A command may have begun in the file before.
        let closed = closed_files(folder)?;
        if let Some(last) = closed.last() {
            read.go_on(&File::open(&last.path)?)?;
        }
        let file = OpenOptions::new().create(true).read(true).append(true).open(folder.join(CURRENT))?;
        read.go_on(&file)?;
        let Read { bytes, first, chain, broken, last_id, recent, unfinished } = read;
        if broken > 0 {
            tracing::warn!(records = broken, "the audit log is not what was written: see `tieline access verify`");
        }
        let before = (closed.len(), closed.iter().map(|file| file.bytes).sum());
        let folder = folder.to_owned();
        let (removed, owed, unfinished) = (0, None, Some(unfinished));
        let mut open = Self {
            folder,
            config,
            file,
            bytes,
            first,
            last_id,
            chain,
            before,
            removed,
            broken,
            unfinished,
            lead,
            owed,
        };
        open.cut()?;
        Ok((open, recent))
    }

    /// Begins to write: tells who leads, where a core has this log, and ends commands whose end the node did not live to see. Once.
    pub(super) fn begin(&mut self) -> io::Result<Vec<ChainedLine>> {
        let Some(unfinished) = self.unfinished.take() else { return Ok(Vec::new()) };
        let first = self.last_id + 1;
        let leads = self.lead.as_ref().map(|lead| own_line(first, now(), LEADS, self.chain, lead.words.clone()));
        let ends = unfinished.clone().into_values().zip(first + u64::from(leads.is_some())..);
        let lines: Vec<AuditLine> = leads.into_iter().chain(ends.map(|(line, id)| end_of(line, id))).collect();
        let count = lines.len() as u64;
        // The numbers are those that lines of this start would have.
        let offset = std::mem::replace(&mut self.last_id, 0);
        let written = self.write(&[Entry { lines, state: None, afterwards: None }]);
        self.last_id += offset;
        if written.is_ok() || self.owes() {
            self.last_id += count;
        } else {
            self.unfinished = Some(unfinished);
        }
        written
    }

    /// Writes the lines and gives them with their numbers in the file: in the log of the core first. Where that fails, the file holds none of
    /// them; what the log has all the same is written before anything else is ([`Open::settle`]).
    pub(super) fn write(&mut self, entries: &[Entry]) -> io::Result<Vec<ChainedLine>> {
        let mut lines: Vec<AuditLine> = entries.iter().flat_map(|entry| entry.lines.iter().cloned()).collect();
        let Some(first) = lines.first() else { return Ok(Vec::new()) };
        let at: Timestamp = first.time.parse().unwrap_or_default();
        let own = self.changes(first.id + self.last_id, at)?;
        self.last_id += own.len() as u64;
        lines.iter_mut().for_each(|line| line.id += self.last_id);
        let (mut part, mut written, mut chain) = (Part::default(), Vec::new(), self.chain);
        for line in own.into_iter().chain(lines) {
            chain = chain.write(&serde_json::to_vec(&line)?, &mut part.text);
            part.lines.push(ChainedLine { line, chain: Some(chain) });
            if part.text.len() >= PART_BYTES {
                written.extend(self.write_part(std::mem::take(&mut part))?);
            }
        }
        if !part.lines.is_empty() {
            written.extend(self.write_part(part)?);
        }
        Ok(written)
    }

    fn write_part(&mut self, part: Part) -> io::Result<Vec<ChainedLine>> {
        let held = match &self.lead {
            None => None,
            Some(lead) => {
                let held = lead.log.replicate_file(ReplicaFile::Audit, false, &part.text);
                Some(held.map_err(io::Error::other)?)
            }
        };
        let put = self.put(&part);
        match (put, held) {
            (Ok(()), _) => Ok(part.lines),
            (Err(error), None) => Err(error),
            (Err(error), Some(held)) => {
                self.owed = Some((part, held));
                Err(error)
            }
        }
    }

    /// Whether the log of the core has something that the file does not have.
    pub(super) const fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// Writes what the log of the core has already.
    pub(super) fn settle(&mut self) -> io::Result<Vec<ChainedLine>> {
        let Some((part, held)) = self.owed.take() else { return Ok(Vec::new()) };
        match self.put(&part) {
            Ok(()) => Ok(part.lines),
            Err(error) => {
                self.owed = Some((part, held));
                Err(error)
            }
        }
    }

    /// Writes lines as they are, and does with the files what they say. Where that fails, the file has none of them.
    pub(super) fn put(&mut self, part: &Part) -> io::Result<()> {
        let begins = part.lines.first().is_some_and(|first| first.line.phase == CONTINUED);
        if begins && self.bytes > 0 {
            self.change_file()?;
        }
        if let Err(error) = self.append(&part.text) {
            let _ = self.cut();
            return Err(error);
        }
        self.bytes += part.text.len() as u64;
        self.chain = part.lines.last().and_then(|last| last.chain).unwrap_or(self.chain);
        let first = part.lines.first().map(|first| (first.line.id, first.line.time.parse().unwrap_or_default()));
        self.first = self.first.or(first);
        if begins {
            self.remove_files(&part.lines);
        }
        Ok(())
    }

    /// What is to be written of files before a line of this number: of another that begins where this one is full or old, and of those that
    /// are removed for it.
    fn changes(&self, id: u64, now: Timestamp) -> io::Result<Vec<AuditLine>> {
        let Some((first_id, since)) = self.first else { return Ok(Vec::new()) };
        let age = u64::try_from(now.micros().saturating_sub(since.micros())).map(Duration::from_micros);
        let is_old = age.is_ok_and(|age| age >= self.config.file_age_max);
        if self.bytes < self.config.file_bytes_max && !is_old {
            return Ok(Vec::new());
        }
        let name = closed_name(first_id);
        // A record that could not be written may have left a file of this number.
        if self.folder.join(&name).exists() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} is there already")));
        }
        let files = closed_files(&self.folder)?;
        let mut bytes = files.iter().map(|file| file.bytes).sum::<u64>() + self.bytes;
        let mut lines = vec![own_line(id, now, CONTINUED, self.chain, format!("goes on from {name}"))];
        // Files are removed while all are too long together, but never the newest of before.
        for (file, id) in files.iter().zip(id + 1..) {
            if bytes.saturating_add(self.config.file_bytes_max) <= self.config.bytes_max {
                break;
            }
            bytes -= file.bytes;
            let detail = format!("{}, {} bytes: beyond audit.bytes_max", closed_name(file.first_id), file.bytes);
            lines.push(own_line(id, now, REMOVED, Chain::default(), detail));
        }
        Ok(lines)
    }

    /// Begins another file.
    fn change_file(&mut self) -> io::Result<()> {
        let Some((first_id, _)) = self.first else { return Ok(()) };
        let name = closed_name(first_id);
        let (current, closed) = (self.folder.join(CURRENT), self.folder.join(&name));
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
        let (files, bytes) = self.before;
        self.before = (files + 1, bytes + self.bytes);
        (self.bytes, self.first) = (0, None);
        tracing::info!(file = name, chain = %self.chain, "the audit log goes on in another file");
        Ok(())
    }

    /// Removes the files that lines name.
    fn remove_files(&mut self, lines: &[ChainedLine]) {
        let Ok(files) = closed_files(&self.folder) else { return };
        for ChainedLine { line, .. } in lines.iter().filter(|entry| entry.line.phase == REMOVED) {
            let name = line.detail.split(',').next().unwrap_or_default();
            let Some(file) = files.iter().find(|file| closed_name(file.first_id) == name) else { continue };
            match std::fs::remove_file(&file.path) {
                Ok(()) => {
                    let (files, bytes) = self.before;
                    self.before = (files.saturating_sub(1), bytes.saturating_sub(file.bytes));
                    self.removed += 1;
                }
                Err(error) => tracing::warn!(file = name, %error, "a file of the audit log cannot be removed"),
            }
        }
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

#[cfg(any(test, feature = "fabric"))]
impl Open {
    /// The last number, of before this start where the lines are its own.
    pub(super) const fn last_id(&self) -> u64 {
        self.last_id
    }

    /// The chain up to the last record.
    pub(super) const fn chain(&self) -> Chain {
        self.chain
    }

    /// Whether there is a record.
    pub(super) const fn has_any(&self) -> bool {
        self.bytes > 0 || self.before.0 > 0
    }

    /// Lines that were put have their own numbers.
    pub(super) fn note_last(&mut self, part: &Part) {
        self.last_id = part.lines.last().map_or(self.last_id, |last| last.line.id);
    }
}

/// Whether a record says the chain of the one before.
pub(super) fn goes_on(line: &AuditLine) -> bool {
    [CONTINUED, LEADS].contains(&line.phase.as_str())
}

fn closed_name(first_id: u64) -> String {
    format!("audit-{first_id:020}.jsonl")
}

/// A record of the log about itself.
fn own_line(id: u64, now: Timestamp, phase: &str, chain: Chain, detail: String) -> AuditLine {
    AuditLine {
        id,
        time: now.to_string(),
        who: "node".to_owned(),
        topic: String::new(),
        device: String::new(),
        value: if phase == REMOVED { String::new() } else { chain.to_string() },
        mode: String::new(),
        phase: phase.to_owned(),
        reason: String::new(),
        detail,
        call: None,
    }
}
