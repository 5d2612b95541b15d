//! The file of the state; its thread is that of the audit log, since a command waits for both.

use super::{Record, read};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use tieline_history::{ReplicaFile, Replication, Withheld};

/// The file below a node's data folder.
const FILE: &str = "control.jsonl";
/// What a new one is written to first.
const NEW_FILE: &str = "control.jsonl.new";

/// What is to be written.
#[derive(Debug)]
pub enum StateChange {
    /// Further records.
    Append(Vec<u8>),
    /// All records, in place of the file.
    Replace(Vec<u8>),
}

/// The records of the life before. What a crash left of a line is not there; a line that is no record is left out, and
/// said. None: there is no file.
///
/// # Errors
/// The file is there, and cannot be read.
pub fn load(folder: &Path) -> io::Result<Option<Vec<Record>>> {
    let path = folder.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
    let mut records = Vec::new();
    for (line, number) in lines.zip(1..).filter(|(line, _): &(&[u8], u64)| !line.is_empty()) {
        match read(line) {
            Some(record) => records.push(record),
            None => {
                tracing::warn!(line = number, file = %path.display(), "a record of control is damaged, and is left out")
            }
        }
    }
    Ok(Some(records))
}

/// The open file.
#[derive(Debug)]
pub struct StateFile {
    folder: PathBuf,
    file: Option<File>,
    /// Bytes that are records.
    bytes: u64,
    /// Where each change goes first.
    replication: Replication,
}

impl StateFile {
    /// Nothing is opened before something is to be written.
    #[cfg(any(test, feature = "fabric"))]
    pub fn new(folder: PathBuf) -> Self {
        Self::replicated(folder, Replication::default())
    }

    /// The file of a node: each change goes to the log of the core first, where it leads one.
    pub const fn replicated(folder: PathBuf, replication: Replication) -> Self {
        Self { folder, file: None, bytes: 0, replication }
    }

    /// Writes and syncs. Where that fails, the file has none of it that a later read would take for a record of the middle.
    pub fn write(&mut self, change: &StateChange) -> io::Result<()> {
        let mut held = Withheld::default();
        if let Some(log) = &self.replication.log {
            let (record, replaces) = match change {
                StateChange::Append(text) => (text, false),
                StateChange::Replace(text) => (text, true),
            };
            held = log.replicate_file(ReplicaFile::Control, replaces, record).map_err(io::Error::other)?;
        }
        let written = match change {
            StateChange::Append(text) => self.append(text),
            StateChange::Replace(text) => self.replace(text),
        };
        if written.is_err() {
            // Opened again, and cut to its records, when the next is written.
            self.cut();
        }
        drop(held);
        written
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            let file = OpenOptions::new().create(true).append(true).open(self.folder.join(FILE))?;
            self.bytes = file.metadata()?.len();
            File::open(&self.folder)?.sync_all()?;
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(text)?;
        file.sync_data()?;
        self.bytes += u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    fn replace(&mut self, text: &[u8]) -> io::Result<()> {
        let (new, path) = (self.folder.join(NEW_FILE), self.folder.join(FILE));
        let mut file = File::create(&new)?;
        file.write_all(text)?;
        file.sync_data()?;
        std::fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()?;
        self.file = Some(OpenOptions::new().append(true).open(&path)?);
        self.bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Cuts off what is no whole record.
    fn cut(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = file.set_len(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    fn session(client: &str) -> Record {
        Record::Session { client: client.into(), requester: client.into() }
    }

    #[test]
    fn what_was_written_is_read_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()).unwrap(), None);
        let mut file = StateFile::new(folder.path().to_owned());
        file.write(&StateChange::Append(lines([&session("a")]))).unwrap();
        file.write(&StateChange::Append(lines([&session("b")]))).unwrap();
        let found = || load(folder.path()).unwrap().unwrap();
        assert_eq!(found(), [session("a"), session("b")]);
        file.write(&StateChange::Replace(lines([&session("c")]))).unwrap();
        file.write(&StateChange::Append(lines([&session("d")]))).unwrap();
        let path = folder.path().join(FILE);
        let mut torn = std::fs::read(&path).unwrap();
        torn.extend_from_slice(b"{\"ended\":\"x");
        std::fs::write(&path, &torn).unwrap();
        assert_eq!(found(), [session("c"), session("d")]);
        let damaged = [b"\0\0\n".as_slice(), &lines([&session("e")])].concat();
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(found(), [session("e")]);
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = StateFile::new(folder.path().join("none"));
        assert!(file.write(&StateChange::Append(lines([&session("a")]))).is_err());
        std::fs::create_dir(folder.path().join("none")).unwrap();
        file.write(&StateChange::Append(lines([&session("b")]))).unwrap();
        assert_eq!(load(&folder.path().join("none")).unwrap(), Some(vec![session("b")]));
    }
}
