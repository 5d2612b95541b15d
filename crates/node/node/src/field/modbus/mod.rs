//! The driver of Modbus: a client for each connection, with the devices behind it.
//!
//! ```text
//! DeviceSession::poll ─▶ blocks of the class ─▶ Client (one queue for all units of the connection) ─▶ device
//!                              Reporter ◀─ layouts ◀─ answers, by the number of their transaction ◀──────┘
//! ```
//!
//! A connection says nothing of a device: one that answers a first read is online, and one that leaves reads unanswered is
//! away and is asked again from time to time, while the others of its connection go on.
//!
//! Read first: this file, then `device.rs`.

mod counters;
mod decoder;
mod device;
mod line;
mod owner;
mod probe;
mod readings;

use self::decoder::ModbusDecoder;
use self::device::ModbusDevice;
use self::line::Line;
use self::owner::LineOwner;
use super::counters::Metric;
use super::driver::{Connection, Context, DeviceSession, Driver, NotStarted, Starting, Stopping, Tabled, transport_of};
use super::lanes::Lane;
use crate::config::{DeviceConfig, ModbusConfig, SharedChannel};
use crate::trace::Decoder;
use futures_util::future::join_all;
use std::collections::HashSet;
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::DeviceId;
use tieline_modbus::{Client, ClientConfig, ClientCounters, Framing, SerialTiming};
use tieline_net::{Limits, Session};
use tieline_transport::{Over, Transport};

/// Transactions that may wait for one device of a connection.
const QUEUE_OF_DEVICE: usize = 1024;

/// The devices of a shard that speak Modbus.
#[derive(Default)]
pub struct Modbus {
    lines: Vec<Rc<Line>>,
    limits: Rc<Limits>,
    /// How the last client works: most are alike, and those share it.
    config: Option<Arc<ClientConfig>>,
    /// What connections counted that are no more.
    past: ClientCounters,
}

impl Driver for Modbus {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn replace(&mut self, context: &Context, device: &Tabled) -> io::Result<()> {
        let found = self.lines.iter().find_map(|line| Some((line, line.find(device.0.id)?)));
        let Some((line, (number, old))) = found else { return Ok(()) };
        let config = &device.0.config;
        let new = ModbusDevice::new(line, number, config, modbus_of(config)?).map_err(io::Error::other)?;
        let new = Rc::new(new);
        line.put(number, Some(Rc::clone(&new)));
        context.set_session(device.0.id, Rc::clone(&new) as Rc<dyn DeviceSession>);
        new.take_over(&old);
        Ok(())
    }

    fn stop<'a>(&'a mut self, devices: &'a HashSet<DeviceId>) -> Stopping<'a> {
        Box::pin(self.stop_devices(devices))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

/// Whether a device whose configuration changes from one to the other keeps its connection and its place behind it.
pub(super) fn keeps(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let (Some(old), Some(new)) = (old.protocol.modbus(), new.protocol.modbus()) else { return false };
    (old.unit, &old.line) == (new.unit, &new.line)
}

impl Modbus {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> Vec<NotStarted> {
        let (mut channels, mut failed) = (Vec::<(SharedChannel, Vec<Tabled>)>::new(), Vec::new());
        for device in devices {
            match device.0.config.channel.clone() {
                None => failed.extend(self.start_line(context, None, &[device]).await),
                Some(shared) => match channels.iter_mut().find(|(known, _)| *known == shared) {
                    Some((_, devices)) => devices.push(device),
                    None => channels.push((shared, vec![device])),
                },
            }
        }
        for (shared, devices) in channels {
            let line = self.lines.iter().find(|line| line.channel.as_ref() == Some(&shared)).cloned();
            match line {
                Some(line) => failed.extend(Self::join(context, &line, &devices)),
                None => failed.extend(self.start_line(context, Some(shared), &devices).await),
            }
        }
        failed
    }

    /// Adds the devices of a connection, and keeps it going.
    async fn start_line(
        &mut self,
        context: &Context,
        channel: Option<SharedChannel>,
        devices: &[Tabled],
    ) -> Vec<NotStarted> {
        let Some((first, _)) = devices.first() else { return Vec::new() };
        let name = channel.as_ref().map_or_else(|| first.config.topic.to_string(), |channel| channel.name.clone());
        let begun = transport_of(&first.config).and_then(|transport| {
            let config = self.share(client_config(modbus_of(&first.config)?, transport));
            let session = Session::new(context.shard(), Client::new(config), Rc::clone(&self.limits));
            Ok((transport, Rc::new(Line::new(session, channel))))
        });
        let (transport, line) = match begun {
            Ok(begun) => begun,
            Err(error) => return NotStarted::all(devices, &error),
        };
        self.lines.push(Rc::clone(&line));
        let failed = Self::join(context, &line, devices);
        // One connection carries one priority: that of its most urgent device.
        let priority = devices.iter().filter_map(|(device, _)| device.config.priority).min();
        let ids: Vec<DeviceId> = devices.iter().map(|(device, _)| device.id).collect();
        let (name, seed) = (name.as_str(), u64::from(first.id.0));
        let connection = Connection { name, transport, priority, seed, devices: &ids, lane: Lane::Main };
        match context.connect(line.session.clone(), LineOwner::new(&line), connection).await {
            Ok(kept) => {
                line.keep(kept);
                failed
            }
            Err(error) => NotStarted::all(devices, &error),
        }
    }

    /// Adds devices behind a connection; where it is there, they are asked at once.
    fn join(context: &Context, line: &Rc<Line>, devices: &[Tabled]) -> Vec<NotStarted> {
        let mut failed = Vec::new();
        for tabled in devices {
            if let Err(why) = Self::join_one(context, line, tabled) {
                failed.push(NotStarted { device: tabled.0.id, why });
            }
        }
        line.set_room();
        let ids: Vec<DeviceId> = devices.iter().map(|(device, _)| device.id).collect();
        context.trace(&line.session, &ids, Lane::Main);
        failed
    }

    fn share(&mut self, config: ClientConfig) -> Arc<ClientConfig> {
        let last = self.config.take().filter(|last| **last == config);
        Arc::clone(self.config.insert(last.unwrap_or_else(|| Arc::new(config))))
    }

    fn join_one(context: &Context, line: &Rc<Line>, tabled: &Tabled) -> io::Result<()> {
        let config = &tabled.0.config;
        let number = line.free();
        let device = ModbusDevice::new(line, number, config, modbus_of(config)?).map_err(io::Error::other)?;
        let device = Rc::new(device);
        let session = Rc::clone(&device) as Rc<dyn DeviceSession>;
        device.set_reporter(context.add_device(tabled, config.priority, session)?);
        line.put(number, Some(Rc::clone(&device)));
        if line.session.is_connected() {
            device.connected(context.shard().now());
        }
        Ok(())
    }

    async fn stop_devices(&mut self, devices: &HashSet<DeviceId>) {
        let is_over = |line: &Rc<Line>| line.members().all(|member| devices.contains(&member.id()));
        let over: Vec<Rc<Line>> = self.lines.extract_if(.., |line| is_over(line)).collect();
        // What is under way ends with the connection.
        join_all(over.iter().map(|line| line.close())).await;
        for line in over {
            line.members().for_each(|member| line.remove(&member));
            line.session.look(|client| counters::add(&mut self.past, client.counters()));
        }
        for line in &self.lines {
            for member in line.members().filter(|member| devices.contains(&member.id())) {
                line.remove(&member);
            }
            line.set_room();
        }
    }
}

fn modbus_of(config: &DeviceConfig) -> io::Result<&ModbusConfig> {
    config.protocol.modbus().ok_or_else(|| io::Error::other(format!("{} does not speak Modbus", config.topic)))
}

fn client_config(modbus: &ModbusConfig, transport: &Transport) -> ClientConfig {
    let line = &modbus.line;
    ClientConfig {
        in_flight: line.in_flight,
        answer_timeout: line.timeout,
        retries: line.retries,
        pause: line.pause,
        queue_max: QUEUE_OF_DEVICE,
        ..ClientConfig::new(framing_of(modbus, transport))
    }
}

/// How frames are made and found.
fn framing_of(modbus: &ModbusConfig, transport: &Transport) -> Framing {
    match &transport.over {
        Over::Serial(serial) => {
            Framing::Rtu(SerialTiming::new(NonZeroU32::new(serial.baud).unwrap_or(NonZeroU32::MIN)))
        }
        Over::Tcp | Over::Tls(_) | Over::Udp(_) if modbus.line.is_rtu => Framing::RtuOverTcp,
        Over::Tcp | Over::Tls(_) | Over::Udp(_) => Framing::Tcp,
    }
}

/// What a trace of a device says, and which of its points is looked for.
///
/// # Errors
/// The device does not speak Modbus.
pub fn decoder_of(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Box<dyn Decoder>> {
    Ok(Box::new(ModbusDecoder::new(config, wanted)?))
}
