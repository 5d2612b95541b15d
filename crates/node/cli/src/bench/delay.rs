//! `tieline bench delay`.

use super::args::on_or_off;
use crate::args::duration;
use anyhow::Result;
use clap::Args;
use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;
use tieline_bench::delay::{self, Options, Way};
use tieline_bench::{Progress, write_rows};

/// What `tieline bench delay` is told.
#[derive(Debug, Args)]
pub struct DelayArgs {
    /// Between application and socket, as a list: tcp, udp, lean-tcp, lean-udp
    #[arg(long, value_delimiter = ',', default_value = "tcp,udp,lean-tcp,lean-udp", value_parser = way)]
    pub ways: Vec<Way>,
    /// IEDs of 4,800 samples/s that fill the control centre's port, as a list; 0 leaves it idle
    #[arg(long, value_delimiter = ',', default_value = "0,150")]
    pub ieds: Vec<u16>,
    /// Priorities, as a list
    #[arg(long, value_delimiter = ',', default_value = "off,on", value_parser = on_or_off)]
    pub priorities: Vec<bool>,
    /// Percent of a processor for relay and controller, as a list; 0 leaves them alone
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "0")]
    pub cpu: Vec<u32>,
    /// How often each setting is run, in turns with the others: figures are medians of the rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Faults of each run
    #[arg(long, default_value_t = 600)]
    pub faults: u32,
    /// From one fault to the next
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = duration)]
    pub interval: Duration,
    /// Draw the curves into a folder
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
    /// Plays one part of the scenario: what the command starts itself with
    #[arg(long, hide = true)]
    pub role: Option<String>,
}

/// Runs the experiment, or plays one part of it.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench_delay(args: DelayArgs) -> Result<()> {
    let DelayArgs { ways, ieds, priorities, cpu, rounds, faults, interval, svg, json, role } = args;
    if let Some(role) = role {
        return delay::play_role(&role);
    }
    let cpu = cpu.into_iter().map(|percent| (percent > 0).then_some(percent)).collect();
    let rows = delay::run(&Options { ways, ieds, priorities, cpu, rounds, faults, interval }, &Progress::new(true))?;
    if let Some(folder) = svg {
        delay::charts(&rows).iter().try_for_each(|(name, chart)| chart.save(&folder, name))?;
    }
    write_rows(&mut stdout(), &rows, delay::COLUMNS, super::shape(json))
}

/// A word of `tieline bench delay --ways`.
fn way(word: &str) -> Result<Way, String> {
    let ways = Way::ALL;
    ways.into_iter().find(|way| way.name() == word).ok_or_else(|| "expected tcp, udp, lean-tcp or lean-udp".to_owned())
}
