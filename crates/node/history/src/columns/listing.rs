//! The topics that are asked for, and what the journal has of them where no store of this process has it.

use super::reader::{Columns, HistoryReader};
use std::sync::Arc;
use tieline_core::{Filter, Topic};
use tieline_series::Column;
use tieline_store::StoreError;

/// A topic that has a history.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub topic: Topic,
    /// Its number in the index; none where only the journal has it, or an edit adds samples.
    pub number: Option<u32>,
}

/// Samples that are in the journal and in no store of this process.
#[derive(Clone)]
pub(super) struct Journaled {
    filters: Arc<[Filter]>,
    columns: Option<Arc<Columns>>,
}

/// The topics that one of the filters selects and that are meant, in the order of their names.
pub(super) fn list(
    reader: &HistoryReader,
    filters: &[Filter],
    is_meant: impl Fn(&str) -> bool,
) -> Result<(Vec<Recorded>, Journaled), StoreError> {
    let mut topics = Vec::new();
    for filter in filters {
        let indexed = reader.index.topics_where(filter, &is_meant)?;
        topics.extend(indexed.into_iter().map(|(number, topic)| Recorded { topic, number: Some(number) }));
    }
    let edits = reader.edits()?;
    let adding = edits.adding().map(|(topic, _)| topic);
    let adding = adding.filter(|topic| is_meant(topic) && filters.iter().any(|filter| filter.matches(topic)));
    topics.extend(adding.map(|topic| Recorded { topic: topic.clone(), number: None }));
    let columns = if reader.is_live() { None } else { Some(Arc::new(reader.journaled(filters)?)) };
    let fresh = columns.iter().flat_map(|columns| columns.keys()).filter(|topic| is_meant(topic));
    topics.extend(fresh.map(|topic| Recorded { topic: topic.clone(), number: None }));
    // Of two of a name, the one with a number stays.
    topics.sort_by(|one, other| one.topic.cmp(&other.topic).then(other.number.cmp(&one.number)));
    topics.dedup_by(|one, other| one.topic == other.topic);
    Ok((topics, Journaled { filters: filters.into(), columns }))
}

impl Journaled {
    /// No samples.
    pub fn none() -> Self {
        Self { filters: Arc::new([]), columns: None }
    }

    /// Whether the samples are from the journal.
    pub fn is_read(&self) -> bool {
        self.columns.is_some()
    }

    /// Reads the journal, as the store that was open was closed since.
    pub fn read(&mut self, reader: &HistoryReader) -> Result<(), StoreError> {
        if self.columns.is_none() {
            self.columns = Some(Arc::new(reader.journaled(&self.filters)?));
        }
        Ok(())
    }

    /// The samples of a topic.
    pub fn of(&self, topic: &Topic) -> Vec<Arc<Column>> {
        self.columns.as_ref().and_then(|columns| columns.get(topic)).cloned().into_iter().collect()
    }
}
