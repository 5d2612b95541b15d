//! Control's column: a request is checked, written to the audit log, sent, and answered.
//!
//! ```text
//! request ─▶ control engine ── command ─▶ audit log (durable) ─▶ field shard ─▶ device
//!    ▲                                                                           │
//!    └────────────── answer ◀── control engine ◀── outcome ◀─────────────────────┘
//! ```
//!
//! A command whose records cannot be written is not sent.

pub mod audit;
pub mod command;

use self::audit::{AuditLine, AuditLog, AuditReader, FileCounts};
use self::command::{CommandDone, CommandRequest};
use crate::config::{CommandConfig, ControlConfig, DeviceConfig, Numbered, PointConfig, Takes, ValueKind};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tieline_control::{
    Accepts, AuditRecord, CommandId, Control, ControlPoint, Dispatch, Limits, Modes, PointError, Request, Scaling,
    Stats,
};
use tieline_core::{CommandOutcome, DeviceId, Instant, Now, PointId, Refusal, Topic, Value};

/// How a double-bit input shows that it is off (IEEE 1815 group 3).
const DOUBLE_OFF: i64 = 1;
/// How it shows that it is on.
const DOUBLE_ON: i64 = 2;

/// Sends a command to the shard of its device, with the revision of the configuration that it was made by; false where the
/// shard has ended. Called on the audit log's thread.
pub type CommandSender = Arc<dyn Fn(Dispatch, u32) -> bool + Send + Sync>;

/// Told of a command that was not sent: its device, its identifier, and why. Called on the audit log's thread.
pub type Unsent = Arc<dyn Fn(DeviceId, u64, Refusal) + Send + Sync>;

/// Where a device is served, and what it is called.
#[derive(Clone, Debug)]
struct Place {
    shard: usize,
    topic: Topic,
    revision: u32,
}

/// Devices whose commands change.
#[derive(Clone, Debug, Default)]
pub struct DeviceChange {
    /// Those that are no more.
    pub removed: HashSet<DeviceId>,
    /// Those that are new, or have another configuration, with their shards.
    pub changed: Vec<(Numbered, usize)>,
}

/// The engine with its surroundings. `A` is what comes back with what became of a request.
pub struct Commands<A> {
    control: Control,
    audit: AuditLog,
    /// With what the topic shows once it is done.
    answers: HashMap<u64, (A, Option<Value>)>,
    /// Points whose reading is one of four states.
    double_bits: HashSet<Topic>,
    done: VecDeque<(A, CommandDone)>,
    next_request: u64,
    places: HashMap<DeviceId, Place>,
    senders: Vec<CommandSender>,
    unsent: Unsent,
}

impl<A> std::fmt::Debug for Commands<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commands").field("stats", &self.control.stats()).finish_non_exhaustive()
    }
}

impl<A> Commands<A> {
    /// The commandable points of all devices, each with the shard that it is served on.
    ///
    /// # Errors
    /// Two points have one topic, or a point contradicts itself.
    pub fn new<'a>(
        config: &CommandConfig,
        devices: impl IntoIterator<Item = (&'a Numbered, usize)>,
        audit: AuditLog,
        unsent: Unsent,
    ) -> Result<Self, PointError> {
        let limits = Limits { timeout: config.timeout, device_queue_max: config.queue_max, ..Limits::default() };
        let mut control = Control::new(limits, 1);
        let (mut places, mut double_bits) = (HashMap::new(), HashSet::new());
        for (Numbered { id, config, revision, .. }, shard) in devices {
            double_bits.extend(double_bits_of(config));
            let place = Place { shard, topic: config.topic.clone(), revision: *revision };
            places.insert(*id, place);
            for point in points_of(*id, config) {
                control.add_point(point)?;
            }
        }
        let (answers, done) = (HashMap::new(), VecDeque::new());
        let senders = Vec::new();
        Ok(Self { control, audit, answers, double_bits, done, next_request: 1, places, senders, unsent })
    }

    /// Whether devices can have other points.
    ///
    /// # Errors
    /// Two points have one topic, a point contradicts itself, or there are too many.
    pub fn check_devices(&self, change: &DeviceChange) -> Result<(), PointError> {
        self.control.check_points(&change.ids(), &change.points())
    }

    /// Devices have other points, or are no more: what waits for a point that has changed is not sent, and what is out at a
    /// device that is no more may have been carried out.
    ///
    /// # Errors
    /// As of [`Commands::check_devices`]; nothing has changed then.
    pub fn change_devices(&mut self, now: Now, change: DeviceChange) -> Result<(), PointError> {
        self.control.replace_points(now, &change.ids(), change.points())?;
        self.control.forget_devices(now, change.removed.iter().copied());
        for device in &change.removed {
            self.places.remove(device);
        }
        for (Numbered { id, config, revision, .. }, shard) in &change.changed {
            let place = Place { shard: *shard, topic: config.topic.clone(), revision: *revision };
            self.places.insert(*id, place);
            self.double_bits.extend(double_bits_of(config));
            let others = config.points.iter().filter(|point| point.kind != ValueKind::DoubleBit);
            for topic in others.filter_map(|point| config.topic.join(&point.name).ok()) {
                self.double_bits.remove(&topic);
            }
        }
        Ok(())
    }

    /// Gives what sends to each field shard, by its number.
    pub fn set_senders(&mut self, senders: Vec<CommandSender>) {
        self.senders = senders;
    }

    /// What the engine counted.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.control.stats()
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

    /// Takes a request; `answer` comes back once, with what became of it.
    pub fn request(&mut self, now: Now, request: CommandRequest, topic_exists: bool, who: &str, answer: A) {
        let id = self.next_request;
        self.next_request += 1;
        let CommandRequest { topic, value, mode, timeout } = request;
        let expected = self.expected(&topic, &value);
        let request = Request { id, topic, topic_exists, value, mode, timeout, who: Arc::from(who) };
        match self.control.handle_request(now, request) {
            Ok(()) => drop(self.answers.insert(id, (answer, expected))),
            Err(refusal) => {
                let done = CommandDone { outcome: Err(refusal), expected: None, elapsed: Duration::ZERO };
                self.done.push_back((answer, done));
            }
        }
    }

    /// A device can, or cannot, be commanded.
    pub fn handle_link(&mut self, now: Now, device: DeviceId, up: bool) {
        self.control.handle_link(now, device, up);
    }

    /// Writes a record down that is of no command.
    pub fn note(&mut self, line: AuditLine) {
        self.audit.append(vec![line], None);
    }

    /// What became of a command.
    pub fn handle_outcome(&mut self, now: Now, device: DeviceId, command_id: u64, outcome: CommandOutcome) {
        self.control.handle_outcome(now, device, CommandId(command_id), outcome);
    }

    /// Lets deadlines take effect.
    pub fn handle_timeout(&mut self, now: Now) {
        self.control.handle_timeout(now);
    }

    /// When [`Commands::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.control.timeout()
    }

    /// Sends what is due, and gives the next answer.
    pub fn poll_done(&mut self, now: Now) -> Option<(A, CommandDone)> {
        self.send(now);
        while let Some(done) = self.control.poll_done() {
            if let Some((answer, expected)) = self.answers.remove(&done.request) {
                let done = CommandDone { outcome: done.outcome, expected, elapsed: done.elapsed };
                self.done.push_back((answer, done));
            }
        }
        self.done.pop_front()
    }

    /// What a reading of the point shows once it has the value.
    fn expected(&self, topic: &Topic, value: &Value) -> Option<Value> {
        let point = self.control.point(topic)?;
        let shown = point.value_after(&point.command(value, None).ok()?);
        Some(match shown {
            Value::Bool(on) if self.double_bits.contains(topic) => Value::Int(if on { DOUBLE_ON } else { DOUBLE_OFF }),
            other => other,
        })
    }

    fn send(&mut self, now: Now) {
        let dispatches: Vec<Dispatch> = std::iter::from_fn(|| self.control.poll_command(now)).collect();
        let records: Vec<AuditRecord> = std::iter::from_fn(|| self.control.poll_audit()).collect();
        let lines: Vec<AuditLine> = records.iter().map(|record| self.line(record)).collect();
        if dispatches.is_empty() && lines.is_empty() {
            return;
        }
        let routed: Vec<(Dispatch, Option<Sent>)> =
            dispatches.iter().map(|dispatch| (dispatch.clone(), self.sender_of(dispatch.device))).collect();
        let unsent = Arc::clone(&self.unsent);
        let afterwards = move |durable| {
            routed.into_iter().for_each(|(dispatch, sender)| forward(dispatch, sender, durable, &unsent))
        };
        let afterwards: Option<audit::Afterwards> = (!dispatches.is_empty()).then(|| Box::new(afterwards) as _);
        if !self.audit.append(lines, afterwards) {
            for Dispatch { device, command_id, .. } in dispatches {
                self.control.handle_outcome(now, device, command_id, Err(no_audit()));
            }
        }
    }

    fn sender_of(&self, device: DeviceId) -> Option<Sent> {
        let place = self.places.get(&device)?;
        Some((self.senders.get(place.shard).cloned()?, place.revision))
    }

    fn line(&self, record: &AuditRecord) -> AuditLine {
        let device = record.device.and_then(|device| self.places.get(&device));
        AuditLine {
            id: record.id,
            time: record.time.to_string(),
            who: record.who.to_string(),
            topic: record.topic.to_string(),
            device: device.map(|place| place.topic.to_string()).unwrap_or_default(),
            value: record.value.to_string(),
            mode: record.mode.map(|mode| mode.name().to_owned()).unwrap_or_default(),
            phase: record.phase.name().to_owned(),
            reason: record.reason.to_owned(),
            detail: record.detail.clone(),
        }
    }
}

/// What sends a command, and by which revision of a device's configuration it was made.
type Sent = (CommandSender, u32);

impl DeviceChange {
    fn ids(&self) -> BTreeSet<DeviceId> {
        self.removed.iter().copied().chain(self.changed.iter().map(|(device, _)| device.id)).collect()
    }

    fn points(&self) -> Vec<ControlPoint> {
        self.changed.iter().flat_map(|(device, _)| points_of(device.id, &device.config)).collect()
    }
}

/// Sends a command once its records are durable; on the audit log's thread.
fn forward(dispatch: Dispatch, sender: Option<Sent>, durable: bool, unsent: &Unsent) {
    let (device, command_id) = (dispatch.device, dispatch.command_id.0);
    if !sender.is_some_and(|(sender, revision)| durable && sender(dispatch, revision)) {
        unsent(device, command_id, no_audit());
    }
}

fn no_audit() -> Refusal {
    let detail = "the audit log cannot be written, and no command goes out without its record".to_owned();
    Refusal::new("no_audit", detail)
}

fn points_of(device: DeviceId, config: &DeviceConfig) -> impl Iterator<Item = ControlPoint> {
    config.points.iter().zip(0..).filter_map(move |(point, number)| {
        let control = point.control.as_ref()?;
        let topic = config.topic.join(&point.name).ok()?;
        let accepts = accepts(control, point);
        // The point list names the way that is taken where a request names none; a request may name the other.
        let modes = Modes { select: control.has_select, direct: true, preferred: control.mode };
        Some(ControlPoint { topic, device, point: PointId(number), accepts, modes })
    })
}

fn double_bits_of(config: &DeviceConfig) -> impl Iterator<Item = Topic> {
    let points = config.points.iter().filter(|point| point.kind == ValueKind::DoubleBit);
    points.filter_map(|point| config.topic.join(&point.name).ok())
}

fn accepts(control: &ControlConfig, point: &PointConfig) -> Accepts {
    let (scale, offset) = (point.scale, point.offset);
    let Some(range) = control.limits(scale, offset) else {
        let words = point.states.as_ref().map(|states| (states.off.clone(), states.on.clone()));
        return Accepts::Bool { invert: false, words };
    };
    let whole = matches!(control.takes, Takes::Number { whole: true, .. });
    Accepts::Float { min: *range.start(), max: *range.end(), scaling: Scaling { scale, offset, whole } }
}
