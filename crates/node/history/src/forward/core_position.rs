//! What all members of a core know of a database, so that the next leader goes on where the last one stopped.
//!
//! Sequences of a journal are those of one member. So a database's position is a place in the log of the core, which all members' records
//! have, under a name that all members know. The log has that name before the database does, and now and then the place up to which a
//! journal need not keep what is there.
//!
//! ```text
//! NAME IDENTITY PLACE      a record of the log: the database's name here, the name of the positions there, what may be let go
//! ```

use super::ForwardNotes;
use super::counts::own_path_of;
use super::identity::{Identity, is_name, replace, restored_at};
use crate::replicate::{ReplicaFile, ReplicaKind, Replicate, Replication};
use crate::status::Board;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_databases::DatabaseError;
use tieline_journal::{Item, Reader, Seq, place_of};
use tieline_store::FolderStorage;

/// How the file ends that has the name of positions in the log of a core.
const CORE: &str = "core";
/// How exactly a standby knows where places are in its journal.
const STEP: Duration = Duration::from_secs(5);
/// Places that a standby knows; beyond it, it keeps more of its journal than it has to, up to the limit of databases.
const MARKS_MAX: usize = 20_000;

/// The log of the core that a forwarder's node leads.
pub(super) struct Shared {
    log: Arc<dyn Replicate>,
    /// The last place that the journal had when it was opened: no position can be beyond it, unless it is of another log.
    pub(super) opened: u64,
    /// What was said last.
    said: Option<u64>,
}

impl Shared {
    /// That of a leader; none of a node that is no member of a core.
    pub(super) fn of(replication: &Replication) -> Option<Self> {
        let log = Arc::clone(replication.log.as_ref()?);
        Some(Self { log, opened: replication.place, said: None })
    }

    /// Whether the node may still lead: where it does not, it writes nothing.
    pub(super) fn leads(&self) -> bool {
        self.log.leads()
    }

    /// Tells all members up to which place a database has everything that it could ask for again.
    ///
    /// # Errors
    /// This node does not lead any longer.
    pub(super) fn say(&mut self, name: &str, identity: &Identity, place: u64) -> Result<(), DatabaseError> {
        if self.said != Some(place) {
            let record = format!("{name} {} {place}", identity.name());
            let kind = ReplicaKind::File { file: ReplicaFile::Databases, replaces: false };
            self.log.replicate(kind, record.as_bytes()).map_err(DatabaseError::Away)?;
            self.said = Some(place);
        }
        Ok(())
    }
}

/// Where a core's name of positions is.
pub(super) fn path_of(databases: &Path, name: &str) -> PathBuf {
    databases.join(format!("{name}.{CORE}"))
}

/// The first of the records from `first` to `last` that is behind a place: places rise from record to record, and some have none.
///
/// # Errors
/// The journal cannot be read.
pub(super) fn first_behind(folder: &Path, (first, last): (Seq, Seq), place: u64) -> Result<Seq, DatabaseError> {
    let (mut low, mut high) = (first.max(Seq(1)), last.next());
    while low < high {
        let middle = Seq(low.0 + (high.0 - low.0) / 2);
        match next_placed(folder, (middle, last))? {
            Some((seq, found)) if found <= place => low = seq.next(),
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// The first record from one on that has a place.
fn next_placed(folder: &Path, (from, last): (Seq, Seq)) -> Result<Option<(Seq, u64)>, DatabaseError> {
    let refused =
        |error: &dyn std::fmt::Display| DatabaseError::Refused(format!("the journal cannot be read: {error}"));
    let storage = FolderStorage::open(folder).map_err(|error| refused(&error))?;
    let mut reader = Reader::new(storage, from);
    while let Some(item) = reader.next(last).map_err(|error| refused(&error))? {
        if let Item::Record { seq, payload } = item
            && let Some(place) = place_of(payload)
        {
            return Ok(Some((seq, place)));
        }
    }
    Ok(None)
}

/// What the journal of a standby keeps for databases.
pub struct DatabaseKeeper {
    board: Arc<Board>,
    /// The folder of databases.
    folder: PathBuf,
    /// The databases, in the order of their notes.
    names: Vec<String>,
    /// Places and the records that have them, each some time after the one before.
    marks: VecDeque<(u64, Seq)>,
    marked_at: Option<Instant>,
}

impl std::fmt::Debug for DatabaseKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseKeeper").field("names", &self.names).finish_non_exhaustive()
    }
}

impl DatabaseKeeper {
    /// Of a journal, which keeps all from here on that it is not told to let go.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub(crate) fn new(board: Arc<Board>, folder: PathBuf, names: Vec<String>) -> io::Result<Self> {
        let opened = board.note(|notes| {
            notes.forwarding = names.iter().map(|_| ForwardNotes::default()).collect();
            notes.opened
        });
        for name in &names {
            // Where the folder was restored, it says up to where, for when the node counts by itself.
            restored_at(&own_path_of(&folder, name), opened)?;
        }
        Ok(Self { board, folder, names, marks: VecDeque::new(), marked_at: None })
    }

    /// The journal has a place in this record.
    pub fn note_place(&mut self, place: u64, seq: Seq) {
        if self.names.is_empty() || self.marked_at.is_some_and(|at| at.elapsed() < STEP) {
            return;
        }
        self.marked_at = Some(Instant::now());
        self.mark(place, seq);
    }

    fn mark(&mut self, place: u64, seq: Seq) {
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((place, seq));
    }

    /// Takes what the leader says of a database.
    ///
    /// # Errors
    /// It is nothing that a leader says, or the folder cannot be written.
    pub fn take(&mut self, record: &[u8]) -> io::Result<()> {
        let other = || io::Error::new(ErrorKind::InvalidData, "no name, identity and place of a database");
        let text = std::str::from_utf8(record).map_err(|_| other())?;
        let words: Vec<&str> = text.split(' ').collect();
        let &[name, identity, place] = words.as_slice() else { return Err(other()) };
        let place: u64 = place.parse().map_err(|_| other())?;
        let is_file = !name.is_empty() && !name.contains(['/', '.', '\\', '\0']);
        if !is_file || !is_name(identity) {
            return Err(other());
        }
        let path = path_of(&self.folder, name);
        if std::fs::read_to_string(&path).is_ok_and(|known| known.trim_end() == identity) {
            self.let_go(name, place);
            return Ok(());
        }
        std::fs::create_dir_all(&self.folder)?;
        replace(&path, identity)?;
        self.let_go(name, place);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn wanted(&self) -> Vec<Seq> {
        self.board.note(|notes| notes.forwarding.iter().map(|own| own.wanted).collect())
    }

    /// The database has everything up to a place that it could ask for again.
    fn let_go(&self, name: &str, place: u64) {
        let index = self.names.iter().position(|known| known == name);
        let mark = self.marks.iter().rev().find(|(known, _)| *known <= place);
        if let (Some(index), Some((_, seq))) = (index, mark) {
            self.board.note(|notes| {
                if let Some(own) = notes.forwarding.get_mut(index) {
                    own.wanted = own.wanted.max(seq.next());
                }
            });
        }
    }
}
