//! Whether the files of a log are what was written.

use super::AuditLine;
use super::chain::{Chain, Said};
use super::files::{CURRENT, closed_files, goes_on};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// What a look at all files came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files.
    pub files: usize,
    /// Records.
    pub records: u64,
    /// Records of before chains were kept: the chain goes over them, and nothing says that they are what was written.
    pub unchained: u64,
    /// The numbers of the first and the last record.
    pub ids: Option<(u64, u64)>,
    /// Numbers that no record has, from and to: records that could not be written, or were taken out together with all that
    /// followed them.
    pub gaps: Vec<(u64, u64)>,
    /// The chain up to the last record.
    pub chain: Chain,
    /// What is not what was written.
    pub faults: Vec<Fault>,
    /// Whether the record that was asked for has the chain that it should have.
    pub anchored: Option<bool>,
}

/// A place where the chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Verified {
    /// Whether everything is what was written.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty() && self.anchored != Some(false)
    }
}

/// Faults that are told one by one.
const FAULTS_MAX: usize = 100;

/// Looks at all files of a folder. `anchor` is the number and the chain of a record, noted elsewhere: without one, nobody sees that the
/// newest records were cut off, or that all were written again by someone who knows the format.
///
/// # Errors
/// A file cannot be read.
pub fn verify(folder: &Path, anchor: Option<(u64, Chain)>) -> io::Result<Verified> {
    let mut seen = Verified { anchored: anchor.map(|_| false), ..Verified::default() };
    let closed = closed_files(folder)?.into_iter().map(|file| file.path);
    let current = folder.join(CURRENT);
    for path in closed.chain(current.exists().then_some(current)) {
        look_at(&path, anchor, &mut seen)?;
    }
    if seen.files == 0 {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} holds no audit log", folder.display())));
    }
    Ok(seen)
}

fn look_at(path: &Path, anchor: Option<(u64, Chain)>, seen: &mut Verified) -> io::Result<()> {
    let (mut reader, mut line, mut number) = (BufReader::new(File::open(path)?), Vec::new(), 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        // Being written, or left by a crash and cut off at the next start.
        if !line.ends_with(b"\n") && path.ends_with(CURRENT) {
            break;
        }
        number += 1;
        let record: Option<AuditLine> = serde_json::from_slice(&line).ok();
        let before = record.as_ref().filter(|_| number == 1).and_then(|record| before_of(record, seen));
        let (chain, said) = before.unwrap_or(seen.chain).read(&line);
        seen.chain = chain;
        let fault = match (said, &record, line.ends_with(b"\n")) {
            (_, _, false) => Some("the last line is torn"),
            (_, None, true) => Some("it is no record"),
            (Said::Wrong, Some(_), true) => Some("its chain does not follow from the lines before"),
            (Said::Nothing, Some(_), true) if seen.records > seen.unchained => Some("it has no chain"),
            (Said::Nothing | Said::Right, Some(_), true) => None,
        };
        seen.unchained += u64::from(said == Said::Nothing);
        seen.records += 1;
        if let Some(what) = fault.filter(|_| seen.faults.len() < FAULTS_MAX) {
            seen.faults.push(Fault { path: path.to_owned(), line: number, what });
        }
        if let Some(record) = record {
            let (first, last) = seen.ids.unwrap_or((record.id, record.id.saturating_sub(1)));
            if record.id > last.saturating_add(1) && seen.gaps.len() < FAULTS_MAX {
                seen.gaps.push((last + 1, record.id - 1));
            }
            seen.ids = Some((first, record.id.max(last)));
            if anchor == Some((record.id, chain)) {
                seen.anchored = Some(true);
            }
        }
        line.clear();
    }
    seen.files += 1;
    Ok(())
}

/// The chain of the file before, where that file is gone.
fn before_of(record: &AuditLine, seen: &Verified) -> Option<Chain> {
    (goes_on(record) && seen.files == 0).then(|| Chain::parse(&record.value)).flatten()
}
