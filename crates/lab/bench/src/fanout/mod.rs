//! Experiment 3: many subscribers, each to some of many topics, and values of about 1 kB that change in a few digits.
//! Beside this server, in the same run, the peers that are installed and the floor: writes of the same sizes over as
//! many sockets at the same times, without logic.
//!
//! Every server is a process of its own and its processor time is read off while the load runs; one publisher and the
//! subscribers are other processes. Every update is due at a fixed time and carries it, so that a latency counts from
//! when the update was due. Each subscriber compares every value with what must have been published and knows which
//! come twice; a run that lost one is not valid.
//!
//! Read first: `plan.rs`, then `trial.rs`.

mod charts;
mod floor;
mod listen;
mod plan;
mod player;
mod publish;
mod servers;
mod speech;
mod trial;

#[cfg(test)]
mod tests;

pub use charts::charts;
pub use trial::play;

use crate::process;
use crate::report::Progress;
use crate::rounds::{median, median_ratio, number, short};
use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use plan::Plan;
use serde::Serialize;
use servers::Kind;
use std::path::PathBuf;
use std::time::Duration;
use tieline_net::Jitter;
use trial::Trial;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("server", "server"),
    ("subscribers", "subscribers"),
    ("deltas", "delta"),
    ("window ms", "window_ms"),
    ("events/s", "events_per_s"),
    ("cores", "cores"),
    ("CPU s a million", "cpu_s_per_million"),
    ("to floor", "ratio_to_floor"),
    ("to Mosquitto", "ratio_to_mosquitto"),
    ("to NATS", "ratio_to_nats"),
    ("bytes an event", "bytes_per_event"),
    ("µs p50", "latency_us_p50"),
    ("p99", "latency_us_p99"),
    ("bytes a subscriber", "rss_bytes_per_subscriber"),
    ("a subscription", "rss_bytes_per_subscription"),
    ("a topic", "rss_bytes_per_topic"),
    ("lost", "lost"),
];

/// What to run: every number of subscribers with every window, with and without deltas as asked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Subscribers.
    pub subscribers: Vec<usize>,
    /// Topics.
    pub topics: usize,
    /// Updates a second, of all topics together.
    pub rate: u64,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// Without deltas, with them.
    pub delta: Vec<bool>,
    /// Milliseconds that updates may wait for others to the same subscriber; 0 sends each at once.
    pub windows_ms: Vec<u32>,
    /// Whether topics keep their last value, where the server can.
    pub retain: bool,
    /// Further subscribers that read nothing.
    pub stalled: usize,
    /// Whether the installed peers run too.
    pub peers: bool,
    /// How long each measurement lasts.
    pub span: Duration,
    /// Measurements of each row.
    pub rounds: usize,
    /// What plays the server and the clients; without it they are threads of this process.
    pub program: Option<PathBuf>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Who served.
    pub server: &'static str,
    /// Subscribers.
    pub subscribers: usize,
    /// Topics.
    pub topics: usize,
    /// Updates a second that were asked for.
    pub rate_per_s: u64,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// Whether subscribers asked for deltas.
    pub delta: bool,
    /// Milliseconds that updates might wait for others.
    pub window_ms: u32,
    /// How it went over the network.
    pub transport: &'static str,
    /// Whether topics kept their last value.
    pub retain: bool,
    /// Further subscribers that read nothing.
    pub stalled: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured: medians over the rounds, latencies of all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Values that came while values that count were due, a second.
    pub events_per_s: f64,
    /// Values that counted and came, of all rounds.
    pub delivered: u64,
    /// Values that counted and did not come: none, or the row had no figures.
    pub lost: u64,
    /// Processors that the server kept busy.
    pub cores: f64,
    /// The server's processor time for a million values received.
    pub cpu_s_per_million: f64,
    /// The same over the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_floor: Option<f64>,
    /// Over Mosquitto's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_mosquitto: Option<f64>,
    /// Over the NATS server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_nats: Option<f64>,
    /// Octets of the stream for one value.
    pub bytes_per_event: f64,
    /// From when a value was due to be published until its subscriber had it.
    pub latency_us_p50: u64,
    /// The same.
    pub latency_us_p90: u64,
    /// The same.
    pub latency_us_p99: u64,
    /// How late the publisher sent what was due: a server that takes no more makes it late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_lag_us_p99: Option<u64>,
    /// Resident octets of the server for one subscriber with its subscriptions, when the load is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_per_subscriber: Option<f64>,
    /// For one that is connected and has not subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_per_session: Option<f64>,
    /// For one subscription more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_per_subscription: Option<f64>,
    /// For one topic with its last value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_per_topic: Option<f64>,
}

/// One combination.
#[derive(Clone, Copy, Debug)]
struct Case {
    plan: Plan,
    delta: bool,
    window_ms: u32,
}

impl Case {
    /// What subscriptions ask of this server besides what MQTT knows.
    fn wishes(&self, kind: Kind) -> Vec<(String, String)> {
        if kind != Kind::Tieline {
            return Vec::new();
        }
        let window = (self.window_ms > 0).then(|| ("tieline-window".to_owned(), self.window_ms.to_string()));
        let delta = self.delta.then(|| (tieline_delta::PROPERTY.to_owned(), "point,hunk".to_owned()));
        window.into_iter().chain(delta).collect()
    }
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.rounds > 0 && !options.span.is_zero(), "rounds and seconds are more than 0");
    let mut rows = Vec::new();
    for subscribers in options.subscribers.iter().copied() {
        let Options { topics, rate, subscriptions_each, .. } = *options;
        let plan = Plan { subscribers, topics, rate, subscriptions_each };
        plan.check()?;
        // The server is a process with the limits of this one.
        process::reserve_descriptors(subscribers + options.stalled, if options.program.is_some() { 1 } else { 2 })?;
        for delta in options.delta.iter().copied() {
            for window_ms in options.windows_ms.iter().copied() {
                run_case(&Case { plan, delta, window_ms }, options, progress, &mut rows);
            }
        }
    }
    Ok(rows)
}

fn run_case(case: &Case, options: &Options, progress: &Progress, rows: &mut Vec<Row>) {
    let mut sides: Vec<Side> = Kind::installed().into_iter().map(Side::new).collect();
    sides.retain(|side| options.peers || side.kind == Kind::Tieline || side.kind == Kind::Floor);
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let mut dice = Jitter::new(seed);
    for round in 1..=options.rounds {
        let mut order: Vec<(u64, usize)> = (0..sides.len()).map(|at| (dice.next_unit().to_bits(), at)).collect();
        order.sort_unstable();
        for (_, at) in order {
            let Some(side) = sides.get_mut(at).filter(|side| side.invalid.is_none()) else { continue };
            progress.show(&format!("fanout: {case:?}, round {round} of {}, {}", options.rounds, side.kind.name()));
            match trial::run(side.kind, case, options) {
                Ok(trial) => side.trials.push(trial),
                Err(why) => side.invalid = Some(format!("{}, {case:?}: {why:#}", side.kind.name())),
            }
        }
    }
    let costs = |kind| sides.iter().find(|side| side.kind == kind && side.invalid.is_none()).map(Side::costs);
    let floors = [costs(Kind::Floor), costs(Kind::Mosquitto), costs(Kind::Nats)];
    rows.extend(sides.iter().map(|side| side.row(case, options, &floors)));
}

/// The trials of one server.
struct Side {
    kind: Kind,
    trials: Vec<Trial>,
    invalid: Option<String>,
}

impl Side {
    const fn new(kind: Kind) -> Self {
        Self { kind, trials: Vec::new(), invalid: None }
    }

    /// Processor seconds a million, by round.
    fn costs(&self) -> Vec<f64> {
        self.each(|trial| trial.cpu_s / number(trial.told.received) * 1e6)
    }

    fn each(&self, figure: impl Fn(&Trial) -> f64) -> Vec<f64> {
        self.trials.iter().map(figure).collect()
    }

    fn row(&self, case: &Case, options: &Options, others: &[Option<Vec<f64>>; 3]) -> Row {
        Row {
            server: self.kind.name(),
            subscribers: case.plan.subscribers,
            topics: case.plan.topics,
            rate_per_s: case.plan.rate,
            subscriptions_each: case.plan.subscriptions_each,
            delta: case.delta && self.kind == Kind::Tieline,
            window_ms: if self.kind == Kind::Tieline { case.window_ms } else { 0 },
            transport: "tcp",
            retain: options.retain && matches!(self.kind, Kind::Tieline | Kind::Mosquitto),
            stalled: if self.kind == Kind::Floor { 0 } else { options.stalled },
            rounds: options.rounds,
            figures: self.invalid.is_none().then(|| self.figures(case, options, others)),
            invalid: self.invalid.clone(),
        }
    }

    fn figures(&self, case: &Case, options: &Options, [floor, mosquitto, nats]: &[Option<Vec<f64>>; 3]) -> Figures {
        let span_s = options.span.as_secs_f64();
        let costs = self.costs();
        let ratio = |other: &Option<Vec<f64>>, kind| {
            other.as_ref().filter(|_| self.kind != kind).map(|other| short(median_ratio(&costs, other)))
        };
        let latency = merged(self.trials.iter().flat_map(|trial| trial.told.latency_us.iter().copied()));
        let lag = merged(
            self.trials
                .iter()
                .flat_map(|t| t.lag_us.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))),
        );
        let subscribers = number(case.plan.subscribers as u64);
        let subscriptions = subscribers * number(case.plan.subscriptions_each as u64);
        let memory = |figure: fn(&trial::Memory) -> (u64, u64), over: f64| {
            let memories: Vec<f64> = self
                .trials
                .iter()
                .filter_map(|trial| trial.memory.as_ref())
                .map(|memory| {
                    let (before, after) = figure(memory);
                    number(after.saturating_sub(before)) / over
                })
                .collect();
            (!memories.is_empty()).then(|| short(median(&memories)))
        };
        Figures {
            events_per_s: short(median(&self.each(|trial| number(trial.told.received) / span_s))),
            delivered: self.trials.iter().map(|trial| trial.told.delivered).sum(),
            lost: 0,
            cores: short(median(&self.each(|trial| trial.cpu_s / span_s))),
            cpu_s_per_million: short(median(&costs)),
            ratio_to_floor: ratio(floor, Kind::Floor),
            ratio_to_mosquitto: ratio(mosquitto, Kind::Mosquitto),
            ratio_to_nats: ratio(nats, Kind::Nats),
            bytes_per_event: short(median(&self.each(|t| number(t.told.octets) / number(t.told.delivered)))),
            latency_us_p50: latency.value_at_quantile(0.5),
            latency_us_p90: latency.value_at_quantile(0.9),
            latency_us_p99: latency.value_at_quantile(0.99),
            send_lag_us_p99: (!lag.is_empty()).then(|| lag.value_at_quantile(0.99)),
            rss_bytes_per_subscriber: memory(|m| (m.topics, m.end), subscribers),
            rss_bytes_per_session: memory(|m| (m.topics, m.connected), subscribers),
            rss_bytes_per_subscription: memory(|m| (m.connected, m.subscribed), subscriptions),
            rss_bytes_per_topic: memory(|m| (m.empty, m.topics), number(case.plan.topics as u64)),
        }
    }
}

fn merged(counts: impl Iterator<Item = (u64, u64)>) -> Histogram<u64> {
    let mut all = Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds and digits are in range");
    counts.for_each(|(value, count)| all.saturating_record_n(value, count));
    all
}
