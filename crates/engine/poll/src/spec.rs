//! What a device has, and how it is asked.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::SpecError;
use tieline_core::{PointId, Topic};

/// Points of one table at most.
pub const POINTS_MAX: usize = 65_536;
/// Poll classes of one device at most.
pub const POLLS_MAX: usize = 16;
/// Outstanding polls of one device at most.
pub const IN_FLIGHT_MAX: u8 = 64;
/// The shortest interval of a poll or a heartbeat.
pub(crate) const EVERY_MIN: Duration = Duration::from_millis(10);

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
    /// The polls that read it: where they are missed it is stale ([`Collection::stale_after_missed`]).
    pub class: Option<PollClass>,
    /// Stands for its address in the device: where the number changes, what was read before is of another point.
    pub source: u64,
}

impl PointSpec {
    /// A point that is published as it was read.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), kind: Kind::AsRead, scale: 1.0, offset: 0.0, invert: false, class: None, source: 0 }
    }

    /// Whether a value of the other means the same here.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let meaning =
            |point: &Self| (point.kind, point.scale.to_bits(), point.offset.to_bits(), point.invert, point.source);
        self.name == other.name && meaning(self) == meaning(other)
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

/// Devices that share something: one gateway, one line, one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// What a group's devices share. A device may be behind one gateway and in one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// A gateway, a serial line, one host with several devices.
    Gateway,
    /// A network of gateways and devices, a radio channel, a link.
    Network,
}

/// The limits of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// What its devices share.
    pub kind: GroupKind,
    /// Polls of all its devices that may be outstanding; not zero.
    pub in_flight_max: u16,
    /// The shortest time between two requests to its devices: 100 ms for ten requests a second at most. Zero: no limit.
    pub gap_min: Duration,
}

/// What happens to polls that were missed because the device was busy or away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They are left out: the next is due when it would have been.
    #[default]
    Skip,
    /// One takes the place of all, as soon as the device can be asked.
    Once,
}

/// What a heartbeat writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatValue {
    /// True and false in turn.
    Toggle,
    /// A number that counts up from 0 to this one, and begins again.
    Count {
        /// The last before 0.
        max: u32,
    },
}

/// A value that is written to a device again and again: it shows the device that its master is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Where it is written.
    pub point: PointId,
    /// How often; at least 10 ms.
    pub every: Duration,
    /// What is written.
    pub value: HeartbeatValue,
}

/// How the values of a device are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Outstanding polls at most, from 1 to [`IN_FLIGHT_MAX`].
    pub in_flight_max: u8,
    /// The gateway that it is behind.
    pub gateway: Option<GroupId>,
    /// The network that it is in.
    pub network: Option<GroupId>,
    /// Whether everything is polled as fast as the limits allow once the device comes online. Without, the first polls
    /// are those that are due next: the protocol itself reads what is there.
    pub first_round: bool,
    /// A device whose polls time out is asked rarely: after two in a row one poll is tried at double the shortest
    /// interval, and each that times out doubles it again up to this. None: the plan goes on.
    pub back_off_max: Option<Duration>,
    /// What happens to polls that were missed.
    pub missed: Missed,
    /// A point is stale once so many polls of its class were missed, half an interval later. None: two polls in a row
    /// that failed make every point stale.
    pub stale_after_missed: Option<u32>,
    /// What is written to show that the master is there.
    pub heartbeat: Option<Heartbeat>,
}

impl Collection {
    /// For devices that report changes by themselves and are read by their protocol when they come online.
    pub const REPORTED: Self = Self {
        in_flight_max: 1,
        gateway: None,
        network: None,
        first_round: false,
        back_off_max: None,
        missed: Missed::Skip,
        stale_after_missed: None,
        heartbeat: None,
    };

    /// For devices whose values are known by polls alone.
    pub const POLLED: Self = Self {
        first_round: true,
        back_off_max: Some(Duration::from_secs(300)),
        stale_after_missed: Some(3),
        ..Self::REPORTED
    };
}

impl Default for Collection {
    fn default() -> Self {
        Self::REPORTED
    }
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
    /// Before whose updates its own are taken, and, less strictly, before whose polls its own are asked for.
    pub urgency: Urgency,
    /// How its values are collected.
    pub collection: Collection,
}

impl DeviceSpec {
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.polls.len() > POLLS_MAX {
            return Err(SpecError::TooManyPolls { found: self.polls.len() });
        }
        for (at, poll) in self.polls.iter().enumerate() {
            if self.polls.iter().take(at).any(|other| other.class == poll.class) {
                return Err(SpecError::ClassTwice { class: poll.class });
            }
        }
        let Collection { in_flight_max, stale_after_missed, heartbeat, .. } = self.collection;
        let intervals = self.polls.iter().map(|poll| poll.every).chain(heartbeat.map(|beat| beat.every));
        if let Some(every) = intervals.min().filter(|every| *every < EVERY_MIN) {
            return Err(SpecError::TooOften { every });
        }
        if !(1..=IN_FLIGHT_MAX).contains(&in_flight_max) {
            return Err(SpecError::InFlight { found: in_flight_max });
        }
        if stale_after_missed == Some(0) {
            return Err(SpecError::StaleAtOnce);
        }
        match heartbeat.filter(|beat| self.table.get(beat.point).is_none()) {
            Some(beat) => Err(SpecError::HeartbeatPoint { point: beat.point }),
            None => Ok(()),
        }
    }
}

/// Bounds and paces of one poller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Devices.
    pub devices_max: usize,
    /// Groups; 65,535 at most.
    pub groups_max: usize,
    /// Updates that wait to be taken, of each [`Urgency`].
    pub updates_max: usize,
    /// Events that wait to be taken.
    pub events_max: usize,
    /// The shortest time between two publications of a device's statistics.
    pub stats_every: Duration,
    /// A poll whose end is not reported for so long counts as timed out. Longer than any protocol's own timeout.
    pub poll_lost_after: Duration,
    /// The shortest time, on average, between two requests of first rounds, of all devices together: when many come
    /// back at once they are not all asked at once. Zero: no limit.
    pub first_round_gap: Duration,
    /// Deadlines of devices take effect at multiples of it, those that passed meanwhile together: a thousand devices, each
    /// polled once a second, need no more than 200 looks a second at 5 ms. Zero: each at its moment.
    pub grid: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices_max: 100_000,
            groups_max: 16_384,
            updates_max: 65_536,
            events_max: 1_024,
            stats_every: Duration::from_secs(10),
            poll_lost_after: Duration::from_secs(120),
            first_round_gap: Duration::from_millis(1),
            grid: Duration::ZERO,
        }
    }
}
