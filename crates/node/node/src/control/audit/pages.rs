//! Pages of the log, newest records first: of memory where they are there, of the files otherwise.

use super::chain::{Chain, said_by};
use super::files::{CURRENT, closed_files};
use super::{AuditLine, Shown, lock};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Bytes of files that are read for one page; a page may have fewer records than were asked for, and says where to go on.
const SCANNED_MAX: u64 = 64 << 20;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Records of this topic alone.
    pub topic: Option<String>,
    /// Records before this number alone.
    pub before: Option<u64>,
    /// Records at most.
    pub limit: usize,
}

/// A line as the file has it.
#[derive(Clone, Debug, schemars::JsonSchema, serde::Serialize)]
#[schemars(rename = "AuditEntry")]
pub struct ChainedLine {
    /// The record.
    #[serde(flatten)]
    pub line: AuditLine,
    /// SHA-256 of the chain of the record before and of this record, as JSON without its chain; absent in a record that was
    /// written before chains were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub chain: Option<Chain>,
}

/// A part of the log.
#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    /// The newest first.
    pub entries: Vec<ChainedLine>,
    /// What to ask for the next page with, as [`AuditQuery::before`]; none where nothing is older.
    pub next: Option<u64>,
}

/// Reads the log, on any thread.
#[derive(Clone, Debug)]
pub struct AuditReader {
    pub(super) folder: PathBuf,
    pub(super) shown: Arc<Mutex<Shown>>,
}

impl AuditReader {
    /// A page; may read files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn page(&self, query: &AuditQuery) -> io::Result<AuditPage> {
        let mut page = AuditPage::default();
        let mut before = query.before.unwrap_or(u64::MAX);
        {
            let shown = lock(&self.shown);
            for entry in shown.recent.iter().rev().filter(|entry| entry.line.id < query.before.unwrap_or(u64::MAX)) {
                if page.entries.len() >= query.limit {
                    page.next = Some(before);
                    return Ok(page);
                }
                before = entry.line.id;
                if query.wants(&entry.line) {
                    page.entries.push(entry.clone());
                }
            }
        }
        self.read_files(query, before, &mut page)?;
        Ok(page)
    }

    /// Goes on in the files, with records before a number.
    fn read_files(&self, query: &AuditQuery, mut before: u64, page: &mut AuditPage) -> io::Result<()> {
        let mut files: Vec<PathBuf> = Vec::new();
        if self.folder.join(CURRENT).exists() {
            files.push(self.folder.join(CURRENT));
        }
        let closed = closed_files(&self.folder)?;
        files.extend(closed.iter().rev().filter(|file| file.first_id < before).map(|file| file.path.clone()));
        let mut scanned = 0;
        for path in files {
            let left = query.limit.saturating_sub(page.entries.len());
            if left == 0 || scanned >= SCANNED_MAX {
                page.next = Some(before);
                return Ok(());
            }
            let of_file = newest_of(&path, query, before, left)?;
            scanned += of_file.bytes;
            before = of_file.oldest.unwrap_or(before);
            page.entries.extend(of_file.lines.into_iter().rev());
            if of_file.has_more {
                page.next = Some(before);
                return Ok(());
            }
        }
        Ok(())
    }
}

impl AuditQuery {
    fn wants(&self, line: &AuditLine) -> bool {
        self.topic.as_ref().is_none_or(|topic| line.topic == *topic)
    }
}

/// What was found in a file.
#[derive(Default)]
struct Found {
    /// The newest that are wanted, oldest first.
    lines: VecDeque<ChainedLine>,
    /// Whether there are older ones that are wanted.
    has_more: bool,
    /// The number that everything older comes before.
    oldest: Option<u64>,
    bytes: u64,
}

fn newest_of(path: &Path, query: &AuditQuery, before: u64, left: usize) -> io::Result<Found> {
    let (mut found, mut first) = (Found::default(), None);
    let (mut reader, mut line) = (BufReader::new(File::open(path)?), Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        found.bytes += line.len() as u64;
        let known: Option<AuditLine> = serde_json::from_slice(&line).ok();
        let chain = known.as_ref().filter(|known| query.wants(known)).and_then(|_| said_by(&line));
        line.clear();
        let Some(known) = known else { continue };
        if known.id >= before {
            break;
        }
        first.get_or_insert(known.id);
        if query.wants(&known) {
            found.lines.push_back(ChainedLine { line: known, chain });
            if found.lines.len() > left {
                found.lines.pop_front();
                found.has_more = true;
            }
        }
    }
    found.oldest = if found.has_more { found.lines.front().map(|entry| entry.line.id) } else { first };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::AuditLog;
    use super::*;
    use crate::config::AuditConfig;

    #[test]
    fn a_page_has_the_lines_of_the_files_with_their_chains() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = AuditLog::start(folder.path(), AuditConfig::default()).unwrap();
        let line = |detail: &str| AuditLine {
            id: 0,
            time: "2026-11-20T09:36:00.123Z".to_owned(),
            who: "test \u{1}\"ü\"".to_owned(),
            topic: "a".to_owned(),
            device: String::new(),
            value: "true".to_owned(),
            mode: "select".to_owned(),
            phase: "refused".to_owned(),
            reason: String::new(),
            detail: detail.to_owned(),
            call: None,
        };
        assert!(log.append(vec![line(""), line("why")], None, None));
        let reader = log.reader();
        drop(log);
        let query = AuditQuery { topic: None, before: None, limit: 10 };
        let of_memory = reader.page(&query).unwrap();
        lock(&reader.shown).recent.clear();
        let of_files = reader.page(&query).unwrap();
        let text = |page: &AuditPage| {
            let lines = page.entries.iter().rev().map(|entry| serde_json::to_string(entry).unwrap() + "\n");
            lines.collect::<String>()
        };
        let file = std::fs::read_to_string(folder.path().join(CURRENT)).unwrap();
        assert_eq!((text(&of_memory), text(&of_files)), (file.clone(), file));
        assert!(of_files.entries.iter().all(|entry| entry.chain.is_some()) && of_files.entries.len() == 2);
    }
}
