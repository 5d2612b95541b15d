//! `tieline bench field`.

use super::args::{seconds, some};
use super::shape;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use std::io::{stdin, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tieline_bench::{Progress, field};

/// `tieline bench field`.
#[derive(Debug, Args)]
pub struct FieldArgs {
    /// What is measured
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "reads,memory,window,spread,node,trace,bacnet,styles",
        hide_default_value = true
    )]
    experiment: Vec<FieldExperiment>,
    /// Connections of reads and memory, as a list
    #[arg(long, value_delimiter = ',', default_value = "64,2000")]
    connections: Vec<usize>,
    /// Registers of a read, as a list; memory and window have the first of them
    #[arg(long, value_delimiter = ',', default_value = "18,100")]
    registers: Vec<u16>,
    /// Devices of a node, as a list
    #[arg(long, value_delimiter = ',', default_value = "2000")]
    devices: Vec<usize>,
    /// What the devices of a node speak, as a list: modbus, bacnet, dnp3, iec104
    #[arg(long, value_delimiter = ',', default_value = "modbus,bacnet,dnp3,iec104")]
    protocol: Vec<field::Protocol>,
    /// Seconds from a read of a device by the node to its next
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// Another binary that is the node, to compare versions
    #[arg(long, value_name = "PROGRAM")]
    node: Option<PathBuf>,
    /// Seconds that a node is measured
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    node_seconds: f64,
    /// Seconds a measurement of the others
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// Measurements of each row, and of its floor
    #[arg(long, default_value_t = 5, value_parser = some)]
    rounds: usize,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    /// Draw the curves, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Be a process with connections, for the experiment over memory
    #[arg(long, hide = true, value_name = "SIDE", requires = "to")]
    hold: Option<field::HeldBy>,
    /// Where they lead
    #[arg(long, hide = true, value_name = "ADDRESS")]
    to: Option<SocketAddr>,
    /// Be the process with the simulated devices
    #[arg(long, hide = true, value_name = "PROTOCOL")]
    serve_devices: Option<field::Protocol>,
}

/// What `tieline bench field` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FieldExperiment {
    /// Processor time of a read over many connections, beside bare sockets and tokio-modbus
    Reads,
    /// Resident memory of a connection
    Memory,
    /// Reads a second with 1, 4 and 16 in flight, where an answer takes 20 ms
    Window,
    /// How evenly the requests of a controller with 9,000 points leave
    Spread,
    /// A node between many devices and a subscriber
    Node,
    /// The same with traces of its devices and without
    Trace,
    /// Lists and many values of one BACnet device
    Bacnet,
    /// Messages and bytes of a publication, beside VOLTTRON's four ways
    Styles,
}

impl From<FieldExperiment> for field::Experiment {
    fn from(asked: FieldExperiment) -> Self {
        match asked {
            FieldExperiment::Reads => Self::Reads,
            FieldExperiment::Memory => Self::Memory,
            FieldExperiment::Window => Self::Window,
            FieldExperiment::Spread => Self::Spread,
            FieldExperiment::Node => Self::Node,
            FieldExperiment::Trace => Self::Trace,
            FieldExperiment::Bacnet => Self::Bacnet,
            FieldExperiment::Styles => Self::Styles,
        }
    }
}

/// Runs the experiments, or is a process that they started.
pub fn bench_field(args: FieldArgs) -> Result<()> {
    if let Some(protocol) = args.serve_devices {
        let devices = args.devices.first().copied().context("no devices to serve")?;
        let kind = field::Kind { protocol, devices, every: Duration::from_secs_f64(args.every) };
        return field::serve_devices(kind, &mut stdin().lock(), &mut stdout());
    }
    if let (Some(by), Some(to)) = (args.hold, args.to) {
        let (connections, registers) =
            args.connections.first().zip(args.registers.first()).context("nothing to hold")?;
        return field::hold(by, to, *connections, *registers, &mut stdout());
    }
    let options = field::Options {
        experiments: args.experiment.into_iter().map(field::Experiment::from).collect(),
        connections: args.connections,
        registers: args.registers,
        devices: args.devices,
        protocols: args.protocol,
        every: Duration::from_secs_f64(args.every),
        node_span: Duration::from_secs_f64(args.node_seconds),
        program: Some(std::env::current_exe()?),
        node: args.node,
        span: Duration::from_secs_f64(args.seconds),
        rounds: args.rounds,
    };
    let rows = field::run(&options, &Progress::new(true))?;
    if let Some(folder) = &args.svg {
        field::charts(&rows).iter().try_for_each(|(name, chart)| chart.save(folder, name))?;
    }
    field::write(&mut stdout(), &rows, shape(args.json))
}
