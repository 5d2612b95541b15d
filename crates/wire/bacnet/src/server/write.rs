//! What clients may write.

use super::properties::{INVALID_INDEX, UNKNOWN_OBJECT, UNKNOWN_PROPERTY};
use super::{Server, ServerEvent};
use crate::names::{ErrorClass, ErrorCode};
use crate::service::{PRIORITY_LOWEST, Write};
use crate::{ObjectId, Peer, PropertyId, ServiceError, Value};
use tieline_core::Now;

const fn of_property(code: ErrorCode) -> ServiceError {
    ServiceError::new(ErrorClass::PROPERTY, code)
}

impl Server {
    pub(super) fn write(&mut self, now: Now, peer: Peer, write: Write) -> Result<(), ServiceError> {
        let id = write.reference.object;
        if self.events.len() >= self.config.events_max {
            return Err(ServiceError::new(ErrorClass::DEVICE, ErrorCode::DEVICE_BUSY));
        }
        self.set_property(&write)?;
        self.notify(now, id);
        let Write { reference, value, priority } = write;
        self.events.push_back(ServerEvent::Written { peer, reference, value, priority });
        Ok(())
    }

    fn set_property(&mut self, write: &Write) -> Result<(), ServiceError> {
        let (id, property) = (write.reference.object, write.reference.property);
        let denied = Err(of_property(ErrorCode::WRITE_ACCESS_DENIED));
        if id == self.device() {
            let exists = self.properties(id, PropertyId::ALL)?.contains(&property);
            return if exists { denied } else { Err(UNKNOWN_PROPERTY) };
        }
        let exists = self.properties(id, PropertyId::ALL)?.contains(&property);
        let object = self.objects.get_mut(&id).ok_or(UNKNOWN_OBJECT)?;
        let invalid = || of_property(ErrorCode::INVALID_DATA_TYPE);
        match property {
            _ if !exists => Err(UNKNOWN_PROPERTY),
            PropertyId::PRIORITY_ARRAY => denied,
            _ if write.reference.index.is_some() => Err(INVALID_INDEX),
            PropertyId::PRESENT_VALUE => set_present_value(object, write),
            PropertyId::OUT_OF_SERVICE => {
                let Value::Boolean(out_of_service) = write.value else { return Err(invalid()) };
                object.status.out_of_service = out_of_service;
                Ok(())
            }
            PropertyId::COV_INCREMENT => match write.value {
                Value::Real(increment) if increment >= 0.0 => {
                    object.cov_increment = increment;
                    Ok(())
                }
                Value::Real(_) => Err(of_property(ErrorCode::VALUE_OUT_OF_RANGE)),
                _ => Err(invalid()),
            },
            PropertyId::RELINQUISH_DEFAULT if !object.takes(&write.value) => Err(invalid()),
            PropertyId::RELINQUISH_DEFAULT if !object.allows(&write.value) => {
                Err(of_property(ErrorCode::VALUE_OUT_OF_RANGE))
            }
            PropertyId::RELINQUISH_DEFAULT => {
                object.set(write.value.clone());
                Ok(())
            }
            PropertyId::DESCRIPTION => {
                let Value::CharacterString(text) = &write.value else { return Err(invalid()) };
                object.description = text.clone();
                Ok(())
            }
            _ => denied,
        }
    }

    /// Takes a value back that a client has commanded, as a device does that is taken over on site.
    pub fn relinquish(&mut self, now: Now, object: ObjectId, priority: u8) {
        let slot = self.objects.get_mut(&object).and_then(|object| object.priorities.as_mut());
        let place = usize::from(priority).checked_sub(1);
        if let Some(slot) = slot.zip(place).and_then(|(slots, place)| slots.get_mut(place)) {
            *slot = None;
        }
        self.notify(now, object);
    }
}

fn set_present_value(object: &mut super::Object, write: &Write) -> Result<(), ServiceError> {
    if !object.writable && !object.status.out_of_service {
        return Err(of_property(ErrorCode::WRITE_ACCESS_DENIED));
    }
    let is_null = write.value == Value::Null;
    let takes = object.takes(&write.value) && object.allows(&write.value);
    let Some(priorities) = object.priorities.as_mut() else {
        if !takes || is_null {
            return Err(wrong_value(object, &write.value));
        }
        object.set(write.value.clone());
        return Ok(());
    };
    if !takes && !is_null {
        return Err(wrong_value(object, &write.value));
    }
    let place = usize::from(write.priority.unwrap_or(PRIORITY_LOWEST)).saturating_sub(1);
    if let Some(slot) = priorities.get_mut(place) {
        *slot = (!is_null).then(|| write.value.clone());
    }
    object.see(&write.value);
    Ok(())
}

fn wrong_value(object: &super::Object, value: &Value) -> ServiceError {
    let same_type = core::mem::discriminant(value) == core::mem::discriminant(&object.value);
    of_property(if same_type { ErrorCode::VALUE_OUT_OF_RANGE } else { ErrorCode::INVALID_DATA_TYPE })
}
