//! Operations that wait, and the threads that do them.
//!
//! A worker takes what waits, up to eight, and never waits for more: one alone is as fast as it can be, and under load
//! the private-key operations of several are done together.

use crate::access::Client;
use crate::audit::{Asked, AuditLog};
use crate::config::Config;
use crate::link::Link;
use crate::metrics::{Kind, Metrics};
use crate::told::Told;
use crate::work::{Bench, Done, Operation, Output};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tieline_core::Timestamp;
use tieline_crypto::BATCH_MAX;
use tokio::sync::oneshot;

/// Octets of content and messages that may wait; what comes then is turned away as busy.
const QUEUE_OCTETS_MAX: usize = 256 << 20;

/// An operation that waits.
pub struct Job {
    /// What.
    pub operation: Operation,
    /// Who asks.
    pub client: Arc<Client>,
    /// From where.
    pub address: SocketAddr,
    /// Where the answer goes.
    pub reply: Reply,
    /// When it came.
    pub since: Instant,
}

/// Where an answer goes.
pub enum Reply {
    /// A connection of the binary protocol, and the request's id.
    Link(Arc<Link>, u32),
    /// Whoever waits for it.
    Once(oneshot::Sender<Result<Output, Told>>),
}

/// Gives answers. Those of one connection go out together when this is dropped: one wake, one write, and the client
/// gets the chance to ask as many again in one.
#[derive(Default)]
struct Answers(Vec<Arc<Link>>);

impl Answers {
    /// Gives one answer; `octets` are those of the request.
    fn send(&mut self, reply: Reply, answer: Result<Output, Told>, octets: usize) {
        match reply {
            Reply::Link(link, id) => {
                link.answer(id, &answer, octets);
                if !self.0.iter().any(|known| Arc::ptr_eq(known, &link)) {
                    self.0.push(link);
                }
            }
            // Whoever asked may be gone, and nobody else wants to know.
            Reply::Once(sender) => drop(sender.send(answer)),
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.0.iter().for_each(|link| link.flush());
    }
}

impl Job {
    /// Octets of content or message.
    pub const fn octets(&self) -> usize {
        match &self.operation {
            Operation::Pack(pack) => pack.content.len(),
            Operation::Unpack(unpack) => unpack.message.len(),
        }
    }
}

/// What doors and workers share.
pub struct Shared {
    queue: Mutex<Queue>,
    ready: Condvar,
    config: RwLock<Arc<Config>>,
    /// What is counted.
    pub metrics: Metrics,
    /// The audit log.
    pub audit: AuditLog,
    /// Configurations that were read anew.
    pub reloads: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    octets: usize,
    /// Nothing more is taken in; workers end when nothing waits.
    closed: bool,
}

impl Shared {
    /// With nothing waiting.
    pub fn new(config: Arc<Config>, audit: AuditLog) -> Self {
        Self {
            queue: Mutex::default(),
            ready: Condvar::new(),
            config: RwLock::new(config),
            metrics: Metrics::default(),
            audit,
            reloads: AtomicU64::new(0),
        }
    }

    /// The configuration in use.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another configuration in use; operations that are being done end with the old one.
    pub fn set_config(&self, config: Arc<Config>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes operations in; those that there is no room for are answered at once.
    pub fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        let queue_max = self.config().queue_max;
        let mut turned_away = Vec::new();
        let mut queue = self.lock();
        let mut taken = 0;
        for job in jobs {
            let octets = job.octets();
            if queue.closed {
                turned_away.push((job, Told::closing()));
            } else if queue.waiting.len() >= queue_max || queue.octets.saturating_add(octets) > QUEUE_OCTETS_MAX {
                turned_away.push((job, Told::busy()));
            } else {
                queue.octets += octets;
                queue.waiting.push_back(job);
                taken += 1;
            }
        }
        drop(queue);
        match taken {
            0 => {}
            1..=BATCH_MAX => self.ready.notify_one(),
            _ => self.ready.notify_all(),
        }
        let mut answers = Answers::default();
        for (job, told) in turned_away {
            self.metrics.turn_away(Kind::from(&job.operation), told.reason);
            let octets = job.octets();
            answers.send(job.reply, Err(told), octets);
        }
    }

    /// How many operations wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Takes nothing more in; workers end when all is done.
    pub fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits, up to eight; none when the queue is closed and empty.
    fn take(&self) -> Option<Vec<Job>> {
        let mut queue = self.lock();
        while queue.waiting.is_empty() {
            if queue.closed {
                return None;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = queue.waiting.len().min(BATCH_MAX);
        let jobs: Vec<_> = queue.waiting.drain(..taken).collect();
        queue.octets -= jobs.iter().map(Job::octets).sum::<usize>();
        let more = !queue.waiting.is_empty();
        drop(queue);
        if more {
            self.ready.notify_one();
        }
        Some(jobs)
    }
}

/// Starts the threads that do operations.
///
/// # Errors
/// The system gives no thread.
pub fn start(shared: &Arc<Shared>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let config = shared.config();
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let count = if config.workers == 0 { cores() } else { config.workers };
    let start = |n| {
        let (shared, bench) = (Arc::clone(shared), Bench::new(config.limits(), config.batch));
        std::thread::Builder::new().name(format!("seal-{n}")).spawn(move || work(&shared, bench))
    };
    (0..count).map(start).collect()
}

fn work(shared: &Shared, mut bench: Bench) {
    while let Some(jobs) = shared.take() {
        let config = shared.config();
        let before = bench.counters();
        let taken = jobs.len();
        let (mut operations, mut asked) = (Vec::with_capacity(taken), Vec::with_capacity(taken));
        for Job { operation, client, address, reply, since } in jobs {
            let octets = match &operation {
                Operation::Pack(pack) => pack.content.len(),
                Operation::Unpack(unpack) => unpack.message.len(),
            };
            let audited = shared.audit.is_kept().then(|| Asked::new(&operation, client, address));
            asked.push((Kind::from(&operation), audited, reply, since, octets));
            operations.push(operation);
        }
        let done = bench.run(operations, &config.domains, unix_seconds());
        write_audit(shared, asked.iter_mut().map(|(_, audited, ..)| audited.take()), &done);
        shared.metrics.turn(taken, before, bench.counters());
        let mut answers = Answers::default();
        for ((kind, _, reply, since, octets), (result, _)) in asked.into_iter().zip(done) {
            let answer = result.map_err(|refusal| refusal.told(config.exact_errors));
            shared.metrics.count(kind, answer.as_ref().err().map(|told| told.reason), since.elapsed());
            answers.send(reply, answer, octets);
        }
    }
}

/// The record is on its way to the disk before the answer is on its way to the client.
fn write_audit(shared: &Shared, asked: impl Iterator<Item = Option<Asked>>, done: &[Done]) {
    if !shared.audit.is_kept() {
        return;
    }
    let now = Timestamp::from_micros(i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX));
    shared.audit.write(asked.zip(done).filter_map(|(asked, done)| Some(asked?.line(now, done))).collect());
}

/// The time in seconds since 1970-01-01T00:00:00Z.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

fn since_1970() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
