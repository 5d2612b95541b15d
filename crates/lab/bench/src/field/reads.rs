//! Processor time of a read over many connections, and reads a second over one with a delay, beside the floor and the peer.

use super::floor::Floor;
use super::load::{self, Ask, Measured};
use super::ours::Ours;
use super::peer::{self, Peer};
use super::responder::Responder;
use super::{Experiment, Figures, Options, Row};
use crate::report::Progress;
use crate::rounds::{median, median_ratio, short, shuffle};
use anyhow::Result;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use tieline_net::Jitter;

/// Intervals of reads: as fast as answers come, and as a poll of a node that many devices share.
const EVERY: [Option<Duration>; 2] = [None, Some(Duration::from_secs(1))];
/// With fewer connections, a read a second each is nothing to measure.
const PACED_MIN: usize = 1000;
/// One connection's reads in flight: the first is what the others are compared with.
const WINDOWS: [u8; 3] = [1, 4, 16];
/// How long each answer takes in the experiment over windows.
pub const DELAY: Duration = Duration::from_millis(20);

/// What a row of reads measured: medians over its rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadFigures {
    /// Reads a second, all connections together.
    pub reads_per_s: f64,
    /// Processor time of the client's thread for one read.
    pub cpu_us_per_read: f64,
    /// The floor's.
    pub floor_cpu_us_per_read: f64,
    /// Processor time over the floor's.
    pub ratio_to_floor: f64,
    /// Share of a core that the client's thread took.
    pub core_percent: f64,
    /// The floor's.
    pub floor_core_percent: f64,
    /// Processor time of tokio-modbus, where it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_cpu_us_per_read: Option<f64>,
    /// Processor time over that of tokio-modbus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_peer: Option<f64>,
}

/// What a row over windows measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WindowFigures {
    /// Reads a second.
    pub reads_per_s: f64,
    /// The floor's.
    pub floor_reads_per_s: f64,
    /// Reads a second over those of the first window.
    pub ratio_to_one: f64,
    /// The floor's.
    pub floor_ratio_to_one: f64,
}

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Floor,
    Peer,
}

/// The rounds of a row, in order.
#[derive(Debug, Default)]
struct Series {
    ours: Vec<Measured>,
    floor: Vec<Measured>,
    peer: Vec<Measured>,
}

impl Series {
    fn of(figure: impl Fn(&Measured) -> f64, all: &[Measured]) -> Vec<f64> {
        all.iter().map(figure).collect()
    }

    fn figures(&self) -> ReadFigures {
        let cpu = |all: &[Measured]| Self::of(|measured| measured.cpu_us_per_read, all);
        let core = |all: &[Measured]| Self::of(|measured| measured.core_percent, all);
        let has_peer = !self.peer.is_empty();
        ReadFigures {
            reads_per_s: short(median(&Self::of(|measured| measured.reads_per_s, &self.ours))),
            cpu_us_per_read: short(median(&cpu(&self.ours))),
            floor_cpu_us_per_read: short(median(&cpu(&self.floor))),
            ratio_to_floor: short(median_ratio(&cpu(&self.ours), &cpu(&self.floor))),
            core_percent: short(median(&core(&self.ours))),
            floor_core_percent: short(median(&core(&self.floor))),
            peer_cpu_us_per_read: has_peer.then(|| short(median(&cpu(&self.peer)))),
            ratio_to_peer: has_peer.then(|| short(median_ratio(&cpu(&self.ours), &cpu(&self.peer)))),
        }
    }
}

/// The rows of reads.
pub fn rows(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let peer = peer::program();
    let mut rows = Vec::new();
    for &connections in &options.connections {
        for every in EVERY.into_iter().filter(|every| every.is_none() || connections >= PACED_MIN) {
            for &registers in &options.registers {
                let ask = Ask { connections, registers, window: 1, every };
                let sides = [Some(Side::Ours), Some(Side::Floor), peer.is_some().then_some(Side::Peer)];
                let sides: Vec<Side> = sides.into_iter().flatten().collect();
                let run = |what: &str| rounds(options, ask, &sides, peer.as_deref(), Duration::ZERO, progress, what);
                let (series, invalid) = run(&format!("reads of {connections} connections"))?;
                let figures = invalid.is_none().then(|| Figures::Reads(series.figures()));
                rows.push(Row { figures, invalid, ..row_of(Experiment::Reads, ask, options) });
            }
        }
    }
    Ok(rows)
}

/// The rows over windows.
pub fn window_rows(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let registers = options.registers.first().copied().unwrap_or(1);
    let mut first: Option<(Vec<f64>, Vec<f64>)> = None;
    let mut rows = Vec::new();
    for window in WINDOWS {
        let ask = Ask { connections: 1, registers, window, every: None };
        let what = format!("{window} reads in flight");
        let (series, invalid) = rounds(options, ask, &[Side::Ours, Side::Floor], None, DELAY, progress, &what)?;
        let per_s = |all: &[Measured]| Series::of(|measured| measured.reads_per_s, all);
        let (ours, floor) = (per_s(&series.ours), per_s(&series.floor));
        let (ours_one, floor_one) = first.get_or_insert_with(|| (ours.clone(), floor.clone()));
        let figures = invalid.is_none().then(|| {
            Figures::Window(WindowFigures {
                reads_per_s: short(median(&ours)),
                floor_reads_per_s: short(median(&floor)),
                ratio_to_one: short(median(&ours) / median(ours_one)),
                floor_ratio_to_one: short(median(&floor) / median(floor_one)),
            })
        });
        rows.push(Row { figures, invalid, ..row_of(Experiment::Window, ask, options) });
    }
    Ok(rows)
}

fn row_of(experiment: Experiment, ask: Ask, options: &Options) -> Row {
    Row {
        connections: Some(ask.connections),
        registers: Some(ask.registers),
        every_s: ask.every.map(|every| every.as_secs_f64()),
        in_flight: (experiment == Experiment::Window).then_some(ask.window),
        rounds: Some(options.rounds),
        ..Row::new(experiment)
    }
}

/// All sides once in each round, in random order; why there are no figures, where a side was not valid.
fn rounds(
    options: &Options,
    ask: Ask,
    sides: &[Side],
    peer: Option<&Path>,
    delay: Duration,
    progress: &Progress,
    what: &str,
) -> Result<(Series, Option<String>)> {
    let responder = Responder::start(delay)?;
    // A paced connection reads once in each interval: less than one says nothing.
    let span = options.span.max(ask.every.unwrap_or_default());
    let mut series = Series::default();
    let (mut jitter, mut order) = (Jitter::new(std::process::id().into()), sides.to_vec());
    for round in 1..=options.rounds {
        shuffle(&mut order, &mut jitter);
        for side in &order {
            progress.show(&format!("field: {what}, {} registers, round {round}, {side:?}", ask.registers));
            let measured = match (side, peer) {
                (Side::Ours, _) => load::measure::<Ours>(&responder, ask, span),
                (Side::Floor, _) => load::measure::<Floor>(&responder, ask, span),
                (Side::Peer, Some(peer)) => Peer::start(peer, responder.address, ask).and_then(|p| p.measure(span)),
                (Side::Peer, None) => continue,
            };
            let all = match side {
                Side::Ours => &mut series.ours,
                Side::Floor => &mut series.floor,
                Side::Peer => &mut series.peer,
            };
            match measured {
                Ok(measured) => all.push(measured),
                Err(why) => return Ok((series, Some(format!("{what}, {side:?}: {why:#}")))),
            }
        }
    }
    Ok((series, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_of_rounds() {
        let measured = |cpu_us_per_read: f64| Measured { reads_per_s: 10.0, cpu_us_per_read, core_percent: 1.0 };
        let series = Series {
            ours: vec![measured(6.0), measured(4.0), measured(9.0)],
            floor: vec![measured(3.0), measured(4.0), measured(3.0)],
            peer: Vec::new(),
        };
        let figures = series.figures();
        assert_eq!((figures.cpu_us_per_read, figures.floor_cpu_us_per_read, figures.ratio_to_floor), (6.0, 3.0, 2.0));
        assert_eq!(figures.ratio_to_peer, None);
    }
}
