//! What a response brings that is no value of a point.

use super::attribute::value_bytes;
use super::header::{Shape, read_uint, stamp_of};
use super::{Attribute, AttributeValue, CommandStatus, Prefix};
use crate::objects::{Kind, Layout, point_group};
use crate::{DnpTime, Flags, GroupVar, Measured, PointType, Stamp};
use tieline_core::Cursor;

/// What a response brings that is no value of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A device attribute (group 0).
    Attribute(Attribute),
    /// How far an analog input must move for an event, in its raw unit (group 34).
    DeadBand {
        /// Which analog input.
        index: u16,
        /// How far.
        value: f64,
    },
    /// An output was commanded, by any master (groups 13 and 43).
    Commanded {
        /// [`PointType::BinaryOutput`] or [`PointType::AnalogOutput`].
        point_type: PointType,
        /// Which output.
        index: u16,
        /// What it was commanded to.
        value: Measured,
        /// What became of the command.
        status: CommandStatus,
        /// When.
        stamp: Option<Stamp>,
    },
    /// How far a counter has moved, not where it is (the delta variations of groups 20 to 23).
    Delta {
        /// [`PointType::Counter`] or [`PointType::FrozenCounter`].
        point_type: PointType,
        /// Which counter.
        index: u16,
        /// How far.
        change: u32,
        /// Its flags.
        flags: Flags,
        /// When, of events.
        stamp: Option<Stamp>,
    },
    /// The outstation's clock (group 50 variation 1).
    Time(DnpTime),
}

/// Whether a header may bring an [`Object`].
pub(super) const fn brings_objects(layout: &Layout) -> bool {
    let GroupVar { group, variation } = layout.object;
    layout.point_type.is_none() && (matches!(group, 0 | 13 | 20..=23 | 34 | 43) || (group == 50 && variation == 1))
}

/// Whether objects of this layout are reports of changes.
pub(super) const fn is_event(layout: &Layout) -> bool {
    matches!((layout.kind, layout.object.group), (Kind::Event, _) | (_, 13 | 43))
}

/// The first object of `data`, the one at `position` of its header, and its bytes with the prefix; None where there is
/// none, or where it makes no sense.
pub(super) fn read(shape: &Shape, data: &[u8], position: usize, cto: Option<Stamp>) -> Option<(Object, usize)> {
    let layout = shape.layout.as_ref()?;
    let mut cursor = Cursor::new(data);
    let index = match shape.prefix {
        Prefix::Index(bytes) => read_uint(&mut cursor, bytes)?,
        Prefix::None => shape.span_index(position),
        Prefix::Size(_) => return None,
    };
    let (index, rest) = (u16::try_from(index).ok()?, cursor.rest());
    let object = if shape.object.group == 0 {
        let [code, length] = cursor.array().ok()?;
        cursor.take(value_bytes(code, length)).ok()?;
        let value = AttributeValue::decode(rest)?;
        Object::Attribute(Attribute { set: index, variation: shape.object.variation, value })
    } else {
        cursor.take(layout.bytes()?).ok()?;
        fixed(layout, index, rest, cto)?
    };
    Some((object, data.len() - cursor.left()))
}

fn fixed(layout: &Layout, index: u16, bytes: &[u8], cto: Option<Stamp>) -> Option<Object> {
    if layout.object.group == 50 {
        return Cursor::new(bytes).u48_le().ok().map(|millis| Object::Time(DnpTime::from_millis(millis)));
    }
    let fields = layout.decode(bytes).ok()?;
    let (value, stamp) = (fields.value?, stamp_of(fields.time, cto));
    let command = |point_type, value| {
        let status = CommandStatus::from_byte(fields.flags.0);
        Object::Commanded { point_type, index, value, status, stamp }
    };
    Some(match (layout.object.group, value) {
        (13, value) => command(PointType::BinaryOutput, value),
        (43, value) => command(PointType::AnalogOutput, value),
        (34, Measured::Count(value)) => Object::DeadBand { index, value: value.into() },
        (34, Measured::Analog(value)) => Object::DeadBand { index, value },
        (group, Measured::Count(change)) => {
            Object::Delta { point_type: point_group(group)?.0, index, change, flags: fields.flags, stamp }
        }
        (_, Measured::Bit(_) | Measured::DoubleBit(_) | Measured::Analog(_) | Measured::Bytes(_)) => return None,
    })
}
