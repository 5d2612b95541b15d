//! One run: a master, an outstation, a network between them, and time.

mod faults;

use crate::model::{OUTPUTS, POINTS, READ_TOKENS, TYPES};
use crate::{Act, Carriage, Choices, Closed, Driven, Model, Pipe, Plan};
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_core::{CommandMode, Instant, Now, Timestamp};
use tieline_dnp3::master::{Master, ReadRequest};
use tieline_dnp3::outstation::{Database, Outstation, PointConfig};
use tieline_dnp3::{Classes, Control, Crob, EventClass, Flags, GroupVar, Measured, Measurement, PointType};

/// How long everything may take to be well again after the last fault.
const HEAL: Duration = Duration::from_secs(900);
/// How long nothing else happens at the end: longer than any rest of a master.
const QUIET: Duration = Duration::from_secs(90);
/// The shortest wait for a deadline: as `io/net` has it.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Master,
    Outstation,
}

/// What is due at a time.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The next act of the plan.
    Act,
    /// The master's side connects.
    Dial,
    /// An end learns that a connection began, or that it is gone.
    Up(Side, u64),
    Down(Side, u64),
    /// What was given is stored.
    Store,
    /// The owner asks for events.
    Poll,
}

/// A network and who is on it.
#[derive(Debug)]
pub struct World {
    plan: Plan,
    choices: Choices,
    now: Now,
    master: Driven<Master>,
    outstation: Driven<Outstation>,
    to_master: Pipe,
    to_outstation: Pipe,
    /// The number of the connection that the network carries; 0 while it carries none.
    connection: u64,
    connections: u64,
    due: BTreeMap<(Instant, u64), Due>,
    scheduled: u64,
    acts: u64,
    updates: u64,
    is_local: bool,
    is_storing: bool,
    off_until: Instant,
    /// Events dropped by devices that were replaced.
    dropped_before: u64,
    reads: u64,
    steps: u64,
    model: Model,
}

/// What a run that went well consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Virtual time.
    pub time: Duration,
    /// Turns of either machine.
    pub steps: u64,
    /// Messages of both machines.
    pub messages: u64,
    /// Connections.
    pub connections: u64,
    /// Changes of points.
    pub updates: u64,
    /// Values that the owner was given.
    pub given: u64,
}

impl World {
    /// A run that has not begun.
    #[must_use]
    pub fn new(mut choices: Choices, is_told: bool) -> Self {
        let plan = Plan::draw(&mut choices);
        let model = Model::new(is_told);
        let master = Driven::new(control_centre(&plan, &mut choices));
        let outstation = Driven::new(device(&plan, &model, &mut choices));
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(1_800_000_000_000) };
        Self {
            now,
            master,
            outstation,
            to_master: Pipe::new(plan.carriage, plan.delay_ms),
            to_outstation: Pipe::new(plan.carriage, plan.delay_ms),
            connection: 0,
            connections: 0,
            due: BTreeMap::new(),
            scheduled: 0,
            acts: plan.count,
            updates: 0,
            is_local: false,
            is_storing: false,
            off_until: Instant::ZERO,
            dropped_before: 0,
            reads: 0,
            steps: 0,
            model,
            plan,
            choices,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run(&mut self) -> Result<Summary, String> {
        let plan = format!("{:?}", self.plan);
        self.model.tell(|| plan);
        self.schedule(Duration::ZERO, Due::Act);
        self.schedule(Duration::ZERO, Due::Dial);
        if let Some(every) = self.plan.poll_every {
            self.schedule(every, Due::Poll);
        }
        while self.acts > 0 {
            self.step(Instant(u64::MAX))?;
        }
        self.to_master.heal();
        self.to_outstation.heal();
        self.is_local = false;
        let end = self.now.mono + HEAL;
        self.model.tell(|| "no more faults".into());
        while !self.is_settled() {
            if self.now.mono >= end {
                return Err(self.unsettled());
            }
            self.step(end)?;
        }
        if matches!(self.plan.carriage, Carriage::Datagrams { .. }) {
            // A present value that was overtaken by its change is older, and says nothing of it.
            self.read(ReadRequest::Classes(Classes::ALL));
        }
        let settled = self.now.mono + QUIET;
        while self.now.mono < settled || !self.is_settled() {
            if self.now.mono >= end + QUIET {
                return Err(self.unsettled());
            }
            self.step(settled.max(self.now.mono + WAIT_MIN))?;
        }
        self.model.finish(&self.master.machine, self.plan.is_calm());
        self.check_work();
        self.wrong()?;
        Ok(self.summary())
    }

    /// What happened so far, where it is to be told.
    pub fn trace(&self) -> &str {
        self.model.trace.as_deref().unwrap_or_default()
    }

    fn summary(&self) -> Summary {
        Summary {
            time: self.now.mono.since(Instant::ZERO),
            steps: self.steps,
            messages: self.master.messages + self.outstation.messages,
            connections: self.connections,
            updates: self.updates,
            given: self.model.given,
        }
    }

    /// The work of both machines stays in proportion to time and to what happened.
    fn check_work(&mut self) {
        let summary = self.summary();
        let acts = self.plan.count + summary.updates + self.reads;
        let most = 1000 + 20 * summary.time.as_secs() + 60 * acts;
        let deadlines = self.master.deadlines + self.outstation.deadlines;
        self.model.require(summary.messages <= most, || format!("{summary:?}: at most {most} messages expected"));
        self.model.require(deadlines <= most, || format!("{deadlines} deadlines, at most {most} expected"));
    }

    fn wrong(&self) -> Result<(), String> {
        self.model.wrong.clone().map_or(Ok(()), Err)
    }

    fn is_settled(&self) -> bool {
        self.model.is_ready
            && self.master.machine.is_online()
            && self.model.has_no_tasks()
            && !self.is_storing
            && self.outstation.machine.stats().events_waiting == 0
            && self.connection != 0
    }

    fn unsettled(&self) -> String {
        let (stats, counters) = (self.outstation.machine.stats(), self.master.machine.counters());
        format!(
            "not well {} s after the last fault: ready {}, online {}, tasks done {}, {stats:?}, {counters:?}",
            HEAL.as_secs(),
            self.model.is_ready,
            self.master.machine.is_online(),
            self.model.has_no_tasks(),
        )
    }

    fn schedule(&mut self, after: Duration, due: Due) {
        self.scheduled += 1;
        self.due.insert((self.now.mono + after, self.scheduled), due);
    }

    /// Moves time to the next thing that happens, at most to `until`, and lets it happen.
    fn step(&mut self, until: Instant) -> Result<(), String> {
        let deadlines = [self.master.deadline(), self.outstation.deadline()].map(|deadline| {
            let floor = self.now.mono + WAIT_MIN;
            deadline.map(|deadline| deadline.max(floor))
        });
        let arrivals = [
            self.to_master.next().filter(|_| self.is_attached(Side::Master)),
            self.to_outstation.next().filter(|_| self.is_attached(Side::Outstation)),
        ];
        let planned = self.due.first_key_value().map(|((at, _), _)| *at);
        let next = deadlines.into_iter().chain(arrivals).flatten().chain(planned).min().unwrap_or(until);
        let next = next.min(until).max(self.now.mono);
        self.now = self.now.later(next.since(self.now.mono));
        self.model.now = self.now;
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= self.now.mono) {
            let due = entry.remove();
            self.happen(due);
        }
        self.turn_outstation();
        self.turn_master();
        if self.model.holds && !self.is_storing {
            self.is_storing = true;
            let after = self.choices.millis(0, self.plan.store_ms);
            self.schedule(after, Due::Store);
        }
        self.wrong()
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Act => {
                self.acts -= 1;
                let act = self.choices.pick(&self.plan.acts);
                self.act(act);
                if self.choices.is_spent() {
                    self.acts = 0;
                }
                if self.acts > 0 {
                    let pause = self.choices.millis(0, self.plan.pause_ms);
                    self.schedule(pause, Due::Act);
                }
            }
            Due::Dial => self.dial(),
            Due::Up(side, connection) => self.up(side, connection),
            Due::Down(side, connection) => self.down(side, connection),
            Due::Store => {
                self.is_storing = false;
                self.model.store();
                self.master.machine.release_confirm(self.now);
            }
            Due::Poll => {
                self.read(ReadRequest::Classes(Classes::EVENTS));
                if let Some(every) = self.plan.poll_every {
                    self.schedule(every, Due::Poll);
                }
            }
        }
    }

    fn act(&mut self, act: Act) {
        self.model.tell(|| format!("{act:?}"));
        match act {
            Act::Update => self.update(1),
            Act::Burst => {
                let count = self.choices.between(5, 60);
                self.update(count);
            }
            Act::Command => self.command(),
            Act::Read => {
                let request = self.choices.pick(&[
                    ReadRequest::Classes(Classes::ALL),
                    ReadRequest::All(GroupVar::new(30, 0)),
                    ReadRequest::All(GroupVar::new(32, 0)),
                    ReadRequest::Range { object: GroupVar::new(20, 0), first: 0, last: POINTS - 1 },
                ]);
                self.model.reads_types |= request == ReadRequest::All(GroupVar::new(32, 0));
                self.read(request);
            }
            Act::Local => {
                self.is_local = !self.is_local;
                self.outstation.machine.set_local(self.is_local);
            }
            Act::Cut => self.cut(),
            Act::HalfOpen => self.half_open(),
            Act::Hold => {
                let (now, time) = (self.now.mono, self.choices.millis(500, 20_000));
                self.to_master.hold(now, time);
                self.to_outstation.hold(now, time);
            }
            Act::RestartMaster => self.restart_master(),
            Act::RestartDevice => self.restart_device(),
        }
    }

    fn update(&mut self, count: u64) {
        for _ in 0..count {
            let point_type = self.choices.pick(&TYPES);
            let index = u16::try_from(self.choices.below(POINTS.into())).unwrap_or(0);
            let number = self.model.update(point_type, index);
            self.updates += 1;
            let updated = self.outstation.machine.update(self.now, value(point_type, index, number));
            self.model.require(updated.is_ok(), || format!("{updated:?}"));
            self.model.watch(&self.outstation.machine, self.dropped_before);
        }
    }

    fn command(&mut self) {
        let token = self.model.command();
        let control = Control::Crob(Crob { code: 3, count: 1, on_ms: token, off_ms: 0 });
        let index = u16::try_from(self.choices.below(OUTPUTS.into())).unwrap_or(0);
        let mode = self.choices.pick(&[CommandMode::SelectBeforeOperate, CommandMode::DirectOperate]);
        let until = self.now.mono + self.choices.millis(100, 10_000);
        let taken = self.master.machine.command(self.now, control, index, mode, until, token.into());
        self.model.tell(|| format!("command {token} {mode:?} {taken:?}"));
        if taken.is_err() {
            self.model.refused_to_submit();
        }
    }

    fn read(&mut self, request: ReadRequest) {
        self.reads += 1;
        let _ = self.master.machine.read(self.now, request, READ_TOKENS + self.reads);
    }

    /// Whether the network carries what an end sends, and brings what is for it.
    fn is_attached(&self, side: Side) -> bool {
        let connection = match side {
            Side::Master => self.master.connection,
            Side::Outstation => self.outstation.connection,
        };
        connection.is_some_and(|connection| connection == self.connection || self.plan.carriage != Carriage::Stream)
    }

    fn turn_outstation(&mut self) {
        let attached = self.is_attached(Side::Outstation);
        loop {
            let input = if attached { self.to_outstation.receive(self.now.mono) } else { None };
            let more = input.is_some();
            let pipe = if attached { Some(&mut self.to_master) } else { None };
            let bytes = input.unwrap_or_default();
            self.steps += 1;
            let turned = self.outstation.turn(self.now, &bytes, pipe, &mut self.choices, &mut self.model);
            self.model.watch(&self.outstation.machine, self.dropped_before);
            if let Err(why) = turned {
                self.model.require(why == Closed::Slow, || format!("the outstation closed: {why:?}"));
                return self.close_outstation();
            }
            if !more {
                return;
            }
        }
    }

    fn turn_master(&mut self) {
        let attached = self.is_attached(Side::Master);
        loop {
            let input = if attached { self.to_master.receive(self.now.mono) } else { None };
            let more = input.is_some();
            let pipe = if attached { Some(&mut self.to_outstation) } else { None };
            let bytes = input.unwrap_or_default();
            self.steps += 1;
            let turned = self.master.turn(self.now, &bytes, pipe, &mut self.choices, &mut self.model);
            if let Err(why) = turned {
                let known = matches!(why, Closed::Slow | Closed::Machine);
                self.model.require(known, || format!("the master closed: {why:?}"));
                return self.close_master();
            }
            if !more {
                return;
            }
        }
    }
}

fn value(point_type: PointType, index: u16, number: u32) -> Measurement {
    let value = match point_type {
        PointType::Counter => Measured::Count(number),
        _ => Measured::Analog(number.into()),
    };
    Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }
}

/// The device as it starts: the points have their values, and no events.
fn device(plan: &Plan, model: &Model, choices: &mut Choices) -> Outstation {
    let mut database = Database::new();
    for point_type in TYPES {
        for (index, class) in
            (0..POINTS).zip([EventClass::Class1, EventClass::Class2, EventClass::Class3].into_iter().cycle())
        {
            let config = PointConfig::of(point_type).in_class(Some(class));
            database.add(point_type, index, config).expect("a fresh point");
            database.set(value(point_type, index, model.actual(point_type, index))).expect("of its type");
        }
    }
    for index in 0..OUTPUTS {
        let config = PointConfig { in_class_0: false, ..PointConfig::of(PointType::BinaryOutput).in_class(None) };
        database.add(PointType::BinaryOutput, index, config).expect("a fresh point");
    }
    let mut outstation = Outstation::new(plan.outstation, database, Box::new(model.outputs.clone()));
    outstation.set_link_service(plan.link);
    if let Some(secure) = &plan.secure {
        outstation.set_security(secure.outstation(choices));
    }
    outstation
}

/// The master as its process starts.
fn control_centre(plan: &Plan, choices: &mut Choices) -> Master {
    let mut master = Master::new(plan.master);
    master.vary(choices.below(16));
    master.set_link_service(plan.link);
    if let Some(secure) = &plan.secure {
        master.set_security(secure.master(choices));
    }
    master
}
