//! Derived series of what is recorded: results of the past, and of intervals as they end.
//!
//! ```text
//! Set ─▶ thread ─┬─ deletes the results of a series that has changed
//!                ├─ seeds who calculates live: what the inputs held, and since when it makes the results (on change)
//!                └─ piece by piece: history ─▶ expression ─▶ journal ─▶ position, up to there or to the last interval that is over
//! ```
//!
//! An interval is calculated in the same way whether it is over since a moment or since a year. The position of a series is written
//! down when the results before it are durable: after a restart the thread goes on from there.

mod piece;
mod positions;
mod run;

use crate::writer::HistoryHandle;
use crate::{HistorySource, NotRecorded};
use run::{Run, Step};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tieline_core::{Point, Timestamp, Topic, Words};
use tieline_derived::{Held, Series, fingerprints, order};
use tieline_journal::Seq;

/// How often it is looked for intervals that are over.
const TICK: Duration = Duration::from_millis(500);
/// The same where there are none.
const IDLE: Duration = Duration::from_secs(3600);
/// A piece of the past is followed by a rest so many times as long: others use the same disk and the same processor.
const REST: u32 = 3;
const REST_MAX: Duration = Duration::from_secs(1);
/// How long it takes for a sample to be in the journal's queue, beyond what its series waits.
const MARGIN: Duration = Duration::from_millis(300);

/// What the thread has for who calculates live and publishes.
#[derive(Clone, Debug, PartialEq)]
pub enum DerivedNews {
    /// A series makes its results of `since` and later live; its inputs held this before.
    Seed {
        /// Which series.
        topic: Topic,
        /// Its fingerprint.
        print: u64,
        /// Since when.
        since: Timestamp,
        /// The values of its inputs.
        held: Vec<Held>,
    },
    /// The newest result of a series that is not calculated live, or of one before it was.
    Newest {
        /// Which series.
        topic: Topic,
        /// Its result.
        point: Point,
    },
}

/// Where a series is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DerivedState {
    /// The history is not open, or a series that it takes is not calculated yet.
    #[default]
    Waiting,
    /// Its older results are deleted.
    Deleting,
    /// Its past is calculated.
    Backfilling,
    /// All up to the present is calculated.
    Live,
}

impl Words for DerivedState {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("waiting", Self::Waiting),
        ("deleting", Self::Deleting),
        ("backfilling", Self::Backfilling),
        ("live", Self::Live),
    ];
}

/// How a series is doing. Counts begin with the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DerivedStatus {
    /// Where it is.
    pub state: DerivedState,
    /// The times that are calculated: from, up to, and up to when they are to be.
    pub span: Option<(Timestamp, Timestamp, Timestamp)>,
    /// Results that were calculated of the history.
    pub results: u64,
    /// Those of them that are bad.
    pub bad: u64,
    /// Samples that were read for them.
    pub samples: u64,
    /// What failed last; it is tried again.
    pub error: Option<String>,
}

impl DerivedStatus {
    /// How much of the past is calculated, from 0 to 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        let Some((from, upto, target)) = self.span else { return 0.0 };
        #[expect(clippy::cast_precision_loss, reason = "a part of the whole, for a person")]
        let width = |from: Timestamp, to: Timestamp| to.micros().saturating_sub(from.micros()).max(0) as f64;
        let whole = width(from, target);
        if whole > 0.0 { (width(from, upto) / whole).min(1.0) } else { 1.0 }
    }
}

enum Command {
    Set(Vec<Series>),
    History(HistoryHandle),
}

type Board = Arc<Mutex<BTreeMap<Topic, DerivedStatus>>>;

/// Gives the thread its series, and shows how they are doing. Copies are of the same.
#[derive(Clone)]
pub struct DerivedHandle {
    commands: Sender<Command>,
    board: Board,
}

impl DerivedHandle {
    /// There are these series from here on; those that are as before go on. They can live together ([`order`]).
    pub fn set(&self, series: Vec<Series>) {
        let _ = self.commands.send(Command::Set(series));
    }

    /// History was opened.
    pub fn set_history(&self, handle: HistoryHandle) {
        let _ = self.commands.send(Command::History(handle));
    }

    /// How each series is doing.
    #[must_use]
    pub fn status(&self) -> BTreeMap<Topic, DerivedStatus> {
        locked(&self.board).clone()
    }
}

impl fmt::Debug for DerivedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DerivedHandle").field(&self.status()).finish()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread. Dropping it ends it, at once: it goes on from its positions at the next start.
#[derive(Debug)]
pub struct DerivedWriter {
    handle: DerivedHandle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is given: the time, and where its news goes.
pub struct DerivedParts {
    /// The time in UTC.
    pub clock: Box<dyn Fn() -> Timestamp + Send>,
    /// Takes the news; may block for a moment.
    pub tell: Box<dyn Fn(DerivedNews) + Send>,
}

impl DerivedWriter {
    /// Starts the thread on the history of a data folder.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(source: &HistorySource, parts: DerivedParts) -> std::io::Result<Self> {
        let (commands, incoming) = channel();
        let (board, stop) = (Board::default(), Arc::new(AtomicBool::new(false)));
        let worker = Worker {
            source: source.clone(),
            parts,
            board: Arc::clone(&board),
            stop: Arc::clone(&stop),
            handle: None,
            kept: positions::Positions::read(source.data()),
            runs: Vec::new(),
            first: 0,
        };
        let thread = std::thread::Builder::new().name("derived".to_owned()).spawn(move || worker.run(&incoming))?;
        Ok(Self { handle: DerivedHandle { commands, board }, stop, thread: Some(thread) })
    }

    /// What gives it its series.
    #[must_use]
    pub const fn handle(&self) -> &DerivedHandle {
        &self.handle
    }
}

impl Drop for DerivedWriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = self.handle.commands.send(Command::Set(Vec::new()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that calculates derived series panicked");
        }
    }
}

struct Worker {
    source: HistorySource,
    parts: DerivedParts,
    board: Board,
    stop: Arc<AtomicBool>,
    handle: Option<HistoryHandle>,
    kept: positions::Positions,
    /// In an order in which each comes behind those that it takes.
    runs: Vec<Run>,
    /// Whose turn it is.
    first: usize,
}

impl Worker {
    fn run(mut self, incoming: &Receiver<Command>) {
        let mut pause = TICK;
        loop {
            let command = match incoming.recv_timeout(pause) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            for command in command.into_iter().chain(incoming.try_iter()) {
                self.take(command);
            }
            let began = Instant::now();
            let is_busy = self.turn();
            pause = match (is_busy, self.runs.is_empty()) {
                (true, _) => (began.elapsed() * REST).min(REST_MAX),
                (false, false) => TICK,
                (false, true) => IDLE,
            };
            self.show();
            if let Err(error) = self.kept.write() {
                tracing::warn!(%error, "up to when derived series are calculated cannot be written down");
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::History(handle) => self.handle = Some(handle),
            Command::Set(series) => {
                let Ok(places) = order(&series) else { return };
                let prints = fingerprints(&series, &places);
                let mut before: BTreeMap<Topic, Run> =
                    self.runs.drain(..).map(|run| (run.series.topic.clone(), run)).collect();
                let topics: Vec<Topic> = series.iter().map(|series| series.topic.clone()).collect();
                for place in places {
                    let (Some(series), Some(print)) = (series.get(place), prints.get(place)) else { continue };
                    let below = |input: &Topic| self.runs.iter().position(|run| run.series.topic == *input);
                    let below = series.expression.inputs().iter().filter_map(below).collect();
                    let known = before.remove(&series.topic).filter(|run| run.print == *print);
                    let mut run = known.unwrap_or_else(|| Run::new(series.clone(), *print));
                    (run.series, run.below) = (series.clone(), below);
                    self.runs.push(run);
                }
                self.kept.keep(&topics);
            }
        }
    }

    /// Gives each series that has something to do one step, and says whether there is more to do of the past.
    fn turn(&mut self) -> bool {
        let Some(handle) = self.handle.clone() else { return false };
        let now = (self.parts.clock)();
        let wants: Vec<bool> = (0..self.runs.len()).map(|place| self.wants(place, now)).collect();
        if !wants.contains(&true) {
            return false;
        }
        if let Err(error) = self.barrier(&handle) {
            for (run, _) in self.runs.iter_mut().zip(wants).filter(|(_, wants)| *wants) {
                run.fail(error.clone());
            }
            return false;
        }
        let began = Instant::now();
        let mut is_busy = false;
        let count = self.runs.len();
        for place in (self.first..self.first + count).map(|place| place % count) {
            if !wants.get(place).copied().unwrap_or(false) || self.stop.load(Ordering::Relaxed) {
                continue;
            }
            self.first = (place + 1) % count;
            let more = self.step(place, &handle, now);
            is_busy |= more;
            if began.elapsed() > REST_MAX / REST {
                return true;
            }
        }
        is_busy
    }

    /// The time up to which all inputs of a series are complete.
    fn horizon(&self, place: usize, now: Timestamp) -> Timestamp {
        let below = self.below(place).map(|below| match below.series.every {
            None if below.is_live() => now,
            _ => below.span().map_or(Timestamp::from_micros(i64::MIN), |(_, upto)| upto),
        });
        let waits = i64::try_from((self.total_wait(place) + MARGIN).as_micros()).unwrap_or(i64::MAX);
        below.fold(Timestamp::from_micros(now.micros().saturating_sub(waits)), Timestamp::min)
    }

    /// The series that a series takes.
    fn below(&self, place: usize) -> impl Iterator<Item = &Run> {
        let below = self.runs.get(place).map_or(&[][..], |run| &run.below);
        below.iter().filter_map(|below| self.runs.get(*below))
    }

    /// How long a sample may take to show in the results of a series over series.
    fn total_wait(&self, place: usize) -> Duration {
        let Some(run) = self.runs.get(place) else { return Duration::ZERO };
        let by_change = |below: &&usize| self.runs.get(**below).is_some_and(|run| run.series.every.is_none());
        let below = run.below.iter().filter(by_change).map(|below| self.total_wait(*below));
        run.series.wait + below.max().unwrap_or_default()
    }

    fn wants(&self, place: usize, now: Timestamp) -> bool {
        let may_begin = || self.below(place).all(Run::is_begun);
        self.runs.get(place).is_some_and(|run| run.wants(self.horizon(place, now), may_begin))
    }

    /// Takes one step of a series; says whether it has more to do of the past.
    fn step(&mut self, place: usize, handle: &HistoryHandle, now: Timestamp) -> bool {
        let horizon = self.horizon(place, now);
        let first_below = self.below(place).filter_map(Run::span).map(|(from, _)| from).min();
        let Some(run) = self.runs.get_mut(place) else { return false };
        let (source, kept, stop, tell) = (&self.source, &mut self.kept, &*self.stop, &*self.parts.tell);
        let mut step = Step { source, handle, kept, stop, tell, horizon, first_below };
        match run.step(&mut step) {
            Ok(more) => more,
            Err(error) => {
                if run.fail(error.clone()) {
                    let topic = &run.series.topic;
                    tracing::warn!(%topic, error, "a derived series could not be calculated; it is tried again");
                }
                false
            }
        }
    }

    /// Waits until all that was recorded before can be read.
    fn barrier(&self, handle: &HistoryHandle) -> Result<(), String> {
        let seq = submit(handle, Vec::new(), &self.stop)?;
        wait_stored(handle, seq)
    }

    fn show(&self) {
        let all = self.runs.iter().map(|run| (run.series.topic.clone(), run.status.clone())).collect();
        *locked(&self.board) = all;
    }
}

fn wait_stored(handle: &HistoryHandle, seq: Seq) -> Result<(), String> {
    let is_there = handle.wait_stored(seq, Duration::from_secs(5));
    if is_there { Ok(()) } else { Err("the store is behind the journal".to_owned()) }
}

/// Has samples recorded, and waits until they are durable.
fn submit(handle: &HistoryHandle, samples: Vec<tieline_journal::Sample>, stop: &AtomicBool) -> Result<Seq, String> {
    let (tell, told) = channel::<Result<Seq, NotRecorded>>();
    handle.submit(samples, Box::new(move |done| drop(tell.send(done))));
    loop {
        match told.recv_timeout(TICK) {
            Ok(done) => return done.map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
            Err(_) => return Err("the history is closed".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
