//! Pages of the log, newest records first: of memory where they are there, of the files otherwise.

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

/// A part of the log.
#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    /// The newest first.
    pub entries: Vec<AuditLine>,
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
            for line in shown.recent.iter().rev().filter(|line| line.id < query.before.unwrap_or(u64::MAX)) {
                if page.entries.len() >= query.limit {
                    page.next = Some(before);
                    return Ok(page);
                }
                before = line.id;
                if query.wants(line) {
                    page.entries.push(line.clone());
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
    lines: VecDeque<AuditLine>,
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
        line.clear();
        let Some(known) = known else { continue };
        if known.id >= before {
            break;
        }
        first.get_or_insert(known.id);
        if query.wants(&known) {
            found.lines.push_back(known);
            if found.lines.len() > left {
                found.lines.pop_front();
                found.has_more = true;
            }
        }
    }
    found.oldest = if found.has_more { found.lines.front().map(|line| line.id) } else { first };
    Ok(found)
}
