//! The newest values of sites on their way to the bus: of each topic one, so that a bus that is busy costs no memory.

use super::SitesNews;
use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use tieline_core::{Body, Timestamp, Topic};

/// Values of one report.
const REPORT_MAX: usize = 512;
/// Room for so many is kept where nothing waits.
const ROOM_KEPT: usize = 4096;

/// What waits.
#[derive(Debug, Default)]
pub struct Values {
    /// States and system topics, which go first.
    others: VecDeque<SitesNews>,
    values: HashMap<Topic, (Arc<str>, Timestamp, Body)>,
}

impl Values {
    /// A value; one that is older than what waits is left out.
    pub fn put(&mut self, site: &Arc<str>, topic: Topic, time: Timestamp, body: Body) {
        let waits = self.values.entry(topic).or_insert_with(|| (Arc::clone(site), time, Body::empty()));
        if waits.1 <= time {
            *waits = (Arc::clone(site), time, body);
        }
    }

    /// Something else.
    pub fn push(&mut self, news: SitesNews) {
        self.others.push_back(news);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.others.is_empty() && self.values.is_empty()
    }

    /// What goes next.
    pub fn take(&mut self) -> Vec<SitesNews> {
        let mut taken: Vec<_> = self.others.drain(..).collect();
        let topics: Vec<Topic> = self.values.keys().take(REPORT_MAX).cloned().collect();
        taken.extend(topics.into_iter().filter_map(|topic| {
            let (site, time, body) = self.values.remove(&topic)?;
            Some(SitesNews::Value { site, topic, time, body })
        }));
        if self.values.is_empty() {
            self.values.shrink_to(ROOM_KEPT);
        }
        taken
    }
}
