//! The driver of BACnet/IP and BACnet/SC: one socket, or one connection to a hub, for many devices.
//!
//! ```text
//! DeviceSession::poll ─▶ parts of the class ─▶ Site: Device ─ Client ─▶ one socket, or hub ─▶ devices, routers
//!                              Reporter ◀─ values, status flags ◀─ answers, changed values ◀────┘
//! ```
//!
//! Devices with the same settings of their socket share it. A device is asked what it takes before anything else; then its
//! points are read by as many requests as that needs, and the objects whose changes it shall tell are subscribed to.
//!
//! Read first: this file, then `site.rs`, `device.rs`, `probe.rs` and `subscriptions.rs`; `hub/mod.rs` for BACnet/SC.

mod counters;
mod decoder;
mod device;
mod hub;
mod link;
mod parts;
mod past;
mod probe;
mod site;
mod subscriptions;
mod values;

use self::device::BacnetDevice;
use self::hub::{HubOwner, HubSite, Targets};
use self::link::Link;
use self::site::{Member, Site, SiteEvent};
use super::counters::Metric;
use super::driver::{Context, DeviceSession, Driver, NotStarted, Starting, Stopping, Tabled};
use super::presence::Probed;
use crate::config::{BacnetConfig, BacnetHub, BacnetSocket, DeviceConfig, Priority};
use crate::trace::Decoder;
use std::cell::RefCell;
use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_bacnet::Peer;
use tieline_bacnet::client::{ClientConfig, Counters, ForeignConfig};
use tieline_bacnet::device::DeviceConfig as WireConfig;
use tieline_bacnet::sc::connector::Counters as HubCounters;
use tieline_core::{DeviceId, Now};
use tieline_net::{Endpoint, EndpointOwner, Limits, Session};
use tieline_transport::CLOSE_MAX;
use tokio::task::JoinHandle;

/// Requests on their way by one socket: each device has its own limit.
const IN_FLIGHT_MAX: usize = 4096;
/// The time between the first requests to two devices: the answers of all at once would not find room.
const BEGIN_GAP: Duration = Duration::from_millis(1);
/// Work that waits for one device at most: more than its subscriptions.
const QUEUE_OF_DEVICE: usize = 8192;
/// Properties of a request, where its size is the only limit.
const PER_REQUEST: usize = 1000;

/// The devices of a shard that speak BACnet.
#[derive(Default)]
pub struct Bacnet {
    sockets: Vec<Socket>,
    past: Past,
}

/// A socket with its devices.
struct Socket {
    config: BacnetSocket,
    link: Link,
    members: Members,
    task: Option<JoinHandle<()>>,
}

/// By number; none where one has left.
type Members = Rc<RefCell<Vec<Option<Rc<BacnetDevice>>>>>;

/// What was counted of sockets and devices that are no more.
#[derive(Default)]
struct Past {
    counters: Counters,
    changes: u64,
    logged: u64,
    hubs: HubCounters,
}

impl Driver for Bacnet {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn replace(&mut self, context: &Context, (device, _): &Tabled) -> io::Result<()> {
        let bacnet = bacnet_of(&device.config)?;
        for socket in &self.sockets {
            let old = socket.devices().find(|known| known.id() == device.id);
            let Some(old) = old else { continue };
            let configs = (device, bacnet);
            let new = Rc::new(BacnetDevice::new(&socket.link, old.member, configs, context.positions()));
            socket.put(Some(Rc::clone(&new)), old.member);
            context.set_session(device.id, Rc::clone(&new) as Rc<dyn DeviceSession>);
            new.take_over(&old);
        }
        Ok(())
    }

    fn stop<'a>(&'a mut self, devices: &'a HashSet<DeviceId>) -> Stopping<'a> {
        Box::pin(self.stop_devices(devices))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

/// Whether a device whose configuration changes from one to the other stays the same for its socket.
pub(super) fn keeps(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let (Some(old), Some(new)) = (old.protocol.bacnet(), new.protocol.bacnet()) else { return false };
    let BacnetConfig { status_flags, cov, write_priority, time_sync, .. } = new.clone();
    BacnetConfig { status_flags, cov, write_priority, time_sync, ..old.clone() } == *new
}

impl Bacnet {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> Vec<NotStarted> {
        let (mut sockets, mut failed) = (Vec::<(BacnetSocket, Vec<Tabled>)>::new(), Vec::new());
        for device in devices {
            let socket = match bacnet_of(&device.0.config) {
                Ok(bacnet) => bacnet.socket.clone(),
                Err(why) => {
                    failed.push(NotStarted { device: device.0.id, why });
                    continue;
                }
            };
            match sockets.iter_mut().find(|(known, _)| *known == socket) {
                Some((_, devices)) => devices.push(device),
                None => sockets.push((socket, vec![device])),
            }
        }
        for (config, devices) in sockets {
            failed.extend(self.start_at(context, config, &devices).await);
        }
        failed
    }

    /// Adds the devices of a socket, which is opened where it is not there.
    async fn start_at(&mut self, context: &Context, config: BacnetSocket, devices: &[Tabled]) -> Vec<NotStarted> {
        let at = match self.sockets.iter().position(|socket| socket.config == config) {
            Some(at) => at,
            None => {
                // One socket has one priority: that of its most urgent device.
                let priority = devices.iter().filter_map(|(device, _)| device.config.priority).min();
                match Socket::open(context, config, priority).await {
                    Ok(socket) => self.sockets.push(socket),
                    Err(error) => return NotStarted::all(devices, &error),
                }
                self.sockets.len() - 1
            }
        };
        let Some(socket) = self.sockets.get(at) else { return Vec::new() };
        let (mut failed, mut begin) = (Vec::new(), Vec::new());
        for tabled in devices {
            match socket.add(context, tabled) {
                Ok(device) => begin.push(Rc::downgrade(&device)),
                Err(why) => failed.push(NotStarted { device: tabled.0.id, why }),
            }
        }
        tokio::task::spawn_local(async move {
            for device in begin {
                if let Some(device) = device.upgrade() {
                    device.begin();
                    tokio::time::sleep(BEGIN_GAP).await;
                }
            }
        });
        failed
    }

    async fn stop_devices(&mut self, devices: &HashSet<DeviceId>) {
        for socket in &self.sockets {
            for device in socket.devices().filter(|device| devices.contains(&device.id())) {
                device.end();
                socket.remove(device.member, bacnet_peer(&device));
                socket.put(None, device.member);
                self.past.changes += device.changes.get();
                self.past.logged += device.past.records.get();
            }
        }
        for mut socket in self.sockets.extract_if(.., |socket| socket.link.look(Site::is_empty)) {
            socket.close().await;
            counters::add(&mut self.past.counters, socket.link.look(Site::counters));
            socket.add_hub(&mut self.past.hubs);
        }
    }
}

impl Socket {
    /// Opens the socket, and serves it.
    async fn open(context: &Context, config: BacnetSocket, priority: Option<Priority>) -> io::Result<Self> {
        let members = Members::default();
        let owner = SiteOwner { members: Rc::clone(&members), foreign: config.foreign };
        let (link, task) = match config.hub.clone() {
            Some(hub) => Self::dial(context, &config, hub, owner, priority)?,
            None => {
                let endpoint = Endpoint::new(context.shard(), Site::new(client_config(&config)));
                let task = context.open(&endpoint, owner, SocketAddr::V4(config.local), priority).await?;
                (Link::Socket(endpoint), task)
            }
        };
        Ok(Self { config, link, members, task: Some(task) })
    }

    /// Keeps a connection to a hub.
    fn dial(
        context: &Context,
        config: &BacnetSocket,
        hub: Arc<BacnetHub>,
        owner: SiteOwner,
        priority: Option<Priority>,
    ) -> io::Result<(Link, JoinHandle<()>)> {
        let targets = Targets::new(context, &hub, priority)?;
        let mut seed = [0; 8];
        let _ = aws_lc_rs::rand::fill(&mut seed);
        let now = context.shard().now();
        let site = HubSite::new(now, client_config(config), &hub, u64::from_be_bytes(seed));
        let session = Session::new(context.shard(), site, Limits::default());
        let task = tokio::task::spawn_local(hub::serve(session.clone(), targets, HubOwner::new(owner, hub)));
        Ok((Link::Hub(session), task))
    }

    /// Removes a device of the site.
    fn remove(&self, member: Member, peer: Peer) {
        self.link.with(|site, now| site.remove(now, member));
        if let Link::Hub(session) = &self.link {
            session.with(|hub, now| hub.forget(now, peer.address));
        }
    }

    /// Ends the socket, or takes leave of the hub.
    async fn close(&mut self) {
        let Some(mut task) = self.task.take() else { return };
        match &self.link {
            Link::Socket(endpoint) => endpoint.close(),
            Link::Hub(session) => {
                let is_connected = session.is_connected();
                session.with(HubSite::stop);
                if is_connected && tokio::time::timeout(CLOSE_MAX, &mut task).await.is_ok() {
                    return;
                }
                session.close();
            }
        }
        let _ = task.await;
    }

    /// Adds what was counted of a hub.
    fn add_hub(&self, sum: &mut HubCounters) {
        if let Link::Hub(session) = &self.link {
            counters::add_hub(sum, session.look(HubSite::counters));
        }
    }

    fn add(&self, context: &Context, tabled: &Tabled) -> io::Result<Rc<BacnetDevice>> {
        let config = &tabled.0.config;
        let bacnet = bacnet_of(config)?;
        let member = self.link.with(|site, _| site.add(bacnet.peer, bacnet.instance, wire_config(bacnet)));
        let device = Rc::new(BacnetDevice::new(&self.link, member, (&tabled.0, bacnet), context.positions()));
        let session = Rc::clone(&device) as Rc<dyn DeviceSession>;
        match context.add_device(tabled, config.priority, session) {
            Ok(reporter) => {
                if let Some(tap) = context.tap(reporter.device()) {
                    self.link.with(|site, _| site.trace(member, tap));
                }
                device.set_reporter(reporter);
                device.past.begin(&device.topic);
            }
            Err(error) => {
                self.link.with(|site, now| site.remove(now, member));
                return Err(error);
            }
        }
        self.put(Some(Rc::clone(&device)), member);
        Ok(device)
    }

    fn put(&self, device: Option<Rc<BacnetDevice>>, Member(at): Member) {
        let mut members = self.members.borrow_mut();
        if members.len() <= at {
            members.resize(at + 1, None);
        }
        if let Some(place) = members.get_mut(at) {
            *place = device;
        }
    }

    /// All devices. They may leave meanwhile.
    fn devices(&self) -> impl Iterator<Item = Rc<BacnetDevice>> + use<> {
        let devices: Vec<_> = self.members.borrow().iter().flatten().cloned().collect();
        devices.into_iter()
    }
}

/// What a trace of a device says.
///
/// # Errors
/// The device does not speak BACnet.
pub fn decoder_of(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Box<dyn Decoder>> {
    Ok(Box::new(decoder::BacnetDecoder::new(config, wanted)?))
}

/// Learns of a socket.
#[derive(Clone)]
struct SiteOwner {
    members: Members,
    foreign: Option<ForeignConfig>,
}

impl SiteOwner {
    fn member(&self, member: Member) -> Option<Rc<BacnetDevice>> {
        self.members.borrow().get(member.0)?.clone()
    }

    /// A hub is there: devices that are away are asked at once.
    fn probe_all(&self) {
        let devices: Vec<_> = self.members.borrow().iter().flatten().cloned().collect();
        devices.iter().filter(|device| device.presence.is_probed()).for_each(|device| device.probe());
    }

    fn handle(&self, now: Now, event: SiteEvent) {
        let bbmd = || self.foreign.map(|foreign| foreign.bbmd.to_string()).unwrap_or_default();
        match event {
            SiteEvent::Device(member, event) => {
                if let Some(device) = self.member(member) {
                    device.handle(now, event);
                }
            }
            SiteEvent::IAm(member, instance) => {
                if let Some(device) = self.member(member) {
                    device.heard_of(now, instance);
                }
            }
            SiteEvent::Registered => tracing::info!(bbmd = bbmd(), "registered as a foreign device"),
            SiteEvent::NotRegistered(code) => {
                let why = code.map_or_else(|| "no answer".to_owned(), |code| format!("result {code:#06x}"));
                tracing::warn!(bbmd = bbmd(), why, "the registration as a foreign device failed, and is tried again");
            }
        }
    }
}

impl EndpointOwner<Site> for SiteOwner {
    fn event(&mut self, _endpoint: &Endpoint<Site>, now: Now, event: SiteEvent) {
        self.handle(now, event);
    }
}

const fn bacnet_peer(device: &BacnetDevice) -> Peer {
    device.config.peer
}

fn bacnet_of(config: &DeviceConfig) -> io::Result<&BacnetConfig> {
    config.protocol.bacnet().ok_or_else(|| io::Error::other(format!("{} does not speak BACnet", config.topic)))
}

fn client_config(socket: &BacnetSocket) -> ClientConfig {
    ClientConfig {
        apdu_timeout: socket.apdu_timeout,
        retries: socket.retries,
        // What may have been carried out is not sent again.
        write_retries: 0,
        in_flight: IN_FLIGHT_MAX,
        in_flight_by_peer: 128,
        foreign: socket.foreign,
        ..ClientConfig::default()
    }
}

fn wire_config(bacnet: &BacnetConfig) -> WireConfig {
    let chunk_max = bacnet.max_per_request.map_or(PER_REQUEST, usize::from);
    WireConfig {
        in_flight: usize::from(bacnet.in_flight),
        queue_max: QUEUE_OF_DEVICE,
        chunk_max: if bacnet.read_multiple { chunk_max } else { 1 },
        confirmed: bacnet.cov_confirmed,
        lifetime_s: u32::try_from(bacnet.cov_lifetime.as_secs()).unwrap_or(u32::MAX),
        ..WireConfig::default()
    }
}
