//! Reads a history: of this process, or of a folder, whether a node runs on it or not.

use super::folder_of;
use super::instant::Latest;
use super::listing::list;
use super::live::{ColumnsOf, Live};
use super::policy::Cutoffs;
use super::question::HistoryQuery;
use super::rows::Rows;
use super::source::Loader;
use super::state_rows::States;
use crate::edits::{self, ActiveEdits, EditError, EditLimits};
use crate::store::Rule;
use crate::store_thread::entry_of;
use crate::tools::stats::Taken;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_core::{Filter, Timestamp, Topic};
use tieline_journal::{Item, Reader, Seq, decode};
use tieline_series::{Column, Sample};
use tieline_store::{
    ChunkRow, EditCounts, EditKind, EditQuery, EditRecord, Ended, FolderStorage, INDEX_FILE, IndexReader,
    JOURNAL_FOLDER, NewEdit, StoreError, history_files,
};

/// Where a history is, and its samples that are in no chunk yet. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HistorySource {
    data: PathBuf,
    live: Live,
    edit_limits: EditLimits,
}

impl HistorySource {
    /// The history of a data folder.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_path_buf(), live: Live::default(), edit_limits: EditLimits::default() }
    }

    /// The same, with limits of edits.
    #[must_use]
    pub fn with_edit_limits(self, edit_limits: EditLimits) -> Self {
        Self { edit_limits, ..self }
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Gives the rules by which samples are removed and down-sampled; they take effect within seconds. The first that matches a topic
    /// counts.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        self.live.set_rules(rules.into());
    }

    pub(crate) const fn live(&self) -> &Live {
        &self.live
    }

    /// Opens the history to read it.
    ///
    /// # Errors
    /// There is none, or it was written by a newer release, or it cannot be opened.
    pub fn reader(&self) -> Result<HistoryReader, StoreError> {
        let path = folder_of(&self.data).join(INDEX_FILE);
        if !path.exists() && !history_files(&mut FolderStorage::reading(&folder_of(&self.data)))?.is_empty() {
            return Err(StoreError::Damaged(super::INDEX_IS_LOST.to_owned()));
        }
        let index = IndexReader::open(&path)?;
        Ok(HistoryReader { data: self.data.clone(), live: self.live.clone(), index, is_raw: false })
    }

    /// Makes an edit or an annotation, durably; readers that begin from here on show it. The caller is the process that writes the
    /// history, or holds the lock of its folder.
    ///
    /// # Errors
    /// It is none, there are enough, the topic has no history, or a file failed.
    pub fn make_edit(&self, new: NewEdit) -> Result<EditRecord, EditError> {
        let changes = matches!(new.kind, EditKind::Value | EditKind::Quality | EditKind::Exclude);
        if changes
            && let Some(alone) = edits::alone(&new.topic)
            && self.reader()?.topics(&alone)?.is_empty()
        {
            return Err(EditError::Wrong(format!("{} has no history, expected a topic that has", new.topic)));
        }
        self.live.edits().make(&self.data, new, self.edit_limits)
    }

    /// Ends an edit or an annotation, durably. It stays in the list of edits.
    ///
    /// # Errors
    /// There is none, it is undone already, or a file failed.
    pub fn undo_edit(&self, id: u64, end: Ended) -> Result<EditRecord, EditError> {
        self.live.edits().undo(&self.data, id, end)
    }

    /// Takes an edit or an annotation of the leader of a core, as its log has it, into the history of a standby.
    ///
    /// # Errors
    /// It is none, or a file failed.
    pub fn take_edit(&self, row: &[u8]) -> Result<(), StoreError> {
        self.live.edits().take(&self.data, row).map_err(edits::of_edits)
    }

    /// An edit or an annotation.
    ///
    /// # Errors
    /// A file failed.
    pub fn edit(&self, id: u64) -> Result<Option<EditRecord>, StoreError> {
        edits::get(&self.data, id)
    }

    /// A page of edits and annotations, the newest first, and the number to go on before; none where there are no more.
    ///
    /// # Errors
    /// A file failed.
    pub fn edits(&self, query: &EditQuery) -> Result<(Vec<EditRecord>, Option<u64>), StoreError> {
        edits::page(&self.data, query)
    }

    /// How many edits and annotations are not undone, and how many were refused because there were enough.
    #[must_use]
    pub fn edit_counters(&self) -> (u64, u64) {
        self.live.edits().counters(&self.data)
    }

    /// How many of some samples are older than what is kept, as it was last looked at: they are never shown.
    #[must_use]
    pub fn too_old(&self, samples: &[tieline_journal::Sample]) -> usize {
        let cutoffs = self.live.cutoffs();
        samples.iter().filter(|sample| cutoffs.of(&sample.update.topic) > Some(sample.time)).count()
    }

    /// What changes answers now.
    ///
    /// # Errors
    /// A file failed.
    pub(crate) fn active_edits(&self) -> Result<Arc<ActiveEdits>, StoreError> {
        self.live.edits().active(&self.data)
    }
}

/// The reading side of a history; one a thread.
pub struct HistoryReader {
    data: PathBuf,
    live: Live,
    pub(crate) index: IndexReader,
    is_raw: bool,
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

    /// The same, without edits where it is to be raw: what was recorded.
    #[must_use]
    pub fn or_raw(self, is_raw: bool) -> Self {
        Self { is_raw, ..self }
    }

    /// Another reader of the same history, for another thread.
    pub(super) fn another(&self) -> Result<Self, StoreError> {
        let index = IndexReader::open(&self.path_of(INDEX_FILE))?;
        Ok(Self { data: self.data.clone(), live: self.live.clone(), index, is_raw: self.is_raw })
    }

    /// The edits that change answers; none in the raw history.
    ///
    /// # Errors
    /// Their file failed.
    pub(crate) fn edits(&self) -> Result<Arc<ActiveEdits>, StoreError> {
        if self.is_raw { Ok(Arc::default()) } else { self.live.edits().active(&self.data).map_err(edits::of_edits) }
    }

    /// How many edits and annotations there are.
    pub(crate) fn edit_counts(&self) -> Result<EditCounts, StoreError> {
        edits::counts(&self.data)
    }

    /// The data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The topics that have a history, by name.
    ///
    /// # Errors
    /// A file failed.
    pub fn topics(&self, filter: &Filter) -> Result<Vec<Topic>, StoreError> {
        let (topics, _) = list(self, std::slice::from_ref(filter), |_| true)?;
        Ok(topics.into_iter().map(|recorded| recorded.topic).collect())
    }

    /// Answers a question. The rows come as they are read; samples that are stored or removed meanwhile may be in the
    /// answer or not.
    ///
    /// # Errors
    /// The question is none, or a file failed.
    pub fn query(&self, query: HistoryQuery) -> Result<Rows<'_>, StoreError> {
        Rows::new(self, query)
    }

    /// Answers what the last sample of each topic was at an instant: the last one not behind it, with its quality, of topics that
    /// have one and are meant, in the order of their names. Of samples of one time it is the one that came last.
    ///
    /// # Errors
    /// A file failed.
    pub fn at(
        &self,
        filter: &Filter,
        time: Timestamp,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Latest<'_>, StoreError> {
        Latest::new(self, std::slice::from_ref(filter), time, is_meant)
    }

    /// Answers how long each topic was in each state between two times, in all or in buckets. A state stands until the next sample,
    /// and the last one until the end; after a bad sample it is unknown.
    ///
    /// # Errors
    /// The question is none, a topic has too many states, or a file failed.
    pub fn states(&self, query: HistoryQuery) -> Result<States<'_>, StoreError> {
        States::new(self, query)
    }

    pub(crate) fn loader(&self) -> Loader {
        Loader::new(&self.data)
    }

    pub(crate) fn files(&self) -> FolderStorage {
        FolderStorage::reading(&folder_of(&self.data))
    }

    /// A file of the history.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        folder_of(&self.data).join(name)
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

    /// Whether a chunk is where the index said: it may have been removed since, or be in another file.
    pub(crate) fn is_there(&self, row: &ChunkRow) -> Result<bool, StoreError> {
        let there = self.index.chunks(row.topic, row.first, row.first.later(super::MICROSECOND))?;
        Ok(there.iter().any(|other| other.extent == row.extent))
    }

    /// From where on samples are shown.
    pub(crate) fn cutoffs(&self) -> Arc<Cutoffs> {
        self.live.cutoffs()
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.is_open()
    }

    /// The samples of a topic from a time on that a store of this process has in memory; none where none is open.
    pub(super) fn unwritten(&self, topic: u32, from: Timestamp) -> Option<Vec<Arc<Column>>> {
        self.live.columns(topic, from)
    }

    /// Whether a chunk may have samples of a topic from a time on, as heads said that were read before.
    pub(super) fn may_be_written(&self, topic: u32, from: Timestamp) -> bool {
        self.live.may_be_written(topic, from)
    }

    /// The samples of several topics that a store of this process has in memory, where a sample is not behind a time.
    pub(super) fn unwritten_of(&self, topics: &[u32], time: Timestamp) -> Option<ColumnsOf> {
        self.live.columns_of(topics, time)
    }

    /// Samples that the journal has and the index may not: those of records behind its position. Records that are let go of meanwhile
    /// are in the index by then.
    pub(crate) fn journaled(&self, filters: &[Filter]) -> Result<Columns, StoreError> {
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
                if filters.iter().any(|filter| filter.matches(&entry.topic)) {
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
