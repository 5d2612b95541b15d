//! Why a table, a device or a group was not taken.

use crate::spec::EVERY_MIN;
use crate::{GroupId, GroupKind, IN_FLIGHT_MAX, POINTS_MAX, POLLS_MAX, PollClass};
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use tieline_core::{DeviceId, PointId, TopicError};

/// Why a table, a device or a group was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum SpecError {
    /// A point's name cannot be a topic below its device.
    Name {
        /// The name.
        name: Box<str>,
        /// What is wrong with it.
        error: TopicError,
    },
    /// Two points have one name, or a point has that of the topic with all points.
    NameTwice {
        /// The name.
        name: Box<str>,
    },
    /// A point's scale or offset is not a usable number.
    Scale {
        /// The point's name.
        name: Box<str>,
        /// Its scale.
        scale: f64,
        /// Its offset.
        offset: f64,
    },
    /// More points than [`POINTS_MAX`].
    TooManyPoints {
        /// How many.
        found: usize,
    },
    /// More poll classes than [`POLLS_MAX`].
    TooManyPolls {
        /// How many.
        found: usize,
    },
    /// A poll or a heartbeat is asked for more often than every 10 ms.
    TooOften {
        /// How often.
        every: Duration,
    },
    /// A device has two polls of one class.
    ClassTwice {
        /// The class.
        class: PollClass,
    },
    /// Outstanding polls of a device out of range.
    InFlight {
        /// How many.
        found: u8,
    },
    /// Points are stale before a poll is missed.
    StaleAtOnce,
    /// A heartbeat is written to a point that the table does not have.
    HeartbeatPoint {
        /// Its number.
        point: PointId,
    },
    /// A group has no room for any poll.
    GroupInFlight {
        /// Its number.
        group: GroupId,
    },
    /// A gateway is used as a network, or the other way round.
    GroupKind {
        /// Its number.
        group: GroupId,
        /// What it is.
        kind: GroupKind,
    },
    /// A device is in a group that is not here.
    GroupUnknown {
        /// Its number.
        group: GroupId,
    },
    /// As many groups as [`Limits::groups_max`](crate::Limits::groups_max) are here.
    GroupsFull {
        /// The limit.
        max: usize,
    },
    /// No device of that number is here.
    DeviceUnknown {
        /// Its number.
        device: DeviceId,
    },
    /// As many devices as [`Limits::devices_max`](crate::Limits::devices_max) are here.
    DevicesFull {
        /// The limit.
        max: usize,
    },
    /// A device of that number is here.
    DeviceTwice {
        /// Its number.
        device: DeviceId,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, error } => write!(f, "the point name {name:?} cannot be used: {error}"),
            Self::NameTwice { name } => write!(f, "the point name {name:?} is there twice, expected once"),
            Self::Scale { name, scale, offset } => write!(
                f,
                "the point {name:?} has scale {scale} and offset {offset}, expected finite numbers and a scale other \
                 than 0"
            ),
            Self::TooManyPoints { found } => write!(f, "{found} points in a table, expected at most {POINTS_MAX}"),
            Self::TooManyPolls { found } => write!(f, "{found} polls of a device, expected at most {POLLS_MAX}"),
            Self::TooOften { every } => {
                write!(f, "a poll every {every:?}, expected at least {EVERY_MIN:?} between two")
            }
            Self::ClassTwice { class } => write!(f, "the poll class {} is there twice, expected once", class.0),
            Self::InFlight { found } => {
                write!(f, "{found} outstanding polls of a device, expected from 1 to {IN_FLIGHT_MAX}")
            }
            Self::StaleAtOnce => f.write_str("points that are stale after 0 missed polls, expected at least 1"),
            Self::HeartbeatPoint { point } => {
                write!(f, "a heartbeat to the point number {}, expected one of the table", point.0)
            }
            Self::GroupInFlight { group } => {
                write!(f, "the group {} allows 0 outstanding polls, expected at least 1", group.0)
            }
            Self::GroupKind { group, kind: GroupKind::Gateway } => {
                write!(f, "the group {} is a gateway, expected a network", group.0)
            }
            Self::GroupKind { group, kind: GroupKind::Network } => {
                write!(f, "the group {} is a network, expected a gateway", group.0)
            }
            Self::GroupUnknown { group } => write!(f, "the group {} is not here, expected one that was set", group.0),
            Self::GroupsFull { max } => write!(f, "{max} groups are here, which is the limit"),
            Self::DeviceUnknown { device } => write!(f, "device {} is not here", device.0),
            Self::DevicesFull { max } => write!(f, "{max} devices are here, which is the limit"),
            Self::DeviceTwice { device } => write!(f, "device {} is here already", device.0),
        }
    }
}

impl core::error::Error for SpecError {}
