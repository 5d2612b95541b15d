//! How far a data folder is in the log: the places that the last records of ledger and journal have.

use super::parts::sequence_of;
use std::path::Path;
use tieline_journal::{find_last, place_of};
use tieline_ledger::Record;
use tieline_store::{FolderStorage, JOURNAL_FOLDER};

/// The ledger's folder below a data folder.
pub(super) const LEDGER_FOLDER: &str = "ledger";

/// Places of the last records; 0 where there is none with a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Of the journal; none where history is off.
    pub history: Option<u64>,
    /// Of the ledger.
    pub ledger: u64,
}

impl Places {
    /// Reads them.
    ///
    /// # Errors
    /// The folder cannot be read; in words.
    pub fn read(folder: &Path, has_history: bool) -> Result<Self, String> {
        let history = has_history.then(|| last(&folder.join(JOURNAL_FOLDER), place_of)).transpose()?;
        Ok(Self { history, ledger: last(&folder.join(LEDGER_FOLDER), Record::place_of)? })
    }

    /// The message from which on the log must be read; 0 where nothing was read yet.
    #[must_use]
    pub fn sequence(self) -> u64 {
        sequence_of(self.history.map_or(self.ledger, |history| history.min(self.ledger)))
    }
}

fn last(folder: &Path, place: impl Fn(&[u8]) -> Option<u64>) -> Result<u64, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    let mut storage = FolderStorage::open(folder).map_err(|error| said(&error))?;
    find_last(&mut storage, place).map(Option::unwrap_or_default).map_err(|error| said(&error))
}
