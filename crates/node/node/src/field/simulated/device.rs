//! One simulated device: what it is asked, when it answers, and what its answers mean.

use super::agenda::Agenda;
use super::counters::Counts;
use crate::config::{DeviceConfig, SimulatedConfig};
use crate::field::driver::{DeviceSession, Reporter, WHOLE};
use crate::field::lanes::Lane;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Command, DeviceId, Instant, Now, PointId, Refusal, Value};
use tieline_model::{CommandError, Conduct, Course, Device, Model, Seed};
use tieline_net::Shard;
use tieline_poll::{PollClass, PollResult};

/// Requests in a row that end without an answer, and the device is away.
const LOST_MAX: u32 = 3;
/// From a first read that found nobody to the next.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// The longest, for a device that is away for long.
const PROBE_EVERY_MAX: Duration = Duration::from_secs(30);
/// Commands that may be out.
const COMMANDS_MAX: usize = 16;
/// Random numbers of requests come from another family than those of values.
const REQUEST_SEED: &str = "requests";

/// What a device does later.
pub(super) enum Task {
    /// Is asked again whether it is there.
    Probe,
    /// Ends a request.
    End(Request, Reply),
}

/// What a device is asked.
pub(super) enum Request {
    /// For all points, to see whether it is there.
    Probe,
    /// For the points of a class.
    Poll(PollClass),
    /// To do something.
    Command(u64, PointId, Value),
}

/// What a device says to it.
#[derive(Clone, Copy)]
pub(super) enum Reply {
    /// It answers.
    Answer,
    /// It refuses.
    Refuse,
    /// Nothing in time.
    Nothing,
}

/// A simulated device.
pub(super) struct SimulatedDevice {
    number: DeviceId,
    agenda: Rc<Agenda>,
    counts: Rc<Counts>,
    config: SimulatedConfig,
    started: Instant,
    model: RefCell<Device>,
    seed: Seed,
    requests: Cell<u64>,
    /// Those that have no outcome yet, by their identifiers.
    commands: RefCell<Vec<u64>>,
    /// The points of each class of poll.
    classes: RefCell<Vec<Vec<PointId>>>,
    is_online: Cell<bool>,
    lost_in_row: Cell<u32>,
    /// First reads in a row that found nobody.
    probes_in_row: Cell<u32>,
    reporter: OnceCell<(Rc<Shard>, Reporter)>,
}

impl SimulatedDevice {
    pub(super) fn new(
        now: Now,
        config: &DeviceConfig,
        simulated: &SimulatedConfig,
        model: Arc<Model>,
        (number, agenda, counts): (DeviceId, Rc<Agenda>, Rc<Counts>),
    ) -> Self {
        let seed = Seed::of(simulated.seed, &config.topic);
        let course = Course { seed, start: simulated.start.unwrap_or(now.utc), step: simulated.step };
        Self {
            number,
            agenda,
            counts,
            config: simulated.clone(),
            started: now.mono,
            model: RefCell::new(Device::new(model, Arc::clone(&simulated.faults), course)),
            seed: Seed::of(simulated.seed, &format!("{} {REQUEST_SEED}", config.topic)),
            requests: Cell::default(),
            commands: RefCell::default(),
            classes: RefCell::new(classes(config)),
            is_online: Cell::default(),
            lost_in_row: Cell::default(),
            probes_in_row: Cell::default(),
            reporter: OnceCell::new(),
        }
    }

    /// From here on the device reports.
    pub(super) fn set_reporter(&self, shard: &Rc<Shard>, reporter: Reporter) {
        let _ = self.reporter.set((Rc::clone(shard), reporter));
    }

    /// The points are read at other intervals from here on.
    pub(super) fn set_classes(&self, config: &DeviceConfig) {
        *self.classes.borrow_mut() = classes(config);
    }

    /// The device leaves: what has not ended by now never will.
    pub(super) fn end(&self) {
        let left = self.commands.take();
        left.into_iter()
            .for_each(|id| self.tell(|reporter| reporter.command_done(id, Err(Refusal::reconfigured(true)))));
    }

    pub(super) const fn is_online(&self) -> bool {
        self.is_online.get()
    }

    /// The node starts to ask.
    pub(super) fn begin(&self, now: Now) {
        self.tell(|reporter| reporter.connecting(now));
        self.ask(now, Request::Probe);
    }

    fn tell(&self, what: impl FnOnce(&Reporter)) {
        if let Some((_, reporter)) = self.reporter.get() {
            what(reporter);
        }
    }

    /// How much of the device's time has passed.
    fn since_start(&self, now: Now) -> Duration {
        now.mono.since(self.started).mul_f64(self.config.speed)
    }

    /// Sends a request: what the device does with it is decided by its faults at this time.
    fn ask(&self, now: Now, request: Request) {
        let since_start = self.since_start(now);
        let conduct = {
            let model = self.model.borrow();
            model.active(since_start).for_each(|fault| self.counts.add_fault(fault.kind.effect()));
            model.conduct(since_start)
        };
        Counts::add(&self.counts.requests);
        let number = self.requests.replace(self.requests.get().wrapping_add(1));
        let luck = self.seed.with(number);
        let usual = self.config.delay + self.config.delay_jitter.mul_f64(luck.with(1).unit());
        let (after, reply) = match conduct {
            Conduct::Answers { late_by } => (usual.saturating_add(late_by), Reply::Answer),
            Conduct::Refuses => (usual, Reply::Refuse),
            // It has no bytes: garbage is an answer that nobody can read.
            Conduct::Garbles | Conduct::Silent | Conduct::Off => (Duration::MAX, Reply::Nothing),
        };
        let timeout = self.config.timeout;
        let (after, reply) = if after < timeout { (after, reply) } else { (timeout, Reply::Nothing) };
        // A command without an answer was lost on its way there, or its answer on the way back.
        if let (Reply::Nothing, Request::Command(_, point, value)) = (reply, &request)
            && (luck.with(2).unit() < 0.5 || matches!(conduct, Conduct::Answers { .. }))
            && self.carry_out(now, *point, value).is_ok()
        {
            Counts::add(&self.counts.commands);
        }
        self.agenda.add(now.mono + after, self.number, Task::End(request, reply));
    }

    fn carry_out(&self, now: Now, point: PointId, value: &Value) -> Result<PointId, CommandError> {
        let mut model = self.model.borrow_mut();
        model.handle_time(self.since_start(now));
        model.handle_command(point, value)
    }

    // What comes of it.

    pub(super) fn handle_task(&self, now: Now, task: Task) {
        match task {
            Task::Probe => self.ask(now, Request::Probe),
            Task::End(request, Reply::Answer) => self.answered(now, request),
            Task::End(request, Reply::Refuse) => self.refused(now, &request),
            Task::End(request, Reply::Nothing) => self.unanswered(now, &request),
        }
    }

    fn answered(&self, now: Now, request: Request) {
        Counts::add(&self.counts.answers);
        self.heard(now);
        match request {
            Request::Probe => self.report(now, self.classes.borrow().iter().flatten()),
            Request::Poll(class) => {
                self.report(now, self.classes.borrow().get(usize::from(class.0)).into_iter().flatten());
                self.tell(|reporter| reporter.poll_done(now, class, WHOLE, PollResult::Ok));
            }
            Request::Command(id, point, value) => {
                let done = self.carry_out(now, point, &value);
                if done.is_ok() {
                    Counts::add(&self.counts.commands);
                }
                self.command_done(id, done.map(|_| ()).map_err(refusal_of));
                // What the device has after a command is seen at once, and what the point follows, too.
                self.report(now, done.ok().filter(|target| *target != point).iter().chain([&point]));
            }
        }
    }

    fn refused(&self, now: Now, request: &Request) {
        Counts::add(&self.counts.refusals);
        self.heard(now);
        match request {
            // An answer all the same: the device is there, and its points are read by polls.
            Request::Probe => {}
            Request::Poll(class) => self.tell(|reporter| reporter.poll_done(now, *class, WHOLE, PollResult::Error)),
            Request::Command(id, ..) => {
                let why = "the device refuses what it is asked".to_owned();
                self.command_done(*id, Err(Refusal::new("refused", why)));
            }
        }
    }

    fn unanswered(&self, now: Now, request: &Request) {
        Counts::add(&self.counts.timeouts);
        const WHY: &str = "no answer in time";
        match request {
            Request::Probe => return self.went(now, WHY),
            Request::Poll(class) => self.tell(|reporter| reporter.poll_done(now, *class, WHOLE, PollResult::Timeout)),
            Request::Command(id, ..) => self.command_done(*id, Err(Refusal::unknown("timeout", WHY.to_owned()))),
        }
        self.lost_in_row.update(|lost| lost.saturating_add(1));
        if self.lost_in_row.get() >= LOST_MAX && self.is_online.get() {
            self.went(now, WHY);
        }
    }

    /// The device has answered.
    fn heard(&self, now: Now) {
        self.lost_in_row.set(0);
        self.probes_in_row.set(0);
        if !self.is_online.replace(true) {
            self.tell(|reporter| reporter.online(now));
        }
        let restarted = {
            let mut model = self.model.borrow_mut();
            model.handle_time(self.since_start(now));
            model.poll_restarted()
        };
        if restarted {
            Counts::add(&self.counts.restarts);
            self.tell(|reporter| reporter.restarted(now));
            self.report(now, self.classes.borrow().iter().flatten());
        }
    }

    /// The device does not answer.
    fn went(&self, now: Now, why: &str) {
        self.is_online.set(false);
        self.tell(|reporter| reporter.away(now, why));
        let failed = self.probes_in_row.replace(self.probes_in_row.get().saturating_add(1));
        let wait = (PROBE_EVERY * 2_u32.pow(failed.min(5))).min(PROBE_EVERY_MAX);
        self.agenda.add(now.mono + wait, self.number, Task::Probe);
    }

    /// Tells what the device has. The time of its model is that of the request's end.
    fn report<'a>(&self, now: Now, points: impl Iterator<Item = &'a PointId>) {
        let model = self.model.borrow();
        self.tell(|reporter| reporter.batch(now, points.filter_map(|point| model.reading(*point))));
    }

    fn command_done(&self, id: u64, outcome: Result<(), Refusal>) {
        self.commands.borrow_mut().retain(|command| *command != id);
        self.tell(|reporter| reporter.command_done(id, outcome));
    }
}

/// The points of each interval of a device.
fn classes(config: &DeviceConfig) -> Vec<Vec<PointId>> {
    let mut classes = vec![Vec::new(); config.polls.len().max(1)];
    for (point, number) in config.points.iter().zip(0..) {
        let class = config.polls.iter().position(|every| Some(*every) == point.every).unwrap_or(0);
        if let Some(class) = classes.get_mut(class) {
            class.push(PointId(number));
        }
    }
    classes
}

fn refusal_of(error: CommandError) -> Refusal {
    let name = match error {
        CommandError::UnknownPoint => "unknown_point",
        CommandError::NotWritable => "not_writable",
        CommandError::NoNumber => "out_of_range",
    };
    Refusal::new(name, error.to_string())
}

impl DeviceSession for SimulatedDevice {
    fn poll(&self, class: PollClass, _part: u16) -> bool {
        let Some((shard, _)) = self.reporter.get().filter(|_| self.is_online.get()) else { return false };
        self.ask(shard.now(), Request::Poll(class));
        true
    }

    fn command(&self, command_id: u64, command: &Command, until: Instant) -> Result<(), Refusal> {
        let refused = |name, why: &str| Err(Refusal::new(name, why.to_owned()));
        let Some((shard, _)) = self.reporter.get().filter(|_| self.is_online.get()) else {
            return refused("away", "the device does not answer");
        };
        if self.commands.borrow().len() >= COMMANDS_MAX {
            return refused("busy", "too many commands wait for the device");
        }
        let now = shard.now();
        if now.mono >= until {
            return refused("timeout", "the time for the command had passed before it was sent");
        }
        self.commands.borrow_mut().push(command_id);
        self.ask(now, Request::Command(command_id, command.point, command.value.clone()));
        Ok(())
    }

    /// Nothing is held: a device is read again.
    fn settle(&self, _lane: Lane, _fragments: u64) {}
}
