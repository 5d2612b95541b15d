//! So many messages at a time: the published experiment.

use super::load::{Load, latencies};
use super::servers::Folder;
use super::{Experiment, Figures, LoadFigures, Options, Row, Verb, ceiling, single};
use crate::latency::Latency;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, shuffled};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Processor time of the ceiling in each round.
const CEILING_SPAN: Duration = Duration::from_millis(300);

pub(super) fn run(folder: &Folder, options: &Options, progress: &Progress, rows: &mut Vec<Row>) -> Result<()> {
    for verb in Verb::ALL {
        for &concurrency in &options.concurrency {
            for batch in [true, false] {
                progress.show(&format!("{verb:?}, {concurrency} at a time, batch {batch}"));
                let measured = measure(folder, options, verb, concurrency.max(1), batch).map(Figures::Load);
                let row = Row::new(options, Experiment::Closed, verb, batch, measured);
                rows.push(Row { concurrency: Some(concurrency), ..row });
            }
        }
    }
    Ok(())
}

fn measure(folder: &Folder, options: &Options, verb: Verb, concurrency: usize, batch: bool) -> Result<LoadFigures> {
    let servers = folder.start(batch)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut latency = latencies()?;
    let (mut per_s, mut per_cpu_s, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
    let mut floors = Vec::new();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let load = Load::new(&servers, folder.ispb, options.bytes, verb).await?;
        load.run_closed(concurrency, options.span, &mut latencies()?).await?;
        for order in shuffled(options.rounds) {
            for side in order {
                match side {
                    Side::Ours => {
                        let (cpu, start) = (servers.cpu_s()?, Instant::now());
                        let messages = number(load.run_closed(concurrency, options.span, &mut latency).await?);
                        per_s.push(messages / start.elapsed().as_secs_f64());
                        per_cpu_s.push(messages / (servers.cpu_s()? - cpu));
                    }
                    Side::Floor => {
                        ceilings.push(ceiling::measure(verb, &folder.key, options.bytes, batch, CEILING_SPAN)?);
                        if concurrency == 1 {
                            floors.push(single::floor_us(verb, &folder.key, options.bytes)?);
                        }
                    }
                }
            }
        }
        anyhow::Ok(())
    })?;
    let single_floor_us_p50 = (!floors.is_empty()).then(|| short(median(&floors)));
    let quantiles = Latency::of(&latency);
    Ok(LoadFigures {
        messages_per_s: short(median(&per_s)),
        messages_per_cpu_s: short(median(&per_cpu_s)),
        ceiling_messages_per_cpu_s: Some(short(median(&ceilings))),
        ratio_to_ceiling: Some(short(median_ratio(&per_cpu_s, &ceilings))),
        latency: quantiles,
        latency_us_max: latency.max(),
        send_lag_us_p99: None,
        single_floor_us_p50,
        ratio_to_single_floor: single_floor_us_p50.map(|floor| short(number(quantiles.p50) / floor)),
    })
}
