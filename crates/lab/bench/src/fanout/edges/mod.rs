//! Edges: nodes of ours that mirror the topics of a core, and serve its subscribers in its place.
//!
//! ```text
//!  publisher ──▶ core ──┬── deltas ──▶ edge ──▶ subscribers
//!                       └── deltas ──▶ edge ──▶ subscribers
//! ```
//!
//! Core, edges, publisher and subscribers are processes. In each round the same subscribers are served by the core itself, which
//! is the peer of an edge, and by each number of edges, all in a random order with the floor of [`super`].
//!
//! Read first: `tier.rs`, then `mirror.rs`; `join.rs` is a new edge, `cut.rs` a link that is cut.

mod bridge;
mod cut;
mod join;
mod mirror;
#[cfg(test)]
mod tests;
mod tier;

use super::Options as Load;
use super::heard::Window;
use super::plan::Plan;
use crate::latency::Latency;
use crate::process;
use crate::report::Progress;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::time::Duration;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("edges", "edges"),
    ("subscribers", "subscribers"),
    ("window ms", "edge_window_ms"),
    ("core: CPU s a million updates", "core_cpu_s_per_million_updates"),
    ("to fewest subscribers", "core_ratio_to_fewest"),
    ("each further edge", "core_cpu_s_per_million_updates_each_further_edge"),
    ("CPU s a million events", "cpu_s_per_million"),
    ("to core", "ratio_to_core"),
    ("to floor", "ratio_to_floor"),
    ("bytes an event", "bytes_per_event"),
    ("to core's", "bytes_ratio_to_core"),
    ("µs p50", "latency_us_p50"),
    ("p50 more", "latency_us_p50_more"),
    ("p99", "latency_us_p99"),
    ("all topics s", "all_s"),
    ("link up s", "up_s"),
    ("newest values s", "newest_s"),
    ("others' p99", "ratio_to_before"),
    ("core grew bytes", "core_grown_bytes"),
    ("lost", "lost"),
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// What subscribers of edges cost the edges and the core.
    Mirror,
    /// An edge that is added.
    Join,
    /// A link that is cut, and mended.
    Cut,
}

impl std::str::FromStr for Experiment {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "mirror" => Ok(Self::Mirror),
            "join" => Ok(Self::Join),
            "cut" => Ok(Self::Cut),
            _ => Err("expected mirror, join or cut".to_owned()),
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which experiments.
    pub experiments: Vec<Experiment>,
    /// Numbers of edges.
    pub edges: Vec<usize>,
    /// Topics, updates and subscribers.
    pub load: Load,
    /// How long the core may collect values for one write to an edge.
    pub window: Duration,
    /// How long the link is cut.
    pub cut: Duration,
}

impl Options {
    fn plan(&self, subscribers: usize) -> Result<Plan> {
        let Load { topics, subscriptions_each, form, .. } = self.load;
        let rate = *self.load.rates.first().context("a rate is needed")?;
        let plan = Plan { subscribers, topics, rate, subscriptions_each, form };
        plan.check()?;
        Ok(plan)
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `mirror`, `join` or `cut`.
    pub experiment: &'static str,
    /// Edges that serve; none: the core does.
    pub edges: usize,
    /// Subscribers, of all edges together.
    pub subscribers: usize,
    /// Topics.
    pub topics: usize,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// Updates a second.
    pub rate_per_s: u64,
    /// Milliseconds that the core may collect values for one write to an edge.
    pub edge_window_ms: f64,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// Medians over the rounds; latencies are of all rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Of subscribers that edges serve, or the core.
    Mirror(Mirrored),
    /// Of an edge that is added.
    Join(Joined),
    /// Of a link that was cut.
    Cut(Mended),
}

/// What subscribers cost.
#[derive(Clone, Debug, Serialize)]
pub struct Mirrored {
    /// Processor time of the core for a million updates that were published.
    pub core_cpu_s_per_million_updates: f64,
    /// The same over that with the fewest subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_ratio_to_fewest: Option<f64>,
    /// What each edge more than the fewest adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_cpu_s_per_million_updates_each_further_edge: Option<f64>,
    /// Processor time of all edges, or of the core where there are none, for a million values that subscribers received.
    pub cpu_s_per_million: f64,
    /// The same over what the core costs that serves the same subscribers itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_core: Option<f64>,
    /// Over writes without logic.
    pub ratio_to_floor: f64,
    /// Processor time of writes without logic for a million values.
    pub floor_cpu_s_per_million: f64,
    /// Bytes of the stream for one value.
    pub bytes_per_event: f64,
    /// The same over that of the core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_ratio_to_core: Option<f64>,
    /// From when a value was due to be published until its subscriber had it.
    #[serde(flatten)]
    pub latency: Latency,
    /// How much longer half of the values take than from the core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us_p50_more: Option<f64>,
    /// Values that counted and came, of all rounds.
    pub delivered: u64,
    /// Values that counted and did not come: none, or the row had no figures.
    pub lost: u64,
    /// When values counted in the first round; their bytes follow from it.
    pub window: Window,
    /// Of these, values that came.
    pub window_delivered: u64,
    /// Bytes of the messages that brought them.
    pub window_bytes: u64,
}

/// What an edge that is added needs, and what others feel of it.
#[derive(Clone, Debug, Serialize)]
pub struct Joined {
    /// From when its process was started until it had the values of all topics.
    pub all_s: f64,
    /// The same from when it listened.
    pub all_s_from_listening: f64,
    /// Processor time of the core meanwhile.
    pub core_cpu_s: f64,
    /// Of the values of the others that were due before.
    pub latency_us_p99_before: u64,
    /// Of those that were due meanwhile.
    pub latency_us_p99_meanwhile: u64,
    /// The second over the first.
    pub ratio_to_before: f64,
    /// Resident bytes of the new edge.
    pub rss_bytes: f64,
}

/// What happens after a cut.
#[derive(Clone, Debug, Serialize)]
pub struct Mended {
    /// How long the link was cut.
    pub cut_s: f64,
    /// From the mending until the edge was connected again.
    pub up_s: f64,
    /// From the mending until the edge had the newest value of all topics.
    pub newest_s: f64,
    /// The same from when it was connected.
    pub newest_s_from_up: f64,
    /// Bytes by which the core grew during the cut.
    pub core_grown_bytes: f64,
    /// Values that subscribers of the edge got after that.
    pub delivered: u64,
    /// Of these, values that did not come: none, or the row had no figures.
    pub lost: u64,
}

/// Runs the experiments.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let Load { rounds, span, subscribers, program, .. } = &options.load;
    ensure!(*rounds > 0 && !span.is_zero(), "rounds and seconds are more than 0");
    ensure!(options.edges.iter().all(|edges| *edges > 0), "edges are 1 or more");
    let most = subscribers.iter().max().context("one number of subscribers is needed")?;
    process::reserve_descriptors(*most, if program.is_some() { 1 } else { 2 })?;
    let mut rows = Vec::new();
    for experiment in &options.experiments {
        match experiment {
            Experiment::Mirror => rows.extend(mirror::run(options, progress)?),
            Experiment::Join => rows.push(join::run(options, *most, progress)?),
            Experiment::Cut => rows.push(cut::run(options, *most, progress)?),
        }
    }
    Ok(rows)
}

fn row(options: &Options, experiment: &'static str, edges: usize, plan: &Plan, figures: Result<Figures>) -> Row {
    let invalid = figures.as_ref().err().map(|why| format!("{experiment}, {edges} edges, {plan:?}: {why:#}"));
    Row {
        experiment,
        edges,
        subscribers: plan.subscribers,
        topics: plan.topics,
        subscriptions_each: plan.subscriptions_each,
        rate_per_s: plan.rate,
        edge_window_ms: options.window.as_secs_f64() * 1000.0,
        rounds: options.load.rounds,
        figures: figures.ok(),
        invalid,
    }
}
