//! A field shard: one thread with the sessions of some devices.

use super::counters::FieldCounters;
use super::device::{Tabled, start_channel, start_device};
use super::device_session::DeviceSession;
use super::lanes::Lane;
use super::{FieldInput, FieldReport, Numbered, Receipt};
use crate::bus::{BusHandle, BusInput};
use crate::config::{DeviceConfig, PointConfig, SharedChannel};
use crate::transport::CertificateCache;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Command, CommandOutcome, DeviceId, Instant, Refusal};
use tieline_dnp3::channel::Channel;
use tieline_dnp3::master::Master;
use tieline_net::{Clock, Counters, Session, Shard, ShardThread};
use tieline_poll::{DeviceState, Kind, Limits, PointSpec, PointTable, PollClass, PollEvent, Poller, Urgency};
use tokio::sync::{Notify, mpsc};

/// Inputs that may wait for a shard.
const INPUTS_MAX: usize = 4096;
/// Updates in one report.
const REPORT_UPDATES_MAX: usize = 4096;

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
    pub(super) number: usize,
    pub(super) poller: Poller,
    pub(super) sessions: HashMap<DeviceId, DeviceSession>,
    /// Connections that devices share.
    pub(super) channels: Vec<Session<Channel<Master>>>,
    pub(super) counters: FieldCounters,
    /// By urgency.
    reports: [FieldReport; Urgency::ALL.len()],
    /// There is something to report or a new deadline.
    pub(super) work: Rc<Notify>,
}

/// A shard's state, shared by its tasks.
pub type SharedField = Rc<RefCell<Field>>;

/// Starts a shard with its devices.
///
/// # Errors
/// The system gives no thread, an address cannot be listened on, or TLS files cannot be used.
pub fn start(
    number: usize,
    devices: Vec<Numbered>,
    clock: Clock,
    counters: Arc<Counters>,
    certificates: Arc<CertificateCache>,
    bus: BusHandle,
) -> std::io::Result<FieldHandle> {
    let (inputs, incoming) = mpsc::channel(INPUTS_MAX);
    let (ready, started) = std::sync::mpsc::sync_channel(1);
    let thread = ShardThread::spawn(&format!("field-{number}"), clock, counters, move |shard| async move {
        let work = Rc::new(Notify::new());
        let poller = Poller::new(Limits::default());
        let (reports, counters) = (Default::default(), FieldCounters::default());
        let field = Field { number, poller, sessions: HashMap::new(), channels: Vec::new(), counters, reports, work };
        let field = Rc::new(RefCell::new(field));
        let result = add_devices(&shard, &field, devices, &certificates).await;
        let failed = result.is_err();
        let _ = ready.send(result);
        if !failed {
            run(&shard, &field, incoming, &bus).await;
        }
    })?;
    started.recv().map_err(|_| std::io::Error::other("a field thread ended before it began"))??;
    Ok(FieldHandle { inputs, thread })
}

async fn add_devices(
    shard: &Rc<Shard>,
    field: &SharedField,
    devices: Vec<Numbered>,
    certificates: &CertificateCache,
) -> std::io::Result<()> {
    // Devices that name the same list share one table.
    let mut tables: HashMap<*const PointConfig, Arc<PointTable>> = HashMap::new();
    let mut channels: Vec<(SharedChannel, Vec<Tabled>)> = Vec::new();
    for device in devices {
        let key = device.config.points.as_ptr();
        let table = match tables.get(&key) {
            Some(table) => Arc::clone(table),
            None => {
                let table = table_of(&device.config).map_err(std::io::Error::other)?;
                tables.insert(key, Arc::clone(&table));
                table
            }
        };
        match device.config.channel.clone() {
            None => start_device(shard, field, device, table, certificates).await?,
            Some(shared) => match channels.iter_mut().find(|(known, _)| *known == shared) {
                Some((_, devices)) => devices.push((device, table)),
                None => channels.push((shared, vec![(device, table)])),
            },
        }
    }
    for (shared, devices) in channels {
        start_channel(shard, field, &shared, devices, certificates).await?;
    }
    Ok(())
}

fn table_of(config: &DeviceConfig) -> Result<Arc<PointTable>, tieline_poll::SpecError> {
    let spec = |point: &PointConfig| PointSpec {
        name: point.name.as_str().into(),
        kind: Kind::AsRead,
        scale: point.scale,
        offset: point.offset,
        invert: false,
    };
    PointTable::new(config.points.iter().map(spec).collect())
}

async fn run(shard: &Rc<Shard>, field: &SharedField, mut inputs: mpsc::Receiver<FieldInput>, bus: &BusHandle) {
    let work = Rc::clone(&field.borrow().work);
    loop {
        let now = shard.now();
        let deadline = turn(field, now);
        let waiting = field.borrow_mut().most_urgent();
        let until = shard.clock().at(deadline.unwrap_or(Instant(u64::MAX)));
        tokio::select! {
            permit = reserve(bus, waiting) => match permit {
                Some((permit, urgency)) => permit.send(BusInput::Field(field.borrow_mut().take_report(urgency))),
                None => return,
            },
            // While the bus has no room, what is more urgent may come.
            input = inputs.recv() => match input {
                Some(input) => handle(field, input),
                None => return tell_rest(field, bus).await,
            },
            () = work.notified() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

/// A place on the bus for a report, once there is one to give; none once the bus has stopped.
async fn reserve(bus: &BusHandle, waiting: Option<Urgency>) -> Option<(mpsc::Permit<'_, BusInput>, Urgency)> {
    match waiting {
        Some(urgency) => Some((bus.reserve(urgency).await?, urgency)),
        None => std::future::pending().await,
    }
}

/// The node ends: what is known by now is told.
async fn tell_rest(field: &SharedField, bus: &BusHandle) {
    loop {
        let waiting = field.borrow_mut().most_urgent();
        let Some(urgency) = waiting else { return };
        let Some(permit) = bus.reserve(urgency).await else { return };
        permit.send(BusInput::Field(field.borrow_mut().take_report(urgency)));
    }
}

/// Lets deadlines take effect and asks for the polls that are due.
fn turn(field: &SharedField, now: tieline_core::Now) -> Option<Instant> {
    field.borrow_mut().poller.handle_timeout(now);
    loop {
        let request = field.borrow_mut().poller.poll_request(now);
        let Some((device, class)) = request else { break };
        Field::poll(field, now, device, class);
    }
    let mut field = field.borrow_mut();
    while let Some(event) = field.poller.poll_event() {
        field.log(&event);
    }
    field.poller.timeout()
}

fn handle(field: &SharedField, input: FieldInput) {
    match input {
        FieldInput::Command { device, ticket, command, until } => {
            Field::command(field, device, ticket, &command, until);
        }
        FieldInput::Settled(receipt) => {
            let session = field.borrow().sessions.get(&receipt.device).cloned();
            if let Some(session) = session {
                session.settle(receipt.lane, receipt.fragments);
            }
        }
        // The caller may have gone.
        FieldInput::Count(answer) => drop(answer.send(field.borrow().counted())),
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
    fn log(&self, event: &PollEvent) {
        let name =
            |device: &DeviceId| self.sessions.get(device).map(|session| session.topic.to_string()).unwrap_or_default();
        match event {
            PollEvent::State { device, from, to, why } => log_state(&name(device), *from, *to, why),
            PollEvent::UnknownPoint { device, .. } => {
                tracing::debug!(device = name(device), "the device sends points that its list does not have");
            }
        }
    }

    fn poll(field: &SharedField, now: tieline_core::Now, device: DeviceId, class: PollClass) {
        let session = field.borrow().sessions.get(&device).cloned();
        let Some(session) = session else { return };
        if !session.poll(class) {
            let refused = tieline_poll::PollResult::Error;
            field.borrow_mut().poller.handle_poll_done(now, device, class, refused);
        }
    }

    fn command(field: &SharedField, device: DeviceId, ticket: u64, command: &Command, until: Instant) {
        let session = field.borrow().sessions.get(&device).cloned();
        let refused = match session {
            Some(session) => session.command(ticket, command, until),
            None => Err(Refusal::new("unknown_device", "the device is not here".to_owned())),
        };
        if let Err(refusal) = refused {
            field.borrow_mut().tell_outcome(device, ticket, Err(refusal));
        }
    }

    pub(super) fn tell_outcome(&mut self, device: DeviceId, ticket: u64, outcome: CommandOutcome) {
        let urgency = self.urgency(device).min(Urgency::Monitoring);
        self.report(urgency).outcomes.push((device, ticket, outcome));
        self.work.notify_one();
    }

    pub(super) fn tell_link(&mut self, device: DeviceId, up: bool) {
        let urgency = self.urgency(device).min(Urgency::Monitoring);
        self.report(urgency).links.push((device, up));
        self.work.notify_one();
    }

    pub(super) fn tell_held(&mut self, device: DeviceId, lane: Lane, fragments: u64) {
        let (shard, urgency) = (self.number, self.urgency(device));
        self.report(urgency).receipts.push(Receipt { shard, device, lane, fragments });
    }

    fn urgency(&self, device: DeviceId) -> Urgency {
        self.sessions.get(&device).map_or_else(Urgency::default, |session| session.urgency)
    }

    const fn report(&mut self, urgency: Urgency) -> &mut FieldReport {
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
            if self.report(*urgency).updates.is_empty() {
                let first = self.poller.poll_update_of(*urgency);
                self.report(*urgency).updates.extend(first);
            }
            !self.report(*urgency).is_empty()
        })
    }

    /// Everything that waits of an urgency. Receipts go with the last part of the updates.
    fn take_report(&mut self, urgency: Urgency) -> FieldReport {
        let mut report = std::mem::take(self.report(urgency));
        while report.updates.len() < REPORT_UPDATES_MAX {
            let Some(update) = self.poller.poll_update_of(urgency) else { break };
            report.updates.push(update);
        }
        if report.updates.len() >= REPORT_UPDATES_MAX {
            self.report(urgency).receipts = std::mem::take(&mut report.receipts);
        }
        report
    }
}
