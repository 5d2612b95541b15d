//! A whole node between many simulated devices and one subscriber of everything: what its driver takes of a core, what the
//! node takes, and how late reads are. The floor is a bare socket loop with as many connections, bytes and reads.
//!
//! ```text
//! devices (a process) ⇄ node (a process): field-0 … bus, sockets … ─▶ subscriber (this process)
//! ```

use super::bare::{self, Exchange};
use super::devices::{Generator, Kind, POINTS, Protocol, REGISTERS, Seen};
use super::floor::Floor;
use super::load::{self, Ask, Measured};
use super::responder::Responder;
use super::watch::{Check, ROOT, Taken, Watch};
use super::{Experiment, Figures, Options, Row};
use crate::process::{self, ThreadTimes};
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, take_turns};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_node::{Node, config};

/// What a device publishes: as it is by default, and one message a device.
pub const PUBLISH: [Published; 2] = [
    Published { name: "points and all", words: "[\"points\", \"all\"]", messages: POINTS as u64 + 1 },
    Published { name: "all", words: "[\"all\"]", messages: 1 },
];
/// A generator or a subscriber that takes more of a core may be what is measured.
const BUSY_PERCENT: f64 = 90.0;
/// What may be missing of what was due, because it came before or after the span: a share, and some reads where they are few.
const MISSING_SHARE: f64 = 0.02;
const MISSING_READS: f64 = 3.0;

/// What devices publish.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// In a row.
    pub name: &'static str,
    /// In a configuration.
    words: &'static str,
    /// Messages for a read.
    messages: u64,
}

/// What a row measured: medians over its rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NodeFigures {
    /// Values of points that came from devices, a second.
    pub points_per_s: f64,
    /// Messages that the subscriber got, a second.
    pub messages_per_s: f64,
    /// Share of a core that the threads of the driver took, in percent.
    pub driver_percent: f64,
    /// The floor's.
    pub floor_percent: f64,
    /// The driver's share over the floor's.
    pub ratio_to_floor: f64,
    /// Share of a core that the whole node took, in percent.
    pub node_percent: f64,
    /// How late reads came to the devices, after the earliest phase of each; none of devices that report by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ms_p50: Option<f64>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ms_p99: Option<f64>,
    /// From the answer of a device to its value at the subscriber.
    pub latency_ms_p50: f64,
    /// The same.
    pub latency_ms_p99: f64,
}

/// One round of ours.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    points_per_s: f64,
    messages_per_s: f64,
    /// Share of a core that the threads of the driver took, in percent.
    pub driver_percent: f64,
    /// The same of the whole node.
    pub node_percent: f64,
    seen: Seen,
    latency_ms: (f64, f64),
}

/// What a node is measured with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What the devices speak.
    pub protocol: Protocol,
    /// How many.
    pub devices: usize,
    /// What is published.
    pub publish: Published,
    /// Whether the devices are traced, as they are by default.
    pub is_traced: bool,
}

/// The rows of the experiment.
pub fn rows(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &devices in &options.devices {
        // Both ends, of the node or of the floor.
        process::reserve_descriptors(devices, 2)?;
        for &protocol in &options.protocols {
            for publish in PUBLISH {
                let setting = Setting { protocol, devices, publish, is_traced: true };
                rows.push(row(options, progress, setting));
            }
        }
    }
    Ok(rows)
}

fn row(options: &Options, progress: &Progress, setting: Setting) -> Row {
    let Setting { protocol, devices, publish, .. } = setting;
    let (mut ours, mut floor) = (Vec::<Round>::new(), Vec::new());
    let what = format!("field: a node with {devices} devices, {}, publish {}", protocol.word(), publish.name);
    let invalid = take_turns(options.rounds, progress, &what, |side| {
        match side {
            Side::Ours => ours.push(round(options, setting)?),
            Side::Floor => floor.push(floor_round(options, setting, ours.last().map(|round| round.seen))?),
        }
        Ok(())
    });
    let figures = invalid.is_none().then(|| Figures::Node(figures(protocol, &ours, &floor)));
    Row { figures, invalid, ..setting.row(options, Experiment::Node) }
}

impl Setting {
    /// A row without figures.
    pub fn row(&self, options: &Options, experiment: Experiment) -> Row {
        Row {
            protocol: Some(self.protocol.word()),
            devices: Some(self.devices),
            points: Some(POINTS.into()),
            every_s: Some(options.every.as_secs_f64()),
            publish: Some(self.publish.name),
            rounds: Some(options.rounds),
            ..Row::new(experiment)
        }
    }
}

fn figures(protocol: Protocol, ours: &[Round], floor: &[Measured]) -> NodeFigures {
    let all = |figure: fn(&Round) -> f64| ours.iter().map(figure).collect::<Vec<f64>>();
    let middle = |figure: fn(&Round) -> f64| short(median(&all(figure)));
    let floor: Vec<f64> = floor.iter().map(|measured| measured.core_percent).collect();
    NodeFigures {
        points_per_s: middle(|round| round.points_per_s),
        messages_per_s: middle(|round| round.messages_per_s),
        driver_percent: middle(|round| round.driver_percent),
        floor_percent: short(median(&floor)),
        ratio_to_floor: short(median_ratio(&all(|round| round.driver_percent), &floor)),
        node_percent: middle(|round| round.node_percent),
        late_ms_p50: protocol.is_polled().then(|| middle(|round| round.seen.late_us_p50 / 1e3)),
        late_ms_p99: protocol.is_polled().then(|| middle(|round| round.seen.late_us_p99 / 1e3)),
        latency_ms_p50: middle(|round| round.latency_ms.0),
        latency_ms_p99: middle(|round| round.latency_ms.1),
    }
}

/// The first round of all is ours, so that it is known what is exchanged.
fn floor_round(options: &Options, setting: Setting, seen: Option<Seen>) -> Result<Measured> {
    let Setting { protocol, devices, .. } = setting;
    if protocol == Protocol::Modbus {
        let responder = Responder::start(Duration::ZERO)?;
        let ask = Ask { connections: devices, registers: REGISTERS, window: 1, every: Some(options.every) };
        return load::measure::<Floor>(&responder, ask, options.node_span);
    }
    let exchange = Exchange::of(protocol, &seen.context("no round before the floor")?);
    bare::measure(exchange, devices, options.every, options.node_span)
}

/// One round of a node.
pub fn round(options: &Options, setting: Setting) -> Result<Round> {
    let program = options.program.as_deref();
    let Setting { protocol, devices, publish, .. } = setting;
    let mut generator = Generator::start(program, Kind { protocol, devices, every: options.every })?;
    let folder = TempDir::new().context("a folder for the node")?;
    std::fs::write(folder.path().join("points.csv"), protocol.point_list())?;
    let program = options.node.as_deref().or(program);
    let node = Under::start(program, folder.path(), &config_of(setting, generator.port(), options.every))?;
    let watch = Watch::start(node.mqtt, Check::Devices(devices))?;
    watch.await_devices(devices)?;
    // The first round, in which everything is read at once, is over; and as long again to settle.
    std::thread::sleep(2 * options.every);
    generator.begin()?;
    watch.forget()?;
    let (began, before) = (Instant::now(), node.times()?);
    std::thread::sleep(options.node_span);
    let (took, after) = (began.elapsed(), node.times()?);
    let (taken, seen) = (watch.look()?, generator.end(options.every)?);
    let due = number(devices as u64) * (took.as_secs_f64() / options.every.as_secs_f64()).floor();
    check(&taken, &seen, due, publish.messages)?;
    let (driver, all) = after.since(&before);
    let percent = |seconds: f64| 100.0 * seconds / took.as_secs_f64();
    let per_s = |count: u64| number(count) / took.as_secs_f64();
    let at = |quantile| number(taken.latency_us.value_at_quantile(quantile)) / 1e3;
    Ok(Round {
        points_per_s: per_s(seen.reads * u64::from(POINTS)),
        messages_per_s: per_s(taken.points + taken.alls),
        driver_percent: percent(driver),
        node_percent: percent(all),
        seen,
        latency_ms: (at(0.5), at(0.99)),
    })
}

/// Whether figures say something of the node.
fn check(taken: &Taken, seen: &Seen, due: f64, messages_each: u64) -> Result<()> {
    let (generator, subscriber) = (seen.core_percent, taken.core_percent);
    ensure!(generator < BUSY_PERCENT, "the simulated devices took {generator:.0} % of a core: they may be the limit");
    ensure!(subscriber < BUSY_PERCENT, "the subscriber took {subscriber:.0} % of a core: it may be the limit");
    let least = |reads: f64| reads * (1.0 - MISSING_SHARE) - MISSING_READS;
    ensure!(number(seen.reads) >= least(due), "{} of {due} reads that were due came to the devices", seen.reads);
    let (messages, sent) = (taken.points + taken.alls, seen.reads * messages_each);
    let enough = least(number(seen.reads)) * number(messages_each);
    ensure!(number(messages) >= enough, "{messages} messages came of {sent}: the subscriber is behind");
    Ok(())
}

/// What the node is told.
fn config_of(setting: Setting, port: u16, every: Duration) -> String {
    let Setting { protocol, devices, publish, is_traced } = setting;
    let mut text =
        "[http]\nlisten = \"127.0.0.1:0\"\n[history]\nenabled = false\n[mqtt]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    let half = every.as_millis() / 2;
    for device in 0..devices {
        let _ = write!(
            text,
            "[device.d{device:04}]\ntopic = \"{ROOT}/d{device:04}\"\npoints = \"points.csv\"\npublish = {}\n\
             all_every = \"{half}ms\"\ntrace = {{ enabled = {is_traced} }}\n{}",
            publish.words,
            protocol.table(device, port, every),
        );
    }
    text
}

/// The node under test. Dropped, it ends.
pub struct Under {
    _node: Option<Node>,
    child: Option<Child>,
    /// Where it takes MQTT clients.
    pub mqtt: SocketAddr,
}

impl Under {
    /// Starts a node, in this process where there is no program.
    pub fn start(program: Option<&Path>, folder: &Path, text: &str) -> Result<Self> {
        let Some(program) = program else {
            let node = Node::start(&config::from_text("bench.toml", text, folder)?, folder)?;
            return Ok(Self { mqtt: node.mqtt(), _node: Some(node), child: None });
        };
        let file = folder.join("bench.toml");
        std::fs::write(&file, text)?;
        let mut command = Command::new(program);
        command.args(["run", "--json", "--config"]).arg(&file).arg("--data").arg(folder.join("data"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let mut under = Self { _node: None, child: Some(child), mqtt: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let hello: Value = serde_json::from_str(&line).context("the node did not start")?;
        let mqtt = hello.get("mqtt").and_then(Value::as_str).context("the node says no address")?;
        under.mqtt = mqtt.parse().with_context(|| mqtt.to_owned())?;
        Ok(under)
    }

    /// Processor time of its threads so far, those of drivers told apart.
    fn times(&self) -> Result<ThreadTimes> {
        ThreadTimes::of(self.child.as_ref().map_or_else(std::process::id, Child::id), "field-")
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen {
        reads: 0,
        late_us_p50: 0.0,
        late_us_p99: 0.0,
        core_percent: 0.0,
        bytes_in_each: 0.0,
        bytes_out_each: 0.0,
        messages_in_each: 0.0,
    };

    #[test]
    fn figures_are_medians_of_rounds() {
        let round = |driver_percent: f64| Round {
            points_per_s: 36_000.0,
            messages_per_s: 38_000.0,
            driver_percent,
            node_percent: 20.0,
            seen: Seen { late_us_p50: 1e3, late_us_p99: 2e3, ..SEEN },
            latency_ms: (3.0, 4.0),
        };
        let floor = |core_percent| Measured { reads_per_s: 1.0, cpu_us_per_read: 1.0, core_percent };
        let ours = [round(6.0), round(9.0), round(8.0)];
        let floors = [floor(3.0), floor(3.0), floor(4.0)];
        assert_eq!(figures(Protocol::Dnp3, &ours, &floors).late_ms_p50, None);
        let figures = figures(Protocol::Bacnet, &ours, &floors);
        assert_eq!((figures.driver_percent, figures.floor_percent, figures.ratio_to_floor), (8.0, 3.0, 2.0));
        assert_eq!((figures.late_ms_p99, figures.latency_ms_p50), (Some(2.0), 3.0));
    }

    #[test]
    fn a_limit_elsewhere_is_no_figure() {
        let taken = |core_percent| Taken {
            devices: 100,
            points: 1800,
            alls: 100,
            bytes: 0,
            latency_us: hdrhistogram::Histogram::new(3).unwrap(),
            core_percent,
            wrong: None,
        };
        let seen = |reads, core_percent| Seen { reads, core_percent, ..SEEN };
        assert!(check(&taken(5.0), &seen(100, 5.0), 100.0, 19).is_ok());
        let refused = |taken, seen, expect: &str| {
            let why = check(&taken, &seen, 100.0, 19).unwrap_err().to_string();
            assert!(why.contains(expect), "{why}");
        };
        refused(taken(95.0), seen(100, 5.0), "the subscriber took");
        refused(taken(5.0), seen(100, 95.0), "the simulated devices");
        refused(taken(5.0), seen(90, 5.0), "90 of 100 reads");
        refused(taken(5.0), seen(110, 5.0), "1900 messages came of 2090");
    }
}
