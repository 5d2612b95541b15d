//! A field shard: one thread with the sessions of some devices.

use super::counters::Counted;
use super::driver::{Context, DeviceSession, Tabled};
use super::lanes::Lane;
use super::positions::Positions;
use super::spec::{spec_of, table_of, urgency_of};
use super::{Drivers, FieldInput, FieldReport, Receipt, drivers};
use crate::config::{NetworkConfig, Numbered, PointConfig, Priority};
use crate::trace::{DeviceTraces, Kind, TraceDisk};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{
    Command, CommandMode, CommandOutcome, DeviceId, Instant, Now, PointId, Reading, Refusal, Topic, Value,
};
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tieline_poll::{
    DeviceState, GroupId, GroupKind, GroupSpec, Limits, PointTable, PollClass, PollEvent, Poller, SpecError, Urgency,
};
use tieline_transport::CertificateCache;
use tokio::sync::{Notify, mpsc};

/// Inputs that may wait for a shard.
const INPUTS_MAX: usize = 4096;
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
    devices: HashMap<DeviceId, Device>,
    pub(super) traces: DeviceTraces,
    /// Groups of devices, by the names of their networks.
    networks: HashMap<String, GroupId>,
    /// By urgency.
    reports: [FieldReport; Urgency::ALL.len()],
    /// There is something to report or a new deadline.
    pub(super) work: Rc<Notify>,
    clock: Clock,
}

/// A device of a shard.
struct Device {
    topic: Topic,
    /// Before whose reports its own go.
    urgency: Urgency,
    session: Rc<dyn DeviceSession>,
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
    let poller = Poller::new(Limits::default());
    let networks = HashMap::new();
    let (devices_here, traces, reports) = (HashMap::new(), DeviceTraces::new(traces), Default::default());
    let field = Field { number, poller, devices: devices_here, traces, networks, reports, work, clock };
    let field = Rc::new(RefCell::new(field));
    let mut drivers = drivers();
    let context = Context::new(Rc::clone(&shard), Rc::clone(&field), certificates, positions);
    let result = start_devices(&mut drivers, &context, devices).await;
    let failed = result.is_err();
    ready(result);
    if !failed {
        tokio::task::spawn_local(keep_flushing(Rc::clone(&field)));
        run(&shard, &field, &drivers, incoming, &senders).await;
    }
}

/// Hands traces to the disk from time to time, until the shard ends.
async fn keep_flushing(field: SharedField) {
    if !field.borrow().traces.is_written() {
        return;
    }
    let mut interval = tokio::time::interval(FLUSH_EVERY);
    loop {
        interval.tick().await;
        field.borrow().traces.flush();
    }
}

/// What devices with one table have in common: their list, their intervals, and those of their points.
type TableKey = (*const PointConfig, Vec<Duration>, Vec<Duration>);

/// Starts devices, each by the driver of its protocol.
async fn start_devices(drivers: &mut Drivers, context: &Context, devices: Vec<Numbered>) -> std::io::Result<()> {
    // Devices that name the same list, and are polled as often, share one table.
    let mut tables: HashMap<TableKey, Arc<PointTable>> = HashMap::new();
    let mut tabled: Vec<Tabled> = Vec::new();
    for device in devices {
        let rates = device.config.points.iter().map(|point| device.config.every_of(point)).collect();
        let key = (device.config.points.as_ptr(), device.config.polls.clone(), rates);
        let table = match tables.get(&key) {
            Some(table) => Arc::clone(table),
            None => {
                let table = table_of(&device.config).map_err(std::io::Error::other)?;
                tables.insert(key, Arc::clone(&table));
                table
            }
        };
        tabled.push((device, table));
    }
    context.set_networks(tabled.iter().filter_map(|(device, _)| device.config.network.as_ref()));
    for (protocol, driver) in drivers {
        let here = tabled.extract_if(.., |(device, _)| device.config.protocol.name() == *protocol).collect();
        driver.start(context, here).await?;
    }
    Ok(())
}

async fn run<I: From<FieldReport>>(
    shard: &Rc<Shard>,
    field: &SharedField,
    drivers: &Drivers,
    mut inputs: mpsc::Receiver<FieldInput>,
    senders: &ReportSenders<I>,
) {
    let work = Rc::clone(&field.borrow().work);
    loop {
        let now = shard.now();
        let deadline = turn(field, now);
        let waiting = field.borrow_mut().most_urgent();
        let until = shard.clock().at(deadline.unwrap_or(Instant(u64::MAX)));
        tokio::select! {
            permit = reserve(senders, waiting) => match permit {
                Some((permit, urgency)) => permit.send(field.borrow_mut().take_report(urgency).into()),
                None => return,
            },
            // While there is no room for a report, what is more urgent may come.
            input = inputs.recv() => match input {
                Some(input) => handle(shard.now(), field, drivers, input),
                None => {
                    field.borrow().traces.flush();
                    return tell_rest(field, senders).await;
                }
            },
            () = work.notified() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
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

fn handle(now: Now, field: &SharedField, drivers: &Drivers, input: FieldInput) {
    match input {
        FieldInput::Command { device, command_id, command, until } => {
            Field::command(field, device, command_id, &command, until);
        }
        FieldInput::Settled(receipt) => {
            let session = field.borrow().session(receipt.device);
            if let Some(session) = session {
                session.settle(receipt.lane, receipt.fragments);
            }
        }
        // The caller may have gone.
        FieldInput::Count(answer) => drop(answer.send(Counted::of(drivers))),
        FieldInput::Trace(ask) => field.borrow().traces.answer(now, ask),
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
    /// Devices that are added later may share the limits of a network.
    pub(super) fn set_network(&mut self, now: Now, network: &NetworkConfig) {
        if self.networks.contains_key(&network.name) {
            return;
        }
        let group = GroupId(u32::try_from(self.networks.len()).unwrap_or(u32::MAX));
        let spec = GroupSpec { kind: GroupKind::Network, in_flight_max: network.in_flight, gap_min: network.gap };
        match self.poller.set_group(now, group, spec) {
            Ok(()) => drop(self.networks.insert(network.name.clone(), group)),
            Err(error) => tracing::warn!(network = network.name, %error, "the limits of a network do not hold"),
        }
    }

    pub(super) fn add_device(
        &mut self,
        now: Now,
        (device, table): (&Numbered, &Arc<PointTable>),
        priority: Option<Priority>,
        session: Rc<dyn DeviceSession>,
    ) -> Result<(), SpecError> {
        let urgency = urgency_of(priority);
        let network = device.config.network.as_ref().and_then(|network| self.networks.get(&network.name).copied());
        self.poller.add_device(now, device.id, spec_of(device, Arc::clone(table), urgency, network))?;
        self.traces.add(device.id, &device.config);
        self.devices.insert(device.id, Device { topic: device.config.topic.clone(), urgency, session });
        Ok(())
    }

    /// A session to call without a borrow of the shard: what it does may be reported at once.
    fn session(&self, device: DeviceId) -> Option<Rc<dyn DeviceSession>> {
        self.devices.get(&device).map(|device| Rc::clone(&device.session))
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

    fn command(field: &SharedField, device: DeviceId, command_id: u64, command: &Command, until: Instant) {
        let session = field.borrow().session(device);
        let refused = match session {
            Some(session) => session.command(command_id, command, until),
            None => Err(Refusal::new("unknown_device", "the device is not here".to_owned())),
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

    fn urgency(&self, device: DeviceId) -> Urgency {
        self.devices.get(&device).map_or_else(Urgency::default, |device| device.urgency)
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
