//! What a device says of itself before it is read: what it takes, which services it has.

use crate::client::{Failure, PeerLimits};
use crate::names::{ConfirmedService, Segmentation};
use crate::{BitString, INSTANCE_ANY, ObjectId, PropertyId, PropertyRef, Value};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A device, as its device object describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its instance, unique in a site.
    pub instance: u32,
    /// What it takes.
    pub limits: PeerLimits,
    /// `protocol-services-supported`; none where it does not say.
    pub services: Option<BitString>,
    /// Its vendor's number.
    pub vendor_id: Option<u32>,
    /// Its vendor's name; empty where it does not say, as the other words.
    pub vendor: Box<str>,
    /// Its model.
    pub model: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its firmware.
    pub firmware: Box<str>,
    /// The revision of the standard that it follows.
    pub revision: Option<u32>,
}

/// What is asked, in this order: what says how the rest may be asked is first.
const ASKED: [PropertyId; 10] = [
    PropertyId::OBJECT_IDENTIFIER,
    PropertyId::MAX_APDU_LENGTH_ACCEPTED,
    PropertyId::PROTOCOL_SERVICES_SUPPORTED,
    PropertyId::SEGMENTATION_SUPPORTED,
    PropertyId::MAX_SEGMENTS_ACCEPTED,
    PropertyId::VENDOR_IDENTIFIER,
    PropertyId::VENDOR_NAME,
    PropertyId::MODEL_NAME,
    PropertyId::OBJECT_NAME,
    PropertyId::FIRMWARE_REVISION,
];
/// The places of the longest message and of the services in it.
const MAX_APDU_AT: usize = 1;
const SERVICES_AT: usize = 2;
/// What is asked besides, and its place.
const REVISION: PropertyId = PropertyId::PROTOCOL_REVISION;

impl Profile {
    /// The references that a device of this instance, or of any, is asked for.
    pub(super) fn references(instance: Option<u32>) -> Vec<PropertyRef> {
        let device = ObjectId::device(instance.unwrap_or(INSTANCE_ANY));
        ASKED.iter().chain([&REVISION]).map(|property| PropertyRef::new(device, *property)).collect()
    }

    /// The longest message of a device that says that it has ReadPropertyMultiple, once it has said both; `value` is what it said
    /// in each place. No more than is expected of any device, for it has not said all.
    pub(super) fn reads_multiple_of<'a>(value: impl Fn(usize) -> Option<&'a Value>) -> Option<u16> {
        let Some(Value::BitString(services)) = value(SERVICES_AT) else { return None };
        let max_apdu = value(MAX_APDU_AT).and_then(Value::as_u32).and_then(|bytes| u16::try_from(bytes).ok())?;
        let is_offered = services.bit(ConfirmedService::READ_PROPERTY_MULTIPLE.0.into());
        is_offered.then_some(max_apdu.clamp(50, PeerLimits::default().max_apdu))
    }

    /// The profile in the answers. A device must say who it is, all else may be absent.
    pub(super) fn of(results: &[(PropertyRef, Result<Value, Failure>)]) -> Result<Self, Failure> {
        let value =
            |property| results.iter().find(|(reference, _)| reference.property == property).map(|(_, value)| value);
        let found = |property| value(property).and_then(|value| value.as_ref().ok());
        let number = |property| found(property).and_then(Value::as_u32);
        let words = |property| found(property).and_then(Value::as_str).unwrap_or_default().into();
        let instance = match value(PropertyId::OBJECT_IDENTIFIER) {
            Some(Ok(Value::ObjectId(device))) => device.instance(),
            Some(Err(failure)) => return Err(*failure),
            Some(Ok(_)) | None => return Err(Failure::Malformed),
        };
        let services = match found(PropertyId::PROTOCOL_SERVICES_SUPPORTED) {
            Some(Value::BitString(bits)) => Some(*bits),
            _ => None,
        };
        let defaults = PeerLimits::default();
        let narrow = |number: Option<u32>| number.map(|number| u16::try_from(number).unwrap_or(u16::MAX));
        let limits = PeerLimits {
            max_apdu: narrow(number(PropertyId::MAX_APDU_LENGTH_ACCEPTED)).unwrap_or(defaults.max_apdu).clamp(50, 1476),
            segmentation: number(PropertyId::SEGMENTATION_SUPPORTED).map_or(defaults.segmentation, Segmentation),
            max_segments: narrow(number(PropertyId::MAX_SEGMENTS_ACCEPTED)).filter(|segments| *segments > 0),
            in_flight: None,
        };
        Ok(Self {
            instance,
            limits,
            services,
            vendor_id: number(PropertyId::VENDOR_IDENTIFIER),
            vendor: words(PropertyId::VENDOR_NAME),
            model: words(PropertyId::MODEL_NAME),
            name: words(PropertyId::OBJECT_NAME),
            firmware: words(PropertyId::FIRMWARE_REVISION),
            revision: number(REVISION),
        })
    }

    /// Whether the device says that it has a service; true where it does not say.
    #[must_use]
    pub fn has_service(&self, service: ConfirmedService) -> bool {
        // The bits are numbered as the services are, up to 26 (`BACnetServicesSupported`).
        let place = match service.0 {
            26 => 35,
            27 => 37,
            28 => 38,
            29 => 39,
            place => usize::from(place),
        };
        self.services.is_none_or(|services| services.bit(place))
    }
}
