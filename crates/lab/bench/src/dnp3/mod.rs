//! Experiment 1: pairs of a master and an outstation over loopback TCP. Each outstation reports the change of some
//! analog inputs in an unsolicited response, the master gives the values to its owner and confirms, and the outstation
//! reports again. What is counted reached the master's owner and was the right values.
//!
//! The floor is a ping-pong of messages of the same lengths over sockets with the same options, on the same number of
//! sessions and threads of the same runtime.
//!
//! Read first: `loopback.rs` (threads and connections of both), then `throughput.rs` and `memory.rs`.

mod charts;
mod loopback;
mod memory;
mod pairs;
mod pingpong;
mod reporter;
mod throughput;

pub use charts::charts;
pub use memory::{Footprint, hold_pairs};
pub use throughput::Figures;

use crate::process;
use crate::report::Progress;
use anyhow::{Result, ensure};
use loopback::Threads;
use pingpong::PingPong;
use reporter::VALUES_MAX;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("sessions", "sessions"),
    ("workers", "workers"),
    ("values", "values"),
    ("exchanges/s", "exchanges_per_s"),
    ("CPU µs an exchange", "cpu_us_per_exchange"),
    ("floor CPU µs", "floor_cpu_us_per_exchange"),
    ("ratio to floor", "ratio_to_floor"),
    ("resident bytes a pair", "rss_bytes_per_pair"),
    ("idle CPU µs a pair and second", "idle_cpu_us_per_pair_s"),
];

/// One of the published curves, or what a small machine may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Exchanges over sessions: masters and outstations on threads of their own.
    Sessions,
    /// Exchanges over workers, each with both ends of its pairs.
    Workers,
    /// Memory over sessions, both ends on one worker a process.
    Memory,
    /// 1,000 pairs on one worker under a limit of memory that the kernel holds.
    Limit,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which experiments.
    pub experiments: Vec<Experiment>,
    /// Pairs of the experiment over sessions.
    pub sessions: Vec<usize>,
    /// Its threads: so many for the masters, and as many for the outstations.
    pub workers: usize,
    /// Pairs of the experiment over workers, which go from 1 to twice the processors.
    pub worker_sessions: Vec<usize>,
    /// Pairs of the experiment over memory.
    pub pairs: Vec<usize>,
    /// Bytes of memory that [`Experiment::Limit`] may have.
    pub memory_limit: Option<u64>,
    /// The program whose `bench dnp3 --hold-pairs` holds pairs to measure: usually the running one.
    pub program: Option<PathBuf>,
    /// Values in a report, 1 to 100. Workers and memory are measured with the first of them.
    pub values: Vec<u16>,
    /// How long each side of a round is measured.
    pub span: Duration,
    /// Rounds of each row.
    pub rounds: usize,
}

/// Pairs of [`Experiment::Limit`].
const LIMITED_PAIRS: usize = 1000;

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which experiment.
    pub experiment: Experiment,
    /// Pairs.
    pub sessions: usize,
    /// Threads: of each side in [`Experiment::Sessions`], of both sides together elsewhere.
    pub workers: usize,
    /// Values in a report.
    pub values: u16,
    /// Rounds, where there is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    /// Bytes of the unsolicited response on the wire.
    pub report_bytes: usize,
    /// Bytes of its confirm.
    pub confirm_bytes: usize,
    /// Exchanges and their cost; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Memory, likewise.
    #[serde(flatten)]
    pub footprint: Option<Footprint>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl Row {
    const fn new(experiment: Experiment, sessions: usize, workers: usize, values: u16, bytes: PingPong) -> Self {
        let PingPong { ping: report_bytes, pong: confirm_bytes } = bytes;
        let (rounds, figures, footprint, invalid) = (None, None, None, None);
        Self { experiment, sessions, workers, values, rounds, report_bytes, confirm_bytes, figures, footprint, invalid }
    }
}

/// Runs the experiments.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    check(options)?;
    let mut rows = Vec::new();
    for experiment in &options.experiments {
        match experiment {
            Experiment::Sessions => {
                throughput::warm(Threads::Apart(options.workers), VALUES_MAX)?;
                for sessions in &options.sessions {
                    for values in &options.values {
                        rows.push(throughput::row(
                            options,
                            *experiment,
                            *sessions,
                            options.workers,
                            *values,
                            progress,
                        )?);
                    }
                }
            }
            Experiment::Workers => {
                let values = options.values.first().copied().unwrap_or(1);
                for sessions in &options.worker_sessions {
                    for workers in workers(process::processors()) {
                        rows.push(throughput::row(options, *experiment, *sessions, workers, values, progress)?);
                    }
                }
            }
            Experiment::Memory => {
                for pairs in &options.pairs {
                    rows.push(memory::row(options, *experiment, *pairs, progress)?);
                }
            }
            Experiment::Limit => rows.push(memory::row(options, *experiment, LIMITED_PAIRS, progress)?),
        }
    }
    Ok(rows)
}

fn check(options: &Options) -> Result<()> {
    ensure!(options.workers > 0 && options.rounds > 0, "workers and rounds are 1 or more");
    ensure!(!options.values.is_empty(), "no values to report");
    for values in &options.values {
        ensure!((1..=VALUES_MAX).contains(values), "{values} values do not fit a report, expected 1 to {VALUES_MAX}");
    }
    for count in options.sessions.iter().chain(&options.worker_sessions).chain(&options.pairs) {
        ensure!(*count > 0, "0 sessions are nothing to measure, expected 1 or more");
    }
    if options.experiments.contains(&Experiment::Sessions) {
        process::reserve_descriptors(options.sessions.iter().copied().max().unwrap_or(0), 2)?;
    }
    Ok(())
}

/// Numbers of workers up to twice the processors: each of the first eight, then fewer, and always the processors.
fn workers(processors: usize) -> Vec<usize> {
    let most = processors * 2;
    let mut counts: Vec<usize> = (1..=most.min(8)).collect();
    counts.extend((3..).map(|step| 4 * step).take_while(|count| *count <= most));
    counts.extend([processors, most]);
    counts.sort_unstable();
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny(sessions: Vec<usize>, workers: usize, values: Vec<u16>) -> Options {
        Options {
            experiments: vec![Experiment::Sessions],
            sessions,
            workers,
            worker_sessions: vec![2],
            pairs: vec![1],
            memory_limit: None,
            program: None,
            values,
            span: Duration::from_millis(100),
            rounds: 2,
        }
    }

    fn check_rows(rows: &[Row]) {
        for row in rows {
            assert_eq!(row.invalid, None);
            let figures = row.figures.unwrap();
            assert!(figures.exchanges_per_s > 0.0 && figures.floor_exchanges_per_s > 0.0, "{figures:?}");
            assert!(figures.cpu_us_per_exchange > 0.0 && figures.ratio_to_floor > 0.0, "{figures:?}");
        }
    }

    #[test]
    fn exchanges_are_counted_beside_their_floor() {
        let rows = run(&tiny(vec![1, 2], 2, vec![10]), &Progress::new(false)).unwrap();
        assert_eq!(
            rows.iter().map(|row| (row.sessions, row.workers, row.values)).collect::<Vec<_>>(),
            [(1, 1, 10), (2, 2, 10)]
        );
        check_rows(&rows);
    }

    #[test]
    fn workers_have_both_ends() {
        let options = Options { experiments: vec![Experiment::Workers], ..tiny(vec![], 1, vec![10]) };
        let rows = run(&options, &Progress::new(false)).unwrap();
        check_rows(&rows);
        assert_eq!(rows[0].workers, 1);
        assert_eq!(charts(&rows).len(), 1);
    }

    #[test]
    fn workers_go_to_twice_the_processors() {
        assert_eq!(workers(1), [1, 2]);
        assert_eq!(workers(4), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(workers(9), [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 18]);
    }

    #[test]
    fn memory_without_a_program_is_said() {
        let options = Options { experiments: vec![Experiment::Memory], ..tiny(vec![], 1, vec![10]) };
        let rows = run(&options, &Progress::new(false)).unwrap();
        assert!(rows[0].invalid.as_ref().unwrap().contains("no program"), "{rows:?}");
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
