//! A question about many topics, answered by several threads.
//!
//! ```text
//! topics ─▶ groups ─┬▶ thread 1: groups 1, 3, 5 … ─▶ parts ─┬─▶ the parts of group 1, of group 2, of group 3 …
//!                   └▶ thread 2: groups 2, 4, 6 … ─▶ parts ─┘
//! ```
//!
//! A thread that is ahead waits: no more than a few parts of each are in memory. Threads end when nobody takes their parts.

use super::listing::Recorded;
use super::reader::HistoryReader;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tieline_core::{StorageError, StorageErrorKind};
use tieline_store::StoreError;

/// Threads that answer a question.
const THREADS_MAX: usize = 8;
/// The same of a processor core.
const THREADS_OF_A_CORE: usize = 2;
/// Parts of a thread that wait: those of a group, at least.
const PARTS_MAX: usize = 4;
/// How much these threads are set back: what is recorded and delivered goes before what is asked for.
const NICE: i32 = 5;

/// Answers groups of topics, one after the other; one a thread.
pub(super) trait Worker {
    type Part: Send + 'static;

    /// Gives the next topics.
    fn begin(&mut self, group: Vec<Recorded>);

    /// The next part of their answer; none at its end.
    fn part(&mut self) -> Result<Option<Self::Part>, StoreError>;

    /// Samples that could not be read, so far.
    fn damaged(&self) -> u64;
}

/// A worker that reads a history.
pub(super) type WorkerOf<'r, T> = Box<dyn Worker<Part = T> + 'r>;

/// The parts of an answer, in the order of the topics.
pub(super) struct InOrder<T> {
    threads: Vec<Receiver<Said<T>>>,
    /// Whose turn it is, and how many groups there are still.
    turn: usize,
    groups: usize,
    damaged: Arc<AtomicU64>,
}

enum Said<T> {
    Part(T),
    /// The group has no more parts.
    End,
    Failed(StoreError),
}

/// A question that one thread answers in less time is not worth others. Tests have few samples, and want them.
const WORTH: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_millis(20) };

/// How many threads answer what is left of a question, where some topics were answered since it began; none where one alone is as good.
pub(super) fn threads_for(began: Instant, answered: usize, left: usize, group: usize) -> Option<NonZero<usize>> {
    let topics = u32::try_from(left / answered.max(1)).unwrap_or(u32::MAX);
    if began.elapsed().saturating_mul(topics) < WORTH {
        return None;
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    NonZero::new((cores * THREADS_OF_A_CORE).min(THREADS_MAX).min(left / group)).filter(|threads| threads.get() > 1)
}

impl<T: Send + 'static> InOrder<T> {
    /// Begins. Each thread makes its worker, with a reader of its own.
    pub(super) fn start<M>(
        reader: &HistoryReader,
        groups: Vec<Vec<Recorded>>,
        threads: NonZero<usize>,
        make: M,
    ) -> Result<Self, StoreError>
    where
        M: for<'r> Fn(&'r HistoryReader) -> Result<WorkerOf<'r, T>, StoreError> + Clone + Send + 'static,
    {
        let (left, damaged) = (groups.len(), Arc::new(AtomicU64::new(0)));
        let mut shares = vec![Vec::new(); threads.get()];
        for (number, group) in groups.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(number % threads) {
                share.push(group);
            }
        }
        let start = |share: Vec<Vec<Recorded>>| {
            let (out, parts) = sync_channel(PARTS_MAX);
            let (reader, make, damaged) = (reader.another()?, make.clone(), Arc::clone(&damaged));
            let work = move || {
                let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
                answer(&reader, share, &make, &damaged, &out);
            };
            let started = thread::Builder::new().name("history-query".to_owned()).spawn(work);
            started.map_err(|error| failed(format!("the system gives no thread: {error}")))?;
            Ok(parts)
        };
        let threads = shares.into_iter().map(start).collect::<Result<_, StoreError>>()?;
        Ok(Self { threads, turn: 0, groups: left, damaged })
    }

    /// The part that comes next; none at the end.
    pub(super) fn part(&mut self) -> Result<Option<T>, StoreError> {
        while self.groups > 0 {
            let Some(thread) = self.threads.get(self.turn) else { return Ok(None) };
            match thread.recv() {
                Ok(Said::Part(part)) => return Ok(Some(part)),
                Ok(Said::End) => {
                    self.groups -= 1;
                    self.turn = (self.turn + 1) % self.threads.len();
                }
                Ok(Said::Failed(error)) => return Err(error),
                Err(_) => return Err(failed("a thread that reads the history panicked".to_owned())),
            }
        }
        Ok(None)
    }

    /// Samples that could not be read, so far.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }
}

fn failed(message: String) -> StoreError {
    StoreError::Files(StorageError { kind: StorageErrorKind::Io, message })
}

/// Answers groups until all are answered, one fails, or nobody takes the parts.
fn answer<T: Send + 'static>(
    reader: &HistoryReader,
    groups: Vec<Vec<Recorded>>,
    make: &impl for<'r> Fn(&'r HistoryReader) -> Result<WorkerOf<'r, T>, StoreError>,
    damaged: &AtomicU64,
    out: &SyncSender<Said<T>>,
) {
    let mut worker = match make(reader) {
        Ok(worker) => worker,
        Err(error) => return drop(out.send(Said::Failed(error))),
    };
    let mut counted = 0;
    for group in groups {
        worker.begin(group);
        loop {
            let said = match worker.part() {
                Ok(Some(part)) => Said::Part(part),
                Ok(None) => {
                    damaged.fetch_add(worker.damaged() - counted, Ordering::Relaxed);
                    counted = worker.damaged();
                    Said::End
                }
                Err(error) => Said::Failed(error),
            };
            let (is_end, is_failed) = (matches!(said, Said::End), matches!(said, Said::Failed(_)));
            if out.send(said).is_err() || is_failed {
                return;
            }
            if is_end {
                break;
            }
        }
    }
}
