//! What a protocol decodes, before anyone has scaled or named it.

use crate::{Point, Quality, Timestamp, Value};

/// A point of one device, numbered by the engine that knows its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PointId(pub u32);

/// A device of this node, numbered by the code that wires devices together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// A raw value from a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Which point of the device.
    pub point: PointId,
    /// The raw value, unscaled.
    pub value: Value,
    /// The device's own validity.
    pub quality: Quality,
    /// The device's time stamp; none where the object carries none.
    pub time: Option<Timestamp>,
    /// True for a reported change (an event), false for a polled state.
    pub event: bool,
}

impl Reading {
    /// The reading as a point, stamped with `received` where the device gave no time.
    #[must_use]
    pub fn into_point(self, received: Timestamp) -> Point {
        Point { value: self.value, quality: self.quality, time: self.time.unwrap_or(received) }
    }
}
