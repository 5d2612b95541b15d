//! One BACnet device: its polls, its commands, and what its answers mean.

use super::link::Link;
use super::parts::{Part, Plan, Wanted};
use super::past::Past;
use super::site::Member;
use super::values::{is_lasting, reading, refusal_of, refused, to_write};
use crate::config::{BacnetConfig, Numbered, PointConfig};
use crate::field::driver::{DeviceSession, Reporter};
use crate::field::lanes::Lane;
use crate::field::positions::Positions;
use crate::field::presence::Presence;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::{Rc, Weak};
use tieline_bacnet::client::{Failure, RequestError};
use tieline_bacnet::device::{DeviceEvent, JobId};
use tieline_bacnet::service::Write;
use tieline_bacnet::{ObjectId, PropertyRef, Value as Wire};
use tieline_core::{Command, CommandOutcome, DeviceId, Instant, Now, PointId, Reading, Refusal, Topic};
use tieline_poll::{PollClass, PollResult};

/// Datagrams of a request in a row that stay unanswered, and the device is away.
const SILENT_MAX: u32 = 3;

/// The results of a read, each with its property.
type Results = [(PropertyRef, Result<Wire, Failure>)];

/// What a job is for.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// A part of a poll.
    Part(Part),
    /// A command.
    Command(u64, PointId),
    /// The point of a command that was done, so that its new value is seen at once.
    ReadBack(Rc<[Wanted]>),
    /// What says whether the device has restarted.
    Marks,
    /// The clock of the device, and what its trend logs log.
    PastClock,
    /// Records of a trend log.
    Log,
}

/// A device on its socket.
pub(super) struct BacnetDevice {
    pub(super) topic: Topic,
    pub(super) link: Link,
    pub(super) member: Member,
    pub(super) config: BacnetConfig,
    pub(super) plan: Plan,
    parts: RefCell<Vec<Part>>,
    /// The parts must be planned again.
    pub(super) is_changed: Cell<bool>,
    /// What is under way, which is little.
    tasks: RefCell<Vec<(JobId, Task)>>,
    /// What the device does not have: it is not asked again until it has changed.
    absent: RefCell<HashSet<Wanted>>,
    /// Points of which a refusal is in the log.
    pub(super) noted: RefCell<HashSet<u32>>,
    /// By object.
    pub(super) told: HashMap<ObjectId, Vec<u32>>,
    pub(super) to_subscribe: RefCell<VecDeque<ObjectId>>,
    pub(super) subscribed: RefCell<HashSet<ObjectId>>,
    silent_in_row: Cell<u32>,
    pub(super) changes: Cell<u64>,
    pub(super) presence: Presence,
    /// The device is asked what it is.
    pub(super) is_asked: Cell<bool>,
    /// What it is called, where it was not said before.
    pub(super) instance: Cell<Option<u32>>,
    pub(super) marks: RefCell<Option<Vec<Wire>>>,
    /// When the marks were read because the device said who it is.
    pub(super) looked_at: Cell<Option<Instant>>,
    pub(super) past: Past,
    reporter: OnceCell<Reporter>,
    pub(super) this: OnceCell<Weak<Self>>,
}

impl BacnetDevice {
    pub(super) fn new(
        link: &Link,
        member: Member,
        (device, bacnet): (&Numbered, &BacnetConfig),
        positions: &Positions,
    ) -> Self {
        let config = &device.config;
        let plan = Plan::new(config, bacnet);
        let mut told: HashMap<ObjectId, Vec<u32>> = HashMap::new();
        plan.told().into_iter().for_each(|(object, point)| told.entry(object).or_default().push(point));
        Self {
            topic: config.topic.clone(),
            link: link.clone(),
            member,
            config: bacnet.clone(),
            plan,
            parts: RefCell::default(),
            is_changed: Cell::new(false),
            tasks: RefCell::default(),
            absent: RefCell::default(),
            noted: RefCell::default(),
            told,
            to_subscribe: RefCell::default(),
            subscribed: RefCell::default(),
            silent_in_row: Cell::new(0),
            changes: Cell::new(0),
            presence: Presence::default(),
            is_asked: Cell::new(false),
            instance: Cell::new(bacnet.instance),
            marks: RefCell::default(),
            looked_at: Cell::default(),
            past: Past::new((device, bacnet), positions, link.shard().now().utc),
            reporter: OnceCell::new(),
            this: OnceCell::new(),
        }
    }

    /// From here on the device reports.
    pub(super) fn set_reporter(self: &Rc<Self>, reporter: Reporter) {
        let _ = self.reporter.set(reporter);
        let _ = self.this.set(Rc::downgrade(self));
    }

    pub(super) fn reporter(&self) -> Option<&Reporter> {
        self.reporter.get()
    }

    /// Its number; that of no device before it reports.
    pub(super) fn id(&self) -> DeviceId {
        self.reporter().map_or(DeviceId(u32::MAX), Reporter::device)
    }

    /// Goes on where a device with another configuration was: its presence, its subscriptions, what is under way. What was
    /// asked of points that have other numbers now is read again.
    pub(super) fn take_over(self: &Rc<Self>, old: &Self) {
        let now = self.now();
        if let Some(reporter) = old.reporter() {
            self.set_reporter(reporter.clone());
        }
        self.presence.take_over(&old.presence);
        self.is_asked.set(old.is_asked.get());
        self.instance.set(old.instance.get());
        self.looked_at.set(old.looked_at.get());
        self.silent_in_row.set(old.silent_in_row.get());
        self.changes.set(old.changes.get());
        self.past.take_over(&old.past, &self.topic);
        *self.marks.borrow_mut() = old.marks.take();
        let is_same = self.plan.reads_same(&old.plan);
        let kept = old.tasks.take().into_iter().filter_map(|(job, task)| match task {
            Task::Part(part) if !is_same => Some((job, Task::Part(Part::empty(part.class, part.number)))),
            Task::Command(command, point) => Some((job, Task::Command(command, self.plan.same(&old.plan, point)))),
            Task::ReadBack(_) if !is_same => Some((job, Task::ReadBack(Rc::default()))),
            task @ (Task::Part(_) | Task::ReadBack(_) | Task::Marks) => Some((job, task)),
            // Logs are read again: their points may have other numbers.
            Task::PastClock | Task::Log => None,
        });
        self.tasks.borrow_mut().extend(kept);
        if is_same {
            *self.absent.borrow_mut() = old.absent.take();
            *self.noted.borrow_mut() = old.noted.take();
        }
        self.take_subscriptions(old);
        self.plan(now);
        if self.presence.is_online() {
            if !is_same {
                self.read_all();
            }
            self.begin_past(now);
        }
        self.go_on();
    }

    /// The device leaves: what has not ended by now never will.
    pub(super) fn end(&self) {
        self.past.went(&self.topic);
        for (_, task) in self.tasks.take() {
            if let Task::Command(command, _) = task {
                self.command_done(command, Err(Refusal::reconfigured(true)));
            }
        }
    }

    pub(super) fn now(&self) -> Now {
        self.link.shard().now()
    }

    /// Reads properties for a task.
    pub(super) fn read(&self, references: impl Into<Rc<[PropertyRef]>>, task: Task) -> Result<(), RequestError> {
        let job =
            self.link.with(|site, now| site.call(self.member, |device, client| device.read(now, client, references)));
        if let Some(job) = job.transpose()? {
            self.add_task(job, task);
        }
        Ok(())
    }

    pub(super) fn add_task(&self, job: JobId, task: Task) {
        self.tasks.borrow_mut().push((job, task));
    }

    fn take_task(&self, job: JobId) -> Option<Task> {
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.iter().position(|(other, _)| *other == job)?;
        Some(tasks.swap_remove(place).1)
    }

    pub(super) fn point(&self, number: u32) -> Option<&PointConfig> {
        self.plan.point(number)
    }

    // What the device tells.

    pub(super) fn handle(&self, now: Now, event: DeviceEvent) {
        match event {
            DeviceEvent::Learned(Ok(profile)) => self.learned(now, &profile),
            DeviceEvent::Learned(Err(failure)) => self.not_learned(now, &failure),
            DeviceEvent::Read { job, results } => self.answered(now, job, &results),
            DeviceEvent::Written { job, result } => self.written(now, job, result),
            DeviceEvent::Subscribed(object) => self.subscribed(object),
            DeviceEvent::NotSubscribed(object, failure) => self.not_subscribed(object, &failure),
            DeviceEvent::Changed(change) => self.changed(now, &change),
            DeviceEvent::Log { job, part } => {
                if self.take_task(job).is_some() {
                    self.log_read(now, part);
                }
            }
            // Nobody asks for them.
            DeviceEvent::ObjectList { .. } => {}
        }
    }

    fn answered(&self, now: Now, job: JobId, results: &Results) {
        let Some(task) = self.take_task(job) else { return };
        let silence =
            results.iter().find_map(|(_, result)| result.as_ref().err().filter(|failure| failure.is_silence()));
        if silence.is_none() {
            self.silent_in_row.set(0);
            self.past.heard(now);
        }
        match task {
            Task::Part(part) => {
                self.report(now, &part.wanted, results);
                let result = if silence.is_some() { PollResult::Timeout } else { PollResult::Ok };
                self.part_done(now, &part, result, silence);
            }
            Task::ReadBack(wanted) => self.report(now, &wanted, results),
            Task::Marks => self.marks_read(now, results),
            Task::PastClock => self.past_clock(now, results),
            Task::Command(..) | Task::Log => {}
        }
        if let Some(silence) = silence {
            self.unheard(now, silence);
        }
    }

    fn part_done(&self, now: Now, part: &Part, result: PollResult, why: Option<&Failure>) {
        let Some(reporter) = self.reporter() else { return };
        if let Some(why) = why {
            reporter.poll_error(now, &why.to_string());
        }
        reporter.poll_done(now, part.class, part.number, result);
    }

    /// A request stayed unanswered, however often it was repeated.
    pub(super) fn unheard(&self, now: Now, why: &Failure) {
        let sent = u32::from(self.config.socket.retries) + 1;
        self.silent_in_row.update(|silent| silent.saturating_add(sent));
        if self.silent_in_row.get() >= SILENT_MAX {
            let why = self.link.trouble().unwrap_or_else(|| why.to_string());
            self.went(now, &why);
        }
    }

    /// All that was asked has come to nothing. Whether a command was carried out is not known.
    pub(super) fn end_tasks(&self, now: Now) {
        for (_, task) in self.tasks.take() {
            match task {
                Task::Part(part) => self.part_done(now, &part, PollResult::Timeout, None),
                Task::Command(command, _) => self.command_done(command, Err(refusal_of(&Failure::TimedOut))),
                Task::ReadBack(_) | Task::Marks | Task::PastClock | Task::Log => {}
            }
        }
        self.is_asked.set(false);
        self.silent_in_row.set(0);
        self.subscribed.borrow_mut().clear();
        self.to_subscribe.borrow_mut().clear();
    }

    // Reading.

    fn report(&self, now: Now, wanted: &[Wanted], results: &Results) {
        let Some(reporter) = self.reporter() else { return };
        let mut places = wanted.iter().zip(results.iter().map(|(_, result)| result)).peekable();
        let readings = std::iter::from_fn(|| {
            let (place, result) = places.next()?;
            let flags = places.next_if(|(next, _)| next.is_flags && next.point == place.point);
            if let Some((place, Err(failure))) = flags {
                self.note_absent(*place, failure);
            }
            let flags = flags.and_then(|(_, flags)| flags.as_ref().ok());
            Some(self.reading(*place, result, flags))
        });
        reporter.batch(now, readings.flatten());
    }

    /// What a property that was read says of its point; nothing where only flags were read, or nothing was answered.
    fn reading(&self, place: Wanted, result: &Result<Wire, Failure>, flags: Option<&Wire>) -> Option<Reading> {
        match result {
            Ok(_) if place.is_flags => None,
            Ok(value) => Some(reading(PointId(place.point), value, self.plan.point(place.point)?.kind, flags)),
            Err(failure) if failure.is_silence() => None,
            Err(failure) => {
                self.note_absent(place, failure);
                if place.is_flags {
                    return None;
                }
                self.note(place.point, failure);
                Some(refused(PointId(place.point)))
            }
        }
    }

    /// What will not be there the next time is not asked for.
    fn note_absent(&self, place: Wanted, failure: &Failure) {
        if is_lasting(failure) {
            self.absent.borrow_mut().insert(place);
        }
    }

    /// Says once that the device does not give a point.
    fn note(&self, point: u32, failure: &Failure) {
        if !self.noted.borrow_mut().insert(point) {
            return;
        }
        let config = self.plan.point(point);
        let name = config.map(|config| config.name.as_str()).unwrap_or_default();
        let at = config.and_then(|config| config.address.bacnet()).map(|address| address.reference);
        let object = at.map(|at| at.object.to_string()).unwrap_or_default();
        let property = at.map(|at| at.property.to_string()).unwrap_or_default();
        tracing::warn!(device = %self.topic, point = name, object, property, %failure, "the device does not give a point");
    }

    /// Reads everything, besides the polls.
    pub(super) fn read_all(&self) {
        let parts = self.parts.borrow().clone();
        for part in parts {
            let part = part.without(&self.absent.borrow());
            let _ = self.read(part.references, Task::ReadBack(part.wanted));
        }
    }

    /// Plans the parts again, for what the device takes and tells.
    pub(super) fn plan(&self, now: Now) {
        self.is_changed.set(false);
        let parts = self.link.look(|site| {
            let device = site.device(self.member)?;
            Some(self.plan.parts(device, &self.subscribed.borrow()))
        });
        let Some(parts) = parts else { return };
        if let Some(reporter) = self.reporter() {
            for class in self.plan.classes() {
                let count = parts.iter().filter(|part| part.class == class).count();
                reporter.set_parts(now, class, u16::try_from(count).unwrap_or(u16::MAX));
            }
        }
        *self.parts.borrow_mut() = parts;
    }

    /// The device is as if it were new.
    pub(super) fn forget_absent(&self) {
        self.absent.borrow_mut().clear();
        self.noted.borrow_mut().clear();
    }

    // Commands.

    fn command_done(&self, command: u64, outcome: CommandOutcome) {
        if let Some(reporter) = self.reporter() {
            reporter.command_done(command, outcome);
        }
    }

    fn written(&self, now: Now, job: JobId, result: Result<(), Failure>) {
        let Some(Task::Command(command, point)) = self.take_task(job) else { return };
        self.command_done(command, result.map_err(|failure| refusal_of(&failure)));
        match result {
            Ok(()) => {
                self.silent_in_row.set(0);
                self.read_back(point);
            }
            // A write goes out once: one that is lost says little.
            Err(Failure::TimedOut) => self.read_back(point),
            Err(failure @ Failure::Unreachable(_)) => self.unheard(now, &failure),
            Err(_) => {}
        }
    }

    /// What the device has after a command is read at once. Where it is not asked for now, the next poll brings it.
    fn read_back(&self, point: PointId) {
        let absent = self.absent.borrow();
        let there = self.plan.wanted(point.0).filter(|wanted| !absent.contains(wanted));
        let both = there.filter_map(|wanted| Some((wanted, self.plan.reference(wanted)?)));
        let (wanted, references): (Vec<Wanted>, Vec<PropertyRef>) = both.unzip();
        drop(absent);
        let _ = self.read(references, Task::ReadBack(wanted.into()));
    }
}

impl DeviceSession for BacnetDevice {
    fn poll(&self, class: PollClass, number: u16) -> bool {
        let now = self.now();
        if self.is_changed.get() {
            self.plan(now);
        }
        let is_it = |part: &&Part| (part.class, part.number) == (class, number);
        let part = self.parts.borrow().iter().find(is_it).map(|part| part.without(&self.absent.borrow()));
        let part = part.unwrap_or_else(|| Part::empty(class, number));
        if part.references.is_empty() {
            // Changes are told instead, or the device has none of these.
            self.part_done(now, &part, PollResult::Ok, None);
            return true;
        }
        self.read(Rc::clone(&part.references), Task::Part(part)).is_ok()
    }

    fn command(&self, command_id: u64, command: &Command, until: Instant) -> Result<(), Refusal> {
        if !self.presence.is_online() {
            return Err(Refusal::new("away", "the device does not answer".to_owned()));
        }
        let point = self.plan.point(command.point.0).and_then(|point| point.address.bacnet());
        let point = point.ok_or_else(|| Refusal::new("unknown_point", "the point is not here".to_owned()))?;
        let value = to_write(point, &command.value)?;
        let priority = point.is_present_value().then(|| point.write_priority.unwrap_or(self.config.write_priority));
        let write = Write { reference: point.reference, value, priority };
        let job = self
            .link
            .with(|site, now| site.call(self.member, |device, client| device.write(now, client, write, Some(until))));
        let job = job.transpose().map_err(|error| Refusal::new("busy", error.to_string()))?;
        let job = job.ok_or_else(|| Refusal::new("unknown_device", "the device is not here".to_owned()))?;
        self.add_task(job, Task::Command(command_id, command.point));
        Ok(())
    }

    /// Only what it had logged waits for history.
    fn settle(&self, _lane: Lane, fragments: u64) {
        self.past_settled(fragments);
    }
}
