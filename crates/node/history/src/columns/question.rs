//! What is asked of a history.

use std::time::Duration;
use tieline_core::{Filter, Timestamp};
use tieline_series::Aggregate;
use tieline_store::{Place, StoreError};

/// In which order rows come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Topic by topic, in the order of their names; within a topic the oldest first.
    #[default]
    Topic,
    /// The oldest first, those of one time by topic. For samples, not for buckets.
    Time,
}

impl Order {
    /// Every order with its word in questions.
    pub const ALL: [(&'static str, Self); 2] = [("topic", Self::Topic), ("time", Self::Time)];
}

/// A question.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Which topics: those that one of these selects.
    pub topics: Vec<Filter>,
    /// Not before this.
    pub from: Option<Timestamp>,
    /// Before this.
    pub to: Option<Timestamp>,
    /// Buckets of this width, aligned to 1970; none asks for the samples themselves.
    pub every: Option<Duration>,
    /// What stands for a bucket. A bucket without samples has no row.
    pub aggregate: Aggregate,
    /// In which order.
    pub order: Order,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Goes on behind this row of an earlier answer to the same question.
    pub after: Option<Place>,
}

impl HistoryQuery {
    /// All samples of the topics.
    #[must_use]
    pub fn of(topics: Filter) -> Self {
        Self::of_several(vec![topics])
    }

    /// The same of several filters.
    #[must_use]
    pub const fn of_several(topics: Vec<Filter>) -> Self {
        let (aggregate, order) = (Aggregate::Mean, Order::Topic);
        Self { topics, from: None, to: None, every: None, aggregate, order, limit: None, after: None }
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
