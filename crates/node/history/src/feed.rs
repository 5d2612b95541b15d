//! Another reader of the journal: what it wants is kept for it.

use crate::HistoryError;
use crate::status::Board;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tieline_journal::{Item, Reader, Seq};
use tieline_store::FolderStorage;

/// Records of the journal, for one reader besides the store.
pub struct JournalFeed {
    board: Arc<Board>,
    index: usize,
    folder: PathBuf,
    reader: Option<Reader<FolderStorage>>,
}

/// The journal as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    /// The first record that there is.
    pub first: Seq,
    /// The last that survives a power cut.
    pub durable: Seq,
    /// Whether none comes any more.
    pub is_closed: bool,
}

impl JournalFeed {
    pub(crate) const fn new(board: Arc<Board>, index: usize, folder: PathBuf) -> Self {
        Self { board, index, folder, reader: None }
    }

    /// The last record that was durable when the journal was opened.
    #[must_use]
    pub fn opened(&self) -> Seq {
        self.board.wait(Duration::ZERO, |_| true, |notes| notes.opened)
    }

    /// What there is.
    #[must_use]
    pub fn place(&self) -> JournalPlace {
        self.watch().wait(Seq(0), Duration::ZERO)
    }

    /// What says when records have come.
    #[must_use]
    pub fn watch(&self) -> JournalWatch {
        JournalWatch(Arc::clone(&self.board))
    }

    /// Says the first record that is wanted: those before it may go.
    pub fn want(&self, first: Seq) {
        self.board.note(|notes| {
            if let Some((wanted, _)) = notes.feeds.get_mut(self.index) {
                *wanted = first;
            }
        });
    }

    /// Gives the records from `from` to `upto`, which are durable, to `take`, until it says that it has enough. What cannot be read is left
    /// out at the beginning, and ends it otherwise. Returns the first record that was given, or could be the next.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn read(
        &mut self,
        from: Seq,
        upto: Seq,
        mut take: impl FnMut(Seq, &[u8]) -> bool,
    ) -> Result<Seq, HistoryError> {
        let reader = match self.reader.take().filter(|reader| reader.place() == from) {
            Some(reader) => self.reader.insert(reader),
            None => self.reader.insert(Reader::new(FolderStorage::open(&self.folder)?, from)),
        };
        let mut first = None;
        while reader.place() <= upto {
            match reader.next(upto)? {
                None => break,
                Some(Item::Record { seq, payload }) => {
                    first.get_or_insert(seq);
                    if !take(seq, payload) {
                        break;
                    }
                }
                Some(Item::Lost(_)) if first.is_none() => {}
                Some(Item::Lost(lost)) => {
                    // The next call begins with it.
                    *reader = Reader::new(FolderStorage::open(&self.folder)?, lost.first);
                    break;
                }
            }
        }
        Ok(first.unwrap_or_else(|| reader.place()))
    }
}

impl fmt::Debug for JournalFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JournalFeed").field(&self.place()).finish()
    }
}

/// Waits for records of the journal.
pub struct JournalWatch(Arc<Board>);

impl JournalWatch {
    /// Waits until a record is durable or none comes any more, for `patience` at most.
    #[must_use]
    pub fn wait(&self, seq: Seq, patience: Duration) -> JournalPlace {
        let ready = |notes: &crate::status::Notes| notes.status.durable >= seq || notes.journal_done;
        self.0.wait(patience, ready, |notes| JournalPlace {
            first: notes.status.journal_first,
            durable: notes.status.durable,
            is_closed: notes.journal_done,
        })
    }
}

impl fmt::Debug for JournalWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JournalWatch")
    }
}

#[cfg(test)]
mod tests {
    use crate::{HistoryHandle, HistoryOptions, HistorySource, HistoryWriter, JournalFeed, Noted};
    use std::path::Path;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;
    use tieline_core::{Body, Point, Quality, Timestamp, Topic, Update, Value};
    use tieline_journal::{Limits, Sample, Seq, decode, note_of};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn open(folder: &Path) -> (HistoryWriter, HistorySource) {
        let journal = Limits { segment_bytes: 4 << 10, total_bytes: 1 << 20, kept_bytes: 1 << 20, ..Limits::default() };
        let options = HistoryOptions { journal, memory_bytes: 4 << 10, ..HistoryOptions::default() };
        let source = HistorySource::new(folder);
        let writer = HistoryWriter::open_guarded(&source, options, Arc::new(|| true)).unwrap();
        (writer, source)
    }

    fn sample(number: i64) -> Sample {
        let time = Timestamp::from_micros(number);
        let body = Body::Point(Point { value: Value::Int(number), quality: Quality::GOOD, time });
        Sample::new(time, Update { topic: Topic::new("a").unwrap(), body })
    }

    /// Records samples with notes that have their number.
    fn record(handle: &HistoryHandle, numbers: std::ops::Range<i64>) {
        let (told, receipts) = mpsc::channel();
        let count = numbers.clone().count();
        let noted = numbers.map(|number| {
            let told = told.clone();
            let receipt = Box::new(move |done| drop(told.send(done)));
            Noted { note: number.to_string().into_bytes(), samples: vec![sample(number), sample(-number)], receipt }
        });
        handle.submit_noted(noted.collect());
        for _ in 0..count {
            receipts.recv_timeout(PATIENCE).unwrap().unwrap();
        }
    }

    fn read(feed: &mut JournalFeed, from: Seq) -> Vec<i64> {
        let (mut found, upto) = (Vec::new(), feed.place().durable);
        feed.read(from, upto, |_, payload| {
            let Some(note) = note_of(payload) else { return true };
            let number: i64 = std::str::from_utf8(note).unwrap().parse().unwrap();
            assert_eq!(decode(payload).unwrap(), [sample(number), sample(-number)]);
            found.push(number);
            true
        })
        .unwrap();
        found
    }

    #[test]
    fn notes_are_there_with_their_samples_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, source) = open(folder.path());
        let mut feed = writer.feed(&source, true);
        record(writer.handle(), 1..20);
        assert_eq!(read(&mut feed, Seq(1)), (1..20).collect::<Vec<_>>());
        drop(writer);
        let (writer, source) = open(folder.path());
        let mut feed = writer.feed(&source, true);
        record(writer.handle(), 20..30);
        assert_eq!(read(&mut feed, Seq(1)), (1..30).collect::<Vec<_>>());
        let from = feed.opened().next();
        assert_eq!(read(&mut feed, from), (20..30).collect::<Vec<_>>());
    }

    #[test]
    fn the_journal_keeps_what_a_feed_wants_and_lets_go_of_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, source) = open(folder.path());
        let mut feed = writer.feed(&source, true);
        for start in 0..8 {
            record(writer.handle(), 1 + start * 100..101 + start * 100);
        }
        let last = feed.place().durable;
        assert!(writer.handle().wait_stored(last, PATIENCE));
        assert_eq!(read(&mut feed, Seq(1)).len(), 800);
        feed.want(last.next());
        let watch = feed.watch();
        let start = std::time::Instant::now();
        while feed.place().first <= Seq(400) {
            assert!(start.elapsed() < PATIENCE, "{:?}", feed.place());
            record(writer.handle(), 900..901);
            let _ = watch.wait(feed.place().durable, PATIENCE);
        }
        // What is gone is left out at the beginning.
        let place = feed.place();
        let mut first = None;
        let found = feed.read(Seq(1), place.durable, |seq, _| {
            first.get_or_insert(seq);
            false
        });
        assert_eq!(found.unwrap(), first.unwrap());
        assert!(first.unwrap() >= place.first);
    }
}
