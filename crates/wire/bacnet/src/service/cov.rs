//! SubscribeCOV and the notifications of changed values (clauses 13.1, 13.6, 13.7, 13.14).

use super::read::{emit_property, property};
use crate::names::PropertyId;
use crate::tag::{Reader, Write};
use crate::{Decoded, ObjectId, Value};
use alloc::vec::Vec;
use core::time::Duration;

/// Asks for notifications about an object, or for their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The subscriber's own number, which comes back in notifications.
    pub process: u32,
    /// The object.
    pub object: ObjectId,
    /// Whether notifications are to be confirmed, and for how many seconds they are wanted, 0 for ever. None ends it.
    pub wanted: Option<(bool, u32)>,
}

impl Subscription {
    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.context_number(0, u64::from(self.process));
        out.context(1, &self.object.bits().to_be_bytes());
        if let Some((confirmed, seconds)) = self.wanted {
            out.context(2, &[u8::from(confirmed)]);
            out.context_number(3, u64::from(seconds));
        }
    }

    /// Reads the parameters.
    ///
    /// # Errors
    /// Process or object is absent.
    pub fn parse(parameters: &[u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let process = reader.context_number(0, "the process of the subscriber")?;
        let object = ObjectId::from_bytes(reader.context(1, "an object identifier")?)?;
        let confirmed = reader.context_boolean_if(2)?;
        let seconds = reader.context_number_if(3, "the lifetime")?;
        reader.end()?;
        let wanted =
            (confirmed.is_some() || seconds.is_some()).then(|| (confirmed.unwrap_or(false), seconds.unwrap_or(0)));
        Ok(Self { process, object, wanted })
    }
}

/// Values of an object that have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// The number that the subscriber gave.
    pub process: u32,
    /// The device that notifies.
    pub device: ObjectId,
    /// The object.
    pub object: ObjectId,
    /// How long the subscription lasts yet; zero where it has no end.
    pub remaining: Duration,
    /// The values: see [`Notification::values`].
    pub list: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Reads the parameters.
    ///
    /// # Errors
    /// One is absent.
    pub fn parse(parameters: &'a [u8]) -> Decoded<Self> {
        let mut reader = Reader::new(parameters);
        let process = reader.context_number(0, "the process of the subscriber")?;
        let device = ObjectId::from_bytes(reader.context(1, "the device")?)?;
        let object = ObjectId::from_bytes(reader.context(2, "the object")?)?;
        let seconds: u32 = reader.context_number(3, "the time that remains")?;
        let list = reader.enclosed(4, "a list of values")?;
        reader.end()?;
        Ok(Self { process, device, object, remaining: Duration::from_secs(u64::from(seconds)), list })
    }

    /// Appends the parameters.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.context_number(0, u64::from(self.process));
        out.context(1, &self.device.bits().to_be_bytes());
        out.context(2, &self.object.bits().to_be_bytes());
        out.context_number(3, self.remaining.as_secs());
        out.opening(4);
        out.extend_from_slice(self.list);
        out.closing(4);
    }

    /// Each property with its index and its value.
    ///
    /// # Errors
    /// The list is none.
    pub fn values(&self) -> Decoded<Vec<(PropertyId, Option<u32>, Value)>> {
        let mut reader = Reader::new(self.list);
        let mut values = Vec::with_capacity(2);
        while !reader.is_empty() {
            let (property, index) = property(0, &mut reader)?;
            let value = Value::decode(reader.enclosed(2, "a value")?)?;
            reader.context_if(3)?;
            values.push((property, index, value));
        }
        Ok(values)
    }

    /// Appends one value to a list.
    pub fn emit_value(property: PropertyId, value: &Value, list: &mut Vec<u8>) {
        emit_property(0, property, None, list);
        list.opening(2);
        value.encode(list);
        list.closing(2);
    }
}
