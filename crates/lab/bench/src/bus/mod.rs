//! Experiment 4: the time from the first of many devices' publishes until every listener has all of them, through a
//! node. One client publishes for all devices, as the driver of the published experiment does, once with a message a
//! device that holds all its points, and once with a message a point. Every listener compares every message.
//!
//! Rows with security go over TLS, each client shows a password, and rules say what it may do.
//!
//! The floor sends the bytes that a listener got, in writes as large as the sockets take, from one thread over as
//! many raw sockets. A peer, where it is installed, is the proxy of libzmq, with neither encryption nor passwords.

mod clients;
mod fanout;
pub(crate) mod node;
mod published;
mod zmq;

use crate::process;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, p99, short, shuffled};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clients::{Clients, Messages};
use fanout::Fanout;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tieline_core::{Point, Quality, Timestamp, Topic, Value};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("devices", "devices"),
    ("points", "points"),
    ("listeners", "listeners"),
    ("a message is a", "message"),
    ("history", "history"),
    ("security", "security"),
    ("seconds p50", "seconds_p50"),
    ("p99", "seconds_p99"),
    ("floor p50", "floor_seconds_p50"),
    ("ratio to floor", "ratio_to_floor"),
    ("libzmq p50", "zmq_seconds_p50"),
    ("to libzmq", "ratio_to_zmq"),
    ("CPU s a million", "cpu_s_per_million"),
    ("alone µs p99", "latency_us_p99"),
    ("published: RPC", "published_rpc_seconds"),
    ("raw ZeroMQ", "published_zeromq_seconds"),
    ("router", "published_router_seconds"),
];

/// Messages that are sent alone, one after the other, for the latency of an idle bus.
const ALONE: usize = 200;

/// What to run: every number of devices with every number of listeners, in each [`Message`], with security too, and once with history.
#[derive(Clone, Debug)]
pub struct Options {
    /// Devices.
    pub devices: Vec<usize>,
    /// Points of each device.
    pub points: usize,
    /// Listeners.
    pub listeners: Vec<usize>,
    /// Rounds of each row.
    pub rounds: usize,
}

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// All points of a device.
    Device,
    /// One point.
    Point,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Devices.
    pub devices: usize,
    /// Points of each.
    pub points: usize,
    /// Listeners, each to everything.
    pub listeners: usize,
    /// What a message holds.
    pub message: Message,
    /// Whether the node records what it passes on.
    pub history: bool,
    /// Whether clients come over TLS, with passwords, and rules say what they may do.
    pub security: bool,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Published: calls over its bus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_rpc_seconds: Option<f64>,
    /// Published: raw `ZeroMQ`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_zeromq_seconds: Option<f64>,
    /// Published: the integrated router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_router_seconds: Option<f64>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// From the first publish until every listener had everything.
    pub seconds_p50: f64,
    /// The same, of the slowest rounds.
    pub seconds_p99: f64,
    /// The floor's.
    pub floor_seconds_p50: f64,
    /// The floor's.
    pub floor_seconds_p99: f64,
    /// Seconds over the floor's.
    pub ratio_to_floor: f64,
    /// The proxy of libzmq, where it is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zmq_seconds_p50: Option<f64>,
    /// Seconds over those of libzmq.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_zmq: Option<f64>,
    /// Processor time of node, publisher and listeners for a million messages received.
    pub cpu_s_per_million: f64,
    /// The floor's, for the bytes of a million messages.
    pub floor_cpu_s_per_million: f64,
    /// Bytes on the wire of a message received.
    pub bytes_per_message: f64,
    /// From publish until the last listener has it, of one message on an idle bus.
    pub latency_us_p50: u64,
    /// The same.
    pub latency_us_p99: u64,
}

/// Kinds of rows: what a message holds, whether with history, whether with security.
const KINDS: [(Message, bool, bool); 5] = [
    (Message::Device, false, false),
    (Message::Device, true, false),
    (Message::Device, false, true),
    (Message::Point, false, false),
    (Message::Point, false, true),
];

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.points > 0 && options.rounds > 0, "points and rounds are 1 or more");
    let folder = TempDir::new().context("a folder for the peer")?;
    let peer = zmq::Program::build(folder.path())?;
    let mut rows = Vec::new();
    for (message, history, security) in KINDS {
        for listeners in options.listeners.iter().copied() {
            for devices in options.devices.iter().copied() {
                ensure!(devices > 0 && listeners > 0, "devices and listeners are 1 or more");
                // A listener's two ends, and the same of the floor.
                process::reserve_descriptors(listeners, 4)?;
                let case = Case { devices, points: options.points, listeners, message, history, security };
                progress.show(&format!("bus: {case:?}"));
                rows.push(case.row(options.rounds, peer.as_ref())?);
            }
        }
    }
    Ok(rows)
}

/// One combination.
#[derive(Clone, Copy, Debug)]
struct Case {
    devices: usize,
    points: usize,
    listeners: usize,
    message: Message,
    history: bool,
    security: bool,
}

/// One side's series.
#[derive(Debug, Default)]
struct Series {
    seconds: Vec<f64>,
    cpu_s: Vec<f64>,
}

impl Series {
    fn add(&mut self, took: Duration, cpu: Duration) {
        self.seconds.push(took.as_secs_f64());
        self.cpu_s.push(cpu.as_secs_f64());
    }
}

impl Case {
    fn row(self, rounds: usize, peer: Option<&zmq::Program>) -> Result<Row> {
        let folder = TempDir::new().context("a folder for the node's data")?;
        let (_node, entry) = node::start(folder.path(), self.history, self.security)?;
        let mut clients = Clients::connect(&entry, self.listeners)?;
        let (figures, invalid) = match self.measure(&mut clients, peer, rounds) {
            Ok(figures) => (Some(figures), None),
            Err(why) => (None, Some(format!("{self:?}: {why}"))),
        };
        let known = published::of(self.devices, self.points, self.listeners);
        Ok(Row {
            devices: self.devices,
            points: self.points,
            listeners: self.listeners,
            message: self.message,
            history: self.history,
            security: self.security,
            rounds,
            figures,
            published_rpc_seconds: known.map(|known| known.rpc),
            published_zeromq_seconds: known.map(|known| known.zeromq),
            published_router_seconds: known.map(|known| known.router),
            invalid,
        })
    }

    fn measure(self, clients: &mut Clients, peer: Option<&zmq::Program>, rounds: usize) -> Result<Figures> {
        // To warm up, and to learn how many bytes a listener gets.
        let messages = self.messages(0)?;
        let bytes = clients.round(&messages)?.bytes;
        let mut fanout = Fanout::connect(self.listeners, bytes)?;
        fanout.round()?;
        let folder = TempDir::new().context("a folder for the peer")?;
        let start = |program| zmq::Zmq::start(program, folder.path(), &messages, self.listeners);
        let mut peer = peer.map(start).transpose()?;
        let mut peer_seconds = Vec::new();
        let (mut ours, mut floor) = (Series::default(), Series::default());
        for (number, order) in (1..).zip(shuffled(rounds)) {
            let messages = self.messages(number)?;
            for side in order {
                let before = process::cpu();
                match side {
                    Side::Ours => {
                        let took = clients.round(&messages)?.took;
                        ours.add(took, process::cpu() - before);
                    }
                    Side::Floor => {
                        let took = fanout.round()?;
                        floor.add(took, process::cpu() - before);
                    }
                }
            }
            if let Some(peer) = &mut peer {
                peer_seconds.push(peer.round()?.as_secs_f64());
            }
        }
        drop(peer);
        let has_peer = !peer_seconds.is_empty();
        let alone = self.alone(clients)?;
        let received = number((messages.len() * self.listeners) as u64);
        Ok(Figures {
            seconds_p50: short(median(&ours.seconds)),
            seconds_p99: short(p99(&ours.seconds)),
            floor_seconds_p50: short(median(&floor.seconds)),
            floor_seconds_p99: short(p99(&floor.seconds)),
            ratio_to_floor: short(median_ratio(&ours.seconds, &floor.seconds)),
            zmq_seconds_p50: has_peer.then(|| short(median(&peer_seconds))),
            ratio_to_zmq: has_peer.then(|| short(median_ratio(&ours.seconds, &peer_seconds))),
            cpu_s_per_million: short(median(&ours.cpu_s) / received * 1e6),
            floor_cpu_s_per_million: short(median(&floor.cpu_s) / received * 1e6),
            bytes_per_message: short(number(bytes) / number(messages.len() as u64)),
            latency_us_p50: alone.value_at_quantile(0.5),
            latency_us_p99: alone.value_at_quantile(0.99),
        })
    }

    /// Microseconds of single messages.
    fn alone(self, clients: &mut Clients) -> Result<Histogram<u64>> {
        let mut histogram = Histogram::new(3)?;
        let one = Self { devices: 1, points: if self.message == Message::Point { 1 } else { self.points }, ..self };
        for number in 0..ALONE {
            let took = clients.round(&one.messages(u32::try_from(number)?)?)?.took;
            histogram.record(u64::try_from(took.as_micros())?)?;
        }
        Ok(histogram)
    }

    /// What all devices publish in a round.
    fn messages(self, round: u32) -> Result<Messages> {
        let mut messages = Vec::new();
        for device in 0..self.devices {
            let topic = Topic::new(&format!("bench/device{device:04}"))?;
            let points = (0..self.points).map(|point| (format!("point{point:02}"), json_of(round, device, point)));
            match self.message {
                Message::Device => {
                    let members: Vec<String> = points.map(|(name, json)| format!("\"{name}\":{json}")).collect();
                    messages.push((topic.join("all")?, Bytes::from(format!("{{{}}}", members.join(",")))));
                }
                Message::Point => {
                    for (name, json) in points {
                        messages.push((topic.join(&name)?, Bytes::from(json)));
                    }
                }
            }
        }
        Ok(Arc::new(messages))
    }
}

/// A point's value that is another in each round.
fn json_of(round: u32, device: usize, point: usize) -> String {
    let value = Value::Float(f64::from(round) + number((device * 100 + point) as u64) / 100.0);
    let time = Timestamp::from_millis(1_795_167_360_000 + i64::from(round) * 1000);
    Point { value, quality: Quality::GOOD, time }.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_gets_everything() {
        let options = Options { devices: vec![3], points: 18, listeners: vec![2], rounds: 2 };
        let rows = run(&options, &Progress::new(false)).unwrap();
        let folder = TempDir::new().unwrap();
        let has_peer = zmq::Program::build(folder.path()).unwrap().is_some();
        if !has_peer {
            println!("SKIPPED the proxy of libzmq: cc or libzmq3-dev is not installed");
        }
        assert_eq!(rows.iter().map(|row| (row.message, row.history, row.security)).collect::<Vec<_>>(), KINDS);
        for row in rows {
            assert_eq!(row.invalid, None);
            let figures = row.figures.unwrap();
            assert!(figures.seconds_p50 > 0.0 && figures.ratio_to_floor > 0.0, "{figures:?}");
            assert!(figures.bytes_per_message > 50.0, "{figures:?}");
            assert_eq!(figures.ratio_to_zmq.is_some_and(|ratio| ratio > 0.0), has_peer, "{figures:?}");
        }
    }

    #[test]
    fn rounds_differ_and_points_are_points() {
        let case =
            Case { devices: 2, points: 3, listeners: 1, message: Message::Point, history: false, security: false };
        let (first, second) = (case.messages(1).unwrap(), case.messages(2).unwrap());
        assert_eq!(first.len(), 6);
        assert!(first.iter().zip(&*second).all(|(a, b)| a.0 == b.0 && a.1 != b.1));
        assert!(Point::from_json(&first[0].1, Timestamp::default()).is_ok());
    }
}
