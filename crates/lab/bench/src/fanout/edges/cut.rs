//! A link of an edge that is cut while updates go on, and mended: until the edge is connected again, and until it has the newest
//! value of every topic.

use super::super::heard::{Told, Window};
use super::super::plan::Plan;
use super::super::publish::now_us;
use super::super::trial::{LEAD_US, TAIL_US, sleep_until};
use super::bridge::Bridge;
use super::tier::{Core, is_up, seat, tell_window, told, wait_until};
use super::{Figures, Mended, Options, Row, row};
use crate::process::resident_bytes_of;
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Result, ensure};
use std::time::Duration;

/// How long the edge may take after the mending: so many times the seconds of a measurement. Then values count again.
const LIMIT_SPANS: u64 = 8;

/// What one round measured.
struct Trial {
    up_us: u64,
    newest_us: u64,
    core_grown_bytes: f64,
    told: Told,
}

pub fn run(options: &Options, subscribers: usize, progress: &Progress) -> Result<Row> {
    let plan = options.plan(subscribers)?;
    let mut trials = Vec::new();
    for round in 1..=options.load.rounds {
        progress.show(&format!("edges: a cut of {:?}, round {round} of {}", options.cut, options.load.rounds));
        match measure(plan, options) {
            Ok(trial) => trials.push(trial),
            Err(why) => return Ok(row(options, "cut", 1, &plan, Err(why))),
        }
    }
    Ok(row(options, "cut", 1, &plan, Ok(Figures::Cut(figures(&trials, options.cut)))))
}

fn measure(plan: Plan, options: &Options) -> Result<Trial> {
    let (Options { load, cut, .. }, core) = (options, Core::start(options, plan)?);
    let bridge = Bridge::to(core.server.address)?;
    let edge = core.begin_edge(bridge.address, 0)?;
    core.wait_for_all(&edge)?;
    let mut seated = seat(load, &plan, &[&edge])?;
    let span_us = u64::try_from(load.span.as_micros())?;
    let start_us = now_us() + LEAD_US;
    let cut_us = start_us + span_us;
    let mended_us = cut_us + u64::try_from(cut.as_micros())?;
    let from_us = mended_us + LIMIT_SPANS * span_us;
    let to_us = from_us + span_us;
    let window = Window { start_us, from_us, to_us, end_us: to_us + TAIL_US, every_us: span_us };
    let publishing = core.publish(start_us, window.end_us)?;
    tell_window(&mut seated, window)?;
    sleep_until(cut_us);
    bridge.cut();
    let core_before = resident_bytes_of(core.server.process())?;
    wait_until("the edge sees that its link is cut", || Ok(!is_up(&edge)?))?;
    sleep_until(mended_us);
    let core_grown_bytes = number(resident_bytes_of(core.server.process())?) - number(core_before);
    bridge.mend();
    wait_until("the edge is connected again", || is_up(&edge))?;
    let up_us = now_us() - mended_us;
    core.wait_for_all(&edge)?;
    let newest_us = now_us() - mended_us;
    let told = told(&seated)?;
    publishing.end()?;
    ensure!(newest_us < from_us - mended_us, "newest values came only after {} s", newest_us / 1_000_000);
    told.check(plan.events_between(from_us - start_us, to_us - start_us))?;
    Ok(Trial { up_us, newest_us, core_grown_bytes, told })
}

fn figures(trials: &[Trial], cut: Duration) -> Mended {
    let each = |figure: &dyn Fn(&Trial) -> f64| short(median(&trials.iter().map(figure).collect::<Vec<_>>()));
    Mended {
        cut_s: cut.as_secs_f64(),
        up_s: each(&|trial| number(trial.up_us) / 1e6),
        newest_s: each(&|trial| number(trial.newest_us) / 1e6),
        newest_s_from_up: each(&|trial| number(trial.newest_us - trial.up_us) / 1e6),
        core_grown_bytes: each(&|trial| trial.core_grown_bytes),
        delivered: trials.iter().map(|trial| trial.told.delivered).sum(),
        lost: 0,
    }
}
