//! What is made of the rounds of a setting: a row for each kind of message.

use super::roles::{Told, Way};
use super::setting::{Outcome, Setting};
use super::split::{Delays, Parts, Split};
use super::stamps::Kind;
use crate::latency::{histogram, quantile_ms};
use crate::rounds::{median, number, short};
use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Faults that begin later than this after they were due make a run invalid.
const LAG_MS_MAX: f64 = 2.0;

/// One kind of message in all rounds of a setting.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is between application and socket.
    pub way: &'static str,
    /// IEDs that flood the centre's port.
    pub ieds: u16,
    /// Whether sockets are marked, queues are served by marks, and lanes are processes of their own at the centre.
    pub priorities: bool,
    /// Percent of a processor that relay and controller may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u32>,
    /// Who says what to whom.
    pub message: &'static str,
    /// Rounds.
    pub rounds: usize,
    /// Faults of each round.
    pub faults: u32,
    /// What was measured; absent where the run was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What was measured of one kind of message: of delays and parts the median of what the rounds had.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Half of the messages took no longer.
    pub p50_ms: f64,
    /// 99 of 100 took no longer.
    pub p99_ms: f64,
    /// 999 of 1,000 took no longer.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// `p999_ms` of each round.
    pub p999_ms_rounds: Vec<f64>,
    /// Half of the floor's messages took no longer.
    pub floor_p50_ms: f64,
    /// 99 of 100 of the floor's messages took no longer.
    pub floor_p99_ms: f64,
    /// 999 of 1,000 of the floor's messages took no longer.
    pub floor_p999_ms: f64,
    /// `floor_p999_ms` of each round.
    pub floor_p999_ms_rounds: Vec<f64>,
    /// Messages that never came, of all rounds.
    pub lost: u64,
    /// Messages of the floor that never came, of all rounds.
    pub floor_lost: u64,
    /// Where the time went.
    #[serde(flatten)]
    pub parts: Parts,
    /// Where the time of the slowest of each 1,000 went, on average.
    pub slowest: Parts,
    /// Transport and link of application, transport and link, and socket together.
    pub link_share_percent: f64,
    /// 99 of 100 faults began no later after they were due.
    pub lag_p99_ms: f64,
    /// What the port of the centre carried.
    pub port_mbit_per_s: f64,
    /// Samples that came to the centre.
    pub samples_per_s: f64,
    /// Samples that the IEDs had no room for.
    pub samples_dropped: u64,
    /// Delays of the quantiles 0, 0.5, 0.9, 0.99 … of all rounds together
    pub curve_ms: Vec<(f64, f64)>,
}

/// One kind of message in one round.
struct Round {
    /// Of the quantiles 0.5, 0.99, 0.999 and 1.
    ms: [f64; 4],
    /// Of the floor, of the quantiles 0.5, 0.99 and 0.999.
    floor_ms: [f64; 3],
    lag_p99_ms: f64,
    lost: u64,
    floor_lost: u64,
    parts: Parts,
    slowest: Vec<Split>,
}

impl Round {
    fn of(kind: Kind, faults: u32, delays: &Delays, told: &[Told]) -> Result<Self> {
        let mut floor = histogram()?;
        for bare in told.iter().flat_map(|told| &told.bare).filter(|bare| bare.kind == kind) {
            floor.saturating_record(bare.nanos);
        }
        Ok(Self {
            ms: [0.5, 0.99, 0.999, 1.0].map(|quantile| delays.ms(quantile)),
            floor_ms: [0.5, 0.99, 0.999].map(|quantile| quantile_ms(&floor, quantile)),
            lag_p99_ms: quantile_ms(&delays.lag, 0.99),
            lost: delays.lost,
            floor_lost: u64::from(faults).saturating_sub(floor.len()),
            parts: delays.parts(),
            slowest: delays.slowest(),
        })
    }
}

/// A kind of message in all rounds so far.
struct Messages {
    kind: Kind,
    rounds: Vec<Round>,
    total: Histogram<u64>,
}

/// A setting and its rounds so far.
pub struct Collected {
    pub setting: Setting,
    messages: Vec<Messages>,
    port_bytes_per_s: Vec<f64>,
    samples: u64,
    samples_dropped: u64,
    invalid: Option<String>,
}

impl Collected {
    /// A setting that was not run yet.
    pub fn new(setting: Setting) -> Result<Self> {
        let messages = |kind| Ok(Messages { kind, rounds: Vec::new(), total: histogram()? });
        let messages = Kind::ALL.into_iter().map(messages).collect::<Result<_>>()?;
        let port_bytes_per_s = Vec::new();
        Ok(Self { setting, messages, port_bytes_per_s, samples: 0, samples_dropped: 0, invalid: None })
    }

    /// A round is over.
    pub fn add(&mut self, outcome: &Outcome) -> Result<()> {
        let Outcome { told, port_bytes_per_s } = outcome;
        self.port_bytes_per_s.push(*port_bytes_per_s);
        self.samples += told.iter().map(|told| told.samples).sum::<u64>();
        self.samples_dropped += told.iter().map(|told| told.dropped).sum::<u64>();
        for Messages { kind, rounds, total } in &mut self.messages {
            let delays = Delays::join(*kind, self.setting.faults, told)?;
            total.add(&delays.total)?;
            let refused = refuse(&self.setting, told, &delays, *kind);
            self.invalid = self.invalid.take().or(refused);
            rounds.push(Round::of(*kind, self.setting.faults, &delays, told)?);
        }
        Ok(())
    }

    /// A row for each kind of message.
    pub fn rows(&self) -> Vec<Row> {
        self.messages.iter().map(|messages| self.row(messages)).collect()
    }

    fn row(&self, messages: &Messages) -> Row {
        let Setting { way, ieds, priorities, cpu, faults, .. } = self.setting;
        Row {
            way: way.name(),
            ieds,
            priorities,
            cpu_percent: cpu,
            message: messages.kind.name(),
            rounds: messages.rounds.len(),
            faults,
            figures: self.invalid.is_none().then(|| self.figures(messages)),
            invalid: self.invalid.clone(),
        }
    }

    fn figures(&self, Messages { rounds, total, .. }: &Messages) -> Figures {
        let each = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        let middle = |of| short(median(&each(of)));
        let parts: Vec<Parts> = rounds.iter().map(|round| round.parts).collect();
        let slowest: Vec<Split> = rounds.iter().flat_map(|round| &round.slowest).copied().collect();
        let span = self.setting.span().as_secs_f64() * number(rounds.len() as u64);
        Figures {
            p50_ms: middle(|Round { ms: [p50, ..], .. }| *p50),
            p99_ms: middle(|Round { ms: [_, p99, ..], .. }| *p99),
            p999_ms: middle(|Round { ms: [.., p999, _], .. }| *p999),
            max_ms: middle(|Round { ms: [.., max], .. }| *max),
            p999_ms_rounds: each(|Round { ms: [.., p999, _], .. }| *p999),
            floor_p50_ms: middle(|Round { floor_ms: [p50, ..], .. }| *p50),
            floor_p99_ms: middle(|Round { floor_ms: [_, p99, _], .. }| *p99),
            floor_p999_ms: middle(|Round { floor_ms: [.., p999], .. }| *p999),
            floor_p999_ms_rounds: each(|Round { floor_ms: [.., p999], .. }| *p999),
            lost: rounds.iter().map(|round| round.lost).sum(),
            floor_lost: rounds.iter().map(|round| round.floor_lost).sum(),
            parts: Parts::median(&parts),
            slowest: Parts::mean(&slowest),
            link_share_percent: middle(|round| round.parts.link_share()),
            lag_p99_ms: middle(|round| round.lag_p99_ms),
            port_mbit_per_s: short(median(&self.port_bytes_per_s) * 8.0 / 1e6),
            samples_per_s: short(number(self.samples) / span),
            samples_dropped: self.samples_dropped,
            curve_ms: curve(total),
        }
    }
}

/// The delay that one message in 1, 10, 100 … exceeds, of all rounds together.
fn curve(total: &Histogram<u64>) -> Vec<(f64, f64)> {
    (0..=40)
        .map(|step| 10_f64.powf(f64::from(step) / 10.0))
        .filter(|of| *of <= number(total.len()))
        .map(|of| (short(of), quantile_ms(total, 1.0 - 1.0 / of)))
        .collect()
}

/// Why a run says nothing.
fn refuse(setting: &Setting, told: &[Told], delays: &Delays, kind: Kind) -> Option<String> {
    let what = format!("{}, {} IEDs, {}", setting.way.name(), setting.ieds, kind.name());
    let failed: u32 = told.iter().map(|told| told.failed).sum();
    if failed > 0 {
        return Some(format!("{what}: {failed} connections failed"));
    }
    let is_lean = matches!(setting.way, Way::LeanTcp | Way::LeanUdp);
    let spoke_frames = told.iter().any(|told| (!told.sent.is_empty() || !told.given.is_empty()) && !told.lean);
    if is_lean && spoke_frames {
        return Some(format!("{what}: lean messages were not agreed on"));
    }
    // A slow device is late with its own faults, and that counts.
    let lag = quantile_ms(&delays.lag, 0.99);
    let late = setting.cpu.is_none() && lag > LAG_MS_MAX;
    late.then(|| format!("{what}: 1 of 100 faults began {lag} ms late: the machine is too busy"))
}
