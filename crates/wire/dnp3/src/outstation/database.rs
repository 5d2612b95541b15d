//! The points of an outstation: one sorted list, 24 bytes a point, found by type and index.

use super::point::{Point, PointConfig, bits_of, rank};
use crate::{DnpTime, EventClass, Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The longest octet string of groups 110 and 111: its length is its variation.
pub const BYTES_MAX: usize = 255;

/// All points of an outstation, with their values.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// Sorted by type and index.
    points: Vec<Point>,
    /// The values of the octet strings, in the order of their points, which are last in `points`.
    texts: Vec<Box<[u8]>>,
    /// No point ever had a higher index.
    index_max: u16,
    /// Slot less index, wrapping, of the point that was updated last.
    skew: usize,
}

/// Why a value or a point was not taken: the caller's mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// No point of that type and index.
    Unknown,
    /// The point is there already.
    Exists,
    /// The value is not of the point's type, or an octet string is empty or longer than 255 bytes.
    WrongValue,
    /// The type has no such static, event or command event variation.
    WrongVariation,
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no point of that type and index",
            Self::Exists => "the point exists already",
            Self::WrongValue => "the value is not of the point's type (octet strings hold 1 to 255 bytes)",
            Self::WrongVariation => "the point's type has no such variation",
        })
    }
}

impl core::error::Error for DatabaseError {}

/// What a value did to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) class: EventClass,
    pub(super) event_variation: u8,
    /// The stored bits of the new value.
    pub(super) bits: u64,
    pub(super) flags: Flags,
}

impl Database {
    /// No points.
    #[must_use]
    pub const fn new() -> Self {
        Self { points: Vec::new(), texts: Vec::new(), index_max: 0, skew: 0 }
    }

    /// Adds a point: zero or one NUL byte, flagged as not measured since the restart.
    ///
    /// # Errors
    /// The point exists, or its configuration names a variation that its type does not have.
    pub fn add(&mut self, point_type: PointType, index: u16, config: PointConfig) -> Result<(), DatabaseError> {
        config.check(point_type)?;
        let Err(slot) = self.find(point_type, index) else { return Err(DatabaseError::Exists) };
        self.points.insert(slot, Point::new(point_type, index, config));
        self.index_max = self.index_max.max(index);
        if let Some(text) = self.text_slot(slot) {
            self.texts.insert(text, Box::new([0]));
        }
        Ok(())
    }

    /// Takes a point away and says whether it was there. Its events stay until they are reported.
    pub fn remove(&mut self, point_type: PointType, index: u16) -> bool {
        let Ok(slot) = self.find(point_type, index) else { return false };
        if let Some(text) = self.text_slot(slot) {
            self.texts.remove(text);
        }
        self.points.remove(slot);
        true
    }

    /// Takes all points of a type away and returns how many there were.
    pub fn remove_all(&mut self, point_type: PointType) -> usize {
        let slots = self.slots(point_type);
        if point_type == PointType::OctetString {
            self.texts.clear();
        }
        self.points.drain(slots).count()
    }

    /// Gives back memory that growing left over: worth a call after the last `add`.
    pub fn shrink(&mut self) {
        self.points.shrink_to_fit();
        self.texts.shrink_to_fit();
    }

    /// How many points of a type there are.
    #[must_use]
    pub fn count(&self, point_type: PointType) -> usize {
        self.slots(point_type).len()
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The point's value. What is frozen carries the time of its freeze.
    #[must_use]
    pub fn get(&self, point_type: PointType, index: u16) -> Option<Measurement> {
        let slot = self.find(point_type, index).ok()?;
        self.at(slot)
    }

    /// All values, by type and index.
    pub fn iter(&self) -> impl Iterator<Item = Measurement> {
        (0..self.points.len()).filter_map(|slot| self.at(slot))
    }

    /// Sets a value without an event: for the values at start.
    ///
    /// # Errors
    /// There is no such point, or the value is not of its type.
    pub fn set(&mut self, measurement: Measurement) -> Result<(), DatabaseError> {
        self.update(measurement).map(drop)
    }

    /// Sets a value; tells the event that it makes, if any.
    #[inline]
    pub(super) fn update(&mut self, measurement: Measurement) -> Result<Option<Change>, DatabaseError> {
        let Measurement { point_type, index, value, flags, stamp } = measurement;
        let slot = self.find_again(point_type, index).ok_or(DatabaseError::Unknown)?;
        if let (PointType::Analog | PointType::AnalogOutput, Measured::Analog(value)) = (point_type, &value) {
            let point = self.points.get_mut(slot).ok_or(DatabaseError::Unknown)?;
            let is_event = point.set_analog(*value, flags);
            return Ok(point.event_class().filter(|_| is_event).map(|class| point.change(class)));
        }
        let bits = bits_of(point_type, &value).ok_or(DatabaseError::WrongValue)?;
        let mut changed = false;
        if let Measured::Bytes(bytes) = value {
            changed = self.set_text(slot, bytes)?;
        }
        let point = self.points.get_mut(slot).ok_or(DatabaseError::Unknown)?;
        changed |= point.set(bits, flags);
        if !changed {
            return Ok(None);
        }
        if let (PointType::FrozenCounter | PointType::FrozenAnalog, Some(stamp)) = (point_type, stamp) {
            point.set_frozen_at(stamp.time);
        }
        Ok(point.event_class().map(|class| point.change(class)))
    }

    /// Sets the bytes of the octet string in a slot; says whether they are others.
    #[inline(never)]
    fn set_text(&mut self, slot: usize, bytes: Box<[u8]>) -> Result<bool, DatabaseError> {
        if bytes.is_empty() || bytes.len() > BYTES_MAX {
            return Err(DatabaseError::WrongValue);
        }
        let text = self.text_slot(slot).and_then(|text| self.texts.get_mut(text)).ok_or(DatabaseError::Unknown)?;
        let changed = *text != bytes;
        *text = bytes;
        Ok(changed)
    }

    /// Remembers when a frozen counter or analog was frozen, changed or not.
    pub(super) fn set_frozen_at(&mut self, point_type: PointType, index: u16, time: DnpTime) {
        if let Ok(slot) = self.find(point_type, index)
            && let Some(point) = self.points.get_mut(slot)
        {
            point.set_frozen_at(time);
        }
    }

    /// Gives the analog in a slot a dead-band.
    pub(super) fn set_dead_band(&mut self, slot: usize, band: f32) {
        if let Some(point) = self.points.get_mut(slot) {
            point.set_dead_band(band);
        }
    }

    /// The dead-band of an analog in its unit; none where there is no such analog.
    #[must_use]
    pub fn dead_band(&self, index: u16) -> Option<f32> {
        let slot = self.find(PointType::Analog, index).ok()?;
        self.points.get(slot).map(Point::dead_band)
    }

    /// Puts the points of a type and range into a class; says whether there was one. `None` keeps them in class 0
    /// only.
    pub(super) fn assign_class(&mut self, slots: Range<usize>, class: Option<EventClass>) -> bool {
        let Some(points) = self.points.get_mut(slots) else { return false };
        for point in points.iter_mut() {
            point.set_class(class, true);
        }
        !points.is_empty()
    }

    /// The slots of all points of a type.
    pub(super) fn slots(&self, point_type: PointType) -> Range<usize> {
        self.slots_between(point_type, 0, u16::MAX)
    }

    /// The slots of the points of a type with indices from `start` to `stop`, both included.
    pub(super) fn slots_between(&self, point_type: PointType, start: u16, stop: u16) -> Range<usize> {
        self.slots_from((point_type, start), (point_type, stop))
    }

    /// The slots of the points from one key to another, both included.
    pub(super) fn slots_from(&self, next: (PointType, u16), last: (PointType, u16)) -> Range<usize> {
        let from = self.points.partition_point(|p| p.key() < next);
        let to = self.points.partition_point(|p| p.key() <= last);
        from..to.max(from)
    }

    /// Whether the points of a type reach from `start` or below to `stop` or above, with at least one in between.
    pub(super) fn reaches(&self, point_type: PointType, start: u16, stop: u16) -> bool {
        let of_type = self.slots(point_type);
        let index = |slot: usize| self.point(slot).map_or(0, |point| point.index);
        !self.slots_between(point_type, start, stop).is_empty()
            && index(of_type.start) <= start
            && index(of_type.end - 1) >= stop
    }

    pub(super) const fn index_max(&self) -> u16 {
        self.index_max
    }

    pub(super) fn point(&self, slot: usize) -> Option<&Point> {
        self.points.get(slot)
    }

    /// The bytes of the octet string in a slot; empty for every other type.
    pub(super) fn bytes(&self, slot: usize) -> &[u8] {
        self.text_slot(slot).and_then(|text| self.texts.get(text)).map_or(&[], |text| text)
    }

    /// The bytes of an octet string; empty where there is none.
    pub(super) fn bytes_of(&self, index: u16) -> &[u8] {
        self.find(PointType::OctetString, index).map_or(&[], |slot| self.bytes(slot))
    }

    fn at(&self, slot: usize) -> Option<Measurement> {
        let point = self.points.get(slot)?;
        let stamp = point.frozen_stamp();
        let value = point.value().unwrap_or_else(|| Measured::Bytes(self.bytes(slot).into()));
        Some(Measurement { point_type: point.point_type, index: point.index, value, flags: point.flags(), stamp })
    }

    fn find(&self, point_type: PointType, index: u16) -> Result<usize, usize> {
        self.points.binary_search_by_key(&rank(point_type, index), Point::rank)
    }

    /// The slot of a point, looked for first where it is if its type has no gap between it and the point found last.
    #[inline]
    fn find_again(&mut self, point_type: PointType, index: u16) -> Option<usize> {
        let guess = self.skew.wrapping_add(usize::from(index));
        if self.points.get(guess).is_some_and(|point| point.rank() == rank(point_type, index)) {
            return Some(guess);
        }
        let slot = self.find(point_type, index).ok()?;
        self.skew = slot.wrapping_sub(usize::from(index));
        Some(slot)
    }

    /// Where the bytes of that slot are, if it is an octet string. The last type: all slots from its first on.
    fn text_slot(&self, slot: usize) -> Option<usize> {
        let first = self.points.partition_point(|p| p.point_type < PointType::OctetString);
        slot.checked_sub(first)
    }
}

impl PointConfig {
    /// Whether points of the type have these variations.
    ///
    /// # Errors
    /// They have not.
    pub fn check(&self, point_type: PointType) -> Result<(), DatabaseError> {
        let fits = static_variations(point_type).contains(&self.static_variation)
            && event_variations(point_type).contains(&self.event_variation)
            && command_variations(point_type).contains(&self.command_variation);
        if fits { Ok(()) } else { Err(DatabaseError::WrongVariation) }
    }
}

/// The static variations that a point may have by default.
pub(super) const fn static_variations(point_type: PointType) -> &'static [u8] {
    match point_type {
        PointType::Binary | PointType::DoubleBit | PointType::BinaryOutput => &[1, 2],
        PointType::Counter => &[1, 2, 5, 6],
        PointType::FrozenCounter => &[1, 2, 5, 6, 9, 10],
        PointType::Analog => &[1, 2, 3, 4, 5, 6],
        PointType::FrozenAnalog => &[1, 2, 3, 4, 5, 6, 7, 8],
        PointType::AnalogOutput => &[1, 2, 3, 4],
        PointType::OctetString => &[0],
    }
}

/// The variations of the events that tell of controls.
pub(super) const fn command_variations(point_type: PointType) -> &'static [u8] {
    match point_type {
        PointType::BinaryOutput => &[1, 2],
        PointType::AnalogOutput => &[1, 2, 3, 4, 5, 6, 7, 8],
        PointType::Binary
        | PointType::DoubleBit
        | PointType::Counter
        | PointType::FrozenCounter
        | PointType::Analog
        | PointType::FrozenAnalog
        | PointType::OctetString => &[0],
    }
}

/// The event variations that a point may have by default.
pub(super) const fn event_variations(point_type: PointType) -> &'static [u8] {
    match point_type {
        PointType::Binary | PointType::DoubleBit => &[1, 2, 3],
        PointType::BinaryOutput => &[1, 2],
        PointType::Counter | PointType::FrozenCounter => &[1, 2, 5, 6],
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => &[1, 2, 3, 4, 5, 6, 7, 8],
        PointType::OctetString => &[0],
    }
}
