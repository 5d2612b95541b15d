//! A site behind a slow link, which stalls or is cut: what is owed comes after, and what is recorded then does not wait for it.

use super::fleet::{Fleet, wait_until};
use super::link::SlowLink;
use super::probe::{FILTER, Probe, Seen, latencies, now_us};
use super::{Experiment, Figures, Linked, Options, Row, row};
use crate::latency::Latency;
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// Longer than a reading takes on the link as it is.
const SETTLED: Duration = Duration::from_secs(2);

pub fn run(options: &Options, experiment: Experiment, progress: &Progress) -> Row {
    progress.show(&format!("centre: {}", experiment.name()));
    let size = (1, options.link.devices, options.points);
    row(experiment, size, measure(options, experiment).map(Figures::Link))
}

fn measure(options: &Options, experiment: Experiment) -> Result<Linked> {
    let link = options.link;
    let mut slow = None;
    let mut fleet = Fleet::start(&options.program, |server| {
        let made = SlowLink::to(server.parse()?, link.bits_per_s, link.round_trip)?;
        let address = made.address.to_string();
        slow = Some(made);
        Ok(address)
    })?;
    let slow = slow.context("there is no link")?;
    fleet.add_site(link.devices, options.points)?;
    fleet.wait_for_points()?;
    let probe = Probe::start(fleet.centre.process.said("mqtt")?, FILTER)?;
    let site = fleet.sites.first().context("there is no site")?;
    // The window of the link has found its size.
    wait_until("the site has sent what it recorded at first", || Fleet::has_caught_up(site, SETTLED.as_secs_f64()))?;
    std::thread::sleep(options.span / 2);
    probe.take();
    let from_us = now_us();
    std::thread::sleep(options.span);
    let to_us = now_us();
    // What was read by then is through before anything happens.
    std::thread::sleep(SETTLED);
    let mut linked = Linked {
        bits_per_s: link.bits_per_s,
        round_trip_ms: link.round_trip.as_secs_f64() * 1e3,
        latency: Latency { p50: 0, p90: 0, p99: 0 },
        event_s: None,
        caught_up_s: None,
        meanwhile_us_p99: None,
        ratio_to_before: None,
        lost: 0,
        twice: 0,
    };
    let mut after = None;
    match experiment {
        Experiment::Stall => {
            slow.stall(true);
            std::thread::sleep(link.event);
            slow.stall(false);
            after = Some(catch_up(&fleet)?);
        }
        Experiment::Outage => {
            slow.cut(true);
            std::thread::sleep(link.event);
            slow.cut(false);
            after = Some(catch_up(&fleet)?);
        }
        Experiment::Sites | Experiment::Levels | Experiment::Slow => {}
    }
    (linked.lost, linked.twice) = fleet.settle()?;
    ensure!((linked.lost, linked.twice) == (0, 0), "{} samples lost, {} twice", linked.lost, linked.twice);
    let seen = probe.take();
    let before = latencies(&seen, from_us, to_us)?;
    ensure!(!before.is_empty(), "no reading came");
    linked.latency = Latency::of(&before);
    if let Some((end_us, caught_up_us)) = after {
        linked.event_s = Some(link.event.as_secs_f64());
        linked.caught_up_s = Some(short(number(u64::try_from(caught_up_us - end_us)?) / 1e6));
        let meanwhile = latencies(&seen, live_from(&seen, end_us), caught_up_us)?;
        if !meanwhile.is_empty() {
            let p99 = Latency::of(&meanwhile).p99;
            linked.meanwhile_us_p99 = Some(p99);
            linked.ratio_to_before = Some(short(number(p99) / number(linked.latency.p99)));
        }
    }
    Ok(linked)
}

/// Waits until nothing is owed; the time from when it is waited, and to when. A site that is cut for long has to connect first.
fn catch_up(fleet: &Fleet) -> Result<(i64, i64)> {
    let (end_us, begin) = (now_us(), Instant::now());
    let site = fleet.sites.first().context("there is no site")?;
    wait_until("the site has sent what it owes", || {
        let is_up = fleet.centre.metric("tieline_centre_site_up{site=\"s1\"}")? > 0.0;
        Ok(begin.elapsed().as_secs_f64() > 1.0 && is_up && Fleet::has_caught_up(site, SETTLED.as_secs_f64())?)
    })?;
    Ok((end_us, now_us()))
}

/// When readings were live again: the first one that was made after the end of the event, and came.
fn live_from(seen: &[Seen], end_us: i64) -> i64 {
    let first = seen.iter().filter(|one| one.read_us > end_us).map(|one| one.stored_us).min();
    first.unwrap_or(end_us)
}
