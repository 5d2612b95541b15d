//! Control's column: a request is checked, written to the audit log, sent, and answered.
//!
//! ```text
//! request ─▶ control engine ── command ─▶ state, audit log (durable) ─▶ field shard ─▶ device
//!    ▲                                                                               │
//!    └────────────── answer ◀── control engine ◀── outcome, reading ◀────────────────┘
//! ```
//!
//! The engine is [`Coordinator`]: every command goes through it, so that a point that somebody has reserved is commanded by
//! nobody else. A command whose records cannot be written is not sent, and a reservation that cannot be written is not granted.
//!
//! Read first: this file, `sending.rs`, then `state/mod.rs`.

pub mod alarms;
pub mod answer;
pub mod audit;
mod called;
pub mod command;
mod holders;
mod points;
mod reload;
pub mod request;
mod resting;
mod sending;
pub mod state;
pub mod tags;
#[cfg(test)]
mod tests;

pub use called::{Call, Called, Done, Notice, Undo};
pub use holders::{holder_of, is_own};
pub use reload::DeviceChange;

use self::audit::{Afterwards, AuditLine, AuditLog, AuditReader, FileCounts};
use self::called::Open;
use self::command::{CommandDone, CommandRequest};
use self::holders::Holders;
use self::resting::Resting;
use self::sending::Durability;
use crate::config::{Config, Numbered};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tieline_control::{
    Action, Batch, BatchEntry, CommandId, Coordinator, CoordinatorStats, Dispatch, DryRun, NewOverride, NewSchedule,
    Pattern, PointError,
};
use tieline_core::{CommandOutcome, DeviceId, Histogram, Instant, Now, Point, Refusal, Topic, Value};
use tieline_history::{ReplicaKind, Replicate};

/// How a double-bit input shows that it is off (IEEE 1815 group 3).
const DOUBLE_OFF: i64 = 1;
/// How it shows that it is on.
const DOUBLE_ON: i64 = 2;

/// Sends a command to the shard of its device, with the revision of the configuration that it was made by; false where the
/// shard has ended. Called on the audit log's thread.
pub type CommandSender = Arc<dyn Fn(Dispatch, u32) -> bool + Send + Sync>;

/// Told of a command that was not sent: its device, its identifier, and why. Called on the audit log's thread.
pub type Unsent = Arc<dyn Fn(DeviceId, u64, Refusal) + Send + Sync>;

/// Told whether what has this number is on the disk. Called on the audit log's thread.
pub type Written = Arc<dyn Fn(u64, bool) + Send + Sync>;

/// What is told of what was to be written or sent.
#[derive(Clone)]
pub struct Tells {
    /// Of commands that were not sent.
    pub unsent: Unsent,
    /// Of what waits for the disk.
    pub written: Written,
    /// The log of the core that this node leads: no command goes out that it has no record of, so none of a node that leads no longer.
    pub fence: Option<Fence>,
}

/// What a command of a core with standbys must pass.
#[derive(Clone)]
pub struct Fence(pub Arc<dyn Replicate>);

impl Fence {
    /// Whether the node may still lead; known at once, and true for a while after it does not any longer.
    fn may_lead(&self) -> bool {
        self.0.leads()
    }

    /// Whether this node leads: the log has taken a record of so many commands. It waits for that.
    fn lets(&self, commands: usize) -> bool {
        self.0.replicate(ReplicaKind::Commands, commands.to_string().as_bytes()).is_ok()
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fence")
    }
}

/// Where a device is served, and what it is called.
#[derive(Clone, Debug)]
struct Place {
    shard: usize,
    topic: Topic,
    revision: u32,
}

impl Place {
    fn of(Numbered { config, revision, .. }: &Numbered, shard: usize) -> Self {
        Self { shard, topic: config.topic.clone(), revision: *revision }
    }
}

/// The engine with its surroundings. `A` is what comes back with what became of a request.
pub struct Commands<A> {
    coordinator: Resting,
    audit: AuditLog,
    /// Calls under way, by their numbers.
    open: HashMap<u64, Open<A>>,
    done: VecDeque<(A, Done)>,
    next_call: u64,
    durability: Durability<A>,
    holders: Holders,
    /// Points whose reading is one of four states.
    double_bits: HashSet<Topic>,
    places: HashMap<DeviceId, Place>,
    /// How long a reading may take that confirms a command.
    confirm_within: Duration,
    /// The lease of reservations of holders without a session; zero: they have none.
    lease: Duration,
    senders: Vec<CommandSender>,
    tells: Tells,
    /// From a request to its result.
    durations: Histogram,
    /// Points whose commands have ended, and whether well, where somebody wants to know.
    ended: Option<Vec<(Topic, bool)>>,
}

impl<A> std::fmt::Debug for Commands<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commands").field("stats", &self.coordinator.stats()).finish_non_exhaustive()
    }
}

impl<A> Commands<A> {
    /// The commandable points of all devices, each with the shard that it is served on.
    ///
    /// # Errors
    /// Two points have one topic, or a point contradicts itself.
    pub fn new<'a>(
        config: &Config,
        devices: impl IntoIterator<Item = (&'a Numbered, usize)>,
        audit: AuditLog,
        tells: Tells,
    ) -> Result<Self, PointError> {
        let mut coordinator = Coordinator::new(points::limits_of(config), 1);
        let (mut places, mut double_bits) = (HashMap::new(), HashSet::new());
        for (device, shard) in devices {
            double_bits.extend(points::double_bits_of(&device.config));
            places.insert(device.id, Place::of(device, shard));
            points::add_device(&mut coordinator, device, config.control.confirm_within)?;
        }
        Ok(Self {
            coordinator: Resting::new(coordinator),
            audit,
            open: HashMap::new(),
            done: VecDeque::new(),
            next_call: 1,
            durability: Durability::default(),
            holders: Holders::default(),
            double_bits,
            places,
            confirm_within: config.control.confirm_within,
            lease: config.control.lease,
            senders: Vec::new(),
            tells,
            durations: Histogram::default(),
            ended: None,
        })
    }

    /// Gives what sends to each field shard, by its number.
    pub fn set_senders(&mut self, senders: Vec<CommandSender>) {
        self.senders = senders;
    }

    /// How long commands took that were not refused.
    #[must_use]
    pub const fn durations(&self) -> &Histogram {
        &self.durations
    }

    /// What the engine counted.
    #[must_use]
    pub fn stats(&self) -> CoordinatorStats {
        self.coordinator.stats()
    }

    /// Reservations, overrides and points.
    #[must_use]
    pub const fn coordinator(&self) -> &Coordinator {
        self.coordinator.engine()
    }

    /// What reads the audit log.
    #[must_use]
    pub fn audit(&self) -> AuditReader {
        self.audit.reader()
    }

    /// What the files of the audit log came to.
    #[must_use]
    pub fn audit_files(&self) -> FileCounts {
        self.audit.files()
    }

    /// Why no record can be written, so that no command goes out; none while they can.
    #[must_use]
    pub fn audit_trouble(&self) -> Option<String> {
        self.audit.trouble()
    }

    /// How long the record has been on its way to the disk that is; zero where none is.
    #[must_use]
    pub fn audit_under_way(&self) -> Duration {
        self.audit.under_way()
    }

    /// Takes a request for one point; `answer` comes back once, with what became of it. It does not wait for another
    /// command of the point.
    pub fn request(&mut self, now: Now, request: CommandRequest, topic_exists: bool, by: &Call, answer: A) {
        self.coordinator.handle_holder_here(now.mono, &by.requester);
        let CommandRequest { topic, value, mode, timeout, requester: _ } = request;
        let expected = self.expected(&topic, &value);
        let entries = vec![BatchEntry { topic, topic_exists, action: Action::Set { value, mode } }];
        let batch = Batch { is_single: true, ..self.batch(by, entries, timeout, false) };
        let id = batch.id;
        match self.coordinator.handle_batch(now, batch) {
            Ok(()) => drop(self.open.insert(id, Open::Command(answer, expected))),
            Err(refusal) => {
                let done = CommandDone { outcome: Err(refusal), expected: None, elapsed: Duration::ZERO };
                self.done.push_back((answer, Done::Command(done)));
            }
        }
    }

    /// Takes a call for many points; `answer` comes back once, with what became of each.
    pub fn call(
        &mut self,
        now: Now,
        entries: Vec<BatchEntry>,
        (timeout, confirm): (Option<Duration>, bool),
        by: &Call,
        answer: A,
    ) {
        self.coordinator.handle_holder_here(now.mono, &by.requester);
        let topics = entries.iter().map(|entry| entry.topic.clone()).collect();
        let batch = self.batch(by, entries, timeout, confirm);
        let id = batch.id;
        match self.coordinator.handle_batch(now, batch) {
            Ok(()) => drop(self.open.insert(id, Open::Points(answer, Called::new(topics)))),
            Err(refusal) => self.done.push_back((answer, Done::Points(Err(refusal)))),
        }
    }

    /// What a call would do. Nothing is sent or written down.
    #[must_use]
    pub fn dry_run(&self, now: Now, entries: Vec<BatchEntry>, by: &Call) -> Vec<DryRun> {
        let (requester, who) = (Arc::clone(&by.requester), Arc::clone(&by.who));
        let batch = Batch { id: 0, requester, who, entries, timeout: None, confirm: false, is_single: false };
        self.coordinator.dry_run(now, &batch)
    }

    /// Asks for time at devices; answered once it is on the disk. With the client of a session, the holder ends with it.
    pub fn reserve(&mut self, now: Now, asked: &NewSchedule, by: &Call, session: Option<&Arc<str>>, answer: A) {
        self.coordinator.handle_holder_here(now.mono, &by.requester);
        let result = self.coordinator.request_schedule(now, asked, &by.who);
        if !result.is_success() {
            return self.done.push_back((answer, Done::Reservation(result)));
        }
        let task = asked.task.clone().unwrap_or_default();
        tracing::info!(requester = &*by.requester, task, "devices are reserved");
        if let Some(client) = session {
            self.holders.bind(client, &by.requester);
        }
        let undo = Undo::Reservation { requester: Arc::clone(&by.requester), task };
        self.send(now, Some((answer, Done::Reservation(result), undo)));
    }

    /// The lease of a reservation that does not say its own: of a holder without a session, whose end nobody would see.
    #[must_use]
    pub fn default_lease(&self, has_session: bool) -> Option<Duration> {
        (!has_session && !self.lease.is_zero()).then_some(self.lease)
    }

    /// Renews the leases of the caller, which has this task.
    pub fn renew(&mut self, now: Now, task: &str, by: &Call, answer: A) {
        let result = self.coordinator.renew_schedule(now, &by.requester, task);
        self.done.push_back((answer, Done::Reservation(result)));
    }

    /// Cancels a task of the caller, or where it is forced of anybody.
    pub fn cancel(&mut self, now: Now, task: &str, by: &Call, is_forced: bool, answer: A) {
        self.coordinator.handle_holder_here(now.mono, &by.requester);
        let owner = self.coordinator.schedule().owner_of(task).filter(|_| is_forced);
        let requester = owner.map_or_else(|| Arc::clone(&by.requester), |owner| Arc::clone(&owner.requester));
        let result = self.coordinator.cancel_schedule(now, Some(&requester), Some(task), &by.who);
        if !result.is_success() {
            return self.done.push_back((answer, Done::Reservation(result)));
        }
        tracing::info!(requester = &*requester, task, who = &*by.who, "a reservation is cancelled");
        self.send(now, Some((answer, Done::Reservation(result), Undo::Nothing)));
    }

    /// Sets an override on; answered once it is on the disk.
    pub fn set_override_on(&mut self, now: Now, asked: &NewOverride, answer: A) {
        match self.coordinator.set_override_on(now, asked) {
            Ok(()) => {
                tracing::warn!(pattern = asked.pattern.as_str(), who = &*asked.who, "an override is on");
                let undo = Undo::Override(asked.pattern.clone());
                self.send(now, Some((answer, Done::Override(Ok(())), undo)));
            }
            Err(refusal) => self.done.push_back((answer, Done::Override(Err(refusal)))),
        }
    }

    /// Sets an override off, or all of them.
    pub fn set_override_off(&mut self, now: Now, pattern: Option<&Pattern>, by: &Call, answer: A) {
        let off = match pattern {
            Some(pattern) => self.coordinator.set_override_off(now, pattern, &by.who),
            None => {
                self.coordinator.clear_overrides(now, &by.who);
                Ok(())
            }
        };
        match off {
            Ok(()) => {
                let pattern = pattern.map_or("all", Pattern::as_str);
                tracing::info!(pattern, who = &*by.who, "an override is off");
                self.send(now, Some((answer, Done::Override(Ok(())), Undo::Nothing)));
            }
            Err(refusal) => self.done.push_back((answer, Done::Override(Err(refusal)))),
        }
    }

    /// What one report says. A command whose device is lost after its outcome has that outcome, so links come last.
    pub fn handle_report(
        &mut self,
        now: Now,
        outcomes: Vec<(DeviceId, u64, CommandOutcome)>,
        links: Vec<(DeviceId, bool)>,
    ) {
        for (device, command_id, outcome) in outcomes {
            self.handle_outcome(now, device, command_id, outcome);
        }
        for (device, up) in links {
            self.handle_link(now, device, up);
        }
    }

    /// A device can, or cannot, be commanded.
    fn handle_link(&mut self, now: Now, device: DeviceId, up: bool) {
        self.coordinator.handle_link(now, device, up);
    }

    /// From here on, [`Commands::take_ended`] has the ends of commands.
    pub fn watch_ends(&mut self) {
        self.ended.get_or_insert_default();
    }

    /// Points whose commands have ended since the last call, and whether the device carried them out.
    pub fn take_ended(&mut self) -> Vec<(Topic, bool)> {
        self.ended.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether a reading of a topic is of any use to [`Commands::handle_reading`].
    #[must_use]
    pub fn watches(&self, topic: &str) -> bool {
        self.coordinator.watches(topic)
    }

    /// Takes a reading, in engineering units.
    pub fn handle_reading(&mut self, now: Now, topic: &Topic, reading: &Point) {
        // While it rests no command waits for a reading: it is kept, and nothing follows from it.
        let rests = self.coordinator.rests(now.mono);
        let engine = if rests { self.coordinator.engine_at_rest() } else { &mut *self.coordinator };
        engine.handle_reading(now, topic, reading);
    }

    /// Writes a record down that is of no command.
    pub fn note(&mut self, line: AuditLine) {
        self.audit.append(vec![line], None, None);
    }

    /// Writes records of a command of another node down, and calls `afterwards` once they are on the disk and this node may send it, or
    /// not; false where they are not taken.
    pub fn note_before(&mut self, lines: Vec<AuditLine>, afterwards: Afterwards) -> bool {
        let fence = self.tells.fence.clone();
        let afterwards = move |durable: bool| afterwards(durable && fence.is_none_or(|fence| fence.lets(1)));
        self.audit.append(lines, None, Some(Box::new(afterwards)))
    }

    /// What became of a command.
    pub fn handle_outcome(&mut self, now: Now, device: DeviceId, command_id: u64, outcome: CommandOutcome) {
        self.coordinator.handle_outcome(now, device, CommandId(command_id), outcome);
    }

    /// When [`Commands::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        [self.coordinator.timeout(), self.durability.timeout()].into_iter().flatten().min()
    }

    /// Whether nothing is due, under way or to be told: [`Commands::handle_timeout`], [`Commands::poll_done`] and
    /// [`Commands::poll_notice`] would do nothing.
    #[must_use]
    pub fn rests(&self, now: Instant) -> bool {
        self.coordinator.rests(now)
    }

    /// Lets deadlines take effect.
    pub fn handle_timeout(&mut self, now: Now) {
        self.coordinator.handle_timeout(now);
    }

    fn batch(&mut self, by: &Call, entries: Vec<BatchEntry>, timeout: Option<Duration>, confirm: bool) -> Batch {
        let id = self.next_call;
        self.next_call += 1;
        let (requester, who) = (Arc::clone(&by.requester), Arc::clone(&by.who));
        Batch { id, requester, who, entries, timeout, confirm, is_single: false }
    }

    /// What a reading of the point shows once it has the value.
    fn expected(&self, topic: &Topic, value: &Value) -> Option<Value> {
        let point = self.coordinator.point(topic)?;
        Some(self.as_read(topic, point.value_after(&point.command(value, None).ok()?)?))
    }

    /// A value as a reading of the point has it.
    fn as_read(&self, topic: &Topic, value: Value) -> Value {
        match value {
            Value::Bool(on) if self.double_bits.contains(topic) => Value::Int(if on { DOUBLE_ON } else { DOUBLE_OFF }),
            other => other,
        }
    }
}
