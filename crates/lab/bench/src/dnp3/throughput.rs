//! Exchanges a second and their processor time, beside the floor.

use super::loopback::{self, Threads};
use super::pairs::{self, Machines};
use super::pingpong::PingPong;
use super::{Experiment, Options, Row};
use crate::load::{Load, Measured};
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, short, take_turns};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;

/// How long the load runs that is there for the others' sake.
const WARM: Duration = Duration::from_millis(100);

/// What a row measured: medians over its rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Exchanges a second, all sessions together.
    pub exchanges_per_s: f64,
    /// Processor time of both ends for one exchange.
    pub cpu_us_per_exchange: f64,
    /// The floor's exchanges a second.
    pub floor_exchanges_per_s: f64,
    /// The floor's processor time.
    pub floor_cpu_us_per_exchange: f64,
    /// Processor time over the floor's.
    pub ratio_to_floor: f64,
}

#[derive(Debug, Default)]
struct Series {
    per_s: Vec<f64>,
    cpu_us: Vec<f64>,
}

impl Series {
    fn add(&mut self, measured: Measured) {
        self.per_s.push(measured.per_s);
        self.cpu_us.push(measured.cpu_us);
    }
}

/// Runs what every load needs once (code, the runtime's own), before anything is counted.
pub fn warm(threads: Threads, values: u16) -> Result<()> {
    let load = start(Side::Ours, 1, threads, values, PingPong { ping: 0, pong: 0 })?;
    load.measure(WARM).map(drop)
}

/// Measures one row.
pub fn row(
    options: &Options,
    experiment: Experiment,
    sessions: usize,
    workers: usize,
    values: u16,
    progress: &Progress,
) -> Result<Row> {
    let workers = workers.min(sessions);
    let threads = match experiment {
        Experiment::Workers => Threads::Together(workers),
        Experiment::Sessions | Experiment::Memory | Experiment::Limit => Threads::Apart(workers),
    };
    let bytes = pairs::wire_bytes(values)?;
    let (mut ours, mut floor) = (Series::default(), Series::default());
    let what = format!("dnp3: {sessions} sessions, {workers} workers, {values} values");
    let invalid = take_turns(options.rounds, progress, &what, |side| {
        let measured = start(side, sessions, threads, values, bytes)?.measure(options.span)?;
        match side {
            Side::Ours => ours.add(measured),
            Side::Floor => floor.add(measured),
        }
        Ok(())
    });
    let figures = invalid.is_none().then(|| Figures {
        exchanges_per_s: short(median(&ours.per_s)),
        cpu_us_per_exchange: short(median(&ours.cpu_us)),
        floor_exchanges_per_s: short(median(&floor.per_s)),
        floor_cpu_us_per_exchange: short(median(&floor.cpu_us)),
        ratio_to_floor: short(median_ratio(&ours.cpu_us, &floor.cpu_us)),
    });
    let row = Row::new(experiment, sessions, workers, values, bytes);
    Ok(Row { rounds: Some(options.rounds), figures, invalid, ..row })
}

/// Starts a side, and waits until it is ready.
pub fn start(side: Side, sessions: usize, threads: Threads, values: u16, bytes: PingPong) -> Result<Load> {
    let load = match side {
        Side::Ours => loopback::connect(sessions, threads, &Machines { values })?,
        Side::Floor => loopback::connect(sessions, threads, &bytes)?,
    };
    load.await_ready()?;
    Ok(load)
}
