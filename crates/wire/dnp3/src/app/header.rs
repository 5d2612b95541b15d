//! One object header with its objects.

use super::{Controls, Items, Measurements, Prefix, Qualifier, object};
use crate::objects::{Kind, Layout, Size, TimeField, ValueForm};
use crate::{Classes, DnpTime, GroupVar, Measured, Measurement, PointType, Stamp};
use tieline_core::Cursor;

/// Which objects a header speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Range {
    /// All that there are.
    All,
    /// From the first index to the last; at most 65535 where objects follow.
    Span {
        /// The first index.
        start: u32,
        /// The last index, never less than the first.
        stop: u32,
    },
    /// So many: of objects with a prefix each, or the first so many.
    Count(u32),
}

impl Range {
    /// How many objects; 0 for all.
    #[must_use]
    pub const fn count(self) -> u64 {
        match self {
            Self::All => 0,
            Self::Span { start, stop } => stop.saturating_sub(start) as u64 + 1,
            Self::Count(count) => count as u64,
        }
    }
}

/// An object header; the length of its objects was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    pub(super) shape: Shape,
    pub(super) data: &'a [u8],
}

/// A header without what it borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) object: GroupVar,
    pub(super) qualifier: Qualifier,
    pub(super) prefix: Prefix,
    pub(super) range: Range,
    pub(super) layout: Option<Layout>,
}

impl<'a> Header<'a> {
    /// Group and variation.
    #[must_use]
    pub const fn object(&self) -> GroupVar {
        self.shape.object
    }

    /// The qualifier byte.
    #[must_use]
    pub const fn qualifier(&self) -> Qualifier {
        self.shape.qualifier
    }

    /// Which objects.
    #[must_use]
    pub const fn range(&self) -> Range {
        self.shape.range
    }

    /// What one object looks like; None for objects that this crate does not know, and for variation 0.
    #[must_use]
    pub const fn layout(&self) -> Option<&Layout> {
        self.shape.layout.as_ref()
    }

    /// The objects with their prefixes, as they are on the wire; empty where a request only names objects.
    #[must_use]
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The measurements it brings; none unless it is of a static or event group of a [`crate::PointType`]. Relative
    /// times count from `cto`, the last group 51 before this header, and are left out without one.
    #[must_use]
    pub const fn measurements(&self, cto: Option<Stamp>) -> Measurements<'a> {
        Measurements::new(*self, cto)
    }

    /// The controls it brings; none unless it is of group 12 variation 1 or of group 41.
    #[must_use]
    pub const fn controls(&self) -> Controls<'a> {
        Controls::new(*self)
    }

    /// The objects one by one, each without its prefix; none where they are packed, or only named. Objects that a
    /// request only names by index prefixes come with no bytes.
    #[must_use]
    pub const fn items(&self) -> Items<'a> {
        Items::new(*self)
    }

    /// The states it brings as packed bits, with their indices: groups 1, 10 and 80 variation 1, group 12 variation 3.
    pub fn bits(&self) -> impl Iterator<Item = (u32, bool)> + use<'a> {
        let Self { shape, data } = *self;
        (0..shape.packed_count(data)).filter_map(move |position| match shape.layout?.decode_packed(data, position)? {
            Measured::Bit(state) => Some((shape.span_index(position), state)),
            Measured::DoubleBit(_) | Measured::Count(_) | Measured::Analog(_) | Measured::Bytes(_) => None,
        })
    }

    /// The first time it brings as group 50 variation 1 or 3, or group 51.
    #[must_use]
    pub fn time(&self) -> Option<DnpTime> {
        match self.object() {
            GroupVar { group: 50, variation: 1 | 3 } | GroupVar { group: 51, variation: 1 | 2 } => {
                let bytes = self.items().next()?.bytes;
                Cursor::new(bytes).u48_le().ok().map(DnpTime::from_millis)
            }
            _ => None,
        }
    }

    /// The common time of occurrence, if this header is group 51: variation 1 synchronised, 2 not.
    #[must_use]
    pub fn common_time(&self) -> Option<Stamp> {
        let time = if self.object().group == 51 { self.time() } else { None };
        time.map(|time| Stamp { time, synchronized: self.object().variation == 1 })
    }

    /// The delay in milliseconds, if this header brings group 52: variation 1 counts seconds.
    #[must_use]
    pub fn delay_ms(&self) -> Option<u32> {
        let unit = match self.object() {
            GroupVar { group: 52, variation: 1 } => 1000,
            GroupVar { group: 52, variation: 2 } => 1,
            _ => return None,
        };
        Cursor::new(self.items().next()?.bytes).u16_le().ok().map(|delay| u32::from(delay) * unit)
    }

    /// The class that it names, if this header is group 60; no class otherwise.
    #[must_use]
    pub const fn classes(&self) -> Classes {
        match self.shape.object {
            GroupVar { group: 60, variation: 1 } => Classes::CLASS_0,
            GroupVar { group: 60, variation: 2 } => Classes::CLASS_1,
            GroupVar { group: 60, variation: 3 } => Classes::CLASS_2,
            GroupVar { group: 60, variation: 4 } => Classes::CLASS_3,
            _ => Classes::NONE,
        }
    }

    /// Whether it is of a static or event group of a [`crate::PointType`].
    pub(super) const fn brings_measurements(&self) -> bool {
        matches!(self.shape.layout, Some(Layout { point_type: Some(_), .. }))
    }

    /// Whether it may bring an [`Object`](super::Object).
    pub(crate) fn brings_objects(&self) -> bool {
        self.shape.layout.as_ref().is_some_and(object::brings_objects)
    }

    /// How many measurements it brings.
    pub(crate) fn measurement_count(&self) -> usize {
        match self.shape.row() {
            Some(row) => self.data.len() / row.stride,
            None if self.brings_measurements() => self.shape.packed_count(self.data),
            None => 0,
        }
    }

    /// Whether it brings events of points.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.shape.layout.is_some_and(|layout| layout.kind == Kind::Event)
    }
}

impl Shape {
    /// The index of the object at a position where none has a prefix.
    pub(super) fn span_index(&self, position: usize) -> u32 {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        match self.range {
            Range::Span { start, .. } => start.saturating_add(position),
            Range::All | Range::Count(_) => position,
        }
    }

    /// How many packed objects `data` holds; 0 where objects are not packed.
    pub(super) fn packed_count(&self, data: &[u8]) -> usize {
        match self.layout.map(|layout| layout.size) {
            Some(Size::Bits(_)) if !data.is_empty() => usize::try_from(self.range.count()).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// What measurements with bytes of their own look like; None where they are packed, or none.
    #[inline]
    pub(super) fn row(&self) -> Option<Row> {
        let layout = self.layout.as_ref()?;
        let (index_bytes, start) = match self.prefix {
            Prefix::Index(bytes) => (bytes, 0),
            Prefix::None => (0, self.span_index(0)),
            Prefix::Size(_) => return None,
        };
        let stride = usize::from(index_bytes) + layout.bytes()?;
        let point_type = layout.point_type.filter(|_| stride > 0)?;
        Some(Row { point_type, layout: *layout, index_bytes, start, stride })
    }

    /// The measurement at a position of `data`; None beyond the last, or when the objects are no measurements.
    pub(super) fn measurement(&self, data: &[u8], position: usize, cto: Option<Stamp>) -> Option<Measurement> {
        if let Some(row) = self.row() {
            let bytes = data.get(position.checked_mul(row.stride)?..)?.get(..row.stride)?;
            return row.measurement(bytes, position, cto);
        }
        let layout = self.layout.as_ref()?;
        if position >= self.packed_count(data) {
            return None;
        }
        let (point_type, value) = (layout.point_type?, layout.decode_packed(data, position)?);
        let index = u16::try_from(self.span_index(position)).ok()?;
        Some(Measurement { point_type, index, value, flags: crate::Flags::ONLINE, stamp: None })
    }
}

/// Measurements with bytes of their own, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    point_type: PointType,
    pub(super) layout: Layout,
    /// Bytes of an index prefix; 0 without one.
    pub(super) index_bytes: u8,
    /// The index of the first, without prefixes.
    start: u32,
    /// Bytes of one with its prefix, 1 and more.
    pub(super) stride: usize,
}

impl Row {
    /// The same, whose values are known to have this form, and whose index prefixes this length.
    #[inline(always)]
    pub(super) const fn of(self, value: ValueForm, index_bytes: u8) -> Self {
        Self { layout: Layout { value, ..self.layout }, index_bytes, ..self }
    }

    /// The measurement that stands at a position as `bytes`.
    #[inline(always)]
    pub(super) fn measurement(&self, bytes: &[u8], position: usize, cto: Option<Stamp>) -> Option<Measurement> {
        let mut cursor = Cursor::new(bytes);
        let index = match self.index_bytes {
            0 => self.start.saturating_add(u32::try_from(position).unwrap_or(u32::MAX)),
            bytes => read_uint(&mut cursor, bytes)?,
        };
        let fields = self.layout.decode(cursor.rest()).ok()?;
        let (index, stamp) = (u16::try_from(index).ok()?, stamp_of(fields.time, cto));
        Some(Measurement { point_type: self.point_type, index, value: fields.value?, flags: fields.flags, stamp })
    }
}

/// The time stamp that a time stands for; relative times count from `cto`.
#[inline]
pub(super) fn stamp_of(time: TimeField, cto: Option<Stamp>) -> Option<Stamp> {
    match time {
        TimeField::None => None,
        TimeField::Absolute(time) => Some(Stamp { time, synchronized: true }),
        TimeField::Relative(millis) => cto.map(|cto| Stamp {
            time: DnpTime::from_millis(cto.time.millis().saturating_add(u64::from(millis))),
            ..cto
        }),
    }
}

/// An unsigned number of 1, 2 or 4 bytes.
#[inline]
pub(super) fn read_uint(cursor: &mut Cursor<'_>, bytes: u8) -> Option<u32> {
    match bytes {
        1 => cursor.u8().ok().map(u32::from),
        2 => cursor.u16_le().ok().map(u32::from),
        _ => cursor.u32_le().ok(),
    }
}
