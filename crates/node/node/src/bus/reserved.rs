//! Topics that only the node itself publishes to: those that begin with `$`, but for replays, and those of its devices; besides, those that
//! views derive (`Bus::derives`). A client that could write there could make a breaker look closed.

use crate::config::{DeviceConfig, Numbered};
use std::collections::HashSet;
use tieline_core::Topic;

/// Replays are published below it, by clients that may. Values go with the session that published them.
pub const REPLAY_PREFIX: &str = "$replay/";

/// Who may not be spoken for.
#[derive(Clone, Debug, Default)]
pub struct Reserved {
    topics: HashSet<Topic>,
}

impl Reserved {
    /// The topics of the devices: their points, all of them together, and what is told of the devices themselves.
    #[must_use]
    pub fn of<'a>(devices: impl IntoIterator<Item = &'a Numbered>) -> Self {
        Self { topics: devices.into_iter().flat_map(|device| topics_of(&device.config, true, true)).collect() }
    }

    /// Those of them that have values.
    #[must_use]
    pub fn published<'a>(devices: impl IntoIterator<Item = &'a Numbered>) -> Self {
        let published =
            |Numbered { config, .. }: &'a Numbered| topics_of(config, config.publish_points, config.publish_all);
        Self { topics: devices.into_iter().flat_map(published).collect() }
    }

    /// With those of others.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.topics.extend(other.topics.iter().cloned());
        self
    }

    /// Whether a device has the topic.
    #[must_use]
    pub fn is_of_device(&self, topic: &str) -> bool {
        self.topics.contains(topic)
    }

    /// Whether a client must not publish there.
    #[must_use]
    pub fn contains(&self, topic: &str) -> bool {
        (topic.starts_with('$') && !topic.starts_with(REPLAY_PREFIX)) || self.topics.contains(topic)
    }
}

/// The topics of a device; those of its points, and of all of them together, where they are wanted.
fn topics_of(config: &DeviceConfig, points: bool, all: bool) -> impl Iterator<Item = Topic> {
    let named = if points { &*config.points } else { &[] };
    let names = named.iter().map(|point| point.name.as_str()).chain(all.then_some("all"));
    let own = names.filter_map(|name| config.topic.join(name).ok());
    let system = |leaf| Topic::new(&format!("$SYS/devices/{}/{leaf}", config.topic)).ok();
    own.chain(["state", "stats"].into_iter().filter_map(system))
}
