//! Experiment 1: pairs of a master and an outstation over loopback TCP. Each outstation reports the change of some
//! analog inputs in an unsolicited response, the master gives the values to its owner and confirms, and the outstation
//! reports again. What is counted reached the master's owner and was the right values.
//!
//! The floor is a ping-pong of messages of the same lengths over sockets with the same options, on the same number of
//! sessions and threads of the same runtime.

mod pairs;
mod pingpong;
mod reporter;

use crate::load::Measured;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, shuffled};
use crate::{load, process};
use anyhow::{Result, ensure};
use reporter::VALUES_MAX;
use serde::Serialize;
use std::time::Duration;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("sessions", "sessions"),
    ("workers", "workers"),
    ("values", "values"),
    ("exchanges/s", "exchanges_per_s"),
    ("CPU µs an exchange", "cpu_us_per_exchange"),
    ("floor CPU µs", "floor_cpu_us_per_exchange"),
    ("ratio to floor", "ratio_to_floor"),
    ("resident octets a pair", "rss_bytes_per_pair"),
];

/// How long the load runs that is there for the others' sake.
const WARM: Duration = Duration::from_millis(100);

/// What to run: every number of sessions with every number of values.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs.
    pub sessions: Vec<usize>,
    /// Threads for the masters, and as many for the outstations.
    pub workers: usize,
    /// Values in a report, 1 to 100.
    pub values: Vec<u16>,
    /// How long each side of a round is measured.
    pub span: Duration,
    /// Rounds of each row.
    pub rounds: usize,
}

/// One row. Figures are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Pairs.
    pub sessions: usize,
    /// Threads for the masters, and as many for the outstations.
    pub workers: usize,
    /// Values in a report.
    pub values: u16,
    /// Rounds.
    pub rounds: usize,
    /// Octets of the unsolicited response on the wire.
    pub report_bytes: usize,
    /// Octets of its confirm.
    pub confirm_bytes: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
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
    /// Resident memory of a pair after its load: growth of the process since before it, its threads included.
    pub rss_bytes_per_pair: f64,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut sessions = options.sessions.clone();
    // Rising, because memory that a larger row gave back would hide what a smaller one takes.
    sessions.sort_unstable();
    ensure!(options.workers > 0 && options.rounds > 0, "workers and rounds are 1 or more");
    for values in &options.values {
        ensure!((1..=VALUES_MAX).contains(values), "{values} values do not fit a report, expected 1 to {VALUES_MAX}");
    }
    for count in &sessions {
        ensure!(*count > 0, "0 sessions are nothing to measure, expected 1 or more");
        process::reserve_descriptors(*count, 2)?;
    }
    // What every load needs once (code, the runtime's own) is there before anything is counted, and stays.
    let warm = connect(Side::Ours, options.workers, options.workers, VALUES_MAX, (0, 0))?;
    warm.measure(WARM)?;
    let resident = process::resident_octets()?;
    let mut rows = Vec::new();
    for sessions in sessions {
        for values in &options.values {
            rows.push(run_row(options, sessions, *values, resident, progress)?);
        }
    }
    Ok(rows)
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

fn run_row(options: &Options, sessions: usize, values: u16, resident: u64, progress: &Progress) -> Result<Row> {
    let workers = options.workers.min(sessions);
    let (report_bytes, confirm_bytes) = pairs::wire_octets(values)?;
    let (mut ours, mut floor, mut grown) = (Series::default(), Series::default(), None);
    let mut invalid = None;
    // The first of all measurements is ours: what memory it needs is not there from a floor before it.
    let orders = std::iter::once([Side::Ours, Side::Floor]).chain(shuffled(options.rounds - 1));
    'rounds: for (round, order) in (1..).zip(orders) {
        for side in order {
            progress.show(&format!(
                "dnp3: {sessions} sessions, {values} values, round {round} of {}, {side:?}",
                options.rounds
            ));
            let load = connect(side, sessions, workers, values, (report_bytes, confirm_bytes))?;
            let measured = match load.measure(options.span) {
                Ok(measured) => measured,
                Err(why) => {
                    invalid = Some(format!("{sessions} sessions, {values} values, {side:?}: {why}"));
                    break 'rounds;
                }
            };
            match side {
                Side::Ours => ours.add(measured),
                Side::Floor => floor.add(measured),
            }
            if grown.is_none() {
                grown = Some(process::resident_octets()?.saturating_sub(resident));
            }
        }
    }
    let figures = invalid.is_none().then(|| Figures {
        exchanges_per_s: short(median(&ours.per_s)),
        cpu_us_per_exchange: short(median(&ours.cpu_us)),
        floor_exchanges_per_s: short(median(&floor.per_s)),
        floor_cpu_us_per_exchange: short(median(&floor.cpu_us)),
        ratio_to_floor: short(median_ratio(&ours.cpu_us, &floor.cpu_us)),
        rss_bytes_per_pair: short(number(grown.unwrap_or(0)) / number(sessions as u64)),
    });
    Ok(Row { sessions, workers, values, rounds: options.rounds, report_bytes, confirm_bytes, figures, invalid })
}

fn connect(side: Side, sessions: usize, workers: usize, values: u16, octets: (usize, usize)) -> Result<load::Load> {
    let load = match side {
        Side::Ours => pairs::connect(sessions, workers, values)?,
        Side::Floor => pingpong::connect(sessions, workers, octets)?,
    };
    load.await_ready()?;
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny(sessions: Vec<usize>, workers: usize, values: Vec<u16>) -> Options {
        Options { sessions, workers, values, span: Duration::from_millis(20), rounds: 2 }
    }

    #[test]
    fn exchanges_are_counted_beside_their_floor() {
        let rows = run(&tiny(vec![2, 1], 2, vec![1, 10]), &Progress::new(false)).unwrap();
        assert_eq!(
            rows.iter().map(|row| (row.sessions, row.workers, row.values)).collect::<Vec<_>>(),
            [(1, 1, 1), (1, 1, 10), (2, 2, 1), (2, 2, 10)]
        );
        for row in rows {
            assert_eq!(row.invalid, None);
            let figures = row.figures.unwrap();
            assert!(figures.exchanges_per_s > 0.0 && figures.floor_exchanges_per_s > 0.0, "{figures:?}");
            assert!(figures.cpu_us_per_exchange > 0.0 && figures.ratio_to_floor > 0.0, "{figures:?}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_the_reason() {
        let check = |options: Options, expect: &str| {
            let refused = run(&options, &Progress::new(false)).unwrap_err().to_string();
            assert!(refused.contains(expect), "{refused}");
        };
        check(tiny(vec![1], 0, vec![10]), "workers");
        check(tiny(vec![0], 1, vec![10]), "0 sessions");
        check(tiny(vec![1], 1, vec![101]), "101 values");
        check(tiny(vec![usize::MAX / 8], 1, vec![10]), "file descriptors");
    }
}
