//! Sites and their centre: what sites record each second, until it is stored at the centre.
//!
//! ```text
//!  500 devices × 18 points ─▶ site ─┐
//!  500 devices × 18 points ─▶ site ─┼─ TLS ─▶ nats-server ─▶ centre ─▶ its journal, synced ─▶ a client of the centre
//!  …                                ┘
//! ```
//!
//! Everything is a process of its own, joined by tokens, with TLS and a callout: as an installation is made. The devices are
//! simulated in the sites; each reading differs from the one before. A client of the centre subscribes to some devices of each
//! site: the centre shows a value once the record with it is on its disk. So the time from a reading to that is measured, on one clock.
//!
//! Afterwards the devices are taken away, and once nothing waits, the samples of each site are counted at both ends.
//!
//! Read first: `fleet.rs`, then `sites.rs`; `levels.rs` are centres above centres; `outage.rs` is a slow link that stalls or is cut, `link.rs` the link.

mod charts;
mod fleet;
mod levels;
mod link;
mod outage;
mod probe;
pub(crate) mod process;
mod sites;
#[cfg(test)]
mod tests;

pub use charts::charts;

use crate::latency::Latency;
use crate::report::Progress;
use anyhow::{Result, ensure};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("sites", "sites"),
    ("levels", "levels"),
    ("points a second", "points_per_s"),
    ("first point of all s", "first_points_s"),
    ("stored µs p50", "latency_us_p50"),
    ("p99", "latency_us_p99"),
    ("published s", "published_s"),
    ("centre cores", "centre_cores"),
    ("server cores", "server_cores"),
    ("all sites cores", "sites_cores"),
    ("machine busy", "machine_cores"),
    ("centre MB", "centre_mb"),
    ("heads MB", "centre_heads_mb"),
    ("MB a site", "centre_mb_each_site"),
    ("s", "event_s"),
    ("caught up s", "caught_up_s"),
    ("live p99 meanwhile", "meanwhile_us_p99"),
    ("to before", "ratio_to_before"),
    ("lost", "lost"),
    ("twice", "twice"),
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// More and more sites.
    Sites,
    /// Centres above centres.
    Levels,
    /// A slow link as it is.
    Slow,
    /// A slow link on which nothing moves for a while.
    Stall,
    /// A slow link that is cut for a while.
    Outage,
}

impl Experiment {
    /// Its word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sites => "sites",
            Self::Levels => "levels",
            Self::Slow => "slow",
            Self::Stall => "stall",
            Self::Outage => "outage",
        }
    }
}

impl std::str::FromStr for Experiment {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::Sites, Self::Levels, Self::Slow, Self::Stall, Self::Outage];
        let found = all.into_iter().find(|one| one.name() == word);
        found.ok_or_else(|| "expected sites, levels, slow, stall or outage".to_owned())
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which experiments.
    pub experiments: Vec<Experiment>,
    /// Numbers of sites.
    pub sites: Vec<usize>,
    /// Devices of a site.
    pub devices: usize,
    /// Points of a device, each read once a second.
    pub points: usize,
    /// Centres, each a site of the next.
    pub levels: usize,
    /// The link of the other experiments.
    pub link: Link,
    /// How long is measured.
    pub span: Duration,
    /// The program that nodes are run with.
    pub program: PathBuf,
}

/// A slow link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Bits a second, each way.
    pub bits_per_s: u64,
    /// What bytes need there and back, without a queue.
    pub round_trip: Duration,
    /// Devices of the site behind it.
    pub devices: usize,
    /// How long it stalls, or is cut.
    pub event: Duration,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The word of the experiment.
    pub experiment: &'static str,
    /// Sites.
    pub sites: usize,
    /// Devices of each.
    pub devices: usize,
    /// Points of each device.
    pub points: usize,
    /// Readings of all sites together.
    pub points_per_s: usize,
    /// What was measured; absent where the run was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Of sites.
    Sites(Stored),
    /// Of centres above centres.
    Levels(Leveled),
    /// Of a slow link.
    Link(Linked),
}

/// Sites whose readings are stored at the centre.
#[derive(Clone, Debug, Serialize)]
pub struct Stored {
    /// From a reading until it was stored.
    #[serde(flatten)]
    pub latency: Latency,
    /// From the first command until the centre had points of every site: server, centre, tokens, joins, starts.
    pub first_points_s: f64,
    /// Processors of the centre.
    pub centre_cores: f64,
    /// Processors of the nats-server.
    pub server_cores: f64,
    /// Processors of all sites, with their simulated devices.
    pub sites_cores: f64,
    /// Processors of this machine that were busy, with whatever else ran on it.
    pub machine_cores: f64,
    /// Resident megabytes of the centre.
    pub centre_mb: f64,
    /// Of them, samples that are not in a chunk yet: `history.memory_bytes_max` bounds them, whatever the number of sites.
    pub centre_heads_mb: f64,
    /// What each site more than the fewest adds to the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centre_mb_each_site: Option<f64>,
    /// The time to store that was published for as many buildings at the end of the run (2017).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_s: Option<f64>,
    /// Readings that were looked at.
    pub looked_at: usize,
    /// Samples that a site has and the centre does not: none, or the row had no figures.
    pub lost: u64,
    /// Samples that the centre has twice: none, or the row had no figures.
    pub twice: u64,
}

/// A site below several centres, each a site of the next.
#[derive(Clone, Debug, Serialize)]
pub struct Leveled {
    /// How many centres.
    pub levels: usize,
    /// From a reading until it was stored at the highest.
    #[serde(flatten)]
    pub latency: Latency,
    /// From the first command until the highest had points.
    pub first_points_s: f64,
    /// Samples that the site has and the highest centre does not: none, or the row had no figures.
    pub lost: u64,
    /// Samples that it has twice: none, or the row had no figures.
    pub twice: u64,
}

/// A site behind a slow link.
#[derive(Clone, Debug, Serialize)]
pub struct Linked {
    /// Bits a second.
    pub bits_per_s: u64,
    /// What bytes need there and back.
    pub round_trip_ms: f64,
    /// From a reading until it was stored, before anything happened.
    #[serde(flatten)]
    pub latency: Latency,
    /// How long the link stalled, or was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_s: Option<f64>,
    /// From the end of that until the centre had all that was owed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caught_up_s: Option<f64>,
    /// Of readings that were made after the end of that, while others were owed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meanwhile_us_p99: Option<u64>,
    /// That over what it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_before: Option<f64>,
    /// Samples that the site has and the centre does not: none, or the row had no figures.
    pub lost: u64,
    /// Samples that the centre has twice: none, or the row had no figures.
    pub twice: u64,
}

/// Runs the experiments.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let Options { sites, devices, points, span, link, .. } = options;
    ensure!(sites.iter().all(|sites| *sites > 0), "sites are 1 or more");
    ensure!(*devices > 0 && *points > 0 && link.devices > 0, "devices and points are 1 or more");
    ensure!(*span >= Duration::from_secs(2), "a measurement takes 2 seconds or more: points are read once a second");
    let mut rows = Vec::new();
    for experiment in &options.experiments {
        match experiment {
            Experiment::Sites => rows.extend(sites::run(options, progress)),
            Experiment::Levels => rows.push(levels::run(options, progress)),
            Experiment::Slow | Experiment::Stall | Experiment::Outage => {
                rows.push(outage::run(options, *experiment, progress));
            }
        }
    }
    Ok(rows)
}

fn row(experiment: Experiment, (sites, devices, points): (usize, usize, usize), figures: Result<Figures>) -> Row {
    let invalid = figures.as_ref().err().map(|why| format!("{}, {sites} sites: {why:#}", experiment.name()));
    let points_per_s = sites * devices * points;
    Row { experiment: experiment.name(), sites, devices, points, points_per_s, figures: figures.ok(), invalid }
}
