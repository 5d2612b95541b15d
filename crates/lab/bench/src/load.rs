//! A closed loop over many sessions that can be let go and stopped, and what is read off while it runs.
//!
//! Both sides of the DNP3 experiment are one: pairs of machines, and their floor. A load is connected and idle until
//! it is let go; then every pair has one exchange under way, and begins the next when that is over.

use crate::process;
use crate::rounds::number;
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tieline_net::ShardThread;
use tokio::sync::watch;

/// How long anything may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often what is awaited is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What one thread has counted; nobody else writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    ready: AtomicU64,
    begun: AtomicU64,
    done: AtomicU64,
    wrong: AtomicU64,
    broken: AtomicU64,
}

impl Counts {
    /// A session is ready for load.
    pub fn count_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// An exchange was begun.
    pub fn count_begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// An exchange came to its receiver, whole and right.
    pub fn count_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Something else came to a receiver.
    pub fn count_wrong(&self) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection ended or did not come about.
    pub fn count_broken(&self) {
        self.broken.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether exchanges are to be begun: the word for those who wait, and the one that is looked at every time.
#[derive(Clone, Debug)]
pub struct Go {
    /// Tells of changes.
    pub changed: watch::Receiver<bool>,
    going: Arc<AtomicBool>,
}

impl Go {
    /// One that is on from the start, for machines that are driven by hand.
    #[must_use]
    pub fn always() -> Self {
        let (_, changed) = watch::channel(true);
        Self { changed, going: Arc::new(AtomicBool::new(true)) }
    }

    /// Whether the next exchange is to be begun.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.going.load(Ordering::Relaxed)
    }
}

/// Connected sessions with what starts and stops them.
#[derive(Debug)]
pub struct Load {
    switch: watch::Sender<bool>,
    go: Go,
    all_counts: Vec<Arc<Counts>>,
    threads: Vec<ShardThread>,
    sessions: usize,
}

/// What a load did in a span of time.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Exchanges a second.
    pub per_s: f64,
    /// Processor time of the whole process for one exchange, in microseconds.
    pub cpu_us: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    ready: u64,
    begun: u64,
    done: u64,
    wrong: u64,
    broken: u64,
}

impl Load {
    /// A load of so many pairs, without threads yet.
    #[must_use]
    pub fn new(sessions: usize) -> Self {
        let (switch, changed) = watch::channel(false);
        let go = Go { changed, going: Arc::default() };
        Self { switch, go, all_counts: Vec::new(), threads: Vec::new(), sessions }
    }

    /// For a thread: when to begin exchanges, and where to count them.
    pub fn join(&mut self) -> (Go, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        self.all_counts.push(Arc::clone(&counts));
        (self.go.clone(), counts)
    }

    /// Keeps a thread as long as the load.
    pub fn keep(&mut self, thread: ShardThread) {
        self.threads.push(thread);
    }

    /// Waits until every pair is ready.
    pub fn await_ready(&self) -> Result<()> {
        let sessions = self.sessions as u64;
        let ready = self.wait(|totals| totals.ready >= sessions);
        ensure!(ready.broken == 0, "{} connections broke before the load began", ready.broken);
        ensure!(ready.ready >= sessions, "only {} of {sessions} pairs were ready after {PATIENCE:?}", ready.ready);
        Ok(())
    }

    /// Runs for `span`, after a quarter of it to warm up, and lets what is under way come to an end.
    ///
    /// # Errors
    /// Anything was lost, late or wrong.
    pub fn measure(&self, span: Duration) -> Result<Measured> {
        self.turn(true);
        std::thread::sleep(span / 4);
        let (began, cpu, before) = (Instant::now(), process::cpu(), self.totals());
        std::thread::sleep(span);
        let (after, cpu, passed) = (self.totals(), process::cpu() - cpu, began.elapsed());
        self.turn(false);
        let ended = self.wait(|totals| totals.done >= totals.begun);
        ensure!(ended.broken == 0, "{} connections broke", ended.broken);
        ensure!(ended.wrong == 0, "{} exchanges brought other values than were sent", ended.wrong);
        ensure!(
            ended.done == ended.begun,
            "{} of {} exchanges were lost",
            ended.begun.abs_diff(ended.done),
            ended.begun
        );
        let exchanges = number(after.done - before.done);
        ensure!(exchanges > 0.0, "no exchange came to an end within {span:?}");
        Ok(Measured { per_s: exchanges / passed.as_secs_f64(), cpu_us: cpu.as_secs_f64() * 1e6 / exchanges })
    }

    fn turn(&self, on: bool) {
        self.go.going.store(on, Ordering::Relaxed);
        self.switch.send_replace(on);
    }

    fn wait(&self, enough: impl Fn(&Totals) -> bool) -> Totals {
        let began = Instant::now();
        loop {
            let totals = self.totals();
            if enough(&totals) || totals.broken > 0 || began.elapsed() > PATIENCE {
                return totals;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        // What is done was begun before: read in this order, the difference is never negative.
        for counts in &self.all_counts {
            totals.done += counts.done.load(Ordering::Acquire);
        }
        for counts in &self.all_counts {
            totals.ready += counts.ready.load(Ordering::Relaxed);
            totals.begun += counts.begun.load(Ordering::Relaxed);
            totals.wrong += counts.wrong.load(Ordering::Relaxed);
            totals.broken += counts.broken.load(Ordering::Relaxed);
        }
        totals
    }
}
