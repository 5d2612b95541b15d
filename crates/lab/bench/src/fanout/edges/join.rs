//! An edge that is added while updates go on: until it has all topics, and what subscribers of another edge feel of it.

use super::super::heard::Window;
use super::super::merged;
use super::super::plan::Plan;
use super::super::publish::now_us;
use super::super::reconnect::{EVERY_US, before_and_meanwhile};
use super::super::trial::{LEAD_US, TAIL_US, sleep_until};
use super::tier::{Core, cpu_s, seat, tell_window, told};
use super::{Figures, Joined, Options, Row, row};
use crate::latency::Latency;
use crate::process::resident_bytes_of;
use crate::report::Progress;
use crate::rounds::{median, number, short};
use anyhow::{Result, ensure};

/// How long it may take: so many times the seconds of a measurement.
const LIMIT_SPANS: u64 = 8;

/// What one round measured.
struct Trial {
    all_us: u64,
    listening_us: u64,
    core_cpu_s: f64,
    before: Vec<(u64, u64)>,
    meanwhile: Vec<(u64, u64)>,
    rss_bytes: u64,
}

pub fn run(options: &Options, subscribers: usize, progress: &Progress) -> Result<Row> {
    let plan = options.plan(subscribers)?;
    let mut trials = Vec::new();
    for round in 1..=options.load.rounds {
        progress.show(&format!("edges: one is added, round {round} of {}", options.load.rounds));
        match measure(plan, options) {
            Ok(trial) => trials.push(trial),
            Err(why) => return Ok(row(options, "join", 2, &plan, Err(why))),
        }
    }
    Ok(row(options, "join", 2, &plan, Ok(Figures::Join(figures(&trials)))))
}

fn measure(plan: Plan, options: &Options) -> Result<Trial> {
    let (load, core) = (&options.load, Core::start(options, plan)?);
    let edge = core.edge(0)?;
    let mut seated = seat(load, &plan, &[&edge])?;
    let before_us = u64::try_from(load.span.as_micros())?;
    let start_us = now_us() + LEAD_US;
    let from_us = start_us + LEAD_US / 2;
    let (added_us, to_us) = (from_us + before_us, from_us + (1 + LIMIT_SPANS) * before_us);
    let window = Window { start_us, from_us, to_us, end_us: to_us + TAIL_US, every_us: EVERY_US };
    let publishing = core.publish(start_us, window.end_us)?;
    tell_window(&mut seated, window)?;
    sleep_until(added_us);
    let cpu_before = cpu_s([&core.server])?;
    let added = core.begin_edge(core.server.address, 1)?;
    added.stand_back()?;
    let listening_us = now_us() - added_us;
    core.wait_for_all(&added)?;
    let all_us = now_us() - added_us;
    let core_cpu_s = cpu_s([&core.server])? - cpu_before;
    let rss_bytes = resident_bytes_of(added.process())?;
    let told = told(&seated)?;
    publishing.end()?;
    told.check(plan.events_between(from_us - start_us, to_us - start_us))?;
    ensure!(all_us < LIMIT_SPANS * before_us, "the new edge had all topics only after {} s", all_us / 1_000_000);
    let [before, meanwhile] = before_and_meanwhile(&told, before_us, before_us + all_us);
    Ok(Trial { all_us, listening_us, core_cpu_s, before, meanwhile, rss_bytes })
}

fn figures(trials: &[Trial]) -> Joined {
    let each = |figure: &dyn Fn(&Trial) -> f64| short(median(&trials.iter().map(figure).collect::<Vec<_>>()));
    let p99 = |counts: &[(u64, u64)]| Latency::of(&merged(counts.iter().copied())).p99;
    let all = |of: fn(&Trial) -> &Vec<(u64, u64)>| p99(&trials.iter().flat_map(of).copied().collect::<Vec<_>>());
    Joined {
        all_s: each(&|trial| number(trial.all_us) / 1e6),
        all_s_from_listening: each(&|trial| number(trial.all_us - trial.listening_us) / 1e6),
        core_cpu_s: each(&|trial| trial.core_cpu_s),
        latency_us_p99_before: all(|trial| &trial.before),
        latency_us_p99_meanwhile: all(|trial| &trial.meanwhile),
        ratio_to_before: each(&|trial| number(p99(&trial.meanwhile)) / number(p99(&trial.before))),
        rss_bytes: each(&|trial| number(trial.rss_bytes)),
    }
}
