//! The driver of GOOSE: subscriptions to control blocks and control blocks of the node, all of an interface on one socket.
//!
//! ```text
//! interface ⇄ PacketSocket ⇄ Endpoint ⇄ Port ─ Subscriber ─ translate ─▶ Reporter
//!                                          └── Publisher ◀─ DeviceSession::command
//! ```
//!
//! Nothing is asked: a device is online while the time allowed to live of its last message lasts. One that is published is online
//! while the node runs.
//!
//! Read first: this file, then `port.rs` and `translate.rs`.

mod counters;
mod decoder;
mod port;
mod session;
mod translate;

use self::counters::Past;
use self::decoder::GooseDecoder;
use self::port::{Member, Port};
use self::session::{GooseSession, PortOwner, Reporters};
use super::counters::Metric;
use super::driver::{Context, DeviceSession, Driver, NotStarted, Starting, Stopping, Tabled};
use crate::config::{DeviceConfig, GooseConfig, GooseRole};
use crate::trace::Decoder;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::DeviceId;
use tieline_goose::{ETHERTYPE, MacAddress};
use tieline_net::{Endpoint, PacketSocket};
use tokio::task::JoinHandle;

/// The devices of a shard that speak GOOSE.
#[derive(Default)]
pub struct Goose {
    /// By interface.
    interfaces: HashMap<Box<str>, Interface>,
    /// What devices counted that are no more.
    past: Past,
}

/// The socket of an interface, with the devices that share it.
struct Interface {
    endpoint: Endpoint<Port>,
    socket: Rc<PacketSocket>,
    reporters: Reporters,
    /// Each with where its messages go.
    devices: HashMap<DeviceId, MacAddress>,
    task: JoinHandle<()>,
}

impl Driver for Goose {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(async move {
            let start = |device: Tabled| {
                let result = self.start_device(context, &device);
                result.err().map(|why| NotStarted { device: device.0.id, why })
            };
            devices.into_iter().filter_map(start).collect()
        })
    }

    fn replace(&mut self, _context: &Context, (device, _): &Tabled) -> io::Result<()> {
        let goose = goose_of(&device.config)?;
        if let Some(interface) = self.interfaces.get(&goose.interface) {
            let config = &device.config;
            interface.endpoint.with(|port, now| port.set_points(now, device.id, &config.points, config.stale_after));
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

/// Whether a device whose configuration changes from one to the other keeps its subscription. What is published begins again with
/// other points.
pub(super) fn keeps(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let (Some(old_goose), Some(new_goose)) = (old.protocol.goose(), new.protocol.goose()) else { return false };
    let is_read = matches!(new_goose.role, GooseRole::Subscribe { .. });
    old_goose == new_goose && (is_read || old.points == new.points)
}

impl Goose {
    fn start_device(&mut self, context: &Context, device: &Tabled) -> io::Result<()> {
        let (id, config) = (device.0.id, &device.0.config);
        let goose = goose_of(config)?;
        let is_new = !self.interfaces.contains_key(&goose.interface);
        if is_new {
            self.interfaces.insert(goose.interface.clone(), Interface::open(context, config, goose)?);
        }
        let Some(interface) = self.interfaces.get_mut(&goose.interface) else { return Ok(()) };
        let now = context.shard().now();
        let card = MacAddress(interface.socket.card());
        let member = Member::new(now, config, goose, card).map_err(io::Error::other)?;
        let is_read = matches!(goose.role, GooseRole::Subscribe { .. });
        let endpoint = interface.endpoint.clone();
        let session: Rc<dyn DeviceSession> = Rc::new(GooseSession { device: id, endpoint });
        let reporter = context.add_device(device, config.priority, session)?;
        if is_read {
            interface.socket.join(goose.destination.0)?;
        }
        reporter.connecting(now);
        interface.reporters.borrow_mut().insert(id, reporter);
        interface.devices.insert(id, goose.destination);
        let tap = context.tap(id);
        interface.endpoint.with(|port, now| port.add(now, id, member, tap));
        Ok(())
    }

    async fn stop_devices(&mut self, devices: &HashSet<DeviceId>) {
        for interface in self.interfaces.values_mut() {
            let leaving: Vec<_> = interface.devices.extract_if(|id, _| devices.contains(id)).collect();
            for (id, group) in leaving {
                if let Some(member) = interface.endpoint.with(|port, _| port.remove(id)) {
                    self.past.add(&member);
                    if member.is_read() {
                        interface.socket.leave(group.0);
                    }
                }
                interface.reporters.borrow_mut().remove(&id);
            }
        }
        let unused = self.interfaces.extract_if(|_, interface| interface.devices.is_empty());
        for (_, interface) in unused.collect::<Vec<_>>() {
            self.past.add_port(&interface.endpoint);
            interface.endpoint.close();
            // Of a task that panicked the shard learns by itself.
            let _ = interface.task.await;
        }
    }
}

impl Interface {
    fn open(context: &Context, config: &DeviceConfig, goose: &GooseConfig) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", config.topic));
        let socket = Rc::new(PacketSocket::open(&goose.interface, ETHERTYPE).map_err(named)?);
        let endpoint = Endpoint::new(context.shard(), Port::default());
        let reporters = Reporters::default();
        let owner = PortOwner { reporters: Rc::clone(&reporters) };
        let task = context.open_packets(&endpoint, owner, Rc::clone(&socket), config.priority).map_err(named)?;
        Ok(Self { endpoint, socket, reporters, devices: HashMap::new(), task })
    }
}

fn goose_of(config: &DeviceConfig) -> io::Result<&GooseConfig> {
    config.protocol.goose().ok_or_else(|| io::Error::other(format!("{} does not speak GOOSE", config.topic)))
}

/// What a trace of a device says, and which of its points is looked for.
///
/// # Errors
/// The device does not speak GOOSE.
pub fn decoder_of(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Box<dyn Decoder>> {
    goose_of(config)?;
    Ok(Box::new(GooseDecoder::new(Arc::clone(&config.points), wanted)))
}
