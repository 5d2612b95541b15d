//! The clients of a core: one publishes numbers until each is acknowledged, one has a kept session and subscribes to them.

use super::LOOK_EVERY;
use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tieline_client::{MqttClient, MqttOptions, Qos};
use tieline_core::Topic;

/// Where the numbers are.
pub const TOPIC: &str = "bench/count";
/// Between two numbers.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest wait between attempts to connect.
const RETRY_MAX: Duration = Duration::from_millis(80);
/// How long the first connection may take, and what waits at the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// It.
    pub number: u64,
    /// When it was sent first.
    pub sent: Instant,
    /// When it was acknowledged.
    pub acknowledged: Option<Instant>,
}

impl Sent {
    /// Whether its acknowledgement may have been lost with a leader at one of these times: the client sent it again then.
    pub fn was_under_way(&self, times: &[Instant]) -> bool {
        times.iter().any(|at| self.sent <= *at && self.acknowledged.is_none_or(|acknowledged| acknowledged >= *at))
    }
}

/// The client that publishes.
pub struct Publisher {
    sent: Arc<Mutex<Vec<Sent>>>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

/// The client that subscribes.
pub struct Watcher {
    got: Arc<Mutex<BTreeSet<u64>>>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a client in a thread of its own.
fn spawn<F: Future<Output = Result<()>>>(body: impl FnOnce() -> F + Send + 'static) -> JoinHandle<Result<()>> {
    std::thread::spawn(|| tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(body()))
}

/// Connects, as soon as a leader is there.
async fn connect(address: &str, name: &str) -> Result<MqttClient> {
    let mut options = MqttOptions::new(address);
    (options.client_id, options.clean_start, options.retry_max) = (name.to_owned(), false, RETRY_MAX);
    let until = Instant::now() + PATIENCE;
    loop {
        match MqttClient::connect(&options).await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > until => return Err(error).context("no leader takes a client"),
            Err(_) => tokio::time::sleep(RETRY_MAX).await,
        }
    }
}

impl Publisher {
    /// Begins to publish.
    pub fn start(address: &str) -> Result<Self> {
        let (sent, ends, address) =
            (Arc::<Mutex<Vec<Sent>>>::default(), Arc::<AtomicBool>::default(), address.to_owned());
        let (into, over) = (Arc::clone(&sent), Arc::clone(&ends));
        let thread = spawn(move || async move {
            let client = connect(&address, "publisher").await?;
            for number in 1.. {
                lock(&into).push(Sent { number, sent: Instant::now(), acknowledged: None });
                let mut is_done = false;
                while !is_done && !over.load(Ordering::Relaxed) {
                    is_done = client.publish(TOPIC, number.to_string(), Qos::AtLeastOnce, true).await.is_ok();
                    if !is_done {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                if !is_done {
                    return Ok(());
                }
                lock(&into).last_mut().into_iter().for_each(|sent| sent.acknowledged = Some(Instant::now()));
                tokio::time::sleep(PAUSE).await;
            }
            Ok(())
        });
        Ok(Self { sent, ends, thread })
    }

    /// Waits until a number is acknowledged after a moment; when it was.
    pub fn wait_more(&self, after: Instant, patience: Duration) -> Result<Instant> {
        let until = Instant::now() + patience;
        while Instant::now() < until && !self.thread.is_finished() {
            let sent = lock(&self.sent);
            let next = sent.iter().rev().filter_map(|sent| sent.acknowledged).take_while(|at| *at > after).last();
            drop(sent);
            if let Some(next) = next {
                return Ok(next);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("no number is acknowledged")
    }

    /// Ends; what was sent.
    pub fn stop(self) -> Result<Vec<Sent>> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the publisher panicked"))??;
        Ok(lock(&self.sent).clone())
    }
}

impl Watcher {
    /// Begins to take numbers.
    pub fn start(address: &str) -> Result<Self> {
        let (got, ends, address) =
            (Arc::<Mutex<BTreeSet<u64>>>::default(), Arc::<AtomicBool>::default(), address.to_owned());
        let (into, over) = (Arc::clone(&got), Arc::clone(&ends));
        let (tell, told) = std::sync::mpsc::channel();
        let thread = spawn(move || async move {
            let client = connect(&address, "watcher").await?;
            let filter = Topic::new(TOPIC)?;
            let mut values = client.subscribe(filter.as_str(), Qos::AtLeastOnce).await?;
            let _ = tell.send(());
            while !over.load(Ordering::Relaxed) {
                let Ok(next) = tokio::time::timeout(RETRY_MAX, values.next()).await else { continue };
                let received = next.context("the subscription ended")?;
                let number: Option<u64> =
                    std::str::from_utf8(&received.message.payload).ok().and_then(|text| text.parse().ok());
                lock(&into).extend(number);
            }
            Ok(())
        });
        if told.recv().is_err() {
            thread.join().map_err(|_| anyhow!("the watcher panicked"))??;
            bail!("the watcher ended");
        }
        Ok(Self { got, ends, thread })
    }

    /// Ends once it has all that was acknowledged, or nothing comes any more; what it got.
    pub fn stop(self, sent: &[Sent]) -> Result<BTreeSet<u64>> {
        let until = Instant::now() + PATIENCE;
        let has_all = || {
            let got = lock(&self.got);
            sent.iter().filter(|sent| sent.acknowledged.is_some()).all(|sent| got.contains(&sent.number))
        };
        while !has_all() && Instant::now() < until && !self.thread.is_finished() {
            std::thread::sleep(LOOK_EVERY * 10);
        }
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the watcher panicked"))??;
        Ok(lock(&self.got).clone())
    }
}
