//! What a protocol is to a field shard: a driver, with a session for each of its devices.
//!
//! The shard calls [`Driver`] and [`DeviceSession`]. A driver has its [`Context`] while it starts or changes devices, and from
//! then on the [`Reporter`] of each device; it sees nothing else of the shard.

use super::counters::Metric;
use super::lanes::Lane;
use super::positions::Positions;
use super::shard::{Field, SharedField};
use crate::config::{DeviceConfig, NetworkConfig, Numbered, Priority};
use crate::trace::Kind;
use std::cell::RefMut;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Command, CommandOutcome, DeviceId, Instant, Machine, Now, Reading, Refusal};
use tieline_net::{DatagramMachine, Endpoint, EndpointOwner, Marks, Owner, PacketSocket, Session, Shard, Tap, Target};
use tieline_poll::{ConnectionHealth, LinkState, PointTable, PollClass, PollResult};
use tieline_transport::{CertificateCache, KeptSession, Route, Transport};
use tokio::task::JoinHandle;

/// Connections of a device that connects to us: one, and those that take the place of a dead one.
const LISTEN_SESSIONS_MAX: usize = 4;

/// A poll for everything that a device has.
pub const INTEGRITY: PollClass = PollClass(0);
/// A poll for the events that a device has collected.
pub const EVENTS: PollClass = PollClass(1);
/// The one part of a poll that is not split.
pub const WHOLE: u16 = 0;

/// A device with the table of its points.
pub type Tabled = (Numbered, Arc<PointTable>);

/// A device that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    /// Which.
    pub device: DeviceId,
    /// Why.
    pub why: io::Error,
}

impl NotStarted {
    /// All devices of a connection, for one reason.
    pub fn all(devices: &[Tabled], why: &io::Error) -> Vec<Self> {
        let one = |(device, _): &Tabled| Self { device: device.id, why: io::Error::new(why.kind(), why.to_string()) };
        devices.iter().map(one).collect()
    }
}

/// The start of a driver's devices: those that could not be started.
pub type Starting<'a> = Pin<Box<dyn Future<Output = Vec<NotStarted>> + 'a>>;

/// The end of some of a driver's devices.
pub type Stopping<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A protocol on one shard.
pub trait Driver {
    /// Adds devices of this protocol to the shard ([`Context::add_device`]) and keeps their connections going. Which devices
    /// share a connection is the driver's business; those that come later join the connection that is there. A device cannot
    /// be started where an address cannot be listened on, TLS files cannot be used, or the shard does not take it.
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a>;

    /// Gives a device another configuration without a new connection; only where the protocol's `keeps` allows that. The
    /// poller has it already.
    ///
    /// # Errors
    /// The device cannot have it; it is to be stopped.
    fn replace(&mut self, context: &Context, device: &Tabled) -> io::Result<()>;

    /// Ends devices, and connections that nobody uses any more: their addresses are free then. Commands that are under way
    /// get their outcome first. Devices that are not here are left out.
    fn stop<'a>(&'a mut self, devices: &'a HashSet<DeviceId>) -> Stopping<'a>;

    /// What its devices have counted: the same metrics in the same order at all times, without devices too.
    fn metrics(&self) -> Vec<Metric>;
}

/// A device on its shard.
pub trait DeviceSession {
    /// Asks for one part of a poll, which ends with [`Reporter::poll_done`]; false when it cannot be asked for now. A poll
    /// that is not split has one part, [`WHOLE`].
    fn poll(&self, class: PollClass, part: u16) -> bool;

    /// Sends a command, unless `until` comes first; it ends with [`Reporter::command_done`].
    ///
    /// # Errors
    /// The device is away or too busy, or the value does not fit the point; nothing was sent then.
    fn command(&self, command_id: u64, command: &Command, until: Instant) -> Result<(), Refusal>;

    /// What a connection brought up to this many fragments is stored, or will not be: the device need not keep it. Called
    /// with what [`Reporter::batch_end`] was told.
    fn settle(&self, lane: Lane, fragments: u64);
}

/// How a device is reached, for a protocol whose devices are outside.
///
/// # Errors
/// The device has no address.
pub fn transport_of(config: &DeviceConfig) -> io::Result<&Transport> {
    config.transport.as_ref().ok_or_else(|| io::Error::other(format!("{} has no address", config.topic)))
}

/// What a driver starts devices with.
#[derive(Clone)]
pub struct Context {
    shard: Rc<Shard>,
    field: SharedField,
    certificates: Arc<CertificateCache>,
    positions: Positions,
}

/// A connection that is kept.
#[derive(Clone, Copy)]
pub struct Connection<'a> {
    /// Of what, in errors.
    pub name: &'a str,
    /// Where the other side is.
    pub transport: &'a Transport,
    /// How its packets are marked; none leaves them unmarked.
    pub priority: Option<Priority>,
    /// Spreads the attempts to connect.
    pub seed: u64,
    /// Whose connection it is: several devices may share one.
    pub devices: &'a [DeviceId],
    /// Which connection of them.
    pub lane: Lane,
}

impl Context {
    pub(super) const fn new(
        shard: Rc<Shard>,
        field: SharedField,
        certificates: Arc<CertificateCache>,
        positions: Positions,
    ) -> Self {
        Self { shard, field, certificates, positions }
    }

    /// Up to when the past of devices is known that keep it themselves.
    #[must_use]
    pub const fn positions(&self) -> &Positions {
        &self.positions
    }

    /// What the sessions of the shard share.
    #[must_use]
    pub const fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    /// The shard's state.
    pub(super) const fn field(&self) -> &SharedField {
        &self.field
    }

    /// Tells the networks whose limits devices share, before the devices.
    pub(super) fn set_networks(&self, devices: &[Numbered]) {
        let (now, mut field) = (self.shard.now(), self.field.borrow_mut());
        let networks: BTreeMap<&str, &NetworkConfig> = devices
            .iter()
            .filter_map(|device| device.config.network.as_ref())
            .map(|network| (network.name.as_str(), network))
            .collect();
        field.coming = networks.keys().map(|name| (*name).to_owned()).collect();
        networks.values().for_each(|network| field.set_network(now, network));
    }

    /// Adds a device to the shard. `priority` is that of the most urgent of its connections: its points keep one order.
    ///
    /// # Errors
    /// The poller does not take it.
    pub fn add_device(
        &self,
        (device, table): &Tabled,
        priority: Option<Priority>,
        session: Rc<dyn DeviceSession>,
    ) -> io::Result<Reporter> {
        let added = self.field.borrow_mut().add_device(self.shard.now(), (device, table), priority, session);
        added.map_err(io::Error::other)?;
        Ok(Reporter { field: Rc::clone(&self.field), device: device.id })
    }

    /// Another session takes the place of the one that a device has.
    pub fn set_session(&self, device: DeviceId, session: Rc<dyn DeviceSession>) {
        self.field.borrow_mut().set_session(device, session);
    }

    /// Lets a session tell its bytes to the trace of these devices, where one of them is traced and it does not yet.
    pub fn trace<M: Machine>(&self, session: &Session<M>, devices: &[DeviceId], lane: Lane) {
        if let Some(tap) = self.field.borrow().traces.tap(devices, lane.number()) {
            session.set_tap(tap);
        }
    }

    /// Keeps a session connected until the shard ends or the session is closed.
    ///
    /// # Errors
    /// The address cannot be listened on, or TLS files cannot be used.
    pub async fn connect<M, O>(
        &self,
        session: Session<M>,
        owner: O,
        connection: Connection<'_>,
    ) -> io::Result<KeptSession>
    where
        M: Machine + 'static,
        O: Owner<M> + Clone + 'static,
    {
        let Connection { name, transport, priority, seed, devices, lane } = connection;
        self.trace(&session, devices, lane);
        let unreachable = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("{name} cannot be reached by {transport}: {error}"))
        };
        let route = transport.route(&self.certificates, LISTEN_SESSIONS_MAX).map_err(|error| unreachable(&error))?;
        let route = route.marked(priority.map(marks_of));
        route.start(session, seed, owner).await.map_err(|error| unreachable(&error))
    }

    /// What a driver dials that chooses by itself when.
    ///
    /// # Errors
    /// The transport does not connect, or its TLS files cannot be used.
    pub fn target(&self, transport: &Transport, priority: Option<Priority>) -> io::Result<Target> {
        let route = transport.route(&self.certificates, 1).map_err(io::Error::other)?;
        match route.marked(priority.map(marks_of)) {
            Route::Connect(target) => Ok(target),
            Route::Listen(_) => Err(io::Error::other(format!("{transport} is not connected to"))),
        }
    }

    /// What a socket of many devices tells of one of them; none where the device is not traced.
    #[must_use]
    pub fn tap(&self, device: DeviceId) -> Option<Rc<dyn Tap>> {
        self.field.borrow().traces.tap(&[device], Lane::Main.number())
    }

    /// Serves the packet socket of many devices until it is closed. Returns the task that serves it.
    ///
    /// # Errors
    /// The system does not take the marks of the priority.
    pub fn open_packets<M, O>(
        &self,
        endpoint: &Endpoint<M>,
        owner: O,
        socket: Rc<PacketSocket>,
        priority: Option<Priority>,
    ) -> io::Result<JoinHandle<()>>
    where
        M: DatagramMachine<Address = ()> + 'static,
        O: EndpointOwner<M> + 'static,
    {
        endpoint.start_packets(socket, priority.map(marks_of), owner)
    }

    /// Opens the socket of many devices, and serves it until it is closed. Returns the task that serves it.
    ///
    /// # Errors
    /// The local address cannot be taken.
    pub async fn open<M, O>(
        &self,
        endpoint: &Endpoint<M>,
        owner: O,
        local: SocketAddr,
        priority: Option<Priority>,
    ) -> io::Result<JoinHandle<()>>
    where
        M: DatagramMachine<Address = SocketAddr> + 'static,
        O: EndpointOwner<M> + 'static,
    {
        let started = endpoint.start(local, priority.map(marks_of), owner).await;
        let (_, task) =
            started.map_err(|error| io::Error::other(format!("the local address {local} cannot be used: {error}")))?;
        Ok(task)
    }
}

const fn marks_of(priority: Priority) -> Marks {
    match priority {
        Priority::Protection => Marks::PROTECTION,
        Priority::Monitoring => Marks::MONITORING,
        Priority::Bulk => Marks::BULK,
    }
}

/// What a driver tells the shard of one device. Copies are of the same device.
#[derive(Clone)]
pub struct Reporter {
    field: SharedField,
    device: DeviceId,
}

impl Reporter {
    /// The device's number.
    #[must_use]
    pub const fn device(&self) -> DeviceId {
        self.device
    }

    /// A connection begins; the device has not answered yet.
    pub fn connecting(&self, now: Now) {
        self.with(|field| field.poller.handle_link(now, self.device, LinkState::Connecting));
    }

    /// The device answers, and can be commanded.
    pub fn online(&self, now: Now) {
        self.with(|field| {
            field.poller.handle_link(now, self.device, LinkState::Online);
            field.tell_link(self.device, true);
        });
    }

    /// The device cannot be reached.
    pub fn away(&self, now: Now, why: &str) {
        self.with(|field| {
            field.traces.note(now, self.device, Kind::Failed, &format!("link: {why}"));
            field.poller.handle_link(now, self.device, LinkState::Away { why: why.into() });
            field.tell_link(self.device, false);
        });
    }

    /// What each of several connections of the device is used for.
    pub fn connections(&self, now: Now, connections: Box<[ConnectionHealth]>) {
        self.with(|field| field.poller.handle_connections(now, self.device, connections));
    }

    /// The device has answered, with nothing to read.
    pub fn alive(&self, now: Now) {
        self.with(|field| field.poller.handle_alive(now, self.device));
    }

    /// The device says that it restarted.
    pub fn restarted(&self, now: Now) {
        self.with(|field| field.poller.handle_restart(now, self.device));
    }

    /// The device sent something that its protocol does not allow.
    pub fn garbage(&self, now: Now) {
        self.with(|field| {
            field.traces.note(now, self.device, Kind::Failed, "answer: what the device sends cannot be read");
            field.poller.handle_garbage(now, self.device);
        });
    }

    /// Authentication between the node and the device failed.
    pub fn authentication_failed(&self) {
        self.field.borrow_mut().poller.handle_authentication_failure(self.device);
    }

    /// Takes readings that belong together, and their end. They are made while the shard is borrowed: nothing else is told
    /// meanwhile.
    pub fn batch(&self, now: Now, readings: impl IntoIterator<Item = Reading>) {
        self.with(|field| field.poller.handle_batch(now, self.device, readings));
    }

    /// Takes readings that belong together where they come one by one; [`Reporter::batch_end`] follows.
    #[must_use]
    pub fn readings(&self, now: Now) -> Readings<'_> {
        Readings { field: self.field.borrow_mut(), device: self.device, now }
    }

    /// The end of readings that belong together, such as those of a response. Where the device keeps them until they are
    /// stored, `held` says on which connection, and how many such ends there have been on it:
    /// [`DeviceSession::settle`] is called with both.
    pub fn batch_end(&self, now: Now, held: Option<(Lane, u64)>) {
        self.with(|field| {
            field.poller.handle_batch_end(now, self.device);
            if let Some((lane, fragments)) = held {
                field.tell_held(self.device, lane, fragments);
            }
        });
    }

    /// Takes what the device had kept of a time when it was away, each with its time. It goes to history alone, which takes
    /// what it does not have yet; [`DeviceSession::settle`] is called with the number once it is stored, and not where it
    /// cannot be.
    pub fn past(&self, readings: Vec<Reading>, number: u64) {
        self.with(|field| field.tell_past(self.device, readings, number));
    }

    /// The end of one part of a poll, asked for by [`DeviceSession::poll`] or made by the protocol itself.
    pub fn poll_done(&self, now: Now, class: PollClass, part: u16, result: PollResult) {
        self.with(|field| {
            field.poller.handle_poll_done(now, self.device, class, part, result);
        });
    }

    /// A poll takes so many requests; to be told before its first end, and again where it changes.
    pub fn set_parts(&self, now: Now, class: PollClass, parts: u16) {
        self.with(|field| field.poller.set_parts(now, self.device, class, parts));
    }

    /// What the poll failed of whose end is told next, in words.
    pub fn poll_error(&self, now: Now, text: &str) {
        let mut field = self.field.borrow_mut();
        field.traces.note(now, self.device, Kind::Failed, &format!("poll: {text}"));
        field.poller.handle_error(now, self.device, text);
    }

    /// What became of a command that [`DeviceSession::command`] took.
    pub fn command_done(&self, command_id: u64, outcome: CommandOutcome) {
        self.with(|field| field.tell_outcome(self.device, command_id, outcome));
    }

    fn with(&self, call: impl FnOnce(&mut Field)) {
        let mut field = self.field.borrow_mut();
        call(&mut field);
        field.work.notify_one();
    }
}

/// Takes readings of one device. The shard is borrowed as long: nothing else is told meanwhile.
pub struct Readings<'a> {
    field: RefMut<'a, Field>,
    device: DeviceId,
    now: Now,
}

impl Readings<'_> {
    /// Takes a raw value.
    pub fn push(&mut self, reading: Reading) {
        self.field.poller.handle_reading(self.now, self.device, reading);
    }
}
