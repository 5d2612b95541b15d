//! What goes in, what goes to a device, and what comes out.

use crate::ControlPoint;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use tieline_core::{Command, CommandMode, CommandOutcome, DeviceId, Instant, PointId, Topic, Value};

/// A wish to set a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The caller's number of it.
    pub id: u64,
    /// What to set.
    pub topic: Topic,
    /// Whether the topic is in the tree, so that a wrong name is told from a point that is only read.
    pub topic_exists: bool,
    /// In engineering units.
    pub value: Value,
    /// How to ask the device; none: as its point prefers.
    pub mode: Option<CommandMode>,
    /// The time until its end; none: [`Limits::timeout`].
    pub timeout: Option<Duration>,
    /// Who asks, for the audit log.
    pub who: Arc<str>,
}

/// A command on its way; its outcome must name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// A command for a device's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Which device.
    pub device: DeviceId,
    /// What to do.
    pub command: Command,
    /// When the caller is told that it was not done in time: nothing may be sent to the device from then on.
    pub until: Instant,
    /// For [`Control::handle_outcome`].
    pub command_id: CommandId,
}

/// The end of a request that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The caller's number of it.
    pub request: u64,
    /// What became of it.
    pub outcome: CommandOutcome,
    /// From the request to its end.
    pub elapsed: Duration,
}

/// A command that has been checked.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) request: u64,
    pub(crate) group: Option<u64>,
    pub(crate) who: Arc<str>,
    /// The value as JSON, as it was asked for.
    pub(crate) shown: Box<str>,
    pub(crate) point: Arc<ControlPoint>,
    pub(crate) command: Command,
    pub(crate) timeout: Option<Duration>,
}

/// A command that was refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) request: u64,
    pub(crate) group: Option<u64>,
    pub(crate) who: Arc<str>,
    pub(crate) topic: Topic,
    pub(crate) shown: Box<str>,
    pub(crate) mode: Option<CommandMode>,
}

/// An outcome that came after its request had ended.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) request: u64,
    pub(crate) device: DeviceId,
    pub(crate) point: PointId,
    pub(crate) outcome: CommandOutcome,
}
