//! Requests, queues of devices, and ends.

mod replace;

pub(crate) use replace::{ByTopic, Follows};

use crate::audit::Note;
use crate::point::{cut, shown};
use crate::refusals::{away_unsent, lost, reasons, refusal, short, timed_out, timed_out_unsent, unanswered, unknown};
use crate::request::{Late, Order, Refused};
use crate::{AuditRecord, CommandId, ControlPoint, Dispatch, Done, Limits, Phase, PointError, Request, Stats};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use hashbrown::HashMap;
use tieline_core::{Command, CommandOutcome, Deadlines, DeviceId, Instant, Now, PointId, Refusal, Topic};

/// Records that one request that was taken leaves at most: requested, sent, timed out, late.
const RECORDS_MAX: usize = 4;

#[derive(Debug)]
struct Pending {
    request: u64,
    group: Option<u64>,
    who: Arc<str>,
    point: Arc<ControlPoint>,
    shown: Box<str>,
    command: Command,
    asked: Instant,
    deadline: Instant,
    /// Whether the request ended while its command is still out.
    is_over: bool,
}

#[derive(Debug, Default)]
struct Device {
    is_online: bool,
    out: Option<CommandId>,
    waiting: VecDeque<CommandId>,
    is_ready: bool,
}

/// The way back: from a request to a device, checked, one by one, written down.
///
/// After any `handle_*`, drain [`Control::poll_command`], [`Control::poll_done`] and [`Control::poll_audit`], and call
/// [`Control::handle_timeout`] when [`Control::timeout`] has passed. Draining late refuses requests, and loses none
/// that was taken.
#[derive(Debug)]
pub struct Control {
    limits: Limits,
    points: HashMap<Topic, Arc<ControlPoint>>,
    devices: HashMap<DeviceId, Device>,
    pending: HashMap<CommandId, Pending>,
    deadlines: Deadlines<CommandId>,
    /// Points with a command under way.
    busy: HashMap<(DeviceId, PointId), CommandId>,
    ready: VecDeque<DeviceId>,
    done: VecDeque<Done>,
    /// Outcomes that came after their request had ended, for who takes them.
    late: Option<VecDeque<Late>>,
    audit: VecDeque<AuditRecord>,
    next_command_id: u64,
    next_record: u64,
    counts: Stats,
}

impl Control {
    /// Without points. Audit records are numbered from `first_record`, so that a restart can go on where the log ended.
    #[must_use]
    pub fn new(limits: Limits, first_record: u64) -> Self {
        Self {
            limits,
            points: HashMap::new(),
            devices: HashMap::new(),
            pending: HashMap::new(),
            deadlines: Deadlines::default(),
            busy: HashMap::new(),
            ready: VecDeque::new(),
            done: VecDeque::new(),
            late: None,
            audit: VecDeque::new(),
            next_command_id: 1,
            next_record: first_record,
            counts: Stats::default(),
        }
    }

    /// As [`Control::new`], for an owner that takes late outcomes too.
    pub(crate) fn with_late_outcomes(limits: Limits, first_record: u64) -> Self {
        Self { late: Some(VecDeque::new()), ..Self::new(limits, first_record) }
    }

    /// The next outcome that came after its request had ended.
    pub(crate) fn poll_late(&mut self) -> Option<Late> {
        self.late.as_mut()?.pop_front()
    }

    /// Adds a point that can be commanded. Its device is away until [`Control::handle_link`] says otherwise.
    ///
    /// # Errors
    /// The point contradicts itself, its topic is taken, or the table is full.
    pub fn add_point(&mut self, point: ControlPoint) -> Result<(), PointError> {
        point.check()?;
        let max = self.limits.points_max;
        if self.points.len() >= max {
            return Err(PointError::PointsFull { max });
        }
        if self.points.contains_key(&point.topic) {
            return Err(PointError::TopicTwice { topic: point.topic });
        }
        self.add_device(point.device);
        self.points.insert(point.topic.clone(), Arc::new(point));
        Ok(())
    }

    /// Adds a device: whether it can be reached is known before it has a point.
    pub fn add_device(&mut self, device: DeviceId) {
        self.devices.entry(device).or_default();
    }

    /// The point of a topic.
    #[must_use]
    pub fn point(&self, topic: &str) -> Option<&ControlPoint> {
        self.points.get(topic).map(|point| &**point)
    }

    /// Takes a request, which ends in one [`Done`], or refuses it at once.
    ///
    /// # Errors
    /// The refusal, with what was found and what was expected; nothing reaches a device then.
    pub fn handle_request(&mut self, now: Now, request: Request) -> Result<(), Refusal> {
        let taken = self.resolve(&request.topic, request.topic_exists);
        let taken = taken.and_then(|point| Ok((point.command(&request.value, request.mode)?, point)));
        let shown = shown(&request.value).into_boxed_str();
        let Request { id, topic, mode, timeout, who, .. } = request;
        let taken = taken.and_then(|(command, point)| self.check_room(&point).map(|()| (command, point)));
        match taken {
            Ok((command, point)) => {
                self.accept(now, Order { request: id, group: None, who, shown, point, command, timeout });
                Ok(())
            }
            Err(refusal) => {
                self.refuse(now, Refused { request: id, group: None, who, topic, shown, mode }, &refusal);
                Err(refusal)
            }
        }
    }

    /// Takes a command that has been checked, which ends in one [`Done`], or refuses it at once.
    pub(crate) fn handle_order(&mut self, now: Now, order: Order) -> Result<(), Refusal> {
        if let Err(refusal) = self.check_room(&order.point) {
            let Order { request, group, who, shown, point, command, .. } = order;
            let (topic, mode) = (point.topic.clone(), Some(command.mode));
            self.refuse(now, Refused { request, group, who, topic, shown, mode }, &refusal);
            return Err(refusal);
        }
        self.accept(now, order);
        Ok(())
    }

    fn accept(&mut self, now: Now, order: Order) {
        let command_id = CommandId(self.next_command_id);
        self.next_command_id += 1;
        let timeout = order.timeout.unwrap_or(self.limits.timeout).min(self.limits.timeout_max);
        let pending = Pending {
            request: order.request,
            group: order.group,
            who: cut(&order.who).into(),
            shown: order.shown,
            command: order.command,
            asked: now.mono,
            deadline: now.mono + timeout,
            is_over: false,
            point: order.point,
        };
        self.counts.requested += 1;
        self.deadlines.add(pending.deadline, command_id);
        self.busy.insert((pending.point.device, pending.point.point), command_id);
        if let Some(device) = self.devices.get_mut(&pending.point.device) {
            device.waiting.push_back(command_id);
        }
        let id = pending.point.device;
        self.record(now, &pending, Phase::Requested, &Ok(()));
        self.pending.insert(command_id, pending);
        self.offer(id);
    }

    /// Counts a refusal and writes it down.
    pub(crate) fn refuse(&mut self, now: Now, refused: Refused, refusal: &Refusal) {
        self.counts.refused += 1;
        let Refused { request, group, who, topic, shown, mode } = refused;
        let device = self.point(&topic).map(|point| point.device);
        let note = Note { request, group, who, topic, device, value: shown, mode, phase: Phase::Refused };
        self.note(now, note, refusal.reason, refusal.detail.clone());
    }

    /// Takes whether a device can be reached. What waits for or is out at a device that is lost ends with `away`.
    pub fn handle_link(&mut self, now: Now, id: DeviceId, is_online: bool) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        device.is_online = is_online;
        if is_online {
            return self.offer(id);
        }
        self.end_commands(now, id, lost, away_unsent);
    }

    /// Ends what is out at a device, and what waits for it.
    fn end_commands(&mut self, now: Now, id: DeviceId, out: fn() -> Refusal, unsent: fn() -> Refusal) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let waiting = core::mem::take(&mut device.waiting);
        if let Some(command_id) = device.out.take() {
            self.finish(now, command_id, Phase::Lost, Err(out()));
            self.forget(command_id);
        }
        for command_id in waiting {
            self.finish(now, command_id, Phase::Dropped, Err(unsent()));
            self.forget(command_id);
        }
    }

    /// Takes what became of the command that is out at a device.
    pub fn handle_outcome(&mut self, now: Now, id: DeviceId, command_id: CommandId, outcome: CommandOutcome) {
        let Some(device) = self.devices.get_mut(&id).filter(|device| device.out == Some(command_id)) else {
            self.counts.stray_outcomes += 1;
            return;
        };
        device.out = None;
        let phase = match &outcome {
            Ok(()) => Phase::Succeeded,
            Err(refusal) if refusal.maybe_operated => Phase::Lost,
            Err(_) => Phase::Failed,
        };
        self.finish(now, command_id, phase, outcome);
        self.forget(command_id);
        self.offer(id);
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((_, command_id)) = self.deadlines.take_next(now.mono) {
            self.expire(now, command_id);
        }
    }

    /// When [`Control::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.deadlines.timeout()
    }

    /// The next command, of a device at which none is out. One whose time is over is not sent any more.
    pub fn poll_command(&mut self, now: Now) -> Option<Dispatch> {
        self.poll_allowed(now, |_| Ok(None)).map(|(dispatch, _)| dispatch)
    }

    /// As [`Control::poll_command`], with the number of its request. A command that is not allowed any more is not sent; one
    /// that is allowed for a time has no more than that.
    pub(crate) fn poll_allowed(
        &mut self,
        now: Now,
        allows: impl Fn(u64) -> Result<Option<Duration>, Refusal>,
    ) -> Option<(Dispatch, u64)> {
        self.handle_timeout(now);
        while let Some(id) = self.ready.pop_front() {
            let Some(device) = self.devices.get_mut(&id) else { continue };
            device.is_ready = false;
            if device.out.is_some() || !device.is_online {
                continue;
            }
            let Some(command_id) = device.waiting.pop_front() else { continue };
            let Some(pending) = self.pending.get(&command_id) else { continue };
            let request = pending.request;
            let window = match allows(request) {
                Ok(window) => window,
                Err(refusal) => {
                    self.finish(now, command_id, Phase::Dropped, Err(refusal));
                    self.forget(command_id);
                    self.offer(id);
                    continue;
                }
            };
            device.out = Some(command_id);
            self.counts.sent += 1;
            let Some(mut pending) = self.pending.remove(&command_id) else { continue };
            if let Some(end) = window.map(|window| now.mono + window).filter(|end| *end < pending.deadline) {
                self.deadlines.remove(pending.deadline, command_id);
                self.deadlines.add(end, command_id);
                pending.deadline = end;
            }
            self.record(now, &pending, Phase::Sent, &Ok(()));
            let (command, until) = (pending.command.clone(), pending.deadline);
            self.pending.insert(command_id, pending);
            return Some((Dispatch { device: id, command, until, command_id }, request));
        }
        None
    }

    /// The next end of a request.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// The next record for the audit log.
    pub fn poll_audit(&mut self) -> Option<AuditRecord> {
        self.audit.pop_front()
    }

    /// Sizes and counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { points: self.points.len(), under_way: self.pending.len(), ..self.counts }
    }

    /// The point of a topic.
    pub(crate) fn resolve(&self, topic: &Topic, topic_exists: bool) -> Result<Arc<ControlPoint>, Refusal> {
        self.points.get(topic).cloned().ok_or_else(|| unknown(topic, topic_exists))
    }

    /// Whether a device can be commanded.
    pub(crate) fn is_online(&self, device: DeviceId) -> bool {
        self.devices.get(&device).is_some_and(|device| device.is_online)
    }

    /// The points of the commands that are out at devices.
    pub(crate) fn out(&self) -> impl Iterator<Item = &ControlPoint> {
        let out = self.devices.values().filter_map(|device| self.pending.get(&device.out?));
        out.map(|pending| &*pending.point)
    }

    /// Whether a command for a point is under way.
    pub(crate) fn is_busy(&self, point: (DeviceId, PointId)) -> bool {
        self.busy.contains_key(&point)
    }

    /// Whether one more command can be taken, of whatever device.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() + self.done.len() < self.limits.requests_max && self.has_audit_room(RECORDS_MAX)
    }

    fn check_room(&self, point: &ControlPoint) -> Result<(), Refusal> {
        let device = self.devices.get(&point.device);
        let Some(device) = device.filter(|device| device.is_online) else {
            return Err(refusal("away", format!("the device of {} is not connected", point.topic)));
        };
        if self.busy.contains_key(&(point.device, point.point)) {
            return Err(refusal("busy", format!("a command for {} is under way", point.topic)));
        }
        let max = self.limits.device_queue_max;
        if device.waiting.len() >= max {
            return Err(refusal("queue_full", format!("{max} requests wait for the device of {}", point.topic)));
        }
        let max = self.limits.requests_max;
        if self.pending.len() + self.done.len() >= max {
            return Err(refusal("queue_full", format!("{max} requests are under way")));
        }
        if !self.has_audit_room(RECORDS_MAX) {
            let detail = format!("{} records wait to be written to the audit log", self.audit.len());
            return Err(refusal("audit_full", detail));
        }
        Ok(())
    }

    /// Whether so many more records fit beside those that the requests under way may leave.
    fn has_audit_room(&self, records: usize) -> bool {
        self.audit.len() + RECORDS_MAX * self.pending.len() + records <= self.limits.audit_max
    }

    fn expire(&mut self, now: Now, command_id: CommandId) {
        let Some(pending) = self.pending.get(&command_id) else { return };
        let (id, is_over) = (pending.point.device, pending.is_over);
        let Some(device) = self.devices.get_mut(&id) else { return };
        let is_out = device.out == Some(command_id);
        if is_out && !is_over {
            self.finish(now, command_id, Phase::TimedOut, Err(timed_out()));
            let again = now.mono + self.limits.unanswered_after;
            if let Some(pending) = self.pending.get_mut(&command_id) {
                pending.deadline = again;
                self.deadlines.add(again, command_id);
            }
            return;
        }
        if is_out {
            device.out = None;
            self.finish(now, command_id, Phase::Unanswered, Err(unanswered()));
        } else {
            device.waiting.retain(|other| *other != command_id);
            self.finish(now, command_id, Phase::Dropped, Err(timed_out_unsent()));
        }
        self.forget(command_id);
        self.offer(id);
    }

    /// Ends a request, or, where it has ended, only records what came after.
    fn finish(&mut self, now: Now, command_id: CommandId, phase: Phase, outcome: CommandOutcome) {
        let Some(mut pending) = self.pending.remove(&command_id) else { return };
        let was_over = core::mem::replace(&mut pending.is_over, true);
        let phase = match phase {
            Phase::Succeeded | Phase::Failed if was_over => Phase::Late,
            Phase::Lost if was_over => Phase::Unanswered,
            other => other,
        };
        self.counts.count(phase);
        self.record(now, &pending, phase, &outcome);
        if !was_over {
            let elapsed = now.mono.since(pending.asked);
            self.done.push_back(Done { request: pending.request, outcome, elapsed });
        } else if let Some(late) = self.late.as_mut().filter(|_| phase == Phase::Late) {
            let (device, point) = (pending.point.device, pending.point.point);
            late.push_back(Late { request: pending.request, device, point, outcome });
        }
        self.pending.insert(command_id, pending);
    }

    fn forget(&mut self, command_id: CommandId) {
        if let Some(pending) = self.pending.remove(&command_id) {
            self.deadlines.remove(pending.deadline, command_id);
            self.busy.remove(&(pending.point.device, pending.point.point));
        }
    }

    /// Queues a device for [`Control::poll_command`], which decides whether it may be commanded.
    fn offer(&mut self, id: DeviceId) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        if !device.is_ready && !device.waiting.is_empty() {
            device.is_ready = true;
            self.ready.push_back(id);
        }
    }

    fn record(&mut self, now: Now, pending: &Pending, phase: Phase, outcome: &CommandOutcome) {
        let (reason, detail) = reasons(outcome);
        let id = self.next_record_id();
        self.audit.push_back(AuditRecord {
            id,
            time: now.utc,
            request: pending.request,
            group: pending.group,
            who: pending.who.clone(),
            topic: pending.point.topic.clone(),
            device: Some(pending.point.device),
            value: pending.shown.clone(),
            mode: Some(pending.command.mode),
            phase,
            reason,
            detail,
        });
    }

    /// Writes down what is of no command that was taken. Room is kept for those that were, so a flood of others loses its
    /// own records first; their numbers are used, so that the gap shows.
    pub(crate) fn note(&mut self, now: Now, note: Note, reason: &'static str, detail: String) {
        let id = self.next_record_id();
        if !self.has_audit_room(1) {
            self.counts.audit_lost += 1;
            return;
        }
        self.audit.push_back(AuditRecord {
            id,
            time: now.utc,
            request: note.request,
            group: note.group,
            who: cut(&note.who).into(),
            device: note.device,
            topic: short(note.topic),
            value: note.value,
            mode: note.mode,
            phase: note.phase,
            reason,
            detail,
        });
    }

    const fn next_record_id(&mut self) -> u64 {
        let id = self.next_record;
        self.next_record += 1;
        id
    }
}
