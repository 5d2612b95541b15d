//! Jobs that wait for the thread that does them.

use crate::engine::{BATCH_MAX, Engine, PrivateJob, PrivateOutcome};
use std::collections::VecDeque;

/// How often what happened, since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Jobs taken in.
    pub accepted: u64,
    /// Jobs sent back because the queue was full.
    pub refused: u64,
    /// Turns, by how many jobs they took: `[0]` one, `[7]` eight.
    pub turns: [u64; BATCH_MAX],
    /// The most jobs that ever waited.
    pub waiting_max: usize,
}

/// Private jobs in the order of their coming, each with a token of the caller's that finds its way back.
///
/// A turn takes what waits, up to eight, and never waits for more. Under no load each job is alone, and as fast as it
/// can be; under load jobs gather while a turn runs, and the next turn does three times as much in its time.
#[derive(Debug)]
pub struct PrivateQueue<T> {
    waiting: VecDeque<(T, PrivateJob)>,
    limit: usize,
    counters: QueueCounters,
    tokens: Vec<T>,
    jobs: Vec<PrivateJob>,
    outcomes: Vec<PrivateOutcome>,
}

impl<T> PrivateQueue<T> {
    /// A queue that holds at most `limit` jobs, at least one. A job that waits takes about 400 bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            limit: limit.max(1),
            counters: QueueCounters::default(),
            tokens: Vec::with_capacity(BATCH_MAX),
            jobs: Vec::with_capacity(BATCH_MAX),
            outcomes: Vec::with_capacity(BATCH_MAX),
        }
    }

    /// Takes a job in.
    ///
    /// # Errors
    /// The queue is full; token and job come back.
    pub fn push(&mut self, token: T, job: PrivateJob) -> Result<(), (T, PrivateJob)> {
        if self.waiting.len() >= self.limit {
            self.counters.refused += 1;
            return Err((token, job));
        }
        self.waiting.push_back((token, job));
        self.counters.accepted += 1;
        self.counters.waiting_max = self.counters.waiting_max.max(self.waiting.len());
        Ok(())
    }

    /// One turn: does up to eight jobs, the oldest first, appends their outcomes to `done` in that order, and returns how
    /// many there were; zero when nothing waits.
    pub fn run(&mut self, engine: &mut Engine, done: &mut Vec<(T, PrivateOutcome)>) -> usize {
        let taken = self.waiting.len().min(BATCH_MAX);
        let Some(turns) = taken.checked_sub(1).and_then(|at| self.counters.turns.get_mut(at)) else { return 0 };
        *turns += 1;
        for (token, job) in self.waiting.drain(..taken) {
            self.tokens.push(token);
            self.jobs.push(job);
        }
        engine.private(&self.jobs, &mut self.outcomes);
        self.jobs.clear();
        done.extend(self.tokens.drain(..).zip(self.outcomes.drain(..)));
        taken
    }

    /// How many jobs wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no job waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How often what happened.
    #[must_use]
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }
}
