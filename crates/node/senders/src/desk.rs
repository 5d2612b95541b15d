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
use crate::heartbeat::Heartbeats;
use crate::log::Log;
use crate::on_call::OnCall;
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
use tieline_core::{Now, Timestamp, Words};
use tieline_notify::{AlarmName, End, Message, MessageKind, Notice, Notify, Outcome, Route, RouteId, Settings};

/// Inputs that wait for the thread; one more is refused.
const INPUTS_MAX: usize = 10_000;
/// How long the thread waits where nothing is due.
const IDLE: Duration = Duration::from_mins(1);

/// A receiver: a way, and addresses of persons where it has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The way.
    pub sender: Sender,
    /// Addresses; with [`crate::PLACE`] of those on call.
    pub to: Vec<String>,
    /// Who is on call.
    pub on_call: Option<Arc<OnCall>>,
    /// The interval of heartbeats.
    pub heartbeat: Option<Duration>,
}

impl Receiver {
    /// Addresses at a time.
    ///
    /// # Errors
    /// Nobody is on call, and it has no other address.
    fn addresses(&self, at: Timestamp) -> Result<Vec<String>, Failure> {
        let Some(on_call) = &self.on_call else { return Ok(self.to.clone()) };
        let to = on_call.addresses(&self.to, at);
        if to.is_empty() { Err(Failure::nobody()) } else { Ok(to) }
    }
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

impl Receivers {
    /// Where nobody is on call in the week from now on, and where several shifts are at once: one sentence each.
    #[must_use]
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let calendars = self.receivers.iter().filter_map(|(name, receiver)| Some((name, receiver.on_call.as_ref()?)));
        calendars.flat_map(|(name, on_call)| on_call.warnings(&format!("notify.{name}.on_call"), now)).collect()
    }
}

/// Both clocks.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;
/// Publishes a message of a receiver of the kind `mqtt`, its name and JSON, and returns when that is done (true) or cannot be.
pub type Publish = Arc<dyn Fn(&str, String) -> bool + Send + Sync>;

/// What the thread asks of its node.
#[derive(Clone)]
pub struct Calls {
    /// Publishes.
    pub publish: Publish,
    /// Returns when the bus has turned (true) or has ended: while it stands still, no heartbeat goes out.
    pub turn: Arc<dyn Fn() -> bool + Send + Sync>,
}

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
    /// How a heartbeat ended; none where the node is stopping.
    Beat(Arc<str>, Option<Result<(), Failure>>),
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
    pub fn start(file: &Path, receivers: Receivers, clock: Clock, calls: Calls) -> io::Result<Self> {
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
            calls,
            outcomes,
            counts: Arc::clone(&counts),
            tests: BTreeMap::new(),
            heartbeats: Heartbeats::default(),
            beats_failed: 0,
        };
        work.set_heartbeats();
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
    calls: Calls,
    outcomes: SyncSender<Input>,
    counts: Arc<Counts>,
    /// Who waits for a test.
    tests: BTreeMap<u64, mpsc::Sender<Result<(), Failure>>>,
    heartbeats: Heartbeats,
    beats_failed: u64,
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
        for name in self.heartbeats.take_due(now.mono) {
            self.beat(now, name);
        }
        self.count();
        let due = [self.notify.timeout(), self.heartbeats.timeout()].into_iter().flatten().min();
        due.map_or(IDLE, |due| due.since((self.clock)().mono))
    }

    fn set_heartbeats(&mut self) {
        let receivers = self.receivers.receivers.iter();
        let all = receivers.filter_map(|(name, receiver)| Some((name, receiver.heartbeat?)));
        self.heartbeats.set((self.clock)().mono, all);
    }

    /// Sends a heartbeat once the bus has turned.
    fn beat(&mut self, now: Now, name: Arc<str>) {
        let Some(sender) = self.receivers.receivers.get(&name).map(|receiver| receiver.sender.clone()) else { return };
        let (turn, outcomes, clock) = (Arc::clone(&self.calls.turn), self.outcomes.clone(), Arc::clone(&self.clock));
        let (node, to) = (self.receivers.node.clone(), Arc::clone(&name));
        let run = move || {
            let result = turn().then(|| {
                // The bus may have stood still for long.
                let utc = clock().utc;
                sender.send(Envelope { node: &node, now: utc, to: &[] }, &heartbeat(&to, utc))
            });
            let _ = outcomes.send(Input::Beat(to, result));
        };
        if let Err(error) = std::thread::Builder::new().name("notify-send".to_owned()).spawn(run) {
            self.finish_beat(now, &name, Some(Err(Failure::again(error))));
        }
    }

    fn finish_beat(&mut self, now: Now, name: &str, result: Option<Result<(), Failure>>) {
        self.heartbeats.finish(name);
        let Some(result) = result else { return };
        let why = result.err().map(|failure| failure.why);
        if let Some(why) = &why {
            tracing::info!(to = name, why, "a heartbeat has not arrived");
            self.beats_failed += 1;
        }
        self.counts.attempted(name, now.utc, why.as_deref());
    }

    fn count(&self) {
        let stats = self.notify.stats();
        let receivers = self.receivers.receivers.iter();
        self.counts.set_receivers(
            receivers.map(|(name, receiver)| (name, receiver.sender.kind(), self.notify.waiting_for(name))),
        );
        self.counts.waiting.store(self.notify.waiting() as u64, Ordering::Relaxed);
        self.counts.failures.store(stats.failures + self.beats_failed, Ordering::Relaxed);
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
                self.set_heartbeats();
            }
            Input::Test(name, answer) => self.test(now, &name, answer),
            Input::Outcome(message, result) => self.finish(now, &message, result),
            Input::Beat(name, result) => self.finish_beat(now, &name, result),
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
        let Some(receiver) = self.receivers.receivers.get(&message.to) else {
            return self.finish(now, &message, Err(Failure::never("its receiver is configured no longer")));
        };
        let sender = receiver.sender.clone();
        let to = match receiver.addresses(now.utc) {
            Ok(to) => to,
            Err(nobody) => return self.finish(now, &message, Err(nobody)),
        };
        let publish = Arc::clone(&self.calls.publish);
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
        match outcome {
            Outcome::Nobody => self.counts.found_nobody(&message.to, now.utc),
            Outcome::Delivered | Outcome::Failed | Outcome::Refused => {
                self.counts.attempted(&message.to, now.utc, result.as_ref().err().map(|failure| &*failure.why));
            }
        }
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

fn heartbeat(to: &Arc<str>, made: Timestamp) -> Message {
    Message {
        id: 0,
        to: Arc::clone(to),
        made,
        kind: MessageKind::Heartbeat,
        route: RouteId::default(),
        step: 0,
        repeats: 0,
        total: 0,
        alarms: Vec::new(),
    }
}
