//! Devices that are polled: what their driver takes, beside bare sockets that move the same bytes and, where it is
//! installed, another library.
//!
//! | experiment | measures |
//! |---|---|
//! | reads | processor time of a read, over many connections of one thread |
//! | memory | resident memory of a connection |
//! | window | reads a second of one connection whose answers take 20 ms |
//! | spread | how evenly the requests of one large controller leave, in virtual time |
//! | node | a whole node between many devices and a subscriber, each protocol |
//! | trace | a node with traces of its devices and without |
//! | bacnet | lists and many values of a BACnet device: time, and processor time of a value |
//! | styles | messages and bytes of a publication |
//!
//! Read first: `load.rs`, then `ours.rs` and `floor.rs`; `node.rs` with `devices.rs` and `watch.rs`.

mod bacnet;
mod bare;
mod charts;
mod devices;
mod floor;
mod load;
mod memory;
mod node;
mod ours;
mod peer;
mod reads;
mod responder;
mod spread;
mod styles;
#[cfg(test)]
mod tests;
mod trace;
mod watch;
mod wire;

pub use bacnet::BacnetFigures;
pub use charts::charts;
pub use devices::{Kind, Protocol, serve_devices};
pub use memory::{HeldBy, MemoryFigures, grown_with, hold};
pub use node::NodeFigures;
pub use reads::{ReadFigures, WindowFigures};
pub use spread::SpreadFigures;
pub use styles::StyleFigures;
pub use trace::TraceFigures;

use crate::process;
use crate::report::{Progress, Shape, write_rows};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tieline_modbus::READ_REGISTERS_MAX;

/// One of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Processor time of a read.
    Reads,
    /// Memory of a connection.
    Memory,
    /// Reads in flight.
    Window,
    /// Requests over time.
    Spread,
    /// A whole node.
    Node,
    /// A whole node with traces and without.
    Trace,
    /// Many values of a BACnet device.
    Bacnet,
    /// Bytes of a publication.
    Styles,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Reads, Self::Memory, Self::Window, Self::Spread, Self::Node, Self::Trace, Self::Bacnet, Self::Styles];

    /// Headings and keys of its table.
    #[must_use]
    pub const fn columns(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Reads => READS,
            Self::Memory => MEMORY,
            Self::Window => WINDOW,
            Self::Spread => SPREAD,
            Self::Node => NODE,
            Self::Trace => TRACE,
            Self::Bacnet => BACNET,
            Self::Styles => STYLES,
        }
    }
}

const READS: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("connections", "connections"),
    ("registers", "registers"),
    ("every s", "every_s"),
    ("reads/s", "reads_per_s"),
    ("CPU µs a read", "cpu_us_per_read"),
    ("floor CPU µs", "floor_cpu_us_per_read"),
    ("ratio to floor", "ratio_to_floor"),
    ("% of a core", "core_percent"),
    ("floor %", "floor_core_percent"),
    ("tokio-modbus CPU µs", "peer_cpu_us_per_read"),
    ("to tokio-modbus", "ratio_to_peer"),
];
const MEMORY: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("connections", "connections"),
    ("bytes a connection", "rss_bytes_per_connection"),
    ("floor", "floor_rss_bytes_per_connection"),
    ("tokio-modbus", "peer_rss_bytes_per_connection"),
];
const WINDOW: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("registers", "registers"),
    ("in flight", "in_flight"),
    ("reads/s", "reads_per_s"),
    ("floor", "floor_reads_per_s"),
    ("times 1 in flight", "ratio_to_one"),
    ("floor times", "floor_ratio_to_one"),
];
const SPREAD: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("points a request", "points"),
    ("mean requests/s", "mean_per_s"),
    ("peak of 10 s", "peak_per_s"),
    ("peak to mean", "peak_to_mean"),
    ("all at once", "scrape_peak_to_mean"),
];
const NODE: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("protocol", "protocol"),
    ("devices", "devices"),
    ("points", "points"),
    ("every s", "every_s"),
    ("publish", "publish"),
    ("points/s", "points_per_s"),
    ("messages/s", "messages_per_s"),
    ("driver % of a core", "driver_percent"),
    ("floor %", "floor_percent"),
    ("ratio to floor", "ratio_to_floor"),
    ("node %", "node_percent"),
    ("late ms p50", "late_ms_p50"),
    ("late p99", "late_ms_p99"),
    ("to subscriber ms p50", "latency_ms_p50"),
    ("to subscriber p99", "latency_ms_p99"),
];
const TRACE: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("protocol", "protocol"),
    ("devices", "devices"),
    ("every s", "every_s"),
    ("publish", "publish"),
    ("node %", "node_percent"),
    ("without traces", "untraced_node_percent"),
    ("ratio", "ratio_to_untraced"),
    ("driver %", "driver_percent"),
    ("without traces", "untraced_driver_percent"),
    ("ratio", "driver_ratio_to_untraced"),
];
const BACNET: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("what is read", "what"),
    ("values", "values"),
    ("datagrams", "datagrams"),
    ("ms", "ms"),
    ("floor ms", "floor_ms"),
    ("ratio to floor", "ratio_to_floor"),
    ("CPU µs a value", "cpu_us_per_value"),
    ("floor CPU µs", "floor_cpu_us_per_value"),
];
const STYLES: &[(&str, &str)] = &[
    ("experiment", "experiment"),
    ("points", "points"),
    ("publish", "publish"),
    ("counted from", "counted"),
    ("messages", "messages"),
    ("bytes", "bytes"),
    ("four ways to this", "four_ways_to_this"),
];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which experiments.
    pub experiments: Vec<Experiment>,
    /// Connections of reads and memory.
    pub connections: Vec<usize>,
    /// Registers of a read; memory and windows have the first of them.
    pub registers: Vec<u16>,
    /// Devices of a node.
    pub devices: Vec<usize>,
    /// What they speak.
    pub protocols: Vec<Protocol>,
    /// From a read of a device by the node to its next.
    pub every: Duration,
    /// How long a node is measured.
    pub node_span: Duration,
    /// The program that is started for processes of their own: usually the running one. Without it, node and devices are in
    /// this process, and there is no row of memory.
    pub program: Option<PathBuf>,
    /// Another program that is the node, such as one of another version; else `program` is.
    pub node: Option<PathBuf>,
    /// How long each side of a round is measured.
    pub span: Duration,
    /// Rounds of each row.
    pub rounds: usize,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which experiment.
    pub experiment: Experiment,
    /// Connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// Registers of a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<u16>,
    /// What the devices of the node speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    /// What is read of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<&'static str>,
    /// Devices of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<usize>,
    /// Points of a device, of a request, or of a publication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<usize>,
    /// Interval of reads in seconds; absent where the next follows the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_s: Option<f64>,
    /// Reads in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u8>,
    /// What is published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<&'static str>,
    /// Whether bytes were sent, or computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<&'static str>,
    /// Rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<usize>,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Figures {
    /// Of [`Experiment::Reads`].
    Reads(ReadFigures),
    /// Of [`Experiment::Memory`].
    Memory(MemoryFigures),
    /// Of [`Experiment::Window`].
    Window(WindowFigures),
    /// Of [`Experiment::Spread`].
    Spread(SpreadFigures),
    /// Of [`Experiment::Node`].
    Node(NodeFigures),
    /// Of [`Experiment::Trace`].
    Trace(TraceFigures),
    /// Of [`Experiment::Bacnet`].
    Bacnet(BacnetFigures),
    /// Of [`Experiment::Styles`].
    Styles(StyleFigures),
}

impl Row {
    const fn new(experiment: Experiment) -> Self {
        Self {
            experiment,
            connections: None,
            registers: None,
            protocol: None,
            what: None,
            devices: None,
            points: None,
            every_s: None,
            in_flight: None,
            publish: None,
            counted: None,
            rounds: None,
            figures: None,
            invalid: None,
        }
    }
}

/// Runs the experiments.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    check(options)?;
    let mut rows = Vec::new();
    for experiment in &options.experiments {
        rows.extend(match experiment {
            Experiment::Reads => reads::rows(options, progress)?,
            Experiment::Memory => memory::rows(options, progress),
            Experiment::Window => reads::window_rows(options, progress)?,
            Experiment::Spread => spread::rows(),
            Experiment::Node => node::rows(options, progress)?,
            Experiment::Trace => trace::rows(options, progress)?,
            Experiment::Bacnet => bacnet::rows(options, progress),
            Experiment::Styles => styles::rows(options, progress),
        });
    }
    Ok(rows)
}

/// Writes rows: as one JSON array, or a table for each experiment.
///
/// # Errors
/// The output is gone.
pub fn write(out: &mut dyn Write, rows: &[Row], shape: Shape) -> Result<()> {
    if shape == Shape::Json {
        return write_rows(out, rows, READS, shape);
    }
    for experiment in Experiment::ALL {
        let mine: Vec<&Row> = rows.iter().filter(|row| row.experiment == experiment).collect();
        if !mine.is_empty() {
            write_rows(out, &mine, experiment.columns(), shape)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn check(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "rounds are 1 or more");
    ensure!(!options.registers.is_empty(), "no registers to read");
    for registers in &options.registers {
        let legal = (1..=READ_REGISTERS_MAX).contains(registers);
        ensure!(legal, "{registers} registers do not fit a read, expected 1 to {READ_REGISTERS_MAX}");
    }
    for count in options.connections.iter().chain(&options.devices) {
        ensure!(*count > 0, "0 connections are nothing to measure, expected 1 or more");
    }
    for devices in &options.devices {
        ensure!(*devices <= DEVICES_MAX, "{devices} devices, expected at most {DEVICES_MAX}");
    }
    let least = Duration::from_millis(100);
    ensure!(options.every >= least, "an interval of {:?} is shorter than that of a poll, {least:?}", options.every);
    // Both ends.
    process::reserve_descriptors(options.connections.iter().copied().max().unwrap_or(0), 2)
}

/// Each has a name of four digits.
const DEVICES_MAX: usize = 10_000;
