//! So many messages a second, whether answers come or not.

use super::load::{Load, latencies};
use super::servers::Folder;
use super::{Experiment, Figures, LoadFigures, Options, Row, Verb};
use crate::latency::Latency;
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Result, ensure};
use std::time::Instant;

/// Parts of the rate that was reached with answers awaited.
const PARTS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
/// Messages at a time that show which rate can be reached.
const CONCURRENCY: usize = 64;
/// A client that sends later than this, one time in a hundred, was the bottleneck.
const LAG_US_MAX: u64 = 20_000;

pub(super) fn run(folder: &Folder, options: &Options, progress: &Progress, rows: &mut Vec<Row>) -> Result<()> {
    for verb in Verb::ALL {
        let reached = rows.iter().filter(|row| row.verb == verb && row.batch).filter_map(Row::messages_per_s);
        let reached = match reached.fold(0.0, f64::max) {
            0.0 => reach(folder, options, verb)?,
            reached => reached,
        };
        for part in PARTS {
            let rate = short(reached * part);
            progress.show(&format!("{verb:?}, {rate} a second"));
            let measured = measure(folder, options, verb, rate).map(Figures::Load);
            rows.push(Row { rate_per_s: Some(rate), ..Row::new(options, Experiment::Open, verb, true, measured) });
        }
    }
    Ok(())
}

/// Messages a second with answers awaited.
fn reach(folder: &Folder, options: &Options, verb: Verb) -> Result<f64> {
    let servers = folder.start(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let load = Load::new(&servers, folder.ispb, options.bytes, verb).await?;
        load.run_closed(CONCURRENCY, options.span, &mut latencies()?).await?;
        let start = Instant::now();
        let messages = load.run_closed(CONCURRENCY, options.span, &mut latencies()?).await?;
        Ok(number(messages) / start.elapsed().as_secs_f64())
    })
}

fn measure(folder: &Folder, options: &Options, verb: Verb, rate: f64) -> Result<LoadFigures> {
    let servers = folder.start(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut latency, mut lag) = (latencies()?, latencies()?);
    let (mut per_s, mut per_cpu_s) = (Vec::new(), Vec::new());
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let load = Load::new(&servers, folder.ispb, options.bytes, verb).await?;
        load.run_open(rate, options.span, &mut latencies()?, &mut latencies()?).await?;
        for _ in 0..options.rounds {
            let (cpu, start) = (servers.cpu_s()?, Instant::now());
            let messages = number(load.run_open(rate, options.span, &mut latency, &mut lag).await?);
            per_s.push(messages / start.elapsed().as_secs_f64());
            per_cpu_s.push(messages / (servers.cpu_s()? - cpu));
        }
        anyhow::Ok(())
    })?;
    let late = Latency::of(&lag).p99;
    ensure!(late <= LAG_US_MAX, "the client sent {late} µs late (p99): it was the bottleneck");
    Ok(LoadFigures {
        messages_per_s: short(median(&per_s)),
        messages_per_cpu_s: short(median(&per_cpu_s)),
        ceiling_messages_per_cpu_s: None,
        ratio_to_ceiling: None,
        latency: Latency::of(&latency),
        latency_us_max: latency.max(),
        send_lag_us_p99: Some(late),
        single_floor_us_p50: None,
        ratio_to_single_floor: None,
    })
}
