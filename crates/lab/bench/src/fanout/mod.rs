//! Experiment 3: many subscribers, each to some of many topics, and values of about 1 kB that change in a few digits, or
//! points.
//! Beside this server, in the same run, the peers that are installed and the floor: writes of the same sizes over as
//! many sockets at the same times, without logic.
//!
//! Every server is a process of its own and its processor time is read off while the load runs; one publisher and the
//! subscribers are other processes. Every update is due at a fixed time and carries it, so that a latency counts from
//! when the update was due. Each subscriber compares every value with what must have been published and knows which
//! come twice; a run that lost one is not valid.
//!
//! Read first: `plan.rs`, then `trial.rs`; `reconnect.rs` and `edges/` are experiments of their own.

mod charts;
pub mod edges;
mod floor;
mod heard;
mod hold;
mod listen;
pub mod load;
mod plan;
mod player;
mod publish;
mod quote;
mod rebuild;
pub mod reconnect;
mod scaling;
mod servers;
mod speech;
mod transport;
mod trial;
mod values;

#[cfg(test)]
mod tests;

pub use charts::charts;
pub use hold::{HELD_TOPICS, Held, hold};
pub use servers::{Durability, Kind};
pub(crate) use transport::Credentials;
pub use transport::Transport;
pub use trial::play;
pub use values::Form;

use crate::latency::Latency;
use crate::process;
use crate::report::Progress;
use crate::rounds::{median, median_ratio, number, short};
use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use plan::Plan;
use scaling::speed_up;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tieline_net::Jitter;
use trial::{Memory, Setting, Trial};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("server", "server"),
    ("over", "transport"),
    ("value", "value"),
    ("subscribers", "subscribers"),
    ("stalled", "stalled"),
    ("deltas", "delta"),
    ("durability", "durability"),
    ("shards", "shards"),
    ("window ms", "window_ms"),
    ("events/s due", "due_per_s"),
    ("came", "events_per_s"),
    ("cores", "cores"),
    ("CPU s a million", "cpu_s_per_million"),
    ("to floor", "ratio_to_floor"),
    ("to Mosquitto", "ratio_to_mosquitto"),
    ("to NATS", "ratio_to_nats"),
    ("to TCP", "ratio_to_tcp"),
    ("to whole values", "ratio_to_whole"),
    ("to memory", "ratio_to_memory"),
    ("to one shard", "ratio_to_one_shard"),
    ("events to one shard", "events_ratio_to_one_shard"),
    ("busiest thread", "busiest_share"),
    ("16 cores", "speed_up_at_16"),
    ("bytes an event", "bytes_per_event"),
    ("µs p50", "latency_us_p50"),
    ("p99", "latency_us_p99"),
    ("p99 to none stalled", "p99_ratio_to_none_stalled"),
    ("bytes a stalled one", "rss_bytes_per_stalled"),
    ("bytes a subscriber", "rss_bytes_per_subscriber"),
    ("a subscription", "rss_bytes_per_subscription"),
    ("a topic", "rss_bytes_per_topic"),
    ("lost", "lost"),
];

/// What to run: every number of subscribers at every rate. In the rounds of each of them this server takes its turn over
/// every transport, with every window, with and without deltas as asked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Subscribers.
    pub subscribers: Vec<usize>,
    /// Topics.
    pub topics: usize,
    /// Updates a second, of all topics together.
    pub rates: Vec<u64>,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// What values are.
    pub form: Form,
    /// Without deltas, with them.
    pub delta: Vec<bool>,
    /// Milliseconds that updates may wait for others to the same subscriber; 0 sends each at once.
    pub windows_ms: Vec<u32>,
    /// Whether topics keep their last value, where the server can.
    pub retain: bool,
    /// What last values outlive, where the server is this one.
    pub durabilities: Vec<Durability>,
    /// Threads that have the sockets of this server; 1 is the bus itself.
    pub shards: Vec<usize>,
    /// The share of a processor that each of them is held to.
    pub quota: Option<f64>,
    /// What subscribers come over.
    pub transports: Vec<Transport>,
    /// Further subscribers that read nothing; with some, each server runs without them too.
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Who served.
    pub server: Kind,
    /// Subscribers.
    pub subscribers: usize,
    /// Topics.
    pub topics: usize,
    /// Updates a second that were asked for.
    pub rate_per_s: u64,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// What values were.
    #[serde(default)]
    pub value: Form,
    /// Whether subscribers asked for deltas.
    pub delta: bool,
    /// Milliseconds that updates might wait for others.
    pub window_ms: u32,
    /// What subscribers came over.
    pub transport: Transport,
    /// Whether topics kept their last value.
    pub retain: bool,
    /// What last values outlived.
    #[serde(default)]
    pub durability: Durability,
    /// Threads that had the sockets; 1 was the bus itself.
    #[serde(default = "one")]
    pub shards: usize,
    /// The share of a processor that each of them was held to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// Further subscribers that read nothing.
    pub stalled: usize,
    /// Values that were due at subscribers, a second.
    pub due_per_s: f64,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

fn one() -> usize {
    1
}

/// What a row measured: medians over the rounds, latencies of all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Over what it costs the same server with TCP and nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_tcp: Option<f64>,
    /// Over what it costs the same server to send whole values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_whole: Option<f64>,
    /// Over what it costs the same server to keep last values in memory only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_memory: Option<f64>,
    /// Over what it costs the same server with one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to_one_shard: Option<f64>,
    /// Values a second over those of the same server with one shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_ratio_to_one_shard: Option<f64>,
    /// The part of the processor time that the busiest thread took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_share: Option<f64>,
    /// How many times as much 16 processors would do as one, by Amdahl's law fitted to the busiest threads of these runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_up_at_16: Option<f64>,
    /// Bytes of the stream for one value.
    pub bytes_per_event: f64,
    /// Of the bytes that whole values take of the stream, what deltas spare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spared_percent: Option<f64>,
    /// From when a value was due to be published until its subscriber had it.
    #[serde(flatten)]
    pub latency: Latency,
    /// The p99 over that of the same server with nobody stalled: the median of the rounds' own ratios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ratio_to_none_stalled: Option<f64>,
    /// Bytes by which the server grew more, from the first update to the last, for each that is stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes_per_stalled: Option<f64>,
    /// How late the publisher sent what was due: a server that takes no more makes it late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_lag_us_p99: Option<u64>,
    /// Resident bytes of the server for one subscriber with its subscriptions, when the load is over.
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

/// The rows of earlier runs, one file after the other.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub fn read_rows(files: &[PathBuf]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        rows.extend(serde_json::from_str::<Vec<Row>>(&text).with_context(|| file.display().to_string())?);
    }
    Ok(rows)
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.rounds > 0 && !options.span.is_zero(), "rounds and seconds are more than 0");
    let mut rows = Vec::new();
    for subscribers in options.subscribers.iter().copied() {
        // The server is a process with the limits of this one.
        process::reserve_descriptors(subscribers + options.stalled, if options.program.is_some() { 1 } else { 2 })?;
        for rate in options.rates.iter().copied() {
            let Options { topics, subscriptions_each, form, .. } = *options;
            let plan = Plan { subscribers, topics, rate, subscriptions_each, form };
            plan.check()?;
            run_plan(&plan, options, progress, &mut rows);
        }
    }
    Ok(rows)
}

fn run_plan(plan: &Plan, options: &Options, progress: &Progress, rows: &mut Vec<Row>) {
    let mut sides = sides(options);
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let mut dice = Jitter::new(seed);
    for round in 1..=options.rounds {
        let mut order: Vec<(u64, usize)> = (0..sides.len()).map(|at| (dice.next_unit().to_bits(), at)).collect();
        order.sort_unstable();
        for (_, at) in order {
            let Some(side) = sides.get_mut(at).filter(|side| side.invalid.is_none()) else { continue };
            let Plan { subscribers, subscriptions_each, rate, .. } = *plan;
            let Setting { kind, transport, stalled, .. } = side.setting;
            let name = kind.name();
            progress.show(&format!(
                "fanout: {subscribers} subscribers of {subscriptions_each} topics, {rate} updates/s, round {round} of {}, \
                 {name} over {transport:?}, {stalled} stalled",
                options.rounds
            ));
            match trial::run(side.setting, plan, options) {
                Ok(trial) => side.trials.push(trial),
                Err(why) => side.invalid = Some(format!("{:?}, {plan:?}: {why:#}", side.setting)),
            }
        }
    }
    rows.extend(sides.iter().map(|side| side.row(plan, options, &sides)));
}

/// Everything that takes its turn in a round.
fn sides(options: &Options) -> Vec<Side> {
    let mut sides = Vec::new();
    for kind in Kind::installed() {
        if !options.peers && kind != Kind::Tieline && kind != Kind::Floor {
            continue;
        }
        for transport in options.transports.iter().copied().filter(|transport| kind.listens(*transport)) {
            for (delta, window_ms, durability, shards) in combinations(kind, options) {
                let calm = Setting { delta, window_ms, durability, shards, ..Setting::plain(kind, transport) };
                sides.push(Side::new(calm));
                if options.stalled > 0 && kind != Kind::Floor {
                    sides.push(Side::new(Setting { stalled: options.stalled, ..calm }));
                }
            }
        }
    }
    sides
}

/// With and without deltas, each with every window, durability and number of shards; the others know of none of them.
fn combinations(kind: Kind, options: &Options) -> Vec<(bool, u32, Durability, usize)> {
    if kind != Kind::Tieline {
        return vec![(false, 0, Durability::Memory, 1)];
    }
    let mut combinations = Vec::new();
    for delta in options.delta.iter().copied() {
        for window_ms in options.windows_ms.iter().copied() {
            for durability in options.durabilities.iter().copied() {
                combinations.extend(options.shards.iter().map(|shards| (delta, window_ms, durability, *shards)));
            }
        }
    }
    combinations
}

/// The trials of one server.
struct Side {
    setting: Setting,
    trials: Vec<Trial>,
    invalid: Option<String>,
}

impl Side {
    const fn new(setting: Setting) -> Self {
        Self { setting, trials: Vec::new(), invalid: None }
    }

    /// Processor seconds a million, by round.
    fn costs(&self) -> Vec<f64> {
        self.each(|trial| trial.cpu_s / number(trial.told.received) * 1e6)
    }

    /// Bytes of the stream for one value.
    fn bytes(&self) -> f64 {
        median(&self.each(|trial| number(trial.told.bytes) / number(trial.told.delivered)))
    }

    /// The part of the processor time that the busiest thread took.
    fn busiest_share(&self) -> f64 {
        median(&self.each(|trial| trial.busiest_s / trial.cpu_s))
    }

    /// For each number of shards beside this side's: the processor time of the busiest thread for an event, over that of
    /// all threads with one shard.
    fn scaling(&self, single: &Self, sides: &[Self]) -> Vec<(f64, f64)> {
        let alike = |side: &&Self| Setting { shards: 1, ..side.setting } == single.setting && side.invalid.is_none();
        let whole = median(&single.costs());
        let busiest = |side: &Self| median(&side.costs()) * side.busiest_share() / whole;
        let many = sides.iter().filter(alike).filter(|side| side.setting.shards > 1);
        many.map(|side| (number(side.setting.shards as u64), busiest(side))).collect()
    }

    fn each(&self, figure: impl Fn(&Trial) -> f64) -> Vec<f64> {
        self.trials.iter().map(figure).collect()
    }

    fn row(&self, plan: &Plan, options: &Options, sides: &[Self]) -> Row {
        let Setting { kind, transport, delta, window_ms, stalled, durability, shards } = self.setting;
        let from_us = 1_000_000;
        let due = number(plan.events_between(from_us, from_us + 10_000_000)) / 10.0;
        Row {
            server: kind,
            subscribers: plan.subscribers,
            topics: plan.topics,
            rate_per_s: plan.rate,
            subscriptions_each: plan.subscriptions_each,
            value: plan.form,
            delta,
            window_ms,
            transport,
            retain: options.retain && matches!(kind, Kind::Tieline | Kind::Mosquitto),
            durability,
            shards,
            quota: options.quota.filter(|_| kind == Kind::Tieline),
            stalled,
            due_per_s: short(due),
            rounds: options.rounds,
            figures: self.invalid.is_none().then(|| self.figures(plan, options, sides)),
            invalid: self.invalid.clone(),
        }
    }

    /// The side that this one is compared with.
    fn beside<'a>(&self, sides: &'a [Self], setting: Setting) -> Option<&'a Self> {
        sides.iter().find(|side| side.setting == setting && side.invalid.is_none() && setting != self.setting)
    }

    fn figures(&self, plan: &Plan, options: &Options, sides: &[Self]) -> Figures {
        let span_s = options.span.as_secs_f64();
        let costs = self.costs();
        // One that took less than a tick of the clock of the processor has no ratio.
        let ratio = |setting| {
            let other = self.beside(sides, setting)?;
            Some(short(median_ratio(&costs, &other.costs()))).filter(|ratio| ratio.is_finite())
        };
        let peer = |kind| ratio(Setting::plain(kind, self.setting.transport));
        let whole = self.beside(sides, Setting { delta: false, ..self.setting });
        let calm = self.beside(sides, Setting { stalled: 0, ..self.setting });
        let single = self.beside(sides, Setting { shards: 1, ..self.setting });
        let came = |side: &Self| side.each(|trial| number(trial.told.received));
        let latency = merged(self.trials.iter().flat_map(Trial::latency_us));
        let lag = merged(
            self.trials
                .iter()
                .flat_map(|t| t.lag_us.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))),
        );
        let subscribers = number(plan.subscribers as u64);
        let subscriptions = subscribers * number(plan.subscriptions_each as u64);
        let memory = |figure: fn(&Memory) -> (u64, u64), over: f64| {
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
            ratio_to_floor: ratio(Setting::plain(Kind::Floor, Transport::Tcp)),
            ratio_to_mosquitto: peer(Kind::Mosquitto),
            ratio_to_nats: peer(Kind::Nats),
            ratio_to_memory: ratio(Setting { durability: Durability::Memory, ..self.setting }),
            ratio_to_tcp: ratio(Setting { transport: Transport::Tcp, ..self.setting }),
            ratio_to_whole: whole.map(|whole| short(median_ratio(&costs, &whole.costs()))),
            ratio_to_one_shard: ratio(Setting { shards: 1, ..self.setting }),
            events_ratio_to_one_shard: single.map(|single| short(median_ratio(&came(self), &came(single)))),
            busiest_share: (self.setting.kind == Kind::Tieline).then(|| short(self.busiest_share())),
            speed_up_at_16: single.and_then(|single| speed_up(16.0, &self.scaling(single, sides))).map(short),
            bytes_per_event: short(self.bytes()),
            spared_percent: whole.map(|whole| short(100.0 * (1.0 - self.bytes() / whole.bytes()))),
            latency: Latency::of(&latency),
            p99_ratio_to_none_stalled: calm.map(|calm| {
                let p99 = |trial: &Trial| number(Latency::of(&merged(trial.latency_us())).p99);
                short(median_ratio(&self.each(p99), &calm.each(p99)))
            }),
            rss_bytes_per_stalled: calm.map(|calm| {
                let grown = |side: &Self| median(&side.each(|trial| trial.memory.as_ref().map_or(0.0, Memory::grown)));
                short((grown(self) - grown(calm)) / number(self.setting.stalled as u64))
            }),
            send_lag_us_p99: (!lag.is_empty()).then(|| lag.value_at_quantile(0.99)),
            rss_bytes_per_subscriber: memory(|m| (m.topics, m.end), subscribers),
            rss_bytes_per_session: memory(|m| (m.topics, m.connected), subscribers),
            rss_bytes_per_subscription: memory(|m| (m.connected, m.subscribed), subscriptions),
            rss_bytes_per_topic: memory(|m| (m.empty, m.topics), number(plan.topics as u64)),
        }
    }
}

fn merged(counts: impl Iterator<Item = (u64, u64)>) -> Histogram<u64> {
    let mut all = Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds and digits are in range");
    counts.for_each(|(value, count)| all.saturating_record_n(value, count));
    all
}
