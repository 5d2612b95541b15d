//! `tieline bench fanout`.

use super::args::on_or_off;
use anyhow::Result;
use clap::Args;
use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::time::Duration;
use tieline_bench::fanout::{self, Durability, Form, Options, Transport, reconnect};
use tieline_bench::{Progress, Shape, write_rows};

/// What `tieline bench fanout` is told.
#[derive(Debug, Args)]
pub struct FanoutArgs {
    /// Subscribers, as a list
    #[arg(long, value_delimiter = ',', default_value = "200,1000,5000")]
    pub subscribers: Vec<usize>,
    /// Topics
    #[arg(long, default_value_t = 100_000)]
    pub topics: usize,
    /// Updates a second, of all topics together, as a list
    #[arg(long, value_delimiter = ',', default_value = "20000")]
    pub rate: Vec<u64>,
    /// Topics of each subscriber
    #[arg(long, default_value_t = 100)]
    pub subscriptions_each: usize,
    /// What values are: json, documents of 950 bytes, or point, a number with its quality and time
    #[arg(long, default_value = "json")]
    pub value: Form,
    /// Without and with deltas, as a list
    #[arg(long, value_delimiter = ',', default_value = "off", value_parser = on_or_off)]
    pub delta: Vec<bool>,
    /// Milliseconds that updates may wait for others to the same subscriber, as a list; 0 sends each at once
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub window: Vec<u32>,
    /// Topics keep their last value, where the server can
    #[arg(long, default_value = "on", value_parser = on_or_off, action = clap::ArgAction::Set)]
    pub retain: bool,
    /// What last values outlive, as a list of memory, written and synced; the peers keep nothing on the disk
    #[arg(long, value_delimiter = ',', default_value = "memory")]
    pub durability: Vec<Durability>,
    /// Threads that have the sockets of this server, as a list; 1 is the bus itself
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = super::args::some)]
    pub shards: Vec<usize>,
    /// The share of a processor that each of them is held to, by a control group: as root
    #[arg(long, value_name = "SHARE")]
    pub quota: Option<f64>,
    /// What subscribers come over, as a list of tcp, tls and ws
    #[arg(long, value_delimiter = ',', default_value = "tcp")]
    pub transport: Vec<Transport>,
    /// Further subscribers that read nothing; every server then runs without them too
    #[arg(long, default_value_t = 0)]
    pub stalled: usize,
    /// Instead: so many further subscribers lose their connections at one moment and come back
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with_all = ["stalled", "delta", "window", "svg"])]
    pub reconnect: usize,
    /// Run the installed peers too
    #[arg(long, default_value = "on", value_parser = on_or_off, action = clap::ArgAction::Set)]
    pub peers: bool,
    /// Seconds a measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Measurements of each row
    #[arg(long, default_value_t = 3, value_parser = super::args::some)]
    pub rounds: usize,
    /// Measure nothing: take the rows of earlier runs, as a list of files that --json wrote
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub rows: Vec<PathBuf>,
    /// Draw the curves into a folder
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Print one JSON array, with all that is known of each row
    #[arg(long)]
    pub json: bool,
    /// Print one table with every column, however wide
    #[arg(long, conflicts_with = "json")]
    pub wide: bool,
    /// Plays one part of the experiment: what the command starts itself with
    #[arg(long, hide = true)]
    pub role: Option<String>,
}

/// Runs the experiment, or plays one part of it.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench_fanout(args: FanoutArgs) -> Result<()> {
    if let Some(role) = args.role {
        return fanout::play(&role, &mut stdin().lock(), &mut stdout());
    }
    let options = Options {
        subscribers: args.subscribers,
        topics: args.topics,
        rates: args.rate,
        subscriptions_each: args.subscriptions_each,
        form: args.value,
        delta: args.delta,
        windows_ms: args.window,
        retain: args.retain,
        durabilities: args.durability,
        shards: args.shards,
        quota: args.quota,
        transports: args.transport,
        stalled: args.stalled,
        peers: args.peers,
        span: Duration::from_secs(args.seconds),
        rounds: args.rounds,
        program: Some(std::env::current_exe()?),
    };
    let shape = if args.wide { Shape::Wide } else { super::shape(args.json) };
    if args.reconnect > 0 {
        let rows = reconnect::run(&options, args.reconnect, &Progress::new(true))?;
        return write_rows(&mut stdout(), &rows, reconnect::COLUMNS, shape);
    }
    let rows = if args.rows.is_empty() {
        fanout::run(&options, &Progress::new(true))?
    } else {
        fanout::read_rows(&args.rows)?
    };
    if let Some(folder) = args.svg {
        fanout::charts(&rows).iter().try_for_each(|(name, chart)| chart.save(&folder, name))?;
    }
    write_rows(&mut stdout(), &rows, fanout::COLUMNS, shape)
}
