//! The driver of BACnet/IP: one socket for many devices.
//!
//! ```text
//! DeviceSession::poll ─▶ parts of the class ─▶ Site: Device ─ Client ─▶ one socket ─▶ devices, routers
//!                              Reporter ◀─ values, status flags ◀─ answers, changed values ◀────┘
//! ```
//!
//! Devices with the same settings of their socket share it. A device is asked what it takes before anything else; then its
//! points are read by as many requests as that needs, and the objects whose changes it shall tell are subscribed to.
//!
//! Read first: this file, then `site.rs`, `device.rs` and `probe.rs`.

mod counters;
mod decoder;
mod device;
mod parts;
mod past;
mod probe;
mod site;
mod values;

use self::device::BacnetDevice;
use self::site::{Member, Site, SiteEvent};
use super::counters::Metric;
use super::driver::{Context, DeviceSession, Driver, Starting, Tabled};
use crate::config::{BacnetConfig, BacnetSocket, DeviceConfig};
use crate::trace::Decoder;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tieline_bacnet::client::ClientConfig;
use tieline_bacnet::device::DeviceConfig as WireConfig;
use tieline_core::Now;
use tieline_net::{Endpoint, EndpointOwner};

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
    sockets: Vec<Endpoint<Site>>,
    devices: Vec<Rc<BacnetDevice>>,
}

impl Driver for Bacnet {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

impl Bacnet {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> io::Result<()> {
        let mut sockets: Vec<(BacnetSocket, Vec<Tabled>)> = Vec::new();
        for device in devices {
            let socket = bacnet_of(&device.0.config)?.socket;
            match sockets.iter_mut().find(|(known, _)| *known == socket) {
                Some((_, devices)) => devices.push(device),
                None => sockets.push((socket, vec![device])),
            }
        }
        for (socket, devices) in sockets {
            self.start_socket(context, socket, &devices).await?;
        }
        Ok(())
    }

    /// Adds the devices of a socket, and serves it.
    async fn start_socket(&mut self, context: &Context, socket: BacnetSocket, devices: &[Tabled]) -> io::Result<()> {
        let endpoint = Endpoint::new(context.shard(), Site::new(client_config(socket)));
        let mut members = Vec::new();
        for tabled in devices {
            let bacnet = bacnet_of(&tabled.0.config)?;
            let wire = wire_config(bacnet);
            let member = endpoint.with(|site, _| site.add(bacnet.peer, bacnet.instance, wire));
            let device = Rc::new(BacnetDevice::new(&endpoint, member, (&tabled.0, bacnet), context.positions()));
            let session = Rc::clone(&device) as Rc<dyn DeviceSession>;
            let reporter = context.add_device(tabled, tabled.0.config.priority, session)?;
            if let Some(tap) = context.tap(reporter.device()) {
                endpoint.with(|site, _| site.trace(member, tap));
            }
            device.set_reporter(reporter);
            members.push(device);
        }
        // One socket has one priority: that of its most urgent device.
        let priority = devices.iter().filter_map(|(device, _)| device.config.priority).min();
        self.sockets.push(endpoint.clone());
        self.devices.extend(members.iter().cloned());
        let owner = SiteOwner { members, socket };
        let begin = owner.members.clone();
        context.open(&endpoint, owner, SocketAddr::V4(socket.local), priority).await?;
        tokio::task::spawn_local(async move {
            for device in begin {
                device.begin();
                tokio::time::sleep(BEGIN_GAP).await;
            }
        });
        Ok(())
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
struct SiteOwner {
    /// By number.
    members: Vec<Rc<BacnetDevice>>,
    socket: BacnetSocket,
}

impl SiteOwner {
    fn member(&self, member: Member) -> Option<&BacnetDevice> {
        self.members.get(member.0).map(Rc::as_ref)
    }
}

impl EndpointOwner<Site> for SiteOwner {
    fn event(&mut self, _endpoint: &Endpoint<Site>, now: Now, event: SiteEvent) {
        let bbmd = || self.socket.foreign.map(|foreign| foreign.bbmd.to_string()).unwrap_or_default();
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

fn bacnet_of(config: &DeviceConfig) -> io::Result<&BacnetConfig> {
    config.protocol.bacnet().ok_or_else(|| io::Error::other(format!("{} does not speak BACnet", config.topic)))
}

fn client_config(socket: BacnetSocket) -> ClientConfig {
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
