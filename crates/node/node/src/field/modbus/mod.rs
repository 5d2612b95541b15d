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
mod owner;
mod probe;
mod readings;

use self::decoder::ModbusDecoder;
use self::device::{Line, ModbusDevice};
use self::owner::LineOwner;
use super::counters::Metric;
use super::driver::{Connection, Context, DeviceSession, Driver, Starting, Tabled, transport_of};
use super::lanes::Lane;
use crate::config::{DeviceConfig, ModbusConfig, SharedChannel};
use crate::trace::Decoder;
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use tieline_core::DeviceId;
use tieline_modbus::{Client, ClientConfig, Framing, SerialTiming};
use tieline_net::{Limits, Session};
use tieline_transport::{Over, Transport};

/// Transactions that may wait for one device of a connection.
const QUEUE_OF_DEVICE: usize = 1024;

/// The devices of a shard that speak Modbus.
#[derive(Default)]
pub struct Modbus {
    lines: Vec<Rc<Line>>,
    devices: Vec<Rc<ModbusDevice>>,
}

impl Driver for Modbus {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

impl Modbus {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> io::Result<()> {
        let mut channels: Vec<(SharedChannel, Vec<Tabled>)> = Vec::new();
        for device in devices {
            match device.0.config.channel.clone() {
                None => self.start_line(context, &device.0.config.topic.clone(), &[device]).await?,
                Some(shared) => match channels.iter_mut().find(|(known, _)| *known == shared) {
                    Some((_, devices)) => devices.push(device),
                    None => channels.push((shared, vec![device])),
                },
            }
        }
        for (shared, devices) in channels {
            self.start_line(context, &shared.name, &devices).await?;
        }
        Ok(())
    }

    /// Adds the devices of a connection, and keeps it going.
    async fn start_line(&mut self, context: &Context, name: &str, devices: &[Tabled]) -> io::Result<()> {
        let Some((first, _)) = devices.first() else { return Ok(()) };
        let (transport, seed) = (transport_of(&first.config)?, u64::from(first.id.0));
        let config = client_config(modbus_of(&first.config)?, transport, devices.len());
        let line = Rc::new(Line::new(Session::new(context.shard(), Client::new(config), Limits::default())));
        let mut members = Vec::new();
        for (tabled, number) in devices.iter().zip(0..) {
            let modbus = modbus_of(&tabled.0.config)?;
            let device = ModbusDevice::new(&line, number, &tabled.0.config, modbus).map_err(io::Error::other)?;
            let device = Rc::new(device);
            let session = Rc::clone(&device) as Rc<dyn DeviceSession>;
            device.set_reporter(context.add_device(tabled, tabled.0.config.priority, session)?);
            members.push(device);
        }
        // One connection carries one priority: that of its most urgent device.
        let priority = devices.iter().filter_map(|(device, _)| device.config.priority).min();
        self.devices.extend(members.iter().cloned());
        self.lines.push(Rc::clone(&line));
        let ids: Vec<DeviceId> = devices.iter().map(|(device, _)| device.id).collect();
        let connection = Connection { name, transport, priority, seed, devices: &ids, lane: Lane::Main };
        context.connect(line.session.clone(), LineOwner::new(members), connection).await
    }
}

fn modbus_of(config: &DeviceConfig) -> io::Result<&ModbusConfig> {
    config.protocol.modbus().ok_or_else(|| io::Error::other(format!("{} does not speak Modbus", config.topic)))
}

fn client_config(modbus: &ModbusConfig, transport: &Transport, devices: usize) -> ClientConfig {
    let line = &modbus.line;
    ClientConfig {
        in_flight: line.in_flight,
        answer_timeout: line.timeout,
        retries: line.retries,
        pause: line.pause,
        queue_max: QUEUE_OF_DEVICE * devices,
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
