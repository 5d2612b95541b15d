//! Experiment 5: messages of 1 KiB packed or unpacked by two servers for one client, so many at a time.
//!
//! The ceiling is the same cryptography without servers, sockets and envelopes, on one thread, in the same round. Both
//! are given in messages a second of processor time, that of the servers and that of the thread: what else the
//! machine does then touches the ratio little.

mod ceiling;
mod servers;

use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, number, short, shuffled};
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::Serialize;
use servers::{Folder, Servers};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tieline_seal::Ispb;
use tieline_seal::client::{Cluster, PackRequest, UnpackRequest};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("verb", "verb"),
    ("concurrency", "concurrency"),
    ("batch", "batch"),
    ("messages/s", "messages_per_s"),
    ("a CPU s", "messages_per_cpu_s"),
    ("ceiling", "ceiling_messages_per_cpu_s"),
    ("ratio", "ratio_to_ceiling"),
    ("µs p50", "latency_us_p50"),
    ("p90", "latency_us_p90"),
    ("p99", "latency_us_p99"),
];

/// The longest latency that is told apart.
const LATENCY_US_MAX: u64 = 60_000_000;
/// Processor time of the ceiling in each round.
const CEILING_SPAN: Duration = Duration::from_millis(300);

/// What to run: every number of messages at a time, packed and unpacked, with batches and without.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages at a time.
    pub concurrency: Vec<usize>,
    /// How long a round lasts; one before it is thrown away.
    pub span: Duration,
    /// Rounds of each row; the servers are started anew for each row.
    pub rounds: usize,
    /// Octets of content.
    pub octets: usize,
}

/// What the servers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Sign and encrypt.
    Pack,
    /// Decrypt and verify.
    Unpack,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What the servers do.
    pub verb: Verb,
    /// Messages at a time.
    pub concurrency: usize,
    /// Whether private-key operations are done together.
    pub batch: bool,
    /// Octets of content.
    pub octets: usize,
    /// Rounds.
    pub rounds: usize,
    /// What was measured; absent where a round was not valid.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// What a row measured; medians over the rounds, latencies of all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Messages a second.
    pub messages_per_s: f64,
    /// Messages a second of the servers' processor time.
    pub messages_per_cpu_s: f64,
    /// The ceiling's.
    pub ceiling_messages_per_cpu_s: f64,
    /// The servers' over the ceiling's.
    pub ratio_to_ceiling: f64,
    /// From request to answer.
    pub latency_us_p50: u64,
    /// The same.
    pub latency_us_p90: u64,
    /// The same.
    pub latency_us_p99: u64,
    /// The same.
    pub latency_us_max: u64,
}

/// Runs all rows.
///
/// # Errors
/// Keys cannot be made, or the servers do not start.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let folder = Folder::new()?;
    let mut rows = Vec::new();
    for verb in [Verb::Pack, Verb::Unpack] {
        for &concurrency in &options.concurrency {
            for batch in [true, false] {
                progress.show(&format!("{verb:?}, {concurrency} at a time, batch {batch}"));
                let measured = measure(&folder, options, verb, concurrency.max(1), batch);
                let (figures, invalid) = match measured {
                    Ok(figures) => (Some(figures), None),
                    Err(error) => (None, Some(format!("{error:#}"))),
                };
                let Options { octets, rounds, .. } = *options;
                rows.push(Row { verb, concurrency, batch, octets, rounds, figures, invalid });
            }
        }
    }
    Ok(rows)
}

fn measure(folder: &Folder, options: &Options, verb: Verb, concurrency: usize, batch: bool) -> Result<Figures> {
    let servers = folder.start(batch)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut latency = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?;
    let (mut per_s, mut per_cpu_s, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let load = Load::new(&servers, folder.ispb, options.octets, verb).await?;
        load.run(concurrency, options.span, &mut Histogram::new(3)?).await?;
        for order in shuffled(options.rounds) {
            for side in order {
                match side {
                    Side::Ours => {
                        let (cpu, start) = (servers.cpu_s()?, Instant::now());
                        let messages = number(load.run(concurrency, options.span, &mut latency).await?);
                        per_s.push(messages / start.elapsed().as_secs_f64());
                        per_cpu_s.push(messages / (servers.cpu_s()? - cpu));
                    }
                    Side::Floor => {
                        ceilings.push(ceiling::measure(verb, &folder.key, options.octets, batch, CEILING_SPAN)?);
                    }
                }
            }
        }
        anyhow::Ok(())
    })?;
    Ok(Figures {
        messages_per_s: short(median(&per_s)),
        messages_per_cpu_s: short(median(&per_cpu_s)),
        ceiling_messages_per_cpu_s: short(median(&ceilings)),
        ratio_to_ceiling: short(median_ratio(&per_cpu_s, &ceilings)),
        latency_us_p50: latency.value_at_quantile(0.5),
        latency_us_p90: latency.value_at_quantile(0.9),
        latency_us_p99: latency.value_at_quantile(0.99),
        latency_us_max: latency.max(),
    })
}

/// A client with the message that it sends again and again.
#[derive(Clone)]
struct Load {
    cluster: Rc<Cluster>,
    recipient: Ispb,
    verb: Verb,
    octets: Rc<Vec<u8>>,
}

impl Load {
    async fn new(servers: &Servers, recipient: Ispb, octets: usize, verb: Verb) -> Result<Self> {
        let cluster = Rc::new(servers.connect().await?);
        let mut load = Self { cluster, recipient, verb: Verb::Pack, octets: Rc::new(vec![0x5a; octets]) };
        if verb == Verb::Unpack {
            load.octets = Rc::new(load.cluster.pack(&load.pack()).await?);
            load.verb = verb;
        }
        Ok(load)
    }

    fn pack(&self) -> PackRequest<'_> {
        let (key_version, version, error, treatment, compress) = (0, 3, 0, 0, false);
        let (recipient, content) = (self.recipient, self.octets.as_slice());
        PackRequest { domain: "bench", recipient, key_version, version, error, treatment, compress, content }
    }

    async fn once(&self) -> Result<()> {
        match self.verb {
            Verb::Pack => drop(self.cluster.pack(&self.pack()).await?),
            Verb::Unpack => {
                let message = self.octets.as_slice();
                let request = UnpackRequest { domain: "bench", sender: None, inflate: false, message };
                drop(self.cluster.unpack(&request).await?);
            }
        }
        Ok(())
    }

    /// So many tasks, each with one message after the other; how many messages were answered.
    async fn run(&self, concurrency: usize, span: Duration, latency: &mut Histogram<u64>) -> Result<u64> {
        let end = Instant::now() + span;
        let retried = self.cluster.counters().retried;
        let tasks: Vec<_> = (0..concurrency).map(|_| tokio::task::spawn_local(self.clone().work(end))).collect();
        let mut messages = 0;
        for task in tasks {
            for took in task.await.context("a task of the client")?? {
                messages += 1;
                latency.saturating_record(took);
            }
        }
        anyhow::ensure!(self.cluster.counters().retried == retried, "requests had to be asked again");
        Ok(messages)
    }

    async fn work(self, end: Instant) -> Result<Vec<u64>> {
        let mut took = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            self.once().await?;
            took.push(u64::try_from(start.elapsed().as_micros())?);
        }
        Ok(took)
    }
}
