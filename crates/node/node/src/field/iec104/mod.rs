//! The driver of IEC 60870-5-104: a controlling station for each device, on a connection of its own, or on several of which one is
//! started.
//!
//! ```text
//! DeviceSession::poll, command ─▶ Group ─▶ Client (links, requests) ─▶ station
//!                     Reporter ◀─ translate ◀─ objects, ends of requests
//! ```
//!
//! Read first: this file, then `device.rs`, `group.rs`.

mod counters;
mod decoder;
mod device;
mod group;
mod resent;
mod session;
mod translate;

use self::counters::Past;
use self::decoder::Iec104Decoder;
use self::device::DeviceOwner;
use self::group::{Group, Member};
use self::session::Iec104Session;
use super::counters::Metric;
use super::driver::{Connection, Context, DeviceSession, Driver, NotStarted, Starting, Stopping, Tabled, transport_of};
use super::lanes::Lane;
use crate::config::{DeviceConfig, Iec104Config};
use crate::trace::Decoder;
use futures_util::future::join_all;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::DeviceId;
use tieline_iec104::{Client, ClientConfig, Procedure};
use tieline_net::{Limits, Session};
use tieline_transport::{KeptSession, Transport};

/// The devices of a shard that speak IEC 60870-5-104.
#[derive(Default)]
pub struct Iec104 {
    devices: HashMap<DeviceId, Running>,
    /// What devices counted that are no more.
    past: Past,
}

/// A device with what keeps it going.
struct Running {
    session: Rc<Iec104Session>,
    kept: Vec<KeptSession>,
}

impl Driver for Iec104 {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn replace(&mut self, _context: &Context, (device, _): &Tabled) -> io::Result<()> {
        if let Some(running) = self.devices.get(&device.id) {
            running.session.set_points(&device.config.points, iec104_of(&device.config)?);
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

/// Whether a device whose configuration changes from one to the other keeps its connection. What its points are has no part
/// in it, unless one has a common address that was not there.
pub(super) fn keeps(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let (Some(old), Some(new)) = (old.protocol.iec104(), new.protocol.iec104()) else { return false };
    // It is in the points by now.
    Iec104Config { select: new.select, ..old.clone() } == *new
}

impl Iec104 {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> Vec<NotStarted> {
        let mut failed = Vec::new();
        for device in devices {
            if let Err(why) = self.start_device(context, &device).await {
                failed.push(NotStarted { device: device.0.id, why });
            }
        }
        failed
    }

    async fn start_device(&mut self, context: &Context, device: &Tabled) -> io::Result<()> {
        let (id, config) = (device.0.id, &device.0.config);
        let (iec104, transport) = (iec104_of(config)?, transport_of(config)?);
        let transports = || std::iter::once(transport).chain(&iec104.standby);
        let member = |transport: &Transport| {
            let client = Client::new(client_config(iec104));
            Member::new(&transport.to_string(), Session::new(context.shard(), client, Limits::default()))
        };
        let group = Group::new(transports().map(member).collect());
        let session = Rc::new(Iec104Session::new(&config.topic, group, &config.points, iec104));
        let shared = Rc::clone(&session) as Rc<dyn DeviceSession>;
        let reporter = context.add_device(device, config.priority, shared)?;
        self.devices.insert(id, Running { session: Rc::clone(&session), kept: Vec::new() });
        let clients: Vec<_> = session.group.clients().cloned().collect();
        for ((place, number), (transport, client)) in (0_usize..).zip(0_u8..).zip(transports().zip(clients)) {
            let lane = if place == 0 { Lane::Main } else { Lane::Standby(number) };
            let seed = u64::from(id.0) + u64::from(number);
            let connection =
                Connection { name: &config.topic, transport, priority: config.priority, seed, devices: &[id], lane };
            let owner = DeviceOwner::new(reporter.clone(), Rc::clone(&session), place);
            let kept = context.connect(client, owner, connection).await?;
            if let Some(running) = self.devices.get_mut(&id) {
                running.kept.push(kept);
            }
        }
        Ok(())
    }

    async fn stop_devices(&mut self, devices: &HashSet<DeviceId>) {
        let mut leaving: Vec<Running> =
            self.devices.extract_if(|id, _| devices.contains(id)).map(|(_, running)| running).collect();
        // What is under way ends with the connection.
        let kept = leaving.iter_mut().flat_map(|running| std::mem::take(&mut running.kept));
        join_all(kept.map(KeptSession::close)).await;
        leaving.iter().for_each(|running| self.past.add(&running.session));
    }
}

fn iec104_of(config: &DeviceConfig) -> io::Result<&Iec104Config> {
    config.protocol.iec104().ok_or_else(|| io::Error::other(format!("{} does not speak IEC 104", config.topic)))
}

fn client_config(iec104: &Iec104Config) -> ClientConfig {
    let clock = iec104.clock_every.map(|_| Procedure::Clock);
    let counters = iec104.counters.then_some(Procedure::Counters);
    ClientConfig {
        link: iec104.link,
        originator: iec104.originator,
        common_addresses: iec104.common_addresses.clone(),
        // Values first: a station that does not take a time costs a time-out.
        at_start: std::iter::once(Procedure::Interrogation).chain(counters).chain(clock).collect(),
        interrogations: iec104.interrogations(),
        counters: iec104.counter_reads(),
        clock_every: iec104.clock_every,
        utc_offset_minutes: iec104.utc_offset_minutes,
        answer_timeout: iec104.response_timeout,
        command_end: iec104.command_end,
        // The group says which connection is started.
        starts: false,
        ..ClientConfig::new(iec104.common_address)
    }
}

/// What a trace of a device says, and which of its points is looked for.
///
/// # Errors
/// The device does not speak IEC 60870-5-104.
pub fn decoder_of(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Box<dyn Decoder>> {
    let common_address = iec104_of(config)?.common_address;
    Ok(Box::new(Iec104Decoder::new(Arc::clone(&config.points), common_address, wanted)))
}
