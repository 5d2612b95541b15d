//! A thread with the engine of notifications, its file and its senders.
//!
//! ```text
//! alarms ─▶ engine ─▶ file ── written ─▶ a thread for each attempt ─▶ receiver
//!              ▲                                     │
//!              └───────────── outcome ───────────────┘
//! ```
//!
//! A receiver has one attempt at a time, so there are no more threads than receivers. Where the file cannot be written, messages
//! go out all the same, and [`Counts::unwritten`] says so: after a restart they may come again, or not at all.

use crate::counts::Counts;
use crate::log::Log;
use crate::sender::{Envelope, Failure, Sender};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;
use tieline_core::{Now, Words};
use tieline_notify::{AlarmName, End, Message, MessageKind, Notice, Notify, Outcome, Route, Settings};

/// Inputs that wait for the thread; one more is refused.
const INPUTS_MAX: usize = 10_000;
/// How long the thread waits where nothing is due.
const IDLE: Duration = Duration::from_mins(1);

/// A receiver: a way, and addresses of persons where it has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The way.
    pub sender: Sender,
    /// Addresses.
    pub to: Vec<String>,
}

/// Who is told, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receivers {
    /// The name of the node.
    pub node: String,
    /// Routes.
    pub routes: Vec<Route>,
    /// Receivers by name.
    pub receivers: BTreeMap<Arc<str>, Receiver>,
}

/// Both clocks.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;
/// Publishes a message of a receiver of the kind `mqtt`, its name and JSON, and returns when that is done (true) or cannot be.
pub type Publish = Arc<dyn Fn(&str, String) -> bool + Send + Sync>;

/// What the thread is told.
#[derive(Debug)]
enum Input {
    Notice(Box<Notice>),
    Gone(AlarmName),
    Flood(bool),
    Standing(Vec<Notice>),
    Receivers(Receivers),
    Test(Arc<str>, mpsc::Sender<Result<(), Failure>>),
    Outcome(Message, Result<(), Failure>),
    Stop,
}

/// There is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The thread. Dropped, it ends; what was not sent is sent after the next start.
pub struct Desk {
    inputs: SyncSender<Input>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl Desk {
    /// Reads the file and starts the thread. Give [`Desk::standing`] first.
    ///
    /// # Errors
    /// The file is not one of notifications or cannot be opened, or there is no thread.
    pub fn start(file: &Path, receivers: Receivers, clock: Clock, publish: Publish) -> io::Result<Self> {
        let (log, saved) = Log::open(file)?;
        let (inputs, incoming) = mpsc::sync_channel(INPUTS_MAX);
        let counts = Arc::new(Counts::default());
        let mut notify = Notify::new(Settings::default(), receivers.routes.clone());
        let is_known = |name: &str| receivers.receivers.contains_key(name);
        notify.restore(clock(), saved, &is_known);
        let outcomes = inputs.clone();
        let mut work = Work {
            notify,
            log,
            receivers,
            clock,
            publish,
            outcomes,
            counts: Arc::clone(&counts),
            tests: BTreeMap::new(),
        };
        work.count();
        let run = move || {
            loop {
                let wait = work.turn();
                match incoming.recv_timeout(wait) {
                    Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                    Ok(input) => work.take(input),
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        };
        let thread = std::thread::Builder::new().name("notify".to_owned()).spawn(run)?;
        Ok(Self { inputs, thread: Some(thread), counts })
    }

    /// An alarm has changed, and its change is on the disk.
    ///
    /// # Errors
    /// The thread is behind: give it [`Desk::standing`] later.
    pub fn notice(&self, notice: Notice) -> Result<(), Full> {
        self.give(Input::Notice(Box::new(notice)))
    }

    /// An alarm is no more.
    ///
    /// # Errors
    /// The thread is behind: give it [`Desk::standing`] later.
    pub fn gone(&self, alarm: AlarmName) -> Result<(), Full> {
        self.give(Input::Gone(alarm))
    }

    /// A flood has begun or ended.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn flood(&self, is_on: bool) -> Result<(), Full> {
        self.give(Input::Flood(is_on))
    }

    /// All alarms that are not normal: the others have returned.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn standing(&self, alarms: Vec<Notice>) -> Result<(), Full> {
        self.give(Input::Standing(alarms))
    }

    /// Other receivers or routes.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn set_receivers(&self, receivers: Receivers) -> Result<(), Full> {
        self.give(Input::Receivers(receivers))
    }

    /// Sends a test to a receiver; its first attempt is the answer.
    ///
    /// # Errors
    /// The thread is behind.
    pub fn test(&self, name: &str) -> Result<mpsc::Receiver<Result<(), Failure>>, Full> {
        let (answer, answers) = mpsc::channel();
        self.give(Input::Test(name.into(), answer))?;
        Ok(answers)
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn give(&self, input: Input) -> Result<(), Full> {
        self.inputs.try_send(input).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => Full,
        })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    notify: Notify,
    log: Log,
    receivers: Receivers,
    clock: Clock,
    publish: Publish,
    outcomes: SyncSender<Input>,
    counts: Arc<Counts>,
    /// Who waits for a test.
    tests: BTreeMap<u64, mpsc::Sender<Result<(), Failure>>>,
}

impl Work {
    /// Does what is due, and says how long nothing will be.
    fn turn(&mut self) -> Duration {
        let now = (self.clock)();
        self.notify.handle_timeout(now);
        let records = std::iter::from_fn(|| self.notify.poll_record());
        if let Err(error) = self.log.write(records) {
            let before = self.counts.unwritten.fetch_add(1, Ordering::Relaxed);
            if before == 0 {
                tracing::warn!(%error, "notifications are not written: a restart forgets them");
            }
        }
        while let Some(message) = self.notify.poll_send(now) {
            self.attempt(now, message);
        }
        self.count();
        self.notify.timeout().map_or(IDLE, |due| due.since((self.clock)().mono))
    }

    fn count(&self) {
        let stats = self.notify.stats();
        let receivers = self.receivers.receivers.iter();
        self.counts.set_receivers(
            receivers.map(|(name, receiver)| (name, receiver.sender.kind(), self.notify.waiting_for(name))),
        );
        self.counts.waiting.store(self.notify.waiting() as u64, Ordering::Relaxed);
        self.counts.failures.store(stats.failures, Ordering::Relaxed);
        self.counts.dropped.store(stats.dropped + stats.not_followed, Ordering::Relaxed);
    }

    fn take(&mut self, input: Input) {
        let now = (self.clock)();
        match input {
            Input::Notice(notice) => self.notify.handle_notice(now, *notice),
            Input::Gone(alarm) => self.notify.handle_gone(now, &alarm),
            Input::Flood(is_on) => self.notify.handle_flood(now, is_on),
            Input::Standing(alarms) => self.notify.handle_all(now, alarms),
            Input::Receivers(receivers) => {
                self.receivers = receivers;
                let known = &self.receivers.receivers;
                self.notify.handle_routes(now, self.receivers.routes.clone(), &|name| known.contains_key(name));
            }
            Input::Test(name, answer) => self.test(now, &name, answer),
            Input::Outcome(message, result) => self.finish(now, &message, result),
            Input::Stop => {}
        }
    }

    fn test(&mut self, now: Now, name: &Arc<str>, answer: mpsc::Sender<Result<(), Failure>>) {
        if !self.receivers.receivers.contains_key(name) {
            let _ = answer.send(Err(Failure::never(format!("there is no receiver {name}"))));
            return;
        }
        match self.notify.send_test(now, name) {
            Some(id) => {
                self.tests.insert(id, answer);
            }
            None => {
                let _ = answer.send(Err(Failure::again("too many messages wait")));
            }
        }
    }

    fn attempt(&mut self, now: Now, message: Message) {
        let Some(Receiver { sender, to }) = self.receivers.receivers.get(&message.to).cloned() else {
            return self.finish(now, &message, Err(Failure::never("its receiver is configured no longer")));
        };
        let publish = Arc::clone(&self.publish);
        let (node, outcomes) = (self.receivers.node.clone(), self.outcomes.clone());
        let (utc, attempted) = (now.utc, message.clone());
        let run = move || {
            let envelope = Envelope { node: &node, now: utc, to: &to };
            let result = match sender {
                Sender::Mqtt => match publish(&attempted.to, crate::json(&node, &attempted).to_string()) {
                    true => Ok(()),
                    false => Err(Failure::again("the node is stopping")),
                },
                sender => sender.send(envelope, &attempted),
            };
            // The thread has ended: the message is sent again after the next start.
            let _ = outcomes.send(Input::Outcome(attempted, result));
        };
        if let Err(error) = std::thread::Builder::new().name("notify-send".to_owned()).spawn(run) {
            self.finish(now, &message, Err(Failure::again(error)));
        }
    }

    fn finish(&mut self, now: Now, message: &Message, result: Result<(), Failure>) {
        let mut outcome = result.as_ref().map_or_else(|failure| failure.outcome, |()| Outcome::Delivered);
        // A person waits for a test: it is sent once.
        if message.kind == MessageKind::Test && outcome == Outcome::Failed {
            outcome = Outcome::Refused;
        }
        let end = self.notify.handle_outcome(now, message.id, outcome);
        let (to, key) = (&*message.to, message.key());
        if let Err(Failure { why, .. }) = &result {
            tracing::info!(to, key, why, "a notification has not arrived");
        }
        self.counts.attempted(&message.to, now.utc, result.as_ref().err().map(|failure| &*failure.why));
        if let Some(answer) = self.tests.remove(&message.id) {
            let _ = answer.send(result);
        }
        let Some(end) = end else { return };
        if end != End::Delivered {
            tracing::warn!(to, key, end = end.word(), "a notification is given up");
        }
        if let Some(receiver) = self.receivers.receivers.get(&message.to) {
            self.counts.add(receiver.sender.kind(), end);
        }
    }
}
