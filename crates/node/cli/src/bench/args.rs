//! What the experiments are told on the command line.

use super::centre::CentreArgs;
use super::delay::DelayArgs;
use super::edges::EdgesArgs;
use super::failover::FailoverArgs;
use super::fanout::FanoutArgs;
use super::field::FieldArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// `tieline bench`.
#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Master and outstation pairs over loopback: unsolicited responses and their confirms
    Dnp3(BenchDnp3Args),
    /// From a fault to all who must know, in network namespaces with ports of 100 Mbit/s (needs root)
    Delay(DelayArgs),
    /// Many subscribers of many topics, beside the installed peers and raw writes
    Fanout(FanoutArgs),
    /// Edges that mirror a core for its subscribers, beside the core itself
    Edges(EdgesArgs),
    /// Sites that send each second to a centre, and a slow link that stalls or is cut (needs nats-server)
    Centre(CentreArgs),
    /// A core with standbys whose leader is killed or frozen again and again (needs nats-server)
    Failover(FailoverArgs),
    /// Polled devices: reads, memory, a whole node, beside bare sockets and tokio-modbus
    Field(FieldArgs),
    /// Time from publish until every listener has all points of all devices
    Bus {
        /// Devices, as a list
        #[arg(long, value_delimiter = ',', default_value = "50,100,500,1000,1500,2000")]
        devices: Vec<usize>,
        /// Points of each device
        #[arg(long, default_value_t = 18)]
        points: usize,
        /// Listeners, as a list
        #[arg(long, value_delimiter = ',', default_value = "2,10")]
        listeners: Vec<usize>,
        /// Measurements of each row, and of its floor
        #[arg(long, default_value_t = 11, value_parser = some)]
        rounds: usize,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Alarms until a subscriber has them, one by one and many at once, beside an update that waits for the same disk
    Alarms {
        /// Quiet alarms of the engine, as a list
        #[arg(long, value_delimiter = ',', value_name = "COUNTS", default_value = "10000,100000")]
        alarms: Vec<usize>,
        /// Alarms at once
        #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = some)]
        burst: usize,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// One call that commands a point of each of many devices, verified by readings, and reverted
    Control {
        /// Devices, as a list
        #[arg(long, value_delimiter = ',', default_value = "50,1000,4000")]
        devices: Vec<usize>,
        /// Measurements of each row, and of its floor
        #[arg(long, default_value_t = 5, value_parser = some)]
        rounds: usize,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Messages packed and unpacked by two seal servers, beside the bare cryptography
    Seal {
        /// What is asked: so many messages at a time, so many a second, or damaged ones
        #[arg(long, value_enum, value_delimiter = ',', default_value = "closed,open,refusals")]
        experiment: Vec<SealExperiment>,
        /// Messages at a time, as a list
        #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,384,512")]
        concurrency: Vec<usize>,
        /// Bytes of content
        #[arg(long, default_value_t = 1024)]
        bytes: usize,
        /// Seconds a measurement
        #[arg(long, default_value_t = 2)]
        seconds: u64,
        /// Measurements of each row, and of its ceiling
        #[arg(long, default_value_t = 5, value_parser = some)]
        rounds: usize,
        /// Refusals of each kind
        #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
        refusals: u32,
        /// Draw the curves into a folder
        #[arg(long, value_name = "DIR")]
        svg: Option<PathBuf>,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Points a second into the journal and into the store
    History {
        /// Points to record
        #[arg(long, default_value_t = 1_000_000)]
        points: usize,
        /// Measurements of each row, and of its floor
        #[arg(long, default_value_t = 3, value_parser = some)]
        rounds: usize,
        /// Store whole days of so many topics and time questions about them, in place of the other rows
        #[arg(long, value_name = "TOPICS")]
        queries: Option<usize>,
        /// Write the points to other databases that are installed: PostgreSQL, MariaDB, VictoriaMetrics, FerretDB; in place of the other rows
        #[arg(long, conflicts_with = "queries")]
        databases: bool,
        /// Only to these of them, as a list: postgresql, mariadb, victoriametrics, ferretdb
        #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "databases")]
        only: Vec<String>,
        /// Disks whose syncs take longer by so many milliseconds, as a list, in place of the disk as it is
        #[arg(long, value_name = "MS", value_delimiter = ',', value_parser = milliseconds, conflicts_with_all = ["queries", "databases"], group = "drawn")]
        sync_delay: Vec<Duration>,
        /// Processor time of a point in each stage, in place of the other rows
        #[arg(long, conflicts_with_all = ["queries", "databases", "sync_delay"])]
        stages: bool,
        /// One history that grows to so many points, asked at 10^6, 10^7 ... points, in place of the other rows
        #[arg(long, conflicts_with_all = ["queries", "databases", "sync_delay", "stages"], group = "drawn")]
        growth: bool,
        /// A day of so many topics, here and in SQLite, DuckDB and VictoriaMetrics, in place of the other rows
        #[arg(long, value_name = "TOPICS", value_parser = some, conflicts_with_all = ["queries", "databases", "sync_delay", "stages", "growth"])]
        peers: Option<usize>,
        /// Points of MQTT clients, until they are acknowledged and can be queried, in place of the other rows
        #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = some, conflicts_with_all = ["queries", "databases", "sync_delay", "stages", "growth", "peers"], group = "drawn")]
        clients: Vec<usize>,
        /// Days of each topic
        #[arg(long, default_value_t = 1, requires = "queries")]
        days: usize,
        /// Seconds from a value of a topic to the next, a part of an hour
        #[arg(long, default_value_t = 1, requires = "queries", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
        /// Draw the rows of `--sync-delay`, `--clients` or `--growth` into this folder
        #[arg(long, value_name = "FOLDER", requires = "drawn")]
        svg: Option<PathBuf>,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

/// `tieline bench dnp3`.
#[derive(Debug, Args)]
pub struct BenchDnp3Args {
    /// Which of the published curves
    #[arg(long, value_enum, default_value = "sessions")]
    pub experiment: Dnp3Experiment,
    /// Pairs of the experiment over sessions, as a list
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096")]
    pub sessions: Vec<usize>,
    /// Its threads for each side
    #[arg(long, default_value_t = 1)]
    pub workers: usize,
    /// Pairs of the experiment over workers, as a list
    #[arg(long, value_delimiter = ',', default_value = "64,256")]
    pub worker_sessions: Vec<usize>,
    /// Pairs of the experiment over memory, as a list
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384")]
    pub pairs: Vec<usize>,
    /// Run 1,000 pairs on one worker under so much memory, as in 64M; takes the right to make a control group
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory_limit: Option<u64>,
    /// Values in each response, as a list
    #[arg(long, value_delimiter = ',', default_value = "10,100")]
    pub values: Vec<u16>,
    /// Seconds a measurement
    #[arg(long, default_value_t = 0.5, value_parser = seconds)]
    pub seconds: f64,
    /// Measurements of each row, and of its floor
    #[arg(long, default_value_t = 5, value_parser = some)]
    pub rounds: usize,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
    /// Draw the curves, as SVG files in this folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Be a process with so many pairs, for the experiment over memory
    #[arg(long, hide = true, value_name = "N")]
    pub hold_pairs: Option<usize>,
}

/// One of the published curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dnp3Experiment {
    /// Exchanges over sessions
    Sessions,
    /// Exchanges over workers, from 1 to twice the processors
    Workers,
    /// Resident memory over sessions
    Memory,
    /// All three, and with 64 MiB of memory where that can be limited
    All,
}

/// What `tieline bench seal` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SealExperiment {
    /// So many messages at a time, as published
    Closed,
    /// So many messages a second, whether answers come or not
    Open,
    /// Whether the time of a refusal tells what was wrong
    Refusals,
}

/// A span of time.
pub fn seconds(text: &str) -> Result<f64, String> {
    let within = text.parse().ok().filter(|given| (0.001..=3600.0).contains(given));
    within.ok_or_else(|| "expected seconds from 0.001 to 3600, as in 0.5".to_owned())
}

/// A number that is not zero.
pub fn some(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "expected a number, 1 or more".to_owned())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let within = text.parse().ok().filter(|given| (0.0..=10_000.0).contains(given));
    let given: f64 = within.ok_or_else(|| "expected milliseconds from 0 to 10000, as in 0.3".to_owned())?;
    Ok(Duration::from_secs_f64(given / 1000.0))
}

fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    count.filter(|bytes| *bytes > 0).ok_or_else(|| "expected bytes, as in 64M or 65536k".to_owned())
}

/// `on` or `off`.
pub fn on_or_off(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}
