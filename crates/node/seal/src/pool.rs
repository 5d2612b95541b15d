//! Operations that wait, and the threads that do them.
//!
//! A worker takes what waits, up to eight, and never waits for more: one alone is as fast as it can be, and under load
//! the operations of several are done together. Four fill the lanes as well as eight; five to seven do not, so that four
//! of them are taken first, and the others with what has come meanwhile.
//!
//! The sockets of the binary protocol belong to the workers: between two turns a worker runs the tasks that read them,
//! one of those that have nothing else to do waits for them, and each writes the answers of its turn. No request and no
//! answer goes from one thread to another. While a turn takes long, a thread stands in for its worker at the sockets.

use crate::access::Client;
use crate::audit::{Asked, AuditLog};
use crate::config::Config;
use crate::link::Link;
use crate::metrics::{Kind, Metrics};
use crate::public_refusal::PublicRefusal;
use crate::work::{BatchExecutor, Done, Operation, Output};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tieline_core::Timestamp;
use tieline_crypto::BATCH_MAX;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

/// Bytes of content and messages that may wait; what comes then is turned away as busy.
const QUEUE_BYTES_MAX: usize = 256 << 20;
/// As many as these fill the lanes: taken with them they leave none free, taken in eights they are written in one.
const HALF_BATCH: usize = BATCH_MAX / 2;
/// Sockets wait so long at most while more operations wait than a worker takes.
const SOCKETS_EVERY: Duration = Duration::from_millis(4);
/// From so many bytes on a turn takes long: 10 ms of triple DES.
const LONG_BYTES: usize = 256 << 10;

/// What a line of the audit log has room for at first.
const AUDIT_LINE_BYTES: usize = 448;

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
    /// The caller that waits for it.
    Once(oneshot::Sender<Result<Output, PublicRefusal>>),
}

/// Gives answers. Those of one connection go out together when this is dropped: one wake, one write, and the client
/// gets the chance to ask as many again in one.
#[derive(Default)]
struct Answers(Vec<Arc<Link>>);

impl Answers {
    /// Gives one answer; `bytes` are those of the request.
    fn send(&mut self, reply: Reply, answer: Result<Output, PublicRefusal>, bytes: usize) {
        match reply {
            Reply::Link(link, id) => {
                link.answer(id, &answer, bytes);
                if !self.0.iter().any(|known| Arc::ptr_eq(known, &link)) {
                    self.0.push(link);
                }
            }
            // The caller may be gone, and nobody else wants to know.
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
    /// Bytes of content or message.
    pub const fn bytes(&self) -> usize {
        match &self.operation {
            Operation::Pack(pack) => pack.content.len(),
            Operation::Unpack(unpack) => unpack.message.len(),
        }
    }
}

/// What doors and workers share.
pub struct Shared {
    queue: Mutex<Queue>,
    /// Something waits, or the end.
    ready: Notify,
    config: RwLock<Arc<Config>>,
    /// What is counted.
    pub metrics: Metrics,
    /// The audit log.
    pub audit: AuditLog,
    /// Configurations that were read again.
    pub reloads: AtomicU64,
    /// Held by who changes the configuration's file, or reads it to put it in use.
    pub changing: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    bytes: usize,
    /// Workers that have nothing to do.
    idle: usize,
    /// Nothing more is taken in; workers end when nothing waits.
    closed: bool,
}

impl Queue {
    /// How many a worker takes: all, unless lanes would stay free that a later turn can fill, or workers idle.
    fn share(&self) -> usize {
        match self.waiting.len() {
            waiting @ 0..=HALF_BATCH => waiting,
            BATCH_MAX.. if self.idle == 0 => BATCH_MAX,
            _ => HALF_BATCH,
        }
    }
}

/// What a worker finds.
enum Turn {
    Jobs(Vec<Job>),
    Nothing,
    Over,
}

impl Shared {
    /// With nothing waiting.
    pub fn new(config: Arc<Config>, audit: AuditLog) -> Self {
        Self {
            queue: Mutex::default(),
            ready: Notify::new(),
            config: RwLock::new(config),
            metrics: Metrics::default(),
            audit,
            reloads: AtomicU64::new(0),
            changing: Mutex::new(()),
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
            let bytes = job.bytes();
            if queue.closed {
                turned_away.push((job, PublicRefusal::closing()));
            } else if queue.waiting.len() >= queue_max || queue.bytes.saturating_add(bytes) > QUEUE_BYTES_MAX {
                turned_away.push((job, PublicRefusal::busy()));
            } else {
                queue.bytes += bytes;
                queue.waiting.push_back(job);
                taken += 1;
            }
        }
        let wanted = queue.idle.min(usize::div_ceil(taken, HALF_BATCH));
        drop(queue);
        for _ in 0..wanted {
            self.ready.notify_one();
        }
        let mut answers = Answers::default();
        for (job, told) in turned_away {
            self.metrics.turn_away(Kind::from(&job.operation), told.reason);
            let bytes = job.bytes();
            answers.send(job.reply, Err(told), bytes);
        }
    }

    /// How many operations wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Takes nothing more in; workers end when all is done.
    pub fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits, up to eight; none when the queue is closed and empty. Runs the tasks of the sockets first, unless
    /// enough waits and they were run not long ago.
    async fn next(&self, sockets: &mut Instant) -> Option<Vec<Job>> {
        if self.waiting() < BATCH_MAX || sockets.elapsed() >= SOCKETS_EVERY {
            // A first round finds the sockets that are ready, the second reads them.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            *sockets = Instant::now();
        }
        let mut idle = false;
        loop {
            // From here on, whatever comes wakes.
            let ready = self.ready.notified();
            match self.take(&mut idle) {
                Turn::Jobs(jobs) => return Some(jobs),
                Turn::Over => return None,
                Turn::Nothing => ready.await,
            }
        }
    }

    /// Takes a share of what waits; who takes nothing is counted as idle, who was and takes something no more.
    fn take(&self, idle: &mut bool) -> Turn {
        let mut queue = self.lock();
        let finds = !queue.waiting.is_empty();
        match (*idle, finds || queue.closed) {
            (true, true) => queue.idle -= 1,
            (false, false) => queue.idle += 1,
            (true, false) | (false, true) => {}
        }
        *idle = !finds && !queue.closed;
        if !finds {
            return if queue.closed { Turn::Over } else { Turn::Nothing };
        }
        let taken = queue.share();
        let jobs: Vec<_> = queue.waiting.drain(..taken).collect();
        queue.bytes -= jobs.iter().map(Job::bytes).sum::<usize>();
        let more = !queue.waiting.is_empty() && queue.idle > 0;
        drop(queue);
        if more {
            self.ready.notify_one();
        }
        Turn::Jobs(jobs)
    }
}

/// Starts the threads that do operations and, on `sockets`, run the tasks of the binary protocol.
///
/// # Errors
/// The system gives no thread.
pub fn start(shared: &Arc<Shared>, sockets: &Arc<Runtime>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let config = shared.config();
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let count = if config.workers == 0 { cores() } else { config.workers };
    let start = |n| {
        let (shared, executor) = (Arc::clone(shared), BatchExecutor::new(config.limits(), config.batch));
        let sockets = Arc::clone(sockets);
        std::thread::Builder::new().name(format!("seal-{n}")).spawn(move || work(&shared, &sockets, executor))
    };
    (0..count).map(start).collect()
}

fn work(shared: &Shared, sockets: &Runtime, mut executor: BatchExecutor) {
    let mut seen = Instant::now();
    while let Some(jobs) = sockets.block_on(shared.next(&mut seen)) {
        let config = shared.config();
        let is_long = config.has_tokens() || jobs.iter().map(Job::bytes).sum::<usize>() >= LONG_BYTES;
        let turn = || run_turn(shared, &config, &mut executor, jobs);
        if is_long {
            with_stand_in(sockets, turn);
        } else {
            turn();
        }
    }
}

/// Does what takes long while another thread runs the tasks of the sockets: pings are answered, and what is one too many
/// is turned away.
fn with_stand_in(sockets: &Runtime, turn: impl FnOnce()) {
    /// Tells the stand-in that it is over, a panic included.
    struct Ending<'a>(&'a Notify);

    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    let over = Notify::new();
    std::thread::scope(|scope| {
        let _ending = Ending(&over);
        let stand_in = std::thread::Builder::new().name("seal-stand-in".to_owned());
        // When there is no thread to be had, the sockets wait.
        drop(stand_in.spawn_scoped(scope, || sockets.block_on(over.notified())));
        turn();
    });
}

fn run_turn(shared: &Shared, config: &Config, executor: &mut BatchExecutor, jobs: Vec<Job>) {
    let (before, taken) = (executor.counters(), jobs.len());
    let (mut operations, mut asked) = (Vec::with_capacity(taken), Vec::with_capacity(taken));
    for job in jobs {
        let bytes = job.bytes();
        let Job { operation, client, address, reply, since } = job;
        let audited = shared.audit.is_kept().then(|| Asked::new(&operation, client, address));
        asked.push((Kind::from(&operation), audited, reply, since, bytes));
        operations.push(operation);
    }
    let done = executor.run(operations, &config.domains, unix_seconds());
    write_audit(shared, asked.iter_mut().map(|(_, audited, ..)| audited.take()), &done);
    shared.metrics.turn(taken, before, executor.counters());
    let (mut answers, now) = (Answers::default(), Instant::now());
    for ((kind, _, reply, since, bytes), (result, _)) in asked.into_iter().zip(done) {
        let answer = result.map_err(|refusal| refusal.told(config.exact_errors));
        let took = now.saturating_duration_since(since);
        shared.metrics.count(kind, answer.as_ref().err().map(|told| told.reason), took);
        answers.send(reply, answer, bytes);
    }
}

/// The record is with the system before the answer is on its way to the client.
fn write_audit(shared: &Shared, asked: impl Iterator<Item = Option<Asked>>, done: &[Done]) {
    if !shared.audit.is_kept() {
        return;
    }
    let (now, mut lines) = (now(), String::with_capacity(done.len() * AUDIT_LINE_BYTES));
    for (asked, done) in asked.zip(done) {
        if let Some(asked) = asked {
            asked.write(&now, done, &mut lines);
        }
    }
    shared.audit.write(&lines);
}

/// The time in RFC 3339.
pub fn now() -> String {
    Timestamp::from_micros(i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX)).to_string()
}

/// The time in seconds since 1970-01-01T00:00:00Z.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
