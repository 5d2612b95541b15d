//! What waits to be taken from a poller.

use crate::gates::Gates;
use crate::schedule::Heap;
use crate::{DeviceState, Urgency};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use tieline_core::{DeviceId, Histogram, PointId, Topic, Update, Value};

/// What a person may want to know.
#[derive(Clone, Debug, PartialEq)]
pub enum PollEvent {
    /// A device's state changed.
    State {
        /// Which device.
        device: DeviceId,
        /// From.
        from: DeviceState,
        /// To.
        to: DeviceState,
        /// Why, where the device is away.
        why: Box<str>,
    },
    /// A device sends a point that its table does not have. Only the first eight of a device are told.
    UnknownPoint {
        /// Which device.
        device: DeviceId,
        /// The number beyond the table.
        point: PointId,
    },
    /// A value is to be written to a device that is online. At most one of a device waits.
    Heartbeat {
        /// Which device.
        device: DeviceId,
        /// Where.
        point: PointId,
        /// What, in the units of the device.
        value: Value,
    },
}

/// Sizes at the moment, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Devices.
    pub devices: usize,
    /// Points of all devices.
    pub points: usize,
    /// Timer entries, valid and skipped ones.
    pub timers: usize,
    /// Updates that wait.
    pub updates_waiting: usize,
    /// Updates taken.
    pub updates: u64,
    /// Updates that a later one of the same point replaced because too many waited.
    pub conflated: u64,
    /// Polls asked for.
    pub requests: u64,
    /// Events dropped because too many waited.
    pub events_dropped: u64,
    /// Calls for a device that is not here.
    pub unknown_device: u64,
}

/// A topic whose body is made when it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    All,
    State,
    Stats,
}

impl Document {
    pub(crate) const fn bit(self) -> u8 {
        match self {
            Self::All => 1,
            Self::State => 2,
            Self::Stats => 4,
        }
    }
}

/// What waits of devices of one urgency.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) updates: VecDeque<Update>,
    /// Devices with points whose state waits to be published; each at most once.
    pub(crate) sweeps: VecDeque<DeviceId>,
    /// Each device at most once a kind.
    pub(crate) documents: VecDeque<(DeviceId, Document)>,
}

/// Everything that leaves the poller, and the heap.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) lanes: [Lane; Urgency::ALL.len()],
    /// Of each lane.
    pub(crate) updates_max: usize,
    /// Devices that may be polled; each at most once.
    pub(crate) gates: Gates,
    /// Devices with a heartbeat to write; each at most once.
    pub(crate) heartbeats: VecDeque<DeviceId>,
    pub(crate) events: VecDeque<PollEvent>,
    pub(crate) events_max: usize,
    pub(crate) heap: Heap,
    pub(crate) counts: Stats,
    /// From a poll to the end of its answer.
    pub(crate) responses: Histogram,
}

impl Outbox {
    pub(crate) const fn lane(&mut self, urgency: Urgency) -> &mut Lane {
        let [protection, monitoring, bulk] = &mut self.lanes;
        match urgency {
            Urgency::Protection => protection,
            Urgency::Monitoring => monitoring,
            Urgency::Bulk => bulk,
        }
    }

    pub(crate) fn updates_waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.updates.len()).sum()
    }

    /// Takes away what waits of topics that are gone.
    pub(crate) fn forget(&mut self, gone: &[Topic]) {
        if gone.is_empty() || self.updates_waiting() == 0 {
            return;
        }
        let gone: BTreeSet<&Topic> = gone.iter().collect();
        for lane in &mut self.lanes {
            lane.updates.retain(|update| !gone.contains(&update.topic));
        }
    }

    pub(crate) fn tell(&mut self, event: PollEvent) {
        if self.events.len() >= self.events_max {
            self.events.pop_front();
            self.counts.events_dropped += 1;
        }
        self.events.push_back(event);
    }
}
