//! What an outstation says of itself: device attributes, group 0 (IEEE 1815 A.1).

use super::application::Application;
use super::config::OutstationConfig;
use super::controls::OutstationEvent;
use super::database::Database;
use crate::app::{
    ALL_ATTRIBUTES, ATTRIBUTE_BYTES_MAX, Attribute, AttributeValue, Header, LIST_OF_ATTRIBUTES, ListedAttribute,
};
use crate::{Iin, PointType};
use alloc::vec::Vec;

/// The attributes that an outstation tells: those given here, and in set 0 what follows from its points and its
/// configuration (216 and 219 to 241), unless given here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceAttributes {
    /// By set and variation.
    stored: Vec<Stored>,
}

#[derive(Clone, Debug, PartialEq)]
struct Stored {
    set: u16,
    variation: u8,
    writable: bool,
    value: AttributeValue,
}

impl DeviceAttributes {
    /// Only what follows from points and configuration.
    #[must_use]
    pub const fn new() -> Self {
        Self { stored: Vec::new() }
    }

    /// The same with an attribute that masters may read.
    #[must_use]
    pub fn with(mut self, variation: u8, value: AttributeValue) -> Self {
        self.set(Attribute { set: 0, variation, value }, false);
        self
    }

    /// The same with an attribute that masters may read and write. What is written has the type of what is given.
    #[must_use]
    pub fn with_writable(mut self, variation: u8, value: AttributeValue) -> Self {
        self.set(Attribute { set: 0, variation, value }, true);
        self
    }

    /// Gives an attribute a value and says whether it can be had: variations 1 to 253, values up to 255 bytes.
    pub fn set(&mut self, attribute: Attribute, writable: bool) -> bool {
        let Attribute { set, variation, value } = attribute;
        if !(1..ALL_ATTRIBUTES).contains(&variation) || !fits(&value) {
            return false;
        }
        let stored = Stored { set, variation, writable, value };
        match self.find(set, variation) {
            Ok(at) => self.stored.get_mut(at).into_iter().for_each(|place| *place = stored.clone()),
            Err(at) => self.stored.insert(at, stored),
        }
        true
    }

    /// The value of an attribute that was given or written; none for those that follow from the points.
    #[must_use]
    pub fn get(&self, set: u16, variation: u8) -> Option<&AttributeValue> {
        self.stored(set, variation).map(|stored| &stored.value)
    }

    /// The sets that there are, in order; set 0 always is.
    pub fn sets(&self) -> impl Iterator<Item = u16> {
        let mut last = 0;
        core::iter::once(0).chain(self.stored.iter().filter_map(move |stored| {
            let is_next = stored.set != last;
            last = stored.set;
            is_next.then_some(stored.set)
        }))
    }

    fn stored(&self, set: u16, variation: u8) -> Option<&Stored> {
        self.find(set, variation).ok().and_then(|at| self.stored.get(at))
    }

    fn find(&self, set: u16, variation: u8) -> Result<usize, usize> {
        self.stored.binary_search_by_key(&(set, variation), |stored| (stored.set, stored.variation))
    }
}

/// Whether a value fits the length byte of its object.
fn fits(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::Text(bytes)
        | AttributeValue::Bytes(bytes)
        | AttributeValue::Bits(bytes)
        | AttributeValue::Unicode(bytes)
        | AttributeValue::Unknown { bytes, .. } => bytes.len() <= ATTRIBUTE_BYTES_MAX,
        AttributeValue::List(_) => false,
        AttributeValue::Unsigned(_)
        | AttributeValue::Signed(_)
        | AttributeValue::Float(_)
        | AttributeValue::Time(_) => true,
    }
}

/// What is told: what was given, and what follows from points and configuration.
pub(super) struct Attributes<'d> {
    pub(super) stored: &'d DeviceAttributes,
    pub(super) database: &'d Database,
    pub(super) config: &'d OutstationConfig,
}

impl Attributes<'_> {
    /// Whether a set has what a read asks for.
    pub(super) fn has(&self, set: u16, asked: u8) -> bool {
        match asked {
            0 => false,
            ALL_ATTRIBUTES | LIST_OF_ATTRIBUTES => true,
            _ => self.get(set, asked).is_some(),
        }
    }

    /// The attributes of a set that a read asks for, by variation.
    pub(super) fn of_set(&self, set: u16, asked: u8) -> Vec<(u8, AttributeValue)> {
        let all = || (1..ALL_ATTRIBUTES).filter_map(|variation| Some((variation, self.get(set, variation)?)));
        match asked {
            ALL_ATTRIBUTES => all().collect(),
            LIST_OF_ATTRIBUTES => {
                let writable = |variation| self.stored.stored(set, variation).is_some_and(|stored| stored.writable);
                let listed = all()
                    .map(|(variation, _)| ListedAttribute { variation, properties: u8::from(writable(variation)) });
                [(LIST_OF_ATTRIBUTES, AttributeValue::List(listed.collect()))].into()
            }
            _ => self.get(set, asked).map(|value| (asked, value)).into_iter().collect(),
        }
    }

    fn get(&self, set: u16, variation: u8) -> Option<AttributeValue> {
        match self.stored.get(set, variation) {
            Some(value) => Some(value.clone()),
            None if set == 0 => self.follows(variation),
            None => None,
        }
    }

    /// What follows from points and configuration.
    fn follows(&self, variation: u8) -> Option<AttributeValue> {
        Some(match variation {
            216 => AttributeValue::Unsigned(self.config.controls_max.into()),
            219 => self.events(PointType::AnalogOutput),
            220 => self.index_max(PointType::AnalogOutput)?,
            221 => self.count(PointType::AnalogOutput),
            222 => self.events(PointType::BinaryOutput),
            223 => self.index_max(PointType::BinaryOutput)?,
            224 => self.count(PointType::BinaryOutput),
            225 => self.events(PointType::FrozenCounter),
            226 => self.has_points(PointType::FrozenCounter),
            227 => self.events(PointType::Counter),
            228 => self.index_max(PointType::Counter)?,
            229 => self.count(PointType::Counter),
            230 => self.has_points(PointType::FrozenAnalog),
            231 => self.events(PointType::Analog),
            232 => self.index_max(PointType::Analog)?,
            233 => self.count(PointType::Analog),
            234 => self.events(PointType::DoubleBit),
            235 => self.index_max(PointType::DoubleBit)?,
            236 => self.count(PointType::DoubleBit),
            237 => self.events(PointType::Binary),
            238 => self.index_max(PointType::Binary)?,
            239 => self.count(PointType::Binary),
            240 => AttributeValue::Unsigned(super::transmit::bytes_max(self.config).into()),
            241 => AttributeValue::Unsigned(self.config.fragment_bytes_received_max.into()),
            _ => return None,
        })
    }

    fn count(&self, point_type: PointType) -> AttributeValue {
        AttributeValue::Unsigned(u64::try_from(self.database.count(point_type)).unwrap_or(u64::MAX))
    }

    /// The highest index; none where there is no point.
    fn index_max(&self, point_type: PointType) -> Option<AttributeValue> {
        let last = self.database.slots(point_type).next_back()?;
        self.database.point(last).map(|point| AttributeValue::Unsigned(point.index.into()))
    }

    fn has_points(&self, point_type: PointType) -> AttributeValue {
        AttributeValue::Signed(i64::from(self.database.count(point_type) > 0))
    }

    /// 1 where events of the type are kept, 0 where not.
    fn events(&self, point_type: PointType) -> AttributeValue {
        let kept = self.config.event_limits.of(point_type) > 0;
        AttributeValue::Signed(i64::from(kept && self.database.count(point_type) > 0))
    }
}

impl Application {
    /// Writes attributes: those that are there, can be written, and have the type that is written; others are IIN2.2.
    pub(super) fn write_attributes(&mut self, header: &Header<'_>) -> Iin {
        let Some(attributes) = self.extras.as_mut().and_then(|extras| extras.attributes.as_mut()) else {
            return Iin::OBJECT_UNKNOWN;
        };
        let (mut iin, mut written) = (Iin::NONE, Vec::new());
        for attribute in header.attributes() {
            let known = attributes.stored(attribute.set, attribute.variation);
            let fits =
                known.is_some_and(|stored| stored.writable && stored.value.type_name() == attribute.value.type_name());
            if fits && attributes.set(attribute.clone(), true) {
                written.push(attribute);
            } else {
                iin = Iin::PARAMETER_ERROR;
            }
        }
        if header.data().is_empty() {
            iin = Iin::PARAMETER_ERROR;
        }
        for attribute in written {
            self.tell_if_room(OutstationEvent::AttributeWritten(attribute));
        }
        iin
    }
}
