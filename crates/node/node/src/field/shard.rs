//! A field shard: one thread with the sessions of some devices.

use super::changes::{self, Changes};
use super::driver::{Context, DeviceSession};
use super::lanes::Lane;
use super::positions::Positions;
use super::{FieldInput, FieldReport, Receipt, drivers};
use crate::config::Numbered;
use crate::trace::{DeviceTraces, Kind, TraceDisk};
use futures_util::FutureExt;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{
    Command, CommandMode, CommandOutcome, DeviceId, Instant, Now, PointId, Reading, Refusal, Topic, Value,
};
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tieline_poll::{DeviceState, GroupId, Limits, PollClass, PollEvent, Poller, Urgency};
use tieline_transport::CertificateCache;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};

/// Inputs that may wait for a shard.
const INPUTS_MAX: usize = 4096;
/// No moment.
const NEVER: Instant = Instant(u64::MAX);
/// What falls due within this time is done together: to wake a thread costs as much as a poll.
const GRID: Duration = Duration::from_millis(5);
/// Updates in one report.
const REPORT_UPDATES_MAX: usize = 4096;

/// The identifier of heartbeats, which no command reaches.
const HEARTBEAT_ID: u64 = 1 << 62;
/// How often traces are handed to the disk.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// How long a heartbeat may take.
const HEARTBEAT_UNTIL: Duration = Duration::from_secs(10);

/// Where reports go, by urgency; `I` is what their reader reads.
pub type ReportSenders<I> = [mpsc::Sender<I>; Urgency::ALL.len()];

/// A running shard.
#[derive(Debug)]
pub struct FieldHandle {
    inputs: mpsc::Sender<FieldInput>,
    thread: ShardThread,
}

impl FieldHandle {
    /// Whether the shard has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// What tells the shard from other threads.
    #[must_use]
    pub fn sender(&self) -> mpsc::Sender<FieldInput> {
        self.inputs.clone()
    }
}

/// What the tasks of a shard share.
pub struct Field {
    number: usize,
    pub(super) poller: Poller,
    pub(super) devices: HashMap<DeviceId, Device>,
    pub(super) traces: DeviceTraces,
    /// Groups of devices, by the names of their networks.
    pub(super) networks: HashMap<String, GroupId>,
    /// Networks of devices that are about to be added.
    pub(super) coming: HashSet<String>,
    /// By urgency.
    reports: [FieldReport; Urgency::ALL.len()],
    /// There is something to report or a new deadline.
    pub(super) work: Rc<Notify>,
    clock: Clock,
}

/// A device of a shard.
pub(super) struct Device {
    pub(super) topic: Topic,
    pub(super) network: Option<String>,
    /// That of its configuration.
    pub(super) revision: u32,
    /// Before whose reports its own go.
    pub(super) urgency: Urgency,
    /// None while it has left.
    pub(super) session: Option<Rc<dyn DeviceSession>>,
}

/// A shard's state, shared by its tasks.
pub type SharedField = Rc<RefCell<Field>>;

/// Starts a shard with its devices; it ends when nobody reads its reports any more.
///
/// # Errors
/// The system gives no thread, an address cannot be listened on, or TLS files cannot be used.
pub fn start<I: From<FieldReport> + Send + 'static>(
    number: usize,
    devices: Vec<Numbered>,
    clock: Clock,
    counters: Arc<Counters>,
    (certificates, traces, positions): (Arc<CertificateCache>, TraceDisk, Positions),
    senders: ReportSenders<I>,
) -> std::io::Result<FieldHandle> {
    let (inputs, incoming) = mpsc::channel(INPUTS_MAX);
    let (ready, started) = std::sync::mpsc::sync_channel(1);
    let thread = ShardThread::spawn(&format!("field-{number}"), clock, counters, move |shard| async move {
        let set = Settings { number, certificates, traces, positions };
        serve(shard, set, devices, (incoming, senders), |result| drop(ready.send(result))).await;
    })?;
    started.recv().map_err(|_| std::io::Error::other("a field thread ended before it began"))??;
    Ok(FieldHandle { inputs, thread })
}

/// What a shard is started with besides its devices.
pub(super) struct Settings {
    /// Which shard it is.
    pub number: usize,
    /// TLS files in use.
    pub certificates: Arc<CertificateCache>,
    /// Where traces are written.
    pub traces: TraceDisk,
    /// Up to when the past of devices is known.
    pub positions: Positions,
}

/// Runs a shard with its devices on the present thread, once `ready` was told whether they could be started.
pub(super) async fn serve<I: From<FieldReport>>(
    shard: Rc<Shard>,
    Settings { number, certificates, traces, positions }: Settings,
    devices: Vec<Numbered>,
    (incoming, senders): (mpsc::Receiver<FieldInput>, ReportSenders<I>),
    ready: impl FnOnce(std::io::Result<()>),
) {
    let (work, clock) = (Rc::new(Notify::new()), shard.clock());
    let poller = Poller::new(Limits { grid: GRID, ..Limits::default() });
    let (networks, coming) = (HashMap::new(), HashSet::new());
    let (devices_here, traces, reports) = (HashMap::new(), DeviceTraces::new(traces), Default::default());
    let field = Field { number, poller, devices: devices_here, traces, networks, coming, reports, work, clock };
    let field = Rc::new(RefCell::new(field));
    let mut drivers = drivers();
    let context = Context::new(Rc::clone(&shard), Rc::clone(&field), certificates, positions);
    let failed = changes::start(&mut drivers, &context, devices).await.into_iter().next();
    let has_failed = failed.is_some();
    ready(failed.map_or(Ok(()), |failed| Err(failed.why)));
    if !has_failed {
        tokio::task::spawn_local(keep_flushing(Rc::clone(&field)));
        let changes = Changes::new(drivers, context);
        run(&shard, &field, &changes, incoming, &senders).await;
    }
}

/// Hands traces to the disk from time to time, until the shard ends.
async fn keep_flushing(field: SharedField) {
    let mut interval = tokio::time::interval(FLUSH_EVERY);
    loop {
        interval.tick().await;
        field.borrow_mut().traces.flush();
    }
}

async fn run<I: From<FieldReport>>(
    shard: &Rc<Shard>,
    field: &SharedField,
    changes: &Changes,
    mut inputs: mpsc::Receiver<FieldInput>,
    senders: &ReportSenders<I>,
) {
    let work = Rc::clone(&field.borrow().work);
    let mut sleep = pin!(tokio::time::sleep_until(shard.clock().at(NEVER)));
    loop {
        let deadline = turn(field, shard.now());
        let Ok(waiting) = tell(field, senders) else { return };
        let until = shard.clock().at(deadline.unwrap_or(NEVER));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        tokio::select! {
            permit = reserve(senders, waiting) => match permit {
                Some((permit, urgency)) => permit.send(field.borrow_mut().take_report(urgency).into()),
                None => return,
            },
            // While there is no room for a report, what is more urgent may come.
            input = inputs.recv() => match input {
                Some(input) => handle(shard.now(), field, changes, input),
                None => {
                    field.borrow_mut().traces.flush();
                    return tell_rest(field, senders).await;
                }
            },
            () = work.notified() => {
                // What was told after the first is seen by the same turn.
                let _ = work.notified().now_or_never();
            }
            () = &mut sleep => {}
        }
    }
}

/// Gives reports while there is room; returns what waits for more. An error: nobody reads reports.
fn tell<I: From<FieldReport>>(field: &SharedField, senders: &ReportSenders<I>) -> Result<Option<Urgency>, ()> {
    let mut field = field.borrow_mut();
    while let Some(urgency) = field.most_urgent() {
        match sender_of(senders, urgency).try_reserve() {
            Ok(permit) => permit.send(field.take_report(urgency).into()),
            Err(TrySendError::Full(())) => return Ok(Some(urgency)),
            Err(TrySendError::Closed(())) => return Err(()),
        }
    }
    Ok(None)
}

/// A place for a report, once there is one to give; none once nobody reads reports.
async fn reserve<I>(senders: &ReportSenders<I>, waiting: Option<Urgency>) -> Option<(mpsc::Permit<'_, I>, Urgency)> {
    match waiting {
        Some(urgency) => Some((sender_of(senders, urgency).reserve().await.ok()?, urgency)),
        None => std::future::pending().await,
    }
}

/// The node ends: what is known by now is told.
async fn tell_rest<I: From<FieldReport>>(field: &SharedField, senders: &ReportSenders<I>) {
    loop {
        let waiting = field.borrow_mut().most_urgent();
        let Some(urgency) = waiting else { return };
        let Ok(permit) = sender_of(senders, urgency).reserve().await else { return };
        permit.send(field.borrow_mut().take_report(urgency).into());
    }
}

const fn sender_of<I>(senders: &ReportSenders<I>, urgency: Urgency) -> &mpsc::Sender<I> {
    let [protection, monitoring, bulk] = senders;
    match urgency {
        Urgency::Protection => protection,
        Urgency::Monitoring => monitoring,
        Urgency::Bulk => bulk,
    }
}

/// Lets deadlines take effect and asks for the polls that are due.
fn turn(field: &SharedField, now: Now) -> Option<Instant> {
    field.borrow_mut().poller.handle_timeout(now);
    loop {
        let request = field.borrow_mut().poller.poll_request(now);
        let Some((device, class, part)) = request else { break };
        Field::poll(field, now, device, class, part);
    }
    loop {
        let event = field.borrow_mut().poller.poll_event();
        match event {
            None => break,
            Some(PollEvent::Heartbeat { device, point, value }) => Field::beat(field, now, device, point, value),
            Some(event) => field.borrow_mut().log(now, &event),
        }
    }
    field.borrow().poller.timeout()
}

fn handle(now: Now, field: &SharedField, changes: &Changes, input: FieldInput) {
    match input {
        FieldInput::Command { device, revision, command_id, command, until } => {
            Field::command(field, (device, revision), command_id, &command, until);
        }
        FieldInput::Settled(receipt) => {
            let session = field.borrow().session(receipt.device);
            if let Some(session) = session {
                session.settle(receipt.lane, receipt.fragments);
            }
        }
        FieldInput::Count(answer) => changes.count(answer),
        FieldInput::Trace(ask) => field.borrow().traces.answer(now, ask),
        FieldInput::Leave(leaving) => changes.leave(leaving),
        FieldInput::Change(changing) => changes.change(changing),
    }
}

/// What needs a person is a warning. That a device comes up for the first time a summary says.
fn log_state(device: &str, from: DeviceState, to: DeviceState, why: &str) {
    let was = from.name();
    match (from, to) {
        (_, DeviceState::Away) => tracing::warn!(device, was, why, "device away"),
        (_, DeviceState::Garbage) => tracing::warn!(device, was, why, "device sends what cannot be read"),
        (_, DeviceState::Slow) => tracing::warn!(device, was, why, "device slow"),
        (DeviceState::Connecting | DeviceState::Restarting, _) | (_, DeviceState::Connecting) => {
            tracing::debug!(device, was, why, "device {}", to.name());
        }
        (_, DeviceState::Online) => tracing::info!(device, was, "device online"),
        (_, DeviceState::Restarting) => tracing::info!(device, was, "device restarting"),
    }
}

impl Field {
    /// A session to call without a borrow of the shard: what it does may be reported at once.
    fn session(&self, device: DeviceId) -> Option<Rc<dyn DeviceSession>> {
        self.devices.get(&device)?.session.clone()
    }

    fn log(&mut self, now: Now, event: &PollEvent) {
        let name =
            |device: &DeviceId| self.devices.get(device).map(|device| device.topic.to_string()).unwrap_or_default();
        match event {
            PollEvent::State { device, from, to, why } => {
                log_state(&name(device), *from, *to, why);
                self.trace_state(now, *device, *to, why);
            }
            PollEvent::UnknownPoint { device, .. } => {
                tracing::debug!(device = name(device), "the device sends points that its list does not have");
            }
            PollEvent::Heartbeat { .. } => {}
        }
    }

    fn trace_state(&mut self, now: Now, device: DeviceId, to: DeviceState, why: &str) {
        let text = if why.is_empty() { to.name().to_owned() } else { format!("{}: {why}", to.name()) };
        self.traces.note(now, device, Kind::State, &text);
        if to == DeviceState::Away {
            self.traces.went_away(now, device);
        }
    }

    fn poll(field: &SharedField, now: Now, device: DeviceId, class: PollClass, part: u16) {
        let session = field.borrow().session(device);
        let Some(session) = session else { return };
        if !session.poll(class, part) {
            let refused = tieline_poll::PollResult::Error;
            field.borrow_mut().poller.handle_poll_done(now, device, class, part, refused);
        }
    }

    /// Writes a heartbeat. One that the device does not take is logged: the next follows.
    fn beat(field: &SharedField, now: Now, device: DeviceId, point: PointId, value: Value) {
        let session = field.borrow().session(device);
        let command = Command { point, value, mode: CommandMode::DirectOperate };
        let refused =
            session.and_then(|session| session.command(HEARTBEAT_ID, &command, now.mono + HEARTBEAT_UNTIL).err());
        if let Some(refusal) = refused {
            field.borrow().log_heartbeat(device, &refusal);
        }
    }

    fn log_heartbeat(&self, device: DeviceId, why: &Refusal) {
        let device = self.devices.get(&device).map(|device| device.topic.to_string()).unwrap_or_default();
        tracing::warn!(device, %why, "a heartbeat was not written");
    }

    fn command(
        field: &SharedField,
        (device, revision): (DeviceId, u32),
        command_id: u64,
        command: &Command,
        until: Instant,
    ) {
        // By another configuration the number of its point may be that of another point.
        let is_current = field.borrow().devices.get(&device).is_some_and(|known| known.revision == revision);
        let session = field.borrow().session(device).filter(|_| is_current);
        let refused = match session {
            Some(session) => session.command(command_id, command, until),
            None => Err(Refusal::reconfigured(false)),
        };
        if let Err(refusal) = refused {
            field.borrow_mut().tell_outcome(device, command_id, Err(refusal));
        }
    }

    pub(super) fn tell_outcome(&mut self, device: DeviceId, command_id: u64, outcome: CommandOutcome) {
        if command_id == HEARTBEAT_ID {
            return outcome.err().iter().for_each(|refusal| self.log_heartbeat(device, refusal));
        }
        if let Err(refusal) = &outcome {
            self.traces.note(self.clock.now(), device, Kind::Failed, &format!("command: {refusal}"));
        }
        let urgency = self.urgency(device).min(Urgency::Monitoring);
        self.report(urgency).outcomes.push((device, command_id, outcome));
        self.work.notify_one();
    }

    pub(super) fn tell_link(&mut self, device: DeviceId, up: bool) {
        let urgency = self.urgency(device).min(Urgency::Monitoring);
        self.report(urgency).links.push((device, up));
        self.work.notify_one();
    }

    pub(super) fn tell_held(&mut self, device: DeviceId, lane: Lane, fragments: u64) {
        let (shard, urgency) = (self.number, self.urgency(device));
        self.report(urgency).receipts.push(Receipt { shard, device, lane, fragments, is_past: false });
    }

    /// Tells what a device had kept, which goes to history alone, and asks for a receipt.
    pub(super) fn tell_past(&mut self, device: DeviceId, readings: Vec<Reading>, number: u64) {
        let updates: Vec<_> =
            readings.into_iter().filter_map(|reading| self.poller.past_update(device, reading)).collect();
        let (shard, urgency, lane) = (self.number, self.urgency(device), Lane::Main);
        let report = self.report(urgency);
        report.past.extend(updates);
        report.receipts.push(Receipt { shard, device, lane, fragments: number, is_past: true });
    }

    pub(super) fn urgency(&self, device: DeviceId) -> Urgency {
        self.devices.get(&device).map_or_else(Urgency::default, |device| device.urgency)
    }

    pub(super) const fn report(&mut self, urgency: Urgency) -> &mut FieldReport {
        let [protection, monitoring, bulk] = &mut self.reports;
        match urgency {
            Urgency::Protection => protection,
            Urgency::Monitoring => monitoring,
            Urgency::Bulk => bulk,
        }
    }

    /// The most urgent of what there is to report, once the poller's first update of it is taken.
    fn most_urgent(&mut self) -> Option<Urgency> {
        Urgency::ALL.into_iter().find(|urgency| {
            if self.report(*urgency).updates.is_empty()
                && let Some(first) = self.poller.poll_update_of(*urgency)
            {
                let count = self.poller.stats().updates_waiting.min(REPORT_UPDATES_MAX);
                let updates = &mut self.report(*urgency).updates;
                updates.reserve(count + 2);
                updates.push(first);
            }
            !self.report(*urgency).is_empty()
        })
    }

    /// Everything that waits of an urgency, in parts. Receipts go with the last part of the updates, barriers with the last part
    /// of what is gone.
    fn take_report(&mut self, urgency: Urgency) -> FieldReport {
        let mut report = std::mem::take(self.report(urgency));
        while report.updates.len() < REPORT_UPDATES_MAX {
            let Some(update) = self.poller.poll_update_of(urgency) else { break };
            report.updates.push(update);
        }
        if report.updates.len() >= REPORT_UPDATES_MAX {
            self.report(urgency).receipts = std::mem::take(&mut report.receipts);
        }
        // What is removed takes the bus as long as what is updated.
        if report.gone.len() > REPORT_UPDATES_MAX {
            self.report(urgency).gone = report.gone.split_off(REPORT_UPDATES_MAX);
            self.report(urgency).barriers = std::mem::take(&mut report.barriers);
        }
        report
    }
}
