//! The two counts of what a database has of a journal.
//!
//! A record that has a place in the log of a core is counted by it, under a name that all members know; any other by its sequence, under
//! the name of this journal. A journal has both where its node is a member of a core at times. Each record is of one count, so a
//! node writes it once, in whichever mode it runs: first what the database does not have of the count of the other mode, then its own.
//! A node that left a core moves the core's position as a leader does, so that only one of both writes a record.

use super::core_position::{Shared, first_behind, path_of};
use super::identity::{Identity, forget_restored, restored_at};
use std::io;
use std::path::{Path, PathBuf};
use tieline_databases::DatabaseError;
use tieline_journal::Seq;

/// What a position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The sequence of a record of this journal that has no place.
    Sequence,
    /// The place of a record in the log of the core.
    Place,
}

impl By {
    /// The position that a record gives; none where it is not of this count.
    pub(super) const fn position_of(self, seq: Seq, place: Option<u64>) -> Option<u64> {
        match (self, place) {
            (Self::Sequence, None) => Some(seq.0),
            (Self::Place, place) => place,
            (Self::Sequence, Some(_)) => None,
        }
    }
}

/// One of both.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) by: By,
    pub(super) identity: Identity,
    /// The last position that the journal shares with what the database may have: one beyond it is of another past.
    pub(super) shared: u64,
    /// Whether the journal is a copy, whose original may go on: what both have is counted under the name of both, so that it is
    /// written once, and what follows under a name of its own.
    pub(super) is_copy: bool,
    /// The position as the database has it.
    pub(super) position: Option<u64>,
    /// Whether a position was read since the start.
    pub(super) known: bool,
}

impl Count {
    const fn new(by: By, identity: Identity, shared: u64, is_copy: bool) -> Self {
        Self { by, identity, shared, is_copy, position: None, known: false }
    }

    /// The last record that may be written under this name.
    pub(super) fn limit(&self, durable: Seq) -> Seq {
        if self.is_copy { durable.min(Seq(self.shared)) } else { durable }
    }

    /// Whether the database has all that a copy shares with its original, with `next` as the first record that it does not have.
    pub(super) fn is_over(&self, next: Seq) -> bool {
        self.is_copy && next.0 > self.shared
    }

    /// What follows has a name of its own, which the database knows.
    ///
    /// # Errors
    /// The folder of databases cannot be written.
    pub(super) fn part(&mut self, name: String) -> io::Result<()> {
        self.identity.rename(name)?;
        self.position = Some(self.shared);
        if self.is_copy {
            forget_restored(self.identity.path())?;
            self.is_copy = false;
        }
        Ok(())
    }

    /// The first record that the database may not have, of those from `first` to `last`.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn next(&self, folder: &Path, (first, last): (Seq, Seq)) -> Result<Seq, DatabaseError> {
        match (self.position, self.by) {
            // A database that has nothing of this journal gets what the journal has.
            (None, _) => Ok(first.max(Seq(1))),
            (Some(seq), By::Sequence) => Ok(Seq(seq).next()),
            (Some(place), By::Place) => first_behind(folder, (first, last), place),
        }
    }
}

/// How far the count of the other mode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The database is to be asked.
    Due,
    /// Its records up to this one are written.
    Writing(Seq),
    /// The database has all of it.
    Done,
}

/// Both of a journal.
#[derive(Debug)]
pub(super) struct Counts {
    /// That of the mode in which the node runs.
    pub(super) main: Count,
    /// The other one, where there is one.
    pub(super) other: Option<Count>,
    pub(super) rest: Rest,
    /// Where the name of the other one is, or would be.
    other_path: PathBuf,
}

impl Counts {
    /// Those of the database `name`. `opened`: the last record that was durable when the journal was opened.
    ///
    /// # Errors
    /// The folder of databases cannot be written.
    pub(super) fn open(databases: &Path, name: &str, core: Option<&Shared>, opened: Seq) -> io::Result<Self> {
        let own_path = own_path_of(databases, name);
        let restored = restored_at(&own_path, opened)?;
        let (shared, is_copy) = (restored.unwrap_or(opened.0), restored.is_some());
        let own =
            |path: PathBuf| Identity::open(path).map(|identity| Count::new(By::Sequence, identity, shared, is_copy));
        // The log may have gone on without a node that left.
        let left =
            |path: PathBuf| Identity::open(path).map(|identity| Count::new(By::Place, identity, u64::MAX, false));
        let there = |path: &PathBuf| path.try_exists().unwrap_or(true);
        let core_path = path_of(databases, name);
        let (main, other, other_path) = match core {
            Some(core) => {
                let main = Count::new(By::Place, Identity::open(core_path)?, core.opened, false);
                let other = Some(own_path.clone()).filter(there).map(own).transpose()?;
                (main, other, own_path)
            }
            None => {
                let other = Some(core_path.clone()).filter(there).map(left).transpose()?;
                (own(own_path)?, other, core_path)
            }
        };
        Ok(Self { main, other, rest: Rest::Due, other_path })
    }

    /// The one that is written.
    pub(super) const fn current(&mut self) -> &mut Count {
        match (self.rest, &mut self.other) {
            (Rest::Writing(_), Some(other)) => other,
            (Rest::Due | Rest::Done | Rest::Writing(_), _) => &mut self.main,
        }
    }

    /// The last record that is read: of the count of the other mode, those that were there at the connection.
    pub(super) fn limit(&mut self, durable: Seq) -> Seq {
        let durable = match self.rest {
            Rest::Writing(last) => durable.min(last),
            Rest::Due | Rest::Done => durable,
        };
        self.current().limit(durable)
    }

    /// There are samples of a core that this node is no member of, and no database has had any of them: their count begins.
    ///
    /// # Errors
    /// The folder of databases cannot be written.
    pub(super) fn begin_core(&mut self) -> io::Result<()> {
        self.other = Some(Count::new(By::Place, Identity::open(self.other_path.clone())?, u64::MAX, false));
        self.rest = Rest::Due;
        Ok(())
    }
}

/// Where the name of the positions of this journal is.
pub(super) fn own_path_of(databases: &Path, name: &str) -> PathBuf {
    databases.join(format!("{name}.journal"))
}
