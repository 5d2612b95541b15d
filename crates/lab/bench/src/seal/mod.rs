//! Experiment 5: messages of 1 KiB packed or unpacked by two servers for one client.
//!
//! | experiment | what is asked |
//! |---|---|
//! | closed | so many messages at a time, as published |
//! | open | so many messages a second, whether answers come or not; latency counts from when a message was due |
//! | refusals | whether the time of a refusal tells what was wrong: key, tag or signature |
//!
//! The ceiling is the same cryptography without servers, sockets and envelopes, on one thread, in the same round. Both
//! are given in messages a second of processor time, that of the servers and that of the thread: what else the
//! machine does then touches the ratio little. One message at a time has a floor besides: the bare operations of one
//! message one after the other, and a round trip of as many bytes.

mod ceiling;
mod closed;
mod draw;
mod load;
mod open;
mod refusals;
mod servers;
mod single;

use crate::latency::Latency;
use crate::report::Progress;
use anyhow::Result;
use serde::Serialize;
use servers::Folder;
use std::time::Duration;

pub use draw::save_curves;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("verb", "verb"),
    ("concurrency", "concurrency"),
    ("asked/s", "rate_per_s"),
    ("batch", "batch"),
    ("messages/s", "messages_per_s"),
    ("a CPU s", "messages_per_cpu_s"),
    ("ceiling", "ceiling_messages_per_cpu_s"),
    ("ratio", "ratio_to_ceiling"),
    ("µs p50", "latency_us_p50"),
    ("p90", "latency_us_p90"),
    ("p99", "latency_us_p99"),
    ("alone to floor", "ratio_to_single_floor"),
    ("refused for", "compared"),
    ("Welch t", "welch_t"),
];

/// What to run: every number of messages at a time, packed and unpacked, with batches and without; then parts of the
/// rate that was reached, then refusals.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which experiments.
    pub experiments: Vec<Experiment>,
    /// Messages at a time.
    pub concurrency: Vec<usize>,
    /// How long a round lasts; one before it is thrown away.
    pub span: Duration,
    /// Rounds of each row; the servers are started again for each row.
    pub rounds: usize,
    /// Bytes of content.
    pub bytes: usize,
    /// Refusals of each kind.
    pub refusals: usize,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// So many messages at a time.
    Closed,
    /// So many messages a second.
    Open,
    /// Messages that are refused.
    Refusals,
}

/// What the servers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Sign and encrypt.
    Pack,
    /// Decrypt and verify.
    Unpack,
}

impl Verb {
    const ALL: [Self; 2] = [Self::Pack, Self::Unpack];
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is asked.
    pub experiment: Experiment,
    /// What the servers do.
    pub verb: Verb,
    /// Messages at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Messages a second that are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Whether private-key operations are done together.
    pub batch: bool,
    /// Bytes of content.
    pub bytes: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Messages and how long they took.
    Load(LoadFigures),
    /// Two kinds of refusals.
    Refusals(RefusalFigures),
}

/// Messages and how long they took; medians over the rounds, latencies of all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LoadFigures {
    /// Messages a second.
    pub messages_per_s: f64,
    /// Messages a second of the servers' processor time.
    pub messages_per_cpu_s: f64,
    /// The ceiling's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling_messages_per_cpu_s: Option<f64>,
    /// The servers' over the ceiling's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_ceiling: Option<f64>,
    /// From request, or from when it was due, to answer.
    #[serde(flatten)]
    pub latency: Latency,
    /// The longest of them.
    pub latency_us_max: u64,
    /// How late the client sent what was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_lag_us_p99: Option<u64>,
    /// One message: the bare operations and a round trip, in µs, the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_floor_us_p50: Option<f64>,
    /// One message: p50 over that floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_single_floor: Option<f64>,
}

/// How long refusals of two kinds took, the slowest tenth of each left out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RefusalFigures {
    /// What was wrong with the messages of either kind.
    pub compared: &'static str,
    /// Refusals of each kind.
    pub refusals: usize,
    /// How far apart the means are, in µs.
    pub apart_us: f64,
    /// Welch's t: beyond 4.5 the two can be told apart.
    pub welch_t: f64,
    /// Whether they can.
    pub told_apart: bool,
}

/// Runs all rows.
///
/// # Errors
/// Keys cannot be made, or the servers do not start.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    let mut rows = Vec::new();
    if options.experiments.contains(&Experiment::Closed) {
        closed::run(&folder, options, progress, &mut rows)?;
    }
    if options.experiments.contains(&Experiment::Open) {
        open::run(&folder, options, progress, &mut rows)?;
    }
    if options.experiments.contains(&Experiment::Refusals) {
        refusals::run(&folder, options, progress, &mut rows)?;
    }
    Ok(rows)
}

impl Row {
    fn new(options: &Options, experiment: Experiment, verb: Verb, batch: bool, measured: Result<Figures>) -> Self {
        let Options { bytes, rounds, .. } = *options;
        let (figures, invalid) = match measured {
            Ok(figures) => (Some(figures), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Self { experiment, verb, concurrency: None, rate_per_s: None, batch, bytes, rounds, figures, invalid }
    }

    /// Messages a second, where that was measured.
    fn messages_per_s(&self) -> Option<f64> {
        match &self.figures {
            Some(Figures::Load(figures)) => Some(figures.messages_per_s),
            Some(Figures::Refusals(_)) | None => None,
        }
    }
}
