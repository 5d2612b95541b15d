//! Topics that only the node itself publishes to: those that begin with `$`, those of its devices, and those that views
//! derive. A client that
//! could write there could make a breaker look closed.

use crate::field::Numbered;
use std::collections::HashSet;
use tieline_core::{Filter, Topic};
use tieline_views::View;

/// Who may not be spoken for.
#[derive(Debug, Default)]
pub struct Reserved {
    topics: HashSet<Topic>,
    derived: Vec<Filter>,
}

impl Reserved {
    /// The topics of the devices: their points, and all of them together.
    #[must_use]
    pub fn of(devices: &[Numbered]) -> Self {
        let topics = devices.iter().flat_map(|Numbered { config, .. }| {
            let names = config.points.iter().map(|point| point.name.as_str()).chain(["all"]);
            names.filter_map(|name| config.topic.join(name).ok())
        });
        Self { topics: topics.collect(), derived: Vec::new() }
    }

    /// With those that views derive.
    #[must_use]
    pub fn with_views(self, views: &[View]) -> Self {
        Self { derived: views.iter().filter_map(|view| view.to.reach()).collect(), ..self }
    }

    /// Whether a client must not publish there.
    #[must_use]
    pub fn contains(&self, topic: &str) -> bool {
        topic.starts_with('$') || self.topics.contains(topic) || self.derived.iter().any(|filter| filter.matches(topic))
    }
}
