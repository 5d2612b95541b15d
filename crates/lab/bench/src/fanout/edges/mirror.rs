//! What subscribers of edges cost the edges and the core, beside the same subscribers at the core.

use super::super::heard::{Told, Window};
use super::super::merged;
use super::super::plan::Plan;
use super::super::publish::now_us;
use super::super::servers::{Kind, Server};
use super::super::transport::Transport;
use super::super::trial::{self, LEAD_US, Setting, sleep_until};
use super::tier::{Core, cpu_s, seat, tell_window, told};
use super::{Figures, Mirrored, Options, Row, row};
use crate::latency::Latency;
use crate::report::Progress;
use crate::rounds::{median, median_ratio, number, short, shuffle};
use anyhow::{Context, Result, anyhow};
use tieline_net::Jitter;

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// Writes without logic.
    Floor,
    /// The core, and so many edges; none: the core itself.
    Edges(usize),
}

/// The trials of one of them.
struct Side {
    tier: Tier,
    plan: Plan,
    trials: Vec<Trial>,
    invalid: Option<String>,
}

/// One trial.
struct Trial {
    told: Told,
    window: Window,
    /// Updates of the time in which `cpu_s` was taken.
    updates: f64,
    core_cpu_s: f64,
    /// Of those that serve subscribers.
    cpu_s: f64,
}

impl Trial {
    fn event_cost(&self) -> f64 {
        self.cpu_s / number(self.told.received) * 1e6
    }

    fn update_cost(&self) -> f64 {
        self.core_cpu_s / self.updates * 1e6
    }

    fn p50(&self) -> f64 {
        number(Latency::of(&merged(self.told.latency_us.iter().flatten().copied())).p50)
    }
}

pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut sides = Vec::new();
    for subscribers in options.load.subscribers.iter().copied() {
        let plan = options.plan(subscribers)?;
        let tiers =
            [Tier::Floor, Tier::Edges(0)].into_iter().chain(options.edges.iter().map(|edges| Tier::Edges(*edges)));
        sides.extend(tiers.map(|tier| Side { tier, plan, trials: Vec::new(), invalid: None }));
    }
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let (mut dice, mut order) = (Jitter::new(seed), (0..sides.len()).collect::<Vec<_>>());
    for round in 1..=options.load.rounds {
        shuffle(&mut order, &mut dice);
        for at in &order {
            let Some(side) = sides.get_mut(*at).filter(|side| side.invalid.is_none()) else { continue };
            let Side { tier, plan, .. } = *side;
            let rounds = options.load.rounds;
            progress.show(&format!("edges: {tier:?}, {} subscribers, round {round} of {rounds}", plan.subscribers));
            match measure(tier, plan, options) {
                Ok(trial) => side.trials.push(trial),
                Err(why) => side.invalid = Some(format!("{why:#}")),
            }
        }
    }
    Ok(sides.iter().filter_map(|side| side.row(options, &sides)).collect())
}

fn measure(tier: Tier, plan: Plan, options: &Options) -> Result<Trial> {
    let load = &options.load;
    match tier {
        Tier::Floor => {
            let trial = trial::run(Setting::plain(Kind::Floor, Transport::Tcp), &plan, load)?;
            let window = trial::window(&plan, false, load);
            Ok(Trial { told: trial.told, window, updates: f64::NAN, core_cpu_s: f64::NAN, cpu_s: trial.cpu_s })
        }
        Tier::Edges(count) => measure_edges(count, plan, options),
    }
}

fn measure_edges(count: usize, plan: Plan, options: &Options) -> Result<Trial> {
    let (load, core) = (&options.load, Core::start(options, plan)?);
    let edges = (0..count).map(|number| core.edge(number)).collect::<Result<Vec<_>>>()?;
    let servers: Vec<&Server> = if edges.is_empty() { vec![&core.server] } else { edges.iter().collect() };
    let mut seated = seat(load, &plan, &servers)?;
    let window = trial::window(&plan, true, load);
    let updates = number(plan.due_by(window.to_us) - plan.due_by(window.from_us));
    let events = plan.events_between(window.from_us, window.to_us);
    let start_us = now_us() + LEAD_US;
    let window = window.after(start_us);
    let publishing = core.publish(start_us, window.end_us)?;
    tell_window(&mut seated, window)?;
    let taken = || anyhow::Ok([cpu_s([&core.server])?, cpu_s(servers.iter().copied())?]);
    sleep_until(window.from_us);
    let [core_before, before] = taken()?;
    sleep_until(window.to_us);
    let [core_after, after] = taken()?;
    let told = told(&seated)?;
    publishing.end()?;
    told.check(events)?;
    Ok(Trial { told, window, updates, core_cpu_s: core_after - core_before, cpu_s: after - before })
}

impl Side {
    fn each(&self, figure: fn(&Trial) -> f64) -> Vec<f64> {
        self.trials.iter().map(figure).collect()
    }

    fn row(&self, options: &Options, sides: &[Self]) -> Option<Row> {
        let Tier::Edges(edges) = self.tier else { return None };
        let figures = match &self.invalid {
            Some(why) => Err(anyhow!("{why}")),
            None => self.figures(options, edges, sides).map(Figures::Mirror),
        };
        Some(row(options, "mirror", edges, &self.plan, figures))
    }

    fn figures(&self, options: &Options, edges: usize, sides: &[Self]) -> Result<Mirrored> {
        let beside = |tier: Tier, plan: Plan| {
            sides.iter().find(|side| side.tier == tier && side.plan == plan && side.invalid.is_none())
        };
        let direct = beside(Tier::Edges(0), self.plan).filter(|_| edges > 0);
        let floor = beside(Tier::Floor, self.plan).ok_or_else(|| anyhow!("the floor is not valid"))?;
        let fewest = options.load.subscribers.iter().min().copied().unwrap_or(0);
        let fewest = beside(self.tier, Plan { subscribers: fewest, ..self.plan });
        let fewest = fewest.filter(|fewest| fewest.plan != self.plan);
        let least = options.edges.iter().min().copied().unwrap_or(0);
        let further = beside(Tier::Edges(least), self.plan).filter(|_| edges > least);
        let median_difference = |ours: Vec<f64>, other: Vec<f64>| {
            median(&ours.iter().zip(&other).map(|(ours, other)| ours - other).collect::<Vec<_>>())
        };
        let ratio =
            |other: &Self, figure: fn(&Trial) -> f64| short(median_ratio(&self.each(figure), &other.each(figure)));
        let first = self.trials.first().context("a round")?;
        let bytes: fn(&Trial) -> f64 = |trial| number(trial.told.bytes) / number(trial.told.delivered);
        Ok(Mirrored {
            core_cpu_s_per_million_updates: short(median(&self.each(Trial::update_cost))),
            core_ratio_to_fewest: fewest.map(|fewest| ratio(fewest, Trial::update_cost)),
            core_cpu_s_per_million_updates_each_further_edge: further.map(|further| {
                let more = median_difference(self.each(Trial::update_cost), further.each(Trial::update_cost));
                short(more / number((edges - least) as u64))
            }),
            cpu_s_per_million: short(median(&self.each(Trial::event_cost))),
            ratio_to_core: direct.map(|direct| ratio(direct, Trial::event_cost)),
            ratio_to_floor: ratio(floor, Trial::event_cost),
            floor_cpu_s_per_million: short(median(&floor.each(Trial::event_cost))),
            bytes_per_event: short(median(&self.each(bytes))),
            bytes_ratio_to_core: direct.map(|direct| ratio(direct, bytes)),
            latency: Latency::of(&merged(self.trials.iter().flat_map(|t| t.told.latency_us.iter().flatten().copied()))),
            latency_us_p50_more: direct
                .map(|direct| short(median_difference(self.each(Trial::p50), direct.each(Trial::p50)))),
            delivered: self.trials.iter().map(|trial| trial.told.delivered).sum(),
            lost: 0,
            window: first.window,
            window_delivered: first.told.delivered,
            window_bytes: first.told.bytes,
        })
    }
}
