//! `tieline bench edges`.

use anyhow::Result;
use clap::Args;
use std::io::stdout;
use std::time::Duration;
use tieline_bench::fanout::edges::{self, Experiment, Options};
use tieline_bench::fanout::{self, Durability, Form, Transport};
use tieline_bench::{Progress, write_rows};

/// What `tieline bench edges` is told.
#[derive(Debug, Args)]
pub struct EdgesArgs {
    /// What is measured, as a list: mirror, what subscribers of edges cost; join, an edge that is added; cut, a link that is cut
    #[arg(long, value_delimiter = ',', default_value = "mirror,join,cut")]
    pub experiment: Vec<Experiment>,
    /// Edges, as a list
    #[arg(long, value_delimiter = ',', default_value = "1,2,5", value_parser = super::args::some)]
    pub edges: Vec<usize>,
    /// Subscribers of all edges together, as a list
    #[arg(long, value_delimiter = ',', default_value = "100,1000")]
    pub subscribers: Vec<usize>,
    /// Topics
    #[arg(long, default_value_t = 100_000)]
    pub topics: usize,
    /// Updates a second, of all topics together
    #[arg(long, default_value_t = 10_000)]
    pub rate: u64,
    /// Topics of each subscriber
    #[arg(long, default_value_t = 100)]
    pub subscriptions_each: usize,
    /// What values are: json, documents of 950 bytes, or point, a number with its quality and time
    #[arg(long, default_value = "json")]
    pub value: Form,
    /// Milliseconds that the core may collect values for one write to an edge
    #[arg(long, default_value = "0", value_parser = window)]
    pub window: Duration,
    /// Seconds of the cut; an edge notices after two
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub cut: u64,
    /// Seconds a measurement
    #[arg(long, default_value_t = 4)]
    pub seconds: u64,
    /// Measurements of each row
    #[arg(long, default_value_t = 3, value_parser = super::args::some)]
    pub rounds: usize,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

fn window(text: &str) -> Result<Duration, String> {
    let millis = text.parse::<f64>().ok().filter(|ms| (0.0..=100.0).contains(ms));
    millis
        .map(|ms| Duration::from_secs_f64(ms / 1000.0))
        .ok_or_else(|| "expected milliseconds from 0 to 100".to_owned())
}

/// Runs the experiments.
///
/// # Errors
/// The flags are out of range, or the system does not have what they need.
pub fn bench_edges(args: EdgesArgs) -> Result<()> {
    let load = fanout::Options {
        subscribers: args.subscribers,
        topics: args.topics,
        rates: vec![args.rate],
        subscriptions_each: args.subscriptions_each,
        form: args.value,
        delta: vec![true],
        windows_ms: vec![0],
        retain: true,
        durabilities: vec![Durability::Memory],
        shards: vec![1],
        quota: None,
        transports: vec![Transport::Tcp],
        stalled: 0,
        peers: false,
        span: Duration::from_secs(args.seconds),
        rounds: args.rounds,
        program: Some(std::env::current_exe()?),
    };
    let cut = Duration::from_secs(args.cut);
    let options = Options { experiments: args.experiment, edges: args.edges, load, window: args.window, cut };
    let rows = edges::run(&options, &Progress::new(true))?;
    write_rows(&mut stdout(), &rows, edges::COLUMNS, super::shape(args.json))
}
