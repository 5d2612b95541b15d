//! What must be true of every run.
//!
//! The model sits at both ends: it owns both machines, knows each update and each command, and reads the messages of
//! the outstation to know which events a confirm is for. It knows nothing of how the machines work.

use crate::Owner;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use tieline_core::{Instant, Now};
use tieline_dnp3::app::{CommandStatus, Found, Fragment, Function, Walk};
use tieline_dnp3::endpoint::{Endpoint, EndpointConfig, Received, Role};
use tieline_dnp3::lean::{LeanConfig, Side};
use tieline_dnp3::link::LinkAddress;
use tieline_dnp3::master::{Master, MasterEvent, OfflineReason, TaskOutcome};
use tieline_dnp3::outstation::{ControlHandler, Operate, Outstation, OutstationEvent};
use tieline_dnp3::{Control, Iin, Measured, Measurement, PointType};

/// Points of each type: two of each class.
pub const POINTS: u16 = 6;
/// Types with points.
pub const TYPES: [PointType; 2] = [PointType::Analog, PointType::Counter];
/// Outputs that commands go to.
pub const OUTPUTS: u16 = 4;

/// A point among all, and its class 0..=2.
pub fn place(point_type: PointType, index: u16) -> (usize, usize) {
    let base = if point_type == TYPES[0] { 0 } else { POINTS };
    (usize::from(base + index), usize::from(index % 3))
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The outstation has it, or dropped it.
    Waiting,
    /// The outstation had the confirm.
    Confirmed,
    /// The device restarted.
    Wiped,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    class: usize,
    point: usize,
    fate: Fate,
    given: u32,
    stored: bool,
}

/// A command of the owner.
#[derive(Clone, Copy, Debug)]
struct Task {
    executed: u32,
    outcome: Option<TaskOutcome>,
    /// The master that had it is gone.
    orphaned: bool,
}

/// What the outputs have done, by the `on_ms` of each command, which names it.
#[derive(Clone, Debug, Default)]
pub struct Outputs(Arc<Mutex<Vec<u32>>>);

impl Outputs {
    /// The commands executed since the last call.
    #[must_use = "they are forgotten"]
    pub fn taken(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the application refuses a command.
    const fn refuses(token: u32) -> bool {
        token % 5 == 4
    }
}

impl ControlHandler for Outputs {
    fn select(&mut self, _index: u16, _control: &Control) -> CommandStatus {
        CommandStatus::Success
    }

    fn operate(&mut self, _index: u16, control: &Control, _how: Operate) -> CommandStatus {
        let Control::Crob(crob) = control else { return CommandStatus::NotSupported };
        if Self::refuses(crob.on_ms) {
            return CommandStatus::HardwareError;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(crob.on_ms);
        CommandStatus::Success
    }
}

/// What is expected, and the first thing that was not.
#[derive(Debug)]
pub struct Model {
    records: Vec<Record>,
    /// Given and not yet stored.
    unstored: Vec<usize>,
    /// Of each class, and of each type in it, the last event that was stored for the first time.
    last_stored: [[Option<usize>; 3]; 3],
    /// The owner reads one type of events alone, which parts the order of a class into those of its types.
    pub reads_types: bool,
    /// Of each point, the last number given, and the last one the device has.
    image: Vec<Option<u32>>,
    actual: Vec<u32>,
    tasks: Vec<Task>,
    /// What the outputs do.
    pub outputs: Outputs,
    /// Events that the outstation reports having dropped.
    dropped: u64,
    /// Some were dropped, and the master has not been told since.
    untold_drop: bool,
    /// The events of the last response that awaits a confirm: solicited, unsolicited.
    awaiting: [(u8, Vec<usize>); 2],
    /// Reads what the outstation sends, and what it is fed.
    sent: Endpoint,
    fed: Endpoint,
    /// How many confirms it had taken before it was fed.
    confirms_before: u64,
    /// The owner was told so.
    pub is_ready: bool,
    /// Values given, of all kinds.
    pub given: u64,
    /// Some event came twice.
    pub repeated: u64,
    /// Since when the owner holds a confirm.
    pub holds: bool,
    /// The first thing that is wrong.
    pub wrong: Option<String>,
    /// What happened, if it is to be told.
    pub trace: Option<String>,
    /// The present time.
    pub now: Now,
}

impl Model {
    /// Nothing has happened.
    #[must_use]
    pub fn new(is_told: bool) -> Self {
        let points = usize::from(POINTS) * TYPES.len();
        let (sent, fed) = listeners();
        Self {
            records: Vec::new(),
            unstored: Vec::new(),
            last_stored: [[None; 3]; 3],
            reads_types: false,
            image: vec![None; points],
            actual: vec![0; points],
            tasks: Vec::new(),
            outputs: Outputs::default(),
            dropped: 0,
            untold_drop: false,
            awaiting: Default::default(),
            sent,
            fed,
            confirms_before: 0,
            is_ready: false,
            given: 0,
            repeated: 0,
            holds: false,
            wrong: None,
            trace: is_told.then(String::new),
            now: Now::default(),
        }
    }

    /// Tells what happens.
    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let micros = self.now.mono.since(Instant::ZERO).as_micros();
            let _ = writeln!(trace, "{:>6}.{:06} {}", micros / 1_000_000, micros % 1_000_000, what());
        }
    }

    /// Notes the first thing that is wrong.
    pub fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            let what = what();
            self.tell(|| format!("WRONG: {what}"));
            self.wrong = Some(what);
        }
    }

    /// The next value of a point: its number among all events.
    pub fn update(&mut self, point_type: PointType, index: u16) -> u32 {
        let (point, class) = place(point_type, index);
        self.records.push(Record { class, point, fate: Fate::Waiting, given: 0, stored: false });
        let number = u32::try_from(self.records.len()).expect("a few hundred");
        self.actual[point] = number;
        number
    }

    /// The present value of a point.
    #[must_use]
    pub fn actual(&self, point_type: PointType, index: u16) -> u32 {
        self.actual[place(point_type, index).0]
    }

    /// A command of the owner; returns its token.
    pub fn command(&mut self) -> u32 {
        self.tasks.push(Task { executed: 0, outcome: None, orphaned: false });
        u32::try_from(self.tasks.len() - 1).expect("a few hundred")
    }

    /// The master did not take the last command.
    pub fn refused_to_submit(&mut self) {
        self.tasks.pop();
    }

    /// The device forgets its events.
    pub fn device_restarts(&mut self) {
        for record in self.records.iter_mut().filter(|record| record.fate == Fate::Waiting) {
            record.fate = Fate::Wiped;
        }
        self.awaiting = Default::default();
        // The integrity poll that follows a restart brings what was lost.
        self.untold_drop = false;
        self.outstation_disconnected();
    }

    /// Reads what goes over a connection that begins as its two ends do: in link frames, or in lean messages once
    /// they agree on them.
    pub fn outstation_connected(&mut self, outstation: &Outstation) {
        (self.sent, self.fed) = listeners();
        for (listener, side) in [(&mut self.sent, Side::Offers), (&mut self.fed, Side::Accepts)] {
            listener.set_lean(outstation.config().lean.map(|lean| LeanConfig { side, ..lean }));
            listener.handle_connected(self.now.mono);
            // An end whose peer offers nothing hears frames after its own offer.
            listener.poll_transmit(&mut Vec::new());
        }
    }

    /// Partial frames are forgotten.
    pub fn outstation_disconnected(&mut self) {
        self.sent.reset();
        self.fed.reset();
        self.awaiting = Default::default();
    }

    /// The process of the master dies: what was not stored is gone, and so is who waits for a command.
    pub fn master_dies(&mut self) {
        self.unstored.clear();
        self.image.fill(None);
        (self.is_ready, self.holds) = (false, false);
        self.tasks.iter_mut().filter(|task| task.outcome.is_none()).for_each(|task| task.orphaned = true);
    }

    /// What was given is safe.
    pub fn store(&mut self) {
        for at in std::mem::take(&mut self.unstored) {
            let record = self.records[at];
            if record.stored {
                continue;
            }
            self.records[at].stored = true;
            let of_type = 1 + record.point / usize::from(POINTS);
            let of_class = if self.reads_types { None } else { Some(0) };
            for order in of_class.into_iter().chain([of_type]) {
                let last = self.last_stored[record.class][order].replace(at);
                self.require(last.is_none_or(|last| last < at), || {
                    format!("event {} of class {} came after {:?}", at + 1, record.class + 1, last.map(|last| last + 1))
                });
            }
        }
        self.holds = false;
    }

    /// What the outputs and counters say, after each turn of the outstation.
    pub fn watch(&mut self, outstation: &Outstation, dropped_before: u64) {
        for token in self.outputs.taken() {
            self.tell(|| format!("output executes command {token}"));
            let at = usize::try_from(token).expect("small");
            self.tasks[at].executed += 1;
            let task = self.tasks[at];
            self.require(task.executed == 1, || format!("command {token} was executed {} times", task.executed));
            let ended = task.outcome.is_some_and(|outcome| !outcome.maybe_operated());
            self.require(!ended, || format!("command {token} was executed after {:?}", task.outcome));
        }
        let stats = outstation.stats();
        let limits = outstation.config().event_limits;
        let most: u64 = TYPES.iter().map(|t| u64::from(limits.of(*t))).sum();
        self.require(stats.events_waiting <= most, || format!("{} events wait, {most} may", stats.events_waiting));
        if dropped_before + stats.events_dropped > self.dropped {
            self.dropped = dropped_before + stats.events_dropped;
            self.untold_drop = true;
        }
    }

    /// Everything has ended well, for a run that is over.
    pub fn finish(&mut self, master: &Master, is_calm: bool) {
        let lost: Vec<usize> = (0..self.records.len()).filter(|at| !self.records[*at].stored).collect();
        let unexplained = lost.iter().filter(|at| self.records[**at].fate != Fate::Wiped).count() as u64;
        let dropped = self.dropped;
        self.require(unexplained <= dropped, || {
            let numbers: Vec<usize> = lost.iter().map(|at| at + 1).collect();
            format!("events {numbers:?} were lost; {dropped} were dropped")
        });
        let untold = self.untold_drop;
        self.require(!untold, || "events were dropped and IIN2.3 never told it".into());
        for at in 0..self.actual.len() {
            let (image, actual) = (self.image[at], self.actual[at]);
            self.require(image == Some(actual), || format!("point {at} is {actual}, the owner has {image:?}"));
        }
        for token in 0..self.tasks.len() {
            let task = self.tasks[token];
            self.check_task(token, task);
        }
        let repeated = self.repeated;
        self.require(!is_calm || repeated == 0, || format!("{repeated} events came twice over a clean link"));
        self.require(master.is_online(), || "the session is not online at the end".into());
    }

    fn check_task(&mut self, token: usize, task: Task) {
        self.require(task.orphaned || task.outcome.is_some(), || format!("command {token} has no outcome"));
        let Some(outcome) = task.outcome else { return };
        let truthful = match task.executed {
            0 => outcome != TaskOutcome::Done,
            _ => outcome == TaskOutcome::Done || outcome.maybe_operated(),
        };
        self.require(truthful, || format!("command {token} executed {} times, outcome {outcome:?}", task.executed));
    }

    /// Whether no command waits.
    #[must_use]
    pub fn has_no_tasks(&self) -> bool {
        self.tasks.iter().all(|task| task.orphaned || task.outcome.is_some())
    }

    fn handle_measurement(&mut self, measurement: &Measurement, is_event: bool) {
        self.given += 1;
        let number = match measurement.value {
            Measured::Analog(value) => value.to_string().parse().ok(),
            Measured::Count(count) => Some(count),
            _ => return,
        };
        let Some(number) =
            number.filter(|number: &u32| usize::try_from(*number).is_ok_and(|n| n <= self.records.len()))
        else {
            return self.require(false, || format!("{measurement:?} was never so"));
        };
        let (point, _) = place(measurement.point_type, measurement.index);
        self.image[point] = Some(number);
        let Some(at) = usize::try_from(number).ok().and_then(|number| number.checked_sub(1)) else { return };
        let record = self.records[at];
        self.require(record.point == point, || format!("{measurement:?} is of another point"));
        if !is_event {
            return;
        }
        self.require(record.fate != Fate::Confirmed, || format!("event {number} was given after its confirm"));
        self.repeated += u64::from(record.given > 0);
        self.records[at].given += 1;
        self.unstored.push(at);
    }

    /// Remembers which events a fragment that asks for a confirm brings.
    fn note_sent(&mut self) {
        let Ok(fragment) = Fragment::parse(self.sent.fragment()) else { return };
        if !fragment.control.con {
            return;
        }
        let mut events = Vec::new();
        for (object, measurement) in Walk::new(fragment.objects).measurements() {
            if measurement.point_type.event_group() == object.group {
                events.extend(number_of(&measurement).and_then(|number| number.checked_sub(1)));
            }
        }
        let control = fragment.control;
        self.awaiting[usize::from(control.uns)] = (control.sequence.number(), events);
    }

    fn handle_outcome(&mut self, token: u64, outcome: TaskOutcome) {
        let Some(at) = usize::try_from(token).ok().filter(|at| *at < self.tasks.len()) else { return };
        let task = &mut self.tasks[at];
        let (executed, again) = (task.executed, task.outcome.replace(outcome).is_some());
        self.require(!again, || format!("command {token} ended twice"));
        let before = outcome != TaskOutcome::Done || executed == 1;
        self.require(before, || format!("command {token} is done and was executed {executed} times"));
    }
}

/// Tokens of reads begin here.
pub const READ_TOKENS: u64 = 1 << 32;

impl Owner<Master> for Model {
    fn event(&mut self, master: &mut Master, _now: Now, event: MasterEvent) {
        if !matches!(event, MasterEvent::Values { .. }) {
            self.tell(|| format!("master: {event:?}"));
        }
        match event {
            MasterEvent::Values { values, .. } => {
                for found in &values {
                    if let Found::Measurement { measurement, event, .. } = found {
                        self.handle_measurement(&measurement, event);
                    }
                }
            }
            MasterEvent::FragmentEnd { confirm_held: true, .. } => self.holds = true,
            MasterEvent::FragmentEnd { .. } if !self.holds => self.store(),
            MasterEvent::Ready => self.is_ready = true,
            MasterEvent::Restarted | MasterEvent::Offline(OfflineReason::Disconnected) => self.is_ready = false,
            MasterEvent::TaskDone { token, outcome } => self.handle_outcome(token, outcome),
            _ => {}
        }
        if master.indications().contains(Iin::EVENT_BUFFER_OVERFLOW) {
            self.untold_drop = false;
        }
    }

    fn sent(&mut self, bytes: &[u8]) {
        self.tell(|| format!("master sends {}", told(bytes)));
    }
}

impl Owner<Outstation> for Model {
    fn event(&mut self, _outstation: &mut Outstation, _now: Now, event: OutstationEvent) {
        self.tell(|| format!("outstation: {event:?}"));
    }

    fn feeds(&mut self, outstation: &Outstation) {
        self.confirms_before = outstation.stats().confirms;
    }

    /// Those confirms that it took are for the events that it sent last under their number.
    fn fed(&mut self, outstation: &Outstation, bytes: &[u8]) {
        let taken = outstation.stats().confirms - self.confirms_before;
        let awaited = |(uns, sequence): &(bool, u8)| self.awaiting[usize::from(*uns)].0 == *sequence;
        let matching: Vec<(bool, u8)> = confirms(&mut self.fed, bytes).into_iter().filter(awaited).collect();
        if taken != matching.len() as u64 {
            return;
        }
        for (uns, _) in matching {
            for at in std::mem::take(&mut self.awaiting[usize::from(uns)].1) {
                self.records[at].fate = Fate::Confirmed;
                let stored = self.records[at].stored;
                self.require(stored, || format!("event {} was confirmed before it was stored", at + 1));
            }
        }
    }

    fn sent(&mut self, bytes: &[u8]) {
        self.tell(|| format!("outstation sends {}", told(bytes)));
        let mut rest = bytes;
        while !rest.is_empty() {
            let (used, received) = self.sent.handle_input(rest);
            rest = &rest[used..];
            if used == 0 && received.is_none() {
                break;
            }
            if let Some(Received::Fragment { .. }) = received {
                self.note_sent();
                self.sent.release();
            }
        }
    }
}

/// Who reads what the outstation sends, as its master would, and what it is fed, as itself.
fn listeners() -> (Endpoint, Endpoint) {
    let listener = |role, local| Endpoint::new(EndpointConfig::new(role, LinkAddress::new(local)));
    (listener(Role::Master, 1), listener(Role::Outstation, 10))
}

/// The confirms among bytes that an outstation takes.
fn confirms(listener: &mut Endpoint, bytes: &[u8]) -> Vec<(bool, u8)> {
    let (mut rest, mut found) = (bytes, Vec::new());
    loop {
        let (used, received) = listener.handle_input(rest);
        rest = &rest[used..];
        // What it answers to an offer, its machine sends.
        while listener.poll_transmit(&mut Vec::new()) {}
        if received.is_none() && (used == 0 || rest.is_empty()) {
            return found;
        }
        if let Ok(fragment) = Fragment::parse(listener.fragment())
            && fragment.function == Function::Confirm
        {
            found.push((fragment.control.uns, fragment.control.sequence.number()));
        }
        if let Some(Received::Fragment { .. }) = received {
            listener.release();
        }
    }
}

fn number_of(measurement: &Measurement) -> Option<usize> {
    match measurement.value {
        Measured::Analog(value) => value.to_string().parse().ok(),
        Measured::Count(count) => usize::try_from(count).ok(),
        _ => None,
    }
}

/// A message as the dissector tells it.
fn told(bytes: &[u8]) -> String {
    let (mut dissector, mut entries) = (tieline_dnp3::dissect::Dissector::new(), Vec::new());
    dissector.stream(bytes, &mut entries);
    dissector.finish(&mut entries);
    let lines: Vec<String> = entries.iter().map(ToString::to_string).collect();
    lines.join(" | ").replace('\n', "; ")
}
