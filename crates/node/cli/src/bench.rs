//! `tieline bench`.

pub mod args;
mod centre;
mod delay;
mod edges;
mod failover;
mod fanout;
mod field;

use anyhow::Result;
use args::{BenchDnp3Args, BenchVerb, Dnp3Experiment, SealExperiment};
use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;
use std::time::Duration;
use tieline_bench::{Progress, Shape, alarms, bus, control, dnp3, history, seal, write_rows};

/// Runs an experiment and prints its rows.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench(verb: BenchVerb) -> Result<ExitCode> {
    match verb {
        BenchVerb::Dnp3(args) => bench_dnp3(&args)?,
        BenchVerb::Centre(args) => centre::bench_centre(args)?,
        BenchVerb::Delay(args) => delay::bench_delay(args)?,
        BenchVerb::Edges(args) => edges::bench_edges(args)?,
        BenchVerb::Failover(args) => failover::bench_failover(args)?,
        BenchVerb::Fanout(args) => fanout::bench_fanout(args)?,
        BenchVerb::Field(args) => field::bench_field(args)?,
        BenchVerb::Bus { devices, points, listeners, rounds, json } => {
            let rows = bus::run(&bus::Options { devices, points, listeners, rounds }, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, bus::COLUMNS, shape(json))?;
        }
        BenchVerb::Alarms { alarms, burst, json } => bench_alarms(alarms, burst, json)?,
        BenchVerb::Control { devices, rounds, json } => bench_control(devices, rounds, json)?,
        BenchVerb::History { queries: Some(topics), days, every: every_s, json, .. } => {
            let options = history::queries::Options { topics, days, every_s };
            let rows = history::queries::run(options, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, history::queries::COLUMNS, shape(json))?;
        }
        BenchVerb::History { points, rounds, databases: true, only, json, .. } => {
            let options = history::databases::Options { points, rounds, only };
            let rows = history::databases::run(&options, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, history::databases::COLUMNS, shape(json))?;
        }
        BenchVerb::History { peers: Some(topics), json, .. } => {
            let rows = history::peers::run(topics, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, history::peers::COLUMNS, shape(json))?;
        }
        BenchVerb::History { points, stages: true, json, .. } => {
            let rows = history::stages::run(points, &Progress::new(true))?;
            write_rows(&mut stdout(), &rows, history::stages::COLUMNS, shape(json))?;
        }
        BenchVerb::History { points, growth: true, svg, json, .. } => {
            let rows = history::growth::run(points as u64, history::growth::TOPICS, &Progress::new(true))?;
            if let Some(folder) = svg {
                history::save_growth(&rows, &folder)?;
            }
            write_rows(&mut stdout(), &rows, history::growth::COLUMNS, shape(json))?;
        }
        BenchVerb::History { points, rounds, clients, svg, json, .. } if !clients.is_empty() => {
            let options = history::clients::Options { points, rounds, clients };
            let rows = history::clients::run(&options, &Progress::new(true))?;
            if let Some(folder) = svg {
                history::save_clients(&rows, &folder)?;
            }
            write_rows(&mut stdout(), &rows, history::clients::COLUMNS, shape(json))?;
        }
        BenchVerb::History { points, rounds, sync_delay, svg, json, .. } => {
            let options = history::Options { points, rounds, sync_delays: sync_delay };
            let rows = history::run(&options, &Progress::new(true))?;
            if let Some(folder) = svg {
                history::save_curves(&rows, &folder)?;
            }
            write_rows(&mut stdout(), &rows, history::COLUMNS, shape(json))?;
        }
        BenchVerb::Seal { experiment, concurrency, bytes, seconds, rounds, refusals, svg, json } => {
            let experiments = experiment.into_iter().map(seal::Experiment::from).collect();
            let (span, refusals) = (Duration::from_secs(seconds), usize::try_from(refusals)?);
            let options = seal::Options { experiments, concurrency, span, rounds, bytes, refusals };
            let rows = seal::run(&options, &Progress::new(true))?;
            if let Some(folder) = svg {
                seal::save_curves(&rows, &folder)?;
            }
            write_rows(&mut stdout(), &rows, seal::COLUMNS, shape(json))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Characters of a line where nothing says.
const WIDTH: usize = 80;

/// JSON, or tables as wide as the terminal that they are for: standard output, or what `COLUMNS` says.
fn shape(json: bool) -> Shape {
    let terminal = || match stdout().is_terminal() {
        true => ratatui::crossterm::terminal::size().ok().map(|(width, _)| usize::from(width)),
        false => None,
    };
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    match json {
        true => Shape::Json,
        false => Shape::Table { width: terminal().or_else(said).filter(|width| *width > 0).unwrap_or(WIDTH) },
    }
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

/// Where nothing else is asked for: what a small device has.
const MEMORY_LIMIT: u64 = 64 << 20;

fn bench_dnp3(args: &BenchDnp3Args) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    if let Some(pairs) = args.hold_pairs {
        let values = args.values.first().copied().unwrap_or(1);
        return dnp3::hold_pairs(pairs, values, span, &mut stdin().lock(), &mut stdout());
    }
    use dnp3::Experiment::{Limit, Memory, Sessions, Workers};
    let mut experiments = match args.experiment {
        Dnp3Experiment::Sessions => vec![Sessions],
        Dnp3Experiment::Workers => vec![Workers],
        Dnp3Experiment::Memory => vec![Memory],
        Dnp3Experiment::All => vec![Sessions, Workers, Memory, Limit],
    };
    if args.memory_limit.is_some() && !experiments.contains(&Limit) {
        experiments.push(Limit);
    }
    let options = dnp3::Options {
        experiments,
        sessions: args.sessions.clone(),
        workers: args.workers,
        worker_sessions: args.worker_sessions.clone(),
        pairs: args.pairs.clone(),
        memory_limit: Some(args.memory_limit.unwrap_or(MEMORY_LIMIT)),
        program: Some(std::env::current_exe()?),
        values: args.values.clone(),
        span,
        rounds: args.rounds,
    };
    let rows = dnp3::run(&options, &Progress::new(true))?;
    if let Some(folder) = &args.svg {
        dnp3::charts(&rows).iter().try_for_each(|(name, chart)| chart.save(folder, name))?;
    }
    write_rows(&mut stdout(), &rows, dnp3::COLUMNS, shape(args.json))
}

fn bench_alarms(alarms: Vec<usize>, burst: usize, json: bool) -> Result<()> {
    let rows = alarms::run(&alarms::Options { alarms, burst }, &Progress::new(true))?;
    write_rows(&mut stdout(), &rows, alarms::COLUMNS, shape(json))
}

fn bench_control(devices: Vec<usize>, rounds: usize, json: bool) -> Result<()> {
    let rows = control::run(&control::Options { devices, rounds }, &Progress::new(true))?;
    write_rows(&mut stdout(), &rows, control::COLUMNS, shape(json))
}
