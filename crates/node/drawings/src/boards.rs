//! The boards of a node: those of its configuration, and those of its data folder, which are changed while it runs.
//!
//! A file of the data folder is replaced as a whole and durably; the file, not the memory, says what a change is a change of. Of two
//! boards with one name, that of the data folder is shown.

use crate::board::{BoardFile, FOLDER, Origin, read_kept};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tieline_service::reader::{ConfigError, Finding, Findings};
use tieline_service::replacement::{self, folder_of, replace};

/// The mode of a file of a board, as far as the process lets it have that.
const MODE: u32 = 0o666;

/// The boards that there are.
#[derive(Debug)]
pub struct Boards {
    /// Of the data folder; made with its first file.
    folder: PathBuf,
    shown: RwLock<Shown>,
    /// One change at a time. Readers wait for no disk.
    turn: Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct Shown {
    configured: Arc<[Arc<BoardFile>]>,
    kept: BTreeMap<String, Arc<BoardFile>>,
}

/// What has to be so before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no board of the name.
    Absent,
    /// There is one.
    Present,
    /// There is one, and it has one of these versions.
    Versions(Vec<String>),
}

/// A change that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The board before; none where it is new.
    pub before: Option<Arc<BoardFile>>,
    /// The board after; none where it was removed.
    pub after: Option<Arc<BoardFile>>,
}

/// Why a board is not changed.
#[derive(Debug)]
pub enum ChangeError {
    /// It is in a file of the configuration, which nobody changes but its operator.
    Configured(String),
    /// There is none of the name.
    Missing(String),
    /// The condition is not met: there is one, of this version.
    Other {
        /// The name.
        name: String,
        /// Its version.
        version: String,
    },
    /// The text is no board; all that is wrong with it.
    Wrong(Vec<Finding>),
    /// The file that is there is no board: it was changed by hand.
    Damaged(Vec<Finding>),
    /// There are as many boards as there may be, or as many bytes; in words.
    Full(String),
    /// The disk refuses.
    Disk {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
        /// Whether the file has the change all the same: a power cut may take it back.
        is_done: bool,
    },
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured(name) => {
                write!(
                    f,
                    "the board {name:?} is a file of the configuration: change that file and reload, or copy the board to another name"
                )
            }
            Self::Missing(name) => write!(f, "there is no board {name:?}"),
            Self::Other { name, version } => write!(f, "there is a board {name:?} of the version \"{version}\""),
            Self::Wrong(found) => write!(f, "{}", ConfigError(found.clone())),
            Self::Damaged(found) => {
                write!(
                    f,
                    "correct or remove the file, which was not written by the node, then reload\n{}",
                    ConfigError(found.clone())
                )
            }
            Self::Full(why) => f.write_str(why),
            Self::Disk { path, error, is_done } => {
                let state = if *is_done { "the change may be lost in a power cut" } else { "nothing has changed" };
                write!(f, "{}: {error}; {state}", path.display())?;
                match error.kind() {
                    ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => f.write_str(
                        ": boards are kept in the data folder, expected one that the node may write to (tieline run --data)",
                    ),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ChangeError {}

impl Boards {
    /// Those of a configuration, and of the folder of the data folder that has the others. What is wrong with a file leaves out its board
    /// and nothing else: a node that cannot show one has other things to do.
    #[must_use]
    pub fn open(folder: PathBuf, configured: Arc<[Arc<BoardFile>]>) -> (Self, Vec<Finding>) {
        let boards = Self { folder, shown: RwLock::default(), turn: Mutex::default() };
        let found = boards.set(configured);
        (boards, found)
    }

    /// The configuration has others, and the folder is read again; what is wrong with files of the folder.
    pub fn set(&self, configured: Arc<[Arc<BoardFile>]>) -> Vec<Finding> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut findings = Findings::default();
        let kept = match FOLDER.files(&self.folder) {
            Ok(files) => FOLDER.read_all(files, &mut findings, read_kept),
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                findings.push(crate::folder::whole(&self.folder, FOLDER.key, error.to_string(), FOLDER.readable));
                Vec::new()
            }
        };
        let kept = kept.into_iter().map(|file| (file.name.clone(), file)).collect();
        self.show(|shown| *shown = Shown { configured, kept });
        self.remove_unfinished();
        findings.sorted()
    }

    /// All, by their names.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<BoardFile>> {
        let Shown { configured, kept } = self.shown();
        let mut all = kept;
        for file in configured.iter() {
            all.entry(file.name.clone()).or_insert_with(|| Arc::clone(file));
        }
        all.into_values().collect()
    }

    /// The one of a name.
    #[must_use]
    pub fn one(&self, name: &str) -> Option<Arc<BoardFile>> {
        let Shown { configured, kept } = self.shown();
        let configured = || configured.iter().find(|file| file.name == name).cloned();
        kept.get(name).cloned().or_else(configured)
    }

    /// Puts a text in the place of a board, or makes one; it is durable then. It blocks.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn put(&self, name: &str, text: String, condition: &Condition) -> Result<Change, ChangeError> {
        let after = BoardFile::check(&format!("{name}.toml"), name, text, Origin::Data).map_err(ChangeError::Wrong)?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.found(name)?;
        check(name, before.as_deref(), condition)?;
        if before.as_ref().is_some_and(|before| before.text == after.text) {
            return Ok(Change { after: before.clone(), before });
        }
        self.check_room(name, after.text.len())?;
        let path = self.path(name);
        let written = self.make_folder().and_then(|()| replace(&path, after.text.as_bytes(), MODE));
        self.settle(name, written, Some(Arc::new(after)))?;
        Ok(Change { before, after: self.one(name) })
    }

    /// Removes a board; that is durable then. It blocks.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn remove(&self, name: &str, condition: &Condition) -> Result<Change, ChangeError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.found(name)?;
        if before.is_none() {
            return Err(ChangeError::Missing(name.to_owned()));
        }
        check(name, before.as_deref(), condition)?;
        let sync = || File::open(&self.folder)?.sync_all();
        let removed = std::fs::remove_file(self.path(name)).and_then(|()| sync());
        self.settle(name, removed, None)?;
        Ok(Change { before, after: None })
    }

    /// The board of a name as its file is, which is shown then, too.
    fn found(&self, name: &str) -> Result<Option<Arc<BoardFile>>, ChangeError> {
        let path = self.path(name);
        let file = match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(ChangeError::Disk { path, error, is_done: false }),
            Ok(_) => Some(BoardFile::load(&path, name, Origin::Data).map_err(ChangeError::Damaged)?),
        };
        let file = file.map(Arc::new);
        let is_configured = self.shown().configured.iter().any(|configured| configured.name == name);
        if file.is_none() && is_configured {
            return Err(ChangeError::Configured(name.to_owned()));
        }
        self.keep(name, file.clone());
        Ok(file)
    }

    fn check_room(&self, name: &str, bytes: usize) -> Result<(), ChangeError> {
        let Shown { kept, .. } = self.shown();
        let others = || kept.values().filter(|file| file.name != name);
        if others().count() >= FOLDER.count_max {
            return Err(ChangeError::Full(format!("there are {} boards, as many as there may be", FOLDER.count_max)));
        }
        let all = others().map(|file| file.text.len()).sum::<usize>() + bytes;
        if all > FOLDER.bytes_max {
            let most = FOLDER.bytes_max;
            return Err(ChangeError::Full(format!("all boards would have {all} bytes, expected {most} at most")));
        }
        Ok(())
    }

    /// Shows what a change has come to. Where the disk refused, that is what the file has.
    fn settle(&self, name: &str, done: io::Result<()>, file: Option<Arc<BoardFile>>) -> Result<(), ChangeError> {
        match done {
            Ok(()) => self.keep(name, file),
            Err(error) => {
                let found = self.found(name).ok().flatten().map(|found| found.version.clone());
                let is_done = found == file.map(|file| file.version.clone());
                return Err(ChangeError::Disk { path: self.path(name), error, is_done });
            }
        }
        Ok(())
    }

    fn make_folder(&self) -> io::Result<()> {
        match std::fs::create_dir(&self.folder) {
            Ok(()) => File::open(folder_of(&self.folder))?.sync_all(),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What a crash has left of changes that were not acknowledged.
    fn remove_unfinished(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let ends = format!(".{}{}", FOLDER.end, replacement::ENDS);
        let unfinished = |path: &Path| path.to_str().is_some_and(|path| path.ends_with(&ends));
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| unfinished(path)) {
            let _ = std::fs::remove_file(path);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{}", FOLDER.end))
    }

    fn keep(&self, name: &str, file: Option<Arc<BoardFile>>) {
        self.show(|Shown { kept, .. }| match file {
            Some(file) => drop(kept.insert(name.to_owned(), file)),
            None => drop(kept.remove(name)),
        });
    }

    fn show(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn shown(&self) -> Shown {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn check(name: &str, before: Option<&BoardFile>, condition: &Condition) -> Result<(), ChangeError> {
    let is_met = match (condition, before) {
        (Condition::Absent, None) | (Condition::Present, Some(_)) => true,
        (Condition::Versions(versions), Some(before)) => versions.contains(&before.version),
        (Condition::Absent, Some(_)) | (Condition::Present | Condition::Versions(_), None) => false,
    };
    match before {
        _ if is_met => Ok(()),
        Some(before) => Err(ChangeError::Other { name: name.to_owned(), version: before.version.clone() }),
        None => Err(ChangeError::Missing(name.to_owned())),
    }
}

#[cfg(test)]
mod tests;
