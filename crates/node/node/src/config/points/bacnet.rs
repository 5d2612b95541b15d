//! The columns of a point of a BACnet device.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `type` | the object type in the standard's words, as in `analog-input`, or its number | required |
//! | `index` | the instance, 0 to 4194302 | required |
//! | `property` | in the standard's words, as in `high-limit`, or its number | `present-value` |
//! | `array_index` | which element of an array | none |
//! | `every` | how often it is read, as in `1s` | as often as the device |
//! | `cov` | whether the device is asked to tell changes | as the device has it |
//! | `write_priority` | 1 to 16 | as the device has it |
//! | `trend_log` | the log in the device that has the point's past values: its instance, or `trend-log-multiple:3` | none |
//! | `writable` | `true`, `false` | `false` |

use super::list::{List, Row};
use super::{ControlConfig, PointAddress, Takes, ValueKind};
use tieline_bacnet::{ObjectId, ObjectType, PropertyId, PropertyRef};
use tieline_core::CommandMode;

/// The columns that not every protocol has.
pub(super) const COLUMNS: [&str; 6] = ["property", "array_index", "every", "cov", "write_priority", "trend_log"];

/// The greatest instance of an object.
const INSTANCE_MAX: u32 = 4_194_302;
/// The greatest number of an object type.
const TYPE_MAX: u16 = 1023;
/// The words of object types that most devices have.
const TYPES: &str = "an object type of BACnet such as analog-input, analog-output, analog-value, binary-input, binary-output, \
                     binary-value, multi-state-input, multi-state-output or multi-state-value, or its number up to 1023";

/// A point of a BACnet device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacnetPoint {
    /// Which property of which object.
    pub reference: PropertyRef,
    /// Whether the device is asked to tell changes; none: as it says itself.
    pub cov: Option<bool>,
    /// The priority of commands; none: that of the device.
    pub write_priority: Option<u8>,
    /// The trend log of the device that has its past values.
    pub trend_log: Option<ObjectId>,
    /// What is written; none where the point is only read.
    pub writes: Option<WriteAs>,
}

/// The data type of a value that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAs {
    /// A floating-point number of 32 bits.
    Real,
    /// One of 64 bits.
    Double,
    /// A number from 0.
    Unsigned,
    /// A whole number.
    Signed,
    /// One of a few by number, such as 0 inactive and 1 active.
    Enumerated,
    /// A truth value.
    Boolean,
}

impl BacnetPoint {
    /// The word of the column `type`, for people; a type without a name in the standard has none.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.reference.object.object_type().name().unwrap_or("vendor-object")
    }

    /// Whether the point can be subscribed to: SubscribeCOV is of whole objects, and tells their present value.
    #[must_use]
    pub fn is_present_value(&self) -> bool {
        self.reference.property == PropertyId::PRESENT_VALUE && self.reference.index.is_none()
    }

    /// Whether changes are to be told, at a device that says so itself or not.
    #[must_use]
    pub fn wants_cov(&self, device: bool) -> bool {
        self.is_present_value() && self.cov.unwrap_or(device)
    }
}

/// The object and the property of a row; none where one is wrong.
pub(super) fn read_place(list: &mut List<'_>, row: &Row<'_>) -> Option<BacnetPoint> {
    let object_type = list.cell(row, "type", TYPES, None, |s| {
        s.parse::<ObjectType>().ok().filter(|object_type| object_type.0 <= TYPE_MAX)
    });
    let instance = list.cell(row, "index", "an instance from 0 to 4194302", None, |s| {
        s.parse::<u32>().ok().filter(|instance| *instance <= INSTANCE_MAX)
    });
    let properties = "a property of BACnet such as present-value, high-limit or object-name, or its number";
    let property = list.cell(row, "property", properties, Some(PropertyId::PRESENT_VALUE), |s| {
        s.parse().ok().filter(|id| ![PropertyId::ALL, PropertyId::REQUIRED, PropertyId::OPTIONAL].contains(id))
    });
    let index = list.cell(row, "array_index", "a whole number", Some(None), |s| s.parse().ok().map(Some));
    let cov = list.cell(row, "cov", "true or false", Some(None), |s| s.parse().ok().map(Some));
    let write_priority = list.cell(row, "write_priority", "a priority from 1 (the highest) to 16", Some(None), |s| {
        s.parse::<u8>().ok().filter(|priority| (1..=16).contains(priority)).map(Some)
    });
    let logs = "the instance of a trend log, as in 7, or trend-log-multiple:7";
    let trend_log = list.cell(row, "trend_log", logs, Some(None), |s| parse_log(s).map(Some));
    let object = ObjectId::new(object_type?, instance?);
    let reference = PropertyRef { object, property: property?, index: index? };
    let point =
        BacnetPoint { reference, cov: cov?, write_priority: write_priority?, trend_log: trend_log?, writes: None };
    if point.cov == Some(true) && !point.is_present_value() {
        let expected = "false: devices tell changes of present-value only";
        list.report(row.line, "cov", "true".to_owned(), expected.to_owned());
        return None;
    }
    Some(point)
}

/// A trend log, by its instance or as an object.
fn parse_log(text: &str) -> Option<ObjectId> {
    let log = match text.parse() {
        Ok(instance) => ObjectId::new(ObjectType::TREND_LOG, instance),
        Err(_) => text.parse::<ObjectId>().ok()?,
    };
    let is_log = [ObjectType::TREND_LOG, ObjectType::TREND_LOG_MULTIPLE].contains(&log.object_type());
    let is_whole = text.parse::<u32>().map_or(true, |instance| instance <= INSTANCE_MAX);
    (is_log && is_whole && log.instance() <= INSTANCE_MAX).then_some(log)
}

/// The rest of a row; none where it is wrong.
pub(super) fn read_rest(
    list: &mut List<'_>,
    row: &Row<'_>,
    mut point: BacnetPoint,
) -> Option<(PointAddress, ValueKind, Option<ControlConfig>)> {
    let (kind, writes) = kind_of(&point.reference);
    let control = control(list, row, &point, (kind, writes))?;
    point.writes = control.as_ref().and(writes);
    Some((PointAddress::Bacnet(point), kind, control))
}

/// What a property is, and what is written to it; none of texts and lists, which cannot be commanded.
fn kind_of(reference: &PropertyRef) -> (ValueKind, Option<WriteAs>) {
    let of_value = value_of(reference.object.object_type());
    match reference.property {
        PropertyId::PRESENT_VALUE | PropertyId::RELINQUISH_DEFAULT => of_value,
        PropertyId::PRIORITY_ARRAY if reference.index.is_some_and(|index| index > 0) => (of_value.0, None),
        PropertyId::OUT_OF_SERVICE | PropertyId::DAYLIGHT_SAVINGS_STATUS | PropertyId::ENABLE => {
            (ValueKind::Bool, Some(WriteAs::Boolean))
        }
        PropertyId::HIGH_LIMIT
        | PropertyId::LOW_LIMIT
        | PropertyId::COV_INCREMENT
        | PropertyId::MIN_PRES_VALUE
        | PropertyId::MAX_PRES_VALUE => match of_value {
            (ValueKind::Int, Some(writes @ (WriteAs::Unsigned | WriteAs::Signed))) => (ValueKind::Int, Some(writes)),
            (_, Some(WriteAs::Double)) => (ValueKind::Float, Some(WriteAs::Double)),
            _ => (ValueKind::Float, Some(WriteAs::Real)),
        },
        PropertyId::AVERAGE_VALUE | PropertyId::MAXIMUM_VALUE | PropertyId::MINIMUM_VALUE => (ValueKind::Float, None),
        PropertyId::EVENT_STATE
        | PropertyId::RELIABILITY
        | PropertyId::UNITS
        | PropertyId::POLARITY
        | PropertyId::SYSTEM_STATUS
        | PropertyId::OBJECT_TYPE
        | PropertyId::NUMBER_OF_STATES
        | PropertyId::RECORD_COUNT
        | PropertyId::TOTAL_RECORD_COUNT
        | PropertyId::DATABASE_REVISION
        | PropertyId::VENDOR_IDENTIFIER => (ValueKind::Int, None),
        _ => (ValueKind::Text, None),
    }
}

/// The present value of an object type.
fn value_of(object_type: ObjectType) -> (ValueKind, Option<WriteAs>) {
    match object_type.name().unwrap_or_default() {
        "analog-input" | "analog-output" | "analog-value" | "loop" | "pulse-converter" | "lighting-output" => {
            (ValueKind::Float, Some(WriteAs::Real))
        }
        "large-analog-value" => (ValueKind::Float, Some(WriteAs::Double)),
        "binary-input" | "binary-output" | "binary-value" => (ValueKind::Bool, Some(WriteAs::Enumerated)),
        "multi-state-input"
        | "multi-state-output"
        | "multi-state-value"
        | "accumulator"
        | "positive-integer-value"
        | "command"
        | "staging" => (ValueKind::Int, Some(WriteAs::Unsigned)),
        "integer-value" => (ValueKind::Int, Some(WriteAs::Signed)),
        "binary-lighting-output" | "access-door" | "timer" => (ValueKind::Int, Some(WriteAs::Enumerated)),
        "color-temperature" => (ValueKind::Float, None),
        _ => (ValueKind::Text, None),
    }
}

/// The outer option is none where a cell is wrong.
#[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
fn control(
    list: &mut List<'_>,
    row: &Row<'_>,
    point: &BacnetPoint,
    (kind, writes): (ValueKind, Option<WriteAs>),
) -> Option<Option<ControlConfig>> {
    if !list.writable(row, false)? {
        if let Some(priority) = row.cell("write_priority") {
            let (found, expected) = (format!("{priority:?}"), "nothing, or writable = true".to_owned());
            list.report(row.line, "write_priority", found, expected);
            return None;
        }
        return Some(None);
    }
    let object_type = point.reference.object.object_type();
    let is_input = object_type.name().is_some_and(|name| name.ends_with("-input"));
    let refused = match writes.map(|writes| takes(writes, kind)) {
        _ if is_input && point.is_present_value() => "false: the present value of an input is measured",
        None => "false: only numbers and states can be commanded",
        Some(takes) => {
            let (min, max) = list.limits(row)?;
            let mode = CommandMode::DirectOperate;
            return Some(Some(ControlConfig { mode, has_select: false, takes, min, max, rules: Box::default() }));
        }
    };
    list.report(row.line, "writable", "true".to_owned(), refused.to_owned());
    None
}

/// A binary present value is enumerated and has two states.
fn takes(writes: WriteAs, kind: ValueKind) -> Takes {
    let whole = |low: f64, high: f64| Takes::Number { raw: low..=high, whole: true };
    match writes {
        WriteAs::Boolean | WriteAs::Enumerated if kind == ValueKind::Bool => Takes::Bool,
        WriteAs::Boolean => whole(0.0, 1.0),
        WriteAs::Enumerated => whole(0.0, f64::from(u16::MAX)),
        WriteAs::Real => Takes::Number { raw: f64::from(f32::MIN)..=f64::from(f32::MAX), whole: false },
        // A quarter, so that the width of the range is a number too.
        WriteAs::Double => Takes::Number { raw: f64::MIN / 4.0..=f64::MAX / 4.0, whole: false },
        WriteAs::Unsigned => whole(0.0, f64::from(u32::MAX)),
        WriteAs::Signed => whole(f64::from(i32::MIN), f64::from(i32::MAX)),
    }
}
