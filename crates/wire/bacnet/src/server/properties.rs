//! Which properties objects have, and what they are.

use super::{Object, Server};
use crate::names::{ConfirmedService, ErrorClass, ErrorCode, Reliability};
use crate::{BitString, DateTime, ObjectId, ObjectType, PropertyId, ServiceError, Value};
use alloc::vec::Vec;
use tieline_core::Now;

type P = PropertyId;

const DEVICE: [PropertyId; 24] = [
    P::OBJECT_IDENTIFIER,
    P::OBJECT_NAME,
    P::OBJECT_TYPE,
    P::SYSTEM_STATUS,
    P::VENDOR_NAME,
    P::VENDOR_IDENTIFIER,
    P::MODEL_NAME,
    P::FIRMWARE_REVISION,
    P::APPLICATION_SOFTWARE_VERSION,
    P::PROTOCOL_VERSION,
    P::PROTOCOL_REVISION,
    P::PROTOCOL_SERVICES_SUPPORTED,
    P::PROTOCOL_OBJECT_TYPES_SUPPORTED,
    P::OBJECT_LIST,
    P::MAX_APDU_LENGTH_ACCEPTED,
    P::SEGMENTATION_SUPPORTED,
    P::APDU_SEGMENT_TIMEOUT,
    P::APDU_TIMEOUT,
    P::NUMBER_OF_APDU_RETRIES,
    P::DEVICE_ADDRESS_BINDING,
    P::DATABASE_REVISION,
    P::LOCAL_DATE,
    P::LOCAL_TIME,
    P::UTC_OFFSET,
];

const POINT: [PropertyId; 7] = [
    P::OBJECT_IDENTIFIER,
    P::OBJECT_NAME,
    P::OBJECT_TYPE,
    P::PRESENT_VALUE,
    P::STATUS_FLAGS,
    P::EVENT_STATE,
    P::OUT_OF_SERVICE,
];

const LOG: [PropertyId; 10] = [
    P::OBJECT_IDENTIFIER,
    P::OBJECT_NAME,
    P::OBJECT_TYPE,
    P::STATUS_FLAGS,
    P::EVENT_STATE,
    P::ENABLE,
    P::STOP_WHEN_FULL,
    P::BUFFER_SIZE,
    P::RECORD_COUNT,
    P::TOTAL_RECORD_COUNT,
];

pub(super) const UNKNOWN_OBJECT: ServiceError = ServiceError::new(ErrorClass::OBJECT, ErrorCode::UNKNOWN_OBJECT);
pub(super) const UNKNOWN_PROPERTY: ServiceError = ServiceError::new(ErrorClass::PROPERTY, ErrorCode::UNKNOWN_PROPERTY);
pub(super) const INVALID_INDEX: ServiceError = ServiceError::new(ErrorClass::PROPERTY, ErrorCode::INVALID_ARRAY_INDEX);
const NO_ARRAY: ServiceError = ServiceError::new(ErrorClass::PROPERTY, ErrorCode::PROPERTY_IS_NOT_AN_ARRAY);

/// The revision of the standard that the server follows.
const REVISION: u64 = 22;

impl Server {
    /// The properties of an object that `all`, `required` or `optional` stand for.
    pub(super) fn properties(&self, object: ObjectId, which: PropertyId) -> Result<Vec<PropertyId>, ServiceError> {
        let (required, optional): (&[PropertyId], Vec<PropertyId>) = if object == self.device() {
            (&DEVICE, alloc::vec![P::DESCRIPTION, P::MAX_SEGMENTS_ACCEPTED, P::PROPERTY_LIST])
        } else {
            let object = self.objects.get(&object).ok_or(UNKNOWN_OBJECT)?;
            (if object.log.is_some() { &LOG } else { &POINT }, optional(object))
        };
        let optional = optional.into_iter();
        Ok(match which {
            P::REQUIRED => required.to_vec(),
            P::OPTIONAL => optional.collect(),
            _ => required.iter().copied().chain(optional).collect(),
        })
    }

    /// The value of a property, or of an element of it.
    pub(super) fn property(
        &self,
        now: Now,
        object: ObjectId,
        property: PropertyId,
        index: Option<u32>,
    ) -> Result<Value, ServiceError> {
        if object == self.device() {
            if property == P::OBJECT_LIST && index.is_some() {
                return self.object_list_element(index.unwrap_or(0));
            }
            return element(self.device_property(now, property)?, property, index);
        }
        let object = self.objects.get(&object).ok_or(UNKNOWN_OBJECT)?;
        if property == P::PROPERTY_LIST {
            return element(self.property_list(object.id)?, property, index);
        }
        element(object_property(object, property)?, property, index)
    }

    fn object_list_element(&self, index: u32) -> Result<Value, ServiceError> {
        match index {
            0 => Ok(unsigned(self.objects.len() + 1)),
            1 => Ok(Value::ObjectId(self.device())),
            index => {
                let place = usize::try_from(index - 2).unwrap_or(usize::MAX);
                self.objects.keys().nth(place).map(|object| Value::ObjectId(*object)).ok_or(INVALID_INDEX)
            }
        }
    }

    fn property_list(&self, object: ObjectId) -> Result<Value, ServiceError> {
        // The list leaves out what every object has (clause 12.1.1.4).
        let is_listed = |property: &PropertyId| {
            ![P::OBJECT_IDENTIFIER, P::OBJECT_NAME, P::OBJECT_TYPE, P::PROPERTY_LIST].contains(property)
        };
        let properties = self.properties(object, P::ALL)?;
        Ok(Value::List(
            properties.into_iter().filter(is_listed).map(|property| Value::Enumerated(property.0)).collect(),
        ))
    }

    fn device_property(&self, now: Now, property: PropertyId) -> Result<Value, ServiceError> {
        let config = &self.config;
        let millis = |time: core::time::Duration| Value::Unsigned(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let local = || DateTime::from_timestamp(now.utc, config.utc_offset_minutes);
        Ok(match property {
            P::OBJECT_IDENTIFIER => Value::ObjectId(self.device()),
            P::OBJECT_NAME => config.name.as_str().into(),
            P::OBJECT_TYPE => Value::Enumerated(u32::from(ObjectType::DEVICE.0)),
            P::SYSTEM_STATUS => Value::Enumerated(0),
            P::VENDOR_NAME => config.vendor.as_str().into(),
            P::VENDOR_IDENTIFIER => Value::Unsigned(u64::from(config.vendor_id)),
            P::MODEL_NAME | P::DESCRIPTION => config.model.as_str().into(),
            P::FIRMWARE_REVISION | P::APPLICATION_SOFTWARE_VERSION => config.firmware.as_str().into(),
            P::PROTOCOL_VERSION => Value::Unsigned(1),
            P::PROTOCOL_REVISION => Value::Unsigned(REVISION),
            P::PROTOCOL_SERVICES_SUPPORTED => Value::BitString(self.services()),
            P::PROTOCOL_OBJECT_TYPES_SUPPORTED => Value::BitString(object_types()),
            P::OBJECT_LIST => {
                let objects = core::iter::once(self.device()).chain(self.objects.keys().copied());
                Value::List(objects.map(Value::ObjectId).collect())
            }
            P::MAX_APDU_LENGTH_ACCEPTED => Value::Unsigned(u64::from(config.max_apdu)),
            P::SEGMENTATION_SUPPORTED => Value::Enumerated(config.segmentation.0),
            P::MAX_SEGMENTS_ACCEPTED => unsigned(config.message_bytes_max / usize::from(config.max_apdu).max(1)),
            P::APDU_SEGMENT_TIMEOUT => millis(config.segment_timeout),
            P::APDU_TIMEOUT => millis(config.apdu_timeout),
            P::NUMBER_OF_APDU_RETRIES => Value::Unsigned(u64::from(config.retries)),
            P::DEVICE_ADDRESS_BINDING => Value::List(Vec::new()),
            P::DATABASE_REVISION => Value::Unsigned(1),
            P::LOCAL_DATE => Value::Date(local().date),
            P::LOCAL_TIME => Value::Time(local().time),
            // The standard counts west of Greenwich (clause 12.11.26).
            P::UTC_OFFSET => Value::Signed(-i64::from(config.utc_offset_minutes)),
            P::PROPERTY_LIST => self.property_list(self.device())?,
            _ => return Err(UNKNOWN_PROPERTY),
        })
    }

    fn services(&self) -> BitString {
        let mut services = BitString::new(&[false; 41]);
        let confirmed = [
            ConfirmedService::SUBSCRIBE_COV,
            ConfirmedService::READ_PROPERTY,
            ConfirmedService::WRITE_PROPERTY,
            ConfirmedService::WRITE_PROPERTY_MULTIPLE,
        ];
        confirmed.iter().for_each(|service| services.set(usize::from(service.0), true));
        services.set(usize::from(ConfirmedService::READ_PROPERTY_MULTIPLE.0), self.config.reads_multiple);
        // Time synchronization, Who-Has, Who-Is, ReadRange, UTC time synchronization (`BACnetServicesSupported`).
        [32, 33, 34, 35, 36].into_iter().for_each(|place| services.set(place, true));
        services
    }
}

fn optional(object: &Object) -> Vec<PropertyId> {
    let of_value = object.log.is_none();
    let object_type = object.id.object_type();
    [
        (true, P::DESCRIPTION),
        (of_value, P::RELIABILITY),
        (object.units.is_some(), P::UNITS),
        (of_value && object_type.is_analog(), P::COV_INCREMENT),
        (object.limits.is_some(), P::MIN_PRES_VALUE),
        (object.limits.is_some(), P::MAX_PRES_VALUE),
        (object_type.is_multi_state(), P::NUMBER_OF_STATES),
        (object_type.is_multi_state() && !object.states.is_empty(), P::STATE_TEXT),
        (object_type.is_binary(), P::POLARITY),
        (object_type.is_binary() && object.states.len() == 2, P::INACTIVE_TEXT),
        (object_type.is_binary() && object.states.len() == 2, P::ACTIVE_TEXT),
        (object.priorities.is_some(), P::PRIORITY_ARRAY),
        (object.priorities.is_some(), P::RELINQUISH_DEFAULT),
        (object.priorities.is_some(), P::CURRENT_COMMAND_PRIORITY),
        (true, P::PROPERTY_LIST),
    ]
    .into_iter()
    .filter_map(|(has, property)| has.then_some(property))
    .collect()
}

fn object_property(object: &Object, property: PropertyId) -> Result<Value, ServiceError> {
    let always = match property {
        P::OBJECT_IDENTIFIER => Value::ObjectId(object.id),
        P::OBJECT_NAME => Value::CharacterString(object.name.clone()),
        P::OBJECT_TYPE => Value::Enumerated(u32::from(object.id.object_type().0)),
        P::DESCRIPTION => Value::CharacterString(object.description.clone()),
        P::STATUS_FLAGS => Value::BitString(object.status.bits()),
        P::EVENT_STATE => Value::Enumerated(0),
        _ => {
            return if object.log.is_some() {
                log_property(object, property)
            } else {
                point_property(object, property)
            };
        }
    };
    Ok(always)
}

fn point_property(object: &Object, property: PropertyId) -> Result<Value, ServiceError> {
    let object_type = object.id.object_type();
    let text = |place: usize| object.states.get(place).cloned().map(Value::CharacterString).ok_or(UNKNOWN_PROPERTY);
    let priorities = || object.priorities.as_ref().ok_or(UNKNOWN_PROPERTY);
    Ok(match property {
        P::PRESENT_VALUE => object.present_value().clone(),
        P::OUT_OF_SERVICE => Value::Boolean(object.status.out_of_service),
        P::RELIABILITY if object.status.fault => Value::Enumerated(Reliability::UNRELIABLE_OTHER.0),
        P::RELIABILITY => Value::Enumerated(Reliability::NO_FAULT_DETECTED.0),
        P::UNITS => Value::Enumerated(object.units.ok_or(UNKNOWN_PROPERTY)?.0),
        P::COV_INCREMENT if object_type.is_analog() => Value::Real(object.cov_increment),
        P::MIN_PRES_VALUE => Value::Real(object.limits.ok_or(UNKNOWN_PROPERTY)?.0),
        P::MAX_PRES_VALUE => Value::Real(object.limits.ok_or(UNKNOWN_PROPERTY)?.1),
        P::NUMBER_OF_STATES if object_type.is_multi_state() => Value::Unsigned(object.number_of_states()),
        P::STATE_TEXT if object_type.is_multi_state() => {
            Value::List(object.states.iter().cloned().map(Value::CharacterString).collect())
        }
        P::POLARITY if object_type.is_binary() => Value::Enumerated(0),
        P::INACTIVE_TEXT if object_type.is_binary() => text(0)?,
        P::ACTIVE_TEXT if object_type.is_binary() => text(1)?,
        P::PRIORITY_ARRAY => {
            Value::List(priorities()?.iter().map(|value| value.clone().unwrap_or(Value::Null)).collect())
        }
        P::RELINQUISH_DEFAULT => {
            priorities()?;
            object.value.clone()
        }
        P::CURRENT_COMMAND_PRIORITY => {
            priorities()?;
            object.priority().map_or(Value::Null, |(priority, _)| unsigned(priority))
        }
        _ => return Err(UNKNOWN_PROPERTY),
    })
}

fn log_property(object: &Object, property: PropertyId) -> Result<Value, ServiceError> {
    let log = object.log.as_ref().ok_or(UNKNOWN_PROPERTY)?;
    Ok(match property {
        P::ENABLE => Value::Boolean(true),
        P::STOP_WHEN_FULL => Value::Boolean(false),
        P::BUFFER_SIZE => unsigned(log.size),
        P::RECORD_COUNT => unsigned(log.records.len()),
        P::TOTAL_RECORD_COUNT => Value::Unsigned(u64::from(log.total)),
        // The buffer is read by ReadRange only (clause 12.25.14).
        P::LOG_BUFFER => return Err(ServiceError::new(ErrorClass::PROPERTY, ErrorCode::READ_ACCESS_DENIED)),
        _ => return Err(UNKNOWN_PROPERTY),
    })
}

/// The whole, or an element of what is an array.
fn element(value: Value, property: PropertyId, index: Option<u32>) -> Result<Value, ServiceError> {
    let Some(index) = index else { return Ok(value) };
    let is_array = [P::OBJECT_LIST, P::PRIORITY_ARRAY, P::STATE_TEXT, P::PROPERTY_LIST].contains(&property);
    match value {
        Value::List(values) if is_array && index == 0 => Ok(unsigned(values.len())),
        Value::List(mut values) if is_array => {
            let place = usize::try_from(index - 1).ok().filter(|place| *place < values.len()).ok_or(INVALID_INDEX)?;
            Ok(values.swap_remove(place))
        }
        _ => Err(NO_ARRAY),
    }
}

fn unsigned(count: usize) -> Value {
    Value::Unsigned(u64::try_from(count).unwrap_or(u64::MAX))
}

fn object_types() -> BitString {
    let types = [
        ObjectType::ANALOG_INPUT,
        ObjectType::ANALOG_OUTPUT,
        ObjectType::ANALOG_VALUE,
        ObjectType::BINARY_INPUT,
        ObjectType::BINARY_OUTPUT,
        ObjectType::BINARY_VALUE,
        ObjectType::DEVICE,
        ObjectType::MULTI_STATE_INPUT,
        ObjectType::MULTI_STATE_OUTPUT,
        ObjectType::MULTI_STATE_VALUE,
        ObjectType::TREND_LOG,
    ];
    let mut bits = BitString::new(&[false; 65]);
    types.iter().for_each(|object_type| bits.set(usize::from(object_type.0), true));
    bits
}
