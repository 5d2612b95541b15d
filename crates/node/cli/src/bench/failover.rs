//! `tieline bench failover`.

use super::args::some;
use crate::args::duration;
use anyhow::Result;
use clap::Args;
use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;
use tieline_bench::failover::{self, Options};
use tieline_bench::{Progress, write_rows};

/// What `tieline bench failover` is told.
#[derive(Debug, Args)]
pub struct FailoverArgs {
    /// Members of the core: 2 or 3
    #[arg(long, default_value_t = 2, value_parser = some)]
    pub members: usize,
    /// How often the leader is killed
    #[arg(long, default_value_t = 10)]
    pub kills: usize,
    /// How often the leader is frozen
    #[arg(long, default_value_t = 1)]
    pub freezes: usize,
    /// How long a standby waits for a sign of the leader
    #[arg(long, default_value = "400ms", value_parser = duration)]
    pub silence: Duration,
    /// Draw the curves, as an SVG file in this folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// Runs the events.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench_failover(args: FailoverArgs) -> Result<()> {
    let FailoverArgs { members, kills, freezes, silence, svg, json } = args;
    let options = Options { members, kills, freezes, silence, program: std::env::current_exe()? };
    let rows = failover::run(&options, &Progress::new(true))?;
    if let Some(folder) = &svg {
        failover::charts(&rows).iter().try_for_each(|(name, chart)| chart.save(folder, name))?;
    }
    write_rows(&mut stdout(), &rows, failover::COLUMNS, super::shape(json))
}
