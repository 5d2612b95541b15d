//! The upstream of an edge in `/v1/status`, `/healthz` and `/metrics`.

use super::status::Seen;
use crate::bus::MirrorSeen;
use crate::edge::LinkState;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::Ordering;
use tieline_service::exposition::Exposition;

/// The link of an edge to its upstream
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Edge")]
pub(super) struct EdgeShown {
    /// `up` only while the upstream has let this node in
    #[schemars(extend("enum" = LinkState::NAMES))]
    state: &'static str,
    /// The upstream that is connected, or was tried last; empty before the first attempt has ended
    upstream: String,
    /// Why it is not up
    why: String,
    /// When the state began
    #[schemars(extend("format" = "date-time"))]
    since: String,
    /// Filters that clients of this node have
    filters: usize,
    /// Filters that are subscribed at the upstream
    asked: usize,
    /// Topics that have values of the upstream
    topics: usize,
    /// Of these, values from before the link was lost
    away: usize,
    /// Filters that the upstream refuses
    refused: Vec<RefusedShown>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct RefusedShown {
    filter: String,
    why: String,
}

impl EdgeShown {
    pub(super) fn of(seen: &MirrorSeen) -> Self {
        let (link, since) = &seen.link;
        let (upstream, why) = match link {
            LinkState::Connecting => (String::new(), String::new()),
            LinkState::Up { upstream } => (upstream.clone(), String::new()),
            LinkState::Circle { upstream, nodes } => (upstream.clone(), circle(nodes)),
            LinkState::Away { upstream, why } => (upstream.clone(), why.clone()),
        };
        let refused = seen.refused.iter();
        Self {
            state: link.name(),
            upstream,
            why,
            since: since.to_string(),
            filters: seen.filters.0,
            asked: seen.filters.1,
            topics: seen.counts.topics,
            away: seen.counts.away,
            refused: refused
                .map(|(filter, why)| RefusedShown { filter: filter.to_string(), why: why.clone() })
                .collect(),
        }
    }
}

/// Why nothing is taken of an upstream that has its values from this node.
fn circle(nodes: &[String]) -> String {
    let names: Vec<&str> =
        nodes.iter().chain(nodes.first()).map(|node| node.rsplit_once(' ').map_or(&**node, |n| n.0)).collect();
    format!("the upstreams form a circle: {}; nothing is taken of it", names.join(" → "))
}

/// What a person may have to see to.
pub(super) fn trouble(seen: &Seen) -> Vec<String> {
    let Some(mirror) = &seen.mirror else { return Vec::new() };
    let link = match &mirror.link.0 {
        LinkState::Up { .. } => None,
        LinkState::Connecting => Some("edge: the upstream has not answered yet".to_owned()),
        LinkState::Circle { upstream, nodes } => Some(format!("edge: {upstream}: {}", circle(nodes))),
        LinkState::Away { upstream, why } => Some(format!("edge: {upstream} is away: {why}")),
    };
    let refused = mirror.refused.iter().map(|(filter, why)| format!("edge: the upstream refuses {filter}: {why}"));
    link.into_iter().chain(refused).collect()
}

pub(super) fn metrics(e: &mut Exposition, seen: &Seen) {
    let Some(mirror) = &seen.mirror else { return };
    let states = LinkState::NAMES.map(|name| (name, u8::from(mirror.link.0.name() == name)));
    e.labelled(("tieline_edge_link", "1 for the state of the link to the upstream.", "gauge"), "state", states);
    e.gauge("tieline_edge_filters", "Filters that clients of this node have.", mirror.filters.0);
    e.gauge("tieline_edge_filters_asked", "Filters subscribed at the upstream.", mirror.filters.1);
    e.gauge("tieline_edge_filters_refused", "Filters that the upstream refuses.", mirror.refused.len());
    e.gauge("tieline_edge_topics", "Topics that have values of the upstream.", mirror.counts.topics);
    e.gauge("tieline_edge_topics_away", "Of these, values from before the link was lost.", mirror.counts.away);
    let own = "Values of the upstream left out because the topic is this node's own.";
    e.counter("tieline_edge_own_topics_total", own, mirror.counts.own);
    e.counter(
        "tieline_edge_refused_total",
        "Values of the upstream that the tree had no room for.",
        mirror.counts.full,
    );
    let (sent, refused) = mirror.counts.upward;
    e.counter("tieline_edge_upward_total", "Messages of clients that went to the upstream.", sent);
    let words = "Of these, messages that the upstream refused or did not answer.";
    e.counter("tieline_edge_upward_refused_total", words, refused);
    let counters = &mirror.counters;
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    e.counter("tieline_edge_connected_total", "Connections that the upstream accepted.", of(&counters.connected));
    let forms = [("whole", of(&counters.values)), ("delta", of(&counters.deltas))];
    e.labelled(("tieline_edge_values_total", "Messages of the upstream, by form.", "counter"), "form", forms);
    e.counter("tieline_edge_messages_total", "Of these, messages that are no last values.", of(&counters.messages));
    let lost = "Values that could not be rebuilt from a delta, and were asked for.";
    e.counter("tieline_edge_lost_total", lost, of(&counters.lost));
    let conflated = "Values that newer ones replaced before the bus took them.";
    e.counter("tieline_edge_conflated_total", conflated, of(&counters.conflated));
    e.counter("tieline_edge_dropped_total", "Messages dropped because the bus was busy.", of(&counters.dropped));
    e.counter("tieline_edge_held_total", "Times that the upstream had to wait for the bus.", of(&counters.held));
}
