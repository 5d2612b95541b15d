//! What an edge says of its links: to its clients, to its own edges, and to operators.

use super::{Mirror, MirrorCounts};
use crate::bus::state::Bus;
use crate::edge::{EdgeCounters, LinkState, NODES_TOPIC, Nodes};
use std::sync::Arc;
use tieline_core::{Body, Filter, Now, Point, Quality, Timestamp, Topic, Value};
use tieline_topics::View;

/// How the links are together, as a point; below it, how each is.
pub(super) const STATE_TOPIC: &str = "$SYS/edge/state";

/// What is shown of an edge.
#[derive(Clone, Debug)]
pub struct MirrorSeen {
    /// What it is called here.
    pub name: Arc<str>,
    /// What its topics begin with here.
    pub prefix: String,
    /// How the link is, and since when.
    pub link: (LinkState, Timestamp),
    /// Filters that are wanted, and those that are asked for.
    pub filters: (usize, usize),
    /// Filters that the upstream refuses, and why.
    pub refused: Vec<(Filter, String)>,
    /// Values.
    pub counts: MirrorCounts,
    /// What its thread counts.
    pub counters: Arc<EdgeCounters>,
}

impl Bus {
    /// Publishes from which nodes the values here are, for the edges of this node.
    pub(super) fn publish_nodes(&mut self, now: Now, up: usize, nodes: Nodes) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        mirror.above = nodes;
        let said = Nodes::said(&mirror.node.clone(), self.mirrors.iter().map(|mirror| &mirror.above));
        if let Ok(topic) = Topic::new(NODES_TOPIC) {
            self.apply_value(now, topic, Body::Opaque(said.to_json().to_string().into()), true);
        }
    }

    /// Publishes how a link is, and how all are: as the one that needs to be seen to most.
    pub(super) fn publish_link(&mut self, now: Now, up: usize) {
        let Some(mirror) = self.mirrors.get(up) else { return };
        let one = (format!("$SYS/edge/{}/state", mirror.name), state_point(mirror));
        let Some(worst) = self.mirrors.iter().max_by_key(|mirror| mirror.link.gravity()) else { return };
        for (topic, point) in [one, (STATE_TOPIC.to_owned(), state_point(worst))] {
            let is_said = |view: View<'_>| matches!(view.body, Body::Point(said) if *said == point);
            if self.tree.get(&topic).is_some_and(is_said) {
                continue;
            }
            if let Ok(topic) = Topic::new(&topic) {
                self.apply_value(now, topic, Body::Point(point), true);
            }
        }
    }

    /// What is shown of the upstreams.
    #[must_use]
    pub fn mirrors_seen(&self) -> Vec<MirrorSeen> {
        let seen = |mirror: &Mirror| MirrorSeen {
            name: Arc::clone(&mirror.name),
            prefix: mirror.prefix.as_str().to_owned(),
            link: (mirror.link.clone(), mirror.since),
            filters: mirror.wants.counts(),
            refused: mirror.refused.iter().map(|(filter, why)| (filter.clone(), why.clone())).collect(),
            counts: mirror.counts(),
            counters: Arc::clone(&mirror.handle.counters),
        };
        self.mirrors.iter().map(seen).collect()
    }
}

fn state_point(mirror: &Mirror) -> Point {
    let quality = match mirror.link {
        LinkState::Up { .. } => Quality::GOOD,
        LinkState::Connecting => Quality::INITIAL,
        LinkState::Circle { .. } | LinkState::Away { .. } => Quality::AWAY,
    };
    Point { value: Value::Text(mirror.link.name().into()), quality, time: mirror.since }
}
