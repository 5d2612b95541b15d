//! What a device has, and how it is asked.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use tieline_core::{DeviceId, PointId, Topic, TopicError};

/// Points of one table at most.
pub const POINTS_MAX: usize = 65_536;
/// Poll classes of one device at most.
pub const POLLS_MAX: usize = 16;
/// The shortest interval of a poll.
const EVERY_MIN: Duration = Duration::from_millis(10);

/// What kind of poll is asked for: a tag that only the device's protocol understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PollClass(pub u8);

/// What type a point's value has after scaling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// As it was read; a scaled integer becomes a float.
    #[default]
    AsRead,
    /// True where a number is not zero.
    Bool,
    /// A number, rounded to the nearest integer.
    Int,
    /// A number, as a double.
    Float,
}

/// One point of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct PointSpec {
    /// Its topic below the device's, one or more levels.
    pub name: Box<str>,
    /// The type of its value.
    pub kind: Kind,
    /// Engineering units per raw unit; finite, not zero.
    pub scale: f64,
    /// Engineering units at raw zero; finite.
    pub offset: f64,
    /// Whether true and false change places.
    pub invert: bool,
}

impl PointSpec {
    /// A point that is published as it was read.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), kind: Kind::AsRead, scale: 1.0, offset: 0.0, invert: false }
    }
}

/// The points of a type of device; share one among all devices that have it.
#[derive(Debug, PartialEq)]
pub struct PointTable(Box<[PointSpec]>);

impl PointTable {
    /// Checks and shares a table. [`PointId`] n is the n-th of it.
    ///
    /// # Errors
    /// A name is no topic or is there twice, a number is out of its range, or there are too many.
    pub fn new(points: Vec<PointSpec>) -> Result<Arc<Self>, SpecError> {
        if points.len() > POINTS_MAX {
            return Err(SpecError::TooManyPoints { found: points.len() });
        }
        // The topic with all points has a name of its own.
        let mut names = BTreeSet::from(["all"]);
        for point in &points {
            Topic::new(&point.name).map_err(|error| SpecError::Name { name: point.name.clone(), error })?;
            if !names.insert(&*point.name) {
                return Err(SpecError::NameTwice { name: point.name.clone() });
            }
            if !(point.scale.is_finite() && point.scale != 0.0 && point.offset.is_finite()) {
                return Err(SpecError::Scale { name: point.name.clone(), scale: point.scale, offset: point.offset });
            }
        }
        drop(names);
        Ok(Arc::new(Self(points.into())))
    }

    /// All points, by their number.
    #[must_use]
    pub fn points(&self) -> &[PointSpec] {
        &self.0
    }

    /// One point.
    #[must_use]
    pub fn get(&self, point: PointId) -> Option<&PointSpec> {
        self.0.get(point.0 as usize)
    }
}

/// One kind of poll of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollSpec {
    /// What is asked.
    pub class: PollClass,
    /// How often; at least 10 ms.
    pub every: Duration,
}

/// Which topics of a device are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish {
    /// One topic a point.
    pub each: bool,
    /// Whether a polled state that equals the last one is published again, with its later time.
    pub unchanged: bool,
    /// One topic with all points.
    pub all: bool,
    /// The shortest time between two publications of all points.
    pub all_every: Duration,
}

impl Default for Publish {
    fn default() -> Self {
        Self { each: true, unchanged: true, all: true, all_every: Duration::from_secs(1) }
    }
}

/// How urgent the updates of a device are: what waits of a more urgent one is taken first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Trips and commands.
    Protection,
    /// Reports of states.
    #[default]
    Monitoring,
    /// Samples and files.
    Bulk,
}

impl Urgency {
    /// All, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Protection, Self::Monitoring, Self::Bulk];
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Its topic: those of its points stand below.
    pub topic: Topic,
    /// Its points.
    pub table: Arc<PointTable>,
    /// What is polled when.
    pub polls: Vec<PollSpec>,
    /// The shortest rest between the end of a poll and the next.
    pub gap_min: Duration,
    /// A poll that takes longer makes the device slow; none: only a poll that failed does.
    pub slow_after: Option<Duration>,
    /// A point without a reading for so long is stale; none: only the health of the device makes it so.
    pub stale_after: Option<Duration>,
    /// What is published.
    pub publish: Publish,
    /// Before whose updates its own are taken.
    pub urgency: Urgency,
}

impl DeviceSpec {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.polls.len() > POLLS_MAX {
            return Err(SpecError::TooManyPolls { found: self.polls.len() });
        }
        match self.polls.iter().find(|poll| poll.every < EVERY_MIN) {
            Some(poll) => Err(SpecError::TooOften { every: poll.every }),
            None => Ok(()),
        }
    }
}

/// Bounds and paces of one poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Devices.
    pub devices_max: usize,
    /// Updates that wait to be taken, of each [`Urgency`].
    pub updates_max: usize,
    /// Events that wait to be taken.
    pub events_max: usize,
    /// The shortest time between two publications of a device's statistics.
    pub stats_every: Duration,
    /// A poll whose end is not reported for so long counts as timed out. Longer than any protocol's own timeout.
    pub poll_lost_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices_max: 100_000,
            updates_max: 65_536,
            events_max: 1_024,
            stats_every: Duration::from_secs(10),
            poll_lost_after: Duration::from_secs(120),
        }
    }
}

/// Why a table or a device was not taken.
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
    /// A poll is asked for more often than every 10 ms.
    TooOften {
        /// How often.
        every: Duration,
    },
    /// As many devices as [`Limits::devices_max`] are here.
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
            Self::DevicesFull { max } => write!(f, "{max} devices are here, which is the limit"),
            Self::DeviceTwice { device } => write!(f, "device {} is here already", device.0),
        }
    }
}

impl core::error::Error for SpecError {}
