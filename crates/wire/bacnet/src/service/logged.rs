//! What a trend log logs (`BACnetDeviceObjectPropertyReference`, clause 21).

use super::PropertyRef;
use crate::names::PropertyId;
use crate::tag::unsigned;
use crate::{ObjectId, Value};
use alloc::vec::Vec;

/// A property, perhaps of another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedProperty {
    /// Which property.
    pub reference: PropertyRef,
    /// The device that has it, where it is not the one with the log.
    pub device: Option<ObjectId>,
}

impl LoggedProperty {
    /// Those in a value of `log-device-object-property`: one of a trend log, several of a trend log multiple. What is no
    /// reference is passed over.
    #[must_use]
    pub fn all_of(value: &Value) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut object = None;
        for part in value.as_list() {
            let Value::Context(number, bytes) = part else { continue };
            match (number, all.last_mut()) {
                (0, _) => object = ObjectId::from_bytes(bytes).ok(),
                (1, _) => {
                    let property = unsigned(bytes).ok().and_then(|number| u32::try_from(number).ok());
                    let of = object.take().zip(property);
                    let reference = of.map(|(object, property)| PropertyRef::new(object, PropertyId(property)));
                    all.extend(reference.map(|reference| Self { reference, device: None }));
                }
                (2, Some(last)) if object.is_none() => {
                    last.reference.index = unsigned(bytes).ok().and_then(|index| u32::try_from(index).ok());
                }
                (3, Some(last)) if object.is_none() => last.device = ObjectId::from_bytes(bytes).ok(),
                _ => {}
            }
        }
        all
    }

    /// The value that stands for it.
    #[must_use]
    pub fn to_value(self) -> Value {
        let number = |number: u32| crate::tag::significant(&u64::from(number).to_be_bytes()).into();
        let object = |object: ObjectId| object.bits().to_be_bytes().into();
        let PropertyRef { object: logged, property, index } = self.reference;
        let mut parts = alloc::vec![Value::Context(0, object(logged)), Value::Context(1, number(property.0))];
        parts.extend(index.map(|index| Value::Context(2, number(index))));
        parts.extend(self.device.map(|device| Value::Context(3, object(device))));
        Value::List(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logged() -> impl Strategy<Value = LoggedProperty> {
        let parts = (any::<u32>(), any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>());
        parts.prop_map(|(object, property, index, device)| LoggedProperty {
            reference: PropertyRef { object: ObjectId::from_bits(object), property: PropertyId(property), index },
            device: device.map(ObjectId::from_bits),
        })
    }

    proptest! {
        #[test]
        fn references_are_read_as_they_were_written(all in prop::collection::vec(logged(), 1..5)) {
            let parts = all.iter().flat_map(|logged| logged.to_value().into_list()).collect();
            let mut bytes = Vec::new();
            Value::List(parts).encode(&mut bytes);
            prop_assert_eq!(LoggedProperty::all_of(&Value::decode(&bytes).unwrap()), all);
        }

        #[test]
        fn any_value_is_survived(bytes: Vec<u8>) {
            if let Ok(value) = Value::decode(&bytes) {
                prop_assert!(LoggedProperty::all_of(&value).len() <= bytes.len());
            }
        }
    }
}
