//! What is asked of a history.

use super::fill::Fill;
use crate::calendar::Buckets;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Timestamp, Words};
use tieline_series::{Aggregate, Grid};
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

impl Words for Order {
    const WORDS: &'static [(&'static str, Self)] = &[("topic", Self::Topic), ("time", Self::Time)];
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
    /// Buckets that begin at these times, ascending, in place of such of one width: those of a calendar.
    pub starts: Option<Arc<[Timestamp]>>,
    /// What stands for a bucket without samples; other than [`Fill::None`] it needs `from` and `to`.
    pub fill: Fill,
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
        let (aggregate, order, fill) = (Aggregate::Mean, Order::Topic, Fill::None);
        let (from, to, every, starts, limit, after) = (None, None, None, None, None, None);
        Self { topics, from, to, every, starts, fill, aggregate, order, limit, after }
    }

    /// The same in buckets. Those of a calendar, and those that are filled, end at `end`.
    #[must_use]
    pub fn in_buckets(mut self, buckets: Buckets, end: Timestamp) -> Self {
        let is_open = matches!(buckets, Buckets::Every(_)) && self.fill == Fill::None;
        match buckets {
            Buckets::Every(width) => self.every = Some(width),
            Buckets::Starts(starts) => self.starts = Some(starts.into()),
        }
        self.to = self.to.or_else(|| (!is_open).then_some(end));
        self
    }

    /// Where buckets begin; none where samples are asked for.
    pub(super) fn grid(&self) -> Result<Option<Grid>, StoreError> {
        if self.fill != Fill::None && (self.from.is_none() || self.to.is_none()) {
            return Err(StoreError::Question("buckets without samples have rows only between two times"));
        }
        if matches!(self.fill, Fill::Previous | Fill::Linear) && self.after.is_some() {
            return Err(StoreError::Question("buckets without samples are filled from the first row on"));
        }
        if let Some(starts) = &self.starts {
            return Ok(Some(Grid::Starts(starts.to_vec())));
        }
        let Some(every) = self.every else { return Ok(None) };
        match i64::try_from(every.as_micros()) {
            Ok(micros) if micros > 0 => Ok(Some(Grid::Every(micros))),
            Ok(_) | Err(_) => Err(StoreError::Question("the width of buckets is out of range")),
        }
    }
}
