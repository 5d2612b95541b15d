//! `tieline bench centre`.

use super::args::some;
use crate::args::duration;
use anyhow::Result;
use clap::Args;
use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;
use tieline_bench::centre::{self, Experiment, Link, Options};
use tieline_bench::{Progress, write_rows};

/// What `tieline bench centre` is told.
#[derive(Debug, Args)]
pub struct CentreArgs {
    /// What is measured, as a list: sites, more and more of them; levels, centres above centres; slow, a slow link; stall, outage, a slow link that stalls or is cut
    #[arg(long, value_delimiter = ',', default_value = "sites,levels,slow,stall,outage")]
    pub experiment: Vec<Experiment>,
    /// Sites, as a list
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32", value_parser = some)]
    pub sites: Vec<usize>,
    /// Devices of a site
    #[arg(long, default_value_t = 500, value_parser = some)]
    pub devices: usize,
    /// Points of a device, each read once a second
    #[arg(long, default_value_t = 18, value_parser = some)]
    pub points: usize,
    /// Centres, each a site of the next
    #[arg(long, default_value_t = 4, value_parser = some)]
    pub levels: usize,
    /// Devices of the site below several centres, or behind the slow link
    #[arg(long, default_value_t = 50, value_parser = some)]
    pub link_devices: usize,
    /// Kilobits a second of the slow link
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(16..=10_000_000))]
    pub link_kbit: u64,
    /// What bytes need there and back on the slow link
    #[arg(long, default_value = "300ms", value_parser = duration)]
    pub link_round_trip: Duration,
    /// How long the link stalls, or is cut
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub event: Duration,
    /// Seconds a measurement
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// Draw the curves, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// Runs the experiments.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench_centre(args: CentreArgs) -> Result<()> {
    let options = Options {
        experiments: args.experiment,
        sites: args.sites,
        devices: args.devices,
        points: args.points,
        levels: args.levels,
        link: Link {
            bits_per_s: args.link_kbit * 1000,
            round_trip: args.link_round_trip,
            devices: args.link_devices,
            event: args.event,
        },
        span: Duration::from_secs(args.seconds),
        program: std::env::current_exe()?,
    };
    let rows = centre::run(&options, &Progress::new(true))?;
    if let Some(folder) = &args.svg {
        centre::charts(&rows).iter().try_for_each(|(name, chart)| chart.save(folder, name))?;
    }
    write_rows(&mut stdout(), &rows, centre::COLUMNS, super::shape(args.json))
}
