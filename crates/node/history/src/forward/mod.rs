//! Forwarding: the journal's records to other people's databases, one thread each.
//!
//! ```text
//!  journal ──▶ forwarder ──▶ database     the position is in the database, with the samples
//!     ▲            │
//!     └── wanted ◀─┘                      the journal keeps what was not written, up to a limit
//! ```
//!
//! A database that is away holds up nobody: the journal keeps its records beside those of the store, and gives up the oldest beyond its
//! limit. A forwarder finds that they are gone, counts them and goes on behind them.

mod batch;
mod core_position;
mod counts;
mod forwarder;
mod identity;
mod status;
#[cfg(test)]
mod tests;

pub use core_position::DatabaseKeeper;
pub(crate) use forwarder::Forwarder;
pub use identity::{RESTORED_SITE, SITES_FOLDER, note_restored};
pub use status::DatabaseStatus;
pub(crate) use status::ForwardNotes;

use std::fmt;
use std::time::Duration;
use tieline_core::Filter;
use tieline_databases::Database;

/// The folder below the data folder that has what is known of databases.
pub const DATABASES_FOLDER: &str = "databases";

/// A database and what goes there.
pub struct Forwarding {
    /// Its name here.
    pub name: String,
    /// What it is, in a word.
    pub kind: &'static str,
    /// The topics whose samples go there.
    pub topics: Vec<Filter>,
    /// Samples of one batch at most, give or take a record of the journal.
    pub batch_rows: usize,
    /// How long samples are collected for a batch that is not full.
    pub every: Duration,
    /// The longest time for a batch, without the time for many bytes: a batch that takes a large part of it is made smaller.
    pub timeout: Duration,
    /// How long after a failure it is tried again; longer after each that follows.
    pub retry: Duration,
    /// The database.
    pub database: Box<dyn Database>,
}

impl fmt::Debug for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarding").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}
