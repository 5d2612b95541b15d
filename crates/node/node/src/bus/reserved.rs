//! Topics that only the node itself publishes to: those that begin with `$` and those of its devices; besides, those that
//! views derive (`Bus::derives`). A client that could write there could make a breaker look closed.

use crate::config::Numbered;
use std::collections::HashSet;
use tieline_core::Topic;

/// Who may not be spoken for.
#[derive(Debug, Default)]
pub struct Reserved {
    topics: HashSet<Topic>,
}

impl Reserved {
    /// The topics of the devices: their points, and all of them together.
    #[must_use]
    pub fn of(devices: &[Numbered]) -> Self {
        let topics = devices.iter().flat_map(|Numbered { config, .. }| {
            let names = config.points.iter().map(|point| point.name.as_str()).chain(["all"]);
            names.filter_map(|name| config.topic.join(name).ok())
        });
        Self { topics: topics.collect() }
    }

    /// Whether a client must not publish there.
    #[must_use]
    pub fn contains(&self, topic: &str) -> bool {
        topic.starts_with('$') || self.topics.contains(topic)
    }
}
