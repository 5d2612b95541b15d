//! Who a connector is, how long it waits, and what it tells.

use crate::ServiceError;
use crate::names::{ErrorClass, ErrorCode};
use crate::sc::{Connect, Uuid, Vmac};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// The settings of a connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorConfig {
    /// The identifier of the device, which never changes.
    pub uuid: Uuid,
    /// The virtual address to begin with.
    pub vmac: Vmac,
    /// Whether there is a failover hub.
    pub has_failover: bool,
    /// Bytes of a message that is taken.
    pub bvlc_bytes_max: u16,
    /// Bytes of a message of the network layer that is taken.
    pub npdu_bytes_max: u16,
    /// How long the hub may take to accept, to let go, or to show that it is there.
    pub connect_timeout: Duration,
    /// Silence of the hub after which it is asked whether it is there.
    pub heartbeat: Duration,
    /// The wait before a hub is dialled again; it doubles with each failure.
    pub reconnect_min: Duration,
    /// The longest wait.
    pub reconnect_max: Duration,
    /// Messages that wait to be sent; more are dropped, as a network would.
    pub transmits_max: usize,
    /// Events that wait for the owner; more messages are dropped, as a network would.
    pub events_max: usize,
    /// What other virtual addresses are made of, and what spreads attempts.
    pub seed: u64,
}

impl ConnectorConfig {
    /// A node with the default times of the standard.
    #[must_use]
    pub const fn new(uuid: Uuid, vmac: Vmac) -> Self {
        Self {
            uuid,
            vmac,
            has_failover: false,
            bvlc_bytes_max: 8192,
            npdu_bytes_max: 1497,
            connect_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(300),
            reconnect_min: Duration::from_secs(2),
            reconnect_max: Duration::from_secs(60),
            transmits_max: 4096,
            events_max: 8192,
            seed: 1,
        }
    }
}

/// One of the two hubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hub {
    /// The one that is used while it is there.
    Primary,
    /// The one that is used otherwise.
    Failover,
}

impl Hub {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Failover => "failover",
        }
    }
}

/// Why there is no hub any more, or none was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It refuses the node.
    Refused(ServiceError),
    /// Another node has the virtual address; the next attempt has another one.
    DuplicateVmac,
    /// It did not accept in time.
    NotAccepted,
    /// It did not answer a heartbeat.
    Silent,
    /// It disconnects the node.
    Disconnected,
    /// The connection ended without a word.
    Lost,
    /// This node went.
    Left,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the hub refuses the node with error {error}"),
            Self::DuplicateVmac => f.write_str("another node has the virtual address"),
            Self::NotAccepted => f.write_str("the hub did not accept the node in time"),
            Self::Silent => f.write_str("the hub did not answer a heartbeat"),
            Self::Disconnected => f.write_str("the hub disconnected the node"),
            Self::Lost => f.write_str("the connection ended"),
            Self::Left => f.write_str("this node left"),
        }
    }
}

impl core::error::Error for Reason {}

/// What the owner of a connector learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A hub accepted the node: what it is.
    Up(Hub, Connect),
    /// It is no hub of this node any more.
    Down(Hub, Reason),
    /// The node has this virtual address from here on.
    Renamed(Vmac),
    /// A message of the network layer.
    Npdu {
        /// Who sent it.
        from: Vmac,
        /// Whether it was sent to this node alone.
        is_unicast: bool,
        /// The message.
        npdu: Vec<u8>,
    },
    /// A node refused a message: which function, and why.
    Refused(Option<Vmac>, u8, ServiceError),
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No hub is connected.
    NoHub,
    /// It is longer than the hub takes.
    TooLong,
    /// Too many wait.
    Full,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHub => "no hub is connected",
            Self::TooLong => "the message is longer than the hub takes",
            Self::Full => "too many messages wait to be sent",
        })
    }
}

impl core::error::Error for SendError {}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that came in.
    pub received: u64,
    /// Messages that were given out to be sent.
    pub sent: u64,
    /// Messages that broke a rule.
    pub malformed: u64,
    /// Messages that nobody waited for, or for others.
    pub unexpected: u64,
    /// Messages that were refused with an error.
    pub refusals: u64,
    /// Messages that were dropped: no hub, a full queue, too long.
    pub dropped: u64,
    /// Hubs that accepted the node.
    pub connects: u64,
    /// Attempts that failed, and connections that ended.
    pub failures: u64,
}

/// An error of the virtual link.
pub(super) const fn link_error(code: ErrorCode) -> ServiceError {
    ServiceError::new(ErrorClass::COMMUNICATION, code)
}
