//! What of the ledger could not be read at the start: logged, and kept for a person to look at.

use std::path::{Path, PathBuf};
use tieline_journal::{Damage, salvage};
use tieline_ledger::{GivenUp, Replay};
use tieline_store::FolderStorage;
use tracing::warn;

/// Names that one line of the log says.
const NAMES_MAX: usize = 10;

/// What was lost at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Batches of the log.
    pub records: u64,
    /// Sessions that ended because of it.
    pub sessions: usize,
    /// Messages that were pending for them.
    pub messages: usize,
    /// Last values that are gone.
    pub values: usize,
    /// Where the damaged files are kept.
    pub files: Vec<PathBuf>,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { records, sessions, messages, values, files } = self;
        write!(
            f,
            "damaged at the start: {records} batches were lost, {sessions} sessions ended with {messages} messages, \
             {values} last values are gone"
        )?;
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        if files.is_empty() { Ok(()) } else { write!(f, "; kept for a look: {}", files.join(", ")) }
    }
}

/// Collects what is lost.
pub(super) struct Losses<'a> {
    folder: &'a Path,
    storage: FolderStorage,
    lost: Lost,
    seen: Vec<(String, u64)>,
}

impl<'a> Losses<'a> {
    pub(super) const fn new(folder: &'a Path, storage: FolderStorage) -> Self {
        let lost = Lost { records: 0, sessions: 0, messages: 0, values: 0, files: Vec::new() };
        Self { folder, storage, lost, seen: Vec::new() }
    }

    /// A stretch of the log is lost. One that was seen before costs nothing more.
    pub(super) fn take(&mut self, replay: &mut Replay, damage: &Damage, records: u64) {
        let place = (damage.segment.clone(), damage.at);
        if self.seen.contains(&place) {
            return;
        }
        self.seen.push(place);
        self.lost.records += records;
        let kept = self.keep(&damage.segment);
        warn!(%damage, records, kept = ?kept, "a part of the ledger cannot be read: what it said is lost");
        // More than one batch is more than one frame: of whom they spoke is not known.
        let bytes = salvage(&mut self.storage, damage).ok().flatten().filter(|_| records == 1);
        replay.handle_lost(bytes.as_deref());
    }

    /// Gives the damaged file a second name, which the ledger does not know and so never removes.
    fn keep(&mut self, segment: &str) -> Option<PathBuf> {
        let file = self.folder.join(segment);
        let kept = self.folder.join(format!("{segment}.damaged"));
        if segment.is_empty() || self.lost.files.contains(&kept) {
            return Some(kept).filter(|kept| self.lost.files.contains(kept));
        }
        match std::fs::hard_link(&file, &kept) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                warn!(%error, file = %file.display(), "the damaged file cannot be kept");
                None
            }
            Ok(()) | Err(_) => {
                self.lost.files.push(kept.clone());
                Some(kept)
            }
        }
    }

    /// Says what was given up; none where nothing was lost.
    pub(super) fn finish(mut self, given: &GivenUp) -> Option<Lost> {
        if self.lost.records == 0 {
            return None;
        }
        let clients: Vec<_> = given.clients.iter().take(NAMES_MAX).collect();
        let topics: Vec<_> = given.topics.iter().take(NAMES_MAX).map(|topic| &**topic).collect();
        (self.lost.sessions, self.lost.messages, self.lost.values) =
            (given.clients.len(), given.messages, given.topics.len());
        let Lost { records, sessions, messages, values, .. } = self.lost;
        warn!(
            records,
            sessions,
            messages,
            values,
            ?clients,
            ?topics,
            "what the damaged part of the ledger may have spoken of is given up: these clients begin new sessions"
        );
        Some(self.lost)
    }
}
