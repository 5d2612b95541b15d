//! Where the schema has what: one table for both ways.

use tieline_dnp3::PointType;

/// How a current value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `<value>5</value>`, and the key's value the same.
    Number,
    /// `<value>5000</value>`, and the key's value a duration.
    Millis,
    /// An empty element for true, another one for false.
    Words(&'static str, &'static str),
    /// `<value>text</value>`, an attribute of the device.
    Text,
}

/// Below `referenceDevice/configuration`: section, element, key of an outstation's file, form.
pub(super) const STATION: [(&str, &str, &str, Form); 17] = [
    ("deviceConfig", "vendorName", "manufacturer", Form::Text),
    ("deviceConfig", "deviceName", "product", Form::Text),
    ("deviceConfig", "hardwareVersion", "hardware_version", Form::Text),
    ("deviceConfig", "softwareVersion", "software_version", Form::Text),
    ("linkConfig", "dataLinkAddress", "address", Form::Number),
    ("linkConfig", "selfAddressSupport", "self_address", Form::Words("yes", "no")),
    ("applConfig", "maxObjectsInCROBControlRequest", "controls_max", Form::Number),
    ("outstationConfig", "applicationLayerConfirmTimeout", "confirm_timeout", Form::Millis),
    ("unsolicitedConfig", "supportsUnsolicitedReporting", "unsolicited", Form::Words("on", "off")),
    ("unsolicitedConfig", "masterDataLinkAddress", "master", Form::Number),
    ("unsolicitedConfig", "unsolicitedResponseConfirmationTimeout", "unsolicited_confirm_timeout", Form::Millis),
    ("unsolicitedConfig", "maxUnsolicitedRetries", "unsolicited_retries_max", Form::Number),
    ("unsolicitedResponseTriggerConditions", "holdTimeAfterAnyEvent", "unsolicited_hold_time", Form::Millis),
    ("fieldConfig", "outstationLocation", "location", Form::Text),
    ("fieldConfig", "outstationId", "id", Form::Text),
    ("fieldConfig", "outstationName", "name", Form::Text),
    ("fieldConfig", "deviceSerialNumber", "serial_number", Form::Text),
];

/// The device attributes of the text keys (group 0).
pub(super) const ATTRIBUTES: [(&str, u8); 8] = [
    ("manufacturer", 252),
    ("product", 250),
    ("hardware_version", 243),
    ("software_version", 242),
    ("location", 245),
    ("id", 246),
    ("name", 247),
    ("serial_number", 248),
];

/// Keys of an outstation's file without a place in the schema.
pub(super) const SETTINGS: [&str; 5] =
    ["select_timeout", "need_time_every", "events_max", "unsolicited_events_max", "lean"];

/// Keys of its points without a place in the schema.
pub(super) const POINT_SETTINGS: [&str; 9] =
    ["in_class_0", "static", "event", "dead_band", "command_class", "command", "value", "flags", "operate"];

/// The lists of points: type, list, point, the element of its event class.
pub(super) const LISTS: [(PointType, &str, &str, &str); 7] = [
    (PointType::Binary, "binaryInputPoints", "binaryInput", "changeEventClass"),
    (PointType::DoubleBit, "doubleBitInputPoints", "doubleBitInput", "changeEventClass"),
    (PointType::BinaryOutput, "binaryOutputPoints", "binaryOutput", "changeEventClass"),
    (PointType::Counter, "counterPoints", "counter", "counterEventClass"),
    (PointType::Analog, "analogInputPoints", "analogInput", "changeEventClass"),
    (PointType::AnalogOutput, "analogOutputPoints", "analogOutput", "changeEventClass"),
    (PointType::OctetString, "octetStringPoints", "octetString", "changeEventClass"),
];

/// The words for classes 0 (none) to 3.
pub(super) const CLASSES: [&str; 4] = ["none", "one", "two", "three"];
/// The namespace of our own elements in `userData`.
pub(super) const OURS: &str = "urn:tieline:device-profile";
/// The namespace that is written, and how all of them begin that are read.
pub(super) const NAMESPACE: &str = "http://www.dnp3.org/DNP3/DeviceProfile/April2016";
pub(super) const NAMESPACES: [&str; 2] =
    ["http://www.dnp3.org/DNP3/DeviceProfile/", "http://www.dnp.org/DNP3/DeviceProfile"];
