//! The field's column: devices over their sockets, through the poller, to the bus; and commands the way back.
//!
//! ```text
//! sockets ⇄ io/net ⇄ dnp3 master ── measurements ─▶ poller ── updates ─▶ report ─▶ bus
//!                        ▲                                                          │
//!                        └───────────── commands, confirms of stored events ◀───────┘
//! ```
//!
//! Devices are spread over shards: threads that share nothing. A shard hands its updates over in reports; while the
//! bus is full it keeps them in the poller, which conflates, and the confirms of events that were not reported stay
//! unsent, so that a device keeps them.
//!
//! A device may have a second connection for what is urgent: `lanes.rs` says which of two readings counts.
//!
//! Read first: `shard.rs`, then `device.rs`.

mod counters;
mod device;
mod device_session;
mod lanes;
mod link;
mod scheduled;
mod shard;
mod translate;

pub use counters::Counted;
pub use lanes::Lane;
pub use shard::{FieldHandle, start};

use crate::config::DeviceConfig;
use tieline_core::{Command, CommandOutcome, DeviceId, Instant, Update};

/// What a field shard is told.
#[derive(Debug)]
pub enum FieldInput {
    /// Send a command; `ticket` names it in the report of its outcome.
    Command {
        /// To which device.
        device: DeviceId,
        /// The engine's name for it.
        ticket: u64,
        /// What.
        command: Command,
        /// From when on nothing more may be sent for it.
        until: Instant,
    },
    /// What was reported up to this receipt is stored, or will not be.
    Settled(Receipt),
    /// Tell what the shard's devices have counted.
    Count(tokio::sync::oneshot::Sender<Counted>),
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
}

/// What a field shard tells the bus.
#[derive(Debug, Default)]
pub struct FieldReport {
    /// New states of topics, in order.
    pub updates: Vec<Update>,
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
        self.updates.is_empty() && self.links.is_empty() && self.outcomes.is_empty() && self.receipts.is_empty()
    }
}

/// A device with its number.
#[derive(Clone, Debug)]
pub struct Numbered {
    /// Its number, the same in every room.
    pub id: DeviceId,
    /// Its configuration.
    pub config: DeviceConfig,
    /// Whether history takes its points, even where they are not published one by one.
    pub recorded: bool,
}
