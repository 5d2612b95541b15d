//! The field's column: devices over their sockets, through the poller, to the bus; and commands the way back.
//!
//! ```text
//! sockets ⇄ io/net ⇄ driver ── readings ─▶ poller ── updates ─▶ report ─▶ bus
//!                      ▲                                                  │
//!                      └──────── commands, confirms of stored events ◀────┘
//! ```
//!
//! Devices are spread over shards: threads that share nothing. A shard hands its updates over in reports; while the
//! bus is full it keeps them in the poller, which conflates, and the confirms of events that were not reported stay
//! unsent, so that a device keeps them.
//!
//! A device may have a second connection for what is urgent: `lanes.rs` says which of two readings counts.
//!
//! Devices come, change and go while a shard runs: `plan.rs` says which and on which shard, `changes.rs` carries it out. What
//! did not change is not touched.
//!
//! A protocol is a folder with a driver, which [`driver_of`] registers; no other file of this room knows any.
//!
//! Read first: `driver.rs`, then `shard.rs`, then `dnp3/mod.rs`.

mod bacnet;
mod changes;
mod counters;
mod dnp3;
mod driver;
mod goose;
mod homes;
mod iec104;
mod lanes;
mod members;
mod modbus;
mod plan;
mod positions;
mod presence;
mod shard;
mod simulated;
mod spec;
#[cfg(test)]
mod tests;

pub use counters::{Counted, MetricKind};
pub use lanes::Lane;
pub use plan::{ChangeCounts, DeviceTable, ShardChange, TableChange};
pub use positions::Positions;
pub use shard::{FieldHandle, ReportSenders, start};

use self::driver::Driver;
use crate::config::{DeviceConfig, Numbered, ProtocolName};
use crate::trace::{Decoder, NoBytes, TraceAsk};
use std::convert::Infallible;
use tieline_core::{Command, CommandOutcome, DeviceId, Instant, Topic, Update};
use tokio::sync::{mpsc, oneshot};

/// The driver of a protocol, without devices.
fn driver_of(protocol: ProtocolName) -> Box<dyn Driver> {
    match protocol {
        ProtocolName::Dnp3 => Box::<dnp3::Dnp3>::default(),
        ProtocolName::Modbus => Box::<modbus::Modbus>::default(),
        ProtocolName::Bacnet => Box::<bacnet::Bacnet>::default(),
        ProtocolName::Iec104 => Box::<iec104::Iec104>::default(),
        ProtocolName::Goose => Box::<goose::Goose>::default(),
        ProtocolName::Simulated => Box::<simulated::Simulated>::default(),
    }
}

/// Whether a device whose configuration changes from one to the other keeps its connection.
fn keeps_connection(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let place = |config: &DeviceConfig| {
        let DeviceConfig { topic, transport, channel, priority, trace, publish_points, .. } = config;
        (topic.clone(), transport.clone(), channel.clone(), *priority, *trace, *publish_points)
    };
    let keeps = match new.protocol.name() {
        ProtocolName::Dnp3 => dnp3::keeps,
        ProtocolName::Modbus => modbus::keeps,
        ProtocolName::Bacnet => bacnet::keeps,
        ProtocolName::Iec104 => iec104::keeps,
        ProtocolName::Goose => goose::keeps,
        ProtocolName::Simulated => simulated::keeps,
    };
    old.protocol.name() == new.protocol.name() && place(old) == place(new) && keeps(old, new)
}

/// What a trace of a device says; `wanted` is the point that is looked for, by its place in the list.
///
/// # Errors
/// The device does not speak its protocol, which its configuration rules out.
pub fn decoder_of(config: &DeviceConfig, wanted: Option<usize>) -> std::io::Result<Box<dyn Decoder>> {
    match config.protocol.name() {
        ProtocolName::Dnp3 => dnp3::decoder_of(config, wanted),
        ProtocolName::Modbus => modbus::decoder_of(config, wanted),
        ProtocolName::Bacnet => bacnet::decoder_of(config, wanted),
        ProtocolName::Iec104 => iec104::decoder_of(config, wanted),
        ProtocolName::Goose => goose::decoder_of(config, wanted),
        // Their traces say their states and failures alone.
        ProtocolName::Simulated => Ok(Box::new(NoBytes)),
    }
}

/// One for each protocol, each with the devices of a shard that speak it.
type Drivers = Vec<(ProtocolName, Box<dyn Driver>)>;

fn drivers() -> Drivers {
    ProtocolName::ALL.into_iter().map(|protocol| (protocol, driver_of(protocol))).collect()
}

/// What a field shard is told.
#[derive(Debug)]
pub enum FieldInput {
    /// Send a command; `command_id` names it in the report of its outcome.
    Command {
        /// To which device.
        device: DeviceId,
        /// That of the configuration by which the command was made: by another one its point may be another one.
        revision: u32,
        /// The engine's name for it.
        command_id: u64,
        /// What.
        command: Command,
        /// From when on nothing more may be sent for it.
        until: Instant,
    },
    /// What was reported up to this receipt is stored, or will not be.
    Settled(Receipt),
    /// Tell what the shard's devices have counted.
    Count(oneshot::Sender<Counted>),
    /// Tell what the trace of a device holds.
    Trace(TraceAsk),
    /// End devices.
    Leave(Leaving),
    /// Change devices, and start others.
    Change(Changing),
}

/// Devices that leave a shard.
#[derive(Debug)]
pub struct Leaving {
    /// Each with whether it is forgotten; otherwise it keeps its number, its topics and its last values, and is started again.
    pub devices: Vec<(DeviceId, bool)>,
    /// Dropped once everything that the devices have told has been read.
    pub barrier: Barrier,
}

/// Devices that change on a shard or come to it.
#[derive(Debug)]
pub struct Changing {
    /// They keep their connections.
    pub replace: Vec<Numbered>,
    /// They are started; those that left and were not forgotten among them.
    pub start: Vec<Numbered>,
    /// Dropped once everything that was told by then has been read.
    pub barrier: Barrier,
    /// What could not be started, and why.
    pub done: oneshot::Sender<Vec<(DeviceId, String)>>,
}

/// Nothing is ever sent: what waits is told by the end of all senders.
pub type Barrier = mpsc::Sender<Infallible>;

/// A device's events that wait for their confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Which shard.
    pub shard: usize,
    /// Which device.
    pub device: DeviceId,
    /// On which of its connections.
    pub lane: Lane,
    /// How many fragments with events the device had sent there by then.
    pub fragments: u64,
    /// They are of its past: the device is asked for them again where they cannot be stored.
    pub is_past: bool,
}

/// What a field shard tells the bus.
#[derive(Debug, Default)]
pub struct FieldReport {
    /// New states of topics, in order.
    pub updates: Vec<Update>,
    /// What devices had kept of times when they were away, for history alone. It may have been told before.
    pub past: Vec<Update>,
    /// Devices that can, or cannot, be commanded.
    pub links: Vec<(DeviceId, bool)>,
    /// What became of commands.
    pub outcomes: Vec<(DeviceId, u64, CommandOutcome)>,
    /// Whose confirms wait until these updates are stored.
    pub receipts: Vec<Receipt>,
    /// Topics that nobody updates any more: their device, or their point, is gone.
    pub gone: Vec<Topic>,
    /// To be dropped once all this was read.
    pub barriers: Vec<Barrier>,
}

impl FieldReport {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { updates, past, links, outcomes, receipts, gone, barriers } = self;
        let is_quiet = updates.is_empty() && past.is_empty() && links.is_empty() && outcomes.is_empty();
        is_quiet && receipts.is_empty() && gone.is_empty() && barriers.is_empty()
    }
}
