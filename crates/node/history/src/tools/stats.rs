//! What a history takes on the disk, topic by topic.

use super::rules::RuleStats;
use crate::columns::reader::HistoryReader;
use crate::store_thread::utc;
use std::collections::{BTreeMap, HashMap};
use tieline_core::{Filter, Storage, StorageErrorKind, Timestamp, Topic};
use tieline_store::{EditCounts, FileRow, StoreError, TopicSums, file_name};

/// What a topic takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Samples in chunks and day files.
    pub samples: u64,
    /// Chunks, and parts of day files.
    pub chunks: u64,
    /// Bytes of the chunks, and the topic's share of day files.
    pub bytes: u64,
    /// Samples that are in memory or in the journal, and may be in no chunk yet.
    pub waiting: u64,
    /// Samples of chunks whose file is lost or ends before them.
    pub damaged: u64,
    /// Edits and annotations that are not undone.
    pub edits: u64,
    /// The times of the first and the last sample, those that edits add among them.
    pub span: Option<(Timestamp, Timestamp)>,
}

/// What a history takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryStats {
    /// The largest topics, the largest first.
    pub topics: Vec<(Topic, Taken)>,
    /// How many topics the filter selects.
    pub topic_count: u64,
    /// What they take together.
    pub total: Taken,
    /// Files of chunks, of all topics.
    pub files: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Day files, of all topics.
    pub day_files: u64,
    /// Bytes of these files.
    pub day_file_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Edits and annotations of all topics.
    pub edits: EditCounts,
    /// The rules of retention, in their order, with that of all other topics; none where there are no rules.
    pub rules: Vec<RuleStats>,
}

impl HistoryReader {
    /// What the topics that a filter selects take; of each the `limit` largest.
    ///
    /// # Errors
    /// A file failed.
    pub fn stats(&self, filter: &Filter, limit: usize) -> Result<HistoryStats, StoreError> {
        let mut stats =
            HistoryStats { index_bytes: self.index.bytes()?, edits: self.edit_counts()?, ..HistoryStats::default() };
        let (mut storage, mut damaged) = (self.files(), HashMap::<u32, u64>::new());
        for row in self.index.files()? {
            let FileRow { number, bytes, day } = row.row;
            let length = match storage.len(&file_name(number, day)) {
                Ok(length) => length,
                Err(error) if error.kind == StorageErrorKind::Missing => 0,
                Err(error) => return Err(error.into()),
            };
            let (files, all) = match day {
                None => (&mut stats.files, &mut stats.file_bytes),
                Some(_) => (&mut stats.day_files, &mut stats.day_file_bytes),
            };
            *files += 1;
            *all += length;
            if length < bytes {
                for (topic, samples) in self.index.samples_beyond(row.row, length)? {
                    *damaged.entry(topic).or_default() += samples;
                }
            }
        }
        let mut topics: BTreeMap<Topic, Taken> = BTreeMap::new();
        let waiting = self.waiting();
        let known = self.index.topics(filter)?;
        stats.rules = self.rule_stats(&known, utc())?;
        for (number, topic) in known {
            let TopicSums { chunks, samples, bytes, span } = self.index.sums(number)?;
            let damaged = damaged.get(&number).copied().unwrap_or_default();
            let mut taken = Taken { samples, chunks, bytes, damaged, span, waiting: 0, edits: 0 };
            taken.add(waiting.get(&number).copied().unwrap_or_default());
            topics.insert(topic, taken);
        }
        if !self.is_live() {
            for (topic, column) in self.journaled(std::slice::from_ref(filter))? {
                topics.entry(topic).or_default().add(Taken::waiting(column.len() as u64, column.ends()));
            }
        }
        let edits = self.edits()?;
        for (topic, count, span) in edits.all().filter(|(topic, ..)| filter.matches(topic)) {
            topics.entry(topic.clone()).or_default().add(Taken { edits: count, span, ..Taken::default() });
        }
        topics.retain(|_, taken| taken.samples + taken.waiting + taken.edits > 0);
        stats.topic_count = topics.len() as u64;
        topics.values().for_each(|taken| stats.total.add(*taken));
        stats.topics = topics.into_iter().collect();
        stats.topics.sort_by_key(|(_, taken)| std::cmp::Reverse((taken.bytes, taken.samples + taken.waiting)));
        stats.topics.truncate(limit);
        Ok(stats)
    }
}

impl Taken {
    /// Samples that may be in no chunk.
    pub(crate) const fn waiting(samples: u64, span: Option<(Timestamp, Timestamp)>) -> Self {
        Self { samples: 0, chunks: 0, bytes: 0, waiting: samples, damaged: 0, edits: 0, span }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.waiting += other.waiting;
        self.damaged += other.damaged;
        self.edits += other.edits;
        self.span = match (self.span, other.span) {
            (Some((first, last)), Some((others_first, others_last))) => {
                Some((first.min(others_first), last.max(others_last)))
            }
            (one, other) => one.or(other),
        };
    }
}
