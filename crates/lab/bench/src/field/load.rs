//! Many connections of one thread that read, and what that took of the thread's processor time.
//!
//! Closed: each connection has as many reads under way as its window, and begins the next when one has ended. Paced: the
//! reads of all connections are due one after the other, evenly over the interval, whether answers come or not.

use super::responder::Responder;
use crate::process::{resident_bytes, thread_cpu};
use crate::rounds::number;
use anyhow::{Context, Result, bail, ensure};
use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tokio::time::{Instant, sleep, sleep_until};

/// How long anything may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What the connections do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Connections.
    pub connections: usize,
    /// Registers of a read.
    pub registers: u16,
    /// Reads in flight on a connection.
    pub window: u8,
    /// From a read of a connection to its next, where that does not depend on answers.
    pub every: Option<Duration>,
}

/// What the connections of a thread have counted.
#[derive(Debug, Default)]
pub struct Tally {
    going: Cell<bool>,
    ready: Cell<u64>,
    begun: Cell<u64>,
    done: Cell<u64>,
    wrong: Cell<u64>,
    broken: Cell<u64>,
}

impl Tally {
    /// Whether the next read is to be begun.
    pub fn is_going(&self) -> bool {
        self.going.get()
    }

    /// A connection is there.
    pub fn count_ready(&self) {
        self.ready.set(self.ready.get() + 1);
    }

    /// A read was begun.
    pub fn count_begun(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// A read came to an end, with the right values or others.
    pub fn count_done(&self, right: bool) {
        self.done.set(self.done.get() + 1);
        self.wrong.set(self.wrong.get() + u64::from(!right));
    }

    /// A connection ended.
    pub fn count_broken(&self) {
        self.broken.set(self.broken.get() + 1);
    }
}

/// A connection that reads.
pub trait Reading: Sized + 'static {
    /// What all connections of a thread have in common.
    type Shared;

    /// What all connections of a thread have in common.
    fn shared(ask: Ask) -> Self::Shared;

    /// Connects; what it reads is counted. Where `ask` has no interval, each read that ends begins the next.
    fn connect(
        shard: &Rc<Shard>,
        to: SocketAddr,
        ask: Ask,
        shared: &Self::Shared,
        tally: &Rc<Tally>,
    ) -> impl Future<Output = Result<Self>>;

    /// Begins a read.
    fn begin(&self);
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Reads a second.
    pub reads_per_s: f64,
    /// Processor time of the thread for one read, in microseconds.
    pub cpu_us_per_read: f64,
    /// Share of a core that the thread took, in percent.
    pub core_percent: f64,
}

impl Measured {
    /// Of so many reads in so much time.
    pub fn new(reads: u64, cpu: Duration, took: Duration) -> Result<Self> {
        ensure!(reads > 0 && !took.is_zero(), "no read came to an end within {took:?}");
        Ok(Self {
            reads_per_s: number(reads) / took.as_secs_f64(),
            cpu_us_per_read: cpu.as_secs_f64() * 1e6 / number(reads),
            core_percent: 100.0 * cpu.as_secs_f64() / took.as_secs_f64(),
        })
    }
}

/// What the thread says.
enum News {
    /// Each connection has read once.
    Ready { grown_bytes: u64 },
    /// It was let go, and this is what came of it.
    Measured(Measured),
}

/// Says how many bytes of memory are in use.
pub type Memory = fn() -> Result<u64>;

/// Connections on a thread of their own, each of which has read once.
pub struct Held {
    /// How much memory has grown since the first connection has read.
    pub grown_bytes: u64,
    go: Sender<Duration>,
    news: Receiver<Result<News>>,
    _thread: ShardThread,
}

impl Held {
    /// Connects, reads once on each connection, and is idle then.
    pub fn start<R: Reading>(to: SocketAddr, ask: Ask) -> Result<Self> {
        Self::start_with::<R>(to, ask, resident_bytes)
    }

    /// The same where `memory` says how much memory is in use.
    pub fn start_with<R: Reading>(to: SocketAddr, ask: Ask, memory: Memory) -> Result<Self> {
        let ((go, going), (tell, news)) = (channel(), channel());
        let main = move |shard: Rc<Shard>| async move {
            let told = drive::<R>(&shard, to, ask, memory, &going, &tell).await;
            let _ = tell.send(told.map(News::Measured));
            // What is sent last is read before the thread ends.
            std::future::pending::<()>().await;
        };
        let thread = ShardThread::spawn("field-reads", Clock::start(), Arc::new(Counters::default()), main)?;
        let mut held = Self { grown_bytes: 0, go, news, _thread: thread };
        match held.next()? {
            News::Ready { grown_bytes } => held.grown_bytes = grown_bytes,
            News::Measured(_) => bail!("figures before the beginning"),
        }
        Ok(held)
    }

    /// Reads for `span`, after a quarter of it to warm up.
    ///
    /// # Errors
    /// A value was wrong, a read was lost, or a connection ended.
    pub fn measure(&self, span: Duration) -> Result<Measured> {
        self.go.send(span).ok().context("the thread that reads has ended")?;
        match self.next()? {
            News::Measured(measured) => Ok(measured),
            News::Ready { .. } => bail!("nothing was measured"),
        }
    }

    fn next(&self) -> Result<News> {
        self.news.recv_timeout(2 * PATIENCE).context("the thread that reads says nothing")?
    }
}

/// Connects, measures, and ends.
pub fn measure<R: Reading>(responder: &Responder, ask: Ask, span: Duration) -> Result<Measured> {
    Held::start::<R>(responder.address, ask)?.measure(span)
}

async fn drive<R: Reading>(
    shard: &Rc<Shard>,
    to: SocketAddr,
    ask: Ask,
    memory: Memory,
    going: &Receiver<Duration>,
    tell: &Sender<Result<News>>,
) -> Result<Measured> {
    let (tally, shared) = (Rc::new(Tally::default()), R::shared(ask));
    let mut connections = Vec::with_capacity(ask.connections);
    let mut before = None;
    for wanted in 1..=ask.connections as u64 {
        connections.push(R::connect(shard, to, ask, &shared, &tally).await?);
        if wanted == 1 {
            wait(&tally, |tally| tally.ready.get() >= wanted).await?;
            connections.iter().for_each(R::begin);
            settle(&tally).await?;
            before = Some(memory()?);
        }
    }
    let wanted = ask.connections as u64;
    wait(&tally, |tally| tally.ready.get() >= wanted).await?;
    connections.iter().skip(1).for_each(R::begin);
    settle(&tally).await?;
    let now = memory()?;
    let _ = tell.send(Ok(News::Ready { grown_bytes: now.saturating_sub(before.unwrap_or(now)) }));
    let span = loop {
        match going.try_recv() {
            Ok(span) => break span,
            Err(std::sync::mpsc::TryRecvError::Empty) => sleep(LOOK_EVERY * 10).await,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => bail!("nobody waits for figures"),
        }
    };
    tally.going.set(true);
    let connections = Rc::new(connections);
    match ask.every {
        None => connections.iter().for_each(|connection| (0..ask.window).for_each(|_| connection.begin())),
        Some(every) => drop(tokio::task::spawn_local(pace(Rc::clone(&connections), every, Rc::clone(&tally)))),
    }
    sleep(span / 4).await;
    let (began, cpu, before) = (Instant::now(), thread_cpu(), tally.done.get());
    sleep(span).await;
    let (took, cpu, reads) = (began.elapsed(), thread_cpu() - cpu, tally.done.get() - before);
    tally.going.set(false);
    settle(&tally).await?;
    Measured::new(reads, cpu, took)
}

/// Begins what is due.
async fn pace<R: Reading>(connections: Rc<Vec<R>>, every: Duration, tally: Rc<Tally>) {
    let (start, count) = (Instant::now(), u32::try_from(connections.len()).unwrap_or(u32::MAX));
    for round in 0.. {
        for (connection, place) in connections.iter().zip(0..) {
            let due = start + every * round + every * place / count;
            if due > Instant::now() {
                sleep_until(due).await;
            }
            if !tally.is_going() {
                return;
            }
            connection.begin();
        }
    }
}

/// Waits until what is under way has ended, as it should.
async fn settle(tally: &Tally) -> Result<()> {
    wait(tally, |tally| tally.done.get() >= tally.begun.get()).await?;
    let (begun, done, wrong) = (tally.begun.get(), tally.done.get(), tally.wrong.get());
    ensure!(wrong == 0, "{wrong} reads brought other values than were asked for");
    ensure!(begun == done, "{} of {begun} reads were lost", begun.abs_diff(done));
    Ok(())
}

async fn wait(tally: &Tally, enough: impl Fn(&Tally) -> bool) -> Result<()> {
    let began = Instant::now();
    while !enough(tally) {
        ensure!(tally.broken.get() == 0, "{} connections broke", tally.broken.get());
        ensure!(began.elapsed() < PATIENCE, "not all was done after {PATIENCE:?}: {tally:?}");
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_quotients() {
        let measured = Measured::new(200, Duration::from_millis(10), Duration::from_secs(2)).unwrap();
        assert_eq!(measured, Measured { reads_per_s: 100.0, cpu_us_per_read: 50.0, core_percent: 0.5 });
        assert!(Measured::new(0, Duration::ZERO, Duration::from_secs(1)).is_err());
    }
}
