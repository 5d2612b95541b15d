//! A client of a centre, which subscribes to the first point of each device: when each reading was stored there.

use anyhow::{Context as _, Result, anyhow};
use hdrhistogram::Histogram;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use tieline_client::{MqttClient, MqttOptions, Qos};
use tieline_core::Timestamp;
use tokio::sync::oneshot;

/// The first point of each device of each site.
pub const FILTER: &str = "sites/+/+/p0";

/// A reading, in µs since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When it was made.
    pub read_us: i64,
    /// When the client of the centre had it.
    pub stored_us: i64,
}

impl Seen {
    fn latency_us(self) -> u64 {
        u64::try_from(self.stored_us - self.read_us).unwrap_or(0)
    }
}

/// The client. Dropped, it ends.
pub struct Probe {
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Begins to look.
    pub fn start(mqtt: &str, filter: &str) -> Result<Self> {
        let (seen, (stop, stopped)) = (Arc::<Mutex<Vec<Seen>>>::default(), oneshot::channel());
        let (address, filter) = (mqtt.to_owned(), filter.to_owned());
        let (into, (ready, is_ready)) = (Arc::clone(&seen), std::sync::mpsc::channel());
        let thread = std::thread::Builder::new().name("probe".to_owned()).spawn(move || {
            let failed = ready.clone();
            if let Err(error) = look((&address, &filter), &into, stopped, ready) {
                let _ = failed.send(Err(error));
            }
        })?;
        is_ready.recv().map_err(|_| anyhow!("the client of the centre ended"))??;
        Ok(Self { seen, stop: Some(stop), thread: Some(thread) })
    }

    /// All that was seen since the last call.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Ready = std::sync::mpsc::Sender<Result<()>>;

fn look(
    (address, filter): (&str, &str),
    into: &Mutex<Vec<Seen>>,
    mut stopped: oneshot::Receiver<()>,
    ready: Ready,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = MqttClient::connect(&MqttOptions::new(address)).await?;
        let mut values = client.subscribe(filter, Qos::AtMostOnce).await?;
        let _ = ready.send(Ok(()));
        loop {
            let received = tokio::select! {
                received = values.next() => received.context("the client has lost the centre")?,
                _ = &mut stopped => return Ok(()),
            };
            let now = now_us();
            if let Some(read_us) = read_time(&received.message.payload).filter(|_| !received.retain) {
                into.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { read_us, stored_us: now });
            }
        }
    })
}

/// µs since 1970.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// When a point was read; none of one that is marked because its site is away.
pub fn read_time(payload: &[u8]) -> Option<i64> {
    #[derive(Deserialize)]
    struct Point<'a> {
        q: &'a str,
        t: &'a str,
    }
    let Point { q, t } = serde_json::from_slice(payload).ok()?;
    (q == "good").then(|| t.parse::<Timestamp>().ok().map(Timestamp::micros))?
}

/// The latencies of readings made from one time to another.
pub fn latencies(seen: &[Seen], from_us: i64, to_us: i64) -> Result<Histogram<u64>> {
    let mut all = Histogram::new(3)?;
    for one in seen.iter().filter(|one| (from_us..to_us).contains(&one.read_us)) {
        all.record(one.latency_us())?;
    }
    Ok(all)
}
