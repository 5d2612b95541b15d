//! Centres above centres: how long a reading takes through all of them until it is stored at the highest.

use super::fleet::{Fleet, samples_of, wait_until};
use super::probe::{Probe, latencies, now_us};
use super::{Experiment, Figures, Leveled, Options, Row, row};
use crate::latency::Latency;
use crate::report::Progress;
use crate::rounds::short;
use anyhow::{Context, Result, ensure};
use std::time::Instant;

pub fn run(options: &Options, progress: &Progress) -> Row {
    progress.show(&format!("centre: {} levels", options.levels));
    let size = (1, options.link.devices, options.points);
    row(Experiment::Levels, size, measure(options).map(Figures::Levels))
}

fn measure(options: &Options) -> Result<Leveled> {
    ensure!(options.levels > 0, "levels are 1 or more");
    let begin = Instant::now();
    let here = |server: &str| Ok(server.to_owned());
    // The lowest is the first: it ends before what it is joined to.
    let mut chain = vec![Fleet::start(&options.program, here)?];
    for level in 1..options.levels {
        let above = chain.first().context("a centre above")?;
        chain.insert(0, Fleet::start_below(&options.program, here, Some((above, &name_of(level))))?);
    }
    let lowest = chain.first_mut().context("a lowest centre")?;
    lowest.add_site(options.link.devices, options.points)?;
    lowest.wait_for_points()?;
    let (lowest, top) = chain.first().zip(chain.last()).context("a centre")?;
    let last_name = if options.levels > 1 { name_of(1) } else { lowest.sites.first().context("a site")?.name.clone() };
    let stored = || top.centre.metric(&samples_of(&last_name));
    wait_until("the highest centre has points", || Ok(stored()? > 0.0))?;
    let first_points_s = short(begin.elapsed().as_secs_f64());
    let filter = format!("{}+/p0", "sites/+/".repeat(options.levels));
    let probe = Probe::start(top.centre.process.said("mqtt")?, &filter)?;
    std::thread::sleep(options.span / 2);
    let from_us = now_us();
    std::thread::sleep(options.span);
    let to_us = now_us();
    let (lost, twice) = lowest.settle()?;
    ensure!((lost, twice) == (0, 0), "{lost} samples lost, {twice} twice at the lowest centre");
    let recorded = lowest.sites.first().context("a site")?.recorded()?;
    wait_until("the highest centre has all that was recorded", || Ok(stored()? >= recorded))?;
    let found = stored()?;
    ensure!(found <= recorded, "the highest centre has {found} samples of {recorded}");
    let all = latencies(&probe.take(), from_us, to_us)?;
    ensure!(!all.is_empty(), "no reading came");
    Ok(Leveled { levels: options.levels, latency: Latency::of(&all), first_points_s, lost, twice })
}

/// The name of a centre at the one above it.
fn name_of(level: usize) -> String {
    format!("level{level}")
}
