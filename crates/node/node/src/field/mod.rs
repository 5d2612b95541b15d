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
//! A protocol is a folder with a driver, which [`driver_of`] registers; no other file of this room knows any.
//!
//! Read first: `driver.rs`, then `shard.rs`, then `dnp3/mod.rs`.

mod bacnet;
mod counters;
mod dnp3;
mod driver;
mod lanes;
mod modbus;
mod positions;
mod presence;
mod shard;
mod simulated;
mod spec;

pub use counters::{Counted, MetricKind};
pub use lanes::Lane;
pub use positions::Positions;
pub use shard::{FieldHandle, start};

use self::driver::Driver;
use crate::config::{DeviceConfig, ProtocolName};
use crate::trace::{Decoder, NoBytes, TraceAsk};
use tieline_core::{Command, CommandOutcome, DeviceId, Instant, Update};

/// The driver of a protocol, without devices.
fn driver_of(protocol: ProtocolName) -> Box<dyn Driver> {
    match protocol {
        ProtocolName::Dnp3 => Box::<dnp3::Dnp3>::default(),
        ProtocolName::Modbus => Box::<modbus::Modbus>::default(),
        ProtocolName::Bacnet => Box::<bacnet::Bacnet>::default(),
        ProtocolName::Simulated => Box::<simulated::Simulated>::default(),
    }
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
    Count(tokio::sync::oneshot::Sender<Counted>),
    /// Tell what the trace of a device holds.
    Trace(TraceAsk),
}

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
}

impl FieldReport {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
            && self.past.is_empty()
            && self.links.is_empty()
            && self.outcomes.is_empty()
            && self.receipts.is_empty()
    }
}
