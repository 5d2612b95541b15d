//! The marks of a centre that does not lead: taken from the records of its journal as these come, so that it can begin with them.

use super::centre::MARKS;
use super::loaded::read_marks;
use super::marks::Marks;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tieline_history::{HistorySource, HistoryWriter, JournalFeed, SITES_FOLDER};
use tieline_journal::Seq;

/// How often the file is written, while marks come. The journal keeps the records behind it.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The marks, and their file.
#[derive(Debug)]
pub(crate) struct StandbyMarks {
    path: PathBuf,
    feed: JournalFeed,
    marks: Marks,
    saved: Marks,
    saved_at: Instant,
}

impl StandbyMarks {
    /// Reads the file, and the records behind it.
    ///
    /// # Errors
    /// The file or the journal cannot be read or written; in words.
    pub(crate) fn open(data: &Path, history: &HistoryWriter, source: &HistorySource) -> Result<Self, String> {
        let folder = data.join(SITES_FOLDER);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (path, mut feed) = (folder.join(MARKS), history.feed(source, true));
        let marks = read_marks(&mut feed, &path)?;
        Ok(Self { path, feed, saved: marks.clone(), marks, saved_at: Instant::now() })
    }

    /// Takes the notes of records that are in the journal, the last of them at `seq`.
    ///
    /// # Errors
    /// The file cannot be written; in words.
    pub(crate) fn take(&mut self, notes: &[Vec<u8>], seq: Seq) -> Result<(), String> {
        notes.iter().for_each(|note| self.marks.take(note));
        self.marks.seq = self.marks.seq.max(seq);
        // The file must not be ahead of what survives a power cut.
        if self.saved_at.elapsed() >= SAVE_EVERY && self.marks.seq <= self.feed.place().durable {
            if self.marks != self.saved {
                self.marks.save(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))?;
                self.saved.clone_from(&self.marks);
            }
            self.saved_at = Instant::now();
            self.feed.want(self.marks.seq.next());
        }
        Ok(())
    }
}
