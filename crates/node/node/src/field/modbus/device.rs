//! One Modbus device: its polls, its commands, and what its answers mean.

use super::line::Line;
use super::readings::{Registers, refused, table_name};
use crate::config::{DeviceConfig, ModbusConfig};
use crate::field::driver::{DeviceSession, Reporter};
use crate::field::lanes::Lane;
use crate::field::presence::Presence;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tieline_core::{Command, DeviceId, Instant, Now, PointId, Refusal, Topic};
use tieline_modbus::layout::{ReadModifyWrite, Write, WriteStyle};
use tieline_modbus::plan::{Block, BlockId, Holes, PlanError, Planner, Refused};
use tieline_modbus::{ExceptionCode, Failure, Priority, Request, Response, SubmitError, Transaction, Unit};
use tieline_poll::{PollClass, PollResult};

/// Longer than any wait of a transaction for its turn and its answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// Reads in a row that end without an answer, and the device is away.
const LOST_MAX: u32 = 3;
/// What a transaction is for.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// A block of a poll.
    Block(BlockId, PollPart),
    /// A first read, which says whether the device is there.
    Probe,
    /// A command.
    Command(u64, PointId),
    /// The first half of a command for some bits of a register.
    Prepare(u64, PointId, ReadModifyWrite, Instant),
    /// The point of a command that was done, so that its new value is seen at once.
    ReadBack(Block),
}

/// What one request reads as it was planned at first; more of them once the device refused it.
#[derive(Debug)]
struct Part {
    part: PollPart,
    blocks: Vec<BlockId>,
}

/// Which part of which poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PollPart {
    class: PollClass,
    number: u16,
}

/// A part of a poll that has not ended.
#[derive(Clone, Copy, Debug)]
struct Poll {
    part: PollPart,
    open: usize,
    result: PollResult,
}

/// A device on its connection.
pub(super) struct ModbusDevice {
    pub(super) topic: Topic,
    pub(super) line: Rc<Line>,
    member: u16,
    unit: Unit,
    style: WriteStyle,
    registers: Registers,
    planner: RefCell<Planner>,
    parts: RefCell<Vec<Part>>,
    polls: RefCell<Vec<Poll>>,
    /// By transaction, in no order: few are open at a time.
    tasks: RefCell<Vec<(u64, Task)>>,
    lost_in_row: Cell<u32>,
    pub(super) presence: Presence,
    reporter: OnceCell<Reporter>,
    pub(super) this: OnceCell<Weak<Self>>,
}

impl ModbusDevice {
    pub(super) fn new(
        line: &Rc<Line>,
        member: u16,
        config: &DeviceConfig,
        modbus: &ModbusConfig,
    ) -> Result<Self, PlanError> {
        let registers = Registers::new(std::sync::Arc::clone(&config.points), modbus);
        let planner = Planner::new(&registers.wanted(&config.polls), modbus.blocks, Holes::default())?;
        Ok(Self {
            topic: config.topic.clone(),
            line: Rc::clone(line),
            member,
            unit: modbus.unit,
            style: modbus.write,
            registers,
            parts: RefCell::new(parts_of(&planner)),
            planner: RefCell::new(planner),
            polls: RefCell::default(),
            tasks: RefCell::default(),
            lost_in_row: Cell::new(0),
            presence: Presence::default(),
            reporter: OnceCell::new(),
            this: OnceCell::new(),
        })
    }

    /// From here on the device reports.
    pub(super) fn set_reporter(self: &Rc<Self>, reporter: Reporter) {
        let now = self.line.session.shard().now();
        let mut counts: Vec<(PollClass, u16)> = Vec::new();
        for part in &*self.parts.borrow() {
            match counts.iter_mut().find(|(class, _)| *class == part.part.class) {
                Some((_, count)) => *count += 1,
                None => counts.push((part.part.class, 1)),
            }
        }
        counts.into_iter().for_each(|(class, count)| reporter.set_parts(now, class, count));
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

    /// Goes on where a device with another configuration was: its presence, its commands that are under way. What it was
    /// asked is asked again by the new plan.
    pub(super) fn take_over(self: &Rc<Self>, old: &Self) {
        let (now, number) = (self.line.session.shard().now(), usize::from(self.member));
        if let Some(reporter) = old.reporter() {
            self.set_reporter(reporter.clone());
        }
        self.presence.take_over(&old.presence);
        self.lost_in_row.set(old.lost_in_row.get());
        let tasks = old.tasks.take();
        let is_command = |task: &Task| matches!(task, Task::Command(..) | Task::Prepare(..));
        let is_kept = |id| tasks.iter().any(|(known, task)| *known == id && is_command(task));
        let is_over = |id| Line::member_of(id) == number && !is_kept(id);
        self.line.session.with(|client, _| client.cancel(is_over));
        let same = |point| self.registers.same(&old.registers, point).unwrap_or(PointId(u32::MAX));
        let kept = tasks.into_iter().filter_map(|(id, task)| match task {
            Task::Command(command, point) => Some((id, Task::Command(command, same(point)))),
            Task::Prepare(command, point, change, until) => {
                Some((id, Task::Prepare(command, same(point), change, until)))
            }
            Task::Block(..) | Task::Probe | Task::ReadBack(_) => None,
        });
        self.tasks.borrow_mut().extend(kept);
        for Poll { part, .. } in old.polls.take() {
            if !self.poll(part.class, part.number)
                && let Some(reporter) = self.reporter()
            {
                reporter.poll_done(now, part.class, part.number, PollResult::Ok);
            }
        }
        self.probe_again();
    }

    /// A transaction was given up: the device leaves.
    pub(super) fn cancelled(&self, transaction: u64, sent: bool) {
        match self.take_task(transaction) {
            Some(Task::Command(command, _)) => self.command_done(command, Err(Refusal::reconfigured(sent))),
            // It has only been read for.
            Some(Task::Prepare(command, ..)) => self.command_done(command, Err(Refusal::reconfigured(false))),
            Some(Task::Block(..) | Task::Probe | Task::ReadBack(_)) | None => {}
        }
    }

    /// The device leaves: what has not ended by now never will.
    pub(super) fn end(&self) {
        let left: Vec<u64> = self.tasks.borrow().iter().map(|(transaction, _)| *transaction).collect();
        left.into_iter().for_each(|transaction| self.cancelled(transaction, true));
    }

    /// Asks for what a task needs; it ends with an event of the connection.
    pub(super) fn submit(
        &self,
        request: Request,
        task: Task,
        priority: Priority,
        deadline: Option<Instant>,
    ) -> Result<(), SubmitError> {
        let id = self.line.number(self.member);
        let unit = self.unit;
        self.line.session.with(|client, now| {
            let deadline = deadline.unwrap_or(now.mono + PATIENCE);
            client.submit(Transaction { id, unit, request, deadline, priority })
        })?;
        self.tasks.borrow_mut().push((id, task));
        Ok(())
    }

    fn take_task(&self, transaction: u64) -> Option<Task> {
        let mut tasks = self.tasks.borrow_mut();
        let at = tasks.iter().position(|(known, _)| *known == transaction)?;
        Some(tasks.swap_remove(at).1)
    }

    /// The smallest read of the device that is known to be asked for.
    pub(super) fn first_read(&self) -> Option<Request> {
        self.planner.borrow().blocks().next().map(|(_, block)| block.request())
    }

    fn read_block(&self, id: BlockId, part: PollPart) -> bool {
        let request = self.planner.borrow().block(id).map(Block::request);
        request.is_some_and(|request| self.submit(request, Task::Block(id, part), Priority::Normal, None).is_ok())
    }

    // What comes of it.

    pub(super) fn answered(&self, now: Now, transaction: u64, response: &Response) {
        let Some(task) = self.take_task(transaction) else { return };
        self.heard(now);
        match task {
            Task::Block(id, part) => {
                if let Some(block) = self.planner.borrow().block(id) {
                    self.report(now, block, response);
                }
                self.block_done(now, part, PollResult::Ok);
            }
            Task::Probe => {}
            Task::Command(command, point) => {
                self.command_done(command, Ok(()));
                self.read_back(point);
            }
            Task::Prepare(command, point, change, until) => self.write_back(command, point, change, until, response),
            Task::ReadBack(block) => self.report(now, &block, response),
        }
    }

    pub(super) fn refused(&self, now: Now, transaction: u64, code: ExceptionCode) {
        let Some(task) = self.take_task(transaction) else { return };
        if code.is_of_gateway() {
            return self.unheard(now, task, &format!("the gateway: {code}"), code_refusal(code));
        }
        self.heard(now);
        match task {
            Task::Block(id, part) => self.block_refused(now, id, part, code),
            Task::Probe | Task::ReadBack(_) => {}
            Task::Command(command, _) | Task::Prepare(command, ..) => {
                self.command_done(command, Err(code_refusal(code)))
            }
        }
    }

    pub(super) fn failed(&self, now: Now, transaction: u64, reason: Failure, sent: bool) {
        let Some(task) = self.take_task(transaction) else { return };
        let why = match reason {
            Failure::TimedOut | Failure::Lost => "no answer in time",
            Failure::Garbage => "what it sends cannot be read",
            Failure::Disconnected => "the connection was lost",
        };
        // A prepared write has only been read for.
        let is_write = matches!(task, Task::Command(..));
        let refusal = if sent && is_write { Refusal::unknown } else { Refusal::new };
        let name = if reason == Failure::Disconnected { "connection_lost" } else { "timeout" };
        let refusal = refusal(name, why.to_owned());
        if reason == Failure::Garbage
            && let Some(reporter) = self.reporter()
        {
            reporter.garbage(now);
        }
        self.unheard(now, task, why, refusal);
    }

    /// The device has answered.
    fn heard(&self, now: Now) {
        self.lost_in_row.set(0);
        self.came(now);
    }

    /// The device has not answered.
    fn unheard(&self, now: Now, task: Task, why: &str, refusal: Refusal) {
        match task {
            Task::Block(_, part) => {
                if let Some(reporter) = self.reporter() {
                    reporter.poll_error(now, why);
                }
                self.block_done(now, part, PollResult::Timeout);
            }
            Task::Command(command, _) | Task::Prepare(command, ..) => self.command_done(command, Err(refusal)),
            Task::Probe => return self.probe_failed(now, why),
            Task::ReadBack(_) => {}
        }
        self.lost_in_row.update(|lost| lost.saturating_add(1));
        if self.lost_in_row.get() >= LOST_MAX {
            self.went(now, why);
        }
    }

    // Reading.

    fn report(&self, now: Now, block: &Block, response: &Response) {
        if let Some(reporter) = self.reporter() {
            reporter.batch(now, self.registers.readings(block, response));
        }
    }

    fn block_done(&self, now: Now, part: PollPart, result: PollResult) {
        let ended = {
            let mut polls = self.polls.borrow_mut();
            let Some(at) = polls.iter().position(|poll| poll.part == part) else { return };
            let Some(poll) = polls.get_mut(at) else { return };
            poll.open = poll.open.saturating_sub(1);
            poll.result = worse(poll.result, result);
            (poll.open == 0).then(|| polls.swap_remove(at))
        };
        if let (Some(poll), Some(reporter)) = (ended, self.reporter()) {
            reporter.poll_done(now, part.class, part.number, poll.result);
        }
    }

    /// The device does not give a block as it was asked for: it is read in parts, or its point is left out.
    fn block_refused(&self, now: Now, id: BlockId, part: PollPart, code: ExceptionCode) {
        let is_of_address = matches!(code, ExceptionCode::ILLEGAL_DATA_ADDRESS | ExceptionCode::ILLEGAL_DATA_VALUE);
        if !is_of_address {
            if let Some(reporter) = self.reporter() {
                reporter.poll_error(now, &format!("the device answers {code}"));
            }
            return self.block_done(now, part, PollResult::Error);
        }
        let outcome = self.planner.borrow_mut().refuse(id);
        let again = match outcome {
            Refused::Unknown => Vec::new(),
            Refused::Split(blocks) => blocks,
            Refused::Unreadable(points, blocks) => {
                for point in &points {
                    let (table, address) = (table_name(point.place.table), point.place.start);
                    tracing::warn!(device = %self.topic, table, address, %code, "the device does not have a point");
                }
                if let Some(reporter) = self.reporter() {
                    reporter.batch(now, points.iter().map(|point| refused(PointId(point.key))));
                }
                blocks
            }
        };
        if let Some(planned) = self.parts.borrow_mut().iter_mut().find(|planned| planned.part == part) {
            let planner = self.planner.borrow();
            planned.blocks.retain(|block| planner.block(*block).is_some());
            planned.blocks.extend(&again);
        }
        let asked = again.into_iter().filter(|block| self.read_block(*block, part)).count();
        if let Some(poll) = self.polls.borrow_mut().iter_mut().find(|poll| poll.part == part) {
            poll.open += asked;
        }
        self.block_done(now, part, PollResult::Ok);
    }

    // Commands.

    fn command_done(&self, command: u64, outcome: Result<(), Refusal>) {
        if let Some(reporter) = self.reporter() {
            reporter.command_done(command, outcome);
        }
    }

    fn write_back(&self, command: u64, point: PointId, change: ReadModifyWrite, until: Instant, response: &Response) {
        let current = if let Response::Registers(registers) = response { registers.first() } else { None };
        let task = Task::Command(command, point);
        let asked = match current {
            Some(current) => self.submit(change.write(*current), task, Priority::Urgent, Some(until)),
            None => Err(SubmitError::Disconnected),
        };
        if let Err(error) = asked {
            self.command_done(command, Err(submit_refusal(error)));
        }
    }

    /// What the device has after a command is read at once. Where it is not asked for now, the next poll brings it.
    fn read_back(&self, point: PointId) {
        let Some(block) = self.registers.alone(point) else { return };
        let _ = self.submit(block.request(), Task::ReadBack(block), Priority::Urgent, None);
    }
}

/// A part for each block of the plan, numbered within its class.
fn parts_of(planner: &Planner) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (id, block) in planner.blocks() {
        let class = PollClass(u8::try_from(block.rate).unwrap_or(0));
        let number = parts.iter().filter(|part| part.part.class == class).count();
        let part = PollPart { class, number: u16::try_from(number).unwrap_or(u16::MAX) };
        parts.push(Part { part, blocks: vec![id] });
    }
    parts
}

const fn worse(one: PollResult, other: PollResult) -> PollResult {
    match (one, other) {
        (PollResult::Timeout, _) | (_, PollResult::Timeout) => PollResult::Timeout,
        (PollResult::Error, _) | (_, PollResult::Error) => PollResult::Error,
        (PollResult::Ok, PollResult::Ok) => PollResult::Ok,
    }
}

fn code_refusal(code: ExceptionCode) -> Refusal {
    Refusal::new(code.name(), format!("the device answers {code}"))
}

fn submit_refusal(error: SubmitError) -> Refusal {
    let name = match error {
        SubmitError::Disconnected => "away",
        SubmitError::Full => "busy",
        SubmitError::Request(_) | SubmitError::Broadcast => "out_of_range",
    };
    Refusal::new(name, error.to_string())
}

impl DeviceSession for ModbusDevice {
    /// The blocks of one part.
    fn poll(&self, class: PollClass, number: u16) -> bool {
        let part = PollPart { class, number };
        let parts = self.parts.borrow();
        let blocks = parts.iter().find(|planned| planned.part == part).map_or(&[][..], |planned| &planned.blocks);
        if blocks.is_empty() {
            // The device has none of these points: it was asked for them, and is not asked again.
            if let Some(reporter) = self.reporter() {
                reporter.poll_done(self.line.session.shard().now(), class, number, PollResult::Ok);
            }
            return true;
        }
        let asked = blocks.iter().filter(|block| self.read_block(**block, part)).count();
        if asked > 0 {
            let result = if asked < blocks.len() { PollResult::Error } else { PollResult::Ok };
            self.polls.borrow_mut().push(Poll { part, open: asked, result });
        }
        asked > 0
    }

    fn command(&self, command_id: u64, command: &Command, until: Instant) -> Result<(), Refusal> {
        let register = self.registers.get(command.point);
        let register = register.ok_or_else(|| Refusal::new("unknown_point", "the point is not here".to_owned()))?;
        let (table, start) = (register.place.table, register.place.start);
        let write = register.layout.write(table, start, &command.value, self.style);
        let (request, task) = match write.map_err(|error| Refusal::new("out_of_range", error.to_string()))? {
            Write::Request(request) => (request, Task::Command(command_id, command.point)),
            Write::ReadModifyWrite(change) => (change.read(), Task::Prepare(command_id, command.point, change, until)),
        };
        self.submit(request, task, Priority::Urgent, Some(until)).map_err(submit_refusal)
    }

    /// Nothing is held: a device is read again.
    fn settle(&self, _lane: Lane, _fragments: u64) {}
}
