//! The upstreams of an edge in `/v1/status`, `/healthz` and `/metrics`.

use super::status::Seen;
use crate::bus::{MirrorCounts, MirrorSeen};
use crate::edge::{EdgeCounters, LinkState};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use tieline_service::exposition::Exposition;

/// The links of an edge to its upstreams: `up` only while all have let this node in, else as the one that needs attention most
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Edge")]
pub(super) struct EdgeShown {
    #[serde(flatten)]
    all: LinkShown,
    /// Each upstream, in the order of the configuration
    upstreams: Vec<UpstreamShown>,
}

/// The link to one upstream
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Upstream")]
struct UpstreamShown {
    /// Its name in the configuration; `upstream` where it has none
    name: String,
    /// What its topics begin with here; empty where they have the same names
    prefix: String,
    #[serde(flatten)]
    link: LinkShown,
}

/// A link, or all together
#[derive(Clone, JsonSchema, Serialize)]
struct LinkShown {
    /// `up` only while the upstream has let this node in
    #[schemars(extend("enum" = LinkState::NAMES))]
    state: &'static str,
    /// The address that is connected, or was tried last; empty before the first attempt has ended
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

#[derive(Clone, JsonSchema, Serialize)]
#[schemars(inline)]
struct RefusedShown {
    filter: String,
    why: String,
}

impl EdgeShown {
    /// None of a node that is no edge.
    pub(super) fn of(seen: &[MirrorSeen]) -> Option<Self> {
        let worst = LinkShown::of(seen.iter().max_by_key(|mirror| mirror.link.0.gravity())?);
        let links: Vec<LinkShown> = seen.iter().map(LinkShown::of).collect();
        let sum = |of: fn(&LinkShown) -> usize| links.iter().map(of).sum();
        let all = LinkShown {
            filters: sum(|link| link.filters),
            asked: sum(|link| link.asked),
            topics: sum(|link| link.topics),
            away: sum(|link| link.away),
            refused: links.iter().flat_map(|link| link.refused.clone()).collect(),
            ..worst
        };
        let upstreams = seen.iter().zip(links).map(|(seen, link)| UpstreamShown {
            name: seen.name.to_string(),
            prefix: seen.prefix.clone(),
            link,
        });
        Some(Self { all, upstreams: upstreams.collect() })
    }
}

impl LinkShown {
    fn of(seen: &MirrorSeen) -> Self {
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
    let is_one = seen.mirrors.len() == 1;
    let of = |mirror: &MirrorSeen| if is_one { String::new() } else { format!("{}: ", mirror.name) };
    let all = seen.mirrors.iter().flat_map(|mirror| {
        let name = of(mirror);
        let link = match &mirror.link.0 {
            LinkState::Up { .. } => None,
            LinkState::Connecting => Some(format!("edge: {name}the upstream has not answered yet")),
            LinkState::Circle { upstream, nodes } => Some(format!("edge: {name}{upstream}: {}", circle(nodes))),
            LinkState::Away { upstream, why } => Some(format!("edge: {name}{upstream} is away: {why}")),
        };
        let refused = mirror.refused.iter();
        let refused = refused.map(move |(filter, why)| format!("edge: {name}the upstream refuses {filter}: {why}"));
        link.into_iter().chain(refused.collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    all.collect()
}

type Family = (&'static str, &'static str, &'static str);

pub(super) fn metrics(e: &mut Exposition, seen: &Seen) {
    let mirrors = &seen.mirrors;
    if mirrors.is_empty() {
        return;
    }
    e.family("tieline_edge_link", "1 for the state of the link to the upstream.", "gauge");
    for mirror in mirrors {
        for name in LinkState::NAMES {
            let is_so = u8::from(mirror.link.0.name() == name);
            e.sample("tieline_edge_link", &[("upstream", &*mirror.name), ("state", name)], is_so);
        }
    }
    let mut of_each = |(name, help, kind): Family, value: &dyn Fn(&MirrorSeen) -> u64| {
        e.labelled((name, help, kind), "upstream", mirrors.iter().map(|mirror| (&*mirror.name, value(mirror))));
    };
    let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    of_each(("tieline_edge_filters", "Filters that clients of this node have.", "gauge"), &|m| wide(m.filters.0));
    of_each(("tieline_edge_filters_asked", "Filters subscribed at the upstream.", "gauge"), &|m| wide(m.filters.1));
    let refused = "Filters that the upstream refuses.";
    of_each(("tieline_edge_filters_refused", refused, "gauge"), &|m| wide(m.refused.len()));
    let topics = "Topics that have values of the upstream.";
    of_each(("tieline_edge_topics", topics, "gauge"), &|m| wide(m.counts.topics));
    let away = "Of these, values from before the link was lost.";
    of_each(("tieline_edge_topics_away", away, "gauge"), &|m| wide(m.counts.away));
    let own = "Values of the upstream left out because the topic is this node's own.";
    of_each(("tieline_edge_own_topics_total", own, "counter"), &|m| m.counts.own);
    let full = "Values of the upstream that the tree had no room for.";
    of_each(("tieline_edge_refused_total", full, "counter"), &|m| m.counts.full);
    let upward = "Messages of clients that went to the upstream.";
    of_each(("tieline_edge_upward_total", upward, "counter"), &|m| m.counts.upward.0);
    let lost = "Locks of the upstream that clients lost with the link.";
    of_each(("tieline_edge_locks_lost_total", lost, "counter"), &|m| m.counts.locks.2);
    let words = "Of these, messages that the upstream refused or did not answer.";
    of_each(("tieline_edge_upward_refused_total", words, "counter"), &|m| m.counts.upward.1);
    let locks = "tieline_edge_locks";
    e.family(locks, "Locks of the upstream that clients of this node have (held) and wait for (waiting).", "gauge");
    for MirrorSeen { name, counts: MirrorCounts { locks: (held, waiting, _), .. }, .. } in mirrors {
        e.sample(locks, &[("upstream", &**name), ("state", "held")], *held);
        e.sample(locks, &[("upstream", &**name), ("state", "waiting")], *waiting);
    }
    counted(e, mirrors);
}

/// What the threads count.
fn counted(e: &mut Exposition, mirrors: &[MirrorSeen]) {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let values = "tieline_edge_values_total";
    e.family(values, "Messages of the upstream, by form.", "counter");
    for MirrorSeen { name, counters, .. } in mirrors {
        e.sample(values, &[("upstream", &**name), ("form", "whole")], of(&counters.values));
        e.sample(values, &[("upstream", &**name), ("form", "delta")], of(&counters.deltas));
    }
    let mut of_each = |(name, help): (&str, &str), counter: fn(&EdgeCounters) -> &AtomicU64| {
        let samples = mirrors.iter().map(|mirror| (&*mirror.name, of(counter(&mirror.counters))));
        e.labelled((name, help, "counter"), "upstream", samples);
    };
    of_each(("tieline_edge_connected_total", "Connections that the upstream accepted."), |c| &c.connected);
    of_each(("tieline_edge_messages_total", "Of these, messages that are no last values."), |c| &c.messages);
    let lost = "Values that could not be rebuilt from a delta, and were asked for.";
    of_each(("tieline_edge_lost_total", lost), |c| &c.lost);
    let conflated = "Values that newer ones replaced before the bus took them.";
    of_each(("tieline_edge_conflated_total", conflated), |c| &c.conflated);
    of_each(("tieline_edge_dropped_total", "Messages dropped because the bus was busy."), |c| &c.dropped);
    of_each(("tieline_edge_held_total", "Times that the upstream had to wait for the bus."), |c| &c.held);
}
