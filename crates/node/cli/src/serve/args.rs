//! The command line of servers of point lists, as clap reads it.

use crate::args::address;
use crate::tls::TlsArgs;
use clap::{Args, Subcommand};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_outstation::points::Pace;

/// `tieline modbus`.
#[derive(Debug, Subcommand)]
pub enum ModbusVerb {
    /// Serve a simulated device from a point list; points without a curve are set by lines of standard input
    Server(ModbusServerArgs),
}

/// `tieline bacnet`.
#[derive(Debug, Subcommand)]
pub enum BacnetVerb {
    /// Serve a simulated device from a point list; points without a curve are set by lines of standard input
    Server(BacnetServerArgs),
}

/// `tieline iec104`.
#[derive(Debug, Subcommand)]
pub enum Iec104Verb {
    /// Serve a simulated station from a point list; its points are set by lines of standard input
    Server(Iec104ServerArgs),
}

/// `tieline modbus server`.
#[derive(Debug, Args)]
pub struct ModbusServerArgs {
    /// Point list of a Modbus device, with the columns value, curve, noise and decimals for what it shows
    pub file: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:1502", value_parser = address)]
    pub listen: SocketAddr,
    /// Units that answer, as in 1,2; others are refused as by a gateway [default: every unit]
    #[arg(long, value_name = "UNITS", value_delimiter = ',')]
    pub unit: Vec<u8>,
    #[command(flatten)]
    pub pace: PaceArgs,
    /// TOML file of what goes wrong, with the keys faults, delay and delay_jitter of a simulated device
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Print one JSON object with the address in use first, and writes as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline bacnet server`.
#[derive(Debug, Args)]
pub struct BacnetServerArgs {
    /// Point list of a BACnet device, with the columns value, curve, noise and decimals for what it shows
    pub file: PathBuf,
    /// Where to listen, an address of IPv4; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:47808", value_parser = address_v4)]
    pub listen: SocketAddrV4,
    /// Instance of the device object
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4_194_302))]
    pub instance: u32,
    /// Name of the device object [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub pace: PaceArgs,
    /// TOML file of what goes wrong, with the keys faults, delay and delay_jitter of a simulated device
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Print one JSON object with the address in use first, and writes as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline iec104 server`.
#[derive(Debug, Args)]
pub struct Iec104ServerArgs {
    /// Point list of an IEC 60870-5-104 station, with the columns value, curve, noise and decimals for what it shows, group and
    /// cyclic for how it is sent
    pub file: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:2404", value_parser = address)]
    pub listen: SocketAddr,
    /// Common address of points that have none in the list
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=65_534))]
    pub common_address: u16,
    /// Hours that the clock of the station is ahead of UTC, -14 to 14
    #[arg(long, value_name = "HOURS", default_value_t = 0.0, value_parser = hours, allow_negative_numbers = true)]
    pub utc_offset: f64,
    /// How long a selection holds, 1s to 10m
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = select_timeout)]
    pub select_timeout: Duration,
    /// Do not send terminations of commands
    #[arg(long)]
    pub no_termination: bool,
    /// How often points with cyclic = true are sent, 100ms to 1h [default: never]
    #[arg(long, value_name = "DURATION", value_parser = cyclic)]
    pub cyclic: Option<Duration>,
    /// IP addresses of a client whose connections are one redundancy group, as in 10.0.0.1,10.0.0.2; any: all other clients. May be
    /// repeated
    #[arg(long, value_name = "ADDRESSES", value_parser = redundancy)]
    pub redundancy: Vec<RedundancyGroup>,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub pace: PaceArgs,
    /// TOML file of what goes wrong, with the keys faults, delay and delay_jitter of a simulated device
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// Print one JSON object with the address in use first, and commands as JSON
    #[arg(long)]
    pub json: bool,
}

/// The clients of a redundancy group; no address: all that no other group has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedundancyGroup(pub Vec<IpAddr>);

/// How the simulated time goes.
#[derive(Clone, Copy, Debug, Args)]
pub struct PaceArgs {
    /// Number from which all random values come
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u32,
    /// The simulated time at the start, in RFC 3339 [default: the present]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub start: Option<Timestamp>,
    /// Simulated seconds in one second, 0.001 to 3600
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
}

impl From<PaceArgs> for Pace {
    fn from(PaceArgs { seed, start, speed }: PaceArgs) -> Self {
        Self { seed, start, speed }
    }
}

fn address_v4(text: &str) -> Result<SocketAddrV4, String> {
    text.parse().map_err(|_| "expected an IPv4 address with a port, as in 127.0.0.1:47808".to_owned())
}

fn hours(text: &str) -> Result<f64, String> {
    let given = text.parse().ok().filter(|hours| (-14.0..=14.0).contains(hours));
    given.ok_or_else(|| "expected a number of hours from -14 to 14, as in 5.5".to_owned())
}

fn select_timeout(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(600);
    let given = tieline_core::parse_duration(text).filter(|duration| allowed.contains(duration));
    given.ok_or_else(|| "expected a duration from 1s to 10m".to_owned())
}

fn cyclic(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    let given = tieline_core::parse_duration(text).filter(|duration| allowed.contains(duration));
    given.ok_or_else(|| "expected a duration from 100ms to 1h".to_owned())
}

fn redundancy(text: &str) -> Result<RedundancyGroup, String> {
    if text == "any" {
        return Ok(RedundancyGroup(Vec::new()));
    }
    let addresses = text.split(',').map(str::parse).collect::<Result<_, _>>();
    let expected = "expected IP addresses, as in 10.0.0.1,10.0.0.2, or any";
    addresses.map(RedundancyGroup).map_err(|_| expected.to_owned())
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "expected a time in RFC 3339, as in 2026-06-01T06:00:00Z".to_owned())
}

fn speed(text: &str) -> Result<f64, String> {
    let given = text.parse().ok().filter(|speed| (0.001..=3600.0).contains(speed));
    given.ok_or_else(|| "expected a number from 0.001 to 3600".to_owned())
}
