//! The client: one message that it sends again and again.

use super::Verb;
use super::servers::Servers;
use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tieline_seal::Ispb;
use tieline_seal::client::{ClientError, Cluster, PackRequest, UnpackRequest};

/// The longest latency that is told apart.
const LATENCY_US_MAX: u64 = 60_000_000;

/// A histogram of latencies in µs.
pub(super) fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?)
}

/// A client with the message that it sends again and again.
#[derive(Clone)]
pub(super) struct Load {
    cluster: Rc<Cluster>,
    recipient: Ispb,
    verb: Verb,
    bytes: Rc<Vec<u8>>,
}

impl Load {
    pub(super) async fn new(servers: &Servers, recipient: Ispb, bytes: usize, verb: Verb) -> Result<Self> {
        let cluster = Rc::new(servers.connect().await?);
        let mut load = Self { cluster, recipient, verb: Verb::Pack, bytes: Rc::new(vec![0x5a; bytes]) };
        if verb == Verb::Unpack {
            load.bytes = Rc::new(load.message().await?);
            load.verb = verb;
        }
        Ok(load)
    }

    /// A message that the servers open.
    pub(super) async fn message(&self) -> Result<Vec<u8>> {
        Ok(self.cluster.pack(&self.pack()).await?)
    }

    /// What the servers say to any message.
    pub(super) async fn unpack(&self, message: &[u8]) -> Result<(), ClientError> {
        let request = UnpackRequest { domain: "bench", sender: None, inflate: false, message };
        self.cluster.unpack(&request).await.map(drop)
    }

    fn pack(&self) -> PackRequest<'_> {
        let (key_version, version, error, treatment, compress) = (0, 3, 0, 0, false);
        let (recipient, content) = (self.recipient, self.bytes.as_slice());
        PackRequest { domain: "bench", recipient, key_version, version, error, treatment, compress, content }
    }

    async fn once(&self) -> Result<()> {
        match self.verb {
            Verb::Pack => drop(self.message().await?),
            Verb::Unpack => self.unpack(&self.bytes).await?,
        }
        Ok(())
    }

    /// So many tasks, each with one message after the other; how many messages were answered.
    pub(super) async fn run_closed(
        &self,
        concurrency: usize,
        span: Duration,
        latency: &mut Histogram<u64>,
    ) -> Result<u64> {
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
        self.ensure_first_time(retried)?;
        Ok(messages)
    }

    async fn work(self, end: Instant) -> Result<Vec<u64>> {
        let mut took = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            self.once().await?;
            took.push(micros(start.elapsed()));
        }
        Ok(took)
    }

    /// Message i is due at i / rate; latency counts from then. How late they were sent goes to `lag`.
    pub(super) async fn run_open(
        &self,
        rate_per_s: f64,
        span: Duration,
        latency: &mut Histogram<u64>,
        lag: &mut Histogram<u64>,
    ) -> Result<u64> {
        let (start, retried) = (Instant::now(), self.cluster.counters().retried);
        let due = |message: u32| start + Duration::from_secs_f64(f64::from(message) / rate_per_s);
        let mut tasks = Vec::new();
        for message in 0.. {
            let due = due(message);
            if due >= start + span {
                break;
            }
            if due > Instant::now() {
                // To the next millisecond: what falls due within one goes out together.
                tokio::time::sleep_until(due.into()).await;
            }
            lag.saturating_record(micros(due.elapsed()));
            let load = self.clone();
            tasks.push(tokio::task::spawn_local(async move {
                load.once().await?;
                anyhow::Ok(micros(due.elapsed()))
            }));
        }
        let mut messages = 0;
        for task in tasks {
            latency.saturating_record(task.await.context("a task of the client")??);
            messages += 1;
        }
        self.ensure_first_time(retried)?;
        Ok(messages)
    }

    fn ensure_first_time(&self, retried: u64) -> Result<()> {
        ensure!(self.cluster.counters().retried == retried, "requests had to be asked again");
        Ok(())
    }
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
