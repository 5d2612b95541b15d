//! One DNP3 device: its session, and what its events mean to the poller.

use super::Numbered;
use super::device_session::{Association, DeviceSession, EVENTS, INTEGRITY, POLL_TOKEN};
use super::lanes::{Lane, Lanes};
use super::link::Link;
use super::scheduled::{FREEZE_TOKEN, START_TOKEN, ScheduledTasks, keep_freezing};
use super::shard::{Field, SharedField};
use super::translate::{PointIndex, to_reading};
use crate::config::secure::master_machine;
use crate::config::{
    DeviceConfig, Dnp3Config, LaneConfig, LinkConfirms, Priority, Protocol, SharedChannel, TimeSync as SyncConfig,
};
use crate::transport::{CertificateCache, Transport};
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{CommandOutcome, DeviceId, Now, PointId, Refusal};
use tieline_dnp3::Classes;
use tieline_dnp3::app::{Found, Values};
use tieline_dnp3::channel::{Channel, ChannelEvent};
use tieline_dnp3::endpoint::LinkService;
use tieline_dnp3::lean::LeanConfig;
use tieline_dnp3::link::LinkAddress;
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent, OfflineReason, TaskOutcome, TimeSync};
use tieline_dnp3::secure::{AuthError, SecurityEvent};
use tieline_net::{Closed, Limits, Marks, Owner, Peer, Session, Shard};
use tieline_poll::{DeviceSpec, LinkState, PointTable, PollResult, PollSpec, Publish, Urgency};

/// Connections of a device that connects to us: one, and those that take the place of a dead one.
const LISTEN_SESSIONS_MAX: usize = 4;
/// The shortest rest between two polls of one device.
const GAP_MIN: Duration = Duration::from_millis(50);

/// Adds a device and keeps its session going.
///
/// # Errors
/// Its address cannot be listened on, its TLS files cannot be used, or the poller does not take it.
pub async fn start_device(
    shard: &Rc<Shard>,
    field: &SharedField,
    device: Numbered,
    table: Arc<PointTable>,
    certificates: &CertificateCache,
) -> std::io::Result<()> {
    let transport = device.config.transport.clone();
    let (topic, seed) = (device.config.topic.clone(), u64::from(device.id.0));
    let Protocol::Dnp3(dnp3) = &device.config.protocol;
    let session = Session::new(shard, master_of(dnp3, &transport), Limits::default());
    let lane = dnp3.lane.as_deref().cloned();
    let urgent = lane.map(|lane| (Session::new(shard, urgent_master(dnp3, &lane), Limits::default()), lane));
    let marks = device.config.priority.map(marks_of);
    let links = (Link::Alone(session.clone()), urgent.as_ref().map(|(session, _)| Link::Alone(session.clone())));
    let owner = start_session(shard, field, device, table, links)?;
    let named = |error: &dyn std::fmt::Display| unreachable(&topic, &transport, error);
    let route = transport.route(certificates, LISTEN_SESSIONS_MAX).map_err(|error| named(&error))?.marked(marks);
    route.start(session, seed, owner.clone()).await.map_err(|error| named(&error))?;
    if let Some((session, LaneConfig { transport, priority, .. })) = urgent {
        let named = |error: &dyn std::fmt::Display| unreachable(&topic, &transport, error);
        let route = transport.route(certificates, LISTEN_SESSIONS_MAX).map_err(|error| named(&error))?;
        let route = route.marked(Some(marks_of(priority)));
        route.start(session, seed, owner.on_urgent_lane()).await.map_err(|error| named(&error))?;
    }
    Ok(())
}

/// A device with its table.
pub type Tabled = (Numbered, Arc<PointTable>);

/// Adds devices that share a connection, and keeps it going.
///
/// # Errors
/// As for one of them; there are too many.
pub async fn start_channel(
    shard: &Rc<Shard>,
    field: &SharedField,
    shared: &SharedChannel,
    devices: Vec<Tabled>,
    certificates: &CertificateCache,
) -> std::io::Result<()> {
    let Some((first, _)) = devices.first() else { return Ok(()) };
    let (transport, seed) = (first.config.transport.clone(), u64::from(first.id.0));
    // One connection carries one priority: that of its most urgent device.
    let marks = devices.iter().filter_map(|(device, _)| device.config.priority).min().map(marks_of);
    let mut channel = Channel::new(shared.one_at_a_time);
    let mut members = Vec::new();
    for (device, _) in &devices {
        let Protocol::Dnp3(dnp3) = &device.config.protocol;
        let (local, remote) = (LinkAddress::new(dnp3.master), LinkAddress::new(dnp3.outstation));
        members.push(channel.add(local, Some(remote), master_of(dnp3, &transport)).map_err(std::io::Error::other)?);
    }
    let session = Session::new(shard, channel, Limits::default());
    field.borrow_mut().channels.push(session.clone());
    let mut owners = Vec::new();
    for ((device, table), member) in devices.into_iter().zip(members) {
        owners.push(start_session(shard, field, device, table, (Link::Shared(session.clone(), member), None))?);
    }
    let named = |error: &dyn std::fmt::Display| unreachable(&shared.name, &transport, error);
    let route = transport.route(certificates, LISTEN_SESSIONS_MAX).map_err(|error| named(&error))?.marked(marks);
    route.start(session, seed, ChannelOwner { owners }).await.map_err(|error| named(&error))?;
    Ok(())
}

fn unreachable(what: &str, transport: &Transport, error: &dyn std::fmt::Display) -> std::io::Error {
    std::io::Error::other(format!("{what} cannot be reached by {transport}: {error}"))
}

/// Starts a device's session on the shard, with its main link and, where it has one, its link for what is urgent.
fn start_session(
    shard: &Rc<Shard>,
    field: &SharedField,
    device: Numbered,
    table: Arc<PointTable>,
    (main, urgent): (Link, Option<Link>),
) -> std::io::Result<DeviceOwner> {
    let Numbered { id, config, recorded } = device;
    let Protocol::Dnp3(dnp3) = &config.protocol;
    let index = Rc::new(PointIndex::new(Arc::clone(&config.points)));
    let lanes = urgent.as_ref().map(|_| Rc::new(RefCell::new(Lanes::new(config.points.len(), dnp3.response_timeout))));
    keep_freezing(shard, field, &config.topic, &main, &dnp3.freezes);
    let tasks = ScheduledTasks::of(dnp3, &config.points);
    let (main, urgent) = (Association::new(main), urgent.map(Association::new));
    let urgency = urgency_of(&config);
    let device = DeviceSession { topic: config.topic.clone(), urgency, index, main, urgent, lanes };
    let mut shared = field.borrow_mut();
    shared.poller.add_device(shard.now(), id, spec_of(&config, table, recorded)).map_err(std::io::Error::other)?;
    shared.sessions.insert(id, device.clone());
    drop(shared);
    Ok(DeviceOwner { field: Rc::clone(field), id, lane: Lane::Main, association: device.main.clone(), device, tasks })
}

fn master_of(dnp3: &Dnp3Config, transport: &Transport) -> Master {
    equipped(Master::new(master_config(dnp3, transport)), dnp3)
}

/// The master of a device's urgent connection: it takes what is reported there and commands, and reads nothing else.
fn urgent_master(dnp3: &Dnp3Config, lane: &LaneConfig) -> Master {
    let config = MasterConfig {
        address: lane.master,
        integrity: Classes::NONE,
        enable_unsolicited: if dnp3.unsolicited { lane.classes } else { Classes::NONE },
        event_poll: lane.classes,
        time_sync: TimeSync::Never,
        ..master_config(dnp3, &lane.transport)
    };
    equipped(Master::new(config), dnp3)
}

fn equipped(mut master: Master, dnp3: &Dnp3Config) -> Master {
    if let Some(secure) = &dnp3.secure {
        master.set_security(master_machine(secure));
    }
    let service = |confirms: LinkConfirms| LinkService {
        confirms: true,
        timeout: confirms.timeout,
        retries: confirms.retries,
        ..LinkService::default()
    };
    master.set_link_service(dnp3.link_confirms.map(service));
    master.vary(random());
    master
}

/// The seeds of the standard library come from the system's random source.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

const fn marks_of(priority: Priority) -> Marks {
    match priority {
        Priority::Protection => Marks::PROTECTION,
        Priority::Monitoring => Marks::MONITORING,
        Priority::Bulk => Marks::BULK,
    }
}

/// A device is as urgent as the more urgent of its connections: its points keep one order.
fn urgency_of(config: &DeviceConfig) -> Urgency {
    let Protocol::Dnp3(dnp3) = &config.protocol;
    let lane = dnp3.lane.as_ref().map(|lane| lane.priority);
    match config.priority.into_iter().chain(lane).min() {
        Some(Priority::Protection) => Urgency::Protection,
        Some(Priority::Monitoring) | None => Urgency::Monitoring,
        Some(Priority::Bulk) => Urgency::Bulk,
    }
}

fn master_config(dnp3: &Dnp3Config, transport: &Transport) -> MasterConfig {
    let unsolicited = if dnp3.unsolicited { Classes::EVENTS } else { Classes::NONE };
    MasterConfig {
        address: dnp3.master,
        outstation: dnp3.outstation,
        response_timeout: dnp3.response_timeout,
        keep_alive: Some(dnp3.keep_alive),
        enable_unsolicited: unsolicited,
        event_poll: Classes::EVENTS,
        time_sync: match dnp3.time_sync {
            SyncConfig::Lan => TimeSync::Lan,
            SyncConfig::Delay => TimeSync::DelayMeasure,
            SyncConfig::Off => TimeSync::Never,
        },
        hold_confirm: dnp3.confirm_stored,
        lean: transport.carrier().filter(|_| dnp3.lean).map(|carrier| LeanConfig { side: transport.side(), carrier }),
        ..MasterConfig::default()
    }
}

fn spec_of(config: &DeviceConfig, table: Arc<PointTable>, recorded: bool) -> DeviceSpec {
    let integrity = config.poll_integrity.map(|every| PollSpec { class: INTEGRITY, every });
    let events = config.poll_events.map(|every| PollSpec { class: EVENTS, every });
    DeviceSpec {
        topic: config.topic.clone(),
        table,
        polls: integrity.into_iter().chain(events).collect(),
        gap_min: GAP_MIN,
        slow_after: None,
        stale_after: config.stale_after,
        publish: Publish {
            each: config.publish_points || recorded,
            unchanged: true,
            all: config.publish_all,
            all_every: config.all_every,
        },
        urgency: urgency_of(config),
    }
}

/// Learns of one of a device's sessions.
#[derive(Clone)]
struct DeviceOwner {
    field: SharedField,
    id: DeviceId,
    lane: Lane,
    /// That of the lane.
    association: Association,
    device: DeviceSession,
    tasks: Option<Rc<ScheduledTasks>>,
}

impl DeviceOwner {
    /// The owner of the device's other session.
    fn on_urgent_lane(self) -> Self {
        let association = self.device.urgent.clone().unwrap_or_else(|| self.association.clone());
        Self { lane: Lane::Urgent, association, tasks: None, ..self }
    }

    fn with(&self, call: impl FnOnce(&mut Field)) {
        let mut field = self.field.borrow_mut();
        call(&mut field);
        field.work.notify_one();
    }

    /// Says whether the session is up; whether the device's other one is.
    fn set_up(&self, up: bool) -> bool {
        self.device.lanes.as_ref().is_some_and(|lanes| lanes.borrow_mut().set_up(self.lane, up))
    }

    fn away(&self, now: Now, why: &str) {
        if self.set_up(false) {
            tracing::warn!(device = %self.device.topic, lane = self.lane.name(), why, "one of a device's connections is lost");
            return;
        }
        self.with(|field| {
            field.poller.handle_link(now, self.id, LinkState::Away { why: why.into() });
            field.tell_link(self.id, false);
        });
    }

    fn online(&self, now: Now) {
        if self.set_up(true) {
            tracing::info!(device = %self.device.topic, lane = self.lane.name(), "both of a device's connections are up");
            return;
        }
        self.with(|field| {
            field.poller.handle_link(now, self.id, LinkState::Online);
            field.tell_link(self.id, true);
        });
    }

    /// Says what the device must be told.
    fn run_tasks(&self, now: Now) {
        if let Some(tasks) = &self.tasks {
            tasks.start(now, &self.association.link);
        }
    }

    fn task_done(&self, now: Now, token: u64, outcome: TaskOutcome) {
        match token {
            FREEZE_TOKEN => return self.freeze_done(outcome),
            START_TOKEN => return self.start_task_done(&outcome),
            ticket if ticket & POLL_TOKEN == 0 => {
                return self.with(|field| field.tell_outcome(self.id, ticket, command_outcome(outcome)));
            }
            _ => {}
        }
        let class = if token & 1 == 1 { EVENTS } else { INTEGRITY };
        let result = match outcome {
            TaskOutcome::Done | TaskOutcome::Sent => PollResult::Ok,
            TaskOutcome::Timeout { .. } => PollResult::Timeout,
            TaskOutcome::Refused(_)
            | TaskOutcome::Indicated(_)
            | TaskOutcome::ConnectionLost { .. }
            | TaskOutcome::BadEcho { .. }
            | TaskOutcome::Malformed
            | TaskOutcome::TooLong
            | TaskOutcome::Unauthenticated(_) => PollResult::Error,
        };
        self.with(|field| field.poller.handle_poll_done(now, self.id, class, result));
    }

    fn start_task_done(&self, outcome: &TaskOutcome) {
        if *outcome != TaskOutcome::Done {
            tracing::warn!(device = %self.device.topic, %outcome, "the device did not take its dead-bands or freezes");
        }
        if let Some(tasks) = &self.tasks {
            tasks.go_on(&self.association.link);
        }
    }

    fn freeze_done(&self, outcome: TaskOutcome) {
        let done = outcome == TaskOutcome::Done;
        if !done {
            tracing::warn!(device = %self.device.topic, %outcome, "a freeze failed");
        }
        let counters = &mut self.field.borrow_mut().counters;
        counters.freezes_done += u64::from(done);
        counters.freezes_failed += u64::from(!done);
    }

    fn read(&self, now: Now, values: &Values) {
        let poller = &mut self.field.borrow_mut().poller;
        values.iter().for_each(|found| {
            let Found::Measurement { measurement, event, .. } = found else { return };
            let point = self.device.index.find(measurement.point_type, measurement.index).unwrap_or(PointId(u32::MAX));
            if let Some(lanes) = &self.device.lanes {
                let millis = measurement.stamp.map(|stamp| stamp.time.millis()).filter(|millis| *millis > 0);
                if !lanes.borrow_mut().admits(now.mono, self.lane, point, event, millis) {
                    return;
                }
            }
            poller.handle_reading(now, self.id, to_reading(point, measurement, event));
        });
    }
}

/// What a person should know of a device's secure authentication.
fn note_security(device: DeviceId, event: &SecurityEvent) {
    match event {
        SecurityEvent::KeysChanged { user } => tracing::info!(device = device.0, user, "session keys changed"),
        SecurityEvent::KeyChangeFailed { user } => {
            tracing::warn!(device = device.0, user, "session keys could not be changed");
        }
        SecurityEvent::ErrorReceived { user, error } => {
            let error = error.map_or("unknown", AuthError::name);
            tracing::warn!(device = device.0, user, error, "the device refuses our authentication");
        }
        SecurityEvent::Statistic { statistic, count } => {
            tracing::debug!(device = device.0, statistic = statistic.name(), count, "security statistic");
        }
        SecurityEvent::KeysLost { .. }
        | SecurityEvent::Refused { .. }
        | SecurityEvent::UpdateKeyChanged { .. }
        | SecurityEvent::UserRemoved { .. }
        | SecurityEvent::StatusSequence(_) => {}
    }
}

fn command_outcome(outcome: TaskOutcome) -> CommandOutcome {
    match outcome {
        TaskOutcome::Done => Ok(()),
        // Of an answer that does not end it is not known which step it is of.
        other if other.maybe_operated() || other == TaskOutcome::TooLong => {
            Err(Refusal::unknown(other.name(), other.to_string()))
        }
        other => Err(Refusal::new(other.name(), other.to_string())),
    }
}

impl DeviceOwner {
    fn heard(&self, now: Now, event: MasterEvent) {
        match event {
            MasterEvent::Online => self.online(now),
            // The session's end, which follows, says why.
            MasterEvent::Offline(OfflineReason::Disconnected) => {}
            MasterEvent::Offline(OfflineReason::Timeout) => self.away(now, "no answer in time"),
            MasterEvent::Offline(OfflineReason::Garbage) => {
                self.with(|field| field.poller.handle_garbage(now, self.id));
                self.away(now, "what it sends cannot be read");
            }
            // The other session says the same, and reads everything.
            MasterEvent::Restarted | MasterEvent::Ready if self.lane == Lane::Urgent => {}
            MasterEvent::Restarted => {
                self.with(|field| field.poller.handle_restart(now, self.id));
                self.run_tasks(now);
            }
            MasterEvent::Ready => {
                self.with(|field| field.poller.handle_poll_done(now, self.id, INTEGRITY, PollResult::Ok));
                self.run_tasks(now);
            }
            MasterEvent::LinkAlive => self.with(|field| field.poller.handle_alive(now, self.id)),
            MasterEvent::EventsLost => tracing::warn!(device = self.id.0, "the device lost events to a full buffer"),
            MasterEvent::Indications(iin) => tracing::debug!(device = self.id.0, iin = iin.0, "indications"),
            MasterEvent::Values { values, unsolicited: _ } => self.read(now, &values),
            MasterEvent::FragmentEnd { confirm_held, unsolicited: _ } => self.with(|field| {
                field.poller.handle_batch_end(now, self.id);
                if confirm_held {
                    let held = &self.association.held;
                    held.set(held.get() + 1);
                    field.tell_held(self.id, self.lane, held.get());
                }
            }),
            MasterEvent::TaskDone { token, outcome } => self.task_done(now, token, outcome),
            MasterEvent::Answer { .. } | MasterEvent::Files(_) => {}
            MasterEvent::Security(event) => {
                if matches!(*event, SecurityEvent::KeyChangeFailed { .. } | SecurityEvent::ErrorReceived { .. }) {
                    self.field.borrow_mut().poller.handle_authentication_failure(self.id);
                }
                note_security(self.id, &event);
            }
        }
    }

    fn begun(&self, now: Now, peer: &Peer) {
        tracing::debug!(device = self.id.0, %peer, "connected");
        if !self.set_up(false) {
            self.with(|field| field.poller.handle_link(now, self.id, LinkState::Connecting));
        }
    }

    fn ended(&self, now: Now, why: Closed) {
        match why {
            // The master gave up, and said why before.
            Closed::Machine => {}
            Closed::Peer
            | Closed::Io(_)
            | Closed::Owner
            | Closed::Replaced
            | Closed::Slow
            | Closed::Full
            | Closed::Silent
            | Closed::Tls(_)
            | Closed::Stuck => self.away(now, &why.to_string()),
        }
    }
}

impl Owner<Master> for DeviceOwner {
    fn event(&mut self, _session: &Session<Master>, now: Now, event: MasterEvent) {
        self.heard(now, event);
    }

    fn connected(&mut self, _session: &Session<Master>, now: Now, peer: &Peer) {
        self.begun(now, peer);
    }

    fn closed(&mut self, _session: &Session<Master>, now: Now, why: Closed) {
        self.ended(now, why);
    }

    fn connect_failed(&mut self, _session: &Session<Master>, now: Now, error: &std::io::Error, _retry: Duration) {
        self.away(now, &error.to_string());
    }
}

/// Learns of the session that several devices share.
#[derive(Clone)]
struct ChannelOwner {
    /// In the order of the channel's members.
    owners: Vec<DeviceOwner>,
}

type Together = Channel<Master>;

impl Owner<Together> for ChannelOwner {
    fn event(&mut self, _session: &Session<Together>, now: Now, event: ChannelEvent<MasterEvent>) {
        if let Some(owner) = self.owners.get(usize::from(event.member.0)) {
            owner.heard(now, event.event);
        }
    }

    fn connected(&mut self, _session: &Session<Together>, now: Now, peer: &Peer) {
        self.owners.iter().for_each(|owner| owner.begun(now, peer));
    }

    fn closed(&mut self, _session: &Session<Together>, now: Now, why: Closed) {
        self.owners.iter().for_each(|owner| owner.ended(now, why));
    }

    fn connect_failed(&mut self, _session: &Session<Together>, now: Now, error: &std::io::Error, _retry: Duration) {
        self.owners.iter().for_each(|owner| owner.away(now, &error.to_string()));
    }
}
