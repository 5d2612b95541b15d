//! What a database is to who writes to it.

use std::fmt;
use tieline_core::{Quality, Timestamp, Topic, Value};

/// One topic's state at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose.
    pub topic: Topic,
    /// When.
    pub time: Timestamp,
    /// What. A payload that is no point is a text, or bytes where it is none.
    pub value: Value,
    /// How far it may be trusted.
    pub quality: Quality,
    /// Whether the database may have it already: it is written where there is none that is equal.
    pub again: bool,
}

/// A database that takes batches, from one thread. Calls block, each for a limited time.
pub trait Database: Send {
    /// Connects, where there is no connection, and says up to which sequence the database has everything; none where it has nothing of
    /// this journal.
    ///
    /// # Errors
    /// It cannot be reached, refuses, or is not what it should be.
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError>;

    /// Writes a batch that reaches up to the sequence `upto`, as a whole. Returns how many rows the database has no place for.
    ///
    /// # Errors
    /// It is not known whether the batch was written: the next call is [`Database::connect`].
    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError>;

    /// How many rows of the batches since the last call it refused, where it tells them from others of their batch.
    fn take_rejected(&mut self) -> u64 {
        0
    }
}

/// The index on the samples of a database that has tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// A B-tree on topic and time: a topic's samples are found at once.
    #[default]
    Btree,
    /// A block range index on time: little to write, queries read whole stretches of time.
    Brin,
    /// None.
    None,
}

/// Why a database did not do what it was asked to, by blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// It cannot be reached, or did not answer in time.
    Away(String),
    /// It answers, and refuses: access, settings, permissions, disk.
    Refused(String),
    /// It refuses the values of the batch: again and again, if nothing is left out.
    Rejected(String),
}

impl DatabaseError {
    /// What happened, without the blame.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Away(words) | Self::Refused(words) | Self::Rejected(words) => words,
        }
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl std::error::Error for DatabaseError {}
