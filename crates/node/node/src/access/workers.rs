//! The threads that check credentials, each with a queue of its own: users in good standing do not wait for unknown
//! ones, and tokens for no password.

use super::authenticator::{Access, Shown};
use super::files::LookNow;
use super::hash_password;
use super::outcome::Wrong;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tieline_access::{Identity, Origin, Waiting};
use tieline_core::Instant;

/// Checks of each kind that may wait. A password takes some tens of milliseconds, a token less than one.
pub const WAITING_MAX: usize = 1024;

/// Hears what became of a check; runs on the thread that checks.
pub(super) type Answer = Box<dyn FnOnce(Result<Identity, Wrong>) + Send>;

/// What is to be checked.
pub(super) struct Job {
    pub(super) shown: Shown,
    pub(super) origin: Origin,
    /// The peer does not wait for longer.
    pub(super) until: Instant,
    /// Whether its failure is counted already.
    pub(super) is_counted: bool,
    pub(super) answer: Answer,
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Passwords of those that have shown who they are before.
    Known,
    /// Passwords of all others.
    Unauthenticated,
    /// Tokens.
    Token,
}

const KINDS: [(Kind, &str); 3] =
    [(Kind::Known, "access-known"), (Kind::Unauthenticated, "access-others"), (Kind::Token, "access-tokens")];

/// The queues; the threads end when it is dropped.
pub(super) struct Workers {
    queues: [Arc<Queue>; KINDS.len()],
    /// Asks the thread that looks at the files; dropped, it ends it.
    watch: Sender<LookNow>,
}

#[derive(Default)]
struct Queue {
    held: Mutex<Held>,
    more: Condvar,
}

struct Held {
    jobs: Waiting<Job>,
    is_closed: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self { jobs: Waiting::new(WAITING_MAX), is_closed: false }
    }
}

impl Workers {
    /// Starts the threads that check. `watch` runs on another, until what it gets is disconnected.
    pub(super) fn start(
        access: &Arc<Access>,
        watch: impl FnOnce(Receiver<LookNow>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let queues: [Arc<Queue>; KINDS.len()] = Default::default();
        for ((kind, name), queue) in KINDS.iter().zip(&queues) {
            let (access, queue, kind) = (Arc::clone(access), Arc::clone(queue), *kind);
            let body = move || {
                // A user that there is not costs the same as one that there is: who there is stays unknown.
                let nobody = if kind == Kind::Token { String::new() } else { hash_password("").unwrap_or_default() };
                while let Some(job) = queue.next() {
                    access.settle(job, &nobody);
                }
            };
            std::thread::Builder::new().name((*name).to_owned()).spawn(body)?;
        }
        let (sender, receiver) = channel();
        std::thread::Builder::new().name("access".to_owned()).spawn(move || watch(receiver))?;
        Ok(Self { queues, watch: sender })
    }

    /// Looks at the files now, and waits until what they say holds.
    pub(super) fn look_now(&self) {
        let (asker, done) = channel();
        // A watch that has ended has nothing to wait for.
        if self.watch.send(asker).is_ok() {
            let _ = done.recv();
        }
    }

    /// One more waits. One that has no room comes back, be it this one or another.
    pub(super) fn push(&self, kind: Kind, job: Job) -> Option<Job> {
        let at = KINDS.iter().position(|(known, _)| *known == kind).unwrap_or_default();
        match self.queues.get(at) {
            Some(queue) => queue.push(job),
            None => Some(job),
        }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.lock().jobs.len()).sum()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.lock().is_closed = true;
            queue.more.notify_all();
        }
    }
}

impl Queue {
    fn push(&self, job: Job) -> Option<Job> {
        let displaced = self.lock().jobs.push(job.origin.network, job);
        self.more.notify_one();
        displaced
    }

    /// Waits for the next; none when there will be none.
    fn next(&self) -> Option<Job> {
        let mut held = self.lock();
        loop {
            if held.is_closed {
                return None;
            }
            if let Some(job) = held.jobs.pop() {
                return Some(job);
            }
            held = self.more.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What the lock guards is whole between statements.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
