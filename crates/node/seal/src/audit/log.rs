//! The file of the audit log, and the files that it was before.
//!
//! Workers write their lines themselves, before they answer; a worker that the disk keeps waits. Lines are written, not
//! synced: they survive the end of the process, not that of the machine.
//!
//! A file that reaches its limit is renamed, `audit.jsonl.20261120T193000.123456Z`, and a new one begun. Several servers
//! may write to one file: each line is appended in one write, the process that finds the file full renames it under a lock, and
//! the others follow, as they follow a file that a person renamed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tieline_core::Timestamp;

/// After so many bytes it is looked how long the file is, and whether it is still the one of that name.
const LOOK_BYTES: u64 = 64 << 10;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditLimits {
    /// Bytes of a file; it may be longer by what servers write between two looks, 64 KiB each.
    pub file_bytes_max: u64,
    /// Files that are kept besides the one that is written; the oldest are removed. 0 keeps all.
    pub files_max: usize,
}

/// The audit log; without a path, nothing is kept.
pub struct AuditLog {
    kept: Option<Mutex<Kept>>,
    failures: AtomicU64,
    rotations: AtomicU64,
    removed: AtomicU64,
}

struct Kept {
    path: PathBuf,
    limits: AuditLimits,
    file: File,
    /// Bytes that were written since the last look.
    unseen: u64,
    /// The last write ended somewhere in a line.
    torn: bool,
}

impl AuditLog {
    /// Opens the file to append to, readable by its owner and group; without a path, nothing is kept.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: Option<&Path>, limits: AuditLimits) -> std::io::Result<Self> {
        let kept = path.map(|path| {
            let file = append_to(path)?;
            // A file that is full from before is found at the first line.
            let (path, unseen, torn) = (path.to_owned(), LOOK_BYTES, false);
            std::io::Result::Ok(Mutex::new(Kept { path, limits, file, unseen, torn }))
        });
        let (failures, rotations, removed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { kept: kept.transpose()?, failures, rotations, removed })
    }

    /// Whether anything is kept.
    pub const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Writes whole lines; they are with the system when this returns.
    pub fn write(&self, lines: &str) {
        let Some(kept) = &self.kept else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.unseen >= LOOK_BYTES {
            kept.unseen = 0;
            match kept.look() {
                Ok((rotated, removed)) => {
                    self.rotations.fetch_add(rotated.into(), Ordering::Relaxed);
                    self.removed.fetch_add(removed, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(%error, "a new file of the audit log cannot be begun; it goes on in the same file")
                }
            }
        }
        if let Err(error) = kept.append(lines.as_bytes()) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the audit log cannot be written; operations go on");
        }
    }

    /// Writes that failed; what they held is lost.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Files that were renamed because they were full.
    pub fn rotations(&self) -> u64 {
        self.rotations.load(Ordering::Relaxed)
    }

    /// Files that were removed because there were too many.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}

impl Kept {
    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        if std::mem::take(&mut self.torn) {
            self.file.write_all(b"\n")?;
        }
        let written = self.file.write_all(lines);
        self.torn = written.is_err();
        self.unseen = self.unseen.saturating_add(lines.len() as u64);
        written
    }

    /// Begins a new file when this one is full, or follows the process that renamed it; whether this server renamed it, and how
    /// many old files it removed.
    fn look(&mut self) -> std::io::Result<(bool, u64)> {
        if !self.is_of_that_name() {
            self.file = append_to(&self.path)?;
        }
        if self.file.metadata()?.len() < self.limits.file_bytes_max {
            return Ok((false, 0));
        }
        // Of several servers that find it full, the first one renames it.
        self.file.lock()?;
        let rotated = self.is_of_that_name();
        let mut removed = 0;
        if rotated {
            std::fs::rename(&self.path, self.old_name())?;
            removed = self.remove_old();
        }
        self.file = append_to(&self.path)?;
        Ok((rotated, removed))
    }

    fn is_of_that_name(&self) -> bool {
        let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        matches!((self.file.metadata(), std::fs::metadata(&self.path)), (Ok(a), Ok(b)) if same(&a, &b))
    }

    /// By the time, in letters that sort by it; a later microsecond where that name is taken.
    fn old_name(&self) -> PathBuf {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        let name = |micros| {
            let mut name = self.path.clone().into_os_string();
            let time = Timestamp::from_micros(micros).to_string();
            let (seconds, part) = time.trim_end_matches('Z').split_once('.').unwrap_or((&time, "0"));
            name.push(format!(".{}.{part:0<6}Z", seconds.replace(['-', ':'], "")));
            PathBuf::from(name)
        };
        (micros..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(micros))
    }

    /// Removes the oldest files beyond those that are kept; how many.
    fn remove_old(&self) -> u64 {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else { return 0 };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if self.limits.files_max == 0 {
            return 0;
        }
        let prefix = [name.as_encoded_bytes(), b"."].concat();
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut old: Vec<_> = names.filter(|name| is_old(name.as_encoded_bytes(), &prefix)).collect();
        old.sort();
        old.truncate(old.len().saturating_sub(self.limits.files_max));
        let mut removed = 0;
        for file in old.iter().map(|name| folder.join(name)) {
            match std::fs::remove_file(&file) {
                Ok(()) => {
                    removed += 1;
                    tracing::warn!(file = %file.display(), "the oldest file of the audit log was removed");
                }
                Err(error) => tracing::warn!(file = %file.display(), %error, "an old audit log cannot be removed"),
            }
        }
        removed
    }
}

/// Whether a name is one that [`Kept::old_name`] gives.
fn is_old(name: &[u8], prefix: &[u8]) -> bool {
    name.strip_prefix(prefix).is_some_and(|time| {
        let shape = b"00000000T000000.000000Z";
        let fits = |(byte, shape): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
        time.len() == shape.len() && time.iter().zip(shape).all(fits)
    })
}

fn append_to(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}
