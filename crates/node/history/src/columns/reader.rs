//! Reads a history: of this process, or of a folder, whether a node runs on it or not.

use super::folder_of;
use super::live::Live;
use super::question::HistoryQuery;
use super::rows::Rows;
use crate::store_thread::entry_of;
use crate::tools::stats::Taken;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Topic};
use tieline_journal::{Item, Reader, Seq, decode};
use tieline_series::{Chunk, Column, Sample};
use tieline_store::{ChunkRow, FolderStorage, INDEX_FILE, IndexReader, JOURNAL_FOLDER, StoreError, read_chunk};

/// Where a history is, and its samples that are in no chunk yet. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HistorySource {
    data: PathBuf,
    live: Live,
}

impl HistorySource {
    /// The history of a data folder.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_path_buf(), live: Live::default() }
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) const fn live(&self) -> &Live {
        &self.live
    }

    /// Opens the history to read it.
    ///
    /// # Errors
    /// There is none, or it was written by a newer release, or it cannot be opened.
    pub fn reader(&self) -> Result<HistoryReader, StoreError> {
        let index = IndexReader::open(&folder_of(&self.data).join(INDEX_FILE))?;
        Ok(HistoryReader { data: self.data.clone(), live: self.live.clone(), index })
    }
}

/// The reading side of a history; one a thread.
pub struct HistoryReader {
    data: PathBuf,
    live: Live,
    pub(crate) index: IndexReader,
}

/// What became of a chunk that was to be read.
pub(crate) enum Read {
    /// Its samples.
    Whole(Box<Chunk>, Arc<Column>),
    /// It was removed.
    Gone,
    /// It cannot be read; why.
    Damaged(String),
}

/// Samples by topic.
pub(crate) type Columns = BTreeMap<Topic, Arc<Column>>;

impl HistoryReader {
    /// Opens the history of a data folder.
    ///
    /// # Errors
    /// There is none, or it was written by a newer release, or it cannot be opened.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        HistorySource::new(data).reader()
    }

    /// The topics that have a history, by name.
    ///
    /// # Errors
    /// A file failed.
    pub fn topics(&self, filter: &Filter) -> Result<Vec<Topic>, StoreError> {
        let mut topics: Vec<Topic> = self.index.topics(filter)?.into_iter().map(|(_, topic)| topic).collect();
        if !self.live.is_open() {
            topics.extend(self.journaled(filter)?.into_keys());
            topics.sort();
            topics.dedup();
        }
        Ok(topics)
    }

    /// Answers a question. The rows come as they are read; samples that are stored or removed meanwhile may be in the
    /// answer or not.
    ///
    /// # Errors
    /// The question is none, or a file failed.
    pub fn query(&self, query: HistoryQuery) -> Result<Rows<'_>, StoreError> {
        Rows::new(self, query)
    }

    pub(crate) fn files(&self) -> FolderStorage {
        FolderStorage::reading(&folder_of(&self.data))
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.is_open()
    }

    /// The samples of a topic that a store of this process has in memory; none where none is open.
    pub(super) fn unwritten(&self, topic: u32) -> Option<Vec<Arc<Column>>> {
        self.live.columns(topic)
    }

    /// What a store of this process has in memory, by the number of the topic; nothing where none is open.
    pub(crate) fn waiting(&self) -> HashMap<u32, Taken> {
        self.live.with(|heads| {
            let mut waiting = HashMap::<u32, Taken>::new();
            for (topic, column) in heads.all() {
                waiting.entry(topic).or_default().add(Taken::waiting(column.len() as u64, column.span()));
            }
            waiting
        })
    }

    /// Reads a chunk that the index has.
    pub(crate) fn read(&self, files: &mut FolderStorage, row: &ChunkRow) -> Result<Read, StoreError> {
        let found = match read_chunk(files, row.extent)? {
            Some(bytes) => Chunk::parse(&bytes.into()).and_then(|chunk| Ok((chunk.samples()?, chunk))),
            None => return self.unless_gone(row, "its bytes are not there".to_owned()),
        };
        match found {
            Ok((column, chunk)) if (chunk.first, chunk.last) == (row.first, row.last) => {
                Ok(Read::Whole(Box::new(chunk), Arc::new(column)))
            }
            Ok(_) => self.unless_gone(row, "it is another chunk than the index says".to_owned()),
            Err(error) => self.unless_gone(row, error.to_string()),
        }
    }

    /// What cannot be read may have been removed since, by retention.
    fn unless_gone(&self, row: &ChunkRow, why: String) -> Result<Read, StoreError> {
        const MICROSECOND: Duration = Duration::from_micros(1);
        let there = self.index.chunks(row.topic, row.first, row.first.later(MICROSECOND))?;
        Ok(if there.iter().all(|other| other.extent != row.extent) { Read::Gone } else { Read::Damaged(why) })
    }

    /// Samples that the journal has and the index may not: those of records behind its position. Records that are let go of meanwhile
    /// are in the index by then.
    pub(crate) fn journaled(&self, filter: &Filter) -> Result<Columns, StoreError> {
        const END: Seq = Seq(u64::MAX - 1);
        let position = Seq(self.index.position()?);
        let mut reader = Reader::new(FolderStorage::reading(&self.data.join(JOURNAL_FOLDER)), position.next());
        let mut columns: BTreeMap<Topic, Column> = BTreeMap::new();
        loop {
            let samples = match reader.next(END) {
                Ok(Some(Item::Record { payload, .. })) => decode(payload).unwrap_or_default(),
                Ok(Some(Item::Lost(lost))) if lost.first.0.saturating_add(lost.records) > END.0 => break,
                Ok(Some(Item::Lost(_))) => continue,
                Ok(None) => break,
                Err(error) if error.kind == tieline_core::StorageErrorKind::Missing => break,
                Err(error) => return Err(error.into()),
            };
            for entry in samples.into_iter().map(|sample| entry_of(Seq(0), sample)) {
                if filter.matches(&entry.topic) {
                    columns.entry(entry.topic).or_default().push(Sample::new(entry.time, &entry.body));
                }
            }
        }
        let settled = columns.into_iter().map(|(topic, mut column)| {
            column.settle();
            (topic, Arc::new(column))
        });
        Ok(settled.collect())
    }
}
