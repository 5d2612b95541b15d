//! Resident memory of pairs, and a processor's work for pairs that are idle.
//!
//! Pairs live in processes of their own, one worker each, so that nothing that ran before counts for them: what a
//! process has grown by since it ran a first pair, threads and heap and all. Many pairs are spread over several
//! processes where one may not have enough file descriptors; all of them are there at the same time.
//!
//! ```text
//! parent ── connect ──▶ child ── ready ──▶ parent ── measure ──▶ child ── one line of JSON ──▶ parent
//! ```

use super::loopback::Threads;
use super::pairs;
use super::throughput::{start, warm};
use super::{Experiment, Options, Row};
use crate::memory_group::MemoryGroup;
use crate::process;
use crate::report::Progress;
use crate::rounds::{Side, number, short};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Descriptors of a pair.
const DESCRIPTORS: usize = 2;
/// How long nothing is exchanged, to see what that costs.
const IDLE: Duration = Duration::from_secs(1);
/// Threads of a process with pairs.
const THREADS: Threads = Threads::Together(1);

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Footprint {
    /// Resident memory of a pair: growth of its process since before it was there.
    pub rss_bytes_per_pair: f64,
    /// Processes that the pairs were spread over.
    pub processes: usize,
    /// Largest resident memory of a process, all that it is included.
    pub peak_rss_bytes: u64,
    /// What a process was allowed, by the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Exchanges a second, all pairs together.
    pub exchanges_per_s: f64,
    /// Processor time of an idle pair in a second.
    pub idle_cpu_us_per_pair_s: f64,
}

/// What a child has to say.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Told {
    grown_bytes: u64,
    peak_rss_bytes: u64,
    exchanges_per_s: f64,
    idle_cpu_us_per_s: f64,
}

/// Measures one row.
pub fn row(options: &Options, experiment: Experiment, pairs: usize, progress: &Progress) -> Result<Row> {
    let values = options.values.first().copied().unwrap_or(1);
    progress.show(&format!("dnp3: memory of {pairs} pairs"));
    let limit = options.memory_limit.filter(|_| experiment == Experiment::Limit);
    let (footprint, invalid) = match measure(options, pairs, values, limit) {
        Ok(footprint) => (Some(footprint), None),
        Err(why) => (None, Some(format!("memory of {pairs} pairs: {why:#}"))),
    };
    let row = Row::new(experiment, pairs, 1, values, pairs::wire_bytes(values)?);
    Ok(Row { footprint, invalid, ..row })
}

fn measure(options: &Options, pairs: usize, values: u16, limit: Option<u64>) -> Result<Footprint> {
    let program = options.program.as_deref().context("no program to start processes with")?;
    let processes = pairs.div_ceil(process::sessions_max(DESCRIPTORS).max(1));
    let group = limit.map(MemoryGroup::new).transpose()?;
    let mine = |number: usize| (number..pairs).step_by(processes).len();
    let start = |number| Process::start(program, mine(number), values, options.span, group.as_ref());
    let mut children = (0..processes).map(start).collect::<Result<Vec<_>>>()?;
    children.iter_mut().try_for_each(|child| child.say("connect"))?;
    for child in &mut children {
        ensure!(child.hear()?.trim() == "ready", "a process with pairs did not get ready");
    }
    children.iter_mut().try_for_each(|child| child.say("measure"))?;
    let told =
        children.iter_mut().map(|child| Ok(serde_json::from_str(&child.hear()?)?)).collect::<Result<Vec<Told>>>()?;
    let count = number(pairs as u64);
    Ok(Footprint {
        rss_bytes_per_pair: short(number(told.iter().map(|t| t.grown_bytes).sum()) / count),
        processes,
        peak_rss_bytes: told.iter().map(|t| t.peak_rss_bytes).max().unwrap_or(0),
        limit_bytes: limit,
        exchanges_per_s: short(told.iter().map(|t| t.exchanges_per_s).sum()),
        idle_cpu_us_per_pair_s: short(told.iter().map(|t| t.idle_cpu_us_per_s).sum::<f64>() / count),
    })
}

/// A process with pairs; dropped, it ends.
struct Process {
    child: Child,
    told: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(program: &Path, pairs: usize, values: u16, span: Duration, group: Option<&MemoryGroup>) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["bench", "dnp3", "--hold-pairs", &pairs.to_string(), "--values", &values.to_string()])
            .args(["--seconds", &span.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let told = BufReader::new(child.stdout.take().context("a process without output")?);
        let started = Self { child, told };
        group.map_or(Ok(()), |group| group.take(started.child.id()))?;
        Ok(started)
    }

    fn say(&mut self, word: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("a process without input")?;
        Ok(writeln!(input, "{word}")?)
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        self.told.read_line(&mut line)?;
        ensure!(!line.is_empty(), "a process with pairs ended: {}", self.child.wait()?);
        Ok(line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the process that a row starts: holds pairs, and tells what they take.
///
/// # Errors
/// The system does not have what they need, or something was lost.
pub fn hold_pairs(
    pairs: usize,
    values: u16,
    span: Duration,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<()> {
    process::reserve_descriptors(pairs, DESCRIPTORS)?;
    let mut word = String::new();
    input.read_line(&mut word)?;
    warm(THREADS, values)?;
    let before = process::resident_bytes()?;
    let load = start(Side::Ours, pairs, THREADS, values, pairs::wire_bytes(values)?)?;
    writeln!(out, "ready")?;
    out.flush()?;
    input.read_line(&mut word)?;
    let measured = load.measure(span)?;
    let grown_bytes = process::resident_bytes()?.saturating_sub(before);
    let worked = process::cpu();
    std::thread::sleep(IDLE);
    let idle = process::cpu().saturating_sub(worked);
    let told = Told {
        grown_bytes,
        peak_rss_bytes: process::peak_resident_bytes()?,
        exchanges_per_s: measured.per_s,
        idle_cpu_us_per_s: idle.as_secs_f64() * 1e6 / IDLE.as_secs_f64(),
    };
    writeln!(out, "{}", serde_json::to_string(&told)?)?;
    out.flush()?;
    // The other processes' pairs are measured beside these.
    input.read_line(&mut word)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_pairs_says_what_they_take() {
        let mut out = Vec::new();
        hold_pairs(3, 10, Duration::from_millis(100), &mut "connect\nmeasure\n".as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (ready, told) = out.split_once('\n').unwrap();
        let told: Told = serde_json::from_str(told).unwrap();
        assert_eq!(ready, "ready");
        assert!(told.exchanges_per_s > 0.0 && told.peak_rss_bytes > told.grown_bytes, "{told:?}");
    }
}
