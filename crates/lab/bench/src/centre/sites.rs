//! More and more sites, until the machine is full.

use super::fleet::Fleet;
use super::probe::{FILTER, Probe, latencies, now_us};
use super::{Experiment, Figures, Options, Row, Stored, row};
use crate::latency::Latency;
use crate::process::{cpu_s_of, processors, resident_bytes_of};
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Context, Result, ensure};
use std::time::Instant;

/// What was published: buildings of 500 devices with 18 points each second, and how far the store was behind at the end of the run, in seconds.
const PUBLISHED: [(usize, f64); 4] = [(1, 9.0), (2, 25.0), (3, 45.0), (4, 60.0)];
/// Of the processors, so many that no more can be had.
const FULL: f64 = 0.95;

/// The published time of so many sites, where they are as large.
pub fn published_s(sites: usize, devices: usize, points: usize) -> Option<f64> {
    let found = PUBLISHED.iter().find(|(buildings, _)| *buildings == sites && (devices, points) == (500, 18));
    found.map(|(_, seconds)| *seconds)
}

pub fn run(options: &Options, progress: &Progress) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut fewest = None;
    for sites in &options.sites {
        let size = (*sites, options.devices, options.points);
        if let Some(full) = rows.iter().find(|row| is_full(row)) {
            let why = format!("the machine was full with {} sites", full.sites);
            rows.push(row(Experiment::Sites, size, Err(anyhow::anyhow!(why))));
            continue;
        }
        progress.show(&format!("centre: {sites} sites"));
        let figures = measure(options, *sites).map(|mut stored| {
            let apart = stored.centre_mb - stored.centre_heads_mb;
            let (few, mb) = *fewest.get_or_insert((*sites, apart));
            if *sites > few {
                stored.centre_mb_each_site = Some(short((apart - mb) / number((*sites - few) as u64)));
            }
            Figures::Sites(stored)
        });
        rows.push(row(Experiment::Sites, size, figures));
    }
    rows
}

fn is_full(row: &Row) -> bool {
    match &row.figures {
        Some(Figures::Sites(stored)) => {
            stored.machine_cores > FULL * number(processors() as u64) && stored.latency.p99 > 1_000_000
        }
        Some(Figures::Levels(_) | Figures::Link(_)) | None => false,
    }
}

fn measure(options: &Options, sites: usize) -> Result<Stored> {
    let begin = Instant::now();
    let mut fleet = Fleet::start(&options.program, |address| Ok(address.to_owned()))?;
    for _ in 0..sites {
        fleet.add_site(options.devices, options.points)?;
    }
    fleet.wait_for_points()?;
    let first_points_s = short(begin.elapsed().as_secs_f64());
    let probe = Probe::start(fleet.centre.process.said("mqtt")?, FILTER)?;
    // What was recorded while sites joined is through.
    std::thread::sleep(options.span / 2);
    let server = server_of(&fleet)?;
    let used = |fleet: &Fleet| -> Result<[f64; 4]> {
        let sites = fleet.sites.iter().map(|site| cpu_s_of(site.node.process.id())).sum::<Result<f64>>()?;
        Ok([cpu_s_of(fleet.centre.process.id())?, cpu_s_of(server)?, sites, machine_s()?])
    };
    let (before, from_us, from) = (used(&fleet)?, now_us(), Instant::now());
    std::thread::sleep(options.span);
    let (after, to_us, span_s) = (used(&fleet)?, now_us(), from.elapsed().as_secs_f64());
    let centre_heads_mb = fleet.centre.metric("tieline_history_memory_bytes")? / 1e6;
    let centre_mb = number(resident_bytes_of(fleet.centre.process.id())?) / 1e6;
    // Readings that are on their way count, too, however late they are.
    let (lost, twice) = fleet.settle()?;
    ensure!((lost, twice) == (0, 0), "{lost} samples lost, {twice} twice");
    let all = latencies(&probe.take(), from_us, to_us)?;
    let expected = number((sites * options.devices) as u64) * span_s;
    // A client that is behind is given the newest values, and the age of the others is not known.
    ensure!(number(all.len()) > expected * 0.5, "only {} of {expected:.0} readings were seen", all.len());
    let [centre_cores, server_cores, sites_cores, machine_cores] =
        std::array::from_fn(|at| short(difference(&before, &after, at) / span_s));
    Ok(Stored {
        latency: Latency::of(&all),
        first_points_s,
        centre_cores,
        server_cores,
        sites_cores,
        machine_cores,
        centre_mb: short(centre_mb),
        centre_heads_mb: short(centre_heads_mb),
        centre_mb_each_site: None,
        published_s: published_s(sites, options.devices, options.points),
        looked_at: usize::try_from(all.len())?,
        lost,
        twice,
    })
}

fn difference(before: &[f64], after: &[f64], at: usize) -> f64 {
    after.get(at).copied().unwrap_or(0.0) - before.get(at).copied().unwrap_or(0.0)
}

fn server_of(fleet: &Fleet) -> Result<u32> {
    let id = fleet.server.hello.get("pid").and_then(serde_json::Value::as_u64).context("the server has no number")?;
    Ok(u32::try_from(id)?)
}

/// Seconds in which processors of this machine were busy.
fn machine_s() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy = ticks.iter().take(8).sum::<f64>() - ticks.iter().skip(3).take(2).sum::<f64>();
    Ok(busy / 100.0)
}
