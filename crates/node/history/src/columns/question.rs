//! What is asked of a history.

use std::time::Duration;
use tieline_core::{Filter, Timestamp};
use tieline_series::Aggregate;
use tieline_store::{Place, StoreError};

/// A question. Topics are answered one after the other, in the order of their names; within a topic the oldest first.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Which topics.
    pub topics: Filter,
    /// Not before this.
    pub from: Option<Timestamp>,
    /// Before this.
    pub to: Option<Timestamp>,
    /// Buckets of this width, aligned to 1970; none asks for the samples themselves.
    pub every: Option<Duration>,
    /// What stands for a bucket. A bucket without samples has no row.
    pub aggregate: Aggregate,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Goes on behind this row of an earlier answer to the same question.
    pub after: Option<Place>,
}

impl HistoryQuery {
    /// All samples of the topics.
    #[must_use]
    pub const fn of(topics: Filter) -> Self {
        Self { topics, from: None, to: None, every: None, aggregate: Aggregate::Mean, limit: None, after: None }
    }

    /// The width of buckets in microseconds.
    pub(super) fn every_micros(&self) -> Result<Option<i64>, StoreError> {
        let Some(every) = self.every else { return Ok(None) };
        match i64::try_from(every.as_micros()) {
            Ok(micros) if micros > 0 => Ok(Some(micros)),
            Ok(_) | Err(_) => Err(StoreError::Question("the width of buckets is out of range")),
        }
    }
}
