//! The log of a core with standbys: what a record of a journal is there before it is here.

use std::any::Any;
use std::sync::Arc;

/// Which journal a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaKind {
    /// That of history.
    History,
    /// None: commands go out that are in no journal; that this node may send them is what the log says.
    Commands,
    /// None: a small file of the data folder.
    File {
        /// Which.
        file: ReplicaFile,
        /// Whether the record is all that the file has; otherwise it is added to that.
        replaces: bool,
    },
    /// The ledger.
    Ledger {
        /// Whether a compaction begins in the record.
        begins: bool,
        /// Whether that compaction ends in it.
        ends: bool,
    },
}

/// A small file that all members of a core have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaFile {
    /// What control keeps over restarts, `control.jsonl`: further lines, or all of them.
    Control,
    /// The sites that may join a centre, `fabric/sites.json`: some of them, or all.
    Sites,
    /// Edits of the history, `history/edits.db`: a row that was made or changed.
    Edits,
    /// The audit log, `audit.jsonl`: further lines with their chain.
    Audit,
    /// What a database is known by, `databases/NAME.core`, and up to which place no journal need keep what is there.
    Databases,
}

/// A log that all members of a core have.
pub trait Replicate: Send + Sync {
    /// Appends a record and returns its place there. It blocks until the log has it, or never will from here.
    ///
    /// # Errors
    /// This node does not lead any longer; in words.
    fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String>;

    /// Appends a record of a file. A folder is as far as the places of its journals say, and a file has none: so no record behind this
    /// one gets its place before what is returned is dropped, which is once the file has the record. The same thread must not append
    /// another record before.
    ///
    /// # Errors
    /// This node does not lead any longer; in words.
    fn replicate_file(&self, file: ReplicaFile, replaces: bool, record: &[u8]) -> Result<Withheld, String> {
        self.replicate(ReplicaKind::File { file, replaces }, record).map(|_| Withheld::default())
    }

    /// Whether this node may still lead. It does not wait.
    fn leads(&self) -> bool {
        true
    }
}

/// What holds back the places of later records until it is dropped.
#[derive(Debug, Default)]
#[must_use = "the file must have the record before this is dropped"]
pub struct Withheld {
    _until: Option<Box<dyn Any + Send + Sync>>,
}

impl Withheld {
    /// One that is over when `until` is dropped.
    pub fn until(until: impl Any + Send + Sync) -> Self {
        Self { _until: Some(Box::new(until)) }
    }
}

/// What a journal that is replicated needs.
#[derive(Clone, Default)]
pub struct Replication {
    /// Has each record first; none where records come from there, or no log is used.
    pub log: Option<Arc<dyn Replicate>>,
    /// The place of the last record that the journal has; 0 before the first.
    pub place: u64,
}

/// A record that the log has.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its place.
    pub place: u64,
    /// The record, without it.
    pub record: Vec<u8>,
}

impl std::fmt::Debug for Replication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replication").field("leads", &self.log.is_some()).field("place", &self.place).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistoryOptions, HistorySource, HistoryWriter, NotRecorded};
    use bytes::Bytes;
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use tieline_core::{Body, Filter, Timestamp, Topic, Update};
    use tieline_journal::{Sample, decode, encode, find_last, place_of};
    use tieline_store::{EditKind, EditQuery, Ended, FolderStorage, JOURNAL_FOLDER, NewEdit};

    /// A log that takes so many records, and says what they were.
    struct Log(Mutex<(usize, Vec<Vec<u8>>)>);

    impl Replicate for Log {
        fn replicate(&self, kind: ReplicaKind, record: &[u8]) -> Result<u64, String> {
            let is_known = matches!(kind, ReplicaKind::History | ReplicaKind::File { file: ReplicaFile::Edits, .. });
            assert!(is_known, "{kind:?}");
            let mut log = self.0.lock().unwrap();
            if log.1.len() == log.0 {
                return Err("over".to_owned());
            }
            log.1.push(record.to_vec());
            Ok(100 * log.1.len() as u64)
        }
    }

    fn sample(number: i64) -> Sample {
        let (topic, body) = (Topic::new("a/b").unwrap(), Body::Opaque(Bytes::from(number.to_string())));
        Sample::new(Timestamp::from_micros(number), Update { topic, body })
    }

    fn open(folder: &Path, replication: Replication) -> HistoryWriter {
        let source = HistorySource::new(folder);
        HistoryWriter::open_replicated(&source, HistoryOptions::default(), Arc::new(|| true), replication).unwrap()
    }

    fn last_place(folder: &Path) -> Option<u64> {
        let mut storage = FolderStorage::open(&folder.join(JOURNAL_FOLDER)).unwrap();
        find_last(&mut storage, place_of).unwrap()
    }

    fn submit(writer: &HistoryWriter, number: i64) -> Result<(), NotRecorded> {
        let (told, done) = channel();
        writer.handle().submit(vec![sample(number)], Box::new(move |stored| told.send(stored).unwrap()));
        done.recv().unwrap().map(drop)
    }

    #[test]
    fn what_the_log_does_not_take_is_not_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log(Mutex::new((2, Vec::new()))));
        let writer = open(folder.path(), Replication { log: Some(Arc::<Log>::clone(&log)), place: 0 });
        assert_eq!([1, 2].map(|number| submit(&writer, number)), [Ok(()), Ok(())]);
        assert_eq!(submit(&writer, 3), Err(NotRecorded::Failed("over".to_owned())));
        let taken = log.0.lock().unwrap().1.clone();
        assert_eq!(taken.iter().map(|record| decode(record).unwrap()).collect::<Vec<_>>(), [[sample(1)], [sample(2)]]);
        drop(writer);
        assert_eq!(last_place(folder.path()), Some(200));
    }

    #[test]
    fn edits_are_in_the_log_before_they_are_here() {
        let [leader, standby] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let log = Arc::new(Log(Mutex::new((3, Vec::new()))));
        let source = HistorySource::new(leader.path());
        let replication = Replication { log: Some(Arc::<Log>::clone(&log)), place: 0 };
        let _writer =
            HistoryWriter::open_replicated(&source, HistoryOptions::default(), Arc::new(|| true), replication).unwrap();
        let (from, to) = (Timestamp::from_micros(0), Timestamp::from_micros(10));
        let note = |text: &str| NewEdit {
            topic: Topic::new("a/b").unwrap(),
            kind: EditKind::Annotation,
            from,
            to,
            value: None,
            quality: None,
            text: Some(text.to_owned()),
            who: "anna".to_owned(),
            made: to,
            why: "a test".to_owned(),
        };
        let end = Ended { who: "ben".to_owned(), time: to, why: "over".to_owned() };
        source.make_edit(note("one")).unwrap();
        source.make_edit(note("two")).unwrap();
        source.undo_edit(1, end.clone()).unwrap();
        // The log takes no more.
        assert!(source.make_edit(note("three")).is_err() && source.undo_edit(2, end).is_err());
        let other = HistorySource::new(standby.path());
        let _other = open(standby.path(), Replication::default());
        log.0.lock().unwrap().1.iter().for_each(|row| other.take_edit(row).unwrap());
        let all = EditQuery {
            topics: Filter::new("#").unwrap(),
            from: Timestamp::from_micros(i64::MIN),
            to: Timestamp::from_micros(i64::MAX),
            who: None,
            kind: None,
            active: None,
            before: None,
            limit: 10,
        };
        let (found, _) = other.edits(&all).unwrap();
        assert_eq!((found.len(), &found), (2, &source.edits(&all).unwrap().0));
        assert_eq!(other.edit_counters().0, 1);
    }

    #[test]
    fn a_record_of_the_log_is_recorded_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = 0;
        // The second time as after a restart, which reads the log again from an earlier place.
        for _ in 0..2 {
            let writer = open(folder.path(), Replication { log: None, place });
            let placed = [(10, 1), (20, 2)].map(|(place, number)| {
                let mut record = Vec::new();
                encode(&[sample(number)], &mut record);
                Placed { place, record }
            });
            let (told, done) = channel();
            writer.handle().submit_placed(placed.to_vec(), Box::new(move |stored| told.send(stored).unwrap()));
            let seq = done.recv().unwrap().unwrap();
            assert_eq!(seq.0, 2);
            drop(writer);
            place = last_place(folder.path()).unwrap();
            assert_eq!(place, 20);
        }
    }
}
