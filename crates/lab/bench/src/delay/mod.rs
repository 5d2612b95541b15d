//! Experiment 2: how long a fault takes to be told, in a substation on one host.
//!
//! A relay sees a fault, commands the circuit breaker's controller to close and reports to the control centre; the
//! controller reports to the centre that it did. Each is a process in a network namespace of its own; a bridge with ports
//! of 100 Mbit/s joins them. Idle, or while IEDs fill the centre's port with 4,800 samples a second each.
//!
//! Faults are due at fixed times, whatever became of those before. Every delay is split at the boundaries of the
//! layers, with stamps of the one monotonic clock that all namespaces share.
//!
//! Read first: `roles.rs` (who does what), `net.rs` (between whom), `split.rs` (what is made of it).

mod link;
mod net;
mod process;
mod roles;
mod split;
mod stamps;

pub use process::play_role;
pub use roles::Way;

use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::report::Progress;
use crate::rounds::{number, short};
use anyhow::{Result, ensure};
use net::{Net, Quota};
use process::Player;
use roles::{Part, Role, Told};
use serde::Serialize;
use split::{Delays, Parts};
use stamps::{Kind, now_ns};
use std::time::{Duration, Instant};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("way", "way"),
    ("IEDs", "ieds"),
    ("priorities", "priorities"),
    ("CPU %", "cpu_percent"),
    ("message", "message"),
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("p99.9 ms", "p999_ms"),
    ("max ms", "max_ms"),
    ("lost", "lost"),
    ("application µs", "application_us"),
    ("transport+link µs", "link_us"),
    ("socket µs", "socket_us"),
    ("lower µs", "lower_us"),
    ("transport+link % of processing", "link_share_percent"),
    ("port Mbit/s", "port_mbit_per_s"),
];

/// Faults that begin later than this after they were due make a run invalid.
const LAG_MS_MAX: f64 = 2.0;
/// Ports of the substation.
const PORT: u16 = 20_000;
/// How long before the first fault the processes learn of it.
const LEAD: Duration = Duration::from_millis(2500);
/// Processes of IEDs, each with its share of them.
const IED_HOSTS: usize = 2;

/// What to run: every way, idle and flooded, with each of the priorities and quotas.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is between application and socket.
    pub ways: Vec<Way>,
    /// IEDs that flood the centre's port, as a list; 0 leaves it idle.
    pub ieds: Vec<u16>,
    /// Priorities off, on, or both.
    pub priorities: Vec<bool>,
    /// Percent of a processor that relay and controller may use; None leaves them alone.
    pub cpu: Vec<Option<u32>>,
    /// Faults of each run.
    pub faults: u32,
    /// From one fault to the next.
    pub interval: Duration,
}

/// One kind of message in one run.
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
    /// Faults.
    pub faults: u32,
    /// What was measured; absent where the run was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What was measured of one kind of message.
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
    /// Messages that never came.
    pub lost: u64,
    /// Where the time went.
    #[serde(flatten)]
    pub parts: Parts,
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
    /// Delays of the quantiles 0, 0.5, 0.9, 0.99 …
    pub curve_ms: Vec<(f64, f64)>,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.faults > 0, "0 faults are nothing to measure, expected 1 or more");
    ensure!(options.interval >= Duration::from_millis(1), "faults are 1 ms apart or more");
    ensure!(options.ieds.iter().all(|ieds| *ieds <= 1000), "IEDs are 1000 or fewer");
    process::sweep_on_signals()?;
    let mut rows = Vec::new();
    for way in &options.ways {
        for ieds in &options.ieds {
            for priorities in &options.priorities {
                for cpu in &options.cpu {
                    let run = Run { way: *way, ieds: *ieds, priorities: *priorities, cpu: *cpu, options };
                    progress.show(&format!("delay: {}, {ieds} IEDs, priorities {priorities}", way.name()));
                    rows.extend(run.rows()?);
                }
            }
        }
    }
    Ok(rows)
}

struct Run<'o> {
    way: Way,
    ieds: u16,
    priorities: bool,
    cpu: Option<u32>,
    options: &'o Options,
}

/// What a run's processes told, and what the port carried a second.
struct Outcome {
    told: Vec<Told>,
    port_octets_per_s: f64,
}

impl Run<'_> {
    fn rows(&self) -> Result<Vec<Row>> {
        let outcome = self.play()?;
        Kind::ALL.into_iter().map(|kind| self.row(kind, &outcome)).collect()
    }

    fn role(&self, part: Part) -> Role {
        let interval_us = u64::try_from(self.options.interval.as_micros()).unwrap_or(u64::MAX);
        Role { part, way: self.way, marked: self.priorities, faults: self.options.faults, interval_us }
    }

    fn play(&self) -> Result<Outcome> {
        let mut hosts: Vec<String> = ["centre", "relay", "cb"].map(str::to_owned).to_vec();
        if self.ieds > 0 {
            hosts.extend((0..IED_HOSTS).map(|number| format!("ieds{number}")));
        }
        let quota = self.cpu.map(Quota::new).transpose()?;
        let net = Net::build(&hosts, self.priorities)?;
        let (mut players, mut ieds) = (Vec::new(), Vec::new());
        for (number, host) in (4_u8..).zip(hosts.iter().skip(3)) {
            let first = usize::from(number) - 4;
            let mine = (first..usize::from(self.ieds)).step_by(IED_HOSTS);
            let listen: Vec<_> =
                mine.filter_map(|ied| Some(net::socket(number, PORT + u16::try_from(ied).ok()?))).collect();
            ieds.extend(listen.iter().copied());
            players.push(Player::start(&net, host, &self.role(Part::Ieds { listen }), 5, None)?);
        }
        let (relay, breaker, commands) = (net::socket(2, PORT), net::socket(3, PORT), net::socket(3, PORT + 1));
        let part = Part::Breaker { listen: breaker, relay: commands };
        players.push(Player::start(&net, "cb", &self.role(part), -15, quota.as_ref())?);
        players.iter().try_for_each(|player| player.expect("listening"))?;
        let part = Part::Relay { listen: relay, breaker: commands };
        let player = Player::start(&net, "relay", &self.role(part), -15, quota.as_ref())?;
        player.expect("listening")?;
        players.push(player);
        for (part, nice) in self.centres(relay, breaker, ieds) {
            let player = Player::start(&net, "centre", &self.role(part), nice, None)?;
            player.expect("listening")?;
            players.push(player);
        }
        players.iter().try_for_each(|player| player.expect("ready"))?;
        let start = now_ns() + u64::try_from(LEAD.as_nanos())?;
        players.iter_mut().try_for_each(|player| player.begin(start))?;
        let took = self.options.interval * self.options.faults;
        std::thread::sleep(LEAD);
        let (before, began) = (net.octets_to(1)?, Instant::now());
        std::thread::sleep(took);
        let (octets, passed) = (net.octets_to(1)? - before, began.elapsed());
        let told = players.iter().map(|player| player.told(Duration::ZERO)).collect::<Result<_>>()?;
        // Processes end before their namespaces and their group do.
        drop(players);
        Ok(Outcome { told, port_octets_per_s: number(octets) / passed.as_secs_f64() })
    }

    /// One process for all, or a lane for what must not wait and another for the rest.
    fn centres(
        &self,
        relay: std::net::SocketAddr,
        breaker: std::net::SocketAddr,
        ieds: Vec<std::net::SocketAddr>,
    ) -> Vec<(Part, i32)> {
        let (relay, breaker) = (Some(relay), Some(breaker));
        if !self.priorities || ieds.is_empty() {
            return vec![(Part::Centre { relay, breaker, ieds }, 0)];
        }
        let urgent = Part::Centre { relay, breaker, ieds: Vec::new() };
        vec![(urgent, -15), (Part::Centre { relay: None, breaker: None, ieds }, 0)]
    }

    fn row(&self, kind: Kind, outcome: &Outcome) -> Result<Row> {
        let delays = Delays::join(kind, self.options.faults, &outcome.told)?;
        let span = (self.options.interval * self.options.faults).as_secs_f64() + 2.0;
        let sum = |of: fn(&Told) -> u64| outcome.told.iter().map(of).sum::<u64>();
        let parts = delays.parts();
        let figures = Figures {
            p50_ms: delays.ms(0.5),
            p99_ms: delays.ms(0.99),
            p999_ms: delays.ms(0.999),
            max_ms: delays.ms(1.0),
            lost: delays.lost,
            parts,
            link_share_percent: parts.link_share(),
            lag_p99_ms: short(number(delays.lag.value_at_quantile(0.99)) / 1e6),
            port_mbit_per_s: short(outcome.port_octets_per_s * 8.0 / 1e6),
            samples_per_s: short(number(sum(|told| told.samples)) / span),
            samples_dropped: sum(|told| told.dropped),
            curve_ms: (0..=30)
                .map(|step| 10_f64.powf(f64::from(step) / 10.0))
                .filter(|of| *of <= f64::from(self.options.faults))
                .map(|of| (short(of), delays.ms(1.0 - 1.0 / of)))
                .collect(),
        };
        let invalid = self.refuse(&figures, &outcome.told, kind);
        Ok(Row {
            way: self.way.name(),
            ieds: self.ieds,
            priorities: self.priorities,
            cpu_percent: self.cpu,
            message: kind.name(),
            faults: self.options.faults,
            figures: invalid.is_none().then_some(figures),
            invalid,
        })
    }

    /// Why a run says nothing.
    fn refuse(&self, figures: &Figures, told: &[Told], kind: Kind) -> Option<String> {
        let what = format!("{}, {} IEDs, {}", self.way.name(), self.ieds, kind.name());
        let failed: u32 = told.iter().map(|told| told.failed).sum();
        if failed > 0 {
            return Some(format!("{what}: {failed} connections failed"));
        }
        let is_lean = matches!(self.way, Way::LeanTcp | Way::LeanUdp);
        let spoke_frames = told.iter().any(|told| (!told.sent.is_empty() || !told.given.is_empty()) && !told.lean);
        if is_lean && spoke_frames {
            return Some(format!("{what}: lean messages were not agreed on"));
        }
        // A slow device is late with its own faults, and that counts.
        let late = self.cpu.is_none() && figures.lag_p99_ms > LAG_MS_MAX;
        late.then(|| format!("{what}: 1 of 100 faults began {} ms late: the machine is too busy", figures.lag_p99_ms))
    }
}

/// Published means of the baseline and with the link saturated, in milliseconds (`docs/benchmarks.md` has the source).
const PUBLISHED: [(&str, f64, f64); 3] =
    [("published relay→CB", 20.2, 20.2), ("published relay→centre", 8.8, 12.6), ("published CB→centre", 16.2, 19.9)];

/// Published shares of processing: application, transport and link, TCP; the middle of each range in percent.
const PUBLISHED_SHARES: [f64; 3] = [28.5, 49.5, 15.5];

/// The curves of a run, with names for files.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let mut loads: Vec<u16> = rows.iter().map(|row| row.ieds).collect();
    loads.sort_unstable();
    loads.dedup();
    let mut charts: Vec<_> = loads.into_iter().map(|ieds| delays_of(rows, ieds)).collect();
    charts.push(("delay-shares".to_owned(), shares_of(rows)));
    charts
}

fn delays_of(rows: &[Row], ieds: u16) -> (String, Chart) {
    let mut curves = Vec::new();
    let of_way = |row: &&Row| row.ieds == ieds && row.cpu_percent.is_none() && row.way == Way::Tcp.name();
    for row in rows.iter().filter(of_way) {
        let Some(figures) = &row.figures else { continue };
        let hue = 1 + Kind::ALL.iter().position(|kind| kind.name() == row.message).unwrap_or(0);
        let (line, word) = if row.priorities { (Line::Solid, "on") } else { (Line::Dotted, "off") };
        let name = format!("{}, priorities {word}", row.message);
        curves.push(Curve { name, points: figures.curve_ms.clone(), line, hue });
    }
    for (hue, (name, idle, loaded)) in (1..).zip(PUBLISHED) {
        let mean = if ieds > 0 { loaded } else { idle };
        let points = vec![(1.0, mean), (1000.0, mean)];
        curves.push(Curve { name: format!("{name}, mean"), points, line: Line::Dashed, hue });
    }
    let (file, load) = match ieds {
        0 => ("delay-idle".to_owned(), "idle".to_owned()),
        many => ("delay-flooded".to_owned(), format!("{many} IEDs of 4,800 samples/s on the centre's port")),
    };
    let x = Axis { label: "one message in so many is slower".to_owned(), scale: Scale::Decades };
    let y = Axis { label: "ms".to_owned(), scale: Scale::Decades };
    (file, Chart { title: format!("From fault to application, {load}"), x, y, curves })
}

fn shares_of(rows: &[Row]) -> Chart {
    let mut curves = Vec::new();
    let idle = |row: &&Row| row.ieds == 0 && !row.priorities && row.cpu_percent.is_none();
    for (hue, row) in (1..).zip(rows.iter().filter(idle).filter(|row| row.message == Kind::RelayReport.name())) {
        let Some(Figures { parts, .. }) = &row.figures else { continue };
        let all = parts.application_us + parts.link_us + parts.socket_us;
        let share = |part: f64| 100.0 * part / all;
        let shares = [share(parts.application_us), share(parts.link_us), share(parts.socket_us)];
        curves.push(Curve { name: row.way.to_owned(), points: numbered(shares), line: Line::Solid, hue });
    }
    let (name, points) = ("published, middle".to_owned(), numbered(PUBLISHED_SHARES));
    curves.push(Curve { name, points, line: Line::Dashed, hue: 0 });
    let x = Axis { label: "1 application, 2 transport and link, 3 socket".to_owned(), scale: Scale::Linear };
    let y = Axis { label: "% of processing".to_owned(), scale: Scale::Linear };
    Chart { title: "Who has the processing of a report".to_owned(), x, y, curves }
}

fn numbered(shares: [f64; 3]) -> Vec<(f64, f64)> {
    [1.0, 2.0, 3.0].into_iter().zip(shares).collect()
}

#[cfg(test)]
mod tests;
