//! `tieline bench`.

use crate::args::{BenchVerb, SealExperiment};
use anyhow::{Context, Result};
use std::io::stdout;
use std::process::ExitCode;
use std::time::Duration;
use tieline_bench::{Progress, bus, dnp3, history, seal, write_rows};

/// Runs an experiment and prints its rows.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench(verb: BenchVerb) -> Result<ExitCode> {
    match verb {
        BenchVerb::Dnp3 { sessions, workers, values, seconds, rounds, json } => {
            let values = values.into_iter().map(u16::try_from).collect::<Result<Vec<_>, _>>().context("--values")?;
            let options = dnp3::Options { sessions, workers, values, span: Duration::from_secs(seconds), rounds };
            let rows = dnp3::run(&options, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, dnp3::COLUMNS, json)?;
        }
        BenchVerb::Bus { devices, points, listeners, rounds, json } => {
            let rows = bus::run(&bus::Options { devices, points, listeners, rounds }, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, bus::COLUMNS, json)?;
        }
        BenchVerb::History { points, rounds, json } => {
            let rows = history::run(&history::Options { points, rounds }, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, history::COLUMNS, json)?;
        }
        BenchVerb::Seal { experiment, concurrency, octets, seconds, rounds, refusals, svg, json } => {
            let experiments = experiment.into_iter().map(seal::Experiment::from).collect();
            let (span, refusals) = (Duration::from_secs(seconds), usize::try_from(refusals)?);
            let options = seal::Options { experiments, concurrency, span, rounds, octets, refusals };
            let rows = seal::run(&options, &Progress::new(true))?;
            if let Some(folder) = svg {
                seal::save_curves(&rows, &folder)?;
            }
            write_rows(&mut stdout(), &rows, seal::COLUMNS, json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl From<SealExperiment> for seal::Experiment {
    fn from(asked: SealExperiment) -> Self {
        match asked {
            SealExperiment::Closed => Self::Closed,
            SealExperiment::Open => Self::Open,
            SealExperiment::Refusals => Self::Refusals,
        }
    }
}
